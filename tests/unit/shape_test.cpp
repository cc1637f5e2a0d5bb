// Index expressions of reshapes and sizes of slices: their shortest forms, with known and symbolic sizes.
#include <doctest/doctest.h>

#include <random>

#include "expr/eval.h"
#include "ops/shape.h"

namespace tenon::shape_test {
using namespace tenon::ops;

namespace {

struct Fixture {
  ExprPool pool;
  Expr n = pool.symbol("n", DType::I64, 0), m = pool.symbol("m", DType::I64, 0);
  Expr i(int64_t v) { return pool.integer(v); }

  // The reshape's index, as text: axes are i0, i1 ...
  std::string index(std::vector<Expr> in, std::vector<Expr> out) {
    std::vector<Expr> axes;
    Substitution names;
    for (size_t d = 0; d < out.size(); d++) {
      axes.push_back(pool.axis(static_cast<int64_t>(d), out[d]));
      names.set(axes[d], pool.symbol("i" + std::to_string(d), DType::I64, 0));
    }
    std::string text;
    for (Expr e : reshape_index(pool, in, out, axes)) text += (text.empty() ? "" : ", ") + to_string(names.apply(e));
    return text;
  }
};

} // namespace

TEST_CASE_FIXTURE(Fixture, "reshape: dims that only come or go keep plain axes") {
  CHECK(index({n, i(3)}, {n, i(1), i(3)}) == "i0, i2");
  CHECK(index({i(1), n, i(1), i(3)}, {n, i(3)}) == "0, i0, 0, i1");
  CHECK(index({i(5), i(0)}, {i(0)}) == "0, 0");
  CHECK(index({}, {i(1), i(1)}) == "");
}

TEST_CASE_FIXTURE(Fixture, "reshape: splits are sums, merges are quotients, apart from each other") {
  CHECK(index({n, i(12), m}, {n, i(3), i(4), m}) == "i0, i1*4 + i2, i3");
  CHECK(index({n, i(3), i(4), m}, {n, i(12), m}) == "i0, i1//4, i1 % 4, i2");
  CHECK(index({n, m, i(4)}, {n * m, i(4)}) == "i0//m, i0 % m, i1");
  CHECK(index({n * m, i(6)}, {n, m, i(2), i(3)}) == "m*i0 + i1, i2*3 + i3");
  CHECK(index({i(2), i(6)}, {i(4), i(3)}) == "i0//2, i1 + i0 % 2*3");
}

TEST_CASE_FIXTURE(Fixture, "reshape: dims that agree from the end are found behind ones that do not") {
  CHECK(index({n, i(4), i(7)}, {floor_div(n, i(2)), i(8), i(7)}) == "i0*2 + i1//4, i1 % 4, i2");
}

TEST_CASE_FIXTURE(Fixture, "reshape: random shapes keep row-major order") {
  std::mt19937 random(5);
  auto factors = [&](int64_t numel) {
    std::vector<int64_t> out;
    for (int64_t f : {2, 3, 5, 1, 2, 3})
      if (numel % f == 0 && (random() & 1)) out.push_back(f), numel /= f;
    out.push_back(numel);
    std::shuffle(out.begin(), out.end(), random);
    return out;
  };
  for (int round = 0; round < 200; round++) {
    int64_t numel = 2 * 2 * 3 * 3 * 5;
    std::vector<Expr> in, out, axes;
    for (int64_t s : factors(numel)) in.push_back(i(s));
    for (int64_t s : factors(numel)) out.push_back(i(s));
    for (size_t d = 0; d < out.size(); d++) axes.push_back(pool.axis(static_cast<int64_t>(d), out[d]));
    std::vector<Expr> index = reshape_index(pool, in, out, axes);
    for (int64_t at = 0; at < numel; at++) {
      std::vector<int64_t> place(out.size());
      for (int64_t d = static_cast<int64_t>(out.size()) - 1, rest = at; d >= 0; d--) {
        place[static_cast<size_t>(d)] = rest % *const_int(out[static_cast<size_t>(d)]);
        rest /= *const_int(out[static_cast<size_t>(d)]);
      }
      int64_t linear = 0;
      for (size_t d = 0; d < in.size(); d++) {
        int64_t v = eval_int(index[d], [&](const ExprNode& e) { return place[static_cast<size_t>(e.bits)]; });
        REQUIRE(v < *const_int(in[d]));
        linear = linear * *const_int(in[d]) + v;
      }
      REQUIRE(linear == at);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "slice: lengths are clamped no more than needed") {
  Expr s = pool.symbol("s", DType::I64, 2);
  auto length = [&](Expr size, Expr start, Expr end, int64_t step = 1) {
    return to_string(slice_range(pool, size, start, end, step).length);
  };
  CHECK(length(s, i(1), {}) == "s - 1");
  CHECK(length(s, i(0), i(-1)) == "s - 1");
  CHECK(length(s, i(-2), {}) == "2");
  CHECK(length(s, i(0), i(INT64_MAX)) == "s");
  CHECK(length(s, {}, floor_div(s, i(2))) == "s//2");
  CHECK(length(n, i(-3), {}) == "min(3, n)");
  CHECK(length(n, i(2), {}) == "max(n - 2, 0)");
  CHECK(length(i(10), i(-3), i(-1)) == "2");
  CHECK(length(i(10), i(8), i(3)) == "0");
  CHECK(length(i(10), i(-20), i(20), 3) == "4");
  CHECK(to_string(slice_range(pool, n, i(-3), {}, 1).start) == "max(n - 3, 0)");
}

TEST_CASE_FIXTURE(Fixture, "sizes divide by sizes that may be zero") {
  CHECK(divide_sizes(n * m * 6.0, n * 2.0) == m * 3.0);
  CHECK(divide_sizes(n * m, n) == m);
}

} // namespace tenon::shape_test
