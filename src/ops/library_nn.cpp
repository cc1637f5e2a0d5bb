// Rows of embedding bags, norm limits, segments, detection.
#include "ops/library.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

// bags, offset2bag, bag sizes, max indices. What only gradients need has the sizes torch's meta kernels give it.
template <bool ForwardOnly> std::vector<Type> embedding_bag_types(const Call& c) {
  const Type &weight = c.type("weight"), &indices = c.type("indices"), &offsets = c.type("offsets");
  if (weight.rank() != 2 || indices.rank() != 1 || offsets.rank() != 1)
    c.fail("a matrix, a vector of indices and a vector of offsets are needed");
  Expr bags = c.flag("include_last_offset") ? offsets.sizes[0] - 1.0 : offsets.sizes[0];
  int64_t mode = c.integer("mode");
  bool fast_sum = mode == 0 && (weight.dtype == DType::F32 || weight.dtype == DType::F16) && c.integer("padding_idx") < 0;
  std::vector<Expr> positions{bags};
  if (mode == 2) positions.push_back(weight.sizes[1]);
  DType index = offsets.dtype;
  return {Type::tensor(weight.dtype, {bags, weight.sizes[1]}), Type::tensor(index, {fast_sum ? integer(c, 0) : indices.sizes[0]}),
          Type::tensor(index, {ForwardOnly ? offsets.sizes[0] : bags}), Type::tensor(index, positions)};
}
LibraryStep embedding_bag_step(const Call& c) {
  LibraryStep step{library::embedding_bag,
                   {c.value("weight"), c.value("indices"), c.value("offsets")},
                   integers(c, {c.integer("mode"), c.flag("include_last_offset"), c.integer("padding_idx")})};
  if (c.has("per_sample_weights")) step.inputs.push_back(c.value("per_sample_weights"));
  return step;
}
// Offsets and indices in one dtype; the padding index counted from the start. torch takes the form without gradients unless the
// table is a parameter.
Values embedding_bag(Builder& b, const Call& c) {
  V indices = b.input(c, "indices"), offsets = b.input(c, "offsets");
  DType index = promote(indices.dtype(), offsets.dtype());
  Arg padding = -1;
  if (c.def.signature.find("padding_idx") >= 0 && c.has("padding_idx")) {
    Expr at = c.sym("padding_idx");
    padding = at->hi < 0 ? Arg(at + c.size("weight", 0)) : Arg(at);
  }
  bool parameter = b.graph().constant(c.value("weight")) != nullptr;
  return b.call(parameter ? "aten::_embedding_bag.default" : "aten::_embedding_bag_forward_only.default",
                {c["weight"], b.to(indices, index), b.to(offsets, index), c["scale_grad_by_freq"], c["mode"], c["sparse"],
                 c["per_sample_weights"], c["include_last_offset"], padding});
}

// Derivatives of bags: each row of the table gets what the bags that it is in get.

// The bag that each index is of. Its owner may be left out where bags are added up alone: it is the last that begins at or before it.
V bags_of(Builder& b, const Call& c) {
  V indices = b.input(c, "indices");
  const Type& owners = c.type("offset2bag");
  bool given = owners.rank() == 1 && !differ(owners.sizes[0], indices.size(0));
  if (given) return b.input(c, "offset2bag");
  if (c.def.signature.find("offsets") < 0) c.fail("offset2bag and the indices differ in size");
  V offsets = b.input(c, "offsets"), places = b.to(b.arange(indices.size(0), DType::I64), offsets.dtype());
  return b.call1("aten::searchsorted.Tensor", {offsets, places, false, true}) - Arg(1);
}

void check_bags(const Call& c) {
  if (c.rank("grad") != 2 || c.rank("indices") != 1) c.fail("a gradient of rows and a vector of indices are needed");
  if (!is_float(c.type("grad").dtype)) c.fail("the gradient is not of floats");
}

V rows_at(Builder& b, V of, V at) { return b.call1("aten::index_select.default", {of, 0, at}); }

// Each element of a bag's maximum comes from one row; an empty bag has none.
V of_maxima(Builder& b, const Call& c) {
  V grad = b.input(c, "grad"), rows = b.input(c, "maximum_indices"), sizes = b.unsqueeze(b.input(c, "bag_size"), 1);
  if (rows.rank() != 2 || differ(rows.size(0), grad.size(0)) || differ(rows.size(1), grad.size(1)) || differ(sizes.size(0), grad.size(0)))
    c.fail("maximum_indices or bag_size and the gradient differ in size");
  V none = b.call1("aten::eq.Scalar", {sizes, 0}), zeros = b.full({c.sym("num_weights"), grad.size(1)}, 0, grad.dtype());
  V at = b.to(b.where(none, Arg(0), rows), DType::I64), what = b.where(none, Arg(0.0), grad);
  return b.call1("aten::scatter_add.default", {zeros, 0, at, what});
}

Values bag_backward(Builder& b, const Call& c) {
  check_bags(c);
  int64_t mode = c.integer("mode");
  if (mode < 0 || mode > 2) c.fail("mode must be 0, 1 or 2");
  if (c.def.signature.find("sparse") >= 0 && c.flag("sparse")) c.fail("sparse gradients are not made");
  if (mode == 2) return of_maxima(b, c);
  bool weighted = c.has("per_sample_weights");
  if (weighted && mode == 1) c.fail("per_sample_weights are of mode 0, the sum");
  if (weighted && (c.rank("per_sample_weights") != 1 || differ(c.size("per_sample_weights", 0), c.size("indices", 0))))
    c.fail("per_sample_weights and the indices differ in size");
  V grad = b.input(c, "grad"), bags = bags_of(b, c);
  DType type = grad.dtype(), wide = mode == 1 || weighted ? compute_type(type) : type;
  V rows = rows_at(b, b.to(grad, wide), bags);
  if (mode == 1) rows = rows / b.unsqueeze(b.to(rows_at(b, b.input(c, "bag_size"), bags), wide), 1);
  if (weighted) rows = rows * b.unsqueeze(b.to(b.input(c, "per_sample_weights"), wide), 1);
  return b.to(
      b.call1("aten::embedding_dense_backward.default", {rows, c["indices"], c["num_weights"], c["padding_idx"], c["scale_grad_by_freq"]}),
      type);
}

// How a bag's sum changes with the weight of one of its rows.
Values sample_weights_backward(Builder& b, const Call& c) {
  check_bags(c);
  if (c.integer("mode") != 0) c.fail("per_sample_weights are of mode 0, the sum");
  V grad = b.input(c, "grad"), table = b.input(c, "weight"), indices = b.input(c, "indices");
  if (table.rank() != 2 || table.dtype() != grad.dtype() || differ(table.size(1), grad.size(1)))
    c.fail("the table and the gradient differ in dtype or in columns");
  DType wide = compute_type(grad.dtype());
  V product = b.to(rows_at(b, grad, bags_of(b, c)), wide) * b.to(rows_at(b, table, indices), wide);
  V of_row = b.to(b.sum(product, {1}, false), grad.dtype());
  if (c.integer("padding_idx") < 0) return of_row;
  return b.where(b.call1("aten::eq.Scalar", {indices, c["padding_idx"]}), Arg(0.0), of_row);
}

int64_t segment_axis(const Call& c) { return c.dim("axis", c.rank("data")); }
std::vector<Type> segment_types(const Call& c) {
  if (!c.has("lengths") && !c.has("offsets")) c.fail("lengths or offsets are needed");
  int64_t axis = segment_axis(c);
  size_t rank = c.rank(c.has("lengths") ? "lengths" : "offsets");
  if (c.rank("data") == 0 || rank != static_cast<size_t>(axis) + 1) c.fail(fmt::format("segments of {} dims along dim {}", rank, axis));
  std::vector<Expr> sizes = c.type("data").sizes;
  sizes[static_cast<size_t>(axis)] = c.has("lengths") ? c.size("lengths", axis) : c.size("offsets", axis) - 1.0;
  return {Type::tensor(c.type("data").dtype, sizes)};
}
LibraryStep segment_step(const Call& c) {
  static constexpr std::string_view names[] = {"sum", "mean", "max", "min", "prod"};
  auto reduce = std::find(std::begin(names), std::end(names), c.text("reduce")) - std::begin(names);
  if (reduce == std::ssize(names)) c.fail(fmt::format("no reduction is called '{}'", c.text("reduce")));
  bool offsets = !c.has("lengths");
  return {library::segment_reduce,
          {c.value("data"), c.value(offsets ? "offsets" : "lengths")},
          integers(c, {reduce, segment_axis(c), offsets, c.has("initial"), c.flag("unsafe")}),
          {c.has("initial") ? c.number("initial") : 0}};
}

// Slices along dim whose p-norm is above maxnorm are scaled down to it.
Values renorm(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t dim = self_dim(c);
  std::vector<int64_t> others;
  for (int64_t d = 0; d < static_cast<int64_t>(x.rank()); d++)
    if (d != dim) others.push_back(d);
  V wide = is_complex(x.dtype()) ? x : b.to(x, x.dtype() == DType::F64 ? DType::F64 : DType::F32);
  V norm = b.call1("aten::linalg_vector_norm.default", {wide, c["p"], others, true});
  V limit = b.scalar(c["maxnorm"], norm.dtype());
  V factor = b.where(b.call1("aten::gt.Tensor", {norm, limit}), limit / (norm + 1e-7), b.scalar(1, norm.dtype()));
  return b.to(wide * factor, x.dtype());
}

std::vector<Type> deform_types(const Call& c) {
  auto extent = [&](int64_t k, const char* stride, const char* pad, const char* dilation) {
    Expr reach = c.sym(dilation) * (c.size("weight", k) - 1.0) + 1.0;
    return floor_div(c.size("input", k) + c.sym(pad) * 2.0 - reach, c.sym(stride)) + 1.0;
  };
  return {Type::tensor(c.type("input").dtype, {c.size("input", 0), c.size("weight", 0), extent(2, "stride_h", "pad_h", "dilation_h"),
                                               extent(3, "stride_w", "pad_w", "dilation_w")})};
}
LibraryStep deform_step(const Call& c) {
  LibraryStep step{library::deform_conv2d, {}, {}};
  for (auto name : {"input", "weight", "offset", "mask", "bias"}) step.inputs.push_back(c.value(name));
  for (auto name : {"stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w", "groups", "offset_groups"})
    step.ints.push_back(c.sym(name));
  step.ints.push_back(integer(c, c.flag("use_mask")));
  return step;
}

std::vector<Type> conv_gradient_types(const Call& c) {
  std::vector<Expr> sizes = c.syms("taps");
  sizes.insert(sizes.begin(), {c.size("grad", 1), floor_div(c.size("input", 1), c.sym("groups"))});
  return {Type::tensor(c.type("input").dtype, sizes)};
}
LibraryStep conv_gradient_step(const Call& c) {
  LibraryStep step{library::conv_weight_gradient, {c.value("input"), c.value("grad")}, {}};
  for (auto name : {"stride", "padding", "dilation"})
    for (Expr e : c.syms(name)) step.ints.push_back(e);
  step.ints.push_back(c.sym("groups"));
  return step;
}

// Of the table and of the weights of its rows.
#define BAG_GRADIENTS(PADDING)                                                                                                             \
  "weight: torch._embedding_bag_backward(grad, indices, offsets, result1, result2, result3, weight_size[0], scale_grad_by_freq, mode, "    \
  "False, per_sample_weights, " PADDING "); per_sample_weights: torch._embedding_bag_per_sample_weights_backward(grad, weight, indices, "  \
  "offsets, result1, mode, " PADDING ")"

const OpRow library_nn_ops[] = {
    {.schema =
         "tenon::conv_weight_gradient(Tensor input, Tensor grad, SymInt[] taps, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
         "SymInt groups) -> Tensor",
     .kind = Kind::Library,
     .infer = conv_gradient_types,
     .library = conv_gradient_step,
     .dtypes = float_types},
    {.schema = "aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool "
               "sparse=False, "
               "Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
     .kind = Kind::Library,
     .infer = embedding_bag_types<false>,
     .library = embedding_bag_step,
     .dtypes = float_types,
     .types = "indices=i32 offsets=i32 -> same i32 i32 i32 ; indices=i64 offsets=i64 -> same i64 i64 i64",
     .vjp = BAG_GRADIENTS("padding_idx")},
    {.schema = "aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int "
               "mode=0, bool sparse=False, "
               "Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
     .kind = Kind::Library,
     .infer = embedding_bag_types<true>,
     .library = embedding_bag_step,
     .dtypes = float_types,
     .types = "indices=i32 offsets=i32 -> same i32 i32 i32 ; indices=i64 offsets=i64 -> same i64 i64 i64"},
    {.schema =
         "aten::embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
         "Tensor? per_sample_weights=None, bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)",
     .decompose = embedding_bag,
     .vjp = BAG_GRADIENTS("-1")},
    {.schema =
         "aten::embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, "
         "Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)",
     .decompose = embedding_bag,
     .vjp = BAG_GRADIENTS("-1 if padding_idx is None else padding_idx % weight_size[0]")},
    {.schema = "aten::_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor bag_size, Tensor "
               "maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, int "
               "padding_idx=-1) -> Tensor",
     .decompose = bag_backward},
    {.schema = "aten::_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, Tensor "
               "maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, int padding_idx=-1) "
               "-> Tensor",
     .decompose = bag_backward},
    {.schema = "aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, Tensor "
               "offset2bag, int mode, int padding_idx=-1) -> Tensor",
     .decompose = sample_weights_backward},
    {.schema = "aten::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
     .kind = Kind::Library,
     .infer =
         [](const Call& c) {
           if (c.rank("self") != 2 || !is_float(c.type("self").dtype)) c.fail("self is no matrix of floats");
           return like_self(c);
         },
     .library =
         [](const Call& c) {
           return LibraryStep{
               library::embedding_renorm, {c.value("self"), c.value("indices")}, {}, {c.number("max_norm"), c.number("norm_type")}};
         },
     .dtypes = float_types | complex_types,
     .types = "indices=i32|i64"},
    {.schema = "aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int "
               "axis=0, bool unsafe=False, "
               "Scalar? initial=None) -> Tensor",
     .kind = Kind::Library,
     .infer = segment_types,
     .library = segment_step,
     .dtypes = float_types,
     .types = "lengths=i32|i64 offsets=i32|i64"},
    {.schema = "aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
     .decompose = renorm,
     .vjp = "result: self * renorm_scale(self, p, dim, maxnorm)"},
    {.schema = "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
     .kind = Kind::Library,
     .infer = [](const Call& c) { return std::vector{Type::tensor(DType::I64, {fresh_size(c)})}; },
     .library =
         [](const Call& c) { return LibraryStep{library::nms, {c.value("dets"), c.value("scores")}, {}, {c.number("iou_threshold")}}; },
     .dtypes = float_types,
     .data_dependent = true},
    {.schema = "torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
               "sampling_ratio, bool aligned) -> Tensor",
     .kind = Kind::Library,
     .infer =
         [](const Call& c) {
           return std::vector{
               Type::tensor(c.type("input").dtype, {c.size("rois", 0), c.size("input", 1), c.sym("pooled_height"), c.sym("pooled_width")})};
         },
     .library =
         [](const Call& c) {
           return LibraryStep{library::roi_align,
                              {c.value("input"), c.value("rois")},
                              integers(c, {c.integer("sampling_ratio"), c.flag("aligned")}),
                              {c.number("spatial_scale")}};
         },
     .dtypes = float_types},
    {.schema = "torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt "
               "stride_w, SymInt pad_h, "
               "SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
     .kind = Kind::Library,
     .infer = deform_types,
     .library = deform_step,
     .dtypes = float_types},
};

} // namespace

std::span<const OpRow> library_nn_rows() { return library_nn_ops; }

} // namespace tenon::ops
