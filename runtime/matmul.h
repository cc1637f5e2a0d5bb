// Batched f32 matrix product with sizes given at run time, over the generated micro-kernels.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/gemm_block.h"
#include "runtime/parallel.h"

namespace tenon {

/// Called once for every macro tile [m0, m1) x [n0, n1) of C of a batch, when the tile is final and still in cache. The
/// tiles cover C exactly once; different tiles may be reported by different threads at the same time. Nothing is
/// reported where m or n is 0.
struct Epilogue {
  void (*fn)(void* ctx, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1) = nullptr;
  void* ctx = nullptr;
};

/// C = A * B, plus one row `bias` for all rows or plus what C holds (accumulate), not both. Batches are two nested
/// loops: batch b = i * batch[1] + j. Strides are in elements and may be 0 or negative, those of C must keep its
/// elements apart.
struct Matmul {
  int64_t batch[2] = {1, 1};
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_k = 1, a_batch[2] = {0, 0};
  /// In place, or what pack_b made (`packed`; then b_k and b_n mean nothing).
  const float* b = nullptr;
  bool packed = false;
  int64_t b_k = 0, b_n = 1, b_batch[2] = {0, 0};
  float* c = nullptr;
  int64_t c_row = 0, c_batch[2] = {0, 0};
  const float* bias = nullptr;
  bool accumulate = false;
  Epilogue epilogue = {};
};

/// Elements (f32) of a k x n matrix in packed form, and the packing. Constant weights are packed once.
int64_t packed_b_size(const KernelTable& kernels, int64_t k, int64_t n);
void pack_b(const KernelTable& kernels, int64_t k, int64_t n, const float* b, int64_t b_k, int64_t b_n,
            float* to) noexcept;

/// Bytes of scratch that run_matmul needs, for all workers together. It depends on sizes and strides, not on pointers,
/// and stays below matmul_scratch_limit per worker.
int64_t matmul_scratch(const KernelTable& kernels, const Caches& caches, const Workers& workers,
                       const Matmul& m) noexcept;
int64_t matmul_scratch_limit(const KernelTable& kernels, const Caches& caches);

/// Generates the micro-kernels that run_matmul may call for such products, so that no call has to: of `m`, the sizes m and n
/// (any_size where not known), a_k, b_n and packed are read; strides that are not known are 0.
void prepare_matmul(const KernelTable& kernels, const Matmul& m);

/// For reports: the register tile, how B is read, the items that workers share.
std::string describe_matmul(const KernelTable& kernels, const Caches& caches, const Workers& workers, const Matmul& m);

/// scratch: 64-byte aligned, private to this call.
void run_matmul(const KernelTable& kernels, const Caches& caches, const Workers& workers, const Matmul& m,
                void* scratch) noexcept;

} // namespace tenon
