// Attention in one step: softmax(score(Q K^T)) V without the matrix of scores in memory. Queries are cut into items,
// which workers share out; an item walks over blocks of keys with a running softmax (loops/from_attention.h says how a
// row's maximum and sum go along). What the score is, and where results go, is the business of two kernels.
#pragma once
#include <string>

#include "runtime/attention_tiles.h"
#include "runtime/parallel.h"

namespace tenon {

/// Queries [m0, m1) of a batch against keys [n0, n1), or with their finished sums. Rows of `out` are padded to 16
/// elements.
struct AttentionTile {
  int64_t batch, m0, m1, n0, n1;
  float *scores, *top, *sum, *correction, *out;
};

struct AttentionOperandView {
  const void* data = nullptr;
  DType type = DType::F32;                              // or f16, bf16: widened block by block, unless kernels multiply bf16
  int64_t batch[4] = {0, 0, 0, 0}, row = 0, column = 1; // strides in elements

  const void* at(int64_t element) const { return static_cast<const char*>(data) + element * static_cast<int64_t>(size_of(type)); }
};

struct AttentionCall {
  static constexpr int most_digits = 4;
  int64_t digits[most_digits] = {1, 1, 1, 1}; // batch b = ((d0 * digits[1] + d1) * digits[2] + d2) * digits[3] + d3
  int64_t rows = 0, keys = 0, depth = 0, columns = 0;
  AttentionOperandView q, k, v; // rows of k and v are keys
  bool has_upper = false, has_lower = false;
  int64_t upper = 0, lower = 0; // keys beyond row + upper, or before row + lower, have no weight
  int64_t block_keys = 0, score_stride = 0;
  void* context = nullptr;
  void (*score)(void* context, const AttentionTile& tile) = nullptr;
  void (*finish)(void* context, const AttentionTile& tile) = nullptr;
};

/// The keys of a block, and elements from one row of its scores to the next; sizes may be any_size.
int64_t attention_block_keys(int64_t keys);
inline int64_t attention_score_stride(int64_t block_keys) {
  int64_t padded = (block_keys + 15) / 16 * 16;
  return padded % 64 == 0 ? padded + 16 : padded; // rows a power of two apart would meet in few sets of the cache
}

/// Bytes of scratch, for all workers together; depends on sizes and strides alone.
int64_t attention_scratch(const KernelTable& kernels, const Caches& caches, const Workers& workers, const AttentionCall& call) noexcept;
/// scratch: 64-byte aligned, private to this call.
void run_attention(const KernelTable& kernels, const Caches& caches, const Workers& workers, const AttentionCall& call,
                   void* scratch) noexcept;
std::string describe_attention(const KernelTable& kernels, const Caches& caches, const Workers& workers, const AttentionCall& call);

} // namespace tenon
