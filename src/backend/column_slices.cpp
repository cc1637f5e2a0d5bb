#include "backend/column_slices.h"

#include "backend/contract.h"

namespace tenon {

namespace {

constexpr int64_t most_slices = 4; // tiles of so many vectors exist in every family
constexpr int64_t least_width = 8; // vectors of fewer columns are mostly padding

class Finder {
public:
  Finder(const Graph& g, const ValueUses& uses, Inliner& inliner, Expr columns)
      : g_(g), uses_(uses), inliner_(inliner), columns_(columns), all_(*const_int(columns)) {}

  /// How many slices; 1 where it is read otherwise.
  int64_t find(ValueId product) { return follow(product) && width_ > 0 ? all_ / width_ : 1; }
  std::vector<NodeId> between;

private:
  bool follow(ValueId v) {
    const std::vector<NodeId>* users = uses_(v);
    return users && std::all_of(users->begin(), users->end(), [&](NodeId user) { return visit_user(user, v); });
  }

  bool visit_user(NodeId id, ValueId from) {
    const Node& n = g_.node(id);
    if (!has_definition(n) || n.outputs.size() != 1) return false;
    between.push_back(id);
    const Type& t = g_.type(n.outputs[0]);
    bool whole = t.rank() > 0 && t.sizes.back() == columns_;
    if (n.def->kind == Kind::Pointwise) return whole && t.sizes == g_.type(from).sizes && follow(n.outputs[0]);
    if (n.def->kind != Kind::View) return false;
    return is_slice(id, from) || (whole && follow(n.outputs[0]));
  }

  // Columns c * width + j of everything: what is made of them is made element by element.
  bool is_slice(NodeId id, ValueId from) {
    const Node& n = g_.node(id);
    const Compute& c = inliner_.own(id);
    const Type &t = g_.type(n.outputs[0]), &whole = g_.type(from);
    auto width = t.rank() > 0 ? const_int(t.sizes.back()) : std::nullopt;
    if (!width || *width < least_width || all_ % *width != 0 || all_ / *width > most_slices || *width == all_ ||
        (width_ && *width != width_))
      return false;
    if (t.rank() != whole.rank() || c.body->op != Op::Load) return false;
    for (size_t d = 0; d + 1 < t.rank(); d++)
      if (t.sizes[d] != whole.sizes[d] || (c.body->args[d] != c.axes[d] && !is_const_int(t.sizes[d], 1))) return false;
    auto first = const_int(c.body->args.back() - c.axes.back());
    if (!first || *first % *width != 0) return false;
    width_ = *width;
    const std::vector<NodeId>* users = uses_(n.outputs[0]);
    return users &&
           std::all_of(users->begin(), users->end(), [&](NodeId u) { return g_.node(u).def && g_.node(u).def->kind == Kind::Pointwise; });
  }

  const Graph& g_;
  const ValueUses& uses_;
  Inliner& inliner_;
  Expr columns_;
  int64_t all_, width_ = 0;
};

} // namespace

int64_t SlicedProducts::slices_of(NodeId product) const {
  auto it = std::ranges::find(found_, product, &std::pair<NodeId, int64_t>::first);
  return it == found_.end() ? 1 : it->second;
}

void SlicedProducts::find(NodeId product, const ValueUses& uses, Inliner& inliner) {
  const Node& n = graph_.node(product);
  const Type& out = graph_.type(n.outputs.at(0));
  if (whole_.get(product) || n.def->kind != Kind::Matmul || out.rank() != 2 || !const_int(out.sizes[1])) return;
  Finder finder(graph_, uses, inliner, out.sizes[1]);
  int64_t slices = finder.find(n.outputs[0]);
  if (slices == 1) return;
  std::vector<ValueId> operands = tensor_operands(n.args, graph_);
  auto b = matmul_operand(graph_, inliner, operands.at(1));
  const Tensor* weights = b ? graph_.stored_constant(b->value) : nullptr;
  if (!weights || !weights->is_contiguous() || !const_int(b->offset) || !const_int(graph_.type(operands[0]).sizes.back())) return;
  for (NodeId id : finder.between) between_[id] = true;
  found_.emplace_back(product, slices);
}

bool SlicedProducts::give_up(const std::function<bool(NodeId)>& fails) {
  bool any = false;
  for (auto& [product, slices] : found_)
    if (fails(product)) whole_[product] = any = true;
  if (!any) return false;
  found_.clear();
  between_ = SideTable<NodeId, bool>(false);
  return true;
}

} // namespace tenon
