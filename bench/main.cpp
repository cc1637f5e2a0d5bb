// tenon_bench: prints the machine's limits, then runs the benchmarks (--benchmark_filter=REGEX picks).
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <thread>

#include "bench/limits.h"
#include "codegen/x86/micro_kernels.h"

namespace tenon::bench {
void add_call_benchmarks();
void add_conv_benchmarks(Isa isa, int threads);
void add_region_benchmarks(Isa isa, int threads);
void add_model_benchmarks(Isa isa, int threads);
void add_library_benchmarks(Isa isa, int threads);
void add_vector_math_benchmarks(Isa isa);
void add_threads_benchmarks();
} // namespace tenon::bench

int main(int argc, char** argv) {
  using namespace tenon;
  benchmark::Initialize(&argc, argv);
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Isa isa = resolve_isa(Isa::Auto);
  for (int threads = 1; threads <= cores; threads = threads < cores ? cores : cores + 1) {
    fmt::print("{} threads: {:.0f} GFLOP/s f32 multiply-add, copy {:.0f} GB/s in L2, {:.0f} GB/s in memory\n", threads,
               bench::fma_peak(isa, threads), bench::copy_bandwidth(256 << 10, threads), bench::copy_bandwidth(256 << 20, threads));
    bench::add_conv_benchmarks(isa, threads);
    bench::add_region_benchmarks(isa, threads);
    bench::add_model_benchmarks(isa, threads);
    bench::add_library_benchmarks(isa, threads);
  }
  bench::add_call_benchmarks();
  bench::add_threads_benchmarks();
  bench::add_vector_math_benchmarks(isa);
  if (isa == Isa::Avx512) bench::add_vector_math_benchmarks(Isa::Avx2);
  std::fflush(stdout);
  benchmark::RunSpecifiedBenchmarks();
}
