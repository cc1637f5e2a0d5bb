// Runs passes by list, with what helps to find a wrong one: the text after each, a stop, a check after each, times.
#pragma once
#include <chrono>
#include <functional>

#include "ir/pass.h"

namespace tenon {

struct PassOptions {
  std::string dump = {};       ///< a folder for NN_PASS.txt, made where it is missing; empty: no text
  std::string stop_after = {}; ///< the pass after which the runner stops; empty: none
  bool verify = false;         ///< whether `PassRunner::check` is called after each pass
  bool timing = false;         ///< times to stderr
};
/// From TENON_DUMP, TENON_STOP_AFTER, TENON_VERIFY and TENON_TIMING.
PassOptions pass_options_from_env();

/// The times of stages, to stderr where TENON_TIMING is set, and to who records (base/timeline.h).
class StageTimer {
public:
  explicit StageTimer(bool enabled = pass_options_from_env().timing) : enabled_(enabled) {}
  /// The time since the last stage, or since this was made, is that of `stage`.
  void done(std::string_view stage, std::string_view remark = "");

private:
  bool enabled_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class PassRunner {
public:
  explicit PassRunner(PassOptions options = pass_options_from_env()) : options_(std::move(options)) {}

  /// What is verified after each pass; it throws Error. An Internal error is given the name of the pass.
  std::function<void(const LoadedProgram&)> check = [](const LoadedProgram&) {};
  /// Runs the passes in order; false where stop_after was reached, now or in an earlier call.
  bool run(LoadedProgram& program, std::span<const Pass> passes);
  /// Writes the text of the program as the next numbered file, where a folder is set.
  void dump(const LoadedProgram& program, std::string_view name) { dump(program.graph, name); }
  void dump(const Graph& graph, std::string_view name);

private:
  void run_one(LoadedProgram& program, const Pass& pass);

  PassOptions options_;
  int next_ = 0;
  bool stopped_ = false;
};

} // namespace tenon
