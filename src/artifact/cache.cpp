#include "artifact/cache.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/check.h"
#include "codegen/hash.h"
#include "codegen/target.h"

namespace tenon::artifact {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view entry_suffix = ".tenon", unfinished_suffix = ".new";
constexpr std::chrono::hours patience{1}; // with files that somebody may still be writing

// The file that this function was loaded from: its size, and when it was built.
std::string this_build() {
  static const std::string text = [] {
    Dl_info info;
    struct stat file;
    if (!dladdr(reinterpret_cast<const void*>(&this_build), &info) || stat(info.dli_fname, &file) != 0)
      if (stat("/proc/self/exe", &file) != 0) return std::string();
    return fmt::format("{} {}.{:09}", file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
  }();
  return text;
}

} // namespace

std::string cache_key(const std::string& fingerprint, const Options& o) {
  std::string build = this_build();
  if (fingerprint.empty() || build.empty()) return {};
  return fmt::format("{}\nbuild {}\n{}\nisa {} precision {} seed {} fallback {}", fingerprint, build, describe(host_target(o.isa)),
                     static_cast<int>(o.isa), static_cast<int>(o.precision), o.seed, !o.forbid_fallback);
}

std::string Cache::path_of(const std::string& key) const {
  uint64_t hash = hash_of(std::as_bytes(std::span(key.data(), key.size())));
  return fmt::format("{}/{:016x}{}", folder_, hash, entry_suffix);
}

std::optional<Loaded> Cache::find(const std::string& key, const Workers& workers) const {
  std::string path = path_of(key);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    Loaded found = load(path, workers);
    if (found.description.key == key) {
      fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
      return found;
    }
  } catch (const std::exception&) { // damaged: it is made again
  }
  fs::remove(path, ignored);
  return std::nullopt;
}

bool Cache::put(const Description& description, const LinkedPlan& linked) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  std::string path = path_of(description.key);
  try {
    write(path, description, linked);
  } catch (const std::exception&) {
    return false;
  }
  shrink(path);
  return true;
}

void Cache::shrink(const std::string& keep) const {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    uintmax_t bytes;
  };
  std::vector<Entry> entries;
  uintmax_t total = 0;
  std::error_code error;
  auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    Entry e{at->path(), at->last_write_time(gone), at->file_size(gone)};
    if (gone) continue;
    if (e.path.extension() == unfinished_suffix && now - e.used > patience) fs::remove(e.path, gone); // of a process that was killed
    if (e.path.extension() != entry_suffix) continue;
    total += e.bytes;
    if (e.path != keep) entries.push_back(std::move(e));
  }
  std::sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.used < b.used; });
  for (const Entry& e : entries) {
    if (total <= most_bytes_) return;
    if (fs::remove(e.path, error)) total -= e.bytes;
  }
}

} // namespace tenon::artifact
