// Products with a B of few k, which stays in registers while rows of A stream past: there are no tiles to set up.
#pragma once
#include "runtime/matmul_plan.h"
#include "runtime/matmul_run.h"

namespace tenon {

/// Vectors of B that its kernels hold, by k; 0: the family has none for so many k.
int held_vectors(const GemmFamily& family, int64_t k);

/// Changes the plan of a product whose kernels and way to read B are chosen where holding B takes less than `cycles`.
void choose_held(MatmulPlan& plan, const GemmFamily& family, const Caches& caches, const Matmul& m, double cycles);

/// Rows that meet the vectors of B that are held together, before the next ones do, where the kernels write C itself.
int64_t held_block_rows(const MatmulPlan& plan, const GemmFamily& family, const Caches& caches, const Matmul& m);

/// The kernels for a B in such panels, `held` vectors at a time, by their vectors. The last one of B writes valid columns only.
TileKernels held_kernels(const KernelTable& kernels, int family, const Panels& panels, int held);

/// C[rows, columns of panels p0..p1) = A * B. Strides in bytes.
struct HeldBlock {
  const Panels& panels;
  const TileKernels& kernels;
  int held; // vectors
  int64_t p0, p1;
  const void* a; // k lie together
  int64_t a_stride, rows;
  bool packed;
  const char* b;    // of panel p0
  int64_t b_stride; // from a k to the next, in place
  char* c;          // column 0 of panel p0
  int64_t c_stride;
  int sum_bytes;
  int64_t batches = 1, next_a = 0, next_b = 0, next_c = 0; // such products, and the bytes from one to the next
};
void multiply_held(const HeldBlock& block) noexcept;

/// Whether the kernels take batches of the product one after the other: all of B is held.
bool is_held_batch(const MatmulPlan& plan, const Matmul& m);
void multiply_held_batches(const MatmulRun& call, int64_t begin, int64_t end) noexcept;

} // namespace tenon
