// Factorisations of matrices (LU, Cholesky, LDL, QR, eigenvalues, singular values), and what is read off them: library
// steps over LAPACK. They take f32 and f64, and any batch dims.
#include "ops/linalg.h"
#include "ops/autocast.h"
#include "ops/library.h"
#include "ops/pointwise.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

std::vector<Expr> batch_of(const std::vector<Expr>& sizes) { return {sizes.begin(), sizes.end() - 2}; }
std::vector<Expr> joined(std::vector<Expr> batch, std::initializer_list<Expr> tail) {
  batch.insert(batch.end(), tail);
  return batch;
}
Expr smaller(const std::vector<Expr>& sizes) { return min(sizes[sizes.size() - 2], sizes.back()); }
V transposed(V x) { return x.builder().transpose(x, -2, -1); }
V identity_matrix(Builder& b, Expr n, DType dtype) { return b.call1("aten::eye.default", {n}, {{"dtype", dtype}}); }
V expand_batch(V x, const std::vector<Expr>& batch, size_t dims) {
  require_input(x.rank() >= dims, "a batch of operands of rank {} where one has rank {}", dims, x.rank());
  std::vector<Expr> sizes = batch;
  sizes.insert(sizes.end(), x.sizes().end() - static_cast<int64_t>(dims), x.sizes().end());
  return x.builder().expand(x, sizes);
}

void check_matrix(const Call& c, std::string_view name, bool square) {
  const Type& t = c.type(name);
  if (t.dtype != DType::F32 && t.dtype != DType::F64) unsupported("{} of {}", c.def.signature.name, name_of(t.dtype));
  if (t.rank() < 2) c.fail(fmt::format("{} is not a matrix", name));
  if (square && t.sizes[t.rank() - 2] != t.sizes.back())
    c.fail(fmt::format("{} must be batches of square matrices, but they are {} by {} matrices", name == "self" ? "A" : name,
                       to_string(t.sizes[t.rank() - 2]), to_string(t.sizes.back())));
}

namespace {

// Types by the sizes of the operand `name`.
struct Sized {
  const Type& t;
  std::vector<Expr> batch;
  Expr m, n, k;
  Sized(const Call& c, std::string_view name, bool square = false)
      : t((check_matrix(c, name, square), c.type(name))), batch(batch_of(t.sizes)) {
    m = t.sizes[t.rank() - 2], n = t.sizes.back(), k = smaller(t.sizes);
  }
  Type matrix(Expr rows, Expr cols) const { return Type::tensor(t.dtype, joined(batch, {rows, cols})); }
  Type vector(Expr length, DType dtype) const { return Type::tensor(dtype, joined(batch, {length})); }
  Type vector(Expr length) const { return vector(length, t.dtype); }
  Type info() const { return Type::tensor(DType::I32, batch); }
  Type none(const Call& c) const { return Type::tensor(t.dtype, {integer(c, 0)}); }
};

bool wants(const Call& c, std::string_view name) { return c.flag(name); }

// ---- errors of factorisations

library::LinalgCheck check_of(const Call& c) {
  using enum library::LinalgCheck;
  std::string api = c.text("api_name");
  for (auto [name, check] : {std::pair("inv", Inverse), {"solve", Solve}, {"cholesky", Cholesky}, {"ldl", LdlFactor}})
    if (api.find(name) != api.npos) return check;
  return LuFactor;
}
LibraryStep check_step(const Call& c) {
  return {library::linalg_check, {c.value("info")}, integers(c, {static_cast<int64_t>(check_of(c))})};
}

// The same factorisation without its check, then the check of its last result.
template <Name N> Values checked(Builder& b, const Call& c) {
  if (!c.flag("check_errors")) return {};
  ArgList args = c.args;
  args[static_cast<size_t>(c.def.signature.find("check_errors"))] = false;
  Values out = b.call_full(c.def, args);
  check_linalg(b, out.back(), N.text);
  return out;
}
// Another factorisation with a check, without its last result.
template <Name Op, Name N> Values strict(Builder& b, const Call& c) {
  Values out = same<Op>(b, c);
  check_linalg(b, out.back(), N.text);
  out.pop_back();
  return out;
}

// ---- LU

std::vector<Type> lu_factor_types(const Call& c) {
  Sized s(c, "A");
  if (!c.flag("pivot")) unsupported("{} without pivots", c.def.signature.name);
  return {s.t, s.vector(s.k, DType::I32), s.info()};
}
std::vector<Type> lu_unpack_types(const Call& c) {
  Sized s(c, "LU_data");
  bool data = wants(c, "unpack_data"), pivots = wants(c, "unpack_pivots");
  return {pivots ? s.matrix(s.m, s.m) : s.none(c), data ? s.matrix(s.m, s.k) : s.none(c), data ? s.matrix(s.k, s.n) : s.none(c)};
}
Values lu(Builder& b, const Call& c) {
  Values f = b.call("aten::linalg_lu_factor_ex.default", {c["A"], c["pivot"]});
  return b.call("aten::lu_unpack.default", {f[0], f[1]});
}

// ---- determinants

struct Determinant {
  V sign, diagonal; // of the permutation; of U
  V lu, pivots;
};

Determinant determinant(Builder& b, const Call& c) {
  const std::string& name = c.def.signature.args[0].name;
  check_matrix(c, name, true);
  Values f = b.call("aten::linalg_lu_factor_ex.default", {c[name]});
  V places = b.to(b.call1("aten::arange.start_step", {1, f[1].size(-1) + 1.0, 1}, {{"dtype", DType::I64}}), DType::I32);
  V swaps = b.sum(b.call1("aten::ne.Tensor", {f[1], places}), {-1}, false);
  V odd = b.call1("aten::remainder.Scalar", {swaps, 2});
  V sign = b.to(b.call1("aten::rsub.Scalar", {odd * Arg(2), 1}), f[0].dtype());
  return {sign, b.call1("aten::diagonal.default", {f[0], 0, -2, -1}), f[0], f[1]};
}
V prod_of_last(Builder& b, V x) { return b.call1("aten::prod.dim_int", {x, -1}); }

template <bool Factors> Values det(Builder& b, const Call& c) {
  Determinant d = determinant(b, c);
  V value = prod_of_last(b, d.diagonal) * d.sign;
  if constexpr (Factors) return {value, d.lu, d.pivots};
  return value;
}
template <bool Factors> Values slogdet(Builder& b, const Call& c) {
  Determinant d = determinant(b, c);
  V sign = prod_of_last(b, b.call1("aten::sign.default", {d.diagonal})) * d.sign;
  V size = b.sum(b.call1("aten::log.default", {b.call1("aten::abs.default", {d.diagonal})}), {-1}, false);
  if constexpr (Factors) return {sign, size, d.lu, d.pivots};
  return {sign, size};
}
// Of a negative determinant there is none.
Values logdet(Builder& b, const Call& c) {
  Values s = slogdet<false>(b, c);
  return b.where(b.call1("aten::lt.Scalar", {s[0], 0}), b.scalar(NAN, s[1].dtype()), s[1]);
}

// ---- Cholesky, LDL

std::vector<Type> cholesky_types(const Call& c) {
  Sized s(c, "self", true);
  return {Type::tensor(s.t.dtype, s.t.sizes), s.info()};
}
std::vector<Type> ldl_types(const Call& c) {
  Sized s(c, "self", true);
  return {Type::tensor(s.t.dtype, s.t.sizes), s.vector(s.n, DType::I32), s.info()};
}

// ---- QR

std::vector<Type> geqrf_types(const Call& c) {
  Sized s(c, "self");
  return {Type::tensor(s.t.dtype, s.t.sizes), s.vector(s.k)};
}
std::vector<Type> householder_types(const Call& c) {
  Sized s(c, "input");
  if (c.rank("tau") != c.rank("input") - 1) c.fail("reflectors and factors differ in batch dims");
  return {Type::tensor(s.t.dtype, s.t.sizes)};
}
std::vector<Type> ormqr_types(const Call& c) {
  check_matrix(c, "self", false);
  if (c.rank("input2") != c.rank("self") - 1) c.fail("reflectors and factors differ in batch dims");
  Sized s(c, "input3");
  return {Type::tensor(s.t.dtype, s.t.sizes)};
}
Values ormqr_batch(Builder& b, const Call& c) {
  ormqr_types(c); // refuses what does not fit
  V a = b.input(c, "self"), tau = b.input(c, "input2"), x = b.input(c, "input3");
  std::vector<Expr> batch = batch_of(x.sizes());
  if (batch_of(a.sizes()) == batch) return {};
  return b.call_full(c.def, {expand_batch(a, batch, 2), expand_batch(tau, batch, 1), x, c["left"], c["transpose"]});
}

V first(V x, int64_t dim, Expr n) { return x.builder().slice(x, dim, x.builder().integer(0), n); }

Values qr_of(Builder& b, V a, std::string_view mode) {
  Expr m = a.size(-2), k = smaller(a.sizes());
  Values f = b.call("aten::geqrf.default", {a});
  auto upper = [&](V x) { return b.call1("aten::triu.default", {x}); };
  if (mode == "r") return {b.full({b.integer(0)}, 0, a.dtype()), upper(first(f[0], -2, k))};
  V reflectors = first(f[0], -1, k);
  if (mode == "complete" && !(k == m))
    reflectors = b.call1("aten::constant_pad_nd.default", {reflectors, std::vector<Expr>{b.integer(0), m - k}, 0});
  V q = b.call1("aten::linalg_householder_product.default", {reflectors, f[1]});
  return {q, upper(mode == "complete" ? f[0] : first(f[0], -2, k))};
}
Values qr(Builder& b, const Call& c) {
  check_matrix(c, "A", false);
  std::string mode = c.text("mode");
  if (mode != "reduced" && mode != "complete" && mode != "r") c.fail("mode is none of reduced, complete, r");
  return qr_of(b, b.input(c, "A"), mode);
}
Values old_qr(Builder& b, const Call& c) {
  check_matrix(c, "self", false);
  return qr_of(b, b.input(c, "self"), c.flag("some") ? "reduced" : "complete");
}

// ---- eigenvalues, singular values

std::vector<Type> eigh_types(const Call& c) {
  Sized s(c, "A", true);
  return {s.vector(s.n), c.flag("compute_v") ? s.matrix(s.n, s.n) : s.none(c)};
}
LibraryStep eigh_step(const Call& c) {
  std::string uplo = c.text("UPLO");
  return {library::linalg_eigh, {c.value("A")}, integers(c, {uplo != "U" && uplo != "u", c.flag("compute_v")})};
}
Values eigh(Builder& b, const Call& c) { return b.call("aten::_linalg_eigh.default", {c["self"], c["UPLO"], true}); }
Values eigvalsh(Builder& b, const Call& c) { return b.call("aten::_linalg_eigh.default", {c["self"], c["UPLO"], false})[0]; }

template <bool Vectors> std::vector<Type> eig_types(const Call& c) {
  Sized s(c, "self", true);
  DType t = complex_type(s.t.dtype);
  std::vector<Type> out{s.vector(s.n, t)};
  if (Vectors) out.push_back(Type::tensor(t, s.t.sizes));
  return out;
}
template <bool Vectors> LibraryStep eig_step(const Call& c) { return {library::linalg_eig, {c.value("self")}, integers(c, {Vectors})}; }

std::vector<Type> svd_types(const Call& c) {
  Sized s(c, "A");
  bool full = c.flag("full_matrices"), vectors = c.flag("compute_uv");
  return {vectors ? s.matrix(s.m, full ? s.m : s.k) : s.none(c), s.vector(s.k), vectors ? s.matrix(full ? s.n : s.k, s.n) : s.none(c)};
}
LibraryStep svd_step(const Call& c) {
  return {library::linalg_svd, {c.value("A")}, integers(c, {c.flag("full_matrices"), c.flag("compute_uv")})};
}
Values svd(Builder& b, const Call& c) { return b.call("aten::_linalg_svd.default", {c["A"], c["full_matrices"], true}); }
Values svdvals(Builder& b, const Call& c) { return b.call("aten::_linalg_svd.default", {c["A"], false, false})[1]; }
Values old_svd(Builder& b, const Call& c) {
  if (c.flag("compute_uv")) {
    Values s = b.call("aten::_linalg_svd.default", {c["self"], !c.flag("some"), true});
    return {s[0], s[1], transposed(s[2])};
  }
  V x = b.input(c, "self"), values = b.call("aten::_linalg_svd.default", {x, false, false})[1];
  auto zeros = [&](Expr n) { return b.full(joined(batch_of(x.sizes()), {n, n}), 0, x.dtype()); };
  return {zeros(x.size(-2)), values, zeros(x.size(-1))};
}

// A = U H, U with orthonormal columns, H symmetric without negative eigenvalues.
Values polar(Builder& b, const Call& c) {
  Values s = b.call("aten::_linalg_svd.default", {c["A"]});
  return {b.matmul(s[0], s[2]), b.matmul(transposed(s[2]) * b.unsqueeze(s[1], -2), s[2])};
}
// By the eigenvalues of the lower triangle, negative ones taken as 0.
Values sqrt_of_symmetric(Builder& b, const Call& c) {
  Values e = b.call("aten::_linalg_eigh.default", {c["self"]});
  V root = b.call1("aten::sqrt.default", {b.call1("aten::clamp_min.default", {e[0], 0})});
  return b.matmul(e[1] * b.unsqueeze(root, -2), transposed(e[1]));
}

std::vector<Type> square_types(const Call& c) {
  Sized s(c, "self", true);
  return {Type::tensor(s.t.dtype, s.t.sizes)};
}

// f16 and bf16 as f32; others by the library step.
Values matrix_exp_of_reduced(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (!is_reduced_float(x.dtype())) return {};
  return b.to(b.call1("aten::linalg_matrix_exp", {b.to(x, DType::F32)}), x.dtype());
}

const OpRow linalg_ops[] = {
    {.schema = "aten::_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()",
     .kind = Kind::Library,
     .infer = [](const Call&) { return std::vector<Type>(); },
     .library = check_step,
     .dtypes = set_of({DType::I32})},
    {.schema = "aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor "
               "pivots, Tensor info)",
     .kind = Kind::Library,
     .infer = lu_factor_types,
     .decompose = checked<"lu_factor">,
     .library = [](const Call& c) { return LibraryStep{library::linalg_lu_factor, {c.value("A")}}; },
     .dtypes = complex_types | full_floats,
     .types = "-> same i32 i32"},
    renamed<"aten::linalg_lu_factor_ex">("aten::_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> "
                                         "(Tensor LU, Tensor pivots, Tensor info)",
                                         to_f32),
    composite("aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
              strict<"aten::linalg_lu_factor_ex.default", "lu_factor">),
    {.schema = "aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> "
               "(Tensor P, Tensor L, Tensor U)",
     .kind = Kind::Library,
     .infer = lu_unpack_types,
     .library =
         [](const Call& c) {
           return LibraryStep{library::linalg_lu_unpack,
                              {c.value("LU_data"), c.value("LU_pivots")},
                              integers(c, {wants(c, "unpack_data"), wants(c, "unpack_pivots")})};
         },
     .dtypes = real_types | complex_types | bool_type,
     .types = "LU_pivots=any|complex"},
    composite("aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", lu),
    composite("aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", det<true>),
    with_vjp(composite("aten::linalg_det(Tensor A) -> Tensor", det<false>), "A: of_determinant(grad * result, A)"),
    with_vjp(composite("aten::det(Tensor self) -> Tensor", det<false>), "self: of_determinant(grad * result, self)"),
    composite("aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)", slogdet<true>),
    with_vjp(composite("aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", slogdet<false>), "A: of_determinant(grad1, A)"),
    with_vjp(composite("aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", slogdet<false>),
             "self: of_determinant(grad1, self)"),
    with_vjp(composite("aten::logdet(Tensor self) -> Tensor", logdet), "self: of_determinant(grad, self)"),

    {.schema = "aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, "
               "Tensor info)",
     .kind = Kind::Library,
     .infer = cholesky_types,
     .decompose = checked<"cholesky">,
     .library = [](const Call& c) { return LibraryStep{library::linalg_cholesky, {c.value("self")}, integers(c, {c.flag("upper")})}; },
     .dtypes = complex_types | full_floats,
     .types = "-> same i32",
     .autocast = to_f32,
     .vjp = "self: of_cholesky(grad, result0, upper)"},
    with_vjp(composite("aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
                       strict<"aten::linalg_cholesky_ex.default", "cholesky">, to_f32),
             "self: of_cholesky(grad, result, upper)"),
    with_vjp(composite("aten::cholesky(Tensor self, bool upper=False) -> Tensor", strict<"aten::linalg_cholesky_ex.default", "cholesky">),
             "self: of_cholesky(grad, result, upper)"),
    {.schema = "aten::linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor "
               "LD, Tensor pivots, Tensor info)",
     .kind = Kind::Library,
     .infer = ldl_types,
     .decompose = checked<"ldl_factor">,
     .library = [](const Call& c) { return LibraryStep{library::linalg_ldl_factor, {c.value("self")}}; },
     .dtypes = complex_types | full_floats,
     .types = "-> same i32 i32"},
    composite("aten::linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
              strict<"aten::linalg_ldl_factor_ex.default", "ldl_factor">),

    {.schema = "aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)",
     .kind = Kind::Library,
     .infer = geqrf_types,
     .library = [](const Call& c) { return LibraryStep{library::linalg_geqrf, {c.value("self")}}; },
     .dtypes = complex_types | full_floats,
     .autocast = to_f32},
    {.schema = "aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
     .kind = Kind::Library,
     .infer = householder_types,
     .library = [](const Call& c) { return LibraryStep{library::linalg_householder_product, {c.value("input"), c.value("tau")}}; },
     .dtypes = complex_types | full_floats,
     .autocast = to_f32},
    renamed<"aten::linalg_householder_product">("aten::orgqr(Tensor self, Tensor input2) -> Tensor", to_f32),
    {.schema = "aten::ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
     .kind = Kind::Library,
     .infer = ormqr_types,
     .decompose = ormqr_batch,
     .library =
         [](const Call& c) {
           return LibraryStep{library::linalg_ormqr,
                              {c.value("self"), c.value("input2"), c.value("input3")},
                              integers(c, {c.flag("left"), c.flag("transpose")})};
         },
     .dtypes = complex_types | full_floats,
     .autocast = to_f32},
    with_vjp(composite("aten::linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)", qr, to_f32),
             "A: of_qr(grad, grad1, result0, result1)"),
    composite("aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", old_qr),

    {.schema = "aten::_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, Tensor "
               "eigenvectors)",
     .kind = Kind::Library,
     .infer = eigh_types,
     .library = eigh_step,
     .dtypes = complex_types | full_floats,
     .types = "-> part"},
    with_vjp(composite("aten::linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor eigenvectors)", eigh, to_f32),
             "self: of_eigh(grad, grad1, result0, result1)"),
    with_vjp(composite("aten::linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor", eigvalsh, to_f32),
             "result: torch.linalg_eigh(self, UPLO)[0]"),
    {.schema = "aten::linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
     .kind = Kind::Library,
     .infer = eig_types<true>,
     .library = eig_step<true>,
     .dtypes = complex_types | full_floats,
     .types = "-> complex_of complex_of",
     .autocast = to_f32},
    {.schema = "aten::_linalg_eigvals(Tensor self) -> Tensor",
     .kind = Kind::Library,
     .infer = eig_types<false>,
     .library = eig_step<false>,
     .dtypes = complex_types | full_floats,
     .types = "-> complex_of"},
    renamed<"aten::_linalg_eigvals">("aten::linalg_eigvals(Tensor self) -> Tensor", to_f32),
    {.schema = "aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> "
               "(Tensor U, Tensor S, Tensor Vh)",
     .kind = Kind::Library,
     .infer = svd_types,
     .library = svd_step,
     .dtypes = complex_types | full_floats,
     .types = "-> same part"},
    with_vjp(composite("aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)", svd,
                       to_f32),
             "A: of_svd(grad, grad1, grad2, result0, result1, result2)"),
    with_vjp(composite("aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", svdvals, to_f32),
             "result: torch.linalg_svd(A, False)[1]"),
    composite("aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)", old_svd, to_f32),

    composite("aten::linalg_polar(Tensor A) -> (Tensor U, Tensor H)", polar),
    composite("aten::linalg_matrix_sqrth(Tensor self) -> Tensor", sqrt_of_symmetric),
    {.schema = "aten::linalg_matrix_exp(Tensor self) -> Tensor",
     .kind = Kind::Library,
     .infer = square_types,
     .decompose = matrix_exp_of_reduced,
     .library = [](const Call& c) { return LibraryStep{library::linalg_matrix_exp, {c.value("self")}}; },
     .dtypes = float_types,
     .vjp = "self: of_matrix_exp(grad, self)"},
    with_vjp(renamed<"aten::linalg_matrix_exp">("aten::matrix_exp(Tensor self) -> Tensor"), "self: of_matrix_exp(grad, self)"),
};

} // namespace

void check_linalg(Builder& b, V info, const char* api) { b.call("aten::_linalg_check_errors.default", {info, api, info.rank() == 0}); }

std::span<const OpRow> linalg_rows() { return linalg_ops; }

} // namespace tenon::ops
