// Limits, each the best of a few short runs.
#include "runtime/limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/numeric.h"

namespace tenon {
namespace {

constexpr int runs = 3;

/// Nanoseconds that `work(thread)` takes on all threads at once.
template <class F> double time_of(const Workers& workers, const F& work) {
  auto start = std::chrono::steady_clock::now();
  workers.run(workers.threads(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) work(i);
  });
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

int best_vectors(const GemmFamily& f) {
  int best = 1;
  for (int v = 1; v <= 4; v++)
    if (f.rows[static_cast<size_t>(v)] * v > f.rows[static_cast<size_t>(best)] * best) best = v;
  return best;
}

double flops_of(const KernelTable& kernels, const Workers& workers, int family) {
  constexpr int64_t k = 256, calls = 400;
  const GemmFamily& f = kernels.family(family);
  int vectors = best_vectors(f), rows = f.rows[static_cast<size_t>(vectors)];
  GemmFn kernel = kernels.gemm({family, rows, vectors});
  int64_t row_bytes = k * static_cast<int64_t>(size_of(f.a)), width = int64_t{vectors} * f.lanes;
  int64_t c_stride = width * static_cast<int64_t>(size_of(f.sum)), b_bytes = k * width * static_cast<int64_t>(size_of(f.b));
  auto each = static_cast<size_t>((rows * row_bytes + b_bytes + rows * c_stride + 4096) / 64 * 64);
  auto threads = static_cast<size_t>(workers.threads());
  std::unique_ptr<char, void (*)(void*)> memory(static_cast<char*>(std::aligned_alloc(64, each * threads)), std::free);
  if (!memory) return 0;
  fill_ordinary(memory.get(), each * threads);
  auto work = [&](int64_t thread) {
    char *a = memory.get() + static_cast<size_t>(thread) * each, *b = a + rows * row_bytes, *c = b + b_bytes;
    const void* pointers[GemmFamily::max_rows];
    for (int i = 0; i < rows; i++) pointers[i] = a + i * f.row_step * row_bytes % (rows * row_bytes);
    GemmArgs args{.rows = pointers,
                  .first = 0,
                  .zeros = nullptr,
                  .b = b,
                  .c = c,
                  .init = nullptr,
                  .c_stride = c_stride,
                  .b_stride = 0,
                  .a_stride = row_bytes,
                  .depth = k / f.group,
                  .positions = 1,
                  .columns = width,
                  .mode = GemmInit::Zero};
    if (f.is_tiled()) kernels.begin_tiles();
    for (int64_t i = 0; i < calls; i++) kernel(&args);
    if (f.is_tiled()) kernels.end_tiles();
  };
  double best = 0;
  for (int i = 0; i < runs; i++)
    best = std::max(best, 2. * static_cast<double>(rows * width * k * calls * workers.threads()) / time_of(workers, work));
  return best;
}

double bandwidth(const Workers& workers) {
  constexpr size_t bytes = 32 << 20;
  auto threads = static_cast<size_t>(workers.threads());
  std::unique_ptr<char[]> from(new (std::nothrow) char[bytes * threads]), to(new (std::nothrow) char[bytes * threads]);
  if (!from || !to) return 0;
  std::memset(from.get(), 1, bytes * threads);
  std::memset(to.get(), 1, bytes * threads);
  double best = 0;
  for (int i = 0; i < runs; i++) {
    double ns = time_of(workers, [&](int64_t t) {
      std::memcpy(to.get() + static_cast<size_t>(t) * bytes, from.get() + static_cast<size_t>(t) * bytes, bytes);
    });
    best = std::max(best, 2. * static_cast<double>(bytes * threads) / ns);
  }
  return best;
}

/// Two threads that write a line in turn.
class Exchange {
public:
  /// Turns of thread 0 or 1. False: the other one did not come.
  bool play(int side) {
    for (int turn = side; turn < turns; turn += 2) {
      for (int spins = 0; line_.load(std::memory_order_acquire) != turn; spins++)
        if (spins > patience) return false;
      if (turn == warm_up) start_ = std::chrono::steady_clock::now();
      line_.store(turn + 1, std::memory_order_release);
    }
    if (side == 0) took_ = std::chrono::steady_clock::now() - start_;
    return true;
  }
  double ns() const { return took_.count() / (turns - warm_up); }

private:
  static constexpr int turns = 4000, warm_up = 200, patience = 1 << 20; // loads
  alignas(64) std::atomic<int> line_{0};
  alignas(64) std::chrono::steady_clock::time_point start_;
  std::chrono::duration<double, std::nano> took_{};
};

} // namespace

double handover_ns(const Workers& workers) {
  double best = 0;
  for (int i = 0; i < runs && workers.threads() > 1; i++) {
    Exchange exchange;
    std::atomic<bool> met{true};
    workers.run(2, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t side = begin; side < end; side++)
        if (!exchange.play(static_cast<int>(side))) met = false;
    });
    if (met && (best == 0 || exchange.ns() < best)) best = exchange.ns();
  }
  return best;
}

void fill_ordinary(char* to, size_t bytes) {
  uint32_t x = 1;
  for (size_t i = 0; i + 2 <= bytes; i += 2, x = x * 1664525 + 1013904223) {
    auto word = static_cast<uint16_t>(0x3f00 | (x >> 16 & 0x80ff));
    std::memcpy(to + i, &word, sizeof word);
  }
}

Limits measure_limits(const KernelTable& kernels, const Workers& workers, const std::vector<int>& families) {
  Limits l;
  l.flops_per_ns.resize(kernels.families().size());
  for (int f : families) l.flops_per_ns[static_cast<size_t>(f)] = flops_of(kernels, workers, f);
  l.bytes_per_ns = bandwidth(workers);
  return l;
}

} // namespace tenon
