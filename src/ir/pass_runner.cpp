// The pass runner.
#include "ir/pass_runner.h"

#include <filesystem>
#include <fstream>

#include "base/env.h"
#include "base/stage.h"
#include "base/stop_point.h"
#include "base/timeline.h"

namespace tenon {

PassOptions pass_options_from_env() {
  return {.dump = env_text("TENON_DUMP").value_or(""),
          .stop_after = env_text("TENON_STOP_AFTER").value_or(""),
          .verify = env_flag("TENON_VERIFY"),
          .timing = env_flag("TENON_TIMING")};
}

void StageTimer::done(std::string_view stage, std::string_view remark) {
  if (!enabled_ && !Recording::is_on()) return;
  auto now = std::chrono::steady_clock::now();
  auto ns = [](auto time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count(); };
  if (auto recording = Recording::current()) recording->span(recording->name(stage), ns(start_), ns(now));
  if (enabled_)
    fmt::print(stderr, "tenon: {:8.2f} ms  {}{}\n", std::chrono::duration<double, std::milli>(now - start_).count(), stage, remark);
  start_ = now;
}

void PassRunner::dump(const Graph& graph, std::string_view name) {
  if (options_.dump.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(options_.dump, failed);
  std::string path = fmt::format("{}/{:02}_{}.txt", options_.dump, next_++, name);
  std::ofstream out(path, std::ios::binary);
  out << to_string(graph);
  require_input(out.good(), "cannot write {}", path);
}

void PassRunner::run_one(LoadedProgram& program, const Pass& pass) {
  Stage stage(pass.name);
  StageTimer timer(options_.timing);
  bool changed = pass.run(program);
  timer.done(pass.name, changed ? "" : " (no change)");
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
    stop_point();
    run_one(program, pass);
    stopped_ = pass.name == options_.stop_after;
  }
  return !stopped_;
}

} // namespace tenon
