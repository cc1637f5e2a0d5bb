// Fourier transforms and factorisations: of f32, on as many threads as given.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "bench/report.h"
#include "runtime/library/blas.h"
#include "runtime/library/fft.h"

namespace tenon::bench {
namespace {

using Numbers = std::vector<float>;

Numbers numbers(int64_t n) {
  Numbers out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); i++) out[i] = static_cast<float>(i * 7919 % 1021) / 1021 - 0.5f;
  return out;
}

void run_lines(benchmark::State& state, Isa isa, int threads, int64_t n, int64_t lines, bool real) {
  Workers workers(threads);
  LibraryCall call{};
  call.workers = &workers;
  int64_t width = real ? n : 2 * n, out_width = real ? 2 * (n / 2 + 1) : 2 * n;
  Numbers in = numbers(lines * width), out(static_cast<size_t>(lines * out_width));
  library::FftPass<float> pass{n, false, 1, 1, lines, {in.data(), !real, 0, width, real ? 1 : 2}, {out.data(), true, 0, out_width, 2}};
  auto count = static_cast<double>(n * lines);
  run(state, {(real ? 2.5 : 5) * count * std::log2(static_cast<double>(n)), 4 * static_cast<double>(in.size() + out.size()), threads, isa},
      [&] { library::run_fft(call, pass); });
}

void run_lu(benchmark::State& state, Isa isa, int threads, int64_t n) {
  Workers workers(threads);
  Numbers a = numbers(n * n), f(a.size());
  for (int64_t i = 0; i < n; i++) a[static_cast<size_t>(i * n + i)] += 10;
  std::vector<int32_t> pivots(static_cast<size_t>(n));
  auto d = static_cast<double>(n);
  run(state, {2 * d * d * d / 3, 8 * d * d, threads, isa}, [&] {
    f = a;
    library::blas::lu(&workers, n, n, f.data(), n, pivots.data());
  });
}

} // namespace

void add_library_benchmarks(Isa isa, int threads) {
  struct Lines {
    int64_t n, lines;
    bool real;
  };
  std::string end = "/threads:" + std::to_string(threads);
  for (Lines l : {Lines{4096, 256, true},
                  {512, 2000, true},
                  {400, 1000, true},
                  {256, 2048, false},
                  {256, 4000, true},
                  {256, 64, false},
                  {1024, 256, false},
                  {1000, 256, false},
                  {1009, 256, false},
                  {64, 4096, false},
                  {1 << 20, 1, false}}) {
    std::string name = std::string(l.real ? "rfft" : "fft") + "/" + std::to_string(l.lines) + "x" + std::to_string(l.n) + end;
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { run_lines(s, isa, threads, l.n, l.lines, l.real); });
  }
  for (int64_t n : {256, 1024})
    benchmark::RegisterBenchmark(("lu/" + std::to_string(n) + end).c_str(), [=](benchmark::State& s) { run_lu(s, isa, threads, n); });
}

} // namespace tenon::bench
