// Whether a constant B is packed before the first call or read where it lies.
#include "runtime/matmul_plan.h"

namespace tenon {

bool pays_to_leave(const KernelTable& kernels, const Caches& caches, const Matmul& m) {
  constexpr int threads = 2;     // a choice for any number
  constexpr double about = 1.04; // a network's weights come from memory: the fewer rows of a tile the sooner
  MatmulPlan left = plan_matmul(kernels, caches, threads, m);
  if (!left.turned(exchanged(m))) return false;
  Matmul ahead = m;
  ahead.packed = true, ahead.family = left.family;
  MatmulPlan packed = plan_matmul(kernels, caches, threads, ahead);
  const GemmFamily& f = kernels.family(left.family);
  return expected_cycles(left, f, threads, exchanged(m)) <= about * expected_cycles(packed, f, threads, ahead);
}

bool reads_at_once(const KernelTable& kernels, const Caches& caches, const Matmul& m) {
  return m.m != any_size && m.m <= in_place_rows && plan_matmul(kernels, caches, 1, m).use != BUse::Pack;
}

} // namespace tenon
