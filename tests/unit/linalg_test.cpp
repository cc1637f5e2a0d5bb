// Linear algebra as library steps: products of the factors give the matrix back, solutions satisfy their equations,
// singular matrices are refused with torch's words. Distances by products are those of differences.
#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "tests/unit/graph_harness.h"

namespace tenon::linalg_test {
using namespace tenon::test;

namespace {

constexpr int64_t sizes[] = {1, 2, 3, 5, 8, 17, 33};

// Values without order, in [-1, 1).
Tensor noise(std::vector<int64_t> shape, uint32_t seed, DType t = DType::F64) {
  std::mt19937 g(seed);
  std::uniform_real_distribution<double> u(-1, 1);
  return filled(t, std::move(shape), [&](int64_t) { return u(g); });
}

// Runs the graph that `build` makes of inputs like those given; each result must be zero to rounding.
void check_zero(const std::vector<Tensor>& inputs, const std::function<std::vector<V>(Builder&, const std::vector<V>&)>& build) {
  TestGraph g;
  std::vector<V> values;
  for (auto& t : inputs) {
    std::vector<Expr> shape;
    for (int64_t s : t.sizes()) shape.push_back(g.b.integer(s));
    values.push_back(g.input(shape, t.dtype()));
  }
  for (V v : build(g.b, values)) g.returns(v);
  for (const Tensor& t : run(g.program().compile().value(), inputs))
    for (double v : numbers(t)) CHECK(std::abs(v) < (t.dtype() == DType::F64 ? 1e-9 : 1e-3));
}

V turned(V x) { return x.builder().transpose(x, -1, -2); }
V symmetric(V x) { return x + turned(x); }
V eye_like(V x) { return x.builder().call1("aten::eye.default", {x.size(-1)}, {{"dtype", x.dtype()}}); }

} // namespace

TEST_CASE("LU: factors, solves, determinants") {
  for (DType t : {DType::F32, DType::F64})
    for (int64_t n : sizes) {
      check_zero({noise({2, n, n}, 1, t), noise({2, n, 3}, 2, t), noise({2, 3, n}, 3, t)},
                 [](Builder& b, const std::vector<V>& in) -> std::vector<V> {
                   V a = in[0] + eye_like(in[0]) * Arg(4);
                   Values plu = b.call("aten::linalg_lu.default", {a}), det = b.call("aten::linalg_slogdet.default", {a});
                   V x = b.call1("aten::linalg_solve.default", {a, in[1]}), y = b.call1("aten::linalg_solve.default", {a, in[2], false});
                   V inverse = b.call1("aten::linalg_inv.default", {a}), other = b.call("aten::linalg_slogdet.default", {inverse})[0];
                   V logs = det[1] + b.call("aten::linalg_slogdet.default", {inverse})[1];
                   return {b.matmul(plu[0], b.matmul(plu[1], plu[2])) - a,
                           b.matmul(a, x) - in[1],
                           b.matmul(y, a) - in[2],
                           b.matmul(a, inverse) - eye_like(a),
                           logs,
                           det[0] - other};
                 });
    }
  for (auto [m, n] : {std::pair<int64_t, int64_t>{3, 7}, {7, 3}, {0, 4}, {4, 0}})
    check_zero({noise({m, n}, 5)}, [](Builder& b, const std::vector<V>& in) -> std::vector<V> {
      Values plu = b.call("aten::linalg_lu.default", {in[0]});
      return {b.matmul(plu[0], b.matmul(plu[1], plu[2])) - in[0]};
    });
}

TEST_CASE("QR: orthonormal and upper triangular") {
  for (auto [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {5, 5}, {3, 8}, {8, 3}, {33, 17}})
    for (const char* mode : {"reduced", "complete"})
      check_zero({noise({3, m, n}, 7)}, [&](Builder& b, const std::vector<V>& in) -> std::vector<V> {
        Values qr = b.call("aten::linalg_qr.default", {in[0], mode});
        return {b.matmul(qr[0], qr[1]) - in[0], b.matmul(turned(qr[0]), qr[0]) - eye_like(qr[0]),
                b.call1("aten::tril.default", {qr[1], -1})};
      });
}

TEST_CASE("Cholesky, LDL and triangular solves, upper and lower") {
  for (int64_t n : sizes)
    for (bool upper : {false, true})
      check_zero({noise({2, n, n}, 11), noise({2, n, 2}, 12)}, [&](Builder& b, const std::vector<V>& in) -> std::vector<V> {
        V a = b.matmul(in[0], turned(in[0])) + eye_like(in[0]);
        V f = b.call1("aten::linalg_cholesky.default", {a, upper});
        V product = upper ? b.matmul(turned(f), f) : b.matmul(f, turned(f));
        V x = b.call1("aten::cholesky_solve.default", {in[1], f, upper}),
          y = b.call1("aten::linalg_solve_triangular.default", {f, in[1], upper});
        V z = b.call1("aten::linalg_solve_triangular.default", {f, turned(in[1]), upper, false});
        Values ldl = b.call("aten::linalg_ldl_factor.default", {symmetric(in[0]) + eye_like(in[0]) * Arg(0.1)});
        V w = b.call1("aten::linalg_ldl_solve.default", {ldl[0], ldl[1], in[1]});
        return {product - a, b.matmul(a, x) - in[1], b.matmul(f, y) - in[1], b.matmul(z, f) - turned(in[1]),
                b.matmul(symmetric(in[0]) + eye_like(in[0]) * Arg(0.1), w) - in[1]};
      });
}

TEST_CASE("eigenvalues and singular values") {
  for (DType t : {DType::F32, DType::F64})
    for (int64_t n : sizes)
      check_zero({noise({2, n, n}, 13, t), noise({n, n + 2}, 14, t)}, [](Builder& b, const std::vector<V>& in) -> std::vector<V> {
        V a = symmetric(in[0]);
        Values e = b.call("aten::linalg_eigh.default", {a}), c = b.call("aten::linalg_eig.default", {in[0]});
        Values s = b.call("aten::linalg_svd.default", {in[1], false});
        V complex = b.matmul(b.to(in[0], c[0].dtype()), c[1]) - c[1] * b.unsqueeze(c[0], -2);
        V values = b.call1("aten::linalg_eigvalsh.default", {a}), singular = b.call1("aten::linalg_svdvals.default", {in[1]});
        return {b.matmul(e[1] * b.unsqueeze(e[0], -2), turned(e[1])) - a, b.matmul(s[0] * b.unsqueeze(s[1], -2), s[2]) - in[1],
                b.call1("aten::abs.default", {complex}), values - e[0], singular - s[1]};
      });
}

TEST_CASE("pseudo-inverse, least squares, exponential, rank") {
  for (auto [m, n] : {std::pair<int64_t, int64_t>{4, 4}, {9, 4}, {4, 9}})
    for (const char* driver : {"gels", "gelsy", "gelsd", "gelss"})
      check_zero({noise({2, m, n}, 17), noise({2, m, 3}, 18)}, [&](Builder& b, const std::vector<V>& in) -> std::vector<V> {
        V p = b.call1("aten::linalg_pinv.atol_rtol_float", {in[0]});
        V x = b.call("aten::linalg_lstsq.default", {in[0], in[1]}, {{"driver", driver}})[0];
        V rank = b.to(b.call1("aten::linalg_matrix_rank.atol_rtol_float", {in[0]}), DType::F64);
        return {b.matmul(b.matmul(in[0], p), in[0]) - in[0], x - b.matmul(p, in[1]), rank - Arg(4)};
      });
  for (auto [scale, t] :
       {std::pair{0.0, DType::F64}, {0.1, DType::F64}, {1.0, DType::F64}, {7.0, DType::F64}, {0.3, DType::F32}, {1.0, DType::F32}})
    check_zero({noise({3, 5, 5}, 19, t)}, [&, scale = scale](Builder& b, const std::vector<V>& in) -> std::vector<V> {
      auto exp = [&](double k) { return b.call1("aten::linalg_matrix_exp.default", {in[0] * Arg(k)}); };
      V both = b.matmul(exp(scale), exp(-scale));
      return {both - eye_like(in[0]), (b.matmul(exp(scale / 2), exp(scale / 2)) - exp(scale)) * Arg(std::exp(-5 * scale))};
    });
}

TEST_CASE("small matrices of a batch give what each gives alone") {
  for (auto [t, count] : {std::pair{DType::F32, 19}, {DType::F64, 4}, {DType::F64, 19}})
    for (int64_t n : {1, 2, 3, 5, 8, 13, 16}) {
      Tensor a = noise({count, n, n}, 21, t), singular = filled(t, {count, n, n}, [&, v = numbers(a)](int64_t i) {
                                                int64_t matrix = i / (n * n), column = i % n;
                                                return matrix == 1 || (matrix == 2 && column == n - 1) ? 0 : v[static_cast<size_t>(i)];
                                              });
      Tensor shift = filled(t, {count, 1, 1}, [](int64_t i) { return i == 1 || i == 3 ? -0.3 : 0.5; });
      auto build = [&](Builder& b, const std::vector<V>& in) -> std::vector<V> {
        V swapped = in[0] + b.call1("aten::flip.default", {eye_like(in[0]), {int64_t{0}}}) * Arg(4);
        V square = b.matmul(in[1], turned(in[1])) + eye_like(in[0]) * in[2];
        std::vector<V> out;
        auto compare = [&](V all, const std::function<V(int64_t)>& alone) {
          for (int64_t i : {0, 1, 2, 3, count - 1}) out.push_back(b.to(b.select(all, 0, b.integer(i)) - alone(i), t));
        };
        auto one = [&](V x, int64_t i) { return b.select(x, 0, b.integer(i)); };
        Values lu = b.call("aten::linalg_lu_factor_ex.default", {in[1]});
        Values good = b.call("aten::linalg_lu_factor_ex.default", {swapped});
        for (size_t k = 0; k < 3; k++)
          compare(lu[k], [&](int64_t i) { return b.call("aten::linalg_lu_factor_ex.default", {one(in[1], i)})[k]; });
        for (bool upper : {false, true}) {
          Values f = b.call("aten::linalg_cholesky_ex.default", {square, upper});
          auto alone = [&](int64_t i) { return b.call("aten::linalg_cholesky_ex.default", {one(square, i), upper}); };
          compare(f[1], [&](int64_t i) { return alone(i)[1]; });
          out.push_back(b.select(f[0], 0, b.integer(0)) - alone(0)[0]);
        }
        for (bool left : {false, true})
          for (bool adjoint : {false, true}) {
            V sides = left ? in[3] : turned(in[3]);
            V x = b.call1("aten::linalg_lu_solve.default", {good[0], good[1], sides, left, adjoint});
            V m = adjoint ? turned(swapped) : swapped;
            out.push_back((left ? b.matmul(m, x) : b.matmul(x, m)) - sides);
          }
        return out;
      };
      check_zero({a, singular, shift, noise({count, n, 3}, 22, t)}, build);
    }
}

TEST_CASE("matrices that cannot be factored are named") {
  auto failure = [](const char* op, Tensor a) {
    TestGraph g;
    std::vector<Expr> shape;
    for (int64_t s : a.sizes()) shape.push_back(g.b.integer(s));
    g.returns(g.b.call(op, {g.input(shape)})[0]);
    std::vector<Tensor> out;
    Status s = g.program().compile().value().run(std::vector{a}, out);
    return s.ok() ? std::string() : std::string(s.error().what());
  };
  Tensor singular = filled(DType::F32, {2, 2, 2}, [](int64_t i) { return i < 4 ? (i % 3 == 0) : 1; });
  CHECK(failure("aten::linalg_inv.default", singular).find("linalg.inv: (Batch element 1): The diagonal element 2 is zero") !=
        std::string::npos);
  Tensor many = filled(DType::F32, {7, 3, 3}, [](int64_t i) { return i % 9 % 4 == 0 && i != 58 ? 1 : 0; });
  CHECK(failure("aten::linalg_inv.default", many).find("(Batch element 6): The diagonal element 2 is zero") != std::string::npos);
  CHECK(failure("aten::linalg_cholesky.default", many).find("the leading minor of order 2") != std::string::npos);
  Tensor negative = filled(DType::F32, {2, 2}, [](int64_t i) { return i == 0 ? 1 : i == 3 ? -1 : 0; });
  CHECK(failure("aten::linalg_cholesky.default", negative).find("the leading minor of order 2") != std::string::npos);
  CHECK(failure("aten::linalg_inv_ex.default", singular).empty());
}

TEST_CASE("distances of many rows by products, of every float") {
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    CAPTURE(name_of(t));
    TestGraph by_products, by_differences;
    auto build = [&](TestGraph& g, int64_t mode) {
      g.returns(g.b.call1("aten::cdist", {g.input({30, 7}, t), g.input({28, 7}, t), 2.0, mode}));
      return g.program().dump("edge").value().find("mm") != std::string::npos;
    };
    CHECK(build(by_products, 0));
    CHECK_FALSE(build(by_differences, 2)); // as torch numbers them: never by a product
    auto wave = [](double step) { return [=](int64_t i) { return std::sin(step * static_cast<double>(i)); }; };
    std::vector<Tensor> in{filled(t, {30, 7}, wave(1.3)), filled(t, {28, 7}, wave(1.3))}; // rows that are the same, too
    std::vector<double> got = numbers(run(by_products.program().compile().value(), in)[0]),
                        want = numbers(run(by_differences.program().compile().value(), in)[0]);
    double epsilon = t == DType::F64 ? 1e-7 : t == DType::F32 ? 2e-3 : 2e-2; // the root of what is left of equal squares
    for (size_t i = 0; i < want.size(); i++) CHECK(std::fabs(got[i] - want[i]) <= epsilon);
  }
}

} // namespace tenon::linalg_test
