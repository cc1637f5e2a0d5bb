// Generated code of whole kernels: loops of every length, memory access of every kind, guards, reductions, checks.
#include <random>

#include "kernel_harness.h"

namespace tenon::emit_test {
using namespace harness;

namespace {

const int64_t sizes[] = {0, 1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 1023};

} // namespace

TEST_CASE("pointwise chains of every length") {
  for (int64_t n : sizes)
    for (int lanes : {1, 8, 16, 64})
      for (bool dynamic : {false, true}) {
        Pointwise b;
        check(b.make({input(DType::F32), input(DType::F32), output(DType::F32)}, n, lanes, dynamic, [](Pointwise& k) {
          Expr x = k.pool.load(0, DType::F32, {k.i}), y = k.pool.load(1, DType::F32, {k.i});
          return (x - y) * x / (unary(Op::Abs, y) + 1.0);
        }));
      }
}

TEST_CASE("softmax over rows") {
  for (int64_t n : sizes)
    for (int lanes : {1, 16, 64})
      for (bool dynamic : {false, true}) {
        ExprPool pool;
        Case c;
        Expr size = dynamic ? pool.symbol("s0", DType::I64, 0, INT64_MAX) : pool.integer(n);
        if (dynamic) c.kernel.scalars.push_back(size), c.scalars.push_back(n);
        Expr p = pool.axis(0, pool.integer(3)), i = pool.axis(1, size);
        Expr x = pool.load(0, DType::F32, {p * size + i});
        Expr e = unary(Op::Exp, x - pool.reg(0, DType::F32));
        c.kernel.name = "softmax";
        c.kernel.buffers = {input(DType::F32), output(DType::F32)};
        c.kernel.parallel = p;
        c.kernel.body = {reduce({{0, Reduction::Max, DType::F32}}, {loop(i, lanes, {add(0, x)})}),
                         reduce({{1, Reduction::Sum, DType::F32}}, {loop(i, lanes, {add(1, e)})}),
                         loop(i, lanes, {store(1, p * size + i, e / pool.reg(1, DType::F32))})};
        c.data = {{.count = static_cast<size_t>(3 * n)}, {.count = static_cast<size_t>(3 * n)}};
        c.end = 3;
        c.tolerance = 1e-6;
        check(c);
      }
}

TEST_CASE("broadcast, strided, reversed and transposed access") {
  for (int64_t n : sizes)
    for (int lanes : {1, 16, 64})
      for (bool dynamic : {false, true})
        for (DType t : {DType::F32, DType::U8, DType::F64, DType::BF16, DType::Bool}) {
          ExprPool pool;
          Case c;
          Expr size = dynamic ? pool.symbol("s0", DType::I64, 0, INT64_MAX) : pool.integer(n);
          if (dynamic) c.kernel.scalars.push_back(size), c.scalars.push_back(n);
          Expr p = pool.axis(0, pool.integer(3)), i = pool.axis(1, size);
          Expr three = pool.integer(3);
          c.kernel.name = "access";
          c.kernel.buffers = {input(t), output(t), output(t), output(t), output(t), output(t), output(t)};
          c.kernel.parallel = p;
          auto at = [&](Expr offset) { return pool.load(0, t, {offset}); };
          c.kernel.body = {loop(i, lanes,
                                {store(1, p * size + i, at(p)),                // broadcast
                                 store(2, p * size + i, at(i * 3.0 + p)),      // constant stride
                                 store(3, i * 3.0 + p, at(p * size + i)),      // strided store
                                 store(4, p * size + i, at(size - i - 1.0)),   // reversed
                                 store(6, p * size + i, at(i * 2.0 + p)),      // every second
                                 store(5, i * size * three + p, at(i + p))})}; // stride of run-time size
          size_t k = static_cast<size_t>(n);
          c.data = {{.count = 3 * k + 3}, {.count = 3 * k},         {.count = 3 * k}, {.count = 3 * k},
                    {.count = 3 * k},     {.count = 3 * k * k + 3}, {.count = 3 * k}};
          c.end = 3;
          if (n <= 100 || t == DType::F32) check(c);
        }
}

TEST_CASE("gather and scatter by indices that were loaded") {
  for (int64_t n : sizes)
    for (int lanes : {1, 16, 64})
      for (DType t : {DType::F32, DType::I8, DType::I64, DType::F16}) {
        ExprPool pool;
        Case c;
        Expr size = pool.symbol("s0", DType::I64, 0, INT64_MAX);
        c.kernel.scalars = {size}, c.scalars = {n};
        Expr p = pool.axis(0, pool.integer(2)), i = pool.axis(1, size);
        Expr index = pool.load(1, DType::I64, {i});
        c.kernel.name = "gather";
        c.kernel.buffers = {input(t), input(DType::I64), output(t), output(t), output(t)};
        c.kernel.parallel = p;
        Expr safe = checked(select(lt(index, pool.integer(0)), index + size, index), size);
        c.kernel.body = {
            loop(i, lanes,
                 {store(2, p * size + i, pool.load(0, t, {p * size + safe})), store(3, p * size + index, pool.load(0, t, {p * size + i})),
                  // lanes beyond the end are out of range, but not active
                  store(4, p * size + i, pool.load(0, t, {pool.intern({.op = Op::Checked, .type = DType::I64, .args = {i, size}})}))})};
        std::vector<int64_t> order(static_cast<size_t>(n));
        for (size_t k = 0; k < order.size(); k++) order[k] = static_cast<int64_t>(k);
        std::shuffle(order.begin(), order.end(), std::mt19937(7));
        c.data = {{.count = static_cast<size_t>(2 * n)}, Data::of(order)};
        for (int k = 0; k < 3; k++) c.data.push_back({.count = static_cast<size_t>(2 * n)});
        c.end = 2;
        check(c);
      }
}

TEST_CASE("an index out of range is reported, and only where it is used") {
  for (int lanes : {1, 16, 64})
    for (int64_t bad : {-1, 40, 1000000007})
      for (bool guarded : {false, true}) {
        ExprPool pool;
        Case c;
        const int64_t n = 37;
        Expr p = pool.axis(0, pool.integer(1)), i = pool.axis(1, pool.integer(n));
        Expr index = pool.load(1, DType::I64, {i});
        Expr value = pool.load(0, DType::F32, {checked(index, pool.integer(40))});
        if (guarded) value = select(ne(index, pool.integer(bad)), value, pool.number(-1, DType::F32));
        c.kernel.name = "checked";
        c.kernel.buffers = {input(DType::F32), input(DType::I64), output(DType::F32)};
        c.kernel.parallel = p;
        c.kernel.body = {loop(i, lanes, {store(2, i, value)})};
        std::vector<int64_t> indices(n, 5);
        indices[33] = bad;
        c.data = {{.count = 40}, Data::of(indices), {.count = n}};
        c.expect_error = !guarded;
        check(c);
        for (Isa isa : levels()) {
          c.data[0] = Data::random(DType::F32, 40, 1);
          Outcome o = run(c, compile_kernel(c.kernel, jit_for(isa)).function, false);
          CHECK(o.error[1] == (guarded ? 0 : bad));
          CHECK(o.error[2] == (guarded ? 0 : 40));
        }
      }
}

TEST_CASE("guards keep loads within their buffers") {
  for (int64_t n : {1, 2, 15, 16, 17, 100})
    for (int lanes : {1, 16, 64})
      for (DType t : {DType::F32, DType::U8, DType::I64, DType::BF16})
        for (bool dynamic : {false, true}) {
          ExprPool pool;
          Case c;
          Expr size = dynamic ? pool.symbol("s0", DType::I64, 0, INT64_MAX) : pool.integer(n);
          if (dynamic) c.kernel.scalars.push_back(size), c.scalars.push_back(n);
          // A row more and two columns more on each side, zeros there; then rows one after the other, cut where the input ends.
          Expr rows = pool.integer(3), wide = size + 4.0;
          Expr p = pool.axis(0, rows + 2.0), i = pool.axis(1, wide), k = pool.axis(2, rows);
          Expr zero = pool.number(0, t), row = p - 1.0, column = i - 2.0, o = pool.integer(0);
          Expr in_row = logical_and(le(o, row), lt(row, rows)), in_column = logical_and(le(o, column), lt(column, size));
          auto at = [&](Expr offset) { return pool.load(0, t, {offset}); };
          Expr inner = select(in_column, at(row * size + column), zero);
          Expr sums = select(in_row, cast(at(row * size), DType::F32), pool.number(1, DType::F32));
          Expr guarded = select(in_column, select(lt(k, row), cast(at(k * size + column), DType::F32), sums), pool.number(2, DType::F32));
          c.kernel.name = "guard";
          c.kernel.buffers = {input(t), output(t), output(t), output(DType::F32)};
          c.kernel.parallel = p;
          c.kernel.body = {loop(i, lanes,
                                {store(1, p * wide + i, select(in_row, inner, zero)),
                                 store(2, p * wide + i, select(logical_and(in_row, in_column), at(row * size + column), zero)),
                                 reduce({{0, Reduction::Max, DType::F32}}, {loop(k, 1, {add(0, guarded)})}),
                                 store(3, p * wide + i, pool.reg(0, DType::F32))})};
          size_t m = static_cast<size_t>(5 * (n + 4));
          c.data = {{.count = static_cast<size_t>(3 * n)}, {.count = m}, {.count = m}, {.count = m}};
          c.end = 5;
          if (n > 0) check(c);
        }
}

TEST_CASE("a flat loop over several dimensions") {
  for (int64_t inner : {1, 3, 16, 48, 64, 96})
    for (int64_t n : {0, 1, 17, 64, 100})
      for (int lanes : {16, 64})
        for (bool dynamic : {false, true})
          for (int64_t shift : {0, 5, 64}) {
            Pointwise b;
            Case c = b.make({input(DType::F32), input(DType::F32), output(DType::F32)}, n, lanes, dynamic, [&](Pointwise& k) {
              Expr i = k.i * (shift == 5 ? 2.0 : 1.0) + k.pool.integer(shift), w = k.pool.integer(inner);
              Expr d = k.pool.intern({.op = Op::FloorDiv, .type = DType::I64, .args = {i, w}});
              Expr m = k.pool.intern({.op = Op::Mod, .type = DType::I64, .args = {i, w}});
              return k.pool.load(0, DType::F32, {d}) * 128.0 + k.pool.load(1, DType::F32, {m * 2.0}) + cast(m - d, DType::F32);
            });
            c.data[0].count = static_cast<size_t>((2 * n + shift) / inner + 1);
            c.data[1].count = static_cast<size_t>(2 * inner);
            check(c);
          }
}

TEST_CASE("numbers made of the index") {
  for (int64_t n : {0, 1, 15, 33, 100})
    for (int lanes : {1, 32})
      for (DType t : {DType::F32, DType::I32, DType::U8, DType::F16, DType::I64})
        for (bool dynamic : {false, true}) {
          Pointwise b;
          check(b.make({output(t)}, n, lanes, dynamic, [t](Pointwise& k) { return cast(k.i * 3.0 - 7.0, t); }));
          check(b.make({output(DType::Bool)}, n, lanes, dynamic, [](Pointwise& k) {
            Expr s = k.i->args[0];
            return binary(Op::Xor, lt(k.i * 2.0, s + 1.0), binary(Op::Xor, eq(k.i, s - 3.0), le(s - k.i, mod(k.i, k.pool.integer(5)))));
          }));
          check(b.make({output(t)}, n, lanes, dynamic, [t](Pointwise& k) {
            Expr s = k.i->args[0] + 1.0;
            return cast(floor_div(k.i * 5.0, s) + mod(k.i * 7.0 + 3.0, k.pool.integer(11)) * (k.i * k.i), t);
          }));
        }
}

} // namespace tenon::emit_test
