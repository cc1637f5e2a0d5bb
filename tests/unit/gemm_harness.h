// Checks products of matrices, as the driver runs them, against plain loops in double precision.
#pragma once
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include "emulated_tiles.h"
#include "kernel_test.h"
#include "runtime/gemm_pack.h"
#include "runtime/matmul.h"

namespace tenon::gemm_harness {

/// Where the elements of B lie.
enum class BForm { RowMajor, Transposed, Strided, Packed, PackedTransposed, Reversed /* negative strides */, RepeatedRow, RepeatedColumn };

struct Case {
  int64_t m, n, k;
  BForm form = BForm::RowMajor;
  bool a_transposed = false;
  int64_t batch0 = 1, batch1 = 1;
  int64_t pad = 0; // extra elements in every row of A, B and C
  DType a_type = DType::F32, b_type = DType::F32;
  bool to_epilogue = false;                                        // no C: the epilogue takes the sums
  bool a_reversed = false;                                         // the last row comes first
  int panel_vectors = 0;                                           // of packed B
  bool by_items = false;                                           // repeated, items backwards
  bool alone = false;                                              // without an epilogue
  bool packs = false;                                              // B is packed by the tiles that read it first
  Caches caches = {.l1 = 4 << 10, .l2 = 64 << 10, .l3 = 32 << 10}; // small, so that every loop of the blocking runs
};

inline std::string text(const Case& c) {
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) + " " + std::string(name_of(c.a_type)) + " " +
         std::string(name_of(c.b_type)) + " form " + std::to_string(static_cast<int>(c.form)) + " at " + std::to_string(c.a_transposed) +
         " batch " + std::to_string(c.batch0) + "," + std::to_string(c.batch1) + " pad " + std::to_string(c.pad) + " epilogue " +
         std::to_string(c.to_epilogue) + " reversed " + std::to_string(c.a_reversed) + " vectors " + std::to_string(c.panel_vectors);
}

constexpr float untouched = 12345.f;

struct Cover { // counts how often the epilogue sees each element, and keeps what it sees
  const Case& c;
  DType sum;
  std::vector<std::atomic<int>> seen;
  std::vector<double> sums;
  Cover(const Case& cc, DType t) : c(cc), sum(t), seen(static_cast<size_t>(cc.batch0 * cc.batch1 * cc.m * cc.n)), sums(seen.size()) {}
  static void call(void* ctx, const SumTile& t) {
    Cover& self = *static_cast<Cover*>(ctx);
    for (int64_t i = t.m0; i < t.m1; i++)
      for (int64_t j = t.n0; j < t.n1; j++) {
        size_t at = static_cast<size_t>((t.batch * self.c.m + i) * self.c.n + j);
        self.seen[at].fetch_add(1);
        int64_t from = (i - t.m0) * t.stride + j - t.n0;
        self.sums[at] = self.sum == DType::I32   ? static_cast<const int32_t*>(t.sums)[from]
                        : self.sum == DType::F64 ? static_cast<const double*>(t.sums)[from]
                                                 : static_cast<const float*>(t.sums)[from];
      }
  }
};

struct Strides {
  int64_t row, col, size;
  int64_t start = 0; // of element (0, 0)

  Strides reversed(int64_t rows, int64_t cols) const {
    return {-row, -col, size, std::max<int64_t>(rows - 1, 0) * row + std::max<int64_t>(cols - 1, 0) * col};
  }
};
inline Strides strides_of(int64_t rows, int64_t cols, int64_t pad, bool transposed, int64_t step = 1) {
  if (transposed) return {1, rows + pad, std::max<int64_t>(cols * (rows + pad) - pad, 0)};
  int64_t row = cols * step + pad;
  return {row, step, rows && cols ? (rows - 1) * row + (cols - 1) * step + 1 : 0};
}
inline Strides strides_of_a(const Case& c) {
  Strides s = strides_of(c.m, c.k, c.pad, c.a_transposed);
  if (c.a_reversed) s.start = std::max<int64_t>(c.m - 1, 0) * s.row, s.row = -s.row;
  return s;
}
inline Strides strides_of_b(const Case& c) {
  if (c.form == BForm::RepeatedRow) return {0, 1, c.n};
  if (c.form == BForm::RepeatedColumn) return {1, 0, c.k};
  Strides s =
      strides_of(c.k, c.n, c.pad, c.form == BForm::Transposed || c.form == BForm::PackedTransposed, c.form == BForm::Strided ? 3 : 1);
  return c.form == BForm::Reversed ? s.reversed(c.k, c.n) : s;
}

struct Operands {
  Strides sa, sb;
  int64_t c_row, c_size;
  TypedBuffer a, b, out;
  Operands(const Case& c, DType sum)
      : sa(strides_of_a(c)), sb(strides_of_b(c)), c_row(c.n + c.pad), c_size(c.m * c_row), a(c.a_type, sa.size * c.batch0 * c.batch1),
        b(c.b_type, sb.size * c.batch1), out(sum, c_size * c.batch0 * c.batch1) {
    a.fill_random(1), b.fill_random(2), out.fill_random(4);
    for (int64_t r = 0; r < c.m * c.batch0 * c.batch1; r++)
      for (int64_t j = c.n; j < c_row; j++) out.set(r * c_row + j, untouched);
  }
};

/// The sums of a row of C in double precision, and those of the sizes of their terms.
struct ExactRow {
  std::vector<double> sums, sizes;
};
using Exact = std::vector<ExactRow>; // of all rows of C, one batch after the other
inline ExactRow exact_row(const Case& c, const double* a, int64_t a_k, const double* b, const Strides& sb) {
  ExactRow r{std::vector<double>(static_cast<size_t>(c.n)), std::vector<double>(static_cast<size_t>(c.n))};
  double *sums = r.sums.data(), *sizes = r.sizes.data();
  for (int64_t k = 0; k < c.k; k++)
    for (int64_t j = 0; j < c.n; j++) {
      double p = a[k * a_k] * b[k * sb.row + j * sb.col];
      sums[j] += p;
      sizes[j] += std::abs(p);
    }
  return r;
}

inline Exact exact_sums(const Case& c, Operands& o) {
  Exact rows;
  std::vector<double> a = o.a.numbers(), b = o.b.numbers();
  for (int64_t s = 0; s < c.batch0 * c.batch1; s++)
    for (int64_t i = 0; i < c.m; i++)
      rows.push_back(exact_row(c, a.data() + o.sa.start + s * o.sa.size + i * o.sa.row, o.sa.col,
                               b.data() + o.sb.start + s % c.batch1 * o.sb.size, o.sb));
  return rows;
}

/// The results against those sums, and that nothing is written beside them.
inline void check_results(const Case& c, Operands& o, const Cover& cover, const Exact& rows) {
  int64_t wrong = 0, not_once = 0;
  double allowed = o.out.type == DType::I32 ? 0 : o.out.type == DType::F64 ? 1e-15 : 1e-6, least = o.out.type == DType::I32 ? 0 : 1e-30;
  for (int64_t s = 0; s < c.batch0 * c.batch1; s++)
    for (int64_t i = 0; i < c.m; i++) {
      const ExactRow& exact = rows[static_cast<size_t>(s * c.m + i)];
      int64_t row = s * o.c_size + i * o.c_row;
      for (int64_t j = 0; j < c.n; j++) {
        double seen = c.alone ? o.out.get(row + j) : cover.sums[static_cast<size_t>((s * c.m + i) * c.n + j)];
        double got = c.to_epilogue ? seen : o.out.get(row + j), sum = exact.sums[static_cast<size_t>(j)];
        wrong += !(std::abs(got - sum) <= allowed * exact.sizes[static_cast<size_t>(j)] + least) || seen != got;
      }
      for (int64_t j = c.n; j < o.c_row; j++) wrong += o.out.get(row + j) != untouched;
    }
  CHECK(wrong == 0);
  if (c.alone) return;
  for (auto& n : cover.seen) not_once += n != 1;
  CHECK(not_once == 0);
}

/// The items of the product in two ranges, each in one worker, the last ones first.
inline void run_items_backwards(const KernelTable& kernels, const Workers& workers, const MatmulPlan& plan, const Matmul& m,
                                void* scratch) {
  int64_t items = items_of(plan, m);
  for (bool first : {false, true})
    run_matmul_items(kernels, plan, m, scratch, first ? 0 : items / 2, first ? items / 2 : items, workers.threads() - 1, true);
}

/// `known` are the sums of the same case on another machine, or empty: they are then put there.
inline void check_case(const KernelTable& kernels, const Workers& workers, const Case& c, Exact& known) {
  CAPTURE(text(c));
  bool packed = c.form == BForm::Packed || c.form == BForm::PackedTransposed;
  int family = choose_family(kernels, c.a_type, c.b_type, c.m, c.n, c.k);
  REQUIRE(family >= 0);
  CAPTURE(std::string(kernels.family(family).name));
  DType sum = kernels.family(family).sum;
  if (is_byte(c.a_type) && is_byte(c.b_type)) CHECK(sum == DType::I32);
  Operands o(c, sum);
  Cover cover(c, sum);
  Matmul m{.batch = {c.batch0, c.batch1},
           .m = c.m,
           .n = c.n,
           .k = c.k,
           .a_type = c.a_type,
           .b_type = c.b_type,
           .a = o.a.data() + o.sa.start * static_cast<int64_t>(size_of(c.a_type)),
           .a_row = o.sa.row,
           .a_k = o.sa.col,
           .a_batch = {o.sa.size * c.batch1, o.sa.size},
           .b = o.b.data() + o.sb.start * static_cast<int64_t>(size_of(c.b_type)),
           .packed = packed,
           .family = family,
           .panel_vectors = c.panel_vectors,
           .b_k = o.sb.row,
           .b_n = o.sb.col,
           .b_batch = {0, o.sb.size},
           .c = c.to_epilogue ? nullptr : o.out.data(),
           .c_row = o.c_row,
           .c_batch = {o.c_size * c.batch1, o.c_size},
           .repeated = c.by_items,
           .epilogue = c.alone ? Epilogue{} : Epilogue{Cover::call, &cover}};
  const GemmFamily& f = kernels.family(family);
  Panels layout = choose_panels(f, c.n, c.k, c.panel_vectors);
  int64_t packed_size = (layout.bytes() + 63) / 64 * 64;
  GuardedBuffer panels(packed ? packed_size / 4 * c.batch1 : 0);
  if (packed) {
    for (int64_t i = 0; i < c.batch1; i++)
      pack_panels(kernels, f, layout, {o.b.data() + i * o.sb.size * static_cast<int64_t>(size_of(c.b_type)), c.b_type, o.sb.row, o.sb.col},
                  0, c.k, 0, layout.count(), reinterpret_cast<char*>(panels.data()) + i * packed_size);
    m.b = panels.data();
    m.b_batch[1] = packed_size;
  }
  MatmulPlan plan = plan_matmul(kernels, c.caches, workers.threads(), m);
  if (c.packs) CHECK(plan.packs_in_tiles);
  GuardedBuffer scratch((plan.worker_bytes() * workers.threads() + 63) / 64 * 16);
  if (c.by_items && plan.splits_k == 1) run_items_backwards(kernels, workers, plan, m, scratch.data());
  else run_matmul(kernels, workers, plan, m, scratch.data());
  if (known.empty()) known = exact_sums(c, o);
  check_results(c, o, cover, known);
}
inline void check_case(const KernelTable& kernels, const Workers& workers, const Case& c) {
  Exact none;
  check_case(kernels, workers, c, none);
}

template <class F> void for_all_machines(const F& f) {
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (int threads : {1, 2, 3}) {
      CAPTURE(threads);
      CAPTURE(target.features);
      Workers workers(threads);
      f(mk, workers);
    }
  }
}

} // namespace tenon::gemm_harness
