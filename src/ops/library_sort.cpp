// Rows of what sorts, selects by rank, scans or finds unique elements.
#include "ops/autocast.h"
#include "ops/jvp.h"
#include "ops/library.h"
#include "ops/table.h"
#include "ops/vectorize.h"

namespace tenon::ops {

namespace {

std::vector<Type> values_and_positions(const Call& c, const std::vector<Expr>& sizes) {
  return {Type::tensor(c.type("self").dtype, sizes), Type::tensor(DType::I64, sizes)};
}
std::vector<Type> full_pair(const Call& c) { return values_and_positions(c, c.type("self").sizes); }
std::vector<Type> reduced_pair(const Call& c) {
  return values_and_positions(c, without(c, c.type("self").sizes, self_dim(c), c.flag("keepdim")));
}
/// A step over self along dim, without other parameters.
template <LibraryFn F> LibraryStep along_dim(const Call& c) { return {F, {c.value("self")}, integers(c, {self_dim(c)})}; }
template <LibraryFn F, int64_t P> LibraryStep along_dim_with(const Call& c) {
  return {F, {c.value("self")}, integers(c, {self_dim(c), P})};
}

std::vector<Type> topk_types(const Call& c) {
  std::vector<Expr> sizes = c.type("self").sizes;
  if (!sizes.empty()) sizes[static_cast<size_t>(self_dim(c))] = c.sym("k");
  return values_and_positions(c, sizes);
}
LibraryStep topk_step(const Call& c) {
  return {
      library::topk, {c.value("self")}, {integer(c, self_dim(c)), c.sym("k"), integer(c, c.flag("largest")), integer(c, c.flag("sorted"))}};
}
LibraryStep kthvalue_step(const Call& c) { return {library::kthvalue, {c.value("self")}, {integer(c, self_dim(c)), c.sym("k")}}; }

std::vector<Type> float_like_self(const Call& c) {
  if (!is_float(c.type("self").dtype)) c.fail("not defined for " + std::string(name_of(c.type("self").dtype)));
  return like_self(c);
}

template <Name N> Values median_of_all(Builder& b, const Call& c) { return b.call(N.text, {flatten(b, b.input(c, "self")), 0})[0]; }

// Scans compute in the output's dtype: integers in i64 unless another one is asked for.
DType scan_type(const Call& c) {
  DType t = c.type("self").dtype;
  return c.dtype("dtype").value_or(is_float(t) || is_complex(t) ? t : DType::I64);
}
template <Name N> Values scan_cast(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.dtype() == scan_type(c)) return {};
  return b.call(N.text, {b.to(x, scan_type(c)), c["dim"]}, {{"dtype", scan_type(c)}});
}
std::vector<Type> scan_types(const Call& c) {
  self_dim(c);
  return {typed(c, "self", scan_type(c))};
}

// Output, inverse, counts. Without a dim what is not wanted is empty; along a dim torch always gives both.
std::vector<Type> unique_types(const Call& c, std::optional<int64_t> dim) {
  Expr n = fresh_size(c), none = integer(c, 0);
  std::vector<Expr> sizes = c.type("self").sizes, inverse = sizes;
  bool want_inverse = dim || c.flag("return_inverse"),
       want_counts = dim || (c.def.signature.find("return_counts") >= 0 && c.flag("return_counts"));
  if (!dim) sizes = {n};
  else if (!sizes.empty()) inverse = {sizes[static_cast<size_t>(*dim)]}, sizes[static_cast<size_t>(*dim)] = n;
  else inverse = {integer(c, 1)};
  if (!want_inverse) inverse = {none};
  std::vector<Type> out{Type::tensor(c.type("self").dtype, sizes), Type::tensor(DType::I64, inverse)};
  if (c.def.signature.returns.size() > 2) out.push_back(Type::tensor(DType::I64, {want_counts ? n : none}));
  return out;
}
LibraryStep unique_step(const Call& c, std::optional<int64_t> dim, bool consecutive) {
  bool counts = c.def.signature.find("return_counts") >= 0 && c.flag("return_counts");
  if (dim) return {library::unique_dim, {c.value("self")}, integers(c, {consecutive, 1, 1, *dim})};
  return {library::unique, {c.value("self")}, integers(c, {consecutive, c.flag("return_inverse"), counts})};
}
std::optional<int64_t> optional_dim(const Call& c) {
  if (!c.has("dim")) return std::nullopt;
  return self_dim(c);
}

// The value at rank q * (n - 1) of the sorted elements, between two neighbours by `interpolation`.
V quantile_ranks(Builder& b, V sorted, V q, bool ignore_nan) {
  V nan = b.call1("aten::isnan.default", {sorted}), rank;
  if (ignore_nan) {
    V count = b.sum(b.to(b.call1("aten::logical_not.default", {nan}), DType::I64), {-1}, true);
    rank = q * (b.to(count, q.dtype()) - 1);
    return b.call1("aten::clamp_min.default", {rank, 0});
  }
  V last = b.scalar(Arg(sorted.size(-1) + -1.0), q.dtype());
  return b.where(b.call1("aten::any.dim", {nan, -1, true}), last, q * last);
}
V interpolate(Builder& b, V sorted, V rank, const std::string& how) {
  if (how == "lower") rank = b.call1("aten::floor.default", {rank});
  else if (how == "higher") rank = b.call1("aten::ceil.default", {rank});
  else if (how == "nearest") rank = b.call1("aten::round.default", {rank});
  V at = b.call1("aten::floor.default", {rank});
  V below = b.call1("aten::gather.default", {sorted, -1, b.to(at, DType::I64)});
  if (how != "linear" && how != "midpoint") return below;
  V above = b.call1("aten::gather.default", {sorted, -1, b.to(b.call1("aten::ceil.default", {rank}), DType::I64)});
  V weight = how == "midpoint" ? b.full(rank.sizes(), 0.5, rank.dtype()) : rank - at;
  return b.call1("aten::lerp.Tensor", {below, above, weight});
}
Values quantile_of(Builder& b, const Call& c, V q, bool ignore_nan) {
  V x = b.input(c, "self");
  bool keepdim = c.flag("keepdim"), one = q.rank() == 0;
  size_t rank = x.rank();
  int64_t dim = c.has("dim") ? self_dim(c) : 0;
  V lanes = c.has("dim") && rank > 0 ? b.transpose(b.unsqueeze(x, -1), dim, -1) : flatten(b, x);
  V sorted = b.call("aten::sort.stable", {lanes, true, -1})[0]; // stable, as only the values count: quicker
  V expanded = b.reshape(q, {one ? b.integer(1) : q.size(0)});
  std::vector<Expr> lead(lanes.sizes().begin(), lanes.sizes().end() - 1);
  std::vector<Expr> sizes = lead;
  sizes.push_back(expanded.size(0));
  V out = interpolate(b, sorted, b.expand(quantile_ranks(b, sorted, expanded, ignore_nan), sizes), c.text("interpolation"));
  std::vector<int64_t> order{static_cast<int64_t>(lead.size())};
  for (size_t d = 0; d < lead.size(); d++) order.push_back(static_cast<int64_t>(d));
  out = b.permute(out, order);
  std::vector<Expr> final;
  if (!one) final.push_back(q.size(0));
  if (keepdim && !c.has("dim")) final.insert(final.end(), rank, b.integer(1));
  else
    for (size_t d = 0; d < lead.size(); d++)
      if (keepdim || static_cast<int64_t>(d) != dim) final.push_back(lead[d]);
  return b.reshape(out, final);
}
template <bool IgnoreNan> Values quantile(Builder& b, const Call& c) { return quantile_of(b, c, b.input(c, "q"), IgnoreNan); }
template <bool IgnoreNan> Values quantile_scalar(Builder& b, const Call& c) {
  return quantile_of(b, c, b.scalar(c["q"], c.type("self").dtype), IgnoreNan);
}

const OpRow library_sort_ops[] = {
    {.schema = "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
     .decompose = [](Builder& b, const Call& c) { return b.call("aten::sort.stable", {c["self"], false, c["dim"], c["descending"]}); },
     .vjp = "self: picked(grad, self_size, result1, dim, True)"},
    {.schema = "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
     .kind = Kind::Library,
     .infer = full_pair,
     .library =
         [](const Call& c) {
           return LibraryStep{library::sort, {c.value("self")}, integers(c, {self_dim(c), c.flag("descending"), c.flag("stable")})};
         },
     .dtypes = number_types,
     .types = "-> same i64",
     .vectorize = along_dims,
     .vjp = "self: picked(grad, self_size, result1, dim, True)"},
    {.schema = "aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
     .decompose = [](Builder& b, const Call& c) -> Values {
       return b.call("aten::sort.stable", {c["self"], false, c["dim"], c["descending"]})[1];
     },
     .vjp = "none"},
    {.schema = "aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
     .decompose = [](Builder& b, const Call& c) -> Values {
       return b.call("aten::sort.stable", {c["self"], c["stable"], c["dim"], c["descending"]})[1];
     },
     .vjp = "none"},
    {.schema = "aten::msort(Tensor self) -> Tensor",
     .decompose = [](Builder& b, const Call& c) -> Values { return b.call("aten::sort.stable", {c["self"], true, 0})[0]; },
     .vjp = "result: torch.sort(self, 0)[0]"},
    {.schema = "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
     .kind = Kind::Library,
     .infer = topk_types,
     .library = topk_step,
     .dtypes = real_types,
     .types = "-> same i64",
     .vectorize = along_dims,
     .vjp = "self: picked(grad, self_size, result1, dim, True)"},
    {.schema = "aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .kind = Kind::Library,
     .infer = reduced_pair,
     .library = kthvalue_step,
     .dtypes = real_types,
     .types = "-> same i64",
     .vjp = "self: picked(grad, self_size, result1, dim, keepdim)"},
    {.schema = "aten::median(Tensor self) -> Tensor",
     .decompose = median_of_all<"aten::median.dim">,
     .vjp = "self: shared_extreme(grad, self, result, None)"},
    {.schema = "aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .kind = Kind::Library,
     .infer = reduced_pair,
     .library = along_dim_with<library::median, 0>,
     .dtypes = real_types,
     .types = "-> same i64",
     .vjp = "self: picked(grad, self_size, result1, dim, keepdim)"},
    {.schema = "aten::nanmedian(Tensor self) -> Tensor",
     .decompose = median_of_all<"aten::nanmedian.dim">,
     .vjp = "self: shared_extreme(grad, self, result, None)"},
    {.schema = "aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .kind = Kind::Library,
     .infer = reduced_pair,
     .library = along_dim_with<library::median, 1>,
     .dtypes = real_types,
     .types = "-> same i64",
     .vjp = "self: picked(grad, self_size, result1, dim, keepdim)"},
    {.schema = "aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .kind = Kind::Library,
     .infer = reduced_pair,
     .library = along_dim<library::mode>,
     .dtypes = real_types | bool_type,
     .types = "-> same i64",
     .vjp = "self: picked(grad, self_size, result1, dim, keepdim)"},
    {.schema = "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     .kind = Kind::Library,
     .infer = scan_types,
     .decompose = scan_cast<"aten::cumsum.default">,
     .library = along_dim_with<library::cumulate, 0>,
     .dtypes = any_type | complex_types,
     .types = "-> reals|complex",
     .jvp = jvp_linear,
     .vectorize = along_dims,
     .vjp = "self: reversed_cumsum(grad, dim).to(self_dtype)"},
    {.schema = "aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
     .kind = Kind::Library,
     .infer = scan_types,
     .decompose = scan_cast<"aten::cumprod.default">,
     .library = along_dim_with<library::cumulate, 1>,
     .dtypes = any_type | complex_types,
     .types = "-> reals|complex",
     .vjp = "self: cumulative_product(grad, self, result, dim).to(self_dtype)"},
    {.schema = "aten::logcumsumexp(Tensor self, int dim) -> Tensor",
     .kind = Kind::Library,
     .infer = float_like_self,
     .library = along_dim<library::logcumsumexp>,
     .dtypes = float_types | complex_types,
     .vjp = "self: reversed_cumsum(grad * (-result).exp(), dim) * self.exp()"},
    {.schema = "aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
     .kind = Kind::Library,
     .infer = full_pair,
     .library = along_dim<library::cummax>,
     .dtypes = real_types | bool_type,
     .types = "-> same i64",
     .vjp = "self: torch.cummaxmin_backward(grad, self, result1, dim)"},
    {.schema = "aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
     .kind = Kind::Library,
     .infer = full_pair,
     .library = along_dim<library::cummin>,
     .dtypes = real_types | bool_type,
     .types = "-> same i64",
     .vjp = "self: torch.cummaxmin_backward(grad, self, result1, dim)"},
    {.schema = "aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return unique_types(c, {}); },
     .library = [](const Call& c) { return unique_step(c, {}, false); },
     .dtypes = number_types,
     .types = "-> same i64",
     .data_dependent = true},
    {.schema =
         "aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return unique_types(c, {}); },
     .library = [](const Call& c) { return unique_step(c, {}, false); },
     .dtypes = number_types,
     .types = "-> same i64 i64",
     .data_dependent = true},
    {.schema = "aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, "
               "Tensor, Tensor)",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return unique_types(c, optional_dim(c)); },
     .library = [](const Call& c) { return unique_step(c, optional_dim(c), true); },
     .dtypes = number_types,
     .types = "-> same i64 i64",
     .data_dependent = true},
    {.schema = "aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
               "Tensor, Tensor)",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return unique_types(c, self_dim(c)); },
     .library = [](const Call& c) { return unique_step(c, self_dim(c), false); },
     .dtypes = number_types,
     .types = "-> same i64 i64",
     .data_dependent = true},
    {.schema = "aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
               "Tensor, Tensor)",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return unique_types(c, self_dim(c)); },
     .library = [](const Call& c) { return unique_step(c, self_dim(c), true); },
     .dtypes = number_types,
     .types = "-> same i64 i64",
     .data_dependent = true},
    {.schema = "aten::quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
     .decompose = quantile<false>,
     .autocast = to_f32,
     .vjp = "result: quantile_of(self, q, dim, keepdim, interpolation)"},
    {.schema = "aten::quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
     .decompose = quantile_scalar<false>,
     .autocast = to_f32,
     .vjp = "result: quantile_of(self, torch.full(nowhere(), q, dtype=self.dtype), dim, keepdim, interpolation)"},
    {.schema = "aten::nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
     .decompose = quantile<true>,
     .autocast = to_f32},
    {.schema = "aten::nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
     .decompose = quantile_scalar<true>,
     .autocast = to_f32},
};

} // namespace

std::span<const OpRow> library_sort_rows() { return library_sort_ops; }

} // namespace tenon::ops
