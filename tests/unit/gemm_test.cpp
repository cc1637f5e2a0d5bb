// The matmul driver against plain loops in double precision.
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

using namespace tenon;

namespace {

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

std::string text(const Case& c) {
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
Strides strides_of(int64_t rows, int64_t cols, int64_t pad, bool transposed, int64_t step = 1) {
  if (transposed) return {1, rows + pad, std::max<int64_t>(cols * (rows + pad) - pad, 0)};
  int64_t row = cols * step + pad;
  return {row, step, rows && cols ? (rows - 1) * row + (cols - 1) * step + 1 : 0};
}
Strides strides_of_a(const Case& c) {
  Strides s = strides_of(c.m, c.k, c.pad, c.a_transposed);
  if (c.a_reversed) s.start = std::max<int64_t>(c.m - 1, 0) * s.row, s.row = -s.row;
  return s;
}
Strides strides_of_b(const Case& c) {
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
ExactRow exact_row(const Case& c, const double* a, int64_t a_k, const double* b, const Strides& sb) {
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

/// The results against those sums, and that nothing is written beside them.
void check_results(const Case& c, Operands& o, const Cover& cover) {
  int64_t wrong = 0, not_once = 0;
  std::vector<double> a = o.a.numbers(), b = o.b.numbers();
  double allowed = o.out.type == DType::I32 ? 0 : o.out.type == DType::F64 ? 1e-15 : 1e-6, least = o.out.type == DType::I32 ? 0 : 1e-30;
  for (int64_t s = 0; s < c.batch0 * c.batch1; s++)
    for (int64_t i = 0; i < c.m; i++) {
      ExactRow exact = exact_row(c, a.data() + o.sa.start + s * o.sa.size + i * o.sa.row, o.sa.col,
                                 b.data() + o.sb.start + s % c.batch1 * o.sb.size, o.sb);
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
void run_items_backwards(const KernelTable& kernels, const Workers& workers, const MatmulPlan& plan, const Matmul& m, void* scratch) {
  int64_t items = items_of(plan, m);
  for (bool first : {false, true})
    run_matmul_items(kernels, plan, m, scratch, first ? 0 : items / 2, first ? items / 2 : items, workers.threads() - 1, true);
}

void check_case(const KernelTable& kernels, const Workers& workers, const Case& c) {
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
  check_results(c, o, cover);
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

} // namespace

TEST_CASE("matmul of every pair of types") {
  using enum DType;
  std::pair<DType, DType> pairs[] = {{F64, F64}, {BF16, BF16}, {F16, F16}, {F32, BF16}, {F32, F16}, {BF16, F32}, {F32, I8},
                                     {BF16, I8}, {F16, I8},    {U8, I8},   {I8, I8},    {U8, U8},   {I8, U8}};
  std::set<std::pair<std::string, int>> seen; // families, and the pairs of types they were tried with
  for_all_machines([&](const MicroKernels& mk, const Workers& workers) {
    if (workers.threads() != 2) return;
    for (auto [a, b] : pairs) {
      const char* name = mk.table().family(choose_family(mk.table(), a, b, 64, 64, 64)).name;
      if (!seen.emplace(name, static_cast<int>(a) * num_dtypes + static_cast<int>(b)).second) continue;
      for (BForm form : {BForm::RowMajor, BForm::Transposed, BForm::Strided, BForm::PackedTransposed})
        for (bool to_epilogue : {false, true}) {
          for (int64_t m : {1, 5, 33})
            for (int64_t n : {1, 31, 97})
              for (int64_t k : {0, 1, 64, 129})
                check_case(mk.table(), workers,
                           {.m = m, .n = n, .k = k, .form = form, .a_type = a, .b_type = b, .to_epilogue = to_epilogue});
          check_case(mk.table(), workers,
                     {.m = 37,
                      .n = 255,
                      .k = 1100,
                      .form = form,
                      .a_transposed = true,
                      .pad = 3,
                      .a_type = a,
                      .b_type = b,
                      .to_epilogue = to_epilogue});
          check_case(mk.table(), workers,
                     {.m = 70,
                      .n = 50,
                      .k = 41,
                      .form = form,
                      .batch0 = 3,
                      .batch1 = 2,
                      .pad = 1,
                      .a_type = a,
                      .b_type = b,
                      .to_epilogue = to_epilogue});
          if (!to_epilogue)
            check_case(mk.table(), workers, {.m = 40, .n = 101, .k = 600, .form = form, .pad = 1, .a_type = a, .b_type = b});
        }
    }
  });
}

TEST_CASE("matmul over odd sizes and all forms of B") {
  for_all_machines([](const MicroKernels& mk, const Workers& workers) {
    for (BForm form : {BForm::RowMajor, BForm::Transposed, BForm::Strided, BForm::Packed, BForm::PackedTransposed}) {
      for (int64_t m : {0, 1, 2, 5, 13, 17, 33, 65})
        for (int64_t n : {0, 1, 3, 16, 31, 64, 97})
          for (int64_t k : {0, 1, 7, 64, 129}) check_case(mk.table(), workers, {m, n, k, form});
      check_case(mk.table(), workers, {.m = 127, .n = 255, .k = 513, .form = form, .pad = 3});
      check_case(mk.table(), workers, {.m = 19, .n = 301, .k = 1025, .form = form, .pad = 1});
      check_case(mk.table(), workers, {.m = 300, .n = 40, .k = 67, .form = form});
      check_case(mk.table(), workers, {.m = 3, .n = 1025, .k = 600, .form = form});
    }
  });
}

TEST_CASE("matmul of many rows by a row-major B, packed by the tiles that read it first") {
  for_all_machines([](const MicroKernels& mk, const Workers& workers) {
    for (auto [a_type, b_type] : {std::pair{DType::F32, DType::F32},
                                  {DType::F64, DType::F64},
                                  {DType::BF16, DType::BF16},
                                  {DType::U8, DType::I8},
                                  {DType::I8, DType::I8}})
      for (bool by_k : {false, true}) {
        Case c{.m = 300, .n = 1, .k = 1, .a_transposed = by_k, .a_type = a_type, .b_type = b_type};
        auto check = [&](int64_t m, int64_t n, int64_t k) {
          const GemmFamily& f = mk.table().family(choose_family(mk.table(), a_type, b_type, m, n, k));
          bool parts = k > 8192, fits = f.group == 1 ? !parts : n != 257, whole = !f.compensated || k < 256 || parts;
          c.m = m, c.n = n, c.k = k, c.packs = f.packing_rows[1] > 0 && n > 31 && fits && whole, c.caches.l2 = parts ? 1 << 20 : 64 << 10;
          check_case(mk.table(), workers, c);
        };
        for (int64_t n : {241, 256, 257})
          for (int64_t k : {126, 127, 129, 1025}) check(323, n, k);
        for (int64_t n : {1, 3, 7, 17, 31}) check(300, n, 600);
        check(129, 1024, 65), check(257, 512, 64), check(65, 63, 8200);
        c.pad = 5, c.batch0 = 2, c.batch1 = 3;
        check(300, 241, 67);
        c.to_epilogue = true;
        check(300, 250, 127);
      }
  });
}

TEST_CASE("matmul with transposed A, batches and broadcast batches of B") {
  for_all_machines([](const MicroKernels& mk, const Workers& workers) {
    for (BForm form : {BForm::RowMajor, BForm::Transposed, BForm::Packed}) {
      for (int64_t m : {1, 16, 47, 129})
        for (int64_t k : {1, 63, 260})
          check_case(mk.table(), workers, {.m = m, .n = 50, .k = k, .form = form, .a_transposed = true, .pad = 2});
      check_case(mk.table(), workers, {.m = 37, .n = 29, .k = 41, .form = form, .batch0 = 3, .batch1 = 2, .pad = 1});
      check_case(mk.table(), workers, {.m = 9, .n = 129, .k = 64, .form = form, .batch0 = 2, .batch1 = 5});
      check_case(mk.table(), workers, {.m = 5, .n = 5, .k = 5, .form = form, .batch0 = 0, .batch1 = 4});
    }
  });
}

TEST_CASE("matmul by dot products, with gathered columns, of a column vector, in parts of long sums") {
  using enum DType;
  std::pair<DType, DType> pairs[] = {{F32, F32}, {F64, F64}, {BF16, BF16}, {F16, F16}, {F32, BF16},
                                     {F32, I8},  {U8, I8},   {I8, I8},     {U8, U8}};
  std::set<std::pair<std::string, int>> seen;
  for_all_machines([&](const MicroKernels& mk, const Workers& workers) {
    for (auto [a, b] : pairs) {
      const char* name = mk.table().family(choose_family(mk.table(), a, b, 64, 64, 64)).name;
      if (!seen.emplace(name, (static_cast<int>(a) * num_dtypes + static_cast<int>(b)) * 4 + workers.threads()).second) continue;
      for (BForm form : {BForm::RowMajor, BForm::Transposed, BForm::Strided, BForm::Reversed, BForm::RepeatedRow, BForm::RepeatedColumn})
        for (bool to_epilogue : {false, true}) {
          Case c{.m = 0, .n = 0, .k = 0, .form = form, .a_type = a, .b_type = b, .to_epilogue = to_epilogue};
          auto check = [&](int64_t m, int64_t n, int64_t k) {
            Case x = c;
            x.m = m, x.n = n, x.k = k;
            x.a_transposed = k % 4 == 1, x.a_reversed = k % 4 == 3, x.pad = k % 3;
            check_case(mk.table(), workers, x);
          };
          check(1, 257, 64), check(2, 33, 127), check(6, 4, 257), check(7, 3, 129), check(16, 65, 300), check(33, 17, 31); // few rows
          check(257, 1, 64), check(127, 3, 100), check(64, 8, 257), check(129, 13, 127), check(31, 2, 15), check(33, 1, 1025),
              check(127, 1, 33);                                                          // few columns
          if (workers.threads() == 2) check(1, 4113, 19), check(1, 4096, 24);             // a long row
          check(129, 2, 257), check(131, 8, 65), check(127, 3, 101), check(1001, 16, 33); // few columns of a transposed A
          if (workers.threads() != 2)
            check(1, 1, 20000), check(3, 5, 9001), check(16, 16, 8195), check(2, 31, 8192), check(17, 1, 8193); // long sums
          c.batch0 = 2, c.batch1 = 3;
          check(4, 4, 4), check(7, 9, 8), check(1, 65, 31), check(15, 1, 129), check(33, 16, 16), check(3, 2, 1), check(2, 3, 0),
              check(65, 2, 5), check(3, 5, 7);
        }
    }
  });
}

TEST_CASE("matmul with few k, whose B stays in registers") {
  using enum DType;
  for_all_machines([&](const MicroKernels& mk, const Workers& workers) {
    for (BForm form : {BForm::RowMajor, BForm::Transposed, BForm::Strided, BForm::Packed, BForm::PackedTransposed, BForm::RepeatedRow})
      for (DType type : {F32, F64})
        for (int64_t k : {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 20, 21})
          for (int64_t n : {1, 4, 8, 16, 17, 33, 65, 129})
            for (int64_t m : {8, 9, 31, 65, 257})
              check_case(mk.table(), workers,
                         {.m = m, .n = n, .k = k, .form = form, .pad = n % 3, .a_type = type, .b_type = type, .to_epilogue = m == 65});
    for (int64_t k : {1, 5, 16})
      for (BForm form : {BForm::RowMajor, BForm::Transposed})
        check_case(mk.table(), workers, {.m = 5003, .n = 19, .k = k, .form = form}),
            check_case(mk.table(), workers, {.m = k == 5 ? 6 : 67, .n = 23, .k = k, .form = form, .batch0 = 2, .batch1 = 3, .pad = 1});
  });
}

TEST_CASE("small products of a batch, in series") {
  using enum DType;
  for_all_machines([&](const MicroKernels& mk, const Workers& workers) {
    for (DType type : {F32, F64, BF16, I8})
      for (BForm form : {BForm::RowMajor, BForm::Transposed, BForm::Packed, BForm::RepeatedColumn})
        for (int64_t m : {1, 4, 7, 16, 29})
          for (int64_t n : {1, 4, 17, 40})
            for (int64_t k : {1, 4, 13})
              check_case(mk.table(), workers,
                         {.m = m,
                          .n = n,
                          .k = k,
                          .form = form,
                          .a_transposed = k == 13,
                          .batch0 = 3,
                          .batch1 = 5,
                          .pad = n % 3,
                          .a_type = type,
                          .b_type = type,
                          .alone = true});
  });
}

TEST_CASE("matmul by items in any order, in panels of so many vectors") {
  auto check = [](const KernelTable& kernels, const Workers& workers, DType a, DType b) {
    for (int vectors : {0, 2, 3, 4})
      for (int64_t m : {1, 35})
        for (int64_t n : {1, 2, 7})
          for (int64_t k : {1, 700})
            check_case(kernels, workers,
                       {.m = m,
                        .n = n * kernels.lanes() * std::max(vectors, 1),
                        .k = k,
                        .form = BForm::PackedTransposed,
                        .a_type = a,
                        .b_type = b,
                        .to_epilogue = k < 700,
                        .panel_vectors = vectors,
                        .by_items = true});
  };
  for_all_machines([&](const MicroKernels& mk, const Workers& workers) {
    check(mk.table(), workers, DType::F32, DType::F32);
    if (workers.threads() == 2) check(mk.table(), workers, DType::BF16, DType::BF16), check(mk.table(), workers, DType::U8, DType::I8);
  });
  test::EmulatedTiles tiles;
  Workers workers(2);
  check(tiles.table(), workers, DType::BF16, DType::BF16);
  check(tiles.table(), workers, DType::I8, DType::I8);
}

TEST_CASE("products on tile registers: whole tiles in place, rows that crowd L1, sums that wait") {
  test::EmulatedTiles tiles;
  MicroKernels host; // tile registers, if it has any
  Caches real, middle{.l1 = 32 << 10, .l2 = 64 << 10};
  Workers workers(2);
  for (DType type : {DType::BF16, DType::I8})
    for (int64_t m : {16, 48, 100})
      for (int64_t n : {32, 96, 97})
        for (int64_t k : {64, 1024})
          for (BForm form : {BForm::RowMajor, BForm::Packed})
            for (const Caches& caches : {real, middle})
              for (const KernelTable* table : {&tiles.table(), &host.table()}) {
                Case c{.m = m, .n = n, .k = k, .form = form, .a_type = type, .b_type = type};
                c.alone = m == 48, c.caches = caches, c.pad = n == 32 ? 64 : 0;
                check_case(*table, workers, c);
              }
}

TEST_CASE("few rows on tile registers stream past panels of a large B") {
  test::EmulatedTiles tiles;
  MicroKernels host; // tile registers, if it has any
  Caches caches{.l1 = 8 << 10, .l2 = 128 << 10};
  Workers workers(2);
  for (DType type : {DType::BF16, DType::I8})
    for (int64_t m : {33, 48, 100, 197, 256})
      for (int64_t n : {1000, 2047})
        for (int64_t k : {100, 128})
          for (const KernelTable* table : {&tiles.table(), &host.table()})
            for (bool to_epilogue : {false, true}) {
              Case c{.m = m, .n = n, .k = k, .form = BForm::Packed, .a_type = type, .b_type = type, .to_epilogue = to_epilogue};
              c.alone = m == 48 && !to_epilogue, c.caches = caches, c.pad = m == 100 ? 3 : 0, c.batch1 = m == 33 ? 3 : 1;
              if (table == &tiles.table())
                CHECK(plan_matmul(
                          *table, caches, 2,
                          {.m = m, .n = n, .k = k, .a_type = type, .b_type = type, .packed = true, .family = type == DType::BF16 ? 0 : 2})
                          .panel_k > 0);
              check_case(*table, workers, c);
            }
}

TEST_CASE("sums do not depend on the number of threads") {
  MicroKernels mk;
  for (auto [m, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 100000}, {16, 16, 30000}, {5, 300, 2000}, {200, 100, 1000}, {64, 64, 64}}) {
    TypedBuffer a(DType::F32, m * k), b(DType::F32, k * n), c[3] = {{DType::F32, m * n}, {DType::F32, m * n}, {DType::F32, m * n}};
    a.fill_random(1), b.fill_random(2);
    for (int threads : {1, 2, 3}) {
      Workers workers(threads);
      TypedBuffer& out = c[threads - 1];
      Matmul x{.m = m, .n = n, .k = k, .a = a.data(), .a_row = k, .b = b.data(), .b_k = n, .c = out.data(), .c_row = n};
      MatmulPlan plan = plan_matmul(mk.table(), {}, threads, x);
      GuardedBuffer scratch((plan.worker_bytes() * threads + 63) / 64 * 16);
      for (int call = 0; call < 20; call++) run_matmul(mk.table(), workers, plan, x, scratch.data()); // in the later ones threads are awake
    }
    for (int i : {1, 2}) CHECK(std::memcmp(c[0].data(), c[i].data(), static_cast<size_t>(m * n) * 4) == 0);
  }
}

TEST_CASE("bytes by bytes are summed as integers, wherever B lies") {
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (DType type : {DType::I8, DType::U8})
      for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {2, 3}, {7, 40}, {70, 1}, {1, 40}})
        for (auto [b_k, b_n] : {std::pair<int64_t, int64_t>{n, 1}, {1, 70}, {2 * n, 2}}) {
          Matmul x{.m = m, .n = n, .k = 70, .a_type = type, .b_type = DType::I8, .a_row = 70, .b_k = b_k, .b_n = b_n};
          CHECK(mk.table().family(plan_matmul(mk.table(), {}, 1, x).family).sum == DType::I32);
        }
  }
}

TEST_CASE("a sum keeps NaN and infinity, and zero times infinity is NaN") {
  MicroKernels mk;
  float inf = std::numeric_limits<float>::infinity();
  float a[4] = {0, 1, 1, 2}, b[4] = {inf, 1, 1, inf}, c[4];
  Matmul m{.m = 2, .n = 2, .k = 2, .a = a, .a_row = 2, .b = b, .b_k = 2, .c = c, .c_row = 2};
  alignas(64) static char scratch[1 << 16];
  MatmulPlan plan = plan_matmul(mk.table(), {}, 1, m);
  REQUIRE(plan.worker_bytes() <= static_cast<int64_t>(sizeof scratch));
  run_matmul(mk.table(), Workers(1), plan, m, scratch);
  CHECK(std::isnan(c[0]));
  CHECK(c[1] == inf);
  CHECK(c[2] == inf);
  CHECK(c[3] == inf);
}
