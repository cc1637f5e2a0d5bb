// Matrix micro-kernels, movers and the matmul driver against plain loops in double precision.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>

#include "kernel_test.h"
#include "runtime/matmul.h"

using namespace tenon;

namespace {

/// Where the elements of B lie.
enum class BForm { RowMajor, Transposed, Strided, Packed, PackedTransposed };

struct Case {
  int64_t m, n, k;
  BForm form = BForm::RowMajor;
  bool a_transposed = false, bias = false, accumulate = false;
  int64_t batch0 = 1, batch1 = 1;
  int64_t pad = 0; // extra elements in every row of A, B and C
};

std::string text(const Case& c) {
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) + " form " +
         std::to_string(static_cast<int>(c.form)) + " at " + std::to_string(c.a_transposed) + " bias " +
         std::to_string(c.bias) + " acc " + std::to_string(c.accumulate) + " batch " + std::to_string(c.batch0) + "," +
         std::to_string(c.batch1) + " pad " + std::to_string(c.pad);
}

constexpr float untouched = 12345.f;

struct Cover { // counts how often the epilogue sees each element
  const Case& c;
  std::vector<std::atomic<int>> seen;
  explicit Cover(const Case& cc) : c(cc), seen(static_cast<size_t>(cc.batch0 * cc.batch1 * cc.m * cc.n)) {}
  static void call(void* ctx, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
    Cover& self = *static_cast<Cover*>(ctx);
    for (int64_t i = m0; i < m1; i++)
      for (int64_t j = n0; j < n1; j++)
        self.seen[static_cast<size_t>((batch * self.c.m + i) * self.c.n + j)].fetch_add(1);
  }
};

struct Strides {
  int64_t row, col, size;
};
Strides strides_of(int64_t rows, int64_t cols, int64_t pad, bool transposed, int64_t step = 1) {
  if (transposed) return {1, rows + pad, std::max<int64_t>(cols * (rows + pad) - pad, 0)};
  int64_t row = cols * step + pad;
  return {row, step, rows && cols ? (rows - 1) * row + (cols - 1) * step + 1 : 0};
}

void check_case(const MicroKernels& mk, const Workers& workers, const Case& c) {
  const KernelTable& kernels = mk.table();
  CAPTURE(text(c));
  bool packed = c.form == BForm::Packed || c.form == BForm::PackedTransposed;
  Strides sa = strides_of(c.m, c.k, c.pad, c.a_transposed);
  Strides sb = strides_of(c.k, c.n, c.pad, c.form == BForm::Transposed || c.form == BForm::PackedTransposed,
                          c.form == BForm::Strided ? 3 : 1);
  int64_t c_row = c.n + c.pad, c_size = c.m * c_row, batches = c.batch0 * c.batch1;
  GuardedBuffer a(sa.size * batches), b(sb.size * c.batch1), out(c_size * batches), bias(c.n);
  a.fill_random(1);
  b.fill_random(2);
  bias.fill_random(3);
  out.fill_random(4);
  for (int64_t r = 0; r < c.m * batches; r++)
    for (int64_t j = c.n; j < c_row; j++) out.data()[r * c_row + j] = untouched;
  std::vector<float> before(out.values.begin(), out.values.end());

  Cover cover(c);
  Matmul m{.batch = {c.batch0, c.batch1},
           .m = c.m,
           .n = c.n,
           .k = c.k,
           .a = a.data(),
           .a_row = sa.row,
           .a_k = sa.col,
           .a_batch = {sa.size * c.batch1, sa.size},
           .b = b.data(),
           .packed = packed,
           .b_k = sb.row,
           .b_n = sb.col,
           .b_batch = {0, sb.size},
           .c = out.data(),
           .c_row = c_row,
           .c_batch = {c_size * c.batch1, c_size},
           .bias = c.bias ? bias.data() : nullptr,
           .accumulate = c.accumulate,
           .epilogue = {Cover::call, &cover}};
  int64_t packed_size = packed_b_size(kernels, c.k, c.n);
  GuardedBuffer panels(packed ? (packed_size + 15) / 16 * 16 * c.batch1 : 0);
  if (packed) {
    for (int64_t i = 0; i < c.batch1; i++)
      pack_b(kernels, c.k, c.n, b.data() + i * sb.size, sb.row, sb.col, panels.data() + i * packed_size);
    m.b = panels.data();
    m.b_batch[1] = packed_size;
  }
  Caches caches{.l1 = 4 << 10, .l2 = 64 << 10}; // small, so that every loop of the blocking runs
  int64_t bytes = matmul_scratch(kernels, caches, workers, m);
  CHECK(bytes <= matmul_scratch_limit(kernels, caches) * workers.threads());
  GuardedBuffer scratch((bytes + 63) / 64 * 16);
  run_matmul(kernels, caches, workers, m, scratch.data());

  int64_t wrong = 0;
  for (int64_t s = 0; s < batches; s++)
    for (int64_t i = 0; i < c.m; i++)
      for (int64_t j = 0; j < c_row; j++) {
        size_t at = static_cast<size_t>(s * c_size + i * c_row + j);
        if (j >= c.n) {
          wrong += out.values[at] != untouched;
          continue;
        }
        double sum = c.accumulate ? before[at]
                     : c.bias     ? bias.values[static_cast<size_t>(j)]
                                  : 0.f,
               size = std::abs(sum);
        for (int64_t k = 0; k < c.k; k++) {
          double p = static_cast<double>(a.data()[s * sa.size + i * sa.row + k * sa.col]) *
                     b.data()[s % c.batch1 * sb.size + k * sb.row + j * sb.col];
          sum += p;
          size += std::abs(p);
        }
        wrong += !(std::abs(out.values[at] - sum) <= 1e-6 * size + 1e-30);
      }
  CHECK(wrong == 0);
  int64_t not_once = 0;
  for (auto& n : cover.seen) not_once += n != 1;
  CHECK(not_once == 0);
}

template <class F> void for_all_machines(const F& f) {
  for (Isa isa : available_isas()) {
    MicroKernels mk(isa);
    for (int threads : {1, 2, 3}) {
      CAPTURE(threads);
      CAPTURE(static_cast<int>(isa));
      Workers workers(threads);
      f(mk, workers);
    }
  }
}

} // namespace

TEST_CASE("every register tile, with every form of B, init and mask") {
  for (Isa isa : available_isas()) {
    MicroKernels mk(isa);
    int lanes = mk.table().lanes(), count;
    const RegisterTile* tiles = gemm_tiles(count);
    for (int t = 0; t < count; t++) {
      if (tiles[t].isa != isa) continue;
      CAPTURE(tiles[t].name);
      for (int rows = 1; rows <= tiles[t].rows; rows++)
        for (bool masked : {false, true})
          for (GemmKind kind : {GemmKind::Packed, GemmKind::InPlace, GemmKind::Windows})
            for (int64_t depth : {0, 1, 2, 3, 4, 5, 7, 8, 17})
              for (GemmInit mode : {GemmInit::Zero, GemmInit::C, GemmInit::Row}) {
                int64_t width = tiles[t].vectors * lanes, columns = masked ? width - 1 - depth % lanes : width;
                bool in_place = kind == GemmKind::InPlace;
                int64_t positions = in_place ? 1 : 1 + depth % 3, first = depth % 2;
                if (columns <= width - lanes) columns = width - lanes + 1;
                GuardedBuffer a(rows * positions * depth + first), b(positions * depth * (in_place ? columns : width));
                GuardedBuffer c(rows * columns), init(columns);
                a.fill_random(5);
                b.fill_random(6);
                c.fill_random(7);
                init.fill_random(8);
                std::vector<float> before(c.values.begin(), c.values.end());
                std::vector<const float*> pointers;
                for (int64_t i = 0; i < rows * positions; i++) pointers.push_back(a.data() + i * depth);
                std::vector<float> zeros(static_cast<size_t>(depth + first), 0.f);
                if (kind == GemmKind::Windows) { // padding: a whole position, or the first or the last row of one
                  size_t r = static_cast<size_t>(rows);
                  if (depth == 5) pointers[0] = nullptr;
                  if (depth == 7) pointers[0] = zeros.data();
                  if (depth == 8) pointers[2 * r - 1] = pointers[2 * r] = zeros.data();
                  if (depth == 17) pointers[2 * r] = pointers[3 * r - 1] = zeros.data();
                }
                int64_t row = in_place ? columns : width;
                GemmArgs args{pointers.data(), first,   zeros.data(), b.data(),  c.data(), init.data(),
                              columns * 4,     row * 4, depth,        positions, columns,  mode};
                mk.table().gemm({rows, tiles[t].vectors, masked, kind})(&args);
                int wrong = 0;
                for (int64_t i = 0; i < rows; i++)
                  for (int64_t j = 0; j < columns; j++) {
                    double sum = mode == GemmInit::C     ? before[static_cast<size_t>(i * columns + j)]
                                 : mode == GemmInit::Row ? init.data()[j]
                                                         : 0.f;
                    for (int64_t p = 0; p < positions; p++)
                      for (int64_t k = 0; k < depth && pointers[static_cast<size_t>(p * rows)]; k++)
                        sum += static_cast<double>(pointers[static_cast<size_t>(p * rows + i)][first + k]) *
                               b.data()[(p * depth + k) * row + j];
                    wrong += !(std::abs(c.data()[i * columns + j] - sum) < 1e-5);
                  }
                CHECK_MESSAGE(wrong == 0, rows << " rows, depth " << depth << ", masked " << masked << ", kind "
                                               << static_cast<int>(kind) << ", mode " << static_cast<int>(mode));
              }
    }
  }
}

TEST_CASE("movers copy, pad and transpose blocks of any size without touching anything else") {
  for (Isa isa : available_isas()) {
    MicroKernels mk(isa);
    int lanes = mk.table().lanes();
    for (int64_t rows : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 48})
      for (int64_t columns : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65}) {
        GuardedBuffer from(rows * columns), to(rows * columns);
        from.fill_random(9);
        MoveArgs t{from.data(), to.data(), columns * 4, rows * 4, rows, columns};
        mk.table().transpose()(&t);
        int wrong = 0;
        for (int64_t i = 0; i < rows; i++)
          for (int64_t j = 0; j < columns; j++) wrong += to.data()[j * rows + i] != from.data()[i * columns + j];
        CHECK_MESSAGE(wrong == 0, "transpose " << rows << "x" << columns);

        int vectors = static_cast<int>((columns + lanes - 1) / lanes);
        int64_t width = vectors * lanes;
        GuardedBuffer wide(rows * width);
        std::fill(wide.values.begin(), wide.values.end(), untouched);
        MoveArgs c{from.data(), wide.data(), columns * 4, width * 4, rows, columns};
        mk.table().copy(vectors)(&c);
        for (int64_t i = 0; i < rows; i++)
          for (int64_t j = 0; j < width; j++)
            wrong += wide.data()[i * width + j] != (j < columns ? from.data()[i * columns + j] : 0.f);
        CHECK_MESSAGE(wrong == 0, "copy " << rows << "x" << columns);
      }
  }
}

TEST_CASE("matmul over odd sizes and all forms of B") {
  for_all_machines([](const MicroKernels& mk, const Workers& workers) {
    for (BForm form : {BForm::RowMajor, BForm::Transposed, BForm::Strided, BForm::Packed, BForm::PackedTransposed}) {
      for (int64_t m : {0, 1, 2, 5, 13, 17, 33, 65})
        for (int64_t n : {0, 1, 3, 16, 31, 64, 97})
          for (int64_t k : {0, 1, 7, 64, 129}) check_case(mk, workers, {m, n, k, form});
      check_case(mk, workers, {.m = 127, .n = 255, .k = 513, .form = form, .bias = true, .pad = 3});
      check_case(mk, workers, {.m = 19, .n = 301, .k = 1025, .form = form, .accumulate = true, .pad = 1});
      check_case(mk, workers, {.m = 300, .n = 40, .k = 67, .form = form, .bias = true});
      check_case(mk, workers, {.m = 3, .n = 1025, .k = 600, .form = form, .bias = true});
    }
  });
}

TEST_CASE("matmul with transposed A, batches and broadcast batches of B") {
  for_all_machines([](const MicroKernels& mk, const Workers& workers) {
    for (BForm form : {BForm::RowMajor, BForm::Transposed, BForm::Packed}) {
      for (int64_t m : {1, 16, 47, 129})
        for (int64_t k : {1, 63, 260})
          check_case(mk, workers, {.m = m, .n = 50, .k = k, .form = form, .a_transposed = true, .pad = 2});
      check_case(mk, workers, {.m = 37, .n = 29, .k = 41, .form = form, .batch0 = 3, .batch1 = 2, .pad = 1});
      check_case(mk, workers, {.m = 9, .n = 129, .k = 64, .form = form, .accumulate = true, .batch0 = 2, .batch1 = 5});
      check_case(mk, workers, {.m = 5, .n = 5, .k = 5, .form = form, .batch0 = 0, .batch1 = 4});
    }
  });
}

TEST_CASE("a sum keeps NaN and infinity, and zero times infinity is NaN") {
  MicroKernels mk;
  Workers workers(1);
  float inf = std::numeric_limits<float>::infinity();
  float a[4] = {0, 1, 1, 2}, b[4] = {inf, 1, 1, inf}, c[4];
  Matmul m{.m = 2, .n = 2, .k = 2, .a = a, .a_row = 2, .b = b, .b_k = 2, .c = c, .c_row = 2};
  alignas(64) static char scratch[4096];
  run_matmul(mk.table(), {}, workers, m, scratch);
  CHECK(std::isnan(c[0]));
  CHECK(c[1] == inf);
  CHECK(c[2] == inf);
  CHECK(c[3] == inf);
}

TEST_CASE("workers run every iteration once, from many callers, nested, with distinct worker numbers") {
  for (int threads : {1, 2, 5}) {
    Workers workers(threads);
    auto one_caller = [&](int rounds) {
      for (int r = 0; r < rounds; r++)
        for (int64_t n : {0, 1, 2, 3, 64, 1000}) {
          std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
          std::vector<std::atomic<int>> busy(static_cast<size_t>(workers.threads()));
          std::atomic<int> clashes{0};
          workers.run(n, 1 + r % 3, [&](int64_t begin, int64_t end, int worker) {
            if (busy[static_cast<size_t>(worker)].fetch_add(1) != 0) clashes++;
            for (int64_t i = begin; i < end; i++) {
              seen[static_cast<size_t>(i)]++;
              if (i % 50 == 7) {
                std::atomic<int64_t> inner{0};
                workers.run(10, 1, [&](int64_t b, int64_t e, int) { inner += e - b; });
                if (inner != 10) clashes++;
              }
            }
            busy[static_cast<size_t>(worker)]--;
          });
          for (auto& s : seen) clashes += s != 1;
          CHECK(clashes == 0);
        }
    };
    one_caller(20);
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; i++) callers.emplace_back(one_caller, 20);
    for (std::thread& t : callers) t.join();
  }
}
