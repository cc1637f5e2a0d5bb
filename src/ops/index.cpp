// Reads at positions that tensors hold: advanced indexing, gather, embedding.
#include <algorithm>

#include "ops/jvp.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

bool is_mask(DType t) { return t == DType::Bool || t == DType::U8; }

// How index tensors meet the dims of self. Slot k of `indices` belongs to dim k; the tensors broadcast to one shape, whose
// dims stand where the tensors do, or first where these are not adjacent.
struct IndexPlan {
  std::vector<int> slot;       // by dim of self: which tensor, or -1
  std::vector<Expr> broadcast; // the common shape
  size_t at = 0;               // its first dim in the result
};

IndexPlan plan_index(const Call& c) {
  IndexPlan p;
  size_t rank = c.rank("self");
  p.slot.assign(rank, -1);
  const ArgList& list = c["indices"].get<ArgList>();
  int slots = 0;
  size_t tensors = 0, last = 0, dim = 0;
  for (size_t i = 0; i < list.size(); i++) {
    if (!list[i].is<ValueId>()) {
      dim++;
      continue;
    }
    const Type& t = c.graph.type(list[i].get<ValueId>());
    bool gap = tensors > 0 && last + 1 != i;
    p.at = tensors == 0 ? dim : gap ? 0 : p.at;
    tensors++, last = i;
    size_t dims = is_mask(t.dtype) ? t.rank() : 1; // a mask stands for as many dims as it has
    for (size_t k = 0; k < dims; k++, dim++) {
      if (dim >= rank) continue;
      p.slot[dim] = slots++;
      auto have = const_int(c.size("self", static_cast<int64_t>(dim))), asked = is_mask(t.dtype) ? const_int(t.sizes[k]) : have;
      if (have && asked && *have != *asked)
        c.fail(fmt::format("The shape of the mask {} at index {} does not match the shape of the indexed tensor {} at index {}",
                           sizes_text(t.sizes), k, sizes_text(c.type("self").sizes), dim));
    }
    p.broadcast = broadcast(c.pool(), p.broadcast, is_mask(t.dtype) ? std::vector{fresh_size(c)} : t.sizes, c.def.signature.name);
  }
  if (dim > rank) c.fail(fmt::format("too many indices for tensor of dimension {}", rank));
  return p;
}

std::vector<Type> index_types(const Call& c) {
  IndexPlan p = plan_index(c);
  std::vector<Expr> sizes;
  for (size_t k = 0; k < p.slot.size(); k++)
    if (p.slot[k] < 0) sizes.push_back(c.type("self").sizes[k]);
  sizes.insert(sizes.begin() + static_cast<int64_t>(p.at), p.broadcast.begin(), p.broadcast.end());
  return self_with(c, sizes);
}

// A load of `arg` whose dims are broadcast to the last of `axes`.
Expr load_broadcast(const DefineArgs& d, std::string_view arg, std::span<const Expr> axes, size_t element = 0) {
  const std::vector<Expr>& sizes = d.call.graph.type(d.call.values(arg)[element]).sizes;
  if (sizes.size() > axes.size()) d.call.fail(fmt::format("{} has {} dims where {} are indexed", arg, sizes.size(), axes.size()));
  std::vector<Expr> index(axes.end() - static_cast<int64_t>(sizes.size()), axes.end());
  for (size_t k = 0; k < sizes.size(); k++)
    if (is_const_int(sizes[k], 1)) index[k] = d.integer(0);
  return d.load(arg, index, element);
}

// `on`: where the indices count at all; elsewhere they may be anything.
Expr indexed_load(const DefineArgs& d, Expr on = {}) {
  IndexPlan p = plan_index(d.call);
  std::span<const Expr> axes(d.axes);
  size_t next = 0;
  std::vector<Expr> index(p.slot.size());
  for (size_t k = 0; k < index.size(); k++) {
    if (p.slot[k] < 0) {
      if (next == p.at) next += p.broadcast.size();
      index[k] = axes[next++];
    } else {
      Expr value = cast(load_broadcast(d, "indices", axes.subspan(p.at, p.broadcast.size()), static_cast<size_t>(p.slot[k])), DType::I64);
      index[k] = data_index(on ? select(on, value, d.integer(0)) : value, d.call.type("self").sizes[k]);
    }
  }
  return d.load("self", index);
}

Compute index_define(const DefineArgs& d) { return {.axes = d.axes, .body = indexed_load(d)}; }
Compute masked_index_define(const DefineArgs& d) {
  Expr on = cast(load_broadcast(d, "mask", d.axes), DType::Bool), x = indexed_load(d, on);
  return {.axes = d.axes, .body = select(on, x, cast(d.call.scalar("fill"), x->type))};
}

// Masks become the coordinates of their true elements, one index tensor for each of their dims.
Values expand_masks(Builder& b, const Call& c) {
  bool any = false;
  V self = b.input(c, "self");
  ArgList out;
  for (const Arg& a : c["indices"].get<ArgList>()) {
    if (!a.is<ValueId>() || !is_mask(c.graph.type(a.get<ValueId>()).dtype)) {
      out.push_back(a);
      continue;
    }
    any = true;
    V mask = b.wrap(a.get<ValueId>());
    if (mask.rank() == 0) { // a new dim of size 1 or 0
      self = b.unsqueeze(self, static_cast<int64_t>(out.size()));
      mask = b.unsqueeze(mask, 0);
    }
    V places = b.call1("aten::nonzero.default", {mask});
    for (size_t k = 0; k < mask.rank(); k++) out.push_back(b.select(places, 1, b.integer(static_cast<int64_t>(k))));
  }
  if (!any) return {};
  return b.call(c.def.signature.name, {self, out});
}

// 0-d tensors count as tensors of one element here.
std::vector<Expr> axis_or_none(const DefineArgs& d, std::string_view arg, Expr axis) {
  return d.call.rank(arg) == 0 ? std::vector<Expr>{} : std::vector{axis};
}

std::vector<Type> index_select_types(const Call& c) {
  if (c.rank("index") > 1) c.fail("index has more than one dim");
  Expr n = c.rank("index") == 0 ? c.pool().integer(1) : c.size("index", 0);
  return self_with(c, replaced(c.type("self").sizes, c.dim("dim", c.rank("self")), n));
}

Compute index_select_define(const DefineArgs& d) {
  if (d.axes.empty()) return {.axes = d.axes, .body = d.load("self", {})};
  int64_t dim = d.call.dim("dim", d.axes.size());
  Expr row = cast(d.load("index", axis_or_none(d, "index", d.i(static_cast<size_t>(dim)))), DType::I64);
  return {.axes = d.axes, .body = d.load("self", replaced(d.axes, dim, checked(row, d.call.size("self", dim))))};
}

std::vector<Type> gather_types(const Call& c) {
  expect_rank_of_self(c, "index");
  return self_with(c, c.type("index").sizes);
}

Compute gather_define(const DefineArgs& d) {
  if (d.call.rank("self") == 0) return {.axes = d.axes, .body = d.load("self", {})};
  int64_t dim = d.call.dim("dim", d.call.rank("self"));
  Expr at = checked(cast(d.load("index", d.axes), DType::I64), d.call.size("self", dim));
  std::vector<Expr> index = d.axes;
  if (index.empty()) index.push_back(at);
  if (index.size() != d.call.rank("self"))
    return {.axes = d.axes, .body = d.pool.number(0, d.output.dtype)}; // an empty index may have any rank
  return {.axes = d.axes, .body = d.load("self", replaced(index, dim, at))};
}

std::vector<Type> embedding_types(const Call& c) {
  if (c.rank("weight") != 2) c.fail("weight has other than two dims");
  std::vector<Expr> sizes = c.type("indices").sizes;
  for (size_t k = 1; k < c.rank("weight"); k++) sizes.push_back(c.type("weight").sizes[k]);
  return {Type::tensor(c.type("weight").dtype, sizes)};
}

Compute embedding_define(const DefineArgs& d) {
  auto split = d.axes.begin() + static_cast<int64_t>(d.call.rank("indices"));
  Expr row = cast(d.load("indices", {d.axes.begin(), split}), DType::I64);
  std::vector<Expr> index(split, d.axes.end());
  return {.axes = d.axes, .body = d.load("weight", with(index, 0, checked(row, d.call.size("weight", 0))))};
}

V flattened(Builder& b, V x) { return b.reshape(x, {product(b.pool(), x.sizes())}); }

Values take(Builder& b, const Call& c) { return b.call("aten::index.Tensor", {flattened(b, b.input(c, "self")), ArgList{c["index"]}}); }

Values take_along_dim(Builder& b, const Call& c) {
  V x = b.input(c, "self"), index = b.input(c, "indices");
  auto wrapped = [&](V at, Expr size) { return b.where(b.call1("aten::lt.Scalar", {at, 0}), at + Arg(size), at); };
  if (!c.has("dim"))
    return b.call("aten::gather.default", {flattened(b, x), 0, wrapped(flattened(b, index), product(b.pool(), x.sizes()))});
  if (x.rank() != index.rank()) c.fail("self and indices differ in rank");
  int64_t dim = c.dim("dim", x.rank());
  Expr one = b.integer(1);
  std::vector<Expr> sizes = broadcast(b.pool(), replaced(x.sizes(), dim, one), replaced(index.sizes(), dim, one), "aten::take_along_dim");
  x = b.expand(x, replaced(sizes, dim, x.size(dim)));
  return b.call("aten::gather.default", {x, dim, b.expand(wrapped(index, x.size(dim)), replaced(sizes, dim, index.size(dim)))});
}

const OpRow index_ops[] = {
    {.schema = "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
     .kind = Kind::View,
     .infer = index_types,
     .define = index_define,
     .decompose = expand_masks,
     .types = "indices=bool|u8|i32|i64",
     .vjp = "self: torch.index_put(grad.new_zeros(self_size), indices, grad, True)"},
    {.schema = "aten::index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor",
     .decompose = same<"aten::index.Tensor">,
     .vjp = "aten::index.Tensor"},
    {.schema = "aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
     .kind = Kind::View,
     .infer = index_types,
     .define = index_define,
     .decompose = expand_masks,
     .types = "indices=i32|i64",
     .vjp = "self: torch.index_put(grad.new_zeros(self_size), indices, grad, True)"},
    {.schema = "aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
     .kind = Kind::View,
     .infer = index_types,
     .define = masked_index_define,
     .dtypes = real_types | bool_type,
     .types = "mask=reals|bool indices=i32|i64"},
    {.schema = "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor",
     .kind = Kind::View,
     .infer = index_select_types,
     .define = index_select_define,
     .types = "index=i32|i64",
     .jvp = jvp_linear,
     .vjp = "self: torch.index_select_backward(grad, self_size, dim, index)"},
    {.schema = "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
     .kind = Kind::View,
     .infer = gather_types,
     .define = gather_define,
     .dtypes = number_types,
     .types = "index=i32|i64",
     .jvp = jvp_linear,
     .vjp = "self: torch.gather_backward(grad, self, dim, index, sparse_grad)"},
    {.schema = "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
               "sparse=False) -> Tensor",
     .kind = Kind::View,
     .infer = embedding_types,
     .define = embedding_define,
     .types = "indices=i32|i64",
     .vjp = "weight: torch.embedding_dense_backward(grad, indices, weight_size[0], padding_idx, scale_grad_by_freq)"},
    {.schema = "aten::take(Tensor self, Tensor index) -> Tensor",
     .decompose = take,
     .vjp = "self: torch.put(grad.new_zeros(self_size), index, grad, True)"},
    {.schema = "aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
     .decompose = take_along_dim,
     .vjp = "result: taken_along(self, indices, dim)"},
};

} // namespace

std::span<const OpRow> index_rows() { return index_ops; }

} // namespace tenon::ops
