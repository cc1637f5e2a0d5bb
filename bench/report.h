// How a benchmark runs and reports: every iteration is timed alone, and the best one is set against the machine's
// limits measured around it, because other load on the machine disturbs means more than minima.
#pragma once
#include <benchmark/benchmark.h>

#include <cstdint>

#include "tenon/options.h"

namespace tenon::bench {

struct Work {
  double flops; // 0: memory decides
  double bytes; // that must move at least
  int threads;
  Isa isa;
};

/// Counters: GF/s and %fma (of the peak of that many threads), or %copy (of the bandwidth for that footprint) where no
/// flops are counted; GB/s, from `best` seconds.
void report(benchmark::State& state, const Work& work, double best);

double now();

/// Runs `f` until the benchmark has enough, and reports.
template <class F> void run(benchmark::State& state, const Work& work, const F& f) {
  f(); // code is generated, pages are touched
  double best = 1e30;
  for (auto _ : state) {
    double start = now();
    f();
    double t = now() - start;
    if (t < best) best = t;
  }
  report(state, work, best);
}

} // namespace tenon::bench
