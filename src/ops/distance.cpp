// Distances between vectors, as norms of differences. As in torch each operator rounds to the operands' dtype.
#include <cmath>

#include "ops/autocast.h"
#include "ops/pointwise.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

V norm(V x, double p, int64_t dim, bool keepdim) { return x.builder().call1("aten::linalg_vector_norm", {x, p, ArgList{dim}, keepdim}); }

Values pairwise_distance(Builder& b, const Call& c) {
  V d = b.input(c, "x1") - b.input(c, "x2") + c.number("eps");
  return norm(d, c.number("p"), -1, c.flag("keepdim"));
}

Values cosine_similarity(Builder& b, const Call& c) {
  V x = b.input(c, "x1"), y = b.input(c, "x2");
  DType result = float_result(b, x, y);
  std::vector<Expr> sizes = broadcast(b.pool(), x.sizes(), y.sizes(), c.def.signature.name);
  int64_t dim = c.dim("dim", sizes.size());
  auto unit = [&](V v) {
    v = b.expand(b.to(v, result), sizes);
    return v / b.call1("aten::clamp_min", {norm(v, 2, dim, true), c["eps"]});
  };
  return b.sum(unit(x) * unit(y), {dim}, false);
}

Values dist(Builder& b, const Call& c) { return b.call("aten::linalg_vector_norm", {b.input(c, "self") - b.input(c, "other"), c["p"]}); }

// |x - y|^2 = |x|^2 + |y|^2 - 2 xy, as torch computes it for more than 25 rows; of the reduced floats in f32.
V euclidean_by_product(Builder& b, V x, V y) {
  DType result = x.dtype(), wide = compute_type(result);
  x = b.to(x, wide), y = b.to(y, wide);
  auto square = [&](V v) { return b.sum(v * v, {-1}, true); };
  V squares = square(x) + b.transpose(square(y), -2, -1) - b.matmul(x, b.transpose(y, -2, -1)) * Arg(2);
  return b.to(b.call1("aten::sqrt", {b.call1("aten::clamp_min", {squares, 0})}), result);
}

bool takes_product(const Call& c, V x, V y) {
  if (c.number("p") != 2 || !is_float(x.dtype()) || x.dtype() != y.dtype()) return false;
  int64_t mode = c.has("compute_mode") ? c.integer("compute_mode") : 0;
  auto many = [](Expr rows) { return const_int(rows).value_or(0) > 25; };
  return mode == 1 || (mode == 0 && (many(x.size(-2)) || many(y.size(-2))));
}

// All pairs of rows: the last dim of x1[..., P, M] - x2[..., R, M].
Values cdist(Builder& b, const Call& c) {
  if (V x = b.input(c, "x1"), y = b.input(c, "x2"); takes_product(c, x, y)) return euclidean_by_product(b, x, y);
  return norm(b.unsqueeze(b.input(c, "x1"), -2) - b.unsqueeze(b.input(c, "x2"), -3), c.number("p"), -1, false);
}
Values euclidean(Builder& b, const Call& c) { return b.call("aten::cdist", {c["x1"], c["x2"]}); }

// Pairs of rows i < j, in row-major order of (i, j).
Values pdist(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.rank() != 2) c.fail("self is no matrix");
  V pairs = b.call1("aten::triu_indices", {x.size(0), x.size(0), 1});
  auto rows_at = [&](int64_t k) { return b.call1("aten::index_select", {x, 0, b.select(pairs, 0, b.integer(k))}); };
  return norm(rows_at(0) - rows_at(1), c.number("p"), -1, false);
}

// How the p-norms `norms` of differences change with these, times `grad`; not at all where either is zero. Both get the last dim here.
V norm_backward(Builder& b, V grad, V difference, V norms, double p) {
  grad = b.unsqueeze(grad, -1), norms = b.unsqueeze(norms, -1);
  auto is_zero = [&](V v) { return b.call1("aten::eq.Scalar", {v, 0}); };
  V sign = b.call1("aten::sgn", {difference}), size = b.call1("aten::abs", {difference});
  if (p == 0) return b.full(difference.sizes(), 0, difference.dtype());
  if (p == 1) return sign * grad;
  if (std::isinf(p)) return b.where(b.call1("aten::eq.Tensor", {size, norms}), sign * grad, Arg(0.0));
  auto power = [&](V v) { return p == 2 ? v : b.call1("aten::pow.Tensor_Scalar", {v, p - 1}); };
  V slope = b.where(is_zero(norms), Arg(0.0), grad / power(norms));
  if (p >= 2) return (p == 2 ? difference : sign * power(size)) * slope;
  return b.where(is_zero(difference), Arg(0.0), sign * power(size) * slope);
}

Values cdist_backward(Builder& b, const Call& c) {
  V difference = b.unsqueeze(b.input(c, "x1"), -2) - b.unsqueeze(b.input(c, "x2"), -3);
  return b.sum(norm_backward(b, b.input(c, "grad"), difference, b.input(c, "cdist"), c.number("p")), {-2}, false);
}

Values pdist_backward(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.rank() != 2) c.fail("self is no matrix");
  V pairs = b.call1("aten::triu_indices", {x.size(0), x.size(0), 1});
  auto rows = [&](int64_t k) { return b.select(pairs, 0, b.integer(k)); };
  auto at = [&](int64_t k) { return b.call1("aten::index_select", {x, 0, rows(k)}); };
  V change = norm_backward(b, b.input(c, "grad"), at(0) - at(1), b.input(c, "pdist"), c.number("p"));
  V sum = b.call1("aten::index_add", {b.full(x.sizes(), 0, x.dtype()), 0, rows(0), change});
  return b.call1("aten::index_add", {sum, 0, rows(1), -change});
}

const OpRow distance_ops[] = {
    with_vjp(
        composite(
            "aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, bool keepdim=False) -> Tensor",
            pairwise_distance),
        "result: torch.linalg_vector_norm(x1 - x2 + eps, p, [-1], keepdim)"),
    with_vjp(composite("aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", cosine_similarity),
             "result: cosine_of(x1, x2, dim, eps)"),
    with_vjp(composite("aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", dist),
             "result: torch.linalg_vector_norm(self - other, p)"),
    with_vjp(composite("aten::cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor", cdist, to_f32),
             "result: torch.linalg_vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, [-1])"),
    composite("aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", cdist),
    composite("aten::_euclidean_dist(Tensor x1, Tensor x2) -> Tensor", euclidean),
    with_vjp(composite("aten::pdist(Tensor self, float p=2.) -> Tensor", pdist), "result: pair_distances(self, p)"),
    composite("aten::_pdist_forward(Tensor self, float p=2.) -> Tensor", pdist),
    composite("aten::_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor", cdist_backward),
    composite("aten::_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor", pdist_backward),
};

} // namespace

std::span<const OpRow> distance_rows() { return distance_ops; }

} // namespace tenon::ops
