// Writing: into a file beside the one that is wanted, which it replaces when all is there.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>

#include "artifact/format.h"
#include "base/stage.h"
#include "base/strided.h"
#include "codegen/hash.h"
#include "ops/custom.h"

namespace tenon::artifact {

namespace {

/// A file that vanishes unless it is finished.
class NewFile {
public:
  explicit NewFile(const std::string& path) : path_(path) {
    static std::atomic<int> count = 0;
    temporary_ = fmt::format("{}.{}.{}.new", path, getpid(), count++);
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) fail();
  }
  ~NewFile() {
    if (fd_ >= 0) close(fd_), unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(Bytes bytes, uint64_t at) {
    while (!bytes.empty()) {
      ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail();
      bytes = bytes.subspan(static_cast<size_t>(n)), at += static_cast<uint64_t>(n);
    }
  }
  void finish() {
    if (fsync(fd_) != 0 || close(std::exchange(fd_, -1)) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) {
      int error = errno;
      unlink(temporary_.c_str());
      errno = error;
      fail();
    }
  }

private:
  [[noreturn]] void fail() const { bad_input("{} cannot be written: {}", path_, std::strerror(errno)); }

  std::string path_, temporary_;
  int fd_ = -1;
};

/// Weights one behind the other, each at a new page, with a checksum for every piece.
class Data {
public:
  explicit Data(NewFile& file) : file_(file) {}

  uint64_t add(Bytes bytes) {
    uint64_t at = (size_ + alignment - 1) / alignment * alignment;
    append(at - size_), append(bytes);
    return at;
  }
  StoredTensor add(const Tensor& t) {
    Tensor dense = t.contiguous();
    size_t bytes = static_cast<size_t>(dense.numel()) * size_of(t.dtype());
    std::vector<int64_t> sizes(dense.sizes().begin(), dense.sizes().end());
    return {t.dtype(), std::move(sizes), add(Bytes(static_cast<const std::byte*>(dense.data()), bytes))};
  }
  std::vector<uint64_t> finish() {
    append(slack);
    if (!piece_.empty()) flush();
    return std::move(hashes_);
  }
  uint64_t size() const { return size_; }

private:
  void append(uint64_t zeros) {
    static const std::byte none[alignment] = {};
    append(Bytes(none, static_cast<size_t>(zeros)));
  }
  void append(Bytes bytes) {
    while (!bytes.empty()) {
      size_t n = std::min(bytes.size(), static_cast<size_t>(piece_bytes) - piece_.size());
      piece_.insert(piece_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      bytes = bytes.subspan(n), size_ += n;
      if (piece_.size() == piece_bytes) flush();
    }
  }
  void flush() {
    file_.write(piece_, alignment + size_ - piece_.size());
    hashes_.push_back(hash_of(piece_));
    piece_.clear();
  }

  NewFile& file_;
  uint64_t size_ = 0;
  std::vector<std::byte> piece_;
  std::vector<uint64_t> hashes_;
};

void refuse_steps(const Plan& plan) {
  for_each_step(plan.steps, [](const Step& s) {
    if (std::holds_alternative<FallbackStep>(s.run)) unsupported("{} runs in the interpreter, which cannot be written to a file", s.what);
  });
}

/// The custom operators that the plan calls.
std::vector<std::pair<int64_t, std::string>> custom_operators(const Plan& plan) {
  std::map<int64_t, std::string> found;
  for_each_step(plan.steps, [&](const Step& s) {
    auto* call = std::get_if<LibraryStepCall>(&s.run);
    if (!call || !plan.library[static_cast<size_t>(call->function)].empty()) return;
    int64_t number = plan.sizes.initial[static_cast<size_t>(call->ints[0])];
    found.emplace(number, ops::custom_text(number));
  });
  return {found.begin(), found.end()};
}

} // namespace

void write(const std::string& path, const Description& description, const LinkedPlan& linked) {
  refuse_steps(linked.plan);
  NewFile file(path);
  Data data(file);
  Index index{.description = description, .constants = {}, .state = {}, .packed = {}, .hashes = {}};
  index.description.plan = linked.plan, index.description.operators = custom_operators(linked.plan);
  for (const Tensor& t : linked.plan.constants) index.constants.push_back(data.add(t));
  for (const Tensor& t : linked.plan.initial_state) index.state.push_back(data.add(t));
  Stage stage("writing", linked.packed.size());
  for (Bytes b : linked.packed) {
    index.packed.push_back({data.add(b), b.size()});
    stage.part_done();
  }
  index.hashes = data.finish();
  Writer writer;
  writer(index);
  Bytes text = as_byte_span(writer.bytes);
  Header header{.magic = {},
                .format = format,
                .reserved = 0,
                .data_bytes = data.size(),
                .description_bytes = text.size(),
                .description_hash = hash_of(text)};
  std::copy_n(magic, sizeof magic, header.magic);
  file.write(text, alignment + data.size());
  file.write(std::as_bytes(std::span(&header, 1)), 0);
  file.finish();
}

} // namespace tenon::artifact
