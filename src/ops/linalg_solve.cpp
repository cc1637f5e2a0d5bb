// Systems of equations: solves with factorisations, inverses, pseudo-inverses, least squares, ranks and conditions.
#include <limits>

#include "ops/autocast.h"
#include "ops/library.h"
#include "ops/linalg.h"
#include "ops/pointwise.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

std::vector<Expr> common_batch(Builder& b, V x, V y) {
  return broadcast(b.pool(), batch_of(x.sizes()), batch_of(y.sizes()), "linear algebra");
}

// ---- with factors at hand

std::vector<Type> right_hand_side(const Call& c) { return {Type::tensor(c.type("B").dtype, c.type("B").sizes)}; }

Values triangular_batch(Builder& b, const Call& c) {
  check_matrix(c, "self", true), check_matrix(c, "B", false);
  V a = b.input(c, "self"), y = b.input(c, "B");
  std::vector<Expr> batch = common_batch(b, a, y);
  if (batch == batch_of(a.sizes()) && batch == batch_of(y.sizes())) return {};
  ArgList args = c.args;
  args[0] = expand_batch(a, batch, 2), args[1] = expand_batch(y, batch, 2);
  return b.call_full(c.def, args);
}
V solve_triangular(V a, V y, bool upper, bool left = true, bool unit = false) {
  return a.builder().call1("aten::linalg_solve_triangular.default", {a, y, upper, left, unit});
}
Values old_triangular_solve(Builder& b, const Call& c) {
  check_matrix(c, "A", true), check_matrix(c, "self", false);
  V a = b.input(c, "A"), y = b.input(c, "self");
  std::vector<Expr> batch = common_batch(b, a, y);
  a = expand_batch(a, batch, 2), y = expand_batch(y, batch, 2);
  bool upper = c.flag("upper"), transpose = c.flag("transpose");
  return {solve_triangular(transpose ? transposed(a) : a, y, upper != transpose, true, c.flag("unitriangular")), a};
}

// Of A = L L', or U' U.
V cholesky_solve_with(V factor, V y, bool upper) {
  V lower = upper ? transposed(factor) : factor, turned = upper ? factor : transposed(factor);
  return solve_triangular(turned, solve_triangular(lower, y, false), true);
}
Values cholesky_solve(Builder& b, const Call& c) {
  return cholesky_solve_with(b.wrap(c.args[1].get<ValueId>()), b.input(c, "self"), c.flag("upper"));
}
Values cholesky_inverse(Builder& b, const Call& c) {
  check_matrix(c, "self", true);
  V factor = b.input(c, "self");
  V eye = b.expand(identity_matrix(b, factor.size(-1), factor.dtype()), factor.sizes());
  return cholesky_solve_with(factor, eye, c.flag("upper"));
}

template <Name Pivots> Values factors_batch(Builder& b, const Call& c) {
  check_matrix(c, c.def.signature.args[0].name, true), check_matrix(c, "B", false);
  V a = b.wrap(c.args[0].get<ValueId>()), pivots = b.input(c, "pivots"), y = b.input(c, "B");
  std::vector<Expr> batch = common_batch(b, a, y);
  if (batch == batch_of(a.sizes()) && batch == batch_of(y.sizes())) return {};
  ArgList args = c.args;
  args[0] = expand_batch(a, batch, 2), args[1] = expand_batch(pivots, batch, 1), args[2] = expand_batch(y, batch, 2);
  return b.call_full(c.def, args);
}
LibraryStep lu_solve_step(const Call& c) {
  return {library::linalg_lu_solve, {c.value("LU"), c.value("pivots"), c.value("B")}, integers(c, {c.flag("left"), c.flag("adjoint")})};
}
Values old_lu_solve(Builder& b, const Call& c) {
  return b.call("aten::linalg_lu_solve.default", {c["LU_data"], c["LU_pivots"], c["self"]});
}

// ---- A X = B

// B is one vector, or one for each matrix of the batch.
bool is_vector(const Type& a, const Type& y) {
  return y.rank() == 1 || (y.rank() + 1 == a.rank() && std::equal(y.sizes.begin(), y.sizes.end(), a.sizes.begin()));
}

struct Solution {
  V x, lu, pivots, info;
};
Solution solve_system(Builder& b, const Call& c, bool left) {
  check_matrix(c, "A", true);
  V a = b.input(c, "A"), y = b.input(c, "B");
  bool vector = is_vector(a.type(), y.type());
  if (vector) y = b.unsqueeze(y, -1);
  Values f = b.call("aten::linalg_lu_factor_ex.default", {a});
  V x = b.call1("aten::linalg_lu_solve.default", {f[0], f[1], y, vector || left});
  return {vector ? b.squeeze(x, -1) : x, f[0], f[1], f[2]};
}
template <bool Check, int Results> Values solve(Builder& b, const Call& c) {
  Solution s = solve_system(b, c, c.flag("left"));
  if (Check || (c.def.signature.find("check_errors") >= 0 && c.flag("check_errors"))) check_linalg(b, s.info, "solve");
  if constexpr (Results == 1) return s.x;
  if constexpr (Results == 2) return {s.x, s.info};
  return {s.x, s.lu, s.pivots, s.info};
}

struct Inverse {
  V value, info;
};
Inverse inverse_of(Builder& b, V a) {
  Values f = b.call("aten::linalg_lu_factor_ex.default", {a});
  V eye = b.expand(identity_matrix(b, a.size(-1), a.dtype()), a.sizes());
  return {b.call1("aten::linalg_lu_solve.default", {f[0], f[1], eye}), f[2]};
}
template <bool Check> Values matrix_inverse(Builder& b, const Call& c) {
  check_matrix(c, c.def.signature.args[0].name, true);
  Inverse i = inverse_of(b, b.wrap(c.args[0].get<ValueId>()));
  if (Check || c.flag("check_errors")) check_linalg(b, i.info, "inv");
  if constexpr (Check) return i.value;
  return {i.value, i.info};
}

// ---- pseudo-inverse, rank, condition

// What counts as zero: at most max(atol, rtol * largest). Without either, rtol is max(m, n) epsilon; a positive atol
// replaces it.
V tolerance(Builder& b, V a, V largest, const Arg& atol, const Arg& rtol) {
  DType t = a.dtype();
  auto given = [&](const Arg& x) { return x.is<ValueId>() ? b.to(b.wrap(x.get<ValueId>()), t) : b.scalar(x, t); };
  Expr longest = cast(max(a.size(-2), a.size(-1)), DType::F64);
  V standard =
      b.scalar(Arg(longest * (t == DType::F64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon())), t);
  V least = atol.is_none() ? b.scalar(0.0, t) : given(atol);
  V part = !rtol.is_none()  ? given(rtol)
           : atol.is_none() ? standard
                            : b.where(b.call1("aten::gt.Scalar", {least, 0}), b.scalar(0.0, t), standard);
  return b.call1("aten::maximum.default", {least, part * largest});
}
V unsqueeze(V x, int64_t dim) { return x.builder().unsqueeze(x, dim); }

V pseudo_inverse(Builder& b, V a, const Arg& atol, const Arg& rtol, bool hermitian) {
  auto tensor = [&](const Arg& x) {
    return x.is<ValueId>() && b.wrap(x.get<ValueId>()).rank() > 0 ? Arg(unsqueeze(b.wrap(x.get<ValueId>()), -1)) : x;
  };
  if (is_const_int(a.size(-1), 0) || is_const_int(a.size(-2), 0))
    return b.full(joined(batch_of(a.sizes()), {a.size(-1), a.size(-2)}), 0, a.dtype());
  Values f = hermitian ? b.call("aten::_linalg_eigh.default", {a}) : b.call("aten::_linalg_svd.default", {a});
  V s = hermitian ? f[0] : f[1], size = b.call1("aten::abs.default", {s}), largest = b.call1("aten::amax.default", {size, {-1}, true});
  V keep = b.call1("aten::gt.Tensor", {size, tolerance(b, a, largest, tensor(atol), tensor(rtol))});
  V scale = unsqueeze(b.where(keep, b.call1("aten::reciprocal.default", {s}), b.scalar(0.0, s.dtype())), -2);
  if (hermitian) return b.matmul(f[1] * scale, transposed(f[1]));
  return b.matmul(transposed(f[2]) * scale, transposed(f[0]));
}
template <Name Atol, Name Rtol> Values pinv(Builder& b, const Call& c) {
  check_matrix(c, "self", c.def.signature.find("hermitian") >= 0 && c.flag("hermitian"));
  auto arg = [&](const char* name) { return *name ? c[name] : Arg(); };
  Arg atol = arg(Atol.text), rtol = arg(Rtol.text);
  return pseudo_inverse(b, b.input(c, "self"), *Atol.text ? atol : Arg(0.0), rtol,
                        c.def.signature.find("hermitian") >= 0 && c.flag("hermitian"));
}

template <Name Atol, Name Rtol> Values rank(Builder& b, const Call& c) {
  std::string self = c.def.signature.args[0].name;
  check_matrix(c, self, false);
  V a = b.input(c, self);
  Arg rtol = *Rtol.text ? c[Rtol.text] : Arg(0.0);
  if (is_const_int(a.size(-1), 0) || is_const_int(a.size(-2), 0)) return b.full(batch_of(a.sizes()), 0, DType::I64);
  V s = c.flag("hermitian") ? b.call1("aten::abs.default", {b.call("aten::_linalg_eigh.default", {a, "L", false})[0]})
                            : b.call1("aten::linalg_svdvals.default", {a});
  auto tensor = [&](const Arg& x) {
    return x.is<ValueId>() && b.wrap(x.get<ValueId>()).rank() > 0 ? Arg(unsqueeze(b.wrap(x.get<ValueId>()), -1)) : x;
  };
  V limit = tolerance(b, a, b.call1("aten::amax.default", {s, {-1}, true}), tensor(c[Atol.text]), tensor(rtol));
  return b.sum(b.call1("aten::gt.Tensor", {s, limit}), {-1}, false);
}

// By singular values for the 2-norms; else |A| |A^-1|, infinite for a singular A.
Values condition(Builder& b, const Call& c) {
  check_matrix(c, "self", false);
  V a = b.input(c, "self");
  bool text = c["p"].is<std::string>() || c["p"].is<Word>();
  double p = text ? 0 : c.has("p") ? c.number("p") : 2;
  if (!text && std::abs(p) == 2) {
    V s = b.call1("aten::linalg_svdvals.default", {a});
    V most = b.select(s, -1, b.integer(0)), least = b.select(s, -1, s.size(-1) - 1.0);
    return p > 0 ? most / least : least / most;
  }
  check_matrix(c, "self", true);
  Inverse i = inverse_of(b, a);
  auto norm = [&](V x) {
    if (text) return b.call1("aten::linalg_matrix_norm.str_ord", {x, c.text("p")});
    return b.call1("aten::linalg_matrix_norm.default", {x, p});
  };
  V singular = b.call1("aten::ne.Scalar", {i.info, 0});
  return b.where(singular, b.scalar(INFINITY, a.dtype()), norm(a) * norm(i.value));
}

// ---- least squares

library::LstsqDriver driver_of(const Call& c) {
  using enum library::LstsqDriver;
  std::string name = c.text("driver");
  if (name.empty() || name == "gelsy") return Gelsy;
  if (name == "gels") return Gels;
  if (name == "gelsd") return Gelsd;
  if (name == "gelss") return Gelss;
  c.fail("driver is none of gels, gelsy, gelsd, gelss");
}
// Residuals exist for more rows than columns, where all matrices have full rank, which is taken for granted here.
std::vector<Type> lstsq_types(const Call& c) {
  using enum library::LstsqDriver;
  check_matrix(c, "self", false), check_matrix(c, "b", false);
  const Type& a = c.type("self");
  auto driver = driver_of(c);
  std::vector<Expr> batch = batch_of(a.sizes);
  Expr m = c.size("self", -2), n = c.size("self", -1), width = c.size("b", -1);
  Type none = Type::tensor(a.dtype, {integer(c, 0)});
  bool residuals = driver != Gelsy && const_int(m) && const_int(n) && *const_int(m) > *const_int(n),
       values = driver == Gelsd || driver == Gelss;
  return {Type::tensor(a.dtype, joined(batch, {n, width})), residuals ? Type::tensor(a.dtype, joined(batch, {width})) : none,
          Type::tensor(DType::I64, driver == Gels ? none.sizes : batch),
          values ? Type::tensor(a.dtype, joined(batch, {smaller(a.sizes)})) : none};
}
LibraryStep lstsq_step(const Call& c) {
  return {library::linalg_lstsq,
          {c.value("self"), c.value("b")},
          integers(c, {static_cast<int64_t>(driver_of(c))}),
          {c.has("rcond") ? c.number("rcond") : -1.0}};
}
Values lstsq_batch(Builder& b, const Call& c) {
  check_matrix(c, "self", false);
  V a = b.input(c, "self"), y = b.input(c, "b");
  ArgList args = c.args;
  if (is_vector(a.type(), y.type())) {
    args[1] = b.unsqueeze(y, -1);
    Values out = b.call_full(c.def, args);
    out[0] = b.squeeze(out[0], -1);
    return out;
  }
  std::vector<Expr> batch = common_batch(b, a, y);
  if (batch == batch_of(a.sizes()) && batch == batch_of(y.sizes())) return {};
  args[0] = expand_batch(a, batch, 2), args[1] = expand_batch(y, batch, 2);
  return b.call_full(c.def, args);
}

// ---- tensors as matrices

Values tensorinv(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  auto ind = c.integer("ind");
  if (ind <= 0 || ind >= static_cast<int64_t>(x.rank())) c.fail("ind is out of range");
  std::span<const Expr> sizes = x.sizes(), head = sizes.first(static_cast<size_t>(ind)), tail = sizes.subspan(static_cast<size_t>(ind));
  std::vector<Expr> turned(tail.begin(), tail.end());
  turned.insert(turned.end(), head.begin(), head.end());
  Inverse i = inverse_of(b, b.reshape(x, {product(b.pool(), head), product(b.pool(), tail)}));
  check_linalg(b, i.info, "inv");
  return b.reshape(i.value, turned);
}
Values tensorsolve(Builder& b, const Call& c) {
  V a = b.input(c, "self"), y = b.input(c, "other");
  if (a.rank() < y.rank()) c.fail("self has less dims than other");
  if (c.has("dims")) {
    std::vector<int64_t> last = c.dims("dims", a.rank(), false), order;
    for (int64_t d : iota(a.rank()))
      if (std::find(last.begin(), last.end(), d) == last.end()) order.push_back(d);
    order.insert(order.end(), last.begin(), last.end());
    a = b.permute(a, order);
  }
  std::vector<Expr> shape(a.sizes().begin() + static_cast<int64_t>(y.rank()), a.sizes().end());
  V matrix = b.reshape(a, {product(b.pool(), y.sizes()), product(b.pool(), shape)});
  V x = b.call1("aten::linalg_solve.default", {matrix, b.reshape(y, {product(b.pool(), y.sizes())})});
  return b.reshape(x, shape);
}

const OpRow linalg_solve_ops[] = {
    {.schema = "aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
               "unitriangular=False) -> Tensor",
     .kind = Kind::Library,
     .infer = right_hand_side,
     .decompose = triangular_batch,
     .library =
         [](const Call& c) {
           return LibraryStep{library::linalg_solve_triangular,
                              {c.value("self"), c.value("B")},
                              integers(c, {c.flag("upper"), c.flag("left"), c.flag("unitriangular")})};
         },
     .dtypes = complex_types | full_floats,
     .types = "B=any|complex",
     .vjp = "self: triangular_matrix(grad, self, result, upper, left, unitriangular); B: torch.linalg_solve_triangular(self.mT, grad, "
            "upper=not upper, left=left, unitriangular=unitriangular)"},
    composite("aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
              "unitriangular=False) -> "
              "(Tensor solution, Tensor cloned_coefficient)",
              old_triangular_solve, to_f32),
    composite("aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", cholesky_solve, to_f32),
    composite("aten::_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor", cholesky_solve),
    composite("aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor", cholesky_inverse, to_f32),
    {.schema = "aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
     .kind = Kind::Library,
     .infer = right_hand_side,
     .decompose = factors_batch<"pivots">,
     .library = lu_solve_step,
     .dtypes = complex_types | full_floats,
     .types = "pivots=i32"},
    composite("aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", old_lu_solve, to_f32),
    {.schema = "aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
     .kind = Kind::Library,
     .infer = right_hand_side,
     .decompose = factors_batch<"pivots">,
     .library = [](const Call& c) { return LibraryStep{library::linalg_ldl_solve, {c.value("LD"), c.value("pivots"), c.value("B")}}; },
     .dtypes = complex_types | full_floats,
     .types = "pivots=ints"},

    composite("aten::_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor "
              "result, Tensor LU, Tensor pivots, Tensor info)",
              solve<false, 4>),
    composite("aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor "
              "result, Tensor info)",
              solve<false, 2>),
    with_vjp(composite("aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", solve<true, 1>, to_f32),
             "A: solve_matrix(grad, A, B_size, result, left); B: solve_right(grad, A, B_size, left)"),
    with_vjp(composite("aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", matrix_inverse<false>,
                       to_f32),
             "A: -(result0.mT @ grad @ result0.mT)"),
    with_vjp(composite("aten::linalg_inv(Tensor A) -> Tensor", matrix_inverse<true>, to_f32), "A: -(result.mT @ grad @ result.mT)"),
    with_vjp(composite("aten::inverse(Tensor self) -> Tensor", matrix_inverse<true>, to_f32), "self: -(result.mT @ grad @ result.mT)"),

    composite("aten::linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor", pinv<"", "rcond">),
    composite("aten::linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor", pinv<"", "rcond">),
    composite("aten::linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool "
              "hermitian=False) -> Tensor",
              pinv<"atol", "rtol">),
    composite("aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool "
              "hermitian=False) -> Tensor",
              pinv<"atol", "rtol">),
    composite("aten::pinverse(Tensor self, float rcond=1e-15) -> Tensor", pinv<"", "rcond">, to_f32),
    composite("aten::linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor", rank<"tol", "">, to_f32),
    composite("aten::linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor", rank<"tol", "">, to_f32),
    composite("aten::linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool "
              "hermitian=False) -> Tensor",
              rank<"atol", "rtol">, to_f32),
    composite("aten::linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool "
              "hermitian=False) -> Tensor",
              rank<"atol", "rtol">, to_f32),
    composite("aten::linalg_cond(Tensor self, Scalar? p=None) -> Tensor", condition, to_f32),
    composite("aten::linalg_cond.p_str(Tensor self, str p) -> Tensor", condition, to_f32),

    {.schema = "aten::linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> "
               "(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
     .kind = Kind::Library,
     .infer = lstsq_types,
     .decompose = lstsq_batch,
     .library = lstsq_step,
     .dtypes = complex_types | full_floats,
     .types = "-> same part i64 part",
     .autocast = to_f32},
    composite("aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor", tensorinv, to_f32),
    composite("aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", tensorsolve, to_f32),
};

} // namespace

std::span<const OpRow> linalg_solve_rows() { return linalg_solve_ops; }

} // namespace tenon::ops
