// The one table of options by name.
#include "tenon/option_names.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/impl.h"
#include "base/check.h"
#include "base/similar.h"

namespace tenon {

namespace {

using OptionKind = OptionInfo::Kind;
using Setter = void (*)(Options&, std::string_view);

bool to_flag(std::string_view text) {
  if (text.empty() || text == "1" || text == "true") return true;
  require_input(text == "0" || text == "false", "it is true or false");
  return false;
}

template <class T> T to_number(std::string_view text) {
  T value{};
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr const char* kind = std::is_integral_v<T> ? "a whole number" : "a number";
  require_input(code != std::errc::result_out_of_range, "it is {} that is not larger than {}", kind, std::numeric_limits<T>::max());
  require_input(code == std::errc() && end == text.data() + text.size() && value >= T(0), "it is {} that is not negative", kind);
  return value;
}

template <class T, size_t n> T to_word(std::string_view text, const std::pair<std::string_view, T> (&words)[n]) {
  std::vector<std::string_view> known;
  for (auto& [word, value] : words) {
    if (word == text) return value;
    known.push_back(word);
  }
  bad_input("it is one of {}{}", fmt::join(known, ", "), did_you_mean(text, known));
}

constexpr std::pair<std::string_view, Precision> precisions[] = {
    {"strict", Precision::Strict}, {"bf16", Precision::BF16}, {"int8-weights", Precision::Int8Weights}};
constexpr std::pair<std::string_view, Isa> isas[] = {{"auto", Isa::Auto}, {"avx2", Isa::Avx2}, {"avx512", Isa::Avx512}};

ProcessGroup to_group(std::string_view text) {
  size_t at = text.find('=');
  require_input(at != std::string_view::npos && at > 0, "it is NAME=RANK,RANK");
  ProcessGroup group{.name = std::string(text.substr(0, at)), .ranks = {}};
  for (text.remove_prefix(at + 1);;) {
    size_t comma = std::min(text.find(','), text.size());
    group.ranks.push_back(to_number<int>(text.substr(0, comma)));
    if (comma == text.size()) return group;
    text.remove_prefix(comma + 1);
  }
}

struct Row {
  OptionInfo info;
  Setter set;
};
constexpr Row rows[] = {
    {{"threads", OptionKind::Value, "threads of one call; 0: all cores", "COUNT"},
     [](Options& o, std::string_view v) { o.threads = to_number<int>(v); }},
    {{"isa", OptionKind::Value, "the vector instructions that code may use", "auto|avx2|avx512"},
     [](Options& o, std::string_view v) { o.isa = to_word(v, isas); }},
    {{"precision", OptionKind::Value, "of f32 products", "strict|bf16|int8-weights"},
     [](Options& o, std::string_view v) { o.precision = to_word(v, precisions); }},
    {{"kernel", OptionKind::List, "a registered kernel that computes what it can, NAME or NAMESPACE::*; may be given again", "NAME"},
     [](Options& o, std::string_view v) { o.kernels.emplace_back(v); }},
    {{"backend", OptionKind::List, "a registered backend that takes its part of the program; may be given again", "NAME"},
     [](Options& o, std::string_view v) { o.backends.emplace_back(v); }},
    {{"interpret", OptionKind::Flag, "run in the reference interpreter"}, [](Options& o, std::string_view v) { o.interpret = to_flag(v); }},
    {{"forbid-fallback", OptionKind::Flag, "an operator without native code is an error"},
     [](Options& o, std::string_view v) { o.forbid_fallback = to_flag(v); }},
    {{"profile", OptionKind::Flag, "time every step, which makes calls slower"},
     [](Options& o, std::string_view v) { o.profile = to_flag(v); }},
    {{"seed", OptionKind::Value, "seed of random operators", "COUNT"},
     [](Options& o, std::string_view v) { o.seed = to_number<uint64_t>(v); }},
    {{"cache", OptionKind::Value, "a folder that keeps compiled programs for later", "FOLDER"},
     [](Options& o, std::string_view v) { o.cache_folder = v; }},
    {{"cache-bytes", OptionKind::Value, "the most that the folder may hold", "BYTES"},
     [](Options& o, std::string_view v) { o.cache_bytes = to_number<uint64_t>(v); }},
    {{"compile-budget", OptionKind::Value, "milliseconds of compiling before calls run in the interpreter meanwhile", "MS"},
     [](Options& o, std::string_view v) { o.compile_budget_ms = to_number<double>(v); }},
    {{"communicator", OptionKind::Value, "of programs for several ranks: mpi[:ARGUMENTS] or a shared library NAME.so[:ARGUMENTS]",
      "LIBRARY"},
     [](Options& o, std::string_view v) { o.communicator = Communicator::open(std::string(v)).value(); }},
    {{"group", OptionKind::List, "ranks of a group that the program names, NAME=0,1,2; may be given again", "NAME=RANKS"},
     [](Options& o, std::string_view v) { o.groups.push_back(to_group(v)); }},
    {{"specialize", OptionKind::Value, "whether sizes that come often get code of their own, made in the background; without: true",
      "true|false"},
     [](Options& o, std::string_view v) { o.specialization.in_background = to_flag(v); }},
    {{"specialize-most", OptionKind::Value, "plans for sizes of their own that one program holds", "COUNT"},
     [](Options& o, std::string_view v) { o.specialization.most = to_number<int>(v); }},
    {{"specialize-bytes", OptionKind::Value, "bytes of code and weights that these plans take", "BYTES"},
     [](Options& o, std::string_view v) { o.specialization.most_bytes = to_number<uint64_t>(v); }},
    {{"specialize-share", OptionKind::Value, "of the time spent in calls, the share that making these plans may take", "SHARE"},
     [](Options& o, std::string_view v) { o.specialization.compile_share = to_number<double>(v); }},
};

const Row& find_row(std::string name) {
  std::ranges::replace(name, '_', '-');
  std::vector<std::string_view> known;
  for (const Row& row : rows) {
    if (row.info.name == name) return row;
    known.push_back(row.info.name);
  }
  bad_input("there is no option {}{}", name, there_are(name, known));
}

} // namespace

std::span<const OptionInfo> option_infos() {
  static const auto infos = [] {
    std::vector<OptionInfo> out;
    for (const Row& row : rows) out.push_back(row.info);
    return out;
  }();
  return infos;
}

Status set_option(Options& options, std::string_view name, std::string_view value) {
  auto done = guarded([&] {
    const Row& row = find_row(std::string(name));
    try {
      row.set(options, value);
    } catch (const Error& e) {
      throw Error(ErrorKind::BadInput, fmt::format("option {} cannot be '{}': {}", row.info.name, value, e.what()));
    }
    return true;
  });
  return done ? Status() : Status(done.error());
}

} // namespace tenon
