// Counters of the benchmarks.
#include "bench/report.h"

#include <algorithm>
#include <chrono>

#include "bench/limits.h"

namespace tenon::bench {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void report(benchmark::State& state, const Work& work, double best) {
  if (work.flops > 0) {
    state.counters["GF/s"] = work.flops / best / 1e9;
    state.counters["%fma"] = 100 * work.flops / best / 1e9 / fma_peak(work.isa, work.threads);
  }
  state.counters["GB/s"] = work.bytes / best / 1e9;
  if (work.flops == 0) { // against a copy of the same footprint
    double array = std::clamp(work.bytes / 2 / work.threads, 16.0 * 1024, 256.0 * 1024 * 1024);
    state.counters["%copy"] = 100 * work.bytes / best / 1e9 / copy_bandwidth(static_cast<long>(array), work.threads);
  }
  state.counters["best_us"] = best * 1e6;
}

} // namespace tenon::bench
