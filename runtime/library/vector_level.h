// Which of the variants of hand-written vector code runs.
#pragma once
#include "base/env.h"

namespace tenon::library {

/// Of kernels compiled for AVX2 and for AVX-512: whether the CPU runs the latter.
inline bool takes_avx512() {
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512vl") && !env_flag("TENON_AVX2");
  return wide;
}

} // namespace tenon::library
