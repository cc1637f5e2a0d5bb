// Layout: channels-last memory around convolutions.
//   %y = edge::convolution(%x, ...)   ->   %x1 = tenon::to_layout(%x); %y : Float(N, C, H, W, strides=[H*W*C, 1, W*C, C]) = ...
#include "backend/affine.h"
#include "backend/contract.h"
#include "backend/passes.h"

namespace tenon {

namespace {

class ChooseLayout {
public:
  explicit ChooseLayout(LoadedProgram& program) : program_(program), r_(program.graph, true) {}

  bool run() {
    const Graph& from = r_.from;
    bool any = false;
    for (uint32_t i = 0; i < from.num_nodes(); i++) {
      const Node& n = from.node(NodeId{i});
      any |= n.def && n.def->kind == Kind::Conv && is_contract(from, n) && strides(from, n.outputs[0]).empty();
    }
    if (!any) return false;
    r_.node = [this](NodeId id) { visit(id); };
    r_.block = [this](BlockId old, BlockId now) {
      r_.copy_block(old, now);
      return_row_major(r_.to, now);
    };
    Graph out = r_.run();
    return_row_major(out, out.top());
    for (auto& in : program_.inputs)
      if (in.value.valid()) in.value = r_[in.value];
    program_.graph = std::move(out);
    return true;
  }

private:
  static const std::vector<Expr>& strides(const Graph& g, ValueId v) { return g.type(v).strides; }

  static void return_row_major(Graph& g, BlockId block) {
    for (Arg& ret : g.block(block).returns)
      ret = map_values(ret, [&](ValueId v) { return strides(g, v).empty() ? v : copy(g, block, v, {}); });
  }
  static ValueId copy(Graph& g, BlockId block, ValueId v, std::vector<Expr> strides) {
    Type t = g.type(v);
    t.strides = std::move(strides);
    NodeId n = g.append(block, Node{.op = "tenon::to_layout", .def = find_op("tenon::to_layout.default"), .args = {Arg(v)}}, {t});
    return g.node(n).outputs[0];
  }

  // Results of these keep their operand's layout.
  bool follows(const Node& n) const {
    if (!n.def || n.outputs.size() != 1) return false;
    if (n.def->kind == Kind::Pointwise) return true;
    std::string_view op = n.def->signature.name;
    return op == "aten::_to_copy.default" || op.starts_with("aten::max_pool") || op.starts_with("aten::avg_pool") || op == "aten::cat.default" ||
           op.starts_with("aten::upsample") || op == "aten::constant_pad_nd.default" || op == "aten::mean.dim" || op == "aten::sum.dim_IntList";
  }

  // Library steps and control flow read row-major memory.
  static bool reads_row_major(const Node& n) { return !n.def || n.def->kind == Kind::Library || n.def->kind == Kind::Prim; }

  // The node, with each of `operands` copied to the memory that `want` gives for its type.
  void copy_node_with(NodeId id, const std::vector<ValueId>& operands, const std::function<std::vector<Expr>(const Type&)>& want) {
    std::vector<std::pair<ValueId, ValueId>> before;
    for (ValueId v : operands) {
      ValueId now = r_[v];
      std::vector<Expr> wanted = want(r_.to.type(now));
      if (strides(r_.to, now) == wanted) continue;
      before.emplace_back(v, now);
      r_.set(v, copy(r_.to, r_.builder.block(), now, std::move(wanted)));
    }
    r_.copy_node(id);
    for (auto [v, now] : before) r_.set(v, now);
  }

  void visit(NodeId id) {
    const Node& n = r_.from.node(id);
    bool conv = n.def && n.def->kind == Kind::Conv && is_contract(r_.from, n);
    if (conv) copy_node_with(id, {n.args[0].get<ValueId>()}, [&](const Type& t) { return channels_last_strides(pool(), t.sizes); });
    else if (reads_row_major(n)) copy_node_with(id, tensor_operands(n.args, r_.from), [](const Type&) { return std::vector<Expr>(); });
    else r_.copy_node(id);
    if (!conv && !follows(n)) return;
    ValueId out = r_[n.outputs[0]];
    size_t rank = r_.to.type(out).rank();
    bool channels_last = conv;
    for (ValueId v : tensor_operands(n.args, r_.from)) channels_last |= r_.to.type(r_[v]).rank() == rank && is_channels_last(pool(), r_.to.type(r_[v]));
    if (channels_last && rank >= 3) r_.to.value(out).type.strides = channels_last_strides(pool(), r_.to.type(out).sizes);
  }

  ExprPool& pool() { return r_.to.pool(); }

  LoadedProgram& program_;
  Rewriter r_;
};

} // namespace

bool choose_layout(LoadedProgram& program) { return ChooseLayout(program).run(); }

} // namespace tenon
