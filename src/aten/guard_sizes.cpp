// Size guards. Shape rules take sizes for equal that they cannot compare: broadcast operands of sizes s0 and s1, the common
// dim of a product. torch's own programs make them equal by their guards; whatever the program, no operand is read beyond its end.
#include <unordered_set>

#include "aten/passes.h"
#include "ir/define.h"

namespace tenon {

namespace {

bool has_symbols(const Graph& g) {
  for (uint32_t i = 0; i < g.num_values(); i++)
    for (Expr s : g.type(ValueId{i}).sizes)
      if (!s->is_const()) return true;
  return false;
}

// Loads that every element makes: in a definition a select chooses what is read, a pointwise body reads all its operands.
void collect_loads(Expr e, bool through_select, std::unordered_set<const ExprNode*>& seen, std::vector<Expr>& loads) {
  if (!seen.insert(e.get()).second) return;
  if (e->op == Op::Load) loads.push_back(e);
  size_t n = e->op == Op::Select && !through_select ? 1 : e->args.size();
  for (size_t i = 0; i < n; i++) collect_loads(e->args[i], through_select, seen, loads);
}

class GuardSizes {
public:
  explicit GuardSizes(LoadedProgram& program) : program_(program), r_(program.graph, false) {}

  bool run() {
    r_.node = [this](NodeId id) {
      guard(program_.graph.node(id));
      r_.copy_node(id);
    };
    r_.block = [this](BlockId old, BlockId now) { // guards of a block hold in its inner blocks
      auto outer = known_;
      r_.copy_block(old, now);
      known_ = std::move(outer);
    };
    return rewrite_program(program_, r_, changed_);
  }

private:
  void guard(const Node& n) {
    if (n.op.starts_with("prim::")) {
      if (n.op == "prim::Assert" && n.args[0].is<Expr>()) known_.insert(n.args[0].get<Expr>().get());
      return;
    }
    if (!has_definition(n)) return;
    const Graph& g = program_.graph;
    std::vector<ValueId> operands = tensor_operands(n.args, g);
    std::unordered_set<const ExprNode*> seen;
    std::vector<Expr> loads;
    collect_loads(definition_of(g, n).body, n.def->body != nullptr, seen, loads);
    bool broadcasts = n.def->body != nullptr; // then sizes are the same; a definition may read less than there is
    for (Expr load : loads) {
      const Type& t = g.type(operands.at(static_cast<size_t>(load->bits)));
      for (size_t d = 0; d < t.rank(); d++)
        if (load->args[d]->op == Op::Axis) require_fit(n, t, d, load->args[d]->args[0], broadcasts);
    }
  }

  void require_fit(const Node& n, const Type& t, size_t d, Expr extent, bool exactly) {
    Expr fits = exactly ? eq(extent, t.sizes[d]) : le(extent, t.sizes[d]);
    if (fits->is_const() && fits->bits) return;
    if (known_.contains(eq(extent, t.sizes[d]).get()) || known_.contains(eq(t.sizes[d], extent).get()) || !known_.insert(fits.get()).second) return;
    std::string why = fmt::format("{}: an operand of size {} in dim {} meets one of size {}", n.op, to_string(t.sizes[d]), d, to_string(extent));
    r_.to.append(r_.builder.block(), Node{.op = "prim::Assert", .def = find_op("prim::Assert"), .args = {fits, why}, .origin = n.origin}, {});
    changed_ = true;
  }

  LoadedProgram& program_;
  Rewriter r_;
  std::unordered_set<const ExprNode*> known_;
  bool changed_ = false;
};

} // namespace

bool guard_sizes(LoadedProgram& program) { return has_symbols(program.graph) && GuardSizes(program).run(); }

} // namespace tenon
