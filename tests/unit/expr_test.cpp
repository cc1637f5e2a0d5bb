// expr: normal form, bounds, and that simplification never changes a value.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "expr/eval.h"

namespace tenon::expr_test {

TEST_CASE("integer normal form") {
  ExprPool p;
  Expr s = p.symbol("s", DType::I64, 2, 1024), t = p.symbol("t", DType::I64, 1, INT64_MAX);
  CHECK(s * 2 + 3 - s == s + 3);
  CHECK((s + t) * (s - t) == s * s - t * t);
  CHECK(floor_div(s * 8 + 5, p.integer(8)) == s);
  CHECK(mod(s * 8 + 5, p.integer(8)) == p.integer(5));
  CHECK(floor_div(s * t, t) == s);
  CHECK(min(s, p.integer(1)) == p.integer(1));
  CHECK(lt(s, p.integer(1)) == p.boolean(false));
  CHECK(le(s, s * t) == le(s, s * t));
  Expr i = p.axis(0, t), j = p.axis(1, s);
  CHECK(floor_div(i * s + j, s) == i);
  CHECK(mod(i * s + j, s) == j);
  CHECK(lt(j, s) == p.boolean(true));
  CHECK(proves_lt(i * s + j, s * t));
}

TEST_CASE("text round trip") {
  ExprPool p;
  for (const char* text :
       {"s77*2 + 1", "(s0 + s1)*s2", "s0//4 - 3", "min(s0, 4)", "s0 % 8", "-s0 + 4", "s0 < s1 or s1 == 4", "not s0 < 3"}) {
    Expr e = parse_expr(p, text);
    CHECK_MESSAGE(parse_expr(p, to_string(e)) == e, to_string(e));
  }
  CHECK_THROWS_AS(parse_expr(p, "s0 +"), Error);
  CHECK_THROWS_AS(parse_expr(p, std::string(10000, '(')), Error);
}

namespace {

// A random integer expression, built twice: as an Expr (simplified) and as a value.
struct Random {
  std::mt19937 gen{7};
  ExprPool pool;
  int64_t values[3];
  int below(int n) { return static_cast<int>(gen() % static_cast<unsigned>(n)); }
  std::pair<Expr, int64_t> make(int depth) {
    if (depth == 0 || below(5) == 0) {
      int k = below(5);
      if (k < 3) return {pool.symbol("abc" + std::to_string(k), DType::I64, 1, 50), values[k]};
      int64_t c = below(13) - 4;
      return {pool.integer(c), c};
    }
    auto [a, x] = make(depth - 1);
    auto [b, y] = make(depth - 1);
    switch (below(7)) {
    case 0: return {a + b, x + y};
    case 1: return {a - b, x - y};
    case 2: return {a * b, x * y};
    case 3: return {floor_div(a, b), apply_binary_int<Op::FloorDiv>(x, y)};
    case 4: return {mod(a, b), apply_binary_int<Op::Mod>(x, y)};
    case 5: return {min(a, b), std::min(x, y)};
    default: return {select(lt(a, b), a, b * 2), x < y ? x : y * 2};
    }
  }
};

} // namespace

TEST_CASE("simplified integer expressions keep their value") {
  Random r;
  for (int round = 0; round < 5000; round++) {
    for (auto& v : r.values) v = 1 + r.below(50);
    auto [e, value] = r.make(4);
    int64_t got = eval_int(e, [&](const ExprNode& n) { return r.values[n.name[3] - '0']; });
    CHECK_MESSAGE(got == value, to_string(e));
    CHECK(e->lo <= value);
    CHECK(value <= e->hi);
  }
}

TEST_CASE("integers are evaluated exactly, and floats beyond them give the lowest") {
  ExprPool pool;
  Expr x = pool.symbol("x"), f = pool.symbol("f", DType::F64);
  auto number = [&](Expr e, double v) { return eval_number(e, [v](const ExprNode&) { return v; }); };
  auto integer = [&](Expr e, int64_t v) { return eval_int(e, [v](const ExprNode&) { return v; }); };
  CHECK(number(mod(x + pool.integer(int64_t{1} << 53), pool.integer(10)), 1) == 3); // a double between them would give 2
  CHECK(number(mod(x, pool.integer(10)), 1e30) == 2);                               // of -2^63
  for (double beyond : {0x1p63, -1e300, double{INFINITY}, double{NAN}}) CHECK(number(cast(f, DType::I64), beyond) == -0x1p63);
  CHECK(integer(cast(cast(x, DType::F64) * pool.number(2, DType::F64), DType::I64), INT64_MAX) == INT64_MIN);
  CHECK(integer(cast(f, DType::I64), INT64_MAX) == INT64_MIN); // the nearest double is 2^63
  CHECK(number(cast(x, DType::Bool), 1e-9) == 0);
  CHECK(number(cast(f, DType::Bool), 1e-9) == 1);
}

TEST_CASE("rounding what was widened from there is left out, and nothing else") {
  ExprPool pool;
  Expr i = pool.axis(0, pool.integer(8)), x = cast(pool.load(0, DType::BF16, {i}), DType::F32), y = pool.load(1, DType::F32, {i});
  auto round = [](Expr e) { return cast(cast(e, DType::BF16), DType::F32); };
  Expr relu = max(x, pool.number(0, DType::F32)), picked = select(lt(y, x), -x, min(x, unary(Op::Abs, x)));
  CHECK(round(relu) == relu);
  CHECK(round(picked) == picked);
  for (Expr other : {y, x + x, max(x, y), max(x, pool.number(0.1, DType::F32)), cast(pool.load(0, DType::F16, {i}), DType::F32)})
    CHECK(round(other) != other);
}

TEST_CASE("what keeps order is computed before rounding, which is done once") {
  ExprPool pool;
  Expr i = pool.axis(0, pool.integer(8)), x = cast(pool.load(0, DType::BF16, {i}), DType::F32), y = pool.load(1, DType::F32, {i});
  auto number = [&](double v) { return pool.number(v, DType::F32); };
  auto narrow = [](Expr e) { return cast(e, DType::BF16); };
  auto round = [&](Expr e) { return cast(narrow(e), DType::F32); };
  CHECK(narrow(max(round(y), number(0))) == narrow(max(y, number(0))));
  CHECK(narrow(min(number(6), max(number(0), round(y * y)))) == narrow(min(number(6), max(number(0), y * y))));
  CHECK(narrow(max(-round(y), x)) == narrow(max(-y, x)));
  for (Expr other : {max(round(y), number(0.1)), round(y) + x, select(lt(round(y), x), round(y), x),
                     max(cast(cast(y, DType::F16), DType::F32), number(0))})
    CHECK(contains(narrow(other)->args[0], [](const ExprNode& n) { return n.op == Op::Cast && is_reduced_float(n.type); }));
}

TEST_CASE("a walk over an expression sees each node once, however many there are") {
  ExprPool pool;
  Expr sum = pool.symbol("s0"), once = sum;
  for (int i = 1; i < 400; i++) sum = max(sum * 3.0, pool.symbol(fmt::format("s{}", i))), once = sum;
  std::vector<const ExprNode*> seen;
  visit(max(once, sum), [&](const ExprNode& n) { seen.push_back(&n); });
  CHECK(seen.size() == 400 + 1 + 2 * 399); // symbols, the 3, products and maxima
  std::sort(seen.begin(), seen.end());
  CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  CHECK(contains(sum, [](const ExprNode& n) { return n.name == "s0"; }));
  CHECK_FALSE(contains(sum, [](const ExprNode& n) { return n.name == "s400"; }));
}

} // namespace tenon::expr_test
