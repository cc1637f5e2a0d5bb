// A call of an operator undone: its row's expressions, on what was kept of the call.
#include <algorithm>

#include "autodiff/passes.h"
#include "autodiff/reverse.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::autodiff {

namespace {

std::string place_of(const Node& n) { return n.origin && !n.origin->range.empty() ? "\n  at " + n.origin->range : ""; }

// "result" and "result0" are the first, "result1" the second; -1 for other names.
int counted(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || name.size() > stem.size() + 1) return -1;
  return name == stem ? 0 : std::isdigit(name.back()) ? name.back() - '0' : -1;
}

} // namespace

Reverse::Shares Reverse::shares_of_call(NodeId id, BlockId block, const std::vector<ValueId>& grads, Mirror& m) {
  const Node& n = g_.node(id);
  const Schema& s = *activity_.resolved(id)->signature;
  const Derivative* d = activity_.derivative(id);
  if (!d) {
    bool any = std::any_of(n.args.begin(), n.args.end(), [&](const Arg& a) { return activity_.active(a.get<ValueId>()); });
    if (any) unsupported("{} has no derivative{}", n.op, place_of(n));
    return {};
  }
  size_t tensors = 0;
  for (const Arg& a : n.args) tensors += is_tensor(g_.type(a.get<ValueId>()));
  Shares shares;
  std::vector<const Rule*> done;
  for (size_t i = 0; i < n.args.size() && i < s.args.size(); i++) {
    ValueId to = n.args[i].get<ValueId>();
    const Rule* rule = activity_.active(to) ? d->rule_of(s.args[i].name) : nullptr;
    if (!rule || std::find(done.begin(), done.end(), rule) != done.end()) continue;
    done.push_back(rule);
    std::vector<ValueId> operands;
    for (const std::string& name : rule->params) operands.push_back(operand_of_rule(id, name, grads, *rule, block, m));
    ValueId all = script::emit_call(g_, block, library(), rule->function, operands);
    for (size_t k = 0; k < rule->of.size(); k++) {
      size_t of = static_cast<size_t>(s.find(rule->of[k]));
      if (of >= n.args.size() || !activity_.active(n.args[of].get<ValueId>())) continue;
      ValueId grad = all, index;
      if (rule->of.size() > 1) {
        index = append_constant(g_, block, static_cast<int64_t>(k), Type::simple(TypeKind::Int));
        grad = append_one(g_, block, prim::TupleIndex, {all, index}, g_.type(all).element(k));
      }
      to = n.args[of].get<ValueId>();
      if (d->sums_to_operands && tensors > 1) grad = summed_to(grad, to, block, m);
      if (is_tensor(g_.type(to)) || activity_.is_operand_list(to)) shares.push_back({to, grad});
      else // what a list holds
        call(block, activity_.written(to) ? "add_all_to_memory" : "put_all", {grads_, saved_.reach_content(to, id, false, m), grad});
    }
  }
  return shares;
}

ValueId Reverse::summed_to(ValueId grad, ValueId operand, BlockId block, Mirror& m) {
  ValueId size = saved_.reach_property(operand, call::size, Type::list(Type::simple(TypeKind::Int)), m);
  ValueId dtype = saved_.reach_property(operand, prim::dtype, Type::simple(TypeKind::Int), m);
  return call(block, "reduced", {grad, size, dtype});
}

ValueId Reverse::operand_of_rule(NodeId id, const std::string& name, const std::vector<ValueId>& grads, const Rule& rule, BlockId block,
                                 Mirror& m) {
  const Node& n = g_.node(id);
  const Schema& s = *activity_.resolved(id)->signature;
  if (int i = s.find(name); i >= 0) return argument(id, static_cast<size_t>(i), block, m);
  if (int k = counted(name, "result"); k >= 0) return saved_.reach_content(n.outputs.at(static_cast<size_t>(k)), id, true, m);
  if (int k = counted(name, "grad"); k >= 0) {
    ValueId grad = grads.at(static_cast<size_t>(k)), of = n.outputs.at(static_cast<size_t>(k));
    if (!grad.valid()) return call(block, "zeros", {saved_.reach_content(of, id, true, m)});
    return is_surely(grad) ? grad : call(block, "or_zeros", {grad, saved_.reach_content(of, id, true, m)});
  }
  if (name != "needs") return property(id, name, m);
  ArgList asked;
  Type boolean = Type::simple(TypeKind::Bool);
  for (const std::string& of : rule.of) {
    auto i = static_cast<size_t>(s.find(of));
    asked.emplace_back(append_constant(g_, block, i < n.args.size() && activity_.active(n.args[i].get<ValueId>()), boolean));
  }
  return append_one(g_, block, prim::ListConstruct, std::move(asked), Type::list(boolean));
}

ValueId Reverse::argument(NodeId id, size_t i, BlockId block, Mirror& m) {
  const Node& n = g_.node(id);
  const Resolved& r = *activity_.resolved(id);
  if (i >= n.args.size()) return default_argument(g_, block, r, i);
  ValueId v = saved_.reach_content(n.args[i].get<ValueId>(), id, false, m);
  if (r.args.at(i).from != Passed::From::Repeat) return v;
  ArgList items(r.args[i].count, Arg(v));
  return append_one(g_, block, prim::ListConstruct, std::move(items), Type::list(g_.type(v)));
}

ValueId Reverse::property(NodeId id, const std::string& name, Mirror& m) {
  const Node& n = g_.node(id);
  bool size = name.ends_with("_size");
  std::string of = name.substr(0, name.rfind('_'));
  int i = activity_.resolved(id)->signature->find(of);
  ValueId v = i >= 0 ? n.args.at(static_cast<size_t>(i)).get<ValueId>() : n.outputs.at(static_cast<size_t>(counted(of, "result")));
  return size ? saved_.reach_property(v, call::size, Type::list(Type::simple(TypeKind::Int)), m)
              : saved_.reach_property(v, prim::dtype, Type::simple(TypeKind::Int), m);
}

} // namespace tenon::autodiff
