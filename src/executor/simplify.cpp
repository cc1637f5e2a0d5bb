#include "executor/simplify.h"

#include <algorithm>
#include <map>

#include "builtins/resolve.h"
#include "executor/constants.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::executor {

using Tag = IValue::Tag;

namespace {

class Simplifier {
public:
  explicit Simplifier(Graph& g) : g_(g) {}

  void run() {
    visit(g_.top());
    auto& nodes = g_.block(g_.top()).nodes;
    nodes.insert(nodes.begin(), constants_.begin(), constants_.end());
    count_uses();
    while (sweep(g_.top())) {}
  }

private:
  ValueId now(ValueId v) const {
    auto it = instead_.find(v);
    return it == instead_.end() ? v : it->second;
  }
  Arg now(const Arg& a) const {
    return map_values(a, [&](ValueId v) { return Arg(now(v)); });
  }
  const Node* maker(ValueId v) const {
    NodeId id = g_.value(v).node;
    return id.valid() ? &g_.node(id) : nullptr;
  }

  // A block's nodes in order; those that go leave their block.
  void visit(BlockId block) {
    std::vector<NodeId> before = std::move(g_.block(block).nodes);
    g_.block(block).nodes.clear();
    visit(before, block);
    for (Arg& a : g_.block(block).returns) a = now(a);
  }
  void visit(const std::vector<NodeId>& nodes, BlockId block) {
    for (NodeId id : nodes) {
      for (Arg& a : g_.node(id).args) a = now(a);
      if (!goes(id, block)) {
        for (BlockId inner : std::vector(g_.node(id).blocks)) visit(inner);
        g_.block(block).nodes.push_back(id);
      }
    }
  }

  bool goes(NodeId id, BlockId block) {
    const Node& n = g_.node(id);
    if (n.op == prim::Constant) return unify(id);
    if (n.op == prim::TupleUnpack) {
      const Node* tuple = maker(n.args.at(0).get<ValueId>());
      if (!tuple || tuple->op != prim::TupleConstruct || tuple->args.size() != n.outputs.size()) return false;
      for (size_t i = 0; i < n.outputs.size(); i++) instead_[n.outputs[i]] = tuple->args[i].get<ValueId>();
      return true;
    }
    if (n.op == prim::If) return take_branch(n, block);
    return n.blocks.empty() && compute(id);
  }

  // Equal constants of numbers, texts and None are one. Lists and tensors have identity.
  bool unify(NodeId id) {
    const Node& n = g_.node(id);
    if (n.outputs.size() != 1) return false;
    const Type& t = g_.type(n.outputs[0]);
    IValue v = constant_of(g_, n);
    if (v.is(Tag::Tensor) || v.is(Tag::List) || v.is(Tag::Tuple)) return false;
    std::string key = to_string(t) + ":" + (v.is(Tag::Double) ? std::to_string(std::bit_cast<int64_t>(v.to_double())) : repr(v));
    auto [it, fresh] = known_.try_emplace(key, n.outputs[0]);
    if (fresh) constants_.push_back(id);
    else instead_[n.outputs[0]] = it->second;
    return true;
  }

  bool take_branch(const Node& n, BlockId block) {
    const Node* condition = maker(n.args.at(0).get<ValueId>());
    if (!condition || condition->op != prim::Constant) return false;
    IValue v = constant_of(g_, *condition);
    if (!v.is(Tag::Bool)) return false;
    BlockId taken = n.blocks.at(v.to_bool() ? 0 : 1);
    std::vector<ValueId> outputs = n.outputs;
    visit(std::vector(g_.block(taken).nodes), block);
    for (size_t i = 0; i < outputs.size(); i++) instead_[outputs[i]] = now(g_.block(taken).returns.at(i)).get<ValueId>();
    return true;
  }

  // A pure operator on constants becomes one, unless it raises.
  bool compute(NodeId id) {
    const Node& n = g_.node(id);
    if (n.outputs.size() != 1 || n.args.empty()) return false;
    std::vector<Given> given;
    std::vector<IValue> values;
    for (const Arg& a : n.args) {
      const Node* m = maker(a.get<ValueId>());
      if (!m || m->op != prim::Constant) return false;
      given.push_back({g_.type(a.get<ValueId>())});
      values.push_back(constant_of(g_, *m));
    }
    auto r = resolve_node(n.op, given);
    bool plain =
        r && r->builtin && is_pure(*r->builtin) && r->args.size() == values.size() &&
        std::all_of(r->args.begin(), r->args.end(), [](const Passed& p) { return p.from == Passed::From::Given && p.convert.empty(); });
    if (!plain) return false;
    std::vector<IValue> results(1);
    try {
      BuiltinCall call{values, results};
      r->builtin->run(call);
    } catch (const Error&) {
      return false; // when run
    }
    Arg value;
    if (results[0].is(Tag::Bool)) value = results[0].to_bool();
    else if (results[0].is(Tag::Int)) value = results[0].to_int();
    else if (results[0].is(Tag::Double)) value = results[0].to_double();
    else if (results[0].is(Tag::String)) value = results[0].to_string();
    else return false;
    Node& made = g_.node(id);
    made.op = prim::Constant, made.args.clear(), made.attributes = {{"value", std::move(value)}};
    g_.value(made.outputs[0]).type = type_of(results[0]);
    return unify(id);
  }

  void count_uses() {
    uses_.clear();
    count(g_.top());
  }
  void count(BlockId block) {
    for (NodeId id : g_.block(block).nodes) {
      for (const Arg& a : g_.node(id).args) for_each_value(a, [&](ValueId v) { uses_[v]++; });
      for (BlockId inner : g_.node(id).blocks) count(inner);
    }
    for (const Arg& a : g_.block(block).returns) for_each_value(a, [&](ValueId v) { uses_[v]++; });
  }

  // Without effect where nobody reads it: it makes a value, and reads what others may write only to hand it on.
  bool is_idle(const Node& n) const {
    if (!n.blocks.empty() || n.outputs.empty()) return false;
    if (n.op == prim::Constant || n.op == prim::TupleConstruct || n.op == prim::ListConstruct || n.op == prim::Uninitialized) return true;
    if (n.op == prim::unchecked_cast) return true;
    std::vector<Given> given;
    for (const Arg& a : n.args) given.push_back({g_.type(a.get<ValueId>())});
    auto r = resolve_node(n.op, given);
    return r && r->builtin && is_pure(*r->builtin) && n.op != call::floordiv && n.op != call::remainder && never_raises(n.op);
  }
  static bool never_raises(OpId op) {
    static const OpId safe[] = {call::add, call::sub, call::mul,    call::lt,     call::le,    call::gt,   call::ge,    call::eq,
                                call::ne,  call::neg, call::op_not, call::op_and, call::op_or, call::Bool, call::op_is, call::op_isnot};
    return std::find(std::begin(safe), std::end(safe), op) != std::end(safe);
  }

  bool sweep(BlockId block) {
    bool any = false;
    auto& nodes = g_.block(block).nodes;
    for (size_t k = nodes.size(); k-- > 0;) {
      NodeId id = g_.block(block).nodes[k];
      const Node& n = g_.node(id);
      for (BlockId inner : n.blocks) any |= sweep(inner);
      bool used = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return uses_[v] > 0; });
      if (used || !is_idle(n)) continue;
      for (const Arg& a : n.args) for_each_value(a, [&](ValueId v) { uses_[v]--; });
      nodes.erase(nodes.begin() + static_cast<int64_t>(k));
      any = true;
    }
    return any;
  }

  Graph& g_;
  std::map<ValueId, ValueId> instead_;
  std::map<std::string, ValueId> known_;
  std::vector<NodeId> constants_;
  std::map<ValueId, int> uses_;
};

} // namespace

void simplify(Graph& graph) { Simplifier(graph).run(); }

} // namespace tenon::executor
