// Which family of micro-kernels a product takes.
#include <algorithm>

#include "base/rounding.h"
#include "runtime/gemm_pack.h"
#include "runtime/matmul.h"

namespace tenon {

double padded(int64_t n, int64_t to) { return static_cast<double>(round_up(n == any_size ? 256 : std::max<int64_t>(n, 1), to)); }

double product_cycles(const GemmFamily& f, DType a, int64_t m, int64_t n, int64_t k) {
  constexpr double bytes_per_cycle = 8;
  double products = padded(m, f.row_step) * padded(n, f.lanes) * padded(k, f.k_step) / f.speed;
  double read = padded(n, 1) * padded(k, 1) * static_cast<double>(size_of(f.b)) / bytes_per_cycle;
  return products + read + (a == f.a ? 0 : padded(m, 1) * padded(k, 1) / converted_per_cycle);
}

double around_tiles(const GemmFamily& f, const Matmul& m) {
  constexpr double a_row = 24, copied = 16, stored = 16; // cycles, bytes a cycle
  double rows = padded(m.m, f.row_step);
  double sums = rows * padded(m.n, f.lanes) * static_cast<double>(size_of(f.sum)) / stored;
  bool in_place = m.a_k == 1 && m.a_type == f.a && m.k % f.k_step == 0;
  return sums + (in_place ? 0 : rows * (a_row + padded(m.k, f.k_step) * static_cast<double>(size_of(f.a)) / copied));
}

bool is_narrow(const KernelTable& kernels, const GemmFamily& f) { return f.lanes * static_cast<int>(size_of(f.sum)) < kernels.lanes() * 4; }

int choose_family(const KernelTable& kernels, DType a, DType b, int64_t m, int64_t n, int64_t k, Windows windows) {
  int best = -1;
  auto& all = kernels.families();
  for (size_t i = 0; i < all.size(); i++) {
    if (!can_pack(all[i], a, b) || is_narrow(kernels, all[i]) || (windows == Windows::Yes && all[i].compensated)) continue;
    if (best < 0 || product_cycles(all[i], a, m, n, k) < product_cycles(all[static_cast<size_t>(best)], a, m, n, k))
      best = static_cast<int>(i);
  }
  return best;
}

int in_place_family(const KernelTable& kernels, DType a, DType b) {
  int best = -1;
  auto& all = kernels.families();
  for (size_t i = 0; i < all.size(); i++) {
    const GemmFamily& f = all[i];
    if (!can_pack(f, a, b) || is_narrow(kernels, f) || f.b != b || (f.dot_rows[1] == 0 && !f.reads_in_place())) continue;
    if (best < 0 || f.speed > all[static_cast<size_t>(best)].speed) best = static_cast<int>(i);
  }
  return best;
}

} // namespace tenon
