// What the machine can do, measured: the yardstick of the benchmarks.
#pragma once
#include "tenon/options.h"

namespace tenon::bench {

/// f32 multiply-adds from registers, GFLOP/s of all threads together; the best of several short runs.
double fma_peak(Isa isa, int threads);

/// Read plus write of a copy between arrays of `bytes` each per thread, GB/s of all threads together.
double copy_bandwidth(long bytes, int threads);

} // namespace tenon::bench
