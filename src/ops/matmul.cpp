// Matrix products. mm and bmm are the products of the Edge dialect; everything else is reshaped into one of them. The
// overloads with `dtype` give the wide accumulator, so that what follows a product of reduced floats is rounded once.
#include "ops/matmul.h"
#include "ops/autocast.h"
#include "ops/body.h"
#include "ops/jvp.h"
#include "ops/shape.h"
#include "ops/table.h"
#include "ops/vectorize.h"

namespace tenon::ops {

V product(Builder& b, V x, V y, DType result) {
  std::string name = x.rank() == 2 ? "aten::mm" : "aten::bmm";
  if (result == x.dtype()) return b.call1(name + ".default", {x, y});
  return b.call1(name + ".dtype", {x, y, result});
}

namespace {

std::vector<Expr> joined(const std::vector<Expr>& a, std::initializer_list<Expr> tail) {
  std::vector<Expr> out = a;
  out.insert(out.end(), tail);
  return out;
}

std::vector<Expr> batch_of(V x) { return {x.sizes().begin(), x.sizes().end() - 2}; }

bool all_ones(const std::vector<Expr>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](Expr e) { return is_const_int(e, 1); });
}

// Over the last dim: a reduction like any other, which takes part in fusion.
V inner_product(Builder& b, V x, V y, DType result) {
  DType wide = compute_type(x.dtype());
  V xy = b.to(x, wide) * b.to(y, wide);
  return b.to(b.call1("aten::sum.dim_IntList", {xy, {-1}}, {{"dtype", wide}}), result);
}

// x [..., M, K] @ y [..., K, N], both of rank 2 or more.
V batched(Builder& b, V x, V y, DType result) {
  Expr m = x.size(-2), k = x.size(-1), n = y.size(-1);
  if (is_const_int(m, 1) && is_const_int(n, 1)) return b.unsqueeze(inner_product(b, x, b.transpose(y, -2, -1), result), -1);
  std::vector<Expr> xb = batch_of(x), yb = batch_of(y);
  if (all_ones(yb)) { // the rows of all batches against one matrix
    V out = product(b, b.reshape(x, {product(b.pool(), xb) * m, k}), b.reshape(y, {k, n}), result);
    std::vector<Expr> batch = broadcast(b.pool(), xb, yb, "matmul");
    return b.reshape(out, joined(batch, {m, n}));
  }
  std::vector<Expr> batch = broadcast(b.pool(), xb, yb, "matmul");
  Expr count = product(b.pool(), batch);
  V xs = b.reshape(b.expand(x, joined(batch, {m, k})), {count, m, k});
  V ys = b.reshape(b.expand(y, joined(batch, {k, n})), {count, k, n});
  return b.reshape(product(b, xs, ys, result), joined(batch, {m, n}));
}

} // namespace

V matmul(Builder& b, V x, V y, DType result) {
  require_input(x.rank() > 0 && y.rank() > 0, "matmul: both operands need a dim");
  if (auto a = const_int(x.size(-1)), c = const_int(y.size(y.rank() == 1 ? 0 : -2)); a && c && *a != *c) {
    if (x.rank() == 1 && y.rank() == 1)
      bad_input("inconsistent tensor size, expected tensor [{0}] and src [{1}] to have the same number of elements, but got {0} and {1} "
                "elements respectively",
                *a, *c);
    if (x.rank() == 2 && y.rank() == 1) bad_input("size mismatch, got input ({0}), mat ({0}x{1}), vec ({2})", to_string(x.size(0)), *a, *c);
    bad_input("mm: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", x.rank() > 1 ? to_string(x.size(-2)) : "1", *a, *c,
              y.rank() > 1 ? to_string(y.size(-1)) : "1");
  }
  require_input(x.dtype() == y.dtype(), "expected m1 and m2 to have the same dtype, but got: {} != {}", c_name(x.dtype()),
                c_name(y.dtype()));
  bool row = x.rank() == 1, column = y.rank() == 1;
  if (row && column) return inner_product(b, x, y, result);
  if (row) x = b.reshape(x, {b.integer(1), x.size(0)});
  if (column) y = b.reshape(y, {y.size(0), b.integer(1)});
  V out = batched(b, x, y, result);
  std::vector<Expr> sizes = out.sizes();
  if (column) sizes.pop_back();
  if (row) sizes.erase(sizes.end() - (column ? 1 : 2));
  return b.reshape(out, sizes);
}

namespace {

V operand(Builder& b, const Call& c, std::string_view name, size_t rank) {
  if (c.rank(name) != rank) c.fail(fmt::format("{} must be of rank {}", name, rank));
  return b.input(c, name);
}

std::vector<Type> product_types(const Call& c, size_t rank) {
  for (std::string_view name : {"self", "mat2"})
    if (c.rank(name) != rank)
      c.fail(rank == 2 ? fmt::format("mm: {} must be a matrix, got {}-D tensor", name, c.rank(name))
                       : fmt::format("{} must be a 3D tensor", name == "self" ? "batch1" : "batch2"));
  DType t = c.type("self").dtype, other = c.type("mat2").dtype;
  bool with_type = c.def.signature.find("out_dtype") >= 0;
  if (with_type) t = c.dtype("out_dtype").value_or(t);
  // With a dtype of its own, the second operand may be narrower (weights): both are widened to what is summed in.
  bool narrower = with_type && is_float(t) && (is_reduced_float(other) || other == DType::I8),
       bytes = with_type && t == DType::I32 && size_of(other) == 1;
  if (c.type("self").dtype != other && !narrower && !bytes) c.fail("operands differ in dtype");
  for (int64_t d = -static_cast<int64_t>(rank); d < -1; d++) { // batches are equal, and what is summed over
    auto x = const_int(c.size("self", d == -2 ? -1 : d)), y = const_int(c.size("mat2", d));
    if (!x || !y || *x == *y) continue;
    const std::vector<Expr>&a = c.type("self").sizes, &b = c.type("mat2").sizes;
    if (rank == 2)
      c.fail(fmt::format("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", to_string(a[0]), *x, *y, to_string(b[1])));
    c.fail(fmt::format("Expected size for first two dimensions of batch2 tensor to be: {} but got: {}.", sizes_text({a[0], a[2]}),
                       sizes_text({b[0], b[1]})));
  }
  std::vector<Expr> sizes = c.type("self").sizes;
  sizes.back() = c.size("mat2", -1);
  return {Type::tensor(t, sizes)};
}

template <size_t Rank> std::vector<Type> matmul_types(const Call& c) { return product_types(c, Rank); }

template <size_t Rank> Compute matmul_define(const DefineArgs& d) {
  Expr k = d.reduce_axis(d.call.size("self", -1));
  std::vector<Expr> left(d.axes), right(d.axes);
  left[Rank - 1] = k;
  right[Rank - 2] = k;
  DType wide = compute_type(promote(d.output.dtype, d.call.type("self").dtype));
  Expr body = cast(d.load("self", left), wide) * cast(d.load("mat2", right), wide);
  return {.axes = d.axes, .reduce_axes = {k}, .reduction = Reduction::Sum, .body = body};
}

Values matmul_row(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return matmul(b, x, b.input(c, "other"), x.dtype());
}

// x @ w.T + b over the last dim of x.
Values linear(Builder& b, const Call& c) {
  V x = b.input(c, "input"), w = b.input(c, "weight");
  if (w.rank() == 2) w = b.transpose(w, 0, 1);
  if (!c.has("bias")) return matmul(b, x, w, x.dtype());
  V bias = b.input(c, "bias");
  DType wide = compute_type(x.dtype());
  return b.to(matmul(b, x, w, wide) + b.to(bias, wide), x.dtype());
}

// beta or alpha, as a number of the product's dtype: a fraction is cut off for integers.
Arg factor(const Call& c, std::string_view name, DType type) {
  Expr e = c.scalar(name);
  return is_int(type) ? Arg(cast(e, DType::I64)) : Arg(e->is_const() ? cast(e, DType::F64) : e);
}

bool is_number(const Arg& a, double v) {
  if (auto* i = std::get_if<int64_t>(&a.v)) return static_cast<double>(*i) == v;
  auto* d = std::get_if<double>(&a.v);
  return d && *d == v;
}

// beta * self + alpha * xy, with one rounding; beta = 0 means that self is not read.
V mixed(Builder& b, const Call& c, V xy, DType result) {
  Arg alpha = factor(c, "alpha", xy.dtype()), beta = factor(c, "beta", xy.dtype());
  if (!is_number(alpha, 1)) xy = xy * alpha;
  if (!is_number(beta, 0)) {
    V self = b.to(b.input(c, "self"), xy.dtype());
    xy = xy + (is_number(beta, 1) ? self : self * beta);
  }
  return b.to(xy, result);
}

template <Name Left, Name Right, size_t LeftRank, size_t RightRank> Values add_product(Builder& b, const Call& c) {
  V x = operand(b, c, Left.text, LeftRank), y = operand(b, c, Right.text, RightRank);
  DType result = x.dtype();
  if (c.def.signature.find("out_dtype") >= 0) result = c.dtype("out_dtype").value_or(result);
  V xy = matmul(b, x, y, compute_type(result));
  V out = mixed(b, c, xy, result);
  return b.expand(out, xy.sizes());
}

Values addmm_activation(Builder& b, const Call& c) {
  V y = b.call1("aten::addmm.default", {c["self"], c["mat1"], c["mat2"]}, {{"beta", c["beta"]}, {"alpha", c["alpha"]}});
  return b.call(c.flag("use_gelu") ? "aten::gelu.default" : "aten::relu.default", {y});
}

// The sum over batches is part of the product: [B, N, M] @ [B, M, P] as [N, B * M] @ [B * M, P].
Values addbmm(Builder& b, const Call& c) {
  V x = operand(b, c, "batch1", 3), y = operand(b, c, "batch2", 3);
  Expr k = x.size(0) * x.size(2);
  V left = b.reshape(b.permute(x, {1, 0, 2}), {x.size(1), k}), right = b.reshape(y, {k, y.size(2)});
  return mixed(b, c, product(b, left, right, compute_type(x.dtype())), x.dtype());
}

Values outer(Builder& b, const Call& c) { return b.unsqueeze(operand(b, c, "self", 1), 1) * operand(b, c, "vec2", 1); }

Values addr(Builder& b, const Call& c) {
  V x = operand(b, c, "vec1", 1), y = operand(b, c, "vec2", 1);
  DType result = promote(promote(x.dtype(), y.dtype()), c.type("self").dtype), wide = compute_type(result);
  V xy = b.unsqueeze(b.to(x, wide), 1) * b.to(y, wide);
  if (result == DType::Bool) { // beta and alpha are flags
    V out = c.flag("alpha") ? xy : b.full(xy.sizes(), false, result);
    return c.flag("beta") ? b.call1("aten::logical_or.default", {out, c["self"]}) : out;
  }
  return b.expand(mixed(b, c, xy, result), xy.sizes());
}

Values inner(Builder& b, const Call& c) {
  V x = b.input(c, "self"), y = b.input(c, "other");
  if (x.rank() == 0 || y.rank() == 0) return x * y;
  // x [..., K], y [..., K]: all rows of one with all rows of the other
  Expr k = x.size(-1);
  std::vector<Expr> xb(x.sizes().begin(), x.sizes().end() - 1), yb(y.sizes().begin(), y.sizes().end() - 1);
  V out = product(b, b.reshape(x, {product(b.pool(), xb), k}), b.transpose(b.reshape(y, {product(b.pool(), yb), k}), 0, 1), x.dtype());
  xb.insert(xb.end(), yb.begin(), yb.end());
  return b.reshape(out, xb);
}

Values int_mm(Builder& b, const Call& c) { return product(b, operand(b, c, "self", 2), operand(b, c, "mat2", 2), DType::I32); }

// Left to right, except that the cheaper of the two orders is taken for three matrices of known sizes.
template <Name List> Values chain(Builder& b, const Call& c) {
  std::vector<V> m;
  for (ValueId v : c.values(List.text)) m.push_back(b.wrap(v));
  if (m.empty()) c.fail("needs a matrix");
  if (m.size() == 3 && m[1].rank() == 2) {
    auto size = [](V v, int64_t d) { return v.rank() == 1 ? std::optional<int64_t>(1) : const_int(v.size(d)); };
    auto r = size(m[0], 0), s = const_int(m[1].size(0)), t = const_int(m[1].size(1)), u = size(m[2], 1);
    if (r && s && t && u && *s * *t * *u + *r * *s * *u < *r * *s * *t + *r * *t * *u) return b.matmul(m[0], b.matmul(m[1], m[2]));
  }
  V out = m[0];
  for (size_t i = 1; i < m.size(); i++) out = b.matmul(out, m[i]);
  return out;
}

Values matrix_power(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.rank() < 2) c.fail("needs a matrix");
  int64_t n = c.integer("n");
  if (n == 0) {
    V eye = b.call1("aten::eye.default", {x.size(-1)}, {{"dtype", x.dtype()}});
    return b.expand(eye, x.sizes());
  }
  if (n < 0) x = b.call1("aten::linalg_inv.default", {x});
  V out;
  for (uint64_t rest = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n); rest; rest >>= 1) {
    if (rest & 1) out = out ? b.matmul(out, x) : x;
    if (rest > 1) x = b.matmul(x, x);
  }
  return out;
}

// Each size of the result is the product of the two; a missing leading dim is 1.
Values kron(Builder& b, const Call& c) {
  V x = b.input(c, "self"), y = b.input(c, "other");
  size_t rank = std::max(x.rank(), y.rank());
  auto padded = [&](V v) {
    std::vector<Expr> sizes(rank - v.rank(), b.integer(1));
    sizes.insert(sizes.end(), v.sizes().begin(), v.sizes().end());
    return sizes;
  };
  std::vector<Expr> xs = padded(x), ys = padded(y), left, right, out;
  for (size_t d = 0; d < rank; d++) {
    left.insert(left.end(), {xs[d], b.integer(1)});
    right.insert(right.end(), {b.integer(1), ys[d]});
    out.push_back(xs[d] * ys[d]);
  }
  return b.reshape(b.reshape(x, left) * b.reshape(y, right), out);
}

Values cross(Builder& b, const Call& c) {
  V x = b.input(c, "self"), y = b.input(c, "other");
  std::vector<Expr> sizes = broadcast(b.pool(), x.sizes(), y.sizes(), "cross");
  int64_t dim = 0;
  if (c.has("dim")) dim = c.dim("dim", sizes.size());
  else
    while (dim < static_cast<int64_t>(sizes.size()) && !is_const_int(sizes[static_cast<size_t>(dim)], 3)) dim++;
  if (dim >= static_cast<int64_t>(sizes.size())) c.fail("needs a dim of size 3");
  x = b.expand(x, sizes), y = b.expand(y, sizes);
  auto turned = [&](V v, int64_t by) { return b.call1("aten::roll.default", {v, {by}, {dim}}); };
  return turned(x, -1) * turned(y, -2) - turned(x, -2) * turned(y, -1);
}

Values vecdot(Builder& b, const Call& c) {
  V xy = b.input(c, "x") * b.input(c, "y");
  return b.call1("aten::sum.dim_IntList", {xy, {c.dim("dim", xy.rank())}}, {{"dtype", xy.dtype()}});
}

Values tensordot(Builder& b, const Call& c) {
  V x = b.input(c, "self"), y = b.input(c, "other");
  auto xd = c.dims("dims_self", x.rank(), false), yd = c.dims("dims_other", y.rank(), false);
  if (xd.size() != yd.size()) c.fail("both lists of dims must be of one length");
  for (size_t i = 0; i < xd.size(); i++) { // a size of 1 goes with any size: the other side is summed first
    Expr a = x.size(xd[i]), o = y.size(yd[i]);
    if (is_const_int(a, 1) && !is_const_int(o, 1)) y = b.sum(y, {yd[i]}, true);
    else if (is_const_int(o, 1) && !is_const_int(a, 1)) x = b.sum(x, {xd[i]}, true);
  }
  std::vector<int64_t> left, right = yd;
  std::vector<Expr> sizes;
  Expr m = b.integer(1), k = m, n = m;
  for (int64_t d = 0; d < static_cast<int64_t>(x.rank()); d++)
    if (std::find(xd.begin(), xd.end(), d) == xd.end()) left.push_back(d), sizes.push_back(x.size(d)), m = m * x.size(d);
  for (int64_t d : xd) left.push_back(d), k = k * x.size(d);
  for (int64_t d = 0; d < static_cast<int64_t>(y.rank()); d++)
    if (std::find(yd.begin(), yd.end(), d) == yd.end()) right.push_back(d), sizes.push_back(y.size(d)), n = n * y.size(d);
  V out = product(b, b.reshape(b.permute(x, left), {m, k}), b.reshape(b.permute(y, right), {k, n}), x.dtype());
  return b.reshape(out, sizes);
}

Values product_of_batches(Builder& b, const BatchedCall& c) {
  V x = c.operand(c.call.value("self"), c.result.rank());
  return b.matmul(x, c.operand(c.call.value("mat2"), c.result.rank()));
}

const OpRow matmul_ops[] = {
    {.schema = "aten::mm(Tensor self, Tensor mat2) -> Tensor",
     .kind = Kind::Matmul,
     .infer = matmul_types<2>,
     .define = matmul_define<2>,
     .dtypes = real_types | float8_types,
     .jvp = jvp_product,
     .autocast = to_lower,
     .vectorize = product_of_batches,
     .vjp = "self: grad.mm(mat2.t()); mat2: self.t().mm(grad)"},
    {.schema = "aten::mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
     .kind = Kind::Matmul,
     .infer = matmul_types<2>,
     .define = matmul_define<2>,
     .dtypes = real_types,
     .types = "mat2=reals -> reals",
     .autocast = to_lower},
    {.schema = "aten::bmm(Tensor self, Tensor mat2) -> Tensor",
     .kind = Kind::Matmul,
     .infer = matmul_types<3>,
     .define = matmul_define<3>,
     .dtypes = real_types,
     .jvp = jvp_product,
     .autocast = to_lower,
     .vectorize = product_of_batches,
     .vjp = "self: grad.bmm(mat2.transpose(1, 2)); mat2: self.transpose(1, 2).bmm(grad)"},
    {.schema = "aten::bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
     .kind = Kind::Matmul,
     .infer = matmul_types<3>,
     .define = matmul_define<3>,
     .dtypes = real_types,
     .types = "mat2=reals -> reals",
     .autocast = to_lower},
    {.schema = "aten::matmul(Tensor self, Tensor other) -> Tensor",
     .decompose = matmul_row,
     .jvp = jvp_product,
     .autocast = to_lower,
     .vjp = "self: matmul_left(grad, self_size, other); other: matmul_right(grad, self, other_size)"},
    {.schema = "aten::linalg_matmul(Tensor self, Tensor other) -> Tensor",
     .decompose = matmul_row,
     .vjp = "self: matmul_left(grad, self_size, other); other: matmul_right(grad, self, other_size)"},
    {.schema = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
     .decompose = linear,
     .jvp = jvp_product,
     .autocast = to_lower,
     .vjp = "input: matmul_left(grad, input_size, weight.t()); weight: matmul_right(grad, input, turned(weight_size)).t(); bias: "
            "grad.sum_to_size(bias_size)"},
    {.schema = "aten::_sparse_mm(Tensor sparse, Tensor dense) -> Tensor", .decompose = same<"aten::mm.default">},
    {.schema = "aten::_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .decompose = same<"aten::addmm.default">},
    {.schema = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .decompose = add_product<"mat1", "mat2", 2, 2>,
     .autocast = to_lower,
     .vjp =
         "self: scaled(grad, beta).sum_to_size(self_size); mat1: scaled(grad.mm(mat2.t()), alpha); mat2: scaled(mat1.t().mm(grad), alpha)"},
    {.schema = "aten::addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .decompose = add_product<"mat1", "mat2", 2, 2>,
     .autocast = to_lower},
    {.schema =
         "aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False) -> Tensor",
     .decompose = addmm_activation,
     .autocast = to_lower},
    {.schema = "aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .decompose = add_product<"batch1", "batch2", 3, 3>,
     .autocast = to_lower,
     .vjp = "self: scaled(grad, beta).sum_to_size(self_size); batch1: scaled(grad.bmm(batch2.transpose(1, 2)), alpha); batch2: "
            "scaled(batch1.transpose(1, 2).bmm(grad), alpha)"},
    {.schema =
         "aten::baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .decompose = add_product<"batch1", "batch2", 3, 3>,
     .autocast = to_lower},
    {.schema = "aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .decompose = addbmm,
     .autocast = to_lower,
     .vjp = "self: scaled(grad, beta).sum_to_size(self_size); batch1: scaled(torch.matmul(grad, batch2.transpose(1, 2)), alpha); batch2: "
            "scaled(torch.matmul(batch1.transpose(1, 2), grad), alpha)"},
    {.schema = "aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .decompose = add_product<"mat", "vec", 2, 1>,
     .vjp = "self: scaled(grad, beta).sum_to_size(self_size); mat: scaled(torch.outer(grad, vec), alpha); vec: scaled(mat.t().mv(grad), "
            "alpha)"},
    {.schema = "aten::mv(Tensor self, Tensor vec) -> Tensor",
     .decompose = [](Builder& b, const Call& c) { return Values(b.matmul(operand(b, c, "self", 2), operand(b, c, "vec", 1))); },
     .jvp = jvp_product,
     .vjp = "self: torch.outer(grad, vec); vec: self.t().mv(grad)"},
    {.schema = "aten::dot(Tensor self, Tensor tensor) -> Tensor",
     .decompose = [](Builder& b, const Call& c) { return Values(b.matmul(operand(b, c, "self", 1), operand(b, c, "tensor", 1))); },
     .jvp = jvp_product,
     .vjp = "self: grad * tensor; tensor: grad * self"},
    {.schema = "aten::vdot(Tensor self, Tensor other) -> Tensor",
     .decompose = [](Builder& b, const Call& c) { return Values(b.matmul(operand(b, c, "self", 1), operand(b, c, "other", 1))); },
     .vjp = "self: grad * other; other: grad * self"},
    {.schema = "aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
     .decompose = vecdot,
     .autocast = to_lower,
     .vjp = "result: (x * y).sum(dim)"},
    {.schema = "aten::inner(Tensor self, Tensor other) -> Tensor",
     .decompose = inner,
     .autocast = to_lower,
     .vjp = "result: inner_product(self, other)"},
    {.schema = "aten::outer(Tensor self, Tensor vec2) -> Tensor",
     .decompose = outer,
     .vjp = "self: grad.mv(vec2); vec2: grad.t().mv(self)"},
    {.schema = "aten::ger(Tensor self, Tensor vec2) -> Tensor", .decompose = outer, .vjp = "self: grad.mv(vec2); vec2: grad.t().mv(self)"},
    {.schema = "aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     .decompose = addr,
     .vjp = "self: scaled(grad, beta).sum_to_size(self_size); vec1: scaled(grad.mv(vec2), alpha); vec2: scaled(grad.t().mv(vec1), alpha)"},
    {.schema = "aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
     .decompose = tensordot,
     .autocast = to_lower,
     .vjp = "result: contracted(self, other, dims_self, dims_other)"},
    {.schema = "aten::chain_matmul(Tensor[] matrices) -> Tensor",
     .decompose = chain<"matrices">,
     .autocast = to_lower,
     .vjp = "result: product_of(matrices)"},
    {.schema = "aten::linalg_multi_dot(Tensor[] tensors) -> Tensor",
     .decompose = chain<"tensors">,
     .autocast = to_lower,
     .vjp = "result: product_of(tensors)"},
    {.schema = "aten::kron(Tensor self, Tensor other) -> Tensor", .decompose = kron, .vjp = "result: kronecker(self, other)"},
    {.schema = "aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
     .decompose = cross,
     .vjp = "result: torch.linalg_cross(self, other, dim=first_of_three(self, dim))"},
    {.schema = "aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
     .decompose = cross,
     .vjp = "broadcasts; self: torch.linalg_cross(other, grad, dim=dim); other: torch.linalg_cross(grad, self, dim=dim)"},
    {.schema = "aten::matrix_power(Tensor self, int n) -> Tensor", .decompose = matrix_power, .vjp = "result: power_of_matrix(self, n)"},
    {.schema = "aten::linalg_matrix_power(Tensor self, int n) -> Tensor",
     .decompose = matrix_power,
     .vjp = "result: power_of_matrix(self, n)"},
    {.schema = "aten::_int_mm(Tensor self, Tensor mat2) -> Tensor", .decompose = int_mm},
};

} // namespace

std::span<const OpRow> matmul_rows() { return matmul_ops; }

} // namespace tenon::ops
