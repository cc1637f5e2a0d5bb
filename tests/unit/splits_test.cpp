// Items of products: which part each is, and that threads keep their rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "kernel_test.h"
#include "runtime/conv.h"
#include "runtime/gemm_pack.h"
#include "runtime/matmul.h"

namespace tenon::splits_test {

namespace {

/// A product by a packed B, of a family that takes both types as they are.
struct Packed {
  const KernelTable& kernels;
  Matmul m;
  TypedBuffer a, b;
  GuardedBuffer panels;

  static int family_of(const KernelTable& kernels, DType a, DType b) {
    const std::vector<GemmFamily>& all = kernels.families();
    auto fits = [&](const GemmFamily& f) { return f.a == a && f.b == b && !f.is_tiled(); };
    auto found = std::find_if(all.begin(), all.end(), fits);
    return found == all.end() ? -1 : static_cast<int>(found - all.begin());
  }
  Packed(const KernelTable& table, int family, int64_t rows, int64_t columns, int64_t k)
      : kernels(table), m{.m = rows, .n = columns, .k = k}, a(table.family(family).a, rows * k), b(table.family(family).b, k * columns),
        panels((packed_b_bytes(table, family, k, columns) + 63) / 64 * 16) {
    a.fill_random(1), b.fill_random(2);
    const GemmFamily& f = table.family(family);
    Panels layout = choose_panels(f, columns, k, 0);
    pack_panels(table, f, layout, {b.data(), b.type, columns, 1}, 0, k, 0, layout.count(), panels.data());
    m.a_type = a.type, m.b_type = b.type, m.a = a.data(), m.a_row = k, m.b = panels.data(), m.c_row = columns, m.packed = true,
    m.family = family;
  }

  MatmulPlan plan(int threads) const { return plan_matmul(kernels, {}, threads, m); }
  std::vector<double> result(int threads) const {
    TypedBuffer c(kernels.family(m.family).sum, m.m * m.n);
    Matmul x = m;
    x.c = c.data();
    MatmulPlan p = plan_matmul(kernels, {}, threads, x);
    GuardedBuffer scratch((p.worker_bytes() * threads + 63) / 64 * 16);
    run_matmul(kernels, Workers(threads), p, x, scratch.data());
    return c.numbers();
  }
};

/// Elements that are further apart than tiles of few rows, which add k up in another order, explain; NaN is none that is near.
int64_t different(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  if (a.size() != b.size()) return -1;
  int64_t n = 0;
  for (size_t i = 0; i < a.size(); i++) n += !(std::abs(a[i] - b[i]) <= tolerance);
  return n;
}

} // namespace

TEST_CASE("items are each part of a product once, range by range") {
  for (bool keeps_rows : {false, true})
    for (int64_t rows : {1, 2, 5})
      for (int64_t panels : {1, 3, 4}) {
        Splits s{rows, panels, keeps_rows};
        std::set<std::pair<int64_t, int64_t>> seen;
        int64_t outer = 0;
        for (int64_t i = 0; i < s.items(); i++) {
          CHECK(s.row_range(i) < rows);
          CHECK(s.panel_range(i) < panels);
          int64_t now = keeps_rows ? s.row_range(i) : s.panel_range(i);
          CHECK(now >= outer);
          outer = now;
          seen.insert({s.row_range(i), s.panel_range(i)});
        }
        CHECK(static_cast<int64_t>(seen.size()) == rows * panels);
      }
}

TEST_CASE("threads keep their rows where these are enough for each to read all of B") {
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (auto [a, b] : {std::pair{DType::F32, DType::F32}, {DType::F64, DType::F64}, {DType::BF16, DType::BF16}, {DType::U8, DType::I8}}) {
      int family = Packed::family_of(mk.table(), a, b);
      if (family < 0) continue;
      for (int64_t rows : {63, 128, 197, 512})
        for (int64_t columns : {96, 1000, 2048})
          for (int64_t k : {65, 1024}) {
            CAPTURE(rows);
            CAPTURE(columns);
            CAPTURE(k);
            Packed product(mk.table(), family, rows, columns, k);
            std::vector<double> expected = product.result(1);
            for (int threads : {2, 3, 4}) {
              CAPTURE(threads);
              Splits s = product.plan(threads).splits;
              if (s.keeps_rows) CHECK(s.rows % threads == 0);
              if (rows < 64 * threads) CHECK(!s.keeps_rows);
              if (rows == 512 && columns == 2048 && k == 1024) CHECK(s.keeps_rows);
              CHECK(different(product.result(threads), expected, a == DType::F64 ? 1e-12 : is_float(a) ? 1e-4 : 0) == 0);
            }
          }
    }
  }
}

TEST_CASE("one image's convolution is cut by rows of pixels, many images' by images") {
  MicroKernels mk;
  auto plan = [&](int64_t batch, int64_t side, int threads, int64_t outputs = 512) {
    Conv c{.window = {}, .batch = batch, .in_channels = 64, .out_channels = outputs};
    for (int d : {1, 2}) c.window.in[d] = c.window.out[d] = side, c.window.kernel[d] = 3, c.window.pad[d] = 1;
    c.in_pixel = 64, c.in_batch = side * side * 64, c.out_pixel = outputs, c.out_batch = side * side * outputs, c.packed = true;
    return plan_conv(mk.table(), {}, threads, c).parts[0].splits;
  };
  CHECK(plan(1, 14, 2).keeps_rows);
  CHECK(plan(1, 14, 2).rows == 2);
  CHECK(plan(1, 14, 2).panels > 1);
  CHECK(plan(1, 56, 2, 16).items() >= 8); // of one panel: several ranges of rows for a thread
  CHECK(!plan(1, 7, 2).keeps_rows);       // 49 pixels
  CHECK(!plan(1, 14, 4).keeps_rows);      // 196
  CHECK(!plan(4, 14, 2).keeps_rows);
}

} // namespace tenon::splits_test
