// What the machine can do, measured: the yardstick of the benchmarks.
#pragma once
#include "tenon/options.h"

namespace tenon::bench {

/// f32 multiply-adds from registers, GFLOP/s of all threads together; the best of several short runs.
double fma_peak(Isa isa, int threads);

/// The instructions that products of these types are made of, the fastest the CPU has: multiply-add; vdpbf16ps or tdpbf16ps;
/// vpdpbusd or tdpbusd.
enum class PeakOf { F32, BF16, I8 };
/// Products and sums of them from registers, 10^9 a second of all threads together; 0 where the CPU lacks the instruction.
double product_peak(Isa isa, PeakOf of, int threads);

/// Reading an array of `bytes` (a multiple of 2 MB) per thread, on large pages where the system grants them, GB/s of all threads together.
double read_bandwidth(long bytes, int threads);

/// Read plus write of a copy between arrays of `bytes` each per thread, GB/s of all threads together.
double copy_bandwidth(long bytes, int threads);

} // namespace tenon::bench
