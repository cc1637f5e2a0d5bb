// The pass runner.
#include "ir/pass_runner.h"

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/env.h"

namespace tenon {

PassOptions pass_options_from_env() {
  return {.dump = env_text("TENON_DUMP").value_or(""),
          .stop_after = env_text("TENON_STOP_AFTER").value_or(""),
          .verify = env_flag("TENON_VERIFY"),
          .timing = env_flag("TENON_TIMING")};
}

void PassRunner::dump(const LoadedProgram& program, std::string_view name) {
  if (options_.dump.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(options_.dump, failed);
  std::string path = fmt::format("{}/{:02}_{}.txt", options_.dump, next_++, name);
  std::ofstream out(path, std::ios::binary);
  out << to_string(program.graph);
  require_input(out.good(), "cannot write {}", path);
}

void PassRunner::run_one(LoadedProgram& program, const Pass& pass) {
  auto start = std::chrono::steady_clock::now();
  bool changed = pass.run(program);
  double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (options_.timing) fmt::print(stderr, "tenon: {:8.2f} ms  {}{}\n", ms, pass.name, changed ? "" : " (no change)");
  dump(program, pass.name);
  if (!options_.verify) return;
  try {
    check(program);
  } catch (const Error& e) {
    throw Error(e.kind, fmt::format("after {}: {}", pass.name, e.what()));
  }
}

bool PassRunner::run(LoadedProgram& program, std::span<const Pass> passes) {
  for (const Pass& pass : passes) {
    if (stopped_) return false;
    run_one(program, pass);
    stopped_ = pass.name == options_.stop_after;
  }
  return !stopped_;
}

} // namespace tenon
