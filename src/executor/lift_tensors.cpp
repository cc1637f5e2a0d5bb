// Lifter: operators on tensors. Views follow what they are views of; writes are new values.
#include "aten/views.h"
#include "builtins/elements.h"
#include "executor/constants.h"
#include "executor/lifter.h"
#include "ops/call_names.h"
#include "ops/names.h"
#include "ops/view_inverse.h"

namespace tenon::executor {

Arg Lifter::arg(const SchemaArg& schema, const Lift& v) {
  if (v.as<TensorP>()) return value_of(v);
  if (auto* l = v.as<ListP>()) {
    ArgList out;
    for (const Lift& e : elements(*l)) out.push_back(arg(schema, e));
    return out;
  }
  if (auto k = known(v)) return arg_of(schema, *k, [&](const IValue& t) { return Arg(b_.constant(t.to_tensor())); });
  if (v.as<Opaque>() || v.as<Undefined>() || v.as<TupleState>()) refuse("an argument that is not known");
  Expr e = expression(v);
  if (schema.type == ArgType::Int && e->type == DType::Bool) return cast(e, DType::I64);
  return schema.type == ArgType::Float ? cast(e, DType::F64) : e;
}

// As the value is now: a view is taken anew where what it shows was written since.
V Lifter::read(TensorState& t) {
  uint32_t version = root_of(t).version;
  if (!t.base || version == t.base_version) return b_.wrap(t.value);
  Graph& g = out_.program.graph;
  ArgList args = g.node(t.view).args;
  args[t.base_arg] = read(*t.base);
  V now = b_.call_full(*g.node(t.view).def, std::move(args)).at(t.output);
  if (t.depth == depth_) t.value = now.id, t.base_version = version;
  return now;
}

void Lifter::write(const TensorP& t, V value) {
  if (t->is_fixed) refuse("a write to a slice, or to what has some");
  has_writes_ = true;
  if (!t->base) { // blocks put back what they write of the values outside of them (leave)
    for (size_t k = static_cast<size_t>(t->depth); k < scopes_.size(); k++) scopes_[k]->written.try_emplace(t, *t);
    t->value = value.id, t->version++;
    return;
  }
  const Graph& g = out_.program.graph;
  Node view = g.node(t->view);
  V parent = read(*t->base);
  view.args[t->base_arg] = parent;
  write(t->base, write_view(b_, g, view, view.args, t->output, parent, value));
  if (t->depth == depth_) t->value = value.id, t->base_version = root_of(*t).version;
}

// Whether it depends on strides, which are not known, that an operator copies its operand instead of showing it.
bool Lifter::may_be_copy(const OpDef& def, const TensorP& base, const Type& result) const {
  if (!def.shares || base->is_row_major) return false;
  Type operand = out_.program.graph.type(base->value), strided = operand, follows = result;
  strided.strides.assign(operand.rank(), out_.program.graph.pool().integer(1));
  if (def.layout_follows) follows.strides = strided.strides;
  return operand.rank() > 0 && def.shares(operand, result) != def.shares(strided, follows);
}

// Of results that are no views.
bool Lifter::makes_row_major(const OpDef& def, const Lifts& args) {
  bool follows = def.kind == Kind::Pointwise || def.layout_follows, has_operands = false;
  auto is_tensor = [](const Lift& l) { return l.as<TensorP>() != nullptr; };
  for (const Lift& a : args) {
    if (auto* l = a.as<ListP>(); l && ((*l)->rows || std::any_of((*l)->items.begin(), (*l)->items.end(), is_tensor))) return false;
    if (!is_tensor(a)) continue;
    has_operands = true;
    if (!follows || !(*a.as<TensorP>())->is_row_major) return false;
  }
  return follows || !has_operands;
}

void Lifter::bind_results(const Node& n, const Resolved& r, const Lifts& args, const Values& results) {
  const Graph& g = out_.program.graph;
  Lifts made;
  for (uint32_t i = 0; i < results.size(); i++) {
    V v = results[i];
    NodeId call = g.value(v.id).node;
    bool whole = call.valid() && g.node(call).def == r.def && g.node(call).outputs.size() == results.size();
    Lift l = make(v);
    TensorState& t = **l.as<TensorP>();
    const SchemaArg& said = r.signature->returns.at(std::min<size_t>(i, r.signature->returns.size() - 1));
    t.is_row_major = said.alias.empty() && makes_row_major(*r.def, args);
    if (!said.alias.empty())
      for (size_t k = 0; k < args.size(); k++) {
        auto* base = args[k].as<TensorP>();
        if (!base || r.signature->args[k].alias.empty() || r.signature->args[k].alias[0] != said.alias[0]) continue;
        bool unsure = may_be_copy(*r.def, *base, v.type());
        if (unsure) fix(args[k]);
        if (v.id == read(**base).id) { // nothing to be done
          if (!unsure) return bind(n, args[k]);
          t.is_fixed = true;
          continue;
        }
        if (!whole) refuse(fmt::format("{}, whose result may be a view", r.signature->name));
        if (r.def->shares && !r.def->shares(g.type((*base)->value), v.type())) continue;
        t.base = *base, t.base_version = root_of(**base).version, t.view = call, t.base_arg = k, t.output = i;
        t.is_fixed = (*base)->is_fixed;
        t.is_row_major = (*base)->is_row_major && r.def->view_inverse == ops::reshaped_back;
        if (auto leaf = root_of(t).leaf) viewed_.insert(*leaf);
      }
    made.push_back(std::move(l));
  }
  if (r.signature->variadic_result) return bind(n, list(std::move(made)));
  for (size_t i = 0; i < n.outputs.size() && i < made.size(); i++) env_[n.outputs[i]] = made[i];
}

bool Lifter::writes_in_place() const {
  for (uint32_t i = 0; i < script_.num_nodes(); i++) {
    const Node& n = script_.node(NodeId{i});
    std::string_view name = n.op.base();
    if (name.ends_with("_") && !name.ends_with("__")) return true;
  }
  return false;
}

void Lifter::call_operator(const Node& n, const Resolved& r, const Lifts& args) {
  const OpDef& def = *r.def;
  if (r.signature->mutates()) refuse(fmt::format("{}, which writes its operands", def.signature.name));
  if (def.data_dependent && depth_ > 0) refuse(fmt::format("{} in a loop or branch", def.signature.name));
  // x[i] in a loop over x is a slice that the scan runs over. Where the graph writes to tensors, it stays a view.
  if (n.op == call::select && args[0].as<TensorP>() && args[2].as<Induction>() && !writes_in_place()) {
    const TensorP& whole = *args[0].as<TensorP>();
    V x = read(*whole);
    Scope& s = *scopes_.at(static_cast<size_t>(args[2].as<Induction>()->loop));
    if (const_int(expression(args[1])) == 0 && x.rank() > 0 && s.is_scan && x.size(0) == s.length &&
        root_of(*whole).depth <= args[2].as<Induction>()->loop)
      return bind(n, slice_of({whole, x.size(0)}, args[2]));
  }
  if (n.op == call::unbind && args.size() == 2 && args[0].as<TensorP>()) {
    V x = value_of(args[0]);
    if (const_int(expression(args[1])) == 0 && x.rank() > 0) {
      const TensorP& whole = *args[0].as<TensorP>();
      whole->is_fixed = true;
      Lift l = list({});
      (*l.as<ListP>())->rows = std::make_shared<RowsState>(RowsState{whole, x.size(0)});
      return bind(n, std::move(l));
    }
  }
  ArgList list;
  for (size_t i = 0; i < args.size(); i++) list.push_back(arg(r.signature->args[i], args[i]));
  bind_results(n, r, args, b_.call_full(def, std::move(list)));
}

// In place, or f(x, out=y).
void Lifter::write_result(const Node& n, const Resolved& r, const Lifts& args) {
  const Lift& target = r.in_place ? args.at(0) : args.back();
  auto* t = target.as<TensorP>();
  if (!t) refuse("a write to what is no tensor");
  if (r.def->data_dependent) refuse(fmt::format("{} in place", r.def->signature.name));
  ArgList list;
  for (size_t i = 0; i < r.def->signature.args.size(); i++) list.push_back(arg(r.signature->args[i], args[i]));
  V self = read(**t);
  Node call{.op = r.in_place ? OpId(r.signature->name) : OpId(r.def->signature.name), .def = r.def};
  if (r.in_place && r.def->view_inverse && r.def->view_inverse != ops::all_elements) refuse("an operand that becomes another view");
  if (r.in_place && (call.op == aten::resize_ || call.op == aten::resize_as_)) refuse("an operand that gets another size");
  V now = inplace_result(b_, call, std::move(list), self);
  for (size_t d = 0; r.out && d < std::max(now.rank(), self.rank()); d++)
    if (now.rank() != self.rank() || now.sizes()[d] != self.sizes()[d]) refuse("a result of another size than out");
  write(*t, now);
  bind(n, target);
}

} // namespace tenon::executor
