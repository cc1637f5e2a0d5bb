#include "script/emitter.h"

#include "script/annotations.h"

namespace tenon::script {

namespace {
constexpr size_t most_nodes = 500'000, most_elements = 10'000;

// Counts the types that a type consists of, up to a limit: tuples of tuples double with every line.
size_t count_parts(const Type& t, size_t most) {
  size_t n = 1;
  for (const Type& e : t.elements())
    if (n < most) n += count_parts(e, most - n);
  return n;
}

} // namespace

std::shared_ptr<const Origin> Emitter::origin(Range at) {
  if (!at.source) return nullptr;
  size_t place = at.begin;
  for (auto& [p, o] : origins)
    if (p == place && o->range.starts_with(at.source->file)) return o;
  auto o = std::make_shared<Origin>();
  o->range = fmt::format("{}:{}:{}", at.source->file, line_of(at), column_of(at));
  if (origins.size() > 8) origins.clear();
  origins.emplace_back(place, o);
  return o;
}

NodeId Emitter::node(Range at, OpId op, ArgList args, std::vector<Type> types) {
  if (g.num_nodes() > most_nodes) fail(at, "the program has too many operations once its calls are inlined");
  if (op == prim::TupleConstruct && count_parts(types.at(0), most_elements) >= most_elements) fail(at, "a tuple of too many elements");
  Node n;
  n.op = op;
  n.args = std::move(args);
  n.origin = origin(at);
  if (!tracks_gradients && op.dialect() == "aten") n.attributes.push_back({"no_grad", true});
  return g.append(frame->block, std::move(n), std::move(types));
}

ValueId Emitter::constant(Range at, Arg value, Type type) {
  NodeId n = node(at, prim::Constant, {}, {std::move(type)});
  if (!value.is_none()) g.node(n).attributes.push_back({"value", std::move(value)});
  return g.node(n).outputs[0];
}

ValueId Emitter::cast(Range at, ValueId v, const Type& to) { return type(v) == to ? v : one(at, prim::unchecked_cast, {v}, to); }

std::string Emitter::repr(ValueId v) const { return inferred.contains(v) ? "Tensor (inferred)" : annotation(type(v)); }

std::vector<ScriptParam> Emitter::emit_entry(const FunctionRef& fn) {
  std::vector<ScriptParam> params;
  root.block = g.top();
  root.boundary = true;
  frame = &root;
  if (fn.def->refusal) fail_text(fn.def->refusal->range, fn.def->refusal->message);
  stack.push_back({fn, "0:", {}, {}, {}});
  if (fn.def->returns) stack.back().declared = type_of_annotation(fn.def->returns, *fn.scope);
  for (size_t i = fn.self ? 1 : 0; i < fn.def->params.size(); i++) {
    const Param& p = fn.def->params[i];
    Type t = param_type(p, fn);
    ValueId v = g.add_param(g.top(), t, p.name);
    if (!p.annotation) inferred.insert(v);
    root.vars[key(p.name)] = {Sugared{v}, {}, {}};
    params.push_back({p.name, t, {}});
    if (p.fallback) params.back().fallback = default_ivalue(evaluator.evaluate(p.fallback, *fn.scope), p.fallback->range, t);
  }
  if (fn.self) {
    root.vars[key(fn.def->params.empty() ? "self" : fn.def->params[0].name)] = {Sugared{fn.self}, {}, {}};
    register_mutable_attributes(fn.self);
  }
  Flow flow = statements(fn.def->body);
  g.block(g.top()).returns = {body_result(fn.def->range, flow, root)};
  return params;
}

} // namespace tenon::script
