// Rows of what writes at indices.
#include "ops/autocast.h"
#include "ops/library.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

using library::Update;

Update update_named(const Call& c, const std::string& reduce) {
  static constexpr std::pair<std::string_view, Update> names[] = {{"sum", Update::Add},      {"add", Update::Add},   {"prod", Update::Mul},
                                                                  {"multiply", Update::Mul}, {"mean", Update::Mean}, {"amax", Update::Max},
                                                                  {"amin", Update::Min}};
  for (auto& [name, update] : names)
    if (name == reduce) return update;
  c.fail(fmt::format("no reduction is called '{}'", reduce));
}

// Self's type. Its rank is that of the index and of the source, but where nothing is written.
std::vector<Type> scattered(const Call& c) {
  for (std::string_view name : {"index", "src"})
    if (c.def.signature.find(name) >= 0) expect_rank_of_self(c, name);
  return like_self(c);
}
// Self's type; the index is a vector.
std::vector<Type> written(const Call& c) {
  if (c.rank("index") > 1) c.fail(fmt::format("an index of {} dims", c.rank("index")));
  return like_self(c);
}

// `source` names a tensor, or a Scalar that is written everywhere.
LibraryStep scatter_step(const Call& c, std::string_view source, Update update, bool include_self, bool vector) {
  LibraryStep step{library::scatter,
                   {c.value("self"), c.value("index")},
                   integers(c, {self_dim(c), static_cast<int64_t>(update), include_self, vector})};
  const Arg& value = c[source];
  if (value.is<ValueId>()) {
    step.inputs.push_back(value.get<ValueId>());
    step.ints.push_back(integer(c, 0));
    step.numbers = {0};
    return step;
  }
  Expr e = c.scalar(source);
  bool whole = !is_float(c.type("self").dtype);
  step.ints.push_back(whole ? cast(e, DType::I64) : integer(c, 0));
  step.numbers.push_back(whole ? 0 : c.number(source));
  return step;
}
template <Update U, bool Vector> LibraryStep write_source(const Call& c) {
  return scatter_step(c, Vector ? "source" : "src", U, true, Vector);
}
template <bool Vector> LibraryStep write_value(const Call& c) { return scatter_step(c, "value", Update::Assign, true, Vector); }
template <bool Vector> LibraryStep reduce_source(const Call& c) {
  return scatter_step(c, Vector ? "source" : "src", update_named(c, c.text("reduce")), c.flag("include_self"), Vector);
}
LibraryStep old_reduce(const Call& c) {
  return scatter_step(c, c.def.signature.find("src") >= 0 ? "src" : "value", update_named(c, c.text("reduce")), true, false);
}

// The vector that an index of self's rank repeats along all dims but `dim`, where it is made so and self and source
// have its sizes: the rows of graphs' messages are added up by such an index.
V repeated_vector(Builder& b, const Call& c) {
  const Graph& g = b.graph();
  V self = b.input(c, "self"), index = b.input(c, "index"), source = b.input(c, "src");
  NodeId made = g.value(index.id).node;
  if (!made.valid() || g.node(made).op != "edge::expand.default" || self.rank() < 2 || source.sizes() != index.sizes()) return {};
  V narrow = b.wrap(g.node(made).args[0].get<ValueId>());
  int64_t dim = self_dim(c), lead = static_cast<int64_t>(index.rank() - narrow.rank());
  for (int64_t d = 0; d < static_cast<int64_t>(index.rank()); d++) {
    bool repeated = d < lead || is_const_int(narrow.size(d - lead), 1);
    if (d == dim ? repeated : !repeated || self.size(d) != index.size(d)) return {};
  }
  return flatten(b, narrow);
}
template <bool Reduce> Values scatter_rows(Builder& b, const Call& c) {
  V index = repeated_vector(b, c);
  if (!index) return {};
  if (!Reduce) return b.call("aten::index_add.default", {c["self"], c["dim"], index, c["src"]});
  return b.call("aten::index_reduce.default", {c["self"], c["dim"], index, c["src"], c["reduce"], c["include_self"]});
}

Values index_add_alpha(Builder& b, const Call& c) {
  Expr alpha = c.scalar("alpha");
  if (alpha->is_const() && alpha->number() == 1) return {};
  return b.call("aten::index_add.default", {c["self"], c["dim"], c["index"], b.input(c, "source") * c["alpha"]});
}

Values index_fill_tensor(Builder& b, const Call& c) {
  V x = b.input(c, "self"), index = b.input(c, "index"), value = b.to(b.input(c, "value"), x.dtype());
  std::vector<Expr> sizes = x.sizes();
  if (!sizes.empty()) sizes[static_cast<size_t>(self_dim(c))] = product(b.pool(), index.sizes());
  return b.call("aten::index_copy.default", {x, c["dim"], index, b.expand(b.reshape(value, {}), sizes)});
}

bool is_mask(V x) { return x.dtype() == DType::Bool || x.dtype() == DType::U8; }

// One mask and one value: a choice per element.
Values put_where(Builder& b, V self, V mask, size_t before, V value, bool accumulate) {
  std::vector<Expr> sizes = mask.sizes();
  sizes.insert(sizes.end(), self.rank() - before - mask.rank(), b.integer(1));
  V chosen = b.reshape(value, {});
  return b.where(b.reshape(b.to(mask, DType::Bool), sizes), accumulate ? self + chosen : chosen, self);
}

// Masks become index columns; values get self's dtype. No values where there is nothing to do.
Values index_put_parts(Builder& b, const Call& c) {
  V self = b.input(c, "self"), values = b.input(c, "values");
  bool accumulate = c.flag("accumulate");
  ArgList slots;
  size_t masks = 0, given = 0, mask_at = 0, pointless = 0; // pointless: masks without dims
  V mask;
  for (const Arg& a : c["indices"].get<ArgList>()) {
    if (a.is_none()) {
      slots.push_back({});
      continue;
    }
    V index = b.wrap(a.get<ValueId>());
    given++;
    if (!is_mask(index)) {
      slots.push_back(index);
      continue;
    }
    pointless += index.rank() == 0;
    if (masks++ == 0) mask = index, mask_at = slots.size();
    slots.push_back(index);
    slots.insert(slots.end(), index.rank() == 0 ? 0 : index.rank() - 1, Arg());
  }
  if (slots.size() - pointless > self.rank()) c.fail(fmt::format("{} indices for a tensor of rank {}", slots.size(), self.rank()));
  if (masks == 0 && values.dtype() == self.dtype()) return {};
  values = b.to(values, self.dtype());
  if (masks == 1 && given == 1 && is_single(values.type())) return put_where(b, self, mask, mask_at, values, accumulate);
  for (size_t at = 0; at < slots.size(); at++) {
    if (slots[at].is_none()) continue;
    V index = b.wrap(slots[at].get<ValueId>());
    if (!is_mask(index)) continue;
    if (index.rank() == 0) unsupported("{}: a mask without dims", c.def.signature.name);
    V places = b.call1("aten::nonzero.default", {index});
    for (size_t d = 0; d < index.rank(); d++) slots[at + d] = b.select(places, 1, b.integer(static_cast<int64_t>(d)));
  }
  return b.call("aten::index_put.default", {self, slots, values, accumulate});
}

LibraryStep index_put_step(const Call& c) {
  LibraryStep step{library::index_put, {c.value("self"), c.value("values")}, integers(c, {c.flag("accumulate")})};
  const ArgList& slots = c["indices"].get<ArgList>();
  if (slots.size() > c.rank("self")) c.fail(fmt::format("{} indices for a tensor of rank {}", slots.size(), c.rank("self")));
  for (size_t d = 0; d < c.rank("self"); d++) {
    bool indexed = d < slots.size() && !slots[d].is_none();
    if (indexed) step.inputs.push_back(slots[d].get<ValueId>());
    step.ints.push_back(integer(c, indexed));
  }
  return step;
}

// Where the mask is not set, zero is added at some index that is within bounds.
Values masked_put_accumulate(Builder& b, const Call& c) {
  V self = b.input(c, "self"), values = b.input(c, "values");
  ArgList slots;
  int64_t dim = 0;
  for (const Arg& a : c["indices"].get<ArgList>()) {
    Expr size = self.size(dim++);
    if (a.is_none()) slots.push_back({});
    else slots.push_back(b.call1("aten::clamp.default", {a, Arg(-size), Arg(size - 1.0)}));
  }
  V kept = b.where(b.to(b.input(c, "mask"), DType::Bool), values, b.scalar(0, values.dtype()));
  return b.call("aten::index_put.default", {self, slots, kept, true});
}

Values put(Builder& b, const Call& c) {
  V self = b.input(c, "self"), index = b.input(c, "index"), source = b.reshape(b.input(c, "source"), index.sizes());
  V flat = b.call1("aten::index_put.default", {flatten(b, self), ArgList{index}, source, c["accumulate"]});
  return b.reshape(flat, self.sizes());
}

std::vector<Type> masked_scatter_types(const Call& c) {
  DType self = c.type("self").dtype, source = c.type("source").dtype;
  if (c.type("mask").dtype != DType::Bool) c.fail(fmt::format("a mask of {}", name_of(c.type("mask").dtype)));
  if (source != self) c.fail(fmt::format("a source of {} for {}", name_of(source), name_of(self)));
  return {Type::tensor(c.type("self").dtype, broadcast(c.pool(), c.type("self").sizes, c.type("mask").sizes, "masked_scatter"))};
}
Values masked_scatter_expand(Builder& b, const Call& c) {
  V self = b.input(c, "self"), mask = b.input(c, "mask");
  std::vector<Expr> sizes = masked_scatter_types(c)[0].sizes;
  if (self.sizes() == sizes && mask.sizes() == sizes) return {};
  return b.call("aten::masked_scatter.default", {b.expand(self, sizes), b.expand(mask, sizes), c["source"]});
}

// Gradients that write back where a pooling or a lookup has read.
Values max_pool_backward(Builder& b, const Call& c) {
  V self = b.input(c, "self"), grad = b.input(c, "grad_output"), index = b.input(c, "indices");
  if (self.rank() < 2 || grad.rank() != self.rank() || index.rank() != self.rank())
    c.fail("operands differ in rank, or have less than two dims");
  size_t lead = self.rank() - 2;
  auto planes = [&](V x) {
    std::span<const Expr> s = x.sizes();
    return b.reshape(x, {product(b.pool(), s.first(lead)), product(b.pool(), s.subspan(lead))});
  };
  V zeros = b.full(planes(self).sizes(), 0, self.dtype());
  return b.reshape(b.call1("aten::scatter_add.default", {zeros, 1, planes(index), planes(grad)}), self.sizes());
}
Values embedding_backward(Builder& b, const Call& c) {
  V grad = b.input(c, "grad_output"), index = flatten(b, b.input(c, "indices"));
  V rows = b.reshape(grad, {index.size(0), grad.size(-1)});
  if (c.flag("scale_grad_by_freq")) { // by how often the row is read
    V none = b.full({c.sym("num_weights")}, 0, DType::I64), ones = b.full({index.size(0)}, 1, DType::I64);
    V counts = b.call1("aten::index_select.default", {b.call1("aten::index_add.default", {none, 0, index, ones}), 0, index});
    DType wide = compute_type(grad.dtype());
    rows = b.to(b.to(rows, wide) / b.unsqueeze(b.to(counts, wide), 1), grad.dtype());
  }
  V pad = b.unsqueeze(b.call1("aten::eq.Scalar", {index, c["padding_idx"]}), 1);
  V kept = b.where(pad, b.scalar(0, grad.dtype()), rows);
  return b.call("aten::index_add.default", {b.full({c.sym("num_weights"), grad.size(-1)}, 0, grad.dtype()), 0, index, kept});
}

const OpRow library_scatter_ops[] = {
    {.schema = "aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
     .kind = Kind::Library,
     .infer = scattered,
     .library = write_source<Update::Assign, false>,
     .dtypes = number_types | complex_types,
     .types = "index=i32|i64",
     .vjp = "self: grad.scatter(dim, index, 0); src: gathered(grad, dim, index, src_size)"},
    {.schema = "aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
     .kind = Kind::Library,
     .infer = scattered,
     .library = write_value<false>,
     .dtypes = number_types | complex_types,
     .types = "index=i32|i64",
     .vjp = "self: grad.scatter(dim, index, 0)"},
    {.schema = "aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
     .kind = Kind::Library,
     .infer = scattered,
     .library = old_reduce,
     .dtypes = number_types | complex_types,
     .types = "index=i32|i64",
     .vjp = "result: torch.scatter_reduce(self, dim, index, src, \"sum\" if reduce == \"add\" else \"prod\")"},
    {.schema = "aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
     .kind = Kind::Library,
     .infer = scattered,
     .library = old_reduce,
     .dtypes = number_types | complex_types,
     .types = "index=i32|i64"},
    {.schema = "aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
     .kind = Kind::Library,
     .infer = scattered,
     .decompose = scatter_rows<false>,
     .library = write_source<Update::Add, false>,
     .dtypes = number_types | complex_types,
     .types = "index=i32|i64",
     .vjp = "self: grad; src: gathered(grad, dim, index, src_size)"},
    {.schema = "aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
               "include_self=True) -> Tensor",
     .kind = Kind::Library,
     .infer = scattered,
     .decompose = scatter_rows<true>,
     .library = reduce_source<false>,
     .dtypes = number_types | complex_types,
     .types = "index=i32|i64",
     .vjp = "self, src: scatter_reduce_operands(grad, self, dim, index, src, reduce, include_self, result)"},
    {.schema = "aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
     .kind = Kind::Library,
     .infer = written,
     .decompose = index_add_alpha,
     .library = write_source<Update::Add, true>,
     .dtypes = real_types | complex_types | bool_type,
     .types = "index=i32|i64",
     .vjp = "self: grad; source: scaled(grad.index_select(dim, index).expand(source_size), alpha)"},
    {.schema = "aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
     .kind = Kind::Library,
     .infer = written,
     .library = write_source<Update::Assign, true>,
     .dtypes = real_types | complex_types | bool_type,
     .types = "index=i64",
     .autocast = to_widest,
     .vjp = "self: grad.index_fill(dim, index, 0); source: grad.index_select(dim, index).expand(source_size)"},
    {.schema = "aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
     .kind = Kind::Library,
     .infer = written,
     .library = write_value<true>,
     .dtypes = real_types | complex_types | bool_type,
     .types = "index=i64",
     .vjp = "self: grad.index_fill(dim, index, 0)"},
    {.schema = "aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
     .decompose = index_fill_tensor,
     .vjp = "self: grad.index_fill(dim, index, 0); value: (grad - grad.index_fill(dim, index, 0)).sum()"},
    {.schema = "aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool "
               "include_self=True) -> Tensor",
     .kind = Kind::Library,
     .infer = written,
     .library = reduce_source<true>,
     .dtypes = real_types,
     .types = "index=i32|i64"},
    {.schema = "aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
     .kind = Kind::Library,
     .infer = like_self,
     .decompose = index_put_parts,
     .library = index_put_step,
     .dtypes = real_types | complex_types | float8_types | bool_type,
     .types = "indices=bool|u8|i32|i64",
     .vjp = "self: grad if accumulate else torch.index_put(grad, indices, grad.new_zeros([1]), False); values: torch.index(grad, "
            "indices).sum_to_size(values_size)"},
    {.schema = "aten::index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
     .decompose = same<"aten::index_put.default">,
     .vjp = "self: grad if accumulate else torch.index_put(grad, indices, grad.new_zeros([1]), False); values: torch.index(grad, "
            "indices).sum_to_size(values_size)"},
    {.schema = "aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
     .decompose = same<"aten::index_put.default">,
     .vjp = "self: grad if accumulate else torch.index_put(grad, indices, grad.new_zeros([1]), False); values: torch.index(grad, "
            "indices).sum_to_size(values_size)"},
    {.schema = "aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool "
               "unsafe=False) -> Tensor",
     .decompose = same<"aten::index_put.default">},
    {.schema = "aten::_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) "
               "-> Tensor",
     .decompose = masked_put_accumulate},
    {.schema = "aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
     .decompose = put,
     .vjp = "self: grad if accumulate else torch.put(grad, index, torch.zeros_like(source), False); source: torch.take(grad, "
            "index).reshape(source_size)"},
    {.schema = "aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
     .kind = Kind::Library,
     .infer = masked_scatter_types,
     .decompose = masked_scatter_expand,
     .library = [](const Call& c) { return LibraryStep{library::masked_scatter, {c.value("self"), c.value("mask"), c.value("source")}}; },
     .dtypes = real_types | complex_types | bool_type,
     .types = "mask=bool",
     .vjp = "self: grad.masked_fill(mask, 0).sum_to_size(self_size); source: masked_source(grad, mask, source_size)"},
    {.schema = "aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] "
               "stride, int[2] padding, "
               "int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
     .decompose = max_pool_backward},
    {.schema = "aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt "
               "padding_idx, bool scale_grad_by_freq) -> Tensor",
     .decompose = embedding_backward},
};

} // namespace

std::span<const OpRow> library_scatter_rows() { return library_scatter_ops; }

} // namespace tenon::ops
