// What `tenon bench` measured, and the files that it writes of it.
#pragma once
#include "cli/commands.h"

namespace tenon::cli {

struct Figures {
  double load_ms, compile_ms, first_result_ms, median_ms, min_ms, p90_ms, p99_ms;
  size_t runs;
  double peak_rss_mb;
  double precision_error = -1; // of results that are not strict
  ExecutableStats stats;
};

/// Adds a line to args.history.
void append_history(const Figures& figures, const BenchArgs& args);
/// `times_ms` of runs, in their order. Runs the program some more, to time its steps.
void write_bench_page(const Figures& figures, const std::vector<double>& times_ms, const BenchArgs& args);
/// Loads, compiles and runs the program once more, recorded.
void write_trace(const BenchArgs& args);

} // namespace tenon::cli
