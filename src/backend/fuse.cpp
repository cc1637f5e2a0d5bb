// Fusion: which nodes one step computes together. Nodes are visited in order; each joins the region of one of its
// operands where its loads line up and no cycle between regions comes of it, or starts one.
#include <map>
#include <set>
#include <unordered_set>

#include "backend/affine.h"
#include "backend/attention.h"
#include "backend/column_slices.h"
#include "backend/contract.h"
#include "backend/fuse_cost.h"
#include "backend/join.h"
#include "backend/partition.h"
#include "backend/passes.h"
#include "backend/region.h"
#include "backend/used_symbols.h"
#include "ops/names.h"

namespace tenon {

namespace {

enum class Role : uint8_t { Other, Inline, Member, Contract };

struct Group : Region {
  std::unique_ptr<RegionDomain> domain; // null for steps of a single node
};

class Fuse {
public:
  Fuse(const Graph& g, BlockId block, SlicedProducts& sliced) : g_(g), block_(block), inliner_(g), sliced_(sliced) {
    // What an attention computes block by block is inside its region, and yet nothing that can be written out.
    inliner_.is_inline = [this](ValueId v) {
      return roles_.get(v) == Role::Inline &&
             !(in_attention_.get(g_.value(v).node) && inliner_.own(g_.value(v).node).reduction != Reduction::None);
    };
  }

  // Nothing where products can not be read by slices after all: then all over again, with those whole.
  std::optional<Partition> run() {
    count_uses();
    for (NodeId id : nodes()) find_attention(id);
    while (!assign_roles()) {}
    inliner_.clear();
    for (NodeId id : nodes()) place(id);
    if (give_up_slices()) return std::nullopt;
    return partition();
  }

private:
  const std::vector<NodeId>& nodes() const { return g_.block(block_).nodes; }
  bool is_define(const Node& n) const { return has_definition(n) && n.outputs.size() == 1 && !is_join(n); }

  void count_uses() {
    auto use = [&](ValueId v, NodeId by) { users_[v].push_back(by); };
    std::unordered_set<const ExprNode*> known;
    for (ValueId v : g_.block(g_.top()).params) add_symbols(g_.type(v), known);
    for (NodeId id : nodes()) {
      const Node& n = g_.node(id);
      in_block_[id] = true;
      note_bound(id, known);
      std::unordered_set<ValueId> seen;
      for_each_use(g_, id, [&](ValueId v) {
        if (seen.insert(v).second) use(v, id);
      });
      // Values that inner blocks capture, or that something other than a definition reads, need memory.
      if (!n.blocks.empty()) for_each_use(g_, id, [&](ValueId v) { needs_memory_[v] = true; });
      else if (!is_define(n)) {
        for (const Arg& a : n.args) for_each_value(a, [&](ValueId v) { needs_memory_[v] = true; });
        for (const Attribute& a : n.attributes) for_each_value(a.value, [&](ValueId v) { needs_memory_[v] = true; });
      }
    }
    for (const Arg& r : g_.block(block_).returns) for_each_value(r, [&](ValueId v) { needs_memory_[v] = true; });
  }

  // Sizes read from data are bound where they first appear; their users come after that node.
  void note_bound(NodeId id, std::unordered_set<const ExprNode*>& known) {
    const Node& n = g_.node(id);
    for_each_use(g_, id, [&](ValueId v) { add_symbols(g_.type(v), known); });
    std::unordered_set<const ExprNode*> mine;
    if (n.op == prim::Item || (n.def && n.def->data_dependent) || !n.blocks.empty())
      for (ValueId v : n.outputs) add_symbols(g_.type(v), mine);
    for (const ExprNode* s : mine)
      if (known.insert(s).second) binders_[s] = id;
  }

  void bound_groups(NodeId id, std::vector<int>& out) const {
    if (binders_.empty()) return;
    std::unordered_set<const ExprNode*> used;
    add_symbols(g_, id, used);
    for (const ExprNode* s : used)
      if (auto it = binders_.find(s); it != binders_.end() && it->second != id && group_of_.get(it->second) >= 0)
        out.push_back(group_of_.get(it->second));
  }

  const std::vector<NodeId>* uses_of(ValueId v) const { return needs_memory_.get(v) || !users_.contains(v) ? nullptr : &users_.at(v); }

  void find_attention(NodeId id) {
    std::string why;
    auto found = tenon::find_attention(g_, id, [&](ValueId v) { return uses_of(v); }, why);
    if (!found && !why.empty()) refused_[id] = why;
    if (!found || std::any_of(found->between.begin(), found->between.end(), [&](NodeId n) { return in_attention_.get(n); })) return;
    for (NodeId n : found->between) in_attention_[n] = true;
    attentions_[id] = std::move(*found);
  }

  // False where an attention was given up: then all over again, without it.
  bool assign_roles() {
    for (NodeId id : nodes()) {
      assign_role(id);
      auto it = attentions_.find(id);
      if (it == attentions_.end() || address_attention(id, it->second)) continue;
      for (NodeId n : it->second.between) in_attention_[n] = false;
      attentions_.erase(it);
      roles_ = SideTable<ValueId, Role>(Role::Other), in_epilogue_ = SideTable<ValueId, bool>(false);
      inliner_.clear();
      return false;
    }
    return true;
  }

  // Like a contraction, with operands that may be any affine function of digits of the batch.
  bool address_attention(NodeId product, const AttentionNodes& a) {
    for (NodeId n : a.between)
      for (ValueId v : tensor_operands(g_.node(n).args, g_)) gather_ahead(v);
    inliner_.clear();
    while (true) {
      ValueId operand;
      if (match_attention(g_, product, a.scores, inliner_, refused_[product], &operand)) return refused_.erase(product), true;
      if (!operand.valid() || roles_.get(operand) != Role::Inline) return false;
      make_member(operand);
      inliner_.clear();
    }
  }

  // What scores read is read once for every query: masks and biases that are looked up by indices from memory are looked up before.
  void gather_ahead(ValueId v) {
    NodeId id = g_.value(v).node;
    if (roles_.get(v) != Role::Inline || in_attention_.get(id)) return;
    bool gathers = contains(inliner_.own(id).body, [](const ExprNode& n) {
      return n.op == Op::Load && std::any_of(n.args.begin(), n.args.end(),
                                             [](Expr i) { return contains(i, [](const ExprNode& m) { return m.op == Op::Load; }); });
    });
    if (gathers) return make_member(v);
    for (ValueId o : tensor_operands(g_.node(id).args, g_)) gather_ahead(o);
  }

  void assign_role(NodeId id) {
    const Node& n = g_.node(id);
    if (!is_define(n)) return;
    ValueId v = n.outputs[0];
    if (in_attention_.get(id) || attentions_.contains(id)) {
      roles_[v] = in_attention_.get(id) ? Role::Inline : Role::Contract;
      return;
    }
    if (is_contract(g_, n)) {
      roles_[v] = Role::Contract;
      for (ValueId operand : tensor_operands(n.args, g_)) require_address(n, operand);
      sliced_.find(id, [&](ValueId x) { return uses_of(x); }, inliner_);
      return;
    }
    if ((roles_[v] = sliced_.is_between(id) ? Role::Inline : Role::Member) == Role::Inline) return;
    const Compute& c = inliner_.definition(id);
    if (needs_memory_.get(v) || c.reduction != Reduction::None) return;
    InlineCost cost = inline_cost(c.body);
    if (is_narrowing(n) && is_of_product(n.args[0].get<ValueId>())) return;
    if (n.op.name().starts_with(own::to_layout.name()) && is_read_again(n)) return;
    if (is_always_inline(n.def->kind, cost) || (is_used_once(n) && is_inline_when_used_once(cost) && !is_epilogue(n)))
      roles_[v] = Role::Inline;
  }

  // Slices are read side by side where one region computes all that is made of them.
  bool give_up_slices() {
    return sliced_.give_up([&](NodeId product) {
      const Group& g = groups_[static_cast<size_t>(group_of_.get(product))];
      return g.nodes.size() == 1 || is_used_outside(g, g_.node(product).outputs[0]);
    });
  }

  // Whether something that is not in the group reads a value of it.
  bool is_used_outside(const Group& g, ValueId v) {
    if (needs_memory_.get(v)) return true;
    return std::ranges::any_of(users_[v], [&](NodeId user) {
      const Node& n = g_.node(user);
      if (n.outputs.size() == 1 && roles_.get(n.outputs[0]) == Role::Inline) return is_used_outside(g, n.outputs[0]);
      return std::ranges::find(g.nodes, user) == g.nodes.end();
    });
  }

  bool is_narrowing(const Node& n) const {
    return n.op == edge::_to_copy && size_of(g_.type(n.outputs[0]).dtype) < size_of(g_.type(n.args[0].get<ValueId>()).dtype);
  }
  // What an epilogue computes, for nobody but the cast that asks: it is stored as narrow as the cast makes it.
  bool is_of_product(ValueId v) const {
    auto users = users_.find(v);
    if (users == users_.end() || users->second.size() != 1 || needs_memory_.get(v)) return false;
    if (roles_.get(v) == Role::Contract) return !attentions_.contains(g_.value(v).node);
    const Node* n = g_.value(v).node.valid() ? &g_.node(g_.value(v).node) : nullptr;
    if (!n || !n->def || (n->def->kind != Kind::Pointwise && n->def->kind != Kind::View) || roles_.get(v) == Role::Other) return false;
    std::vector<ValueId> operands = tensor_operands(n->args, g_);
    return std::any_of(operands.begin(), operands.end(), [&](ValueId o) { return is_of_product(o); });
  }

  // Computed from a contraction's result that nothing else uses, and only looked at by a view: an epilogue computes it for
  // nothing, and leaves to those behind the view something in memory to address.
  bool is_epilogue(const Node& n) {
    if (const Node& user = g_.node(users_.at(n.outputs[0])[0]);
        n.def->kind != Kind::Pointwise || user.def->kind != Kind::View || user.op == edge::_to_copy)
      return false;
    std::function<bool(ValueId, int)> is_result = [&](ValueId v, int depth) {
      Role role = roles_.get(v);
      if (users_.at(v).size() != 1 || role != Role::Inline)
        return users_.at(v).size() == 1 && (role == Role::Contract || in_epilogue_.get(v));
      return depth < most_in_epilogue &&
             std::ranges::any_of(tensor_operands(g_.node(g_.value(v).node).args, g_), [&](ValueId o) { return is_result(o, depth + 1); });
    };
    return in_epilogue_[n.outputs[0]] = std::ranges::any_of(tensor_operands(n.args, g_), [&](ValueId o) { return is_result(o, 0); });
  }

  // Used by one definition only, which does not read it repeatedly: writing it there costs nothing.
  bool is_used_once(const Node& n) {
    auto it = users_.find(n.outputs[0]);
    if (it == users_.end() || it->second.size() != 1) return false;
    const Node& user = g_.node(it->second[0]);
    if (!is_define(user) || is_contract(g_, user)) return false;
    if (user.op == edge::cat) return is_cheap_to_choose(inline_cost(inliner_.definition(g_.value(n.outputs[0]).node).body));
    ExprPool& pool = g_.pool();
    Expr points = product(pool, g_.type(user.outputs[0]).sizes);
    for (Expr a : inliner_.own(it->second[0]).reduce_axes) points = points * a->args[0];
    return proves_le(points, product(pool, g_.type(n.outputs[0]).sizes));
  }

  // Turned for what reads it again and again, maybe as another type that is not put into memory itself.
  bool is_read_again(const Node& n) {
    if (!is_used_once(n)) return true;
    for (auto it = users_.find(n.outputs[0]); it != users_.end() && it->second.size() == 1;) {
      const Node& user = g_.node(it->second[0]);
      if (user.op != edge::_to_copy) return !is_used_once(g_.node(g_.value(it->first).node));
      it = users_.find(user.outputs[0]);
    }
    return false;
  }

  // A contraction reads its operands by strides: what is not addressable so is put into memory.
  void require_address(const Node& n, ValueId operand) {
    if (roles_.get(operand) != Role::Inline) return;
    auto address = n.def->kind == Kind::Matmul ? matmul_operand(g_, inliner_, operand) : std::nullopt;
    if (!address || is_scattered(g_, *address, g_.type(operand))) make_member(operand);
  }

  // Not inline after all. Definitions made before with it inlined stay valid.
  void make_member(ValueId v) { roles_[v] = Role::Member; }

  // Checks of the sizes that the node computes with come before it: they keep it within its operands.
  void checking_groups(NodeId id, std::vector<int>& out) const {
    if (checks_.empty()) return;
    std::unordered_set<const ExprNode*> used;
    add_symbols(g_, id, used);
    for_each_use(g_, id, [&](ValueId v) { add_symbols(g_.type(v), used); });
    for (auto& [symbols, group] : checks_)
      if (std::all_of(symbols.begin(), symbols.end(), [&](auto s) { return used.contains(s); })) out.push_back(group);
  }
  // Checks of the same symbols form a chain, of which only the last is asked for.
  void note_check(NodeId id, int group) {
    if (g_.node(id).op != prim::Assert) return;
    std::unordered_set<const ExprNode*> symbols;
    add_symbols(g_, id, symbols);
    auto [last, fresh] = checks_.try_emplace({symbols.begin(), symbols.end()}, group);
    if (!fresh) needs_[static_cast<size_t>(group)].insert(std::exchange(last->second, group));
  }

  // Regions that the node's results need: those of its operands, through inline nodes.
  void operand_groups(NodeId id, std::vector<int>& out, std::unordered_set<NodeId>& seen) const {
    if (!seen.insert(id).second) return;
    bound_groups(id, out);
    checking_groups(id, out);
    for_each_use(g_, id, [&](ValueId v) {
      NodeId def = g_.value(v).node;
      if (!def.valid() || !in_block_.get(def)) return;
      if (roles_.get(v) == Role::Inline) operand_groups(def, out, seen);
      else if (group_of_.get(def) >= 0) out.push_back(group_of_.get(def));
    });
  }

  bool reaches(int from, int to, std::vector<bool>& seen) const { // `from` needs `to`, directly or not
    if (from == to) return true;
    if (seen[static_cast<size_t>(from)]) return false;
    seen[static_cast<size_t>(from)] = true;
    for (int next : needs_[static_cast<size_t>(from)])
      if (reaches(next, to, seen)) return true;
    return false;
  }

  bool makes_cycle(const std::vector<int>& operands, int group) const {
    std::vector<bool> seen(groups_.size(), false); // they do not reach it, nor does what they need
    return std::any_of(operands.begin(), operands.end(), [&](int o) { return o != group && reaches(o, group, seen); });
  }

  int new_group(NodeId id) {
    groups_.emplace_back();
    groups_.back().nodes.push_back(id);
    needs_.emplace_back();
    return static_cast<int>(groups_.size() - 1);
  }

  void place(NodeId id) {
    const Node& n = g_.node(id);
    if (!n.outputs.empty() && roles_.get(n.outputs[0]) == Role::Inline) return;
    std::vector<int> operands;
    std::unordered_set<NodeId> seen;
    operand_groups(id, operands, seen);
    int group = -1;
    bool member = !n.outputs.empty() && roles_.get(n.outputs[0]) == Role::Member;
    if (member && (group = join(id, operands)) < 0) group = join_sibling(id, operands);
    if (group < 0) {
      group = new_group(id);
      Group& made = groups_.back();
      Role role = n.outputs.empty() ? Role::Other : roles_.get(n.outputs[0]);
      if (role == Role::Member || role == Role::Contract) made.domain = std::make_unique<RegionDomain>(g_, inliner_);
      if (role == Role::Member) made.domain->start(id);
      if (role == Role::Contract) made.contract = id, made.is_attention = attentions_.contains(id), made.slices = sliced_.slices_of(id);
      if (role == Role::Contract) made.domain->start_with_value(n.outputs[0], made.slices);
    }
    group_of_[id] = group;
    note_check(id, group);
    if (member) note_loads(id, group);
    for (int o : operands)
      if (o != group) needs_[static_cast<size_t>(group)].insert(o);
  }

  // The latest region among the operands' that takes the node; -1 where none does.
  int join(NodeId id, std::vector<int> operands) {
    std::sort(operands.begin(), operands.end());
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    for (size_t k = operands.size(); k-- > 0;) {
      int group = operands[k];
      Group& g = groups_[static_cast<size_t>(group)];
      if (!g.domain || makes_cycle(operands, group)) continue;
      if (g.contract.valid() && !follows_contract(id)) continue;
      auto member = g.domain->candidate(id);
      if (!member || (g.contract.valid() && !g.is_attention && !lies_as(*member, g)) || g.domain->turns(*member)) continue;
      g.domain->join(std::move(*member));
      g.nodes.push_back(id);
      return group;
    }
    return -1;
  }

  void note_loads(NodeId id, int group) {
    visit(inliner_.definition(id).body, [&](const ExprNode& n) {
      if (n.op != Op::Load) return;
      auto& readers = readers_[n.bits];
      if (readers.empty() || readers.back() != group) readers.push_back(group);
    });
  }

  // A region that reads the same memory in the same order, so that it is read once for both.
  int join_sibling(NodeId id, const std::vector<int>& operands) {
    std::vector<int> candidates;
    visit(inliner_.definition(id).body, [&](const ExprNode& n) {
      if (n.op != Op::Load) return;
      if (auto it = readers_.find(n.bits); it != readers_.end()) candidates.insert(candidates.end(), it->second.begin(), it->second.end());
    });
    std::sort(candidates.rbegin(), candidates.rend());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    if (candidates.size() > most_siblings) candidates.resize(most_siblings);
    for (int group : candidates) {
      Group& g = groups_[static_cast<size_t>(group)];
      if (!g.domain || g.contract.valid() || g.nodes.size() >= most_members || makes_cycle(operands, group)) continue;
      auto member = g.domain->candidate(id, true);
      if (!member || g.domain->turns(*member)) continue;
      g.domain->join(std::move(*member));
      g.nodes.push_back(id);
      return group;
    }
    return -1;
  }

  // Whether its elements lie as those of the contraction, or of a slice of its columns, but for gaps: then one may be written over the
  // other.
  bool lies_as(const RegionMember& a, const Group& g) const {
    const RegionMember& first = g.domain->members()[0];
    Type t = without_gaps(g_.pool(), g_.type(first.value));
    if (g.slices > 1) t.sizes.back() = g_.pool().integer(*const_int(t.sizes.back()) / g.slices);
    return flat_offset(g_.pool(), without_gaps(g_.pool(), g_.type(a.value)), a.index) == flat_offset(g_.pool(), t, first.index);
  }

  // What may be computed on a contraction's result tile by tile: no reductions.
  bool follows_contract(NodeId id) const { return inliner_const().definition(id).reduction == Reduction::None; }
  Inliner& inliner_const() const { return const_cast<Inliner&>(inliner_); }

  Partition partition();

  const Graph& g_;
  BlockId block_;
  Inliner inliner_;
  SlicedProducts& sliced_;
  SideTable<ValueId, Role> roles_{Role::Other};
  SideTable<ValueId, bool> in_epilogue_{false}; // stored because an epilogue makes them, and a view follows
  SideTable<ValueId, bool> needs_memory_{false};
  SideTable<NodeId, bool> in_block_{false};
  SideTable<NodeId, int> group_of_{-1};
  std::unordered_map<ValueId, std::vector<NodeId>> users_;
  std::unordered_map<const ExprNode*, NodeId> binders_; // symbols that nodes of the block give values to
  std::map<std::set<const ExprNode*>, int> checks_;     // the last step that checks sizes made of these symbols
  SideTable<NodeId, bool> in_attention_{false};
  std::unordered_map<NodeId, AttentionNodes> attentions_; // by their last product
  std::unordered_map<NodeId, std::string> refused_;       // products that are nearly one
  std::vector<Group> groups_;
  std::vector<std::unordered_set<int>> needs_;
  std::unordered_map<int64_t, std::vector<int>> readers_;       // value in memory -> regions that load it
  static constexpr size_t most_siblings = 4, most_members = 24; // tries, and nodes of a region that still takes siblings
};

// The groups as regions, each after all it needs.
Partition Fuse::partition() {
  Partition p{.regions = {}, .is_inline = SideTable<ValueId, bool>(false)};
  for (NodeId id : nodes())
    for (ValueId v : g_.node(id).outputs) p.is_inline[v] = roles_.get(v) == Role::Inline;
  for (size_t i = 0; i < groups_.size(); i++) {
    Group& g = groups_[i];
    g.is_step = !g.domain;
    for (NodeId id : g.nodes) {
      if (auto why = refused_.find(id); why != refused_.end()) g.refused.push_back(why->second);
      if (g.domain && is_used_outside(g, g_.node(id).outputs[0])) g.results.push_back(g_.node(id).outputs[0]);
    }
    g.needs.assign(needs_[i].begin(), needs_[i].end());
    p.regions.push_back(g);
  }
  return p;
}

} // namespace

bool fuse(LoadedProgram& program) {
  const Graph& from = program.graph;
  for (NodeId id : from.block(from.top()).nodes)
    for (auto region : {own::loops, own::matmul, own::conv, own::attention})
      if (from.node(id).op == region) return false;
  Rewriter r(from, true);
  for (uint32_t i = 0; i < from.num_tensors(); i++) r.to.add_tensor(from.stored(TensorId{i}));
  r.copy_params(from.top(), r.to.top());
  // Inner blocks are fused on their own.
  r.node = [&](NodeId id) { r.copy_node(id); };
  r.block = [&](BlockId old, BlockId now) {
    SlicedProducts sliced(from);
    std::optional<Partition> partition;
    while (!partition) partition = Fuse(from, old, sliced).run();
    emit_partition(from, old, *partition, r, now);
  };
  r.block(from.top(), r.to.top());
  for (auto& in : program.inputs)
    if (in.value.valid()) in.value = r[in.value];
  program.graph = std::move(r.to);
  return true;
}

} // namespace tenon
