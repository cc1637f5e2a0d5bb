// Assignment, in place and not; del.
#include <algorithm>

#include "builtins/resolve.h"
#include "script/annotations.h"
#include "script/emitter.h"

namespace tenon::script {

void Emitter::emit_assign(const Statement& s, const Assign& a) {
  std::optional<Type> annotated;
  if (a.annotation && qualified_name(a.annotation, *stack.back().fn.scope) != "typing.Final")
    annotated = type_of_annotation(a.annotation, *stack.back().fn.scope);
  if (!a.value) return;
  Sugared value = sugared(a.value, annotated);
  if (auto v = simple(value)) {
    if (annotated) value = {convert(s.range, *v, *annotated, true)};
  } else if (value.as<Unrolled>() && a.value->as<TupleLit>()) value = {as_value(a.value->range, value)};
  for (auto& t : a.targets) assign_to(t, value, annotated);
}

void Emitter::assign_to(const Exp& target, const Sugared& value, const std::optional<Type>& annotated) {
  if (auto* n = target->as<Name>()) return assign_value(target->range, n->id, value.as<Unrolled>() && !hiding ? value : value, annotated);
  if (auto* t = target->as<TupleLit>()) return assign_tuple(target, *t, value);
  if (auto* t = target->as<ListLit>()) return assign_tuple(target, TupleLit{t->items}, value);
  if (auto* s = target->as<Subscript>()) return assign_subscript(target, *s, as_value(target->range, value));
  auto* s = target->as<Select>();
  if (!s) fail(target->range, "Left hand side of assignment statement must be a tuple, a name, a subscript or an attribute");
  Sugared of = sugared(s->value);
  auto* self = of.as<InstanceP>();
  if (!self) fail(target->range, "Tried to set an attribute: {} on a non-class: {}", s->attr, simple(of) ? repr(*simple(of)) : "module");
  std::string k = "@" + (*self)->path + "." + s->attr;
  if (!lookup(k, frame))
    fail(target->range, "Tried to set nonexistent attribute: {}. Did you forget to initialize it in __init__()?", s->attr);
  ValueId v = as_value(target->range, value);
  frame->vars[k] = {Sugared{cast(target->range, v, type(*simple(lookup(k, frame)->value)))}, {}, {}};
}

void Emitter::assign_tuple(const Exp& target, const TupleLit& t, const Sugared& value) {
  size_t stars =
      static_cast<size_t>(std::count_if(t.items.begin(), t.items.end(), [](auto& i) { return i->template as<Star>() != nullptr; }));
  if (stars > 1) fail(target->range, "Only one starred expression is allowed on the lhs");
  size_t wanted = t.items.size() - stars;
  std::vector<Sugared> parts;
  auto v = simple(value);
  if (auto* u = value.as<Unrolled>()) parts = u->items;
  else if (v && type(*v).is(TypeKind::List)) {
    if (stars) fail(target->range, "cannot statically infer the expected size of a list in this context");
    NodeId n = node(target->range, prim::ListUnpack, {*v}, std::vector<Type>(wanted, type(*v).element()));
    for (ValueId o : g.node(n).outputs) parts.push_back({o});
  } else if (v && type(*v).is(TypeKind::Tuple)) {
    NodeId n = node(target->range, prim::TupleUnpack, {*v}, type(*v).elements());
    for (ValueId o : g.node(n).outputs) parts.push_back({o});
  } else if (value.as<InstanceP>()) parts = unrolled_items(target->range, value).value_or(std::vector<Sugared>{});
  else fail(target->range, "{} cannot be used as a tuple", v ? repr(*v) : "value");
  if (parts.size() < wanted)
    fail(target->range, "need {}{} values to unpack but found only {}", stars ? "at least " : "", wanted, parts.size());
  if (parts.size() > wanted && !stars) fail(target->range, "too many values to unpack: need {} but found {}", wanted, parts.size());
  size_t at = 0;
  for (auto& i : t.items) {
    auto* star = i->as<Star>();
    if (!star) {
      assign_to(i, parts[at++]);
      continue;
    }
    ArgList rest;
    std::vector<Type> types;
    for (size_t k = 0; k < parts.size() - wanted; k++) {
      rest.emplace_back(as_value(i->range, parts[at++]));
      types.push_back(type(rest.back().get<ValueId>()));
    }
    assign_to(star->value, {one(i->range, prim::TupleConstruct, rest, Type::tuple(types))});
  }
}

void Emitter::assign_subscript(const Exp& target, const Subscript& s, ValueId value) {
  ValueId of = expression(s.value);
  Range at = target->range;
  if (!type(of).is_any_tensor()) {
    if (s.indices.size() != 1) fail(at, "Sliced expression not yet supported for subscripted assignment. File a bug if you want this");
    if (s.indices[0]->as<Slice>()) fail(at, "Sliced expression not yet supported for subscripted assignment. File a bug if you want this");
    if (type(of).is(TypeKind::Tuple)) fail(at, "{} does not support subscripted assignment", repr(of));
    ValueId index = expression(s.indices[0]);
    if (type(of).is(TypeKind::Dict)) value = convert(at, value, type(of).element(1)), index = convert(at, index, type(of).element(0));
    else if (type(of).is(TypeKind::List)) value = convert(at, value, type(of).element());
    emit_values(at, call::_set_item, {of, index, value});
    return;
  }
  auto [view, tensors] = views(at, of, s.indices);
  if (!type(value).is_any_tensor()) {
    ValueId dtype = op(at, prim::dtype, {view}), device = op(at, prim::device, {view});
    emit_op(at, call::tensor, {{at, value}, {at, dtype, "dtype"}, {at, device, "device"}});
    value = g.node(g.block(frame->block).nodes.back()).outputs[0];
  }
  if (tensors.empty()) emit_values(at, call::copy_, {view, value});
  else emit_values(at, call::index_put_, {view, index_list(at, tensors), value, boolean(at, false)});
}

ValueId Emitter::augmented(Range at, const std::string& o, ValueId left, Range right_at, ValueId right) {
  bool in_place = type(left).is_any_tensor() || type(left).is(TypeKind::List);
  static const std::map<std::string, std::pair<OpId, OpId>> names{{"+", {call::add, call::add_}},
                                                                  {"-", {call::sub, call::sub_}},
                                                                  {"*", {call::mul, call::mul_}},
                                                                  {"/", {call::div, call::div_}},
                                                                  {"%", {call::fmod, call::fmod_}},
                                                                  {"|", {call::op_or, call::bitwise_or_}},
                                                                  {"&", {call::op_and, call::bitwise_and_}},
                                                                  {"^", {call::op_xor, call::bitwise_xor_}},
                                                                  {"<<", {call::op_lshift, call::op_lshift}},
                                                                  {">>", {call::op_rshift, call::op_rshift}},
                                                                  {"**", {call::pow, call::pow_}}};
  auto it = names.find(o);
  if (it == names.end()) fail(at, "unsupported kind of augmented assignment: {}", o);
  OpId name = in_place ? it->second.second : it->second.first;
  if (type(left).is(TypeKind::List) && o != "+" && o != "*") name = it->second.first;
  return pack_results(at, emit_op(at, name, {{at, left}, {right_at, right}}));
}

void Emitter::emit_augmented(const Statement& s, const AugAssign& a) {
  Range at = s.range;
  if (auto* sub = a.target->as<Subscript>()) {
    ValueId of = expression(sub->value);
    if (!type(of).is_any_tensor()) {
      if (sub->indices.size() != 1 || sub->indices[0]->as<Slice>())
        fail(at, "Sliced expression not yet supported for subscripted augmented assignment. File a bug if you want this");
      ValueId index = expression(sub->indices[0]);
      ValueId item = op(at, call::op_getitem, {of, index});
      ValueId value = augmented(at, a.op, item, a.value->range, expression(a.value));
      emit_values(at, call::_set_item, {of, index, value});
      return;
    }
    auto [view, tensors] = views(at, of, sub->indices);
    if (tensors.empty()) {
      augmented(at, a.op, view, a.value->range, expression(a.value));
      return;
    }
    ValueId list = index_list(at, tensors);
    ValueId now = augmented(at, a.op, op(at, call::index, {view, list}), a.value->range, expression(a.value));
    emit_values(at, call::index_put_, {view, list, now, boolean(at, false)});
    return;
  }
  if (!a.target->as<Name>() && !a.target->as<Select>())
    fail(at, "left-hand side of augmented assignment must be a variable, an attribute or a subscript");
  ValueId left = expression(a.target);
  ValueId right = expression(a.value, type(left).is(TypeKind::List) ? std::optional(type(left)) : std::nullopt);
  ValueId result = augmented(at, a.op, left, a.value->range, right);
  if (a.target->as<Select>() && type(left).is_any_tensor() && result != left) {
    auto* sel = a.target->as<Select>();
    Sugared of = sugared(sel->value);
    if (auto* self = of.as<InstanceP>(); self && !lookup("@" + (*self)->path + "." + sel->attr, frame)) return;
  }
  assign_to(a.target, {result});
}

void Emitter::emit_delete(const Exp& target) {
  if (auto* n = target->as<Name>()) {
    named(target, n->id);
    frame->vars.erase(key(n->id));
    if (!lookup(key(n->id), frame)) frame->errors[key(n->id)] = fmt::format("undefined value {}:\n{}", n->id, show(target->range));
    return;
  }
  auto* s = target->as<Subscript>();
  if (!s) fail(target->range, "Only subscripts and names can be deleted");
  if (s->indices.size() != 1 || s->indices[0]->as<Slice>())
    fail(target->range, "del statements only support deletion at a single index, slicing is not supported");
  ValueId of = expression(s->value);
  emit_values(target->range, call::Delete, {of, expression(s->indices[0])});
}

} // namespace tenon::script
