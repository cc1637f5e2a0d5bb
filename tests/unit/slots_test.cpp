// Size programs mean what the expressions say: every operator, over awkward values.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "compile/slots.h"
#include "expr/eval.h"

namespace tenon::slots_test {

namespace {

constexpr int64_t wholes[] = {0, 1, -1, 2, -3, 7, 63, 64, -64, 1 << 20, int64_t{1} << 53, INT64_MAX, INT64_MIN};
const double reals[] = {0.0, -0.0, 1.0, -1.5, 2.5, 3.5, -7.25, 0.1, 1e300, -1e300, 0x1p63, INFINITY, -INFINITY, NAN};

/// The slot of e when x and y are bound to the given bits.
int64_t run_flat(Expr e, Expr x, Expr y, int64_t a, int64_t b, bool exactly = false) {
  SizeProgram program;
  SlotTable slots(program);
  int32_t at[] = {slots.bind(x, 0), slots.bind(y, 0)}, out = exactly ? slots.exactly(e) : slots.of(e);
  std::vector<int64_t> values = program.initial;
  values[static_cast<size_t>(at[0])] = a, values[static_cast<size_t>(at[1])] = b;
  run_stage(program, 0, values.data());
  return values[static_cast<size_t>(out)];
}

bool same_real(int64_t bits, double want) {
  double got = std::bit_cast<double>(bits);
  return got == want ? std::signbit(got) == std::signbit(want) : std::isnan(got) && std::isnan(want);
}

} // namespace

TEST_CASE("size programs: integers as eval.h has them") {
  ExprPool pool;
  Expr x = pool.symbol("x"), y = pool.symbol("y");
  int tried = 0;
  for (int o = static_cast<int>(Op::Neg); o <= static_cast<int>(Op::Le); o++) {
    Op op = static_cast<Op>(o);
    if (!is_size_op(op, DType::I64) || op == Op::Cast) continue;
    Expr e = is_unary(op) ? unary(op, x) : binary(op, x, y);
    tried++;
    for (int64_t a : wholes)
      for (int64_t b : wholes) {
        int64_t want = eval_int(e, [&](const ExprNode& n) { return n.name == "x" ? a : b; });
        CHECK_MESSAGE(run_flat(e, x, y, a, b) == want, to_string(e), " of ", a, ", ", b);
      }
  }
  CHECK(tried >= 20);
}

TEST_CASE("size programs: floats as eval.h has them") {
  ExprPool pool;
  Expr x = pool.symbol("x", DType::F64), y = pool.symbol("y", DType::F64);
  int tried = 0;
  for (int o = static_cast<int>(Op::Neg); o <= static_cast<int>(Op::Le); o++) {
    Op op = static_cast<Op>(o);
    if (!is_size_op(op, DType::F64) || op == Op::Cast) continue;
    Expr e = is_unary(op) ? unary(op, x) : binary(op, x, y);
    tried++;
    for (double a : reals)
      for (double b : reals) {
        double want = eval_number(e, [&](const ExprNode& n) { return n.name == "x" ? a : b; });
        bool exactly = !is_compare(op) || !(std::isnan(a) || std::isnan(b));
        int64_t got = run_flat(e, x, y, std::bit_cast<int64_t>(a), std::bit_cast<int64_t>(b), exactly);
        CHECK_MESSAGE((is_compare(op) ? got == static_cast<int64_t>(want) : same_real(got, want)), to_string(e), " of ", a, ", ", b);
      }
  }
  CHECK(tried >= 35);
}

TEST_CASE("size programs: casts, conditions, and powers of integers") {
  ExprPool pool;
  Expr x = pool.symbol("x"), y = pool.symbol("y"), f = pool.symbol("f", DType::F64);
  Expr half = cast(x, DType::F64) * pool.number(0.5, DType::F64);
  for (int64_t a : {-3, 0, 5, 1 << 30}) {
    CHECK(run_flat(cast(unary(Op::Floor, half), DType::I64), x, y, a, 0) == static_cast<int64_t>(std::floor(0.5 * static_cast<double>(a))));
    CHECK(run_flat(select(lt(x, y), x, y), x, y, a, 1) == std::min<int64_t>(a, 1));
    CHECK(run_flat(logical_not(eq(x, y)), x, y, a, 5) == (a != 5));
    CHECK(run_flat(cast(x, DType::Bool), x, y, a, 0) == (a != 0));
  }
  CHECK(run_flat(binary(Op::Pow, x, y), x, y, 3, 4) == 81);
  CHECK(run_flat(cast(cast(f, DType::F32), DType::F64), f, y, std::bit_cast<int64_t>(0.1), 0) == std::bit_cast<int64_t>(double{0.1f}));
  CHECK(run_flat(cast(f, DType::Bool), f, y, std::bit_cast<int64_t>(-0.0), 0) == 0);
  CHECK(run_flat(cast(f, DType::I64), f, y, std::bit_cast<int64_t>(double{NAN}), 0) == INT64_MIN);
}

TEST_CASE("size programs: quotients of floats are exact where their floor is near a whole") {
  ExprPool pool;
  Expr x = pool.symbol("x", DType::F64), y = pool.symbol("y", DType::F64);
  auto at = [&](double a, double b) {
    return std::bit_cast<double>(run_flat(binary(Op::FloorDiv, x, y), x, y, std::bit_cast<int64_t>(a), std::bit_cast<int64_t>(b)));
  };
  CHECK(at(1.0, 0.1) == 9.0); // as Python; 1.0 / 0.1 rounds to 10
  CHECK(std::isnan(std::bit_cast<double>(run_flat(binary(Op::Min, x, y), x, y, std::bit_cast<int64_t>(double{NAN}), 0))));
  CHECK_THROWS_AS(run_flat(pool.call("lgamma", DType::F64, {x}), x, y, 0, 0), Error);
}

TEST_CASE("size programs: exact integers are those of unbounded arithmetic, or none") {
  ExprPool pool;
  Expr x = pool.symbol("x"), y = pool.symbol("y");
  auto reference = [](Op op, __int128_t a, __int128_t b) { return op == Op::Add ? a + b : op == Op::Sub ? a - b : a * b; };
  int none = 0;
  for (Op op : {Op::Add, Op::Sub, Op::Mul})
    for (int64_t a : wholes)
      for (int64_t b : wholes) {
        CAPTURE(a);
        CAPTURE(b);
        Expr e = binary(op, x, y);
        __int128_t want = reference(op, a, b);
        bool fits = a != no_size && b != no_size && want > INT64_MIN && want <= INT64_MAX;
        none += !fits;
        CHECK(run_flat(e, x, y, a, b, true) == (fits ? static_cast<int64_t>(want) : no_size));
        if (fits) continue;
        for (Expr condition : {lt(e, x), le(y, e), eq(e, e + 1.0), logical_not(lt(e, x)), ne(e, y)})
          CHECK(run_flat(condition, x, y, a, b, true) == (const_int(condition) ? *const_int(condition) : no_size));
      }
  CHECK(none > 50);
  Expr sum = x + y, one = pool.integer(1);
  CHECK(run_flat(select(lt(x, one), x, sum), x, y, 0, INT64_MAX, true) == 0); // what is not taken does not matter
  CHECK(run_flat(select(lt(x, one), x, sum), x, y, 1, INT64_MAX, true) == no_size);
  CHECK(run_flat(logical_or(lt(x, one), lt(sum, one)), x, y, 0, INT64_MAX, true) == 1);
  CHECK(run_flat(logical_and(lt(one, x), lt(sum, one)), x, y, 1, INT64_MAX, true) == 0);
  CHECK(run_flat(logical_and(le(one, x), lt(sum, one)), x, y, 1, INT64_MAX, true) == no_size);
  CHECK(run_flat(binary(Op::Pow, x, y), x, y, 3, 39, true) == 4052555153018976267);
  CHECK(run_flat(binary(Op::Pow, x, y), x, y, 3, 40, true) == no_size);
  CHECK(run_flat(binary(Op::Shl, x, y), x, y, 1, 62, true) == int64_t{1} << 62);
  CHECK(run_flat(binary(Op::Shl, x, y), x, y, 2, 62, true) == no_size);
  CHECK(run_flat(cast(cast(sum, DType::F64) * 2.0, DType::I64), x, y, 1, INT64_MAX, true) == no_size);
}

} // namespace tenon::slots_test
