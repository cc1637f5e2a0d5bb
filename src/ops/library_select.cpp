// Rows of what picks, searches and counts by value.
#include <algorithm>

#include "ops/library.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

LibraryStep nonzero_step(const Call& c) { return {library::nonzero, {c.value("self")}}; }
std::vector<Type> nonzero_types(const Call& c) {
  return {Type::tensor(DType::I64, {fresh_size(c), integer(c, static_cast<int64_t>(c.rank("self")))})};
}
// One index vector per dim.
Values nonzero_columns(Builder& b, V x) {
  if (x.rank() == 0) x = b.unsqueeze(x, 0);
  V places = b.call1("aten::nonzero.default", {x});
  Values out;
  for (size_t d = 0; d < x.rank(); d++) out.push_back(b.select(places, 1, b.integer(static_cast<int64_t>(d))));
  return out;
}

std::vector<Type> masked_select_types(const Call& c) {
  DType mask = c.type("mask").dtype;
  if (mask != DType::Bool && mask != DType::U8) c.fail(fmt::format("a mask of {}", name_of(mask)));
  return {Type::tensor(c.type("self").dtype, {fresh_size(c)})};
}

std::vector<Type> repeat_interleave_types(const Call& c) {
  DType t = c.type("repeats").dtype;
  if ((t != DType::I32 && t != DType::I64) || c.rank("repeats") != 1) c.fail("repeats is no list of i32 or i64");
  return {Type::tensor(c.type("repeats").dtype, {c.has("output_size") ? c.sym("output_size") : fresh_size(c)})};
}
LibraryStep repeat_step(const Call& c) {
  return {library::repeat_interleave, {c.value("repeats")}, {c.has("output_size") ? c.sym("output_size") : integer(c, -1)}};
}
// Each slice along dim `count` times: a new dim beside it, merged.
V repeat_each(Builder& b, V x, int64_t dim, Expr count) {
  if (x.rank() == 0) x = b.unsqueeze(x, 0);
  std::vector<Expr> wide = x.sizes(), merged = x.sizes();
  wide.insert(wide.begin() + dim + 1, count);
  merged[static_cast<size_t>(dim)] = merged[static_cast<size_t>(dim)] * count;
  return b.reshape(b.expand(b.unsqueeze(x, dim + 1), wide), merged);
}
Values repeat_by_int(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (!c.has("dim")) return repeat_each(b, flatten(b, x), 0, c.sym("repeats"));
  return repeat_each(b, x, self_dim(c), c.sym("repeats"));
}
Values repeat_by_tensor(Builder& b, const Call& c) {
  V x = b.input(c, "self"), repeats = b.input(c, "repeats");
  int64_t dim = c.has("dim") ? self_dim(c) : 0;
  if (!c.has("dim") || x.rank() == 0) x = flatten(b, x);
  if (is_single(repeats.type())) repeats = b.expand(b.reshape(repeats, {b.integer(1)}), {x.size(dim)});
  V index = b.call1("aten::repeat_interleave.Tensor", {repeats}, {{"output_size", c["output_size"]}});
  return b.call("aten::index_select.default", {x, dim, index});
}

std::vector<Type> searchsorted_types(const Call& c) {
  size_t rank = c.rank("sorted_sequence");
  if (rank > 1 && c.rank("self") != rank) c.fail(fmt::format("rows of sequences of rank {} for values of rank {}", rank, c.rank("self")));
  if (c.has("sorter") && c.type("sorter").dtype != DType::I64) c.fail(fmt::format("a sorter of {}", name_of(c.type("sorter").dtype)));
  return {typed(c, "self", c.flag("out_int32") ? DType::I32 : DType::I64)};
}
// Sequence and values in one dtype.
Values searchsorted_cast(Builder& b, const Call& c) {
  V sequence = b.input(c, "sorted_sequence"), values = b.input(c, "self");
  DType common = promote(sequence.dtype(), values.dtype());
  if (sequence.dtype() == values.dtype()) return {};
  ArgList args = c.args;
  args[0] = b.to(sequence, common), args[1] = b.to(values, common);
  return b.call_full(c.def, args);
}
LibraryStep searchsorted_step(const Call& c) {
  std::string side = c.text("side");
  LibraryStep step{library::searchsorted,
                   {c.value("sorted_sequence"), c.value("self")},
                   integers(c, {side.empty() ? c.flag("right") : side == "right"})};
  if (c.has("sorter")) step.inputs.push_back(c.value("sorter"));
  return step;
}
Values searchsorted_scalar(Builder& b, const Call& c) {
  V value = scalar_with(b, c, "self", c.type("sorted_sequence").dtype);
  return b.call("aten::searchsorted.Tensor", {c["sorted_sequence"], value},
                {{"out_int32", c["out_int32"]}, {"right", c["right"]}, {"side", c["side"]}, {"sorter", c["sorter"]}});
}
Values bucketize(Builder& b, const Call& c) {
  V value = c["self"].is<ValueId>() ? b.input(c, "self") : scalar_with(b, c, "self", c.type("boundaries").dtype);
  return b.call("aten::searchsorted.Tensor", {c["boundaries"], value}, {{"out_int32", c["out_int32"]}, {"right", c["right"]}});
}

std::vector<Type> hash_types(const Call& c) {
  std::vector<int64_t> dims = c.dims("dim", c.rank("self"));
  std::vector<Expr> sizes;
  for (size_t d = 0; d < c.rank("self"); d++) {
    bool reduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (!reduced) sizes.push_back(c.type("self").sizes[d]);
    else if (c.flag("keepdim")) sizes.push_back(integer(c, 1));
  }
  return {Type::tensor(DType::U64, sizes)};
}
LibraryStep hash_step(const Call& c) {
  if (c.integer("mode") != 0) unsupported("aten::hash_tensor of mode {}", c.integer("mode"));
  std::vector<int64_t> dims = c.dims("dim", c.rank("self"));
  LibraryStep step{library::hash_tensor, {c.value("self")}};
  for (size_t d = 0; d < c.rank("self"); d++)
    step.ints.push_back(integer(c, std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end()));
  return step;
}

Values isin_cast(Builder& b, const Call& c) {
  V elements = b.input(c, "elements"), tests = b.input(c, "test_elements");
  if (elements.dtype() == tests.dtype()) return {};
  DType common = promote(elements.dtype(), tests.dtype());
  return b.call("aten::isin.Tensor_Tensor", {b.to(elements, common), b.to(tests, common)}, {{"invert", c["invert"]}});
}

std::vector<Type> bincount_types(const Call& c) {
  DType t = !c.has("weights") ? DType::I64 : c.type("weights").dtype == DType::F32 ? DType::F32 : DType::F64;
  return {Type::tensor(t, {fresh_size(c)})};
}
LibraryStep bincount_step(const Call& c) {
  LibraryStep step{library::bincount, {c.value("self")}, {c.sym("minlength")}};
  if (c.has("weights")) step.inputs.push_back(c.value("weights"));
  return step;
}

// Histogram over `bins` equal bins per dim, and their edges.
std::vector<Type> histogram_types(const Call& c, const std::vector<int64_t>& bins) {
  DType t = c.type("self").dtype;
  std::vector<Expr> sizes;
  for (int64_t n : bins) sizes.push_back(integer(c, n));
  std::vector<Type> out{Type::tensor(t, sizes)};
  for (int64_t n : bins) out.push_back(Type::tensor(t, {integer(c, n + 1)}));
  return out;
}
LibraryStep histogram_step(const Call& c, const std::vector<int64_t>& bins) {
  LibraryStep step{library::histogram_counts, {c.value("self")}, integers(c, {std::ssize(bins)}), numbers_of(c, "range")};
  for (int64_t n : bins) step.ints.push_back(integer(c, n));
  for (bool flag : {c.has("weight"), c.flag("density"), c.has("range")}) step.ints.push_back(integer(c, flag));
  if (c.has("weight")) step.inputs.push_back(c.value("weight"));
  return step;
}
// One number of bins stands for every dim.
std::vector<int64_t> bins_of(const Call& c) {
  std::vector<int64_t> bins = c.integers("bins");
  auto dims = const_int(c.size("self", -1));
  if (!dims) unsupported("{}: the number of dims must be known at compile time", c.def.signature.name);
  if (bins.size() == 1) bins.assign(static_cast<size_t>(*dims), bins[0]);
  if (std::ssize(bins) != *dims) c.fail(fmt::format("{} numbers of bins for points of {} dims", bins.size(), *dims));
  return bins;
}
LibraryStep histogram_edges_step(const Call& c) {
  LibraryStep step{library::histogram_edges, {c.value("self")}, integers(c, {c.has("weight"), c.flag("density")})};
  for (ValueId v : c.values("bins")) step.inputs.push_back(v);
  if (c.has("weight")) step.inputs.push_back(c.value("weight"));
  return step;
}
std::vector<Type> histogram_edges_types(const Call& c) {
  std::vector<Expr> sizes;
  for (ValueId v : c.values("bins"))
    if (c.graph.type(v).rank() != 1) c.fail("edges of bins have one dim");
  for (ValueId v : c.values("bins")) sizes.push_back(c.graph.type(v).sizes[0] - 1.0);
  return {Type::tensor(c.type("self").dtype, sizes)};
}
Values histogram_at_edges(Builder& b, const Call& c) {
  Values out;
  for (ValueId v : c.values("bins")) out.push_back(b.wrap(v));
  for (V edges : out)
    if (edges.rank() != 1) c.fail("edges of bins have one dim");
  V self = b.input(c, "self");
  if (c.def.signature.name == "aten::histogram.bins_tensor") self = b.unsqueeze(flatten(b, self), 1);
  V histogram = b.call1("aten::_histogramdd_from_bin_tensors.default", {self, ArgList(out.begin(), out.end())},
                        {{"weight", c["weight"]}, {"density", c["density"]}});
  out.insert(out.begin(), histogram);
  return out;
}

// Rows of r elements at increasing positions: the positions are where a mask over [n, n, ...] holds.
Values combinations(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t r = c.integer("r");
  bool repeated = c.flag("with_replacement");
  Expr n = x.size(0), count = b.integer(1);
  if (r < 1) return b.full({b.integer(0)}, 0, x.dtype());
  if (r == 1) return b.unsqueeze(x, 1);
  int64_t factorial = 1;
  for (int64_t i = 0; i < r; i++)
    count = count * (repeated ? n + static_cast<double>(i) : max(n - static_cast<double>(i), b.integer(0))), factorial *= i + 1;
  count = floor_div(count, b.integer(factorial));
  V position = b.arange(n, DType::I64), mask, before;
  for (int64_t i = 0; i < r; i++) {
    std::vector<Expr> sizes(static_cast<size_t>(r), b.integer(1));
    sizes[static_cast<size_t>(i)] = n;
    V here = b.reshape(position, sizes);
    if (i > 0) {
      V ordered = b.call1(repeated ? "aten::le.Tensor" : "aten::lt.Tensor", {before, here});
      mask = i == 1 ? ordered : b.call1("aten::logical_and.default", {mask, ordered});
    }
    before = here;
  }
  V places = b.call1("aten::nonzero_static.default", {b.expand(mask, std::vector<Expr>(static_cast<size_t>(r), n))}, {{"size", count}});
  return b.reshape(b.call1("aten::index_select.default", {x, 0, flatten(b, places)}), {count, b.integer(r)});
}

const OpRow library_select_ops[] = {
    {.schema = "aten::hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
     .kind = Kind::Library,
     .infer = hash_types,
     .library = hash_step,
     .dtypes = real_types | bool_type,
     .types = "-> u64"},
    {.schema = "aten::nonzero(Tensor self) -> Tensor",
     .kind = Kind::Library,
     .infer = nonzero_types,
     .library = nonzero_step,
     .dtypes = real_types | complex_types | bool_type,
     .types = "-> i64",
     .data_dependent = true,
     .vjp = "none"},
    {.schema = "aten::argwhere(Tensor self) -> Tensor",
     .kind = Kind::Library,
     .infer = nonzero_types,
     .library = nonzero_step,
     .dtypes = real_types | complex_types | bool_type,
     .types = "-> i64",
     .data_dependent = true,
     .vjp = "none"},
    {.schema = "aten::nonzero_numpy(Tensor self) -> Tensor[]",
     .decompose = [](Builder& b, const Call& c) { return nonzero_columns(b, b.input(c, "self")); },
     .vjp = "none"},
    {.schema = "aten::where(Tensor condition) -> Tensor[]",
     .decompose = [](Builder& b, const Call& c) { return nonzero_columns(b, b.input(c, "condition")); },
     .vjp = "none"},
    {.schema = "aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
     .kind = Kind::Library,
     .infer =
         [](const Call& c) {
           return std::vector{Type::tensor(DType::I64, {c.sym("size"), integer(c, static_cast<int64_t>(c.rank("self")))})};
         },
     .library = [](const Call& c) { return LibraryStep{library::nonzero_static, {c.value("self")}, {c.sym("fill_value")}}; },
     .dtypes = any_type | complex_types,
     .types = "-> i64",
     .vjp = "none"},
    {.schema = "aten::masked_select(Tensor self, Tensor mask) -> Tensor",
     .kind = Kind::Library,
     .infer = masked_select_types,
     .library = [](const Call& c) { return LibraryStep{library::masked_select, {c.value("self"), c.value("mask")}}; },
     .dtypes = real_types | complex_types | float8_types | bool_type,
     .types = "mask=bool",
     .data_dependent = true,
     .vjp = "self: torch.masked_select_backward(grad, self, mask)"},
    {.schema = "aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
     .kind = Kind::Library,
     .infer = repeat_interleave_types,
     .library = repeat_step,
     .dtypes = int_types,
     .data_dependent = true},
    {.schema = "aten::repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
     .decompose = repeat_by_tensor,
     .vjp = "self: of_interleaved_by(grad, self_size, repeats, dim)"},
    {.schema = "aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
     .decompose = repeat_by_int,
     .vjp = "self: of_interleaved(grad, self_size, repeats, dim)"},
    {.schema = "aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, "
               "Tensor? sorter=None) -> Tensor",
     .kind = Kind::Library,
     .infer = searchsorted_types,
     .decompose = searchsorted_cast,
     .library = searchsorted_step,
     .dtypes = real_types,
     .types = "sorter=i64 -> i32|i64",
     .vjp = "none"},
    {.schema = "aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, "
               "Tensor? sorter=None) -> Tensor",
     .decompose = searchsorted_scalar,
     .vjp = "none"},
    {.schema = "aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
     .decompose = bucketize,
     .vjp = "none"},
    {.schema = "aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
     .decompose = bucketize,
     .vjp = "none"},
    {.schema = "aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return std::vector{typed(c, "elements", DType::Bool)}; },
     .decompose = isin_cast,
     .library =
         [](const Call& c) {
           return LibraryStep{library::isin, {c.value("elements"), c.value("test_elements")}, integers(c, {c.flag("invert")})};
         },
     .dtypes = real_types,
     .types = "-> bool",
     .vjp = "none"},
    {.schema = "aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor",
     .decompose =
         [](Builder& b, const Call& c) {
           return b.call("aten::isin.Tensor_Tensor", {c["elements"], scalar_with(b, c, "test_element", c.type("elements").dtype)},
                         {{"invert", c["invert"]}});
         },
     .vjp = "none"},
    {.schema = "aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
     .decompose =
         [](Builder& b, const Call& c) {
           return b.call("aten::isin.Tensor_Tensor", {scalar_with(b, c, "element", c.type("test_elements").dtype), c["test_elements"]},
                         {{"invert", c["invert"]}});
         },
     .vjp = "none"},
    {.schema = "aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
     .kind = Kind::Library,
     .infer = bincount_types,
     .library = bincount_step,
     .dtypes = int_types,
     .types = "weights=none -> i64 ; weights=f32 -> f32 ; weights=ints|bool|u64|reduced|f64 -> f64",
     .data_dependent = true,
     .vjp = "none"},
    {.schema = "aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return std::vector{Type::tensor(c.type("self").dtype, {c.sym("bins")})}; },
     .library =
         [](const Call& c) { return LibraryStep{library::histc, {c.value("self")}, {c.sym("bins")}, {c.number("min"), c.number("max")}}; },
     .dtypes = float_types,
     .vjp = "none"},
    {.schema = "aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> "
               "(Tensor hist, Tensor bin_edges)",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return histogram_types(c, {c.integer("bins")}); },
     .library = [](const Call& c) { return histogram_step(c, {c.integer("bins")}); },
     .dtypes = full_floats},
    {.schema = "aten::histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor "
               "bin_edges)",
     .decompose = histogram_at_edges},
    {.schema = "aten::histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, "
               "Tensor[] bin_edges)",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return histogram_types(c, bins_of(c)); },
     .library = [](const Call& c) { return histogram_step(c, bins_of(c)); },
     .dtypes = full_floats},
    {.schema = "aten::histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor "
               "hist, Tensor[] bin_edges)",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return histogram_types(c, bins_of(c)); },
     .library = [](const Call& c) { return histogram_step(c, bins_of(c)); },
     .dtypes = full_floats},
    {.schema = "aten::histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, Tensor? weight=None, bool "
               "density=False) -> (Tensor hist, Tensor[] bin_edges)",
     .decompose = histogram_at_edges},
    {.schema = "aten::_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
     .kind = Kind::Library,
     .infer = histogram_edges_types,
     .library = histogram_edges_step,
     .dtypes = float_types},
    {.schema = "aten::combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", .decompose = combinations},
};

} // namespace

std::span<const OpRow> library_select_rows() { return library_select_ops; }

} // namespace tenon::ops
