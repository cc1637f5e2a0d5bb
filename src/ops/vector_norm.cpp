// Norms of vectors and matrices as numbers, and what is scaled by them.
#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

using Dims = std::vector<int64_t>;

V powered(Builder& b, V x, double p) { return b.call1("aten::pow.Tensor_Scalar", {x, p}); }
V magnitude(Builder& b, V x) { return b.call1("aten::abs.default", {x}); }
V root(Builder& b, V x) { return b.call1("aten::sqrt.default", {x}); }

// (sum |x|^p)^(1/p) over dims, for x in the dtype it is computed in. Every tensor of rank 0 is its own vector.
V p_norm(Builder& b, V x, double p, const Dims& dims, bool keepdim) {
  if (is_complex(x.dtype())) x = magnitude(b, x);
  auto sum = [&](V v) { return v.rank() == 0 ? v : b.sum(v, dims, keepdim); };
  if (p == 0) return sum(b.to(b.call1("aten::ne.Scalar", {x, 0}), x.dtype()));
  if (p == 1) return sum(magnitude(b, x));
  if (p == 2) return root(b, sum(x * x));
  if (std::isinf(p)) return b.call1(p > 0 ? "aten::amax.default" : "aten::amin.default", {magnitude(b, x), dims, keepdim});
  return powered(b, sum(powered(b, magnitude(b, x), p)), 1 / p);
}

double order(const Call& c, std::string_view name) { return c.has(name) ? c.number(name) : 2; }

DType norm_type(const Call& c, std::string_view arg) {
  DType t = c.type(arg).dtype;
  if (c.def.signature.find("dtype") >= 0) t = c.dtype("dtype").value_or(t);
  if (!is_float(t)) c.fail("needs floats");
  return t;
}

Dims norm_dims(const Call& c) {
  size_t rank = c.rank("self");
  if (c.def.signature.find("dim") >= 0) return c.dims("dim", rank);
  Dims all(rank);
  for (size_t d = 0; d < rank; d++) all[d] = static_cast<int64_t>(d);
  return all;
}

template <Name Order> Values vector_norm(Builder& b, const Call& c) {
  DType result = norm_type(c, "self");
  V x = b.to(b.input(c, "self"), compute_type(result));
  return b.to(p_norm(b, x, order(c, Order.text), norm_dims(c), keepdim(c)), result);
}

// Largest (or smallest) sum of magnitudes along the one dim, over the other.
V sum_norm(Builder& b, V x, int64_t summed, int64_t compared, bool largest, bool keep) {
  V sums = b.sum(magnitude(b, x), {summed}, true);
  V out = b.call1(largest ? "aten::amax.default" : "aten::amin.default", {sums, Dims{compared}, true});
  return keep ? out : b.call1("aten::squeeze.dims", {out, Dims{summed, compared}});
}

// The largest singular value (2), the smallest (-2), or the sum of all (0).
V spectral_norm(Builder& b, V x, double p, const Dims& dims, bool keep) {
  Dims order;
  for (int64_t d = 0; d < static_cast<int64_t>(x.rank()); d++)
    if (d != dims[0] && d != dims[1]) order.push_back(d);
  order.insert(order.end(), dims.begin(), dims.end());
  V s = b.call1("aten::linalg_svdvals.default", {b.permute(x, order)});
  bool none = is_const_int(s.size(-1), 0) && p >= 0; // of an empty matrix it is 0
  V out = p == 0 || none ? b.sum(s, {-1}, false) : b.call1(p > 0 ? "aten::amax.default" : "aten::amin.default", {s, Dims{-1}, false});
  if (!keep) return out;
  for (int64_t d : {std::min(dims[0], dims[1]), std::max(dims[0], dims[1])}) out = b.unsqueeze(out, d);
  return out;
}

V matrix_norm_of(Builder& b, const Call& c, V x, const Arg& ord, const Dims& dims, bool keep) {
  if (dims.size() != 2) c.fail("a matrix norm needs two dims");
  if (ord.is<std::string>()) {
    if (ord.get<std::string>() == "fro") return p_norm(b, x, 2, dims, keep);
    if (ord.get<std::string>() == "nuc") return spectral_norm(b, x, 0, dims, keep);
    c.fail("ord is neither fro nor nuc");
  }
  double p = to_expr(b.pool(), ord)->number();
  if (std::abs(p) == 1) return sum_norm(b, x, dims[0], dims[1], p > 0, keep);
  if (std::isinf(p)) return sum_norm(b, x, dims[1], dims[0], p > 0, keep);
  if (std::abs(p) == 2) return spectral_norm(b, x, p, dims, keep);
  c.fail("ord is none of fro, nuc, 1, 2, inf and their negatives");
}

// By name: nuclear_norm and frobenius_norm of the dims given, or of the whole matrix.
template <bool Nuclear> Values named_norm(Builder& b, const Call& c) {
  DType result = norm_type(c, "self");
  V x = b.to(b.input(c, "self"), compute_type(result));
  Dims dims = norm_dims(c);
  if (Nuclear && dims.size() != 2) c.fail("needs a matrix");
  return b.to(Nuclear ? spectral_norm(b, x, 0, dims, keepdim(c)) : p_norm(b, x, 2, dims, keepdim(c)), result);
}

Values matrix_norm(Builder& b, const Call& c) {
  DType result = norm_type(c, "self");
  V x = b.to(b.input(c, "self"), compute_type(result));
  return b.to(matrix_norm_of(b, c, x, c["ord"], c.dims("dim", x.rank()), keepdim(c)), result);
}

// Without `ord` the 2-norm of all that the dims hold; else a vector's norm for one dim, a matrix's for two.
Values linalg_norm(Builder& b, const Call& c) {
  DType result = norm_type(c, "self");
  V x = b.to(b.input(c, "self"), compute_type(result));
  Dims dims = c.dims("dim", x.rank());
  bool matrix = c.has("ord") && dims.size() == 2;
  V out = matrix ? matrix_norm_of(b, c, x, c["ord"], dims, keepdim(c)) : p_norm(b, x, order(c, "ord"), dims, keepdim(c));
  return b.to(out, result);
}

// Norm of v over all dims but `dim`; -1 leaves none.
V norm_except(Builder& b, V v, int64_t dim) {
  Dims dims;
  for (int64_t d = 0; d < static_cast<int64_t>(v.rank()); d++)
    if (d != dim) dims.push_back(d);
  return p_norm(b, v, 2, dims, dim != -1);
}

template <bool WithNorm> Values weight_norm(Builder& b, const Call& c) {
  DType result = c.type("v").dtype, wide = compute_type(result);
  require_input(is_float(result), "{}: v must be of a floating dtype, it is {}", c.def.signature.name, name_of(result));
  V v = b.to(b.input(c, "v"), wide), g = b.to(b.input(c, "g"), wide), norm = norm_except(b, v, c.integer("dim"));
  if (g.rank() > 0 && product(b.pool(), g.sizes()) != product(b.pool(), norm.sizes())) c.fail("g is not of the norm's size");
  V w = b.to(v * (g / norm), result);
  if constexpr (WithNorm) return {w, norm};
  return w;
}

const OpRow vector_norm_ops[] = {
    {.schema =
         "aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .decompose = vector_norm<"ord">,
     .vjp = "self: of_norm(grad, self, ord, result, dim).to(self_dtype)"},
    {.schema = "aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
     .decompose = vector_norm<"p">,
     .vjp = "self: of_norm(grad, self, p, result, None).to(self_dtype)"},
    {.schema = "aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
     .decompose = vector_norm<"p">,
     .vjp = "self: of_norm(grad, self, p, result, dim).to(self_dtype)"},
    {.schema = "aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
     .decompose = vector_norm<"p">,
     .vjp = "self: of_norm(grad, self, p, result, dim).to(self_dtype)"},
    {.schema = "aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
     .decompose = vector_norm<"p">,
     .vjp = "self: of_norm(grad, self, p, result, None).to(self_dtype)"},
    {.schema =
         "aten::linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .decompose = linalg_norm},
    {.schema = "aten::linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .decompose = linalg_norm},
    {.schema =
         "aten::linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .decompose = matrix_norm},
    {.schema = "aten::linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, "
               "ScalarType? dtype=None) -> Tensor",
     .decompose = matrix_norm},
    {.schema = "aten::nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", .decompose = named_norm<true>},
    {.schema = "aten::nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor", .decompose = named_norm<true>},
    {.schema = "aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
     .decompose = named_norm<false>,
     .vjp = "self: of_norm(grad, self, 2.0, result, dim)"},
    {.schema = "aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
     .decompose = weight_norm<false>,
     .vjp = "result: g * v / norm_but(v, dim)"},
    {.schema = "aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", .decompose = weight_norm<true>},
};

} // namespace

std::span<const OpRow> vector_norm_rows() { return vector_norm_ops; }

} // namespace tenon::ops
