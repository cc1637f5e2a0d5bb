#include "runtime/matmul_ahead.h"

namespace tenon {

/// Of all batches of an operand.
static int64_t bytes_of(DType type, int64_t elements, const int64_t (&strides)[2], const Matmul& m) {
  for (int i = 0; i < 2; i++) elements *= strides[i] != 0 ? m.batch[i] : 1;
  return elements * static_cast<int64_t>(size_of(type));
}

bool lies_near(const Caches& caches, DType type, int64_t elements, const int64_t (&strides)[2], const Matmul& m) {
  return bytes_of(type, elements, strides, m) <= caches.l3 / 2;
}

bool asks_for_b(const Caches& caches, const Matmul& m) {
  constexpr int64_t many_rows = 32;
  bool crowds = m.b_k * static_cast<int64_t>(size_of(m.b_type)) % page_bytes == 0;
  return (m.m > many_rows && crowds) || !lies_near(caches, m.b_type, m.k * m.n, m.b_batch, m);
}

bool asks_for_rows(const Caches& caches, const MatmulPlan& plan, const Matmul& m) {
  bool reads_rows = !plan.rows_first && !plan.pack_a && plan.panel_k == 0 && m.a_k == 1;
  return reads_rows && bytes_of(m.a_type, m.m * m.k, m.a_batch, m) > caches.l3 / 4;
}

bool looks_for_results(const GemmFamily& f, const Caches& caches, const Matmul& m) {
  int64_t bytes = m.m * m.n * static_cast<int64_t>(size_of(f.sum));
  bool stores_alone = m.c && !m.epilogue.fn; // an epilogue may be named by the call alone: then there is no C
  return stores_alone ? bytes * m.batch[0] * m.batch[1] > caches.l3 : bytes > caches.l2 / 2;
}

} // namespace tenon
