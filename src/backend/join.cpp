// Joining in place: what a cat joins is made where the cat has it, and nothing is left to copy.
//   %c = edge::cat([%a, %b], 1)   ->   %a, %b : with the strides of %c;  %c = tenon::join([%a, %b], 1)
// Operands that need other memory are copied there (tenon::to_layout). Cats that grow, cat([a, b]) and cat([a, b, c]),
// share memory: the smaller one is an operand of the larger.
#include "backend/join.h"

#include <unordered_set>

#include "backend/affine.h"
#include "backend/contract.h"
#include "backend/passes.h"
#include "backend/used_symbols.h"
#include "ops/names.h"

namespace tenon {

namespace {

constexpr int64_t least_run = 32;    // bytes of an operand that lie together
constexpr int64_t few_channels = 16; // convolutions of fewer read neighbouring pixels as one row
constexpr size_t most_operands = 128;
constexpr int most_followed = 6; // nodes from a cat back to a step's result

struct Cat {
  NodeId node;
  ValueId value;
  size_t dim;
  std::vector<ValueId> all, operands; // as given; with smaller cats in place of what they join
};

class JoinInPlace {
public:
  explicit JoinInPlace(LoadedProgram& program) : program_(program), r_(program.graph, true), g_(r_.from), pool_(g_.pool()) {}

  bool run() {
    find_uses();
    find_cats();
    for (size_t k = cats_.size(); k-- > 0;) place(cats_[k]);
    if (joins_.empty()) return false;
    r_.node = [this](NodeId id) { rewrite(id); };
    bool changed = true;
    return rewrite_program(program_, r_, changed);
  }

private:
  const std::vector<NodeId>& nodes() const { return g_.block(g_.top()).nodes; }
  static bool is_cat(const Node& n) { return n.op == edge::cat; }

  void find_uses() {
    for (ValueId v : g_.block(g_.top()).params) add_symbols(g_.type(v), known_);
    for (NodeId id : nodes()) {
      on_top_[id] = true;
      std::unordered_set<ValueId> seen;
      for_each_use(g_, id, [&](ValueId v) {
        if (seen.insert(v).second) users_[v].push_back(id);
      });
    }
    for (const Arg& r : g_.block(g_.top()).returns) for_each_value(r, [&](ValueId v) { returned_[v] = true; });
  }

  // ---- cats, and those that grow

  void find_cats() {
    for (NodeId id : nodes()) {
      const Node& n = g_.node(id);
      if (!is_cat(n)) continue;
      ::tenon::Call c(g_, *n.def, n.args);
      Cat cat{.node = id,
              .value = n.outputs[0],
              .dim = static_cast<size_t>(c.dim("dim", g_.type(n.outputs[0]).rank())),
              .all = {},
              .operands = {}};
      for (ValueId v : c.values("tensors"))
        if (g_.type(v).rank() == g_.type(cat.value).rank()) cat.all.push_back(v);
      cat.operands = cat.all;
      if (!has_plain_operands(cat)) continue;
      take_smaller(cat);
      cats_.push_back(std::move(cat));
    }
  }

  // Of one type, and of sizes that are the same as they are written: others are so only after a check.
  bool has_plain_operands(const Cat& cat) const {
    const Type& whole = g_.type(cat.value);
    Symbols used;
    add_symbols(whole, used);
    bool known = std::all_of(used.begin(), used.end(), [&](auto s) { return known_.contains(s); });
    return known && cat.all.size() <= most_operands && std::all_of(cat.all.begin(), cat.all.end(), [&](ValueId v) {
             std::vector<Expr> sizes = g_.type(v).sizes;
             sizes[cat.dim] = whole.sizes[cat.dim];
             return g_.type(v).dtype == whole.dtype && sizes == whole.sizes;
           });
  }

  // The longest earlier cat of some of the operands, in their order, becomes one of them.
  void take_smaller(Cat& cat) {
    const Cat* best = nullptr;
    std::vector<ValueId>::iterator at;
    for (const Cat& c : cats_) {
      size_t least = best ? best->all.size() + 1 : 2;
      if (c.dim != cat.dim || c.all.size() < least || c.all.size() >= cat.all.size() || taken_.get(c.value)) continue;
      auto found = std::search(cat.operands.begin(), cat.operands.end(), c.all.begin(), c.all.end());
      if (found != cat.operands.end() && is_makeable(cat, c.value)) best = &c, at = found;
    }
    if (!best) return;
    taken_[best->value] = true;
    *at = best->value;
    cat.operands.erase(at + 1, at + static_cast<std::ptrdiff_t>(best->all.size()));
  }

  // ---- what can be made in place

  std::vector<Expr> strides_of_whole(const Cat& cat) const {
    auto it = strides_.find(cat.value);
    return it != strides_.end() ? it->second : strides_of(pool_, g_.type(cat.value));
  }

  // What of it lies together in the whole, from dim to the innermost one.
  bool is_long_enough(const Cat& cat, const Type& part) const {
    bool row_major = is_row_major(g_.type(cat.value));
    Expr run = pool_.integer(static_cast<int64_t>(size_of(part.dtype)));
    for (size_t d = 0; d < part.rank(); d++) {
      bool inside = row_major ? d >= cat.dim : cat.dim == 0 || (d == 1 || (cat.dim > 1 && d >= cat.dim));
      if (inside) run = run * part.sizes[d];
    }
    auto bytes = const_int(run);
    return !bytes || *bytes >= least_run;
  }

  // Convolutions know strides of images and of pixels, products those of matrices and rows.
  bool suits(const Node& n, const Type& t, const std::vector<Expr>& strides) const {
    if (!is_contract(g_, n)) return true;
    if (n.def->kind != Kind::Conv) return is_const_int(strides.back(), 1);
    size_t inner = is_row_major(t) ? 1 : 2;
    bool dense = is_const_int(strides[is_row_major(t) ? t.rank() - 1 : 1], 1);
    for (size_t d = inner; d + 1 < t.rank(); d++) dense = dense && strides[d] == strides[d + 1] * t.sizes[d + 1];
    return dense;
  }

  bool reads_in_place(NodeId user, ValueId v, const std::vector<Expr>& strides) const {
    const Node& n = g_.node(user);
    if (!n.blocks.empty() || !has_definition(n) || n.outputs.size() != 1) return false;
    if (n.def->kind == Kind::Conv && is_contract(g_, n)) {
      ::tenon::Call c(g_, *n.def, n.args);
      const Type& weight = g_.type(c.value("weight"));
      bool folds = c.integer("groups") == 1 && *const_int(weight.sizes[1]) < few_channels && *const_int(weight.sizes.back()) > 1;
      if (c.value("input") != v || c.value("weight") == v || (folds && !c.flag("transposed"))) return false;
    }
    return suits(n, g_.type(v), strides);
  }

  bool is_makeable(const Cat& cat, ValueId v) {
    NodeId id = g_.value(v).node;
    if (!id.valid() || !on_top_.get(id) || returned_.get(v) || strides_.contains(v) || g_.stored_constant(v)) return false;
    const Node& n = g_.node(id);
    if (!n.blocks.empty() || !has_definition(n) || n.outputs.size() != 1) return false;
    const Type &t = g_.type(v), &whole = g_.type(cat.value);
    bool alike = is_row_major(whole) ? is_row_major(t) : is_channels_last(pool_, whole) && is_channels_last(pool_, t);
    std::vector<Expr> strides = strides_of_whole(cat);
    if (!alike || !is_long_enough(cat, t) || !suits(n, t, strides)) return false;
    return std::all_of(users_[v].begin(), users_[v].end(), [&](NodeId u) { return reads_in_place(u, v, strides); });
  }

  // ---- whether it pays

  // Whether the value comes from a step of its own anyway: a contraction with its epilogue, or a reduction. Through
  // views: `through`.
  bool is_step_result(ValueId v, bool through, int depth = 0) const {
    NodeId id = g_.value(v).node;
    if (!id.valid() || !on_top_.get(id) || depth > most_followed) return false;
    const Node& n = g_.node(id);
    if (!has_definition(n) || n.outputs.size() != 1) return false;
    if (is_contract(g_, n) || n.def->kind == Kind::Reduce) return true;
    bool follows = n.def->kind == Kind::Pointwise || n.op == edge::_to_copy || is_cat(n) || (through && n.def->kind == Kind::View);
    if (!follows) return false;
    std::vector<ValueId> operands = tensor_operands(n.args, g_);
    return std::any_of(operands.begin(), operands.end(), [&](ValueId o) {
      bool alike = n.def->kind != Kind::Pointwise || g_.type(o).sizes == g_.type(v).sizes;
      return alike && is_step_result(o, through, depth + 1);
    });
  }

  // Whether the cat would be written into the only node that reads it: then it costs no copy.
  bool is_inline(const Cat& cat) {
    if (strides_.contains(cat.value) || returned_.get(cat.value)) return false;
    const std::vector<NodeId>& users = users_[cat.value];
    if (users.size() != 1) return false;
    const Node& n = g_.node(users[0]);
    return n.blocks.empty() && has_definition(n) && n.outputs.size() == 1 && !is_contract(g_, n);
  }

  void place(Cat& cat) {
    bool all = is_inline(cat), fixed = true;
    int64_t made = 0, rest = 0;
    std::vector<ValueId> in_place;
    for (ValueId v : cat.operands) {
      auto size = const_int(g_.type(v).sizes[cat.dim]);
      bool twice = std::find(in_place.begin(), in_place.end(), v) != in_place.end();
      bool makes = !twice && is_makeable(cat, v);
      if (makes) in_place.push_back(v);
      (makes && is_step_result(v, !all) ? made : rest) += size.value_or(1);
      fixed = fixed && size;
    }
    if (made == 0 || (all || !fixed ? rest > 0 : made < rest)) return;
    std::vector<Expr> strides = strides_of_whole(cat);
    for (ValueId v : in_place) strides_[v] = strides, part_of_[v] = cat.node;
    joins_.emplace(cat.node, &cat);
  }

  // ---- the new graph

  // Strides of memory without gaps are left out.
  void lay_out(ValueId v, const std::vector<Expr>& strides) {
    Type& t = r_.to.value(v).type;
    t.strides = {};
    if (strides != strides_of(pool_, t)) t.strides = strides;
  }

  void rewrite(NodeId id) {
    auto join = joins_.find(id);
    if (join == joins_.end()) r_.copy_node(id);
    else r_.set(join->second->value, join_node(*join->second));
    for (ValueId v : g_.node(id).outputs)
      if (auto it = strides_.find(v); it != strides_.end()) lay_out(r_[v], it->second);
  }

  ValueId join_node(const Cat& cat) {
    std::unordered_set<ValueId> placed;
    ArgList parts;
    for (ValueId v : cat.operands) {
      ValueId now = r_[v];
      if (part_of_.get(v) != cat.node || !placed.insert(v).second) {
        now = append({.op = own::to_layout, .def = find_op(own::to_layout), .args = {Arg(now)}, .origin = g_.node(cat.node).origin},
                     r_.to.type(now));
        lay_out(now, strides_of_whole(cat));
      }
      parts.push_back(now);
    }
    Node n{.op = own::join,
           .def = find_op(own::join),
           .args = {Arg(parts), static_cast<int64_t>(cat.dim)},
           .origin = g_.node(cat.node).origin};
    return append(std::move(n), g_.type(cat.value), g_.value(cat.value).name);
  }

  ValueId append(Node n, const Type& type, const std::string& name = {}) {
    NodeId id = r_.to.append(r_.builder.block(), std::move(n), {type}, {name});
    return r_.to.node(id).outputs[0];
  }

  LoadedProgram& program_;
  Rewriter r_;
  const Graph& g_;
  ExprPool& pool_;
  std::unordered_map<ValueId, std::vector<NodeId>> users_;
  Symbols known_;
  SideTable<NodeId, bool> on_top_{false};
  SideTable<ValueId, bool> returned_{false}, taken_{false};
  std::vector<Cat> cats_;
  std::unordered_map<ValueId, std::vector<Expr>> strides_; // of values that lie in another's memory
  SideTable<ValueId, NodeId> part_of_;
  std::unordered_map<NodeId, const Cat*> joins_;
};

} // namespace

bool join_in_place(LoadedProgram& program) { return JoinInPlace(program).run(); }

} // namespace tenon
