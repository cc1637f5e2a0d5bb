// Lifter: values, and nodes one after the other.
#include "builtins/elements.h"
#include "executor/constants.h"
#include "executor/lifter.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::executor {

using Tag = IValue::Tag;

namespace {

// Programs are written out as far as loops are unrolled: to be safe from what would take long.
constexpr size_t most_nodes = 4000;

} // namespace

Lift Lifter::lifted(const IValue& v) {
  switch (v.tag()) {
  case Tag::Bool: return number(b_.pool().boolean(v.to_bool()));
  case Tag::Int: return number(b_.pool().integer(v.to_int()));
  case Tag::Double: return number(b_.pool().number(v.to_double(), DType::F64));
  case Tag::Tensor: return make(b_.constant(v.to_tensor()));
  case Tag::List:
  case Tag::Tuple: {
    Lifts items;
    for (const IValue& e : v.is(Tag::List) ? v.to_list() : v.to_tuple()) items.push_back(lifted(e));
    if (v.is(Tag::Tuple)) return tuple(std::move(items));
    Lift made = list(std::move(items));
    (*made.as<ListP>())->element = v.list_box().element;
    return made;
  }
  case Tag::Dict:
  case Tag::Object: refuse(fmt::format("a {}", name_of(v.tag())));
  default: return {v};
  }
}

std::optional<IValue> Lifter::known(const Lift& v) const {
  if (auto* c = v.as<IValue>()) return *c;
  if (auto* n = v.as<NumberState>()) {
    if (!n->value->is_const()) return std::nullopt;
    if (n->value->type == DType::Bool) return IValue(n->value->bits != 0);
    if (is_float(n->value->type)) return IValue(n->value->number());
    return IValue(n->value->bits);
  }
  auto all = [&](const Lifts& items) -> std::optional<std::vector<IValue>> {
    std::vector<IValue> out;
    for (const Lift& e : items) {
      auto k = known(e);
      if (!k) return std::nullopt;
      out.push_back(std::move(*k));
    }
    return out;
  };
  if (auto* t = v.as<TupleState>()) {
    auto items = all(*t->items);
    return items ? std::optional(IValue::tuple(std::move(*items))) : std::nullopt;
  }
  if (auto* l = v.as<ListP>(); l && !(*l)->rows) {
    auto items = all((*l)->items);
    if (!items) return std::nullopt;
    IValue made = IValue::list(std::move(*items));
    made.list_box().element = (*l)->element;
    return made;
  }
  return std::nullopt;
}

Expr Lifter::expression(const Lift& v) {
  if (auto* n = v.as<NumberState>()) return n->value;
  if (auto* i = v.as<Induction>()) {
    Scope& s = *scopes_.at(static_cast<size_t>(i->loop));
    // One more tensor to run over: 0, 1, 2 ...
    Graph& g = out_.program.graph;
    auto it = std::find_if(s.slices.begin(), s.slices.end(), [](auto& p) { return !p.first.valid(); });
    if (it == s.slices.end()) {
      s.slices.emplace_back(ValueId{}, g.add_param(s.block, Type::tensor(DType::I64, {})));
      it = s.slices.end() - 1;
    }
    return expression(item(b_.wrap(it->second), 0, s.length->hi == INT64_MAX ? INT64_MAX : s.length->hi - 1));
  }
  refuse("what should be a number is not known as one");
}

V Lifter::value_of(const Lift& v) {
  auto* t = v.as<TensorP>();
  if (!t) refuse("what should be a tensor is not known as one");
  return read(**t);
}

V Lifter::as_tensor(const Lift& v) {
  if (v.as<TensorP>()) return value_of(v);
  Expr e = expression(v);
  return b_.scalar(e, e->type);
}

const Lifts& Lifter::elements(const ListP& list) {
  if (!list->rows) return list->items;
  auto length = const_int(list->rows->length);
  if (!length) refuse("a list of unknown length");
  RowsState rows = *list->rows;
  Lifts items;
  for (int64_t i = 0; i < *length; i++) items.push_back(slice_of(rows, number(b_.pool().integer(i))));
  if (list->depth != depth_) refuse("a list from outside of a loop, element by element");
  list->items = std::move(items), list->rows = nullptr;
  return list->items;
}

void Lifter::run_block(BlockId block) {
  for (NodeId id : script_.block(block).nodes) run_node(id);
}

void Lifter::run_node(NodeId id) {
  const Node& n = script_.node(id);
  if (++nodes_ > most_nodes) refuse("a program that takes too long to write out");
  b_.set_origin(n.origin);
  if (run_prim(n) || run_list(n) || stack_rows(n) || run_query(n) || run_number(n)) return;
  run_call(n);
}

bool Lifter::run_prim(const Node& n) {
  auto arg = [&](size_t i) -> const Lift& { return of(n.args.at(i).get<ValueId>()); };
  if (n.op == prim::Constant) return n.outputs.empty() || (bind(n, lifted(constant_of(script_, n))), true);
  if (n.op == prim::If) return run_if(n), true;
  if (n.op == prim::Loop) return run_loop(n), true;
  if (n.op == prim::Uninitialized) return bind(n, {Undefined{}}), true;
  if (n.op == prim::unchecked_cast || n.op == prim::unchecked_unwrap_optional) return bind(n, arg(0)), true;
  if (n.op == call::_unwrap_optional) {
    if (arg(0).as<IValue>()) refuse("None where there should be something");
    return bind(n, arg(0)), true;
  }
  if (n.op == prim::ListConstruct || n.op == prim::TupleConstruct) {
    Lifts items;
    for (size_t i = 0; i < n.args.size(); i++) items.push_back(arg(i));
    if (n.op == prim::TupleConstruct) return bind(n, tuple(std::move(items))), true;
    Lift made = list(std::move(items));
    if (n.outputs.empty()) return true;
    const Type& t = script_.type(n.outputs[0]);
    if (t.is(TypeKind::List) && t.element().elements().empty()) (*made.as<ListP>())->element = t.element().kind;
    return bind(n, std::move(made)), true;
  }
  if (n.op == prim::TupleUnpack || n.op == prim::ListUnpack) {
    auto* t = arg(0).as<TupleState>();
    if (!t && !arg(0).as<ListP>()) refuse("an unpacking of something that is not known");
    Lifts items = t ? *t->items : elements(*arg(0).as<ListP>());
    if (items.size() != n.outputs.size()) refuse("an unpacking into another number of values");
    for (size_t i = 0; i < items.size(); i++) env_[n.outputs[i]] = items[i];
    return true;
  }
  if (n.op == prim::TupleIndex) {
    auto* t = arg(0).as<TupleState>();
    auto i = const_int(expression(arg(1)));
    if (!t || !i) refuse("an element of a tuple that is not known");
    auto size = static_cast<int64_t>(t->items->size()), at = *i < 0 ? *i + size : *i;
    if (at < 0 || at >= size) refuse("an element that a tuple does not have");
    return bind(n, Lift((*t->items)[static_cast<size_t>(at)])), true;
  }
  if (n.op == prim::RaiseException || n.op == prim::Print || n.op == prim::isinstance) refuse(n.op.name());
  return false;
}

// What an operator takes for an argument of its schema.
Lift Lifter::passed(const Passed& p, const SchemaArg& schema, const Node& n) {
  auto given = [&](size_t i) -> const Lift& { return of(n.args.at(i).get<ValueId>()); };
  switch (p.from) {
  case Passed::From::Default: return lifted(default_of(schema));
  case Passed::From::List:
  case Passed::From::Repeat: {
    Lifts items;
    for (size_t k = 0; k < p.count; k++) items.push_back(given(p.from == Passed::From::Repeat ? p.index : p.index + k));
    return list(std::move(items));
  }
  case Passed::From::Given: break;
  }
  const Lift& v = given(p.index);
  if (p.convert.empty()) return v;
  if (p.convert == "tuple") {
    auto* t = v.as<TupleState>();
    if (!t) refuse("a tuple that is not known");
    return list(*t->items);
  }
  if (v.as<TensorP>()) return item(value_of(v));
  Expr e = expression(v);
  return number(cast(e, p.convert.starts_with(call::Int.name()) ? DType::I64 : DType::F64));
}

void Lifter::run_call(const Node& n) {
  std::vector<Given> given;
  for (const Arg& a : n.args) given.push_back({script_.type(a.get<ValueId>())});
  bool of_tensor = n.op == prim::abs && given.size() == 1 && given[0].type.is_any_tensor();
  auto r = resolve_node(of_tensor ? call::abs : n.op, given);
  if (!r || r->signature->any_args) refuse(fmt::format("{} on these arguments", n.op));
  Lifts args;
  for (size_t i = 0; i < r->args.size(); i++) args.push_back(passed(r->args[i], r->signature->args[i], n));
  if (r->builtin) fold(n, *r, args);
  else if (r->in_place || r->out) write_result(n, *r, args);
  else call_operator(n, *r, args);
}

// An operator on numbers, strings and lists, all of whose operands are known: computed now.
void Lifter::fold(const Node& n, const Resolved& r, const Lifts& args) {
  std::vector<IValue> values, results(r.signature->returns.size());
  bool shares = std::any_of(r.signature->returns.begin(), r.signature->returns.end(), [](auto& a) { return !a.alias.empty(); });
  bool lists = false;
  for (const Lift& a : args) {
    auto k = known(a);
    if (!k) refuse(fmt::format("{} of what is not known", r.signature->name));
    lists |= k->is(Tag::List);
    values.push_back(std::move(*k));
  }
  if (r.builtin->bind || r.signature->mutates() || shares || r.signature->returns.empty() || (!is_pure(*r.builtin) && !lists))
    refuse(r.signature->name);
  BuiltinCall c{values, results};
  r.builtin->run(c);
  for (size_t i = 0; i < n.outputs.size() && i < results.size(); i++) env_[n.outputs[i]] = lifted(results[i]);
}

} // namespace tenon::executor
