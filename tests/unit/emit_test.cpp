// Generated code of whole kernels: loops of every length, memory access of every kind, guards, reductions, checks.
#include "kernel_harness.h"

using namespace tenon;
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
