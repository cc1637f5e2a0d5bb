// Reductions over dims: a few that are computed as such, the others written with them.
#include "ops/autocast.h"
#include "ops/body.h"
#include "ops/jvp.h"
#include "ops/table.h"
#include "ops/vectorize.h"

namespace tenon::ops {

namespace {

using Dims = std::vector<int64_t>;

// The dims a call reduces: `dim` is a number, a list, none (all dims), or no argument at all (all dims).
Dims reduced_dims(const Call& c) {
  size_t rank = c.rank("self");
  if (c.def.signature.find("dim") >= 0) return c.dims("dim", rank);
  Dims all;
  for (size_t d = 0; d < rank; d++) all.push_back(static_cast<int64_t>(d));
  return all;
}

bool is_in(const Dims& dims, size_t d) { return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end(); }

std::vector<Type> reduced(const Call& c, DType dtype) {
  std::vector<Expr> sizes;
  const Type& t = c.type("self");
  Dims dims = reduced_dims(c);
  for (size_t d = 0; d < t.rank(); d++) {
    if (!is_in(dims, d)) sizes.push_back(t.sizes[d]);
    else if (keepdim(c)) sizes.push_back(c.pool().integer(1));
  }
  return {Type::tensor(dtype, sizes)};
}

// The load at the output's axes and new reduction axes for the reduced dims.
Compute reduce_over(const DefineArgs& d, Reduction reduction, DType accumulate) {
  Compute out{.axes = d.axes, .reduction = reduction};
  Dims dims = reduced_dims(d.call);
  std::vector<Expr> index;
  size_t next = 0;
  for (size_t k = 0; k < d.call.rank("self"); k++) {
    if (!is_in(dims, k)) {
      index.push_back(d.i(next++));
      continue;
    }
    index.push_back(d.reduce_axis(d.call.size("self", static_cast<int64_t>(k))));
    out.reduce_axes.push_back(index.back());
    next += keepdim(d.call);
  }
  out.body = cast(d.load("self", index), accumulate);
  return out;
}

DType sum_type(const Call& c) {
  DType t = c.type("self").dtype;
  return c.dtype("dtype").value_or(is_float(t) || is_complex(t) ? t : DType::I64);
}
DType same_type(const Call& c) { return c.type("self").dtype; }
DType truth_type(const Call& c) { return c.type("self").dtype == DType::U8 ? DType::U8 : DType::Bool; }
DType index_type(const Call&) { return DType::I64; }

template <DType (*T)(const Call&)> std::vector<Type> reduction_types(const Call& c) { return reduced(c, T(c)); }

template <Reduction R> Compute reduction(const DefineArgs& d) {
  bool truth = R == Reduction::Any || R == Reduction::All, arithmetic = R == Reduction::Sum || R == Reduction::Prod;
  DType in = d.call.type("self").dtype;
  return reduce_over(d, R, truth ? DType::Bool : compute_type(arithmetic ? d.output.dtype : in));
}

// Extremes of nothing do not exist; where the size is known, say so now.
template <DType (*T)(const Call&)> std::vector<Type> types_of_extreme(const Call& c) {
  for (int64_t d : reduced_dims(c))
    if (is_const_int(c.size("self", d), 0)) {
      std::string_view name = c.def.signature.name;
      name = name.substr(name.find("::") + 2), name = name.substr(0, name.find('.'));
      bool all = c.def.signature.find("dim") < 0 || !c.has("dim") || (c["dim"].is<ArgList>() && c["dim"].get<ArgList>().empty());
      c.fail(all ? fmt::format("{}(): Expected reduction dim to be specified for input.numel() == 0.",
                               name.starts_with("am") ? name.substr(1) : name)
                 : fmt::format("{}(): Expected reduction dim {} to have non-zero size.", name, d));
    }
  return reduced(c, T(c));
}

// An empty list of dims reduces nothing here.
// An empty list reduces nothing here.
bool over_no_dims(const Call& c) { return c["dim"].is<ArgList>() && c["dim"].get<ArgList>().empty(); }
std::vector<Type> truth_types(const Call& c) {
  return over_no_dims(c) ? std::vector{Type::tensor(truth_type(c), c.type("self").sizes)} : reduced(c, truth_type(c));
}
Values truth_over_dims(Builder& b, const Call& c) {
  if (!over_no_dims(c)) return {};
  V x = b.input(c, "self");
  return x.dtype() == DType::U8 ? x : b.to(x, DType::Bool);
}

// Another reduction with the same dims and keepdim.
V over(Builder& b, std::string_view op, V x, const Call& c) { return b.call1(op, {x, reduced_dims(c), keepdim(c)}); }

template <Name N> Values all_dims(Builder& b, const Call& c) { return over(b, N.text, b.input(c, "self"), c); }

// The extreme and the place of it.
template <Name Value, Name Index> Values with_index(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return {over(b, Value.text, x, c), b.call1(Index.text, {x.dtype() == DType::Bool ? b.to(x, DType::U8) : x, c["dim"], c["keepdim"]})};
}

Values aminmax(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return {over(b, "aten::amin.default", x, c), over(b, "aten::amax.default", x, c)};
}

// How many elements the dims hold.
Expr count_of(const Call& c, const Dims& dims) {
  Expr n = c.pool().integer(1);
  for (int64_t d : dims) n = n * c.size("self", d);
  return n;
}

V sum_as(Builder& b, V x, const Call& c, DType dtype) {
  return b.call1("aten::sum.dim_IntList", {x, reduced_dims(c), keepdim(c)}, {{"dtype", dtype}});
}

Values mean(Builder& b, const Call& c) {
  DType result = c.dtype("dtype").value_or(c.type("self").dtype);
  if (!is_float(result) && !is_complex(result))
    c.fail(fmt::format("mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
                       torch_name(result)));
  V x = b.to(b.input(c, "self"), result);
  return b.to(sum_as(b, x, c, compute_type(result)) / count_of(c, reduced_dims(c)), result);
}

V zero_nans(Builder& b, V x) {
  if (!is_float(x.dtype())) return x;
  return b.where(b.call1("aten::isnan.default", {x}), b.scalar(0, x.dtype()), x);
}

Values nansum(Builder& b, const Call& c) { return sum_as(b, zero_nans(b, b.input(c, "self")), c, sum_type(c)); }

Values nanmean(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (!is_float(x.dtype())) c.fail("needs a tensor of floats");
  DType result = c.dtype("dtype").value_or(x.dtype()), wide = compute_type(result);
  V known = b.call1("aten::logical_not.default", {b.call1("aten::isnan.default", {x})});
  V total = sum_as(b, zero_nans(b, b.to(x, wide)), c, wide);
  return b.to(total / b.to(sum_as(b, known, c, DType::I64), wide), result);
}

Values count_nonzero(Builder& b, const Call& c) { return sum_as(b, b.call1("aten::ne.Scalar", {c["self"], 0}), c, DType::I64); }

Values sum_to_size(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  std::vector<Expr> size = c.syms("size");
  if (size.size() > x.rank()) c.fail("the size has more dims than the tensor");
  if (size.empty()) return b.call("aten::sum.default", {x});
  Dims leading, ones;
  size_t extra = x.rank() - size.size();
  for (size_t d = 0; d < x.rank(); d++) {
    if (d < extra) leading.push_back(static_cast<int64_t>(d));
    else if (is_const_int(size[d - extra], 1) && !is_const_int(x.sizes()[d], 1)) ones.push_back(static_cast<int64_t>(d));
  }
  if (!ones.empty()) x = b.sum(x, ones, true);
  if (!leading.empty()) x = b.sum(x, leading, false);
  return x;
}

// n - correction, at least 0; `correction` counts as 1 where it is not given.
Expr degrees_of_freedom(const Call& c, Expr n) {
  Expr correction = c.pool().integer(1);
  if (c.def.signature.find("unbiased") >= 0) correction = c.pool().integer(c.flag("unbiased"));
  else if (c.has("correction")) correction = c.scalar("correction");
  if (correction->is_const() && correction->number() == std::floor(correction->number())) correction = cast(correction, DType::I64);
  if (!is_float(correction->type)) return max(n - correction, c.pool().integer(0));
  return max(cast(n, DType::F64) - correction, c.pool().number(0, DType::F64));
}

struct Moments {
  V var, mean; // in the dtype they are computed in
};

// By two passes: the mean, then the mean square of what is left.
Moments moments(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (!is_float(x.dtype())) c.fail("needs a tensor of floats");
  DType wide = compute_type(x.dtype());
  Dims dims = reduced_dims(c);
  Expr n = count_of(c, dims);
  x = b.to(x, wide);
  if (x.rank() == 0) return {(x - x) / b.scalar(Arg(degrees_of_freedom(c, n)), wide), x};
  V mean = b.sum(x, dims, true) / n, rest = x - mean;
  V var = b.sum(rest * rest, dims, keepdim(c)) / Arg(degrees_of_freedom(c, n));
  return {var, keepdim(c) ? mean : b.call1("aten::squeeze.dims", {mean, dims})};
}

template <bool Root, bool WithMean> Values spread(Builder& b, const Call& c) {
  Moments m = moments(b, c);
  DType result = c.type("self").dtype;
  V first = b.to(Root ? b.call1("aten::sqrt.default", {m.var}) : m.var, result);
  if constexpr (WithMean) return {first, b.to(m.mean, result)};
  return first;
}

std::vector<Type> trace_types(const Call& c) {
  if (c.rank("self") != 2) c.fail("needs a matrix");
  DType t = c.type("self").dtype;
  return {Type::tensor(is_float(t) || is_complex(t) ? t : DType::I64, {})};
}

Compute trace(const DefineArgs& d) {
  Expr i = d.reduce_axis(min(d.call.size("self", 0), d.call.size("self", 1)));
  Expr body = cast(d.load("self", {i, i}), compute_type(d.output.dtype));
  return {.axes = d.axes, .reduce_axes = {i}, .reduction = Reduction::Sum, .body = body};
}

const OpRow reduce_ops[] = {
    {.schema = "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .kind = Kind::Reduce,
     .infer = reduction_types<sum_type>,
     .define = reduction<Reduction::Sum>,
     .types = "-> reals|bool",
     .jvp = jvp_linear,
     .layout_follows = true,
     .vectorize = along_dims,
     .vjp = "self: grad.reshape(kept(self_size, dim)).to(self_dtype).expand(self_size)"},
    {.schema = "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
     .decompose = [](Builder& b, const Call& c) { return Values(sum_as(b, b.input(c, "self"), c, sum_type(c))); },
     .jvp = jvp_linear,
     .vjp = "self: grad.to(self_dtype).expand(self_size)"},
    {.schema = "aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .kind = Kind::Reduce,
     .infer = reduction_types<sum_type>,
     .define = reduction<Reduction::Prod>,
     .types = "-> reals|bool",
     .autocast = to_f32,
     .vectorize = along_dims,
     .vjp = "self: product_of_dim(grad, self, dim).to(self_dtype)"},
    {.schema = "aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
     .kind = Kind::Reduce,
     .infer = reduction_types<sum_type>,
     .define = reduction<Reduction::Prod>,
     .types = "-> reals|bool",
     .autocast = to_f32,
     .vjp = "self: (grad * others_product(self.reshape(-1), 0).reshape(self_size)).to(self_dtype)"},
    {.schema = "aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
     .kind = Kind::Reduce,
     .infer = types_of_extreme<same_type>,
     .define = reduction<Reduction::Max>,
     .dtypes = real_types | bool_type,
     .vectorize = along_dims,
     .vjp = "self: shared_extreme(grad, self, result, dim)"},
    // What softmax subtracts: of nothing the lowest value.
    {.schema = "tenon::amax_or_lowest(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
     .kind = Kind::Reduce,
     .infer = reduction_types<same_type>,
     .define = reduction<Reduction::Max>},
    {.schema = "aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
     .kind = Kind::Reduce,
     .infer = types_of_extreme<same_type>,
     .define = reduction<Reduction::Min>,
     .dtypes = real_types | bool_type,
     .vectorize = along_dims,
     .vjp = "self: shared_extreme(grad, self, result, dim)"},
    {.schema = "aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     .kind = Kind::Reduce,
     .infer = types_of_extreme<index_type>,
     .define = reduction<Reduction::ArgMax>,
     .dtypes = real_types,
     .types = "-> i64",
     .vectorize = along_dims,
     .vjp = "none"},
    {.schema = "aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     .kind = Kind::Reduce,
     .infer = types_of_extreme<index_type>,
     .define = reduction<Reduction::ArgMin>,
     .dtypes = real_types,
     .types = "-> i64",
     .vectorize = along_dims,
     .vjp = "none"},
    {.schema = "aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     .kind = Kind::Reduce,
     .infer = truth_types,
     .define = reduction<Reduction::Any>,
     .decompose = truth_over_dims,
     .types = "-> truth",
     .vectorize = along_dims,
     .vjp = "none"},
    {.schema = "aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     .kind = Kind::Reduce,
     .infer = truth_types,
     .define = reduction<Reduction::All>,
     .decompose = truth_over_dims,
     .types = "-> truth",
     .vectorize = along_dims,
     .vjp = "none"},
    {.schema = "aten::trace(Tensor self) -> Tensor",
     .kind = Kind::Reduce,
     .infer = trace_types,
     .define = trace,
     .dtypes = real_types,
     .types = "-> sum",
     .autocast = to_f32,
     .vjp = "self: torch.trace_backward(grad, self_size)"},

    {.schema = "aten::any(Tensor self) -> Tensor",
     .kind = Kind::Reduce,
     .infer = reduction_types<truth_type>,
     .define = reduction<Reduction::Any>,
     .types = "-> truth",
     .vjp = "none"},
    {.schema = "aten::all(Tensor self) -> Tensor",
     .kind = Kind::Reduce,
     .infer = reduction_types<truth_type>,
     .define = reduction<Reduction::All>,
     .types = "-> truth",
     .vjp = "none"},
    {.schema = "aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
     .kind = Kind::Reduce,
     .infer = reduction_types<truth_type>,
     .define = reduction<Reduction::Any>,
     .types = "-> truth",
     .vjp = "none"},
    {.schema = "aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
     .kind = Kind::Reduce,
     .infer = reduction_types<truth_type>,
     .define = reduction<Reduction::All>,
     .types = "-> truth",
     .vjp = "none"},
    {.schema = "aten::_is_any_true(Tensor self) -> Tensor", .decompose = same<"aten::any.default">, .vjp = "none"},
    {.schema = "aten::_is_all_true(Tensor self) -> Tensor", .decompose = same<"aten::all.default">, .vjp = "none"},
    {.schema = "aten::max(Tensor self) -> Tensor",
     .decompose = all_dims<"aten::amax.default">,
     .vjp = "self: shared_extreme(grad, self, result, None)"},
    {.schema = "aten::min(Tensor self) -> Tensor",
     .decompose = all_dims<"aten::amin.default">,
     .vjp = "self: shared_extreme(grad, self, result, None)"},
    {.schema = "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .decompose = with_index<"aten::amax.default", "aten::argmax.default">,
     .vjp = "self: picked(grad, self_size, result1, dim, keepdim)"},
    {.schema = "aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .decompose = with_index<"aten::amin.default", "aten::argmin.default">,
     .vjp = "self: picked(grad, self_size, result1, dim, keepdim)"},
    {.schema = "aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
     .decompose = aminmax,
     .vjp = "self: shared_extremes(grad, grad1, self, result0, result1, dim)"},
    {.schema = "aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
     .decompose = mean,
     .jvp = jvp_linear,
     .vjp = "self: (grad / elements(self_size)).to(self_dtype).expand(self_size)"},
    {.schema = "aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .decompose = mean,
     .jvp = jvp_linear,
     .vectorize = along_dims,
     .vjp = "self: (grad.reshape(kept(self_size, dim)) * (elements(result_size) / elements(self_size))).to(self_dtype).expand(self_size)"},
    {.schema = "aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .decompose = nansum,
     .vjp = "self: grad.reshape(kept(self_size, dim)) * ~self.isnan()"},
    {.schema = "aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     .decompose = nanmean,
     .vjp = "self: grad.reshape(kept(self_size, dim)) * ~self.isnan() / (~self.isnan()).sum(dim, True)"},
    {.schema = "aten::count_nonzero(Tensor self, int? dim=None) -> Tensor", .decompose = count_nonzero, .vjp = "none"},
    {.schema = "aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", .decompose = count_nonzero, .vjp = "none"},
    {.schema = "aten::sum_to_size(Tensor self, SymInt[] size) -> Tensor", .decompose = sum_to_size, .vjp = "self: grad.expand(self_size)"},
    {.schema = "aten::var(Tensor self, bool unbiased=True) -> Tensor",
     .decompose = spread<false, false>,
     .vjp = "self: of_variance(grad, self, None, int(unbiased))"},
    {.schema = "aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
     .decompose = spread<false, false>,
     .vjp = "self: of_variance(grad, self, dim, int(unbiased))"},
    {.schema = "aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
     .decompose = spread<false, false>,
     .vjp = "self: of_variance(grad, self, dim, correction)"},
    {.schema = "aten::std(Tensor self, bool unbiased=True) -> Tensor",
     .decompose = spread<true, false>,
     .vjp = "self: of_variance(of_root(grad, result), self, None, int(unbiased))"},
    {.schema = "aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
     .decompose = spread<true, false>,
     .vjp = "self: of_variance(of_root(grad, result), self, dim, int(unbiased))"},
    {.schema = "aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
     .decompose = spread<true, false>,
     .vjp = "self: of_variance(of_root(grad, result), self, dim, correction)"},
    {.schema = "aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
     .decompose = spread<false, true>,
     .vjp = "self: of_variance(grad, self, None, int(unbiased)) + of_mean(grad1, self_size, None)"},
    {.schema = "aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
     .decompose = spread<false, true>,
     .vjp = "self: of_variance(grad, self, dim, int(unbiased)) + of_mean(grad1, self_size, dim)"},
    {.schema =
         "aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
     .decompose = spread<false, true>,
     .vjp = "self: of_variance(grad, self, dim, correction) + of_mean(grad1, self_size, dim)"},
    {.schema = "aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)",
     .decompose = spread<true, true>,
     .vjp = "self: of_variance(of_root(grad, result0), self, None, int(unbiased)) + of_mean(grad1, self_size, None)"},
    {.schema = "aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
     .decompose = spread<true, true>,
     .vjp = "self: of_variance(of_root(grad, result0), self, dim, int(unbiased)) + of_mean(grad1, self_size, dim)"},
    {.schema =
         "aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
     .decompose = spread<true, true>,
     .vjp = "self: of_variance(of_root(grad, result0), self, dim, correction) + of_mean(grad1, self_size, dim)"},
};

} // namespace

std::span<const OpRow> reduce_rows() { return reduce_ops; }

} // namespace tenon::ops
