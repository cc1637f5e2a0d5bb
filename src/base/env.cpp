// The table of the TENON_* variables.
#include "base/env.h"

#include <cstdlib>

#include "base/check.h"

namespace tenon {

namespace {

constexpr EnvVariable variables[] = {
    {"TENON_DUMP", "a folder: the graph after every pass is written there as numbered text"},
    {"TENON_STOP_AFTER", "the name of a pass: no pass after it is run"},
    {"TENON_TIMING", "1: the time of each pass and stage goes to stderr"},
    {"TENON_VERIFY", "1: graphs are verified after every pass, LLVM modules before they are compiled"},
    {"TENON_PREBUILT", "0: kernels that the library brings along are compiled like others"},
    {"TENON_GDB", "1: generated code is registered with gdb"},
    {"TENON_PERF", "1: generated code is named in /tmp/perf-PID.map"},
    {"TENON_AVX2", "1: library steps with vector code take that for AVX2"},
    {"TENON_BLESS", "1: golden tests write what they got as what they expect"},
};

} // namespace

std::span<const EnvVariable> env_variables() { return variables; }

std::optional<std::string> env_text(std::string_view name) {
  for (const EnvVariable& v : variables) {
    if (v.name != name) continue;
    const char* text = std::getenv(v.name.data());
    return text && *text ? std::optional<std::string>(text) : std::nullopt;
  }
  internal_error("{} is not in the table of variables", name);
}

bool env_flag(std::string_view name) {
  auto text = env_text(name);
  return text && *text != "0";
}

} // namespace tenon
