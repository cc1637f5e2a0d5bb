// View operators that take a part of a tensor: slice, select, diagonal, unfold, as_strided, and the splits, which are slices.
#include <algorithm>

#include "ir/dim_order.h"
#include "ops/shape.h"
#include "ops/table.h"
#include "ops/vectorize.h"
#include "ops/view_inverse.h"

namespace tenon::ops {

namespace {

Range range_of(const Call& c) {
  Expr size = c.size("self", c.dim("dim", c.rank("self")));
  Expr start = c.has("start") ? c.sym("start") : Expr(), end = c.has("end") ? c.sym("end") : Expr();
  return slice_range(c.pool(), size, start, end, c.integer("step"));
}

std::vector<Type> slice_types(const Call& c) {
  if (c.rank("self") == 0) c.fail("slice() cannot be applied to a 0-dim tensor.");
  return self_with(c, replaced(c.type("self").sizes, c.dim("dim", c.rank("self")), range_of(c).length));
}

Compute slice_define(const DefineArgs& d) {
  Range r = range_of(d.call);
  int64_t dim = d.call.dim("dim", d.axes.size());
  Expr at = r.start + d.i(static_cast<size_t>(dim)) * static_cast<double>(r.step);
  return {.axes = d.axes, .body = d.load("self", replaced(d.axes, dim, at))};
}

Values slice_identity(Builder& b, const Call& c) {
  if (slice_types(c)[0].sizes == c.type("self").sizes && c.integer("step") == 1) return b.input(c, "self");
  return {};
}

// narrow says its length itself, so it needs no clamps. It becomes the slice wherever that has the same length.
std::vector<Type> narrow_types(const Call& c) {
  if (c.rank("self") == 0) c.fail("self has no dims");
  return self_with(c, replaced(c.type("self").sizes, c.dim("dim", c.rank("self")), c.sym("length")));
}

Compute narrow_define(const DefineArgs& d) {
  int64_t dim = d.call.dim("dim", d.axes.size());
  Expr start = wrap_index(d.call.sym("start"), d.call.size("self", dim));
  return {.axes = d.axes, .body = d.load("self", replaced(d.axes, dim, start + d.i(static_cast<size_t>(dim))))};
}

Values narrow_as_slice(Builder& b, const Call& c) {
  int64_t dim = c.dim("dim", c.rank("self"));
  Expr size = c.size("self", dim), given = c.sym("start"), start = wrap_index(given, size), length = c.sym("length");
  if (auto first = const_int(start), count = const_int(length), n = const_int(size); n && first && count) {
    if (*count < 0) c.fail("narrow(): length must be non-negative.");
    if (*first < 0 || *first > *n)
      c.fail(fmt::format("start out of range (expected to be in range of [{}, {}], but got {})", -*n, *n, *const_int(given)));
    if (*first > *n - *count) c.fail(fmt::format("start ({}) + length ({}) exceeds dimension size ({}).", *first, *count, *n));
  }
  if (slice_range(c.pool(), size, start, start + length, 1).length != length) return {};
  return b.call("aten::slice.Tensor", {c["self"], dim, start, start + length});
}

std::vector<Type> select_types(const Call& c) {
  if (c.rank("self") == 0) c.fail("select() cannot be applied to a 0-dim tensor.");
  int64_t dim = c.dim("dim", c.rank("self"));
  if (auto i = const_int(c.sym("index")), n = const_int(c.size("self", dim)); i && n && (*i < -*n || *i >= *n))
    c.fail(fmt::format("select(): index {} out of range for tensor of size {} at dimension {}", *i, sizes_text(c.type("self").sizes), dim));
  return self_with(c, without(c.type("self").sizes, dim));
}

Compute select_define(const DefineArgs& d) {
  int64_t dim = d.call.dim("dim", d.call.rank("self"));
  return {.axes = d.axes, .body = d.load("self", with(d.axes, dim, wrap_index(d.call.sym("index"), d.call.size("self", dim))))};
}

// The diagonal j = i + offset of dims 1 and 2 becomes the last dim.
std::vector<Type> diagonal_types(const Call& c) {
  int64_t d1 = c.dim("dim1", c.rank("self")), d2 = c.dim("dim2", c.rank("self")), offset = c.integer("offset");
  if (d1 == d2) c.fail("dim1 and dim2 are the same");
  Expr rows = c.size("self", d1), columns = c.size("self", d2);
  Expr length = offset >= 0 ? min(rows, columns - static_cast<double>(offset)) : min(rows + static_cast<double>(offset), columns);
  std::vector<Expr> sizes = without(without(c.type("self").sizes, std::max(d1, d2)), std::min(d1, d2));
  sizes.push_back(max(length, c.pool().integer(0)));
  return self_with(c, sizes);
}

Compute diagonal_define(const DefineArgs& d) {
  size_t rank = d.call.rank("self");
  int64_t d1 = d.call.dim("dim1", rank), d2 = d.call.dim("dim2", rank), offset = d.call.integer("offset");
  Expr i = d.axes.back(), row = offset >= 0 ? i : i - static_cast<double>(offset),
       column = offset >= 0 ? i + static_cast<double>(offset) : i;
  std::vector<Expr> index(d.axes.begin(), d.axes.end() - 1);
  index = d1 < d2 ? with(with(index, d1, row), d2, column) : with(with(index, d2, column), d1, row);
  return {.axes = d.axes, .body = d.load("self", index)};
}

// Windows of `size` elements at every `step`: the window's place stays, its elements become the last dim.
std::vector<Type> unfold_types(const Call& c) {
  Expr size = c.sym("size"), step = c.sym("step");
  if (const_int(size).value_or(0) < 0 || const_int(step).value_or(1) < 1) c.fail("windows of a negative size, or no step between them");
  if (c.rank("self") == 0) return self_with(c, {size});
  int64_t dim = c.dim("dimension", c.rank("self"));
  std::vector<Expr> sizes = replaced(c.type("self").sizes, dim, divide_sizes(c.size("self", dim) - size, step) + 1.0);
  sizes.push_back(size);
  return self_with(c, sizes);
}

Compute unfold_define(const DefineArgs& d) {
  if (d.call.rank("self") == 0) return {.axes = d.axes, .body = d.load("self", {})};
  int64_t dim = d.call.dim("dimension", d.call.rank("self"));
  std::vector<Expr> index(d.axes.begin(), d.axes.end() - 1);
  Expr at = d.i(static_cast<size_t>(dim)) * d.call.sym("step") + d.axes.back();
  return {.axes = d.axes, .body = d.load("self", replaced(index, dim, at))};
}

std::vector<Type> as_strided_types(const Call& c) {
  if (c.syms("size").size() != c.syms("stride").size()) c.fail("size and stride differ in length");
  return self_with(c, c.syms("size"));
}

// Of an input with strides of its own: from its elements in the order they have in memory.
Values as_strided_in_memory_order(Builder& b, const Call& c) {
  const Type& t = c.type("self");
  if (t.strides.empty()) return {};
  std::vector<int> order = dim_order(t);
  if (order.empty()) unsupported("aten::as_strided of a tensor whose memory has gaps or overlaps");
  return b.call("aten::as_strided.default",
                {b.reshape(b.permute(b.input(c, "self"), {order.begin(), order.end()}), {product(b.pool(), t.sizes)}), c["size"],
                 c["stride"], c["storage_offset"]});
}

Compute as_strided_define(const DefineArgs& d) {
  Expr place = d.call.has("storage_offset") ? d.call.sym("storage_offset") : d.integer(0);
  std::vector<Expr> strides = d.call.syms("stride");
  for (size_t k = 0; k < strides.size(); k++) place = place + d.i(k) * strides[k];
  const std::vector<Expr>& sizes = d.call.type("self").sizes;
  return {.axes = d.axes, .body = d.load("self", reshape_index(d.pool, sizes, {product(d.pool, sizes)}, {place}))};
}

V narrow(Builder& b, V x, int64_t dim, Expr start, Expr length) { return b.call1("aten::narrow.default", {x, dim, start, length}); }

// Consecutive parts of `lengths` along dim.
Values split_by(Builder& b, V x, int64_t dim, const std::vector<Expr>& lengths) {
  Values out;
  Expr start = b.integer(0);
  for (Expr length : lengths) {
    out.push_back(narrow(b, x, dim, start, length));
    start = start + length;
  }
  return out;
}

// Parts of `length`, the last one shorter where it does not divide. `count` of them, where it is known to the caller.
Values split_every(Builder& b, const Call& c, Expr length, std::optional<int64_t> count) {
  V x = b.input(c, "self");
  int64_t dim = c.dim("dim", x.rank());
  Expr size = x.size(dim);
  if (is_const_int(size, 0) || is_const_int(length, 0))
    return split_by(b, x, dim, std::vector(static_cast<size_t>(count.value_or(1)), size));
  if (Expr n = divide_sizes(size + length - 1.0, length); const_int(n)) count = const_int(n);
  else if (Expr whole = divide_sizes(size, length); const_int(whole) && whole * length == size) count = const_int(whole);
  // size // k: k parts, as the export saw it; it would have been refused were there a shorter one.
  else if (length->op == Op::FloorDiv && length->args[0] == size) count = const_int(length->args[1]);
  if (!count) unsupported("{}: the number of parts of {} by {} is not known", c.def.signature.name, to_string(size), to_string(length));
  std::vector<Expr> lengths(static_cast<size_t>(*count), length);
  lengths.back() = size - length * static_cast<double>(*count - 1);
  return split_by(b, x, dim, lengths);
}

Values split(Builder& b, const Call& c) {
  Expr size = c.sym("split_size");
  if (size->hi < 0) c.fail(fmt::format("split expects split_size be non-negative, but got split_size={}", to_string(size)));
  return split_every(b, c, size, std::nullopt);
}

Values split_with_sizes(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t dim = c.dim("dim", x.rank());
  std::vector<Expr> lengths = c.syms("split_sizes");
  Expr sum = b.integer(0);
  for (Expr l : lengths) sum = sum + l;
  if (auto have = const_int(x.size(dim)), asked = const_int(sum); have && asked && *have != *asked)
    c.fail(fmt::format("split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {}), but got "
                       "split_sizes={}",
                       *have, dim, sizes_text(lengths)));
  return split_by(b, x, dim, lengths);
}

Values chunk(Builder& b, const Call& c) {
  int64_t n = c.integer("chunks");
  if (n <= 0) c.fail(fmt::format("chunk expects `chunks` to be greater than 0, got: {}", n));
  return split_every(b, c, ceil_div(c.size("self", c.dim("dim", c.rank("self"))), b.integer(n)), n);
}

// Sections as equal as can be: the first size mod n are one longer.
Values even_sections(Builder& b, V x, int64_t dim, int64_t n) {
  Expr size = x.size(dim), sections = b.integer(n), whole = floor_div(size, sections), longer = mod(size, sections);
  std::vector<Expr> lengths;
  for (int64_t k = 0; k < n; k++) lengths.push_back(whole + cast(lt(b.integer(k), longer), DType::I64));
  return split_by(b, x, dim, lengths);
}

Values sections_at(Builder& b, V x, int64_t dim, const std::vector<Expr>& indices) {
  Values out;
  Arg start = 0;
  for (Expr i : indices) {
    out.push_back(b.call1("aten::slice.Tensor", {x, dim, start, i}));
    start = i;
  }
  out.push_back(b.call1("aten::slice.Tensor", {x, dim, start, INT64_MAX}));
  return out;
}

Values tensor_split_sections(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return even_sections(b, x, c.dim("dim", x.rank()), c.integer("sections"));
}

Values tensor_split_indices(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  return sections_at(b, x, c.dim("dim", x.rank()), c.syms("indices"));
}

// The number in a 0-d tensor, read when run.
Expr item(Builder& b, V x) {
  Expr symbol = b.pool().symbol(b.pool().fresh_symbol("item"));
  b.graph().append(b.block(), Node{.op = "prim::Item", .def = find_op("prim::Item"), .args = {x}}, {Type::scalar(TypeKind::Int, symbol)});
  return symbol;
}

// Sections or indices in a tensor, best a constant of the program: the number of parts must be known.
Values tensor_split_tensor(Builder& b, const Call& c) {
  const Tensor* t = c.graph.constant(c.value("tensor_indices_or_sections"));
  V x = b.input(c, "self"), given = b.input(c, "tensor_indices_or_sections");
  int64_t dim = c.dim("dim", x.rank());
  std::vector<Expr> indices;
  if (!t || t->dtype() != DType::I64) {
    auto n = given.rank() == 1 ? const_int(given.size(0)) : std::nullopt;
    if (!n) unsupported("aten::tensor_split into a number of parts that depends on values");
    for (int64_t k = 0; k < *n; k++) indices.push_back(item(b, b.select(given, 0, b.integer(k))));
    return sections_at(b, x, dim, indices);
  }
  Tensor values = t->contiguous();
  if (values.rank() == 0) return even_sections(b, x, dim, *values.data_as<int64_t>());
  for (int64_t k = 0; k < values.numel(); k++) indices.push_back(b.integer(values.data_as<int64_t>()[k]));
  return sections_at(b, x, dim, indices);
}

// hsplit, vsplit and dsplit are tensor_split along dims 1 (0 for rank 1), 0 and 2.
template <int64_t Dim> Values split_dim(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t dim = Dim == 1 && x.rank() == 1 ? 0 : Dim;
  if (x.rank() <= static_cast<size_t>(dim)) c.fail("self has too few dims");
  if (c.def.signature.find("indices") >= 0) return sections_at(b, x, dim, c.syms("indices"));
  return even_sections(b, x, dim, c.integer("sections"));
}

Values unbind(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  int64_t dim = c.dim("dim", x.rank());
  auto n = const_int(x.size(dim));
  if (!n) unsupported("{}: size {} is not known", c.def.signature.name, to_string(x.size(dim)));
  Values out;
  for (int64_t k = 0; k < *n; k++) out.push_back(b.select(x, dim, b.integer(k)));
  return out;
}

// ---- a view of a part: the other elements stay

V slice_back(Builder& b, const ViewWrite& w) {
  const Call& c = w.call;
  return b.call1("aten::slice_scatter.default", {w.parent, w.now, c["dim"], c["start"], c["end"], c["step"]});
}
V narrow_back(Builder&, const ViewWrite& w) {
  return w.into_range(w.call["dim"], w.call["start"], Arg(w.call.sym("start") + w.call.sym("length")));
}
V select_back(Builder& b, const ViewWrite& w) {
  return b.call1("aten::select_scatter.default", {w.parent, w.now, w.call["dim"], w.call["index"]});
}
V diagonal_back(Builder& b, const ViewWrite& w) {
  return b.call1("aten::diagonal_scatter.default", {w.parent, w.now, w.call["offset"], w.call["dim1"], w.call["dim2"]});
}
V as_strided_back(Builder& b, const ViewWrite& w) {
  return b.call1("aten::as_strided_scatter.default", {w.parent, w.now, w.call["size"], w.call["stride"], w.call["storage_offset"]});
}
V unbind_back(Builder& b, const ViewWrite& w) {
  return b.call1("aten::select_scatter.default", {w.parent, w.now, w.call["dim"], static_cast<int64_t>(w.output)});
}
// A piece starts where the earlier ones end.
V piece_back(Builder& b, const ViewWrite& w) {
  int64_t dim = w.call.dim("dim", w.parent.rank());
  Expr start = b.integer(0);
  for (const Type& earlier : w.results.first(w.output)) start = start + earlier.sizes[static_cast<size_t>(dim)];
  return w.into_range(dim, start, start + w.now.size(dim));
}

const OpRow slice_ops[] = {
    {.schema = "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
     .kind = Kind::View,
     .infer = slice_types,
     .define = slice_define,
     .decompose = slice_identity,
     .view_inverse = slice_back,
     .vectorize = along_dims,
     .vjp = "self: slice_back(grad, self_size, dim, start, end, step)"},
    {.schema = "aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
     .kind = Kind::View,
     .infer = narrow_types,
     .define = narrow_define,
     .decompose = narrow_as_slice,
     .types = "start=any",
     .view_inverse = narrow_back,
     .vectorize = along_dims,
     .vjp = "self: slice_back(grad, self_size, dim, start + (self_size[dim] if start < 0 else 0), start + (self_size[dim] if start < 0 "
            "else 0) + length, 1)"},
    {.schema = "aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
     .kind = Kind::View,
     .infer = select_types,
     .define = select_define,
     .view_inverse = select_back,
     .vectorize = along_dims,
     .vjp = "self: torch.select_backward(grad, self_size, dim, index)"},
    {.schema = "aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
     .kind = Kind::View,
     .infer = diagonal_types,
     .define = diagonal_define,
     .view_inverse = diagonal_back,
     .vjp = "self: torch.diagonal_backward(grad, self_size, offset, dim1, dim2)"},
    {.schema = "aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
     .kind = Kind::View,
     .infer = unfold_types,
     .define = unfold_define,
     .vjp = "self: torch.unfold_backward(grad, self_size, dimension, size, step)"},
    {.schema = "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
     .kind = Kind::View,
     .infer = as_strided_types,
     .define = as_strided_define,
     .decompose = as_strided_in_memory_order,
     .view_inverse = as_strided_back},
    {.schema = "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
     .decompose = split,
     .view_inverse = piece_back,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
     .decompose = same<"aten::split_with_sizes.default">,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
     .decompose = split_with_sizes,
     .view_inverse = piece_back,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
     .decompose = chunk,
     .view_inverse = piece_back,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
     .decompose = tensor_split_sections,
     .view_inverse = piece_back,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
     .decompose = tensor_split_indices,
     .view_inverse = piece_back,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, int dim=0) -> "
               "Tensor(a)[]",
     .decompose = tensor_split_tensor,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
     .decompose = split_dim<1>,
     .vjp = "self: torch.cat(grad, 0 if len(self_size) == 1 else 1)"},
    {.schema = "aten::hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
     .decompose = split_dim<1>,
     .vjp = "self: torch.cat(grad, 0 if len(self_size) == 1 else 1)"},
    {.schema = "aten::vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
     .decompose = split_dim<0>,
     .vjp = "self: torch.cat(grad, 0)"},
    {.schema = "aten::vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
     .decompose = split_dim<0>,
     .vjp = "self: torch.cat(grad, 0)"},
    {.schema = "aten::dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
     .decompose = split_dim<2>,
     .vjp = "self: torch.cat(grad, 2)"},
    {.schema = "aten::dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
     .decompose = split_dim<2>,
     .vjp = "self: torch.cat(grad, 2)"},
    {.schema = "aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
     .decompose = unbind,
     .view_inverse = unbind_back,
     .vjp = "self: torch.stack(grad, dim)"},
    {.schema = "aten::unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
     .decompose = same<"aten::split.Tensor">,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
     .decompose = same<"aten::split_with_sizes.default">,
     .vjp = "self: torch.cat(grad, dim)"},
    {.schema = "aten::unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
     .decompose = same<"aten::chunk.default">,
     .vjp = "self: torch.cat(grad, dim)"},
};

} // namespace

std::span<const OpRow> slice_rows() { return slice_ops; }

} // namespace tenon::ops
