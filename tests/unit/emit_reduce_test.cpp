// Generated code of reductions: every kind and dtype, lanes within and around, several accumulators, nested loops.
#include <array>
#include <cmath>
#include <limits>

#include "kernel_harness.h"

namespace tenon::emit_reduce_test {
using namespace harness;

namespace {

const int64_t sizes[] = {0, 1, 2, 15, 16, 17, 31, 33, 100, 1023};

struct Reducer {
  Reduction op;
  DType type;
};
const Reducer kinds[] = {
    {Reduction::Sum, DType::F32},    {Reduction::Sum, DType::F64},   {Reduction::Sum, DType::I64},   {Reduction::Sum, DType::U8},
    {Reduction::Prod, DType::F32},   {Reduction::Prod, DType::I32},  {Reduction::Max, DType::F32},   {Reduction::Max, DType::F64},
    {Reduction::Max, DType::U8},     {Reduction::Max, DType::I64},   {Reduction::Min, DType::F32},   {Reduction::Min, DType::I16},
    {Reduction::Max, DType::Bool},   {Reduction::Any, DType::Bool},  {Reduction::All, DType::Bool},  {Reduction::ArgMax, DType::F32},
    {Reduction::ArgMin, DType::F64}, {Reduction::ArgMax, DType::U8}, {Reduction::ArgMin, DType::I64}};

bool finds_position(Reduction op) { return op == Reduction::ArgMax || op == Reduction::ArgMin; }

// Rows of n: out[p] over the row's elements, lanes inside the region.
Case horizontal(ExprPool& pool, Reducer k, int64_t n, int lanes, bool dynamic) {
  Case c;
  Expr size = dynamic ? pool.symbol("s0", DType::I64, 0, INT64_MAX) : pool.integer(n);
  if (dynamic) c.kernel.scalars.push_back(size), c.scalars.push_back(n);
  Expr p = pool.axis(0, pool.integer(3)), i = pool.axis(1, size);
  DType result = finds_position(k.op) ? DType::I64 : k.type;
  c.kernel.name = "horizontal";
  c.kernel.buffers = {input(k.type), output(result)};
  c.kernel.parallel = p;
  Expr x = pool.load(0, k.type, {p * size + i});
  c.kernel.body = {reduce({{0, k.op, k.type}}, {loop(i, lanes, {add(0, x, finds_position(k.op) ? i : Expr())})}),
                   store(1, p, pool.reg(0, result))};
  c.data = {{.count = static_cast<size_t>(3 * n)}, {.count = 3}};
  c.end = 3;
  c.tolerance = is_float(result) ? 1e-4 : 0;
  return c;
}

// Columns: out[j] over k < n of in[k, j], lanes of j around the region.
Case vertical(ExprPool& pool, Reducer k, int64_t n, int64_t columns, int lanes, bool dynamic) {
  Case c;
  Expr size = dynamic ? pool.symbol("s0", DType::I64, 0, INT64_MAX) : pool.integer(n);
  Expr wide = dynamic ? pool.symbol("s1", DType::I64, 0, INT64_MAX) : pool.integer(columns);
  if (dynamic) c.kernel.scalars = {size, wide}, c.scalars = {n, columns};
  Expr p = pool.axis(0, pool.integer(1)), j = pool.axis(1, wide), i = pool.axis(2, size);
  DType result = finds_position(k.op) ? DType::I64 : k.type;
  c.kernel.name = "vertical";
  c.kernel.buffers = {input(k.type), output(result)};
  c.kernel.parallel = p;
  Expr x = pool.load(0, k.type, {i * wide + j});
  c.kernel.body = {
      loop(j, lanes,
           {reduce({{0, k.op, k.type}}, {loop(i, 1, {add(0, x, finds_position(k.op) ? i : Expr())})}), store(1, j, pool.reg(0, result))})};
  c.data = {{.count = static_cast<size_t>(n * columns)}, {.count = static_cast<size_t>(columns)}};
  c.tolerance = is_float(result) ? 1e-4 : 0;
  return c;
}

} // namespace

TEST_CASE("every reduction, the lanes within") {
  for (Reducer k : kinds)
    for (int64_t n : {0, 1, 17, 33, 100, 1023})
      for (int lanes : {1, 64})
        for (bool dynamic : {false, true}) {
          ExprPool pool;
          check(horizontal(pool, k, n, lanes, dynamic));
        }
}

TEST_CASE("every reduction, the lanes around") {
  for (Reducer k : kinds)
    for (int64_t n : {0, 1, 9})
      for (int64_t columns : {1, 17, 100})
        for (int lanes : {1, 32})
          for (bool dynamic : {false, true}) {
            ExprPool pool;
            check(vertical(pool, k, n, columns, lanes, dynamic));
          }
}

TEST_CASE("long sums of f32 are exact to their last digits") {
  for (int64_t n : {33, 65, 129, 5003})
    for (int lanes : {1, 16, 64})
      for (bool dynamic : {false, true})
        for (bool rows : {false, true}) {
          ExprPool pool;
          constexpr int64_t columns = 5;
          Case c = rows ? horizontal(pool, {Reduction::Sum, DType::F32}, n, lanes, dynamic)
                        : vertical(pool, {Reduction::Sum, DType::F32}, n, columns, lanes, dynamic);
          std::vector<float> x(static_cast<size_t>(n * (rows ? 3 : columns)));
          for (size_t i = 0; i < x.size(); i++) x[i] = 0.1f + static_cast<float>(i % 7) * 0.37f; // errors of one sign add up
          c.data[0] = Data::of(x);
          c.tolerance = 1.5e-7;
          check(c);
        }
  ExprPool pool; // sums of sums, held in f64
  Case c = vertical(pool, {Reduction::Sum, DType::F32}, 40, 33, 16, true);
  auto& lanes = std::get<Loop>(c.kernel.body[0].v);
  std::get<ReduceRegion>(lanes.body[0].v).accumulators[0].widened = true;
  c.data[0] = Data::of(std::vector<float>(40 * 33, 0.1f));
  c.tolerance = 1.2e-7;
  check(c);
}

TEST_CASE("means of long sums are rounded once") {
  for (int64_t n : {65, 500, 1000, 5003})
    for (int lanes : {1, 16, 64})
      for (bool rows : {false, true})
        for (bool widened : {false, true}) {
          ExprPool pool;
          constexpr int64_t columns = 37;
          bool dynamic = n != 500; // whose vectors are known to be no more than a block: lanes meet in f64 without one
          Reducer sum{Reduction::Sum, DType::F32};
          Case c = rows ? horizontal(pool, sum, n, lanes, dynamic) : vertical(pool, sum, n, columns, lanes, dynamic);
          Stmt& last = rows ? c.kernel.body.back() : std::get<Loop>(c.kernel.body[0].v).body.back();
          auto& region = std::get<ReduceRegion>((rows ? c.kernel.body : std::get<Loop>(c.kernel.body[0].v).body)[0].v);
          std::get<Store>(last.v).value = pool.reg(0, DType::F32) / pool.number(static_cast<double>(n), DType::F32);
          region.accumulators[0].widened = widened;
          int64_t count = rows ? 3 : columns;
          std::vector<float> x(static_cast<size_t>(n * count)), means(static_cast<size_t>(count));
          for (size_t i = 0; i < x.size(); i++)
            x[i] = 3 + static_cast<float>(i * 7919 % 32768) / 32768; // sums of 64 are exact in f32, of all in f64
          for (int64_t k = 0; k < count; k++) {
            double total = 0;
            for (int64_t i = 0; i < n; i++) total += x[static_cast<size_t>(rows ? k * n + i : i * columns + k)];
            means[static_cast<size_t>(k)] = static_cast<float>(total / static_cast<double>(n));
          }
          c.data[0] = Data::of(x);
          for (Isa isa : levels()) {
            Outcome got = run(c, compile_kernel(c.kernel, jit_for(isa)).function, false);
            CHECK(std::memcmp(got.buffers[1].data(), means.data(), got.buffers[1].size()) == 0);
          }
        }
}

// x[p, i] / sum of y[p, ..], where y has a divisor at the begin of each row and zeros behind it.
template <class T> void check_quotients(int lanes, const std::vector<T>& divisors, const std::vector<T>& row) {
  ExprPool pool;
  DType type = sizeof(T) == 8 ? DType::F64 : DType::F32;
  auto rows = static_cast<int64_t>(divisors.size()), n = static_cast<int64_t>(row.size());
  Expr p = pool.axis(0, pool.integer(rows)), i = pool.axis(1, pool.integer(n)), j = pool.axis(2, pool.integer(n));
  Case c;
  c.kernel.name = "quotients";
  c.kernel.buffers = {input(type), input(type), output(type)};
  c.kernel.parallel = p;
  c.kernel.body = {reduce({{0, Reduction::Sum, type}}, {loop(j, lanes, {add(0, pool.load(1, type, {p * n + j}))})}),
                   loop(i, lanes, {store(2, p * n + i, pool.load(0, type, {p * n + i}) / pool.reg(0, type))})};
  std::vector<T> x, y(static_cast<size_t>(rows * n), T(0));
  for (size_t k = 0; k < divisors.size(); k++) x.insert(x.end(), row.begin(), row.end()), y[k * row.size()] = divisors[k];
  c.data = {Data::of(x), Data::of(y), {.count = x.size()}};
  c.end = rows;
  for (Isa isa : levels()) {
    Outcome got = run(c, compile_kernel(c.kernel, jit_for(isa)).function, false);
    for (size_t k = 0; k < x.size(); k++) {
      T q, divisor = divisors[k / row.size()] + T(0), want = x[k] / divisor, least = std::numeric_limits<T>::denorm_min(); // a sum is no -0
      std::memcpy(&q, got.buffers[2].data() + k * sizeof(T), sizeof(T));
      bool near = std::isfinite(want) ? std::abs(q - want) <= std::max(2 * std::numeric_limits<T>::epsilon() * std::abs(want), 2 * least)
                                      : q == want || (std::isnan(q) && std::isnan(want));
      CHECK_MESSAGE(near, x[k], " / ", divisor, " = ", want, ", not ", q);
      if (!std::isnan(want)) CHECK(std::signbit(q) == std::signbit(want));
    }
  }
}

TEST_CASE("elements over what their row was reduced to: divisors of all sizes") {
  auto values = []<class T>(T) {
    using Limits = std::numeric_limits<T>;
    T least = Limits::min(), most = Limits::max(), far = std::sqrt(most), inf = Limits::infinity();
    std::vector<T> out = {
        1, 3, 0, far, 7 / far, least, most, inf, Limits::denorm_min(), least / 37, least * 1000, most / 1000, Limits::quiet_NaN()};
    for (size_t i = 0, n = out.size() - 1; i < n; i++) out.push_back(-out[i]);
    return out;
  };
  for (int lanes : {8, 16, 32}) check_quotients(lanes, values(1.0f), values(1.0f)), check_quotients(lanes, values(1.0), values(1.0));
}

TEST_CASE("rows that are passed over twice ask for the next one") {
  auto fetched = [](int64_t n, int lanes, bool twice) {
    ExprPool pool;
    Expr p = pool.axis(0, pool.integer(4)), i = pool.axis(1, pool.integer(n)), x = pool.load(0, DType::F32, {p * n + i});
    Case c;
    c.kernel.name = "rows";
    c.kernel.buffers = {input(DType::F32), output(DType::F32)};
    c.kernel.parallel = p;
    if (twice) c.kernel.body = {reduce({{0, Reduction::Max, DType::F32}}, {loop(i, lanes, {add(0, x)})})};
    c.kernel.body.push_back(loop(i, lanes, {store(1, p * n + i, twice ? x - pool.reg(0, DType::F32) : -x)}));
    c.data = {{.count = static_cast<size_t>(4 * n)}, {.count = static_cast<size_t>(4 * n)}};
    c.end = 4;
    check(c);
    CodeText text;
    compile_kernel(c.kernel, jit_for(levels().front()), &text);
    std::array<int, 2> count{}; // to read, to write
    for (size_t at = 0; (at = text.ir.find("call void @llvm.prefetch", at)) != std::string::npos; at++)
      count[text.ir.substr(at, text.ir.find('\n', at) - at).find("i32 1, i32 3") != std::string::npos]++;
    return count;
  };
  using Count = std::array<int, 2>;
  CHECK(fetched(1024, 16, true) == Count{1, 1});
  CHECK(fetched(1024, 32, true) == Count{2, 2});
  CHECK(fetched(8192, 16, true) == Count{1, 1});
  CHECK(fetched(8208, 16, true) == Count{0, 0}); // more than 32 KB
  CHECK(fetched(1024, 8, true) == Count{0, 0});  // half a line
  CHECK(fetched(1024, 16, false) == Count{0, 0});
}

TEST_CASE("extremes among NaN, ties and infinities") {
  const float inf = INFINITY, nan = NAN;
  const std::vector<std::vector<float>> rows = {{1, 5, 5, 5, 2}, {1, nan, 7, nan, 9}, {-inf, -inf, -inf, -inf}, {inf, inf, 1, inf},
                                                {nan, nan, nan}, {0, -0.0f, 0},       {-inf, nan, inf, 3}};
  for (Reduction op : {Reduction::Max, Reduction::Min, Reduction::ArgMax, Reduction::ArgMin})
    for (const auto& pattern : rows)
      for (int64_t n : {5, 33, 200})
        for (int64_t at : {0, 20, 150})
          for (int lanes : {1, 64}) {
            if (at + static_cast<int64_t>(pattern.size()) > n) continue;
            ExprPool pool;
            Case c = horizontal(pool, {op, DType::F32}, n, lanes, n % 2);
            std::vector<float> x(static_cast<size_t>(3 * n), op == Reduction::Max || op == Reduction::ArgMax ? -inf : inf);
            for (size_t row = 0; row < 3; row++) std::copy(pattern.begin(), pattern.end(), x.begin() + static_cast<long>(row) * n + at);
            c.data[0] = Data::of(x);
            c.tolerance = 1e-9; // the sign of a zero is left open
            check(c);
          }
}

TEST_CASE("several accumulators over nested loops") {
  for (int64_t n : {0, 1, 7, 16, 40, 129})
    for (int64_t m : {1, 3, 11})
      for (int lanes : {1, 16, 64})
        for (bool dynamic : {false, true}) {
          ExprPool pool;
          Case c;
          Expr a = dynamic ? pool.symbol("s0", DType::I64, 0, INT64_MAX) : pool.integer(m);
          Expr b = dynamic ? pool.symbol("s1", DType::I64, 0, INT64_MAX) : pool.integer(n);
          if (dynamic) c.kernel.scalars = {a, b}, c.scalars = {m, n};
          Expr p = pool.axis(0, pool.integer(2)), k = pool.axis(1, a), i = pool.axis(2, b);
          Expr x = pool.load(0, DType::F32, {(p * a + k) * b + i}), y = pool.load(1, DType::F32, {k});
          auto f32 = [&](int r) { return pool.reg(r, DType::F32); };
          c.kernel.name = "several";
          c.kernel.buffers = {input(DType::F32), input(DType::F32), output(DType::F32)};
          c.kernel.parallel = p;
          // The second loop over i is scalar: states of two widths.
          c.kernel.body = {
              reduce({{0, Reduction::Sum, DType::F32}, {1, Reduction::Max, DType::F32}, {2, Reduction::ArgMax, DType::F32}},
                     {loop(k, 1, {loop(i, lanes, {add(0, x * y), add(1, x), add(2, x, k * b + i)}), add(0, y)}),
                      add(1, pool.number(-9, DType::F32))}),
              reduce({{3, Reduction::Sum, DType::F32}},
                     {loop(k, 1, {reduce({{4, Reduction::Sum, DType::F32}}, {loop(i, lanes, {add(4, x - f32(1))})}), add(3, f32(4) * y)})}),
              store(2, p * 4.0, f32(0)),
              store(2, p * 4.0 + 1.0, f32(1)),
              store(2, p * 4.0 + 2.0, cast(pool.reg(2, DType::I64), DType::F32)),
              store(2, p * 4.0 + 3.0, f32(3))};
          c.data = {{.count = static_cast<size_t>(2 * m * n)}, {.count = static_cast<size_t>(m)}, {.count = 8}};
          c.end = 2;
          c.tolerance = 1e-4;
          check(c);
        }
}

TEST_CASE("the tests above hold for lanes of one register, too") {
  for (int64_t n : sizes)
    for (Reduction op : {Reduction::Sum, Reduction::Max, Reduction::ArgMin}) {
      ExprPool pool;
      check(horizontal(pool, {op, DType::F32}, n, 16, n % 2));
      check(vertical(pool, {op, DType::F32}, 5, n, 8, n % 2));
    }
}

TEST_CASE("what a kernel wrote can be read again") {
  for (int64_t n : sizes)
    for (int lanes : {1, 16, 64})
      for (bool dynamic : {false, true}) {
        ExprPool pool;
        Case c;
        Expr size = dynamic ? pool.symbol("s0", DType::I64, 0, INT64_MAX) : pool.integer(n);
        if (dynamic) c.kernel.scalars.push_back(size), c.scalars.push_back(n);
        Expr p = pool.axis(0, pool.integer(3)), i = pool.axis(1, size);
        DType f = DType::F32;
        Expr x = pool.load(0, f, {p * size + i}), row = pool.load(2, f, {i}), flag = pool.load(3, DType::Bool, {i});
        c.kernel.name = "scratch";
        c.kernel.buffers = {
            input(f), output(f), {BufferKind::Scratch, f, pool.integer(64)}, {BufferKind::Scratch, DType::Bool, (size + 32.0) * 4.0}};
        c.kernel.scratch_bytes = (size + 32.0) * 5.0;
        c.kernel.parallel = p;
        c.kernel.body = {
            reduce({{0, Reduction::Sum, f}}, {loop(i, lanes, {store(2, i, x * x), store(3, i, lt(x, constant_like(0, x))), add(0, x)})}),
            loop(i, lanes, {store(2, i, row + pool.reg(0, f)), store(2, i, row * 2.0)}),
            loop(i, lanes, {store(1, p * size + i, select(flag, row, x))}),
            loop(i, lanes, {store(1, p * size + i, pool.load(1, f, {p * size + i}) + 1.0)})};
        c.data = {{.count = static_cast<size_t>(3 * n)}, {.count = static_cast<size_t>(3 * n)}, {}, {}};
        c.end = 3;
        c.tolerance = 1e-4;
        check(c);
      }
}

TEST_CASE("windows: unrolled loops in lanes, the extents of inner loops depend on outer ones") {
  for (int64_t n : {1, 2, 15, 16, 33, 100})
    for (int lanes : {1, 16, 32}) {
      ExprPool pool;
      Case c;
      Expr size = pool.integer(n), p = pool.axis(0, pool.integer(4)), i = pool.axis(1, size);
      Expr y = pool.axis(2, pool.integer(3)), x = pool.axis(3, pool.integer(3)), t = pool.axis(4, p + 1.0);
      Expr row = p + y - 1.0, column = i + x - 1.0, o = pool.integer(0);
      Expr in = logical_and(logical_and(le(o, row), lt(row, pool.integer(4))), logical_and(le(o, column), lt(column, size)));
      Expr v = select(in, pool.load(0, DType::F32, {row * size + column}), pool.number(-INFINITY, DType::F32));
      c.kernel.name = "window";
      c.kernel.buffers = {input(DType::F32), output(DType::F32), output(DType::F32)};
      c.kernel.parallel = p;
      c.kernel.body = {loop(i, lanes,
                            {reduce({{0, Reduction::Max, DType::F32}}, {loop(y, 1, {loop(x, 1, {add(0, v)})})}),
                             store(1, p * size + i, pool.reg(0, DType::F32)),
                             reduce({{1, Reduction::Sum, DType::F32}}, {loop(t, 1, {add(1, pool.load(0, DType::F32, {t * size + i}))})}),
                             store(2, p * size + i, pool.reg(1, DType::F32))})};
      size_t k = static_cast<size_t>(4 * n);
      c.data = {{.count = k}, {.count = k}, {.count = k}};
      c.end = 4;
      c.tolerance = 1e-6;
      check(c);
    }
}

} // namespace tenon::emit_reduce_test
