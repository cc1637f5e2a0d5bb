// The matmul driver against plain loops in double precision.
#include "gemm_harness.h"

namespace tenon::gemm_test {
using namespace gemm_harness;

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

namespace {

/// Products of many rows on every machine, with every number of threads.
void check_packing_tiles(Case c) {
  auto check = [&](int64_t m, int64_t n, int64_t k) {
    Exact known;
    for_all_machines([&](const MicroKernels& mk, const Workers& workers) {
      const GemmFamily& f = mk.table().family(choose_family(mk.table(), c.a_type, c.b_type, m, n, k));
      bool parts = k > 8192, fits = f.group == 1 ? !parts : n != 257, whole = !f.compensated || k < 256 || parts;
      c.m = m, c.n = n, c.k = k, c.packs = f.packing_rows[1] > 0 && n > 31 && fits && whole, c.caches.l2 = parts ? 1 << 20 : 64 << 10;
      check_case(mk.table(), workers, c, known);
    });
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

} // namespace

TEST_CASE("matmul of many rows by a row-major B, packed by the tiles that read it first") {
  using enum DType;
  for (auto [a_type, b_type] : {std::pair{F32, F32}, {F64, F64}, {BF16, BF16}, {U8, I8}, {I8, I8}})
    for (bool by_k : {false, true}) check_packing_tiles({.m = 0, .n = 1, .k = 1, .a_transposed = by_k, .a_type = a_type, .b_type = b_type});
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

} // namespace tenon::gemm_test
