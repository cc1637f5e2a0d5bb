// Indices and slices.
#include <algorithm>

#include "builtins/resolve.h"
#include "script/emitter.h"

namespace tenon::script {

std::optional<int64_t> Emitter::constant_int(ValueId v) const {
  NodeId n = g.value(v).node;
  if (!n.valid() || g.node(n).op != prim::Constant) return std::nullopt;
  auto* a = g.node(n).attribute("value");
  return a && a->is<int64_t>() ? std::optional(a->get<int64_t>()) : std::nullopt;
}

Sugared Emitter::sugared_subscript(const Exp& e, const Subscript& s) {
  Sugared of = sugared(s.value);
  auto* m = of.as<InstanceP>();
  auto* u = of.as<Unrolled>();
  if (!m && !u) return {emit_subscript(e, s)};
  if (s.indices.size() != 1) fail(e->range, "Only a single index is supported here");
  if (m)
    if (auto* l = s.indices[0]->as<Literal>(); l && std::get_if<std::string>(&l->value))
      return attribute(e->range, *m, std::get<std::string>(l->value));
  std::vector<Sugared> items = *unrolled_items(e->range, of);
  auto n = static_cast<int64_t>(items.size());
  auto fixed = [&](const Exp& i, int64_t none_is) {
    if (!i) return none_is;
    auto c = constant_int(expression(i));
    if (!c)
      fail(i->range, "Enumeration of ModuleList or Tuple with a non-constant index is not supported: the index must be an integer literal");
    return *c;
  };
  if (auto* slice = s.indices[0]->as<Slice>()) {
    if (slice->step) fail(e->range, "a step is not supported here");
    auto clamp = [&](int64_t i) { return std::clamp(i < 0 ? i + n : i, int64_t{0}, n); };
    int64_t from = clamp(fixed(slice->lower, 0)), to = clamp(fixed(slice->upper, n));
    Unrolled out;
    for (int64_t i = from; i < to; i++) out.items.push_back(items[static_cast<size_t>(i)]);
    return {out};
  }
  int64_t i = fixed(s.indices[0], 0);
  if (i < -n || i >= n) fail(e->range, "Index {} out of range for list of length {}", i, n);
  return items[static_cast<size_t>(i < 0 ? i + n : i)];
}

ValueId Emitter::emit_subscript(const Exp& e, const Subscript& s) {
  ValueId of = expression(s.value);
  const Type t = type(of);
  Range at = e->range;
  if (t.is_any_tensor()) {
    auto [view, tensors] = views(at, of, s.indices);
    return tensor_index(at, view, tensors);
  }
  if (s.indices.size() != 1) fail(at, "Unsupported operation: attempted to use multidimensional indexing on a non-tensor type");
  const Exp& index = s.indices[0];
  if (auto* sl = index->as<Slice>()) {
    if (t.is(TypeKind::Tuple)) return slice_tuple(e, of, *sl);
    return slice(e, of, *sl);
  }
  if (t.is(TypeKind::Tuple)) return index_tuple(e, of, index);
  if (!t.is(TypeKind::List) && !t.is(TypeKind::Dict) && !t.is(TypeKind::String)) fail(at, "'{}' object is not subscriptable", repr(of));
  ValueId i = expression(index);
  return op(at, call::op_getitem, {of, i});
}

ValueId Emitter::slice(const Exp& e, ValueId of, const Slice& s) {
  Range at = e->range;
  if (!type(of).is(TypeKind::List) && !type(of).is(TypeKind::String)) fail(at, "'{}' object is not subscriptable", repr(of));
  auto bound = [&](const Exp& b) { return b ? expression(b) : none(at); };
  ValueId lower = bound(s.lower), upper = bound(s.upper), step = s.step ? expression(s.step) : integer(at, 1);
  return op(at, call::slice, {of, lower, upper, step});
}

ValueId Emitter::slice_tuple(const Exp& e, ValueId of, const Slice& s) {
  Range at = e->range;
  auto elements = type(of).elements();
  auto n = static_cast<int64_t>(elements.size());
  auto bound = [&](const Exp& b) -> std::optional<int64_t> {
    if (!b) return std::nullopt;
    ValueId v = expression(b);
    if (type(v).is(TypeKind::None)) return std::nullopt;
    auto c = constant_int(v);
    if (!c) fail(b->range, "tuple slice indices must be integer constants");
    return c;
  };
  int64_t step = bound(s.step).value_or(1);
  if (step == 0) fail(at, "slice step cannot be zero");
  auto lower = bound(s.lower), upper = bound(s.upper);
  // A begin below -n leaves nothing.
  auto place = [&](std::optional<int64_t> i, int64_t none_is) { return !i ? none_is : *i < 0 ? *i + n : *i; };
  int64_t from = place(lower, step > 0 ? 0 : n - 1), to = place(upper, step > 0 ? n : -1);
  if (step > 0 && from < 0) from = n;
  if (step < 0) from = std::min(from, n - 1);
  ArgList items;
  std::vector<Type> types;
  for (int64_t i = from; step > 0 ? i < std::min(to, n) : i > std::max<int64_t>(to, -1) && i >= 0; i += step) {
    items.emplace_back(one(at, prim::TupleIndex, {of, integer(at, i)}, elements[static_cast<size_t>(i)]));
    types.push_back(elements[static_cast<size_t>(i)]);
  }
  return one(at, prim::TupleConstruct, items, Type::tuple(types));
}

ValueId Emitter::index_tuple(const Exp& e, ValueId of, const Exp& index) {
  auto elements = type(of).elements();
  auto n = static_cast<int64_t>(elements.size());
  ValueId i = expression(index);
  if (!type(i).is(TypeKind::Int)) fail(e->range, "tuple index must be an integer");
  if (auto c = constant_int(i)) {
    if (*c < -n || *c >= n) fail(e->range, "Tuple index out of range. Tuple is length {} and index is {}", n, *c);
    return one(e->range, prim::TupleIndex, {of, i}, elements[static_cast<size_t>(*c < 0 ? *c + n : *c)]);
  }
  if (elements.empty() || std::any_of(elements.begin(), elements.end(), [&](auto& t) { return !(t == elements[0]); }))
    fail(e->range, "Cannot index into a tuple with a non-integer literal because we cannot resolve the output type");
  return one(e->range, prim::TupleIndex, {of, i}, elements[0]);
}

std::vector<Emitter::IndexPart> Emitter::index_parts(Range at, const Exps& indices) {
  std::vector<IndexPart> parts;
  bool dots = false;
  for (auto& i : indices) {
    if (i->as<Ellipsis>() && dots) fail(at, "An index can only have a single ellipsis ('...')");
    dots = dots || i->as<Ellipsis>();
    bool view = i->as<Slice>() || i->as<Ellipsis>();
    parts.push_back({&i, view ? std::nullopt : std::optional(expression(i))});
  }
  return parts;
}

std::pair<ValueId, std::vector<std::optional<ValueId>>> Emitter::views(Range at, ValueId of, const Exps& indices) {
  std::vector<IndexPart> parts = index_parts(at, indices);
  int64_t dim = 0;
  bool last = false; // behind ...
  std::vector<std::optional<ValueId>> tensors;
  auto put = [&](int64_t d, ValueId v) {
    if (d < 0) fail(at, "Ellipses followed by tensor indexing is currently not supported");
    tensors.resize(std::max(tensors.size(), static_cast<size_t>(d) + 1));
    tensors[static_cast<size_t>(d)] = v;
  };
  // Behind ... dims are counted from the end; a view that drops or adds one moves what stands before it.
  for (size_t k = 0; k < parts.size(); k++) {
    const Exp& e = *parts[k].e;
    if (e->as<Ellipsis>()) {
      dim = 0, last = true;
      for (size_t behind = k + 1; behind < parts.size(); behind++)
        dim -= !parts[behind].value || !type(*parts[behind].value).is(TypeKind::None);
      continue;
    }
    if (auto* s = e->as<Slice>()) {
      if (s->lower || s->upper || s->step) {
        auto bound = [&](const Exp& b) { return b ? convert(at, expression(b), Type::simple(TypeKind::Int), true) : none(at); };
        ValueId d = integer(at, dim), lower = bound(s->lower), upper = bound(s->upper),
                step = s->step ? expression(s->step) : integer(at, 1);
        of = op(at, call::slice, {of, d, lower, upper, step});
      }
      dim++;
      continue;
    }
    ValueId v = *parts[k].value;
    const Type t = type(v);
    if (t.is(TypeKind::Int)) {
      of = op(at, call::select, {of, integer(at, dim), v});
      dim += last;
    } else if (t.is(TypeKind::None)) {
      of = op(at, call::unsqueeze, {of, integer(at, last ? dim - 1 : dim)});
      dim += !last;
    } else if (t.is(TypeKind::List)) {
      put(dim++, op(at, call::tensor, {v}));
    } else if (t.is_any_tensor() || (t.is(TypeKind::Optional) && t.element().is_any_tensor())) put(dim++, v);
    else
      fail(e->range,
           "Unsupported operation: indexing tensor with unsupported index type '{}'. Only ints, slices, lists and tensors are supported",
           repr(v));
  }
  return {of, tensors};
}

ValueId Emitter::index_list(Range at, const std::vector<std::optional<ValueId>>& tensors) {
  ArgList items;
  for (auto& t : tensors) items.emplace_back(t ? *t : none(at));
  return one(at, prim::ListConstruct, items, Type::list(Type::optional(Type::simple(TypeKind::Dynamic))));
}

ValueId Emitter::tensor_index(Range at, ValueId of, const std::vector<std::optional<ValueId>>& tensors) {
  return tensors.empty() ? of : op(at, call::index, {of, index_list(at, tensors)});
}

} // namespace tenon::script
