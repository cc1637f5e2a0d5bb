// Peak multiply-add rate and copy bandwidth of 1..N threads.
#include "bench/limits.h"

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "codegen/target.h"
#include "codegen/x86/gemm_tiles.h"
#include "runtime/limits.h"

namespace tenon::bench {
namespace {

using Clock = std::chrono::steady_clock;
double seconds(Clock::time_point a, Clock::time_point b) { return std::chrono::duration<double>(b - a).count(); }

constexpr long fma_rounds = 400'000;

/// Of two vectors, or two tiles.
struct Operands {
  alignas(64) char bytes[2048];
  Operands() { fill_ordinary(bytes, sizeof bytes); }
};
const Operands operands;

// Twelve independent sums: more than the eight that two ports of latency four need, and few enough for 16 registers.
void fma_loop_256() {
  asm volatile("mov %0, %%rax\n"
               "vzeroall\n"
               "vmovups (%1), %%ymm0\n"
               "vmovups 64(%1), %%ymm1\n"
               "1:\n"
               ".irp r,2,3,4,5,6,7,8,9,10,11,12,13\n"
               "vfmadd231ps %%ymm0, %%ymm1, %%ymm\\r\n"
               ".endr\n"
               "dec %%rax\n"
               "jnz 1b\n"
               "vzeroupper\n" ::"r"(fma_rounds),
               "r"(operands.bytes)
               : "rax", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                 "cc");
}
void fma_loop_512() {
  asm volatile("mov %0, %%rax\n"
               "vzeroall\n"
               "vmovups (%1), %%zmm0\n"
               "vmovups 64(%1), %%zmm1\n"
               "1:\n"
               ".irp r,2,3,4,5,6,7,8,9,10,11,12,13\n"
               "vfmadd231ps %%zmm0, %%zmm1, %%zmm\\r\n"
               ".endr\n"
               "dec %%rax\n"
               "jnz 1b\n"
               "vzeroupper\n" ::"r"(fma_rounds),
               "r"(operands.bytes)
               : "rax", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                 "cc");
}

#define DOT_LOOP(name, instruction)                                                                                                        \
  void name() {                                                                                                                            \
    asm volatile("mov %0, %%rax\n"                                                                                                         \
                 "vzeroall\n"                                                                                                              \
                 "vmovups (%1), %%zmm0\n"                                                                                                  \
                 "vmovups 64(%1), %%zmm1\n"                                                                                                \
                 "1:\n"                                                                                                                    \
                 ".irp r,2,3,4,5,6,7,8,9,10,11,12,13\n" instruction " %%zmm0, %%zmm1, %%zmm\\r\n"                                          \
                 ".endr\n"                                                                                                                 \
                 "dec %%rax\n"                                                                                                             \
                 "jnz 1b\n"                                                                                                                \
                 "vzeroupper\n" ::"r"(fma_rounds),                                                                                         \
                 "r"(operands.bytes)                                                                                                       \
                 : "rax", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",       \
                   "xmm13", "cc");                                                                                                         \
  }
DOT_LOOP(bf16_loop, "vdpbf16ps")
DOT_LOOP(i8_loop, "vpdpbusd")
#undef DOT_LOOP

constexpr long tile_rounds = 50'000;

// Six sums of two tiles of 16 x 64 bytes: more than the four that latency needs.
#define TILE_LOOP(name, instruction)                                                                                                       \
  void name() {                                                                                                                            \
    asm volatile("mov %0, %%rax\n"                                                                                                         \
                 ".irp r,0,1,2,3,4,5\n"                                                                                                    \
                 "tilezero %%tmm\\r\n"                                                                                                     \
                 ".endr\n"                                                                                                                 \
                 "mov $64, %%ecx\n"                                                                                                        \
                 "tileloadd (%1,%%rcx), %%tmm6\n"                                                                                          \
                 "tileloadd 1024(%1,%%rcx), %%tmm7\n"                                                                                      \
                 "1:\n"                                                                                                                    \
                 ".irp r,0,1,2,3,4,5\n" instruction " %%tmm7, %%tmm6, %%tmm\\r\n"                                                          \
                 ".endr\n"                                                                                                                 \
                 "dec %%rax\n"                                                                                                             \
                 "jnz 1b\n" ::"r"(tile_rounds),                                                                                            \
                 "r"(operands.bytes)                                                                                                       \
                 : "rax", "rcx", "cc");                                                                                                    \
  }
TILE_LOOP(bf16_tile_loop, "tdpbf16ps")
TILE_LOOP(i8_tile_loop, "tdpbusd")
#undef TILE_LOOP

/// So many streams side by side, each prefetched by software too if `ahead` bytes are given.
template <size_t streams, size_t ahead> __attribute__((target("avx2"))) int read_all(const char* from, size_t n) {
  __m256i sums[2 * streams] = {};
  size_t part = n / streams;
  for (size_t i = 0; i + 64 <= part; i += 64)
    for (size_t s = 0; s < streams; s++) {
      const char* at = from + s * part + i;
      if (ahead) _mm_prefetch(at + ahead, _MM_HINT_T0);
      for (size_t k = 0; k < 2; k++)
        sums[2 * s + k] = _mm256_add_epi32(sums[2 * s + k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + 32 * k)));
    }
  for (__m256i s : sums) sums[0] = _mm256_xor_si256(sums[0], s);
  return _mm256_extract_epi32(sums[0], 0);
}

// memcpy turns to stores past the cache above some size, which is slower than plain ones on some machines.
__attribute__((target("avx2"))) void copy_plain(char* to, const char* from, size_t n) {
  for (size_t i = 0; i + 128 <= n; i += 128)
    for (size_t k = 0; k < 128; k += 32)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i + k), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + k)));
}

/// Best of several runs: units of all threads over the time from the common start to the last end.
template <class F> double best_rate(int threads, int runs, double units_per_thread, const F& work) {
  double best = 0;
  for (int r = 0; r < runs; r++) {
    std::barrier start(threads);
    std::vector<Clock::time_point> begin(static_cast<size_t>(threads)), end(static_cast<size_t>(threads));
    std::vector<std::thread> all;
    for (int t = 0; t < threads; t++)
      all.emplace_back([&, t] {
        work(t, [&] {
          start.arrive_and_wait();
          begin[static_cast<size_t>(t)] = Clock::now();
        });
        end[static_cast<size_t>(t)] = Clock::now();
      });
    for (std::thread& t : all) t.join();
    double s = seconds(*std::min_element(begin.begin(), begin.end()), *std::max_element(end.begin(), end.end()));
    best = std::max(best, units_per_thread * threads / s / 1e9);
  }
  return best;
}

/// Products of tiles of bf16 or bytes; 0 where the process may not use them.
double tile_peak(const Target& target, bool bf16, int threads) {
  if (!(bf16 ? target.amx_bf16 : target.amx_int8) || !tiles_permitted()) return 0;
  CodeMemory memory;
  auto begin = reinterpret_cast<void (*)()>(emit_begin_tiles(memory));
  auto end = reinterpret_cast<void (*)()>(emit_end_tiles(memory));
  return best_rate(threads, 10, tile_rounds * 6 * (bf16 ? 16384. : 32768.), [&](int, const auto& ready) {
    begin();
    ready();
    bf16 ? bf16_tile_loop() : i8_tile_loop();
    end();
  });
}

/// Of vectors of 512 bits.
double dot_peak(bool bf16, int threads) {
  if (!(bf16 ? __builtin_cpu_supports("avx512bf16") : __builtin_cpu_supports("avx512vnni"))) return 0;
  return best_rate(threads, 10, fma_rounds * 12 * (bf16 ? 64. : 128.), [&](int, const auto& ready) {
    ready();
    bf16 ? bf16_loop() : i8_loop();
  });
}

} // namespace

double fma_peak(Isa isa, int threads) {
  double lanes = isa == Isa::Avx512 ? 16 : 8;
  return best_rate(threads, 10, fma_rounds * 12 * lanes * 2, [&](int, const auto& ready) {
    ready();
    if (isa == Isa::Avx512) fma_loop_512();
    else fma_loop_256();
  });
}

double product_peak(Isa isa, PeakOf of, int threads) {
  if (of == PeakOf::F32) return fma_peak(isa, threads);
  if (isa != Isa::Avx512) return 0;
  bool bf16 = of == PeakOf::BF16;
  return std::max(tile_peak(host_target(isa), bf16, threads), dot_peak(bf16, threads));
}

double read_bandwidth(long bytes, int threads) {
  size_t n = static_cast<size_t>(bytes);
  double best = 0;
  for (auto read : {read_all<1, 0>, read_all<1, 4096>, read_all<4, 0>, read_all<4, 1024>})
    best = std::max(best, best_rate(threads, 3, static_cast<double>(bytes), [&](int, const auto& ready) {
                      std::unique_ptr<void, void (*)(void*)> from(std::aligned_alloc(size_t{2} << 20, n), std::free);
                      madvise(from.get(), n, MADV_HUGEPAGE);
                      std::memset(from.get(), 1, n);
                      ready();
                      int sum = read(static_cast<const char*>(from.get()), n);
                      asm volatile("" ::"r"(sum));
                    }));
  return best;
}

double copy_bandwidth(long bytes, int threads) {
  size_t n = static_cast<size_t>(bytes);
  int times = static_cast<int>(std::max(1l, (64l << 20) / bytes));
  auto copy_all = [&](int, const auto& ready, auto copy) {
    std::unique_ptr<char[]> from(new char[n]), to(new char[n]);
    std::memset(from.get(), 1, n);
    std::memset(to.get(), 2, n);
    ready();
    for (int i = 0; i < times; i++) {
      copy(to.get(), from.get(), n);
      asm volatile("" ::"r"(to.get()) : "memory");
    }
  };
  double units = 2.0 * static_cast<double>(bytes) * times;
  double library = best_rate(threads, 5, units, [&](int t, const auto& ready) {
    copy_all(t, ready, [](char* to, const char* from, size_t k) { std::memcpy(to, from, k); });
  });
  double plain = best_rate(threads, 5, units, [&](int t, const auto& ready) { copy_all(t, ready, copy_plain); });
  return std::max(library, plain);
}

} // namespace tenon::bench
