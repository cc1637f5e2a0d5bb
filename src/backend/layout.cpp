// Layout: channels-last memory around convolutions, but for results that only row-major memory is made of.
//   %y = edge::convolution(%x, ...)   ->   %x1 = tenon::to_layout(%x); %y : Float(N, C, H, W, strides=[H*W*C, 1, W*C, C]) = ...
// A window of one pixel between row-major tensors is a product of each image by the weights, and copies nothing.
//   %y = edge::convolution(%x, %w)   ->   %y = view(bmm(expand(view(%w, [1, O, C]), [N, O, C]), view(%x, [N, C, H*W])), [N, O, H, W])
#include <set>

#include "backend/affine.h"
#include "backend/contract.h"
#include "backend/passes.h"
#include "ir/dim_order.h"
#include "ops/names.h"

namespace tenon {

namespace {

// Of convolutions along lines.
constexpr int64_t most_line_channels = 16, least_line = 12, most_line = 1 << 24, most_taps = 64, most_step = 8;
constexpr int64_t most_narrow_outputs = 8, most_reduced_channels = 8;
// Of products by image, in types of two bytes and in wider ones; with fewer the pixels of all images do better as rows.
constexpr int64_t least_narrow_pixels = 16, least_pixels = 128;

class ChooseLayout {
public:
  explicit ChooseLayout(LoadedProgram& program) : program_(program), r_(program.graph, true) {}

  bool run() {
    const Graph& from = r_.from;
    bool any = false;
    find_uses();
    for (uint32_t i = 0; i < from.num_nodes(); i++) {
      const Node& n = from.node(NodeId{i});
      if (!is_conv(n) || !strides(from, n.outputs[0]).empty()) continue;
      const Type& in = from.type(n.args[0].get<ValueId>());
      any |= !is_wanted_row_major(n.outputs[0]) || !gives_row_major(n) ||
             !(is_channels_last(from.pool(), in) || (runs_by_lines(n) && is_row_major(in)));
    }
    if (!any) return false;
    r_.node = [this](NodeId id) { visit(id); };
    r_.block = [this](BlockId old, BlockId now) {
      r_.copy_block(old, now);
      return_row_major(r_.to, now);
    };
    Graph out = r_.run();
    return_in_order(out);
    return_row_major(out, out.top());
    for (auto& in : program_.inputs)
      if (in.value.valid()) in.value = r_[in.value];
    program_.graph = std::move(out);
    return true;
  }

private:
  static const std::vector<Expr>& strides(const Graph& g, ValueId v) { return g.type(v).strides; }

  // A result that is returned permuted to the order of its memory, and lies in memory so already, is returned as it is.
  void return_in_order(Graph& g) {
    ArgList& returns = g.block(g.top()).returns;
    for (size_t i = 0; i < program_.outputs.size() && i < returns.size(); i++) {
      const std::vector<int>& order = program_.outputs[i].order;
      if (order.empty() || !returns[i].is<ValueId>() || !g.value(returns[i].get<ValueId>()).node.valid()) continue;
      const Node& n = g.node(g.value(returns[i].get<ValueId>()).node);
      if (n.op != edge::permute || n.args[1] != Arg(std::vector<int64_t>(order.begin(), order.end()))) continue;
      ValueId v = n.args[0].get<ValueId>();
      if (lies_in_order(g.type(v), order)) returns[i] = v, in_order_.insert(i);
    }
    remove_unused(g, edge::permute);
  }
  static void remove_unused(Graph& g, OpId op) {
    SideTable<ValueId, bool> used{false};
    for (uint32_t i = 0; i < g.num_nodes(); i++) for_each_use(g, NodeId{i}, [&](ValueId v) { used[v] = true; });
    for (const Arg& a : g.block(g.top()).returns) for_each_value(a, [&](ValueId v) { used[v] = true; });
    std::erase_if(g.block(g.top()).nodes, [&](NodeId id) { return g.node(id).op == op && !used.get(g.node(id).outputs[0]); });
  }

  void return_row_major(Graph& g, BlockId block) {
    ArgList& returns = g.block(block).returns;
    for (size_t i = 0; i < returns.size(); i++)
      if (block != g.top() || !in_order_.contains(i))
        returns[i] = map_values(returns[i], [&](ValueId v) { return row_major(g, block, v); });
  }
  static ValueId row_major(Graph& g, BlockId block, ValueId v) {
    NodeId by = g.value(v).node;
    return strides(g, v).empty() ? v : copy(g, block, v, {}, by.valid() ? g.node(by).origin : nullptr);
  }
  static ValueId copy(Graph& g, BlockId block, ValueId v, std::vector<Expr> strides, std::shared_ptr<const Origin> origin) {
    Type t = g.type(v);
    t.strides = std::move(strides);
    Node made{.op = own::to_layout, .def = find_op(own::to_layout), .args = {Arg(v)}, .origin = std::move(origin)};
    return g.node(g.append(block, std::move(made), {t})).outputs[0];
  }

  bool is_conv(const Node& n) const { return n.def && n.def->kind == Kind::Conv && is_contract(r_.from, n); }

  bool is_depthwise(const Node& n) const {
    Call c(r_.from, *n.def, n.args);
    const Type &x = r_.from.type(c.value("input")), &w = r_.from.type(c.value("weight"));
    return !c.flag("transposed") && c.integer("groups") > 1 && is_const_int(w.sizes[1], 1) && is_small_float(x.dtype) &&
           is_small_float(w.dtype);
  }
  static bool is_small_float(DType t) { return t == DType::F32 || is_reduced_float(t); }

  // Outputs of each channel of a depthwise convolution.
  int64_t multiplier(const Node& n) const {
    Call c(r_.from, *n.def, n.args);
    return const_int(r_.from.type(c.value("weight")).sizes[0]).value_or(0) / std::max<int64_t>(c.integer("groups"), 1);
  }

  // Whether to use the kernels along lines of row-major memory (runtime/conv_lines.h), which do best with few channels in a group and
  // with lines that fill vectors. Its kernels depend on the image's sizes, and no call is to wait for them: those are known.
  // Reduced floats, which are copied for it, are such only in groups.
  bool runs_by_lines(const Node& n) const {
    Call c(r_.from, *n.def, n.args);
    const Type &x = r_.from.type(c.value("input")), &w = r_.from.type(c.value("weight"));
    auto inputs = const_int(w.sizes[1]);
    bool few = is_reduced_float(x.dtype) && c.integer("groups") > 1 && inputs && *inputs <= most_reduced_channels;
    return (x.dtype == DType::F32 || few) && fits_lines(n);
  }
  bool fits_lines(const Node& n) const {
    Call c(r_.from, *n.def, n.args);
    const Type &x = r_.from.type(c.value("input")), &w = r_.from.type(c.value("weight"));
    bool fits = !c.flag("transposed") && is_small_float(w.dtype) && *const_int(w.sizes.back()) <= most_taps &&
                c.integers("stride").back() <= most_step;
    for (size_t d = 2; d < x.rank(); d++) fits = fits && const_int(x.sizes[d]) && reaches_little(c, d - 2);
    if (!fits) return false;
    int64_t outputs = *const_int(w.sizes[0]) / c.integer("groups"), width = *const_int(r_.from.type(n.outputs[0]).sizes.back());
    if (is_depthwise(n)) return c.integers("stride").back() <= 2 && width <= most_line;
    // A group of many outputs fills the vectors of a product, which reads a window's line with any stride at once.
    bool fills = outputs <= 32 || c.integers("stride").back() == 1 || width * 10 >= (width + 15) / 16 * 16 * 9;
    return *const_int(w.sizes[1]) <= most_line_channels && width >= least_line && width <= most_line && fills;
  }

  // Whether windows and padding along a spatial dim are not much larger than the image: lines are copied as far as they reach.
  bool reaches_little(const Call& c, size_t d) const {
    auto of = [&](std::string_view name) {
      std::vector<int64_t> all = c.integers(name);
      return all.at(all.size() == 1 ? 0 : d);
    };
    int64_t most = *const_int(r_.from.type(c.value("input")).sizes[d + 2]) * 4 + 64;
    return of("padding") <= most &&
           of("dilation") <= most / std::max<int64_t>(*const_int(r_.from.type(c.value("weight")).sizes[d + 2]) - 1, 1);
  }

  // Whether results have so few channels that a pixel's leave half of a vector empty. Along lines vectors are full: such results lie
  // row-major whatever reads them, and a copy of few channels costs little.
  bool is_narrow(const Node& n) const {
    auto outputs = const_int(r_.from.type(n.args[1].get<ValueId>()).sizes[0]);
    return outputs && *outputs <= most_narrow_outputs && runs_by_lines(n) && !is_depthwise(n);
  }

  // Whether a convolution can write row-major memory. A depthwise one then reads it, too; a product does better with a copy.
  bool gives_row_major(const Node& n) const {
    Call c(r_.from, *n.def, n.args);
    if (c.flag("transposed") || size_of(sum_type(r_.from, n)) != 4) return false;
    if (runs_by_lines(n) || is_depthwise(n)) return runs_by_lines(n);
    const std::vector<Expr>& weight = r_.from.type(c.value("weight")).sizes;
    bool window = c.integer("groups") > 1;
    for (size_t d = 2; d < weight.size(); d++) window |= !is_const_int(weight[d], 1);
    for (int64_t s : c.integers("stride")) window |= s != 1;
    return window;
  }

  // Whether each image is multiplied by the weights as it lies: one pixel is a window, and an image has enough of them for a product.
  // Few channels stay with the kernels along lines.
  bool is_product(const Node& n) const {
    Call c(r_.from, *n.def, n.args);
    const Type &x = r_.from.type(c.value("input")), &w = r_.from.type(c.value("weight"));
    auto all = [&](std::string_view name, int64_t value) {
      return std::ranges::all_of(c.integers(name), [&](int64_t v) { return v == value; });
    };
    bool fits = !c.flag("transposed") && c.integer("groups") == 1 && all("stride", 1) && all("padding", 0) && is_float(x.dtype);
    for (size_t d = 2; d < w.rank(); d++) fits = fits && is_const_int(w.sizes[d], 1);
    Expr pixels = r_.to.pool().integer(1);
    for (size_t d = 2; d < x.rank(); d++) pixels = pixels * x.sizes[d];
    auto known = const_int(pixels);
    return fits && !runs_by_lines(n) && (!known || *known >= (size_of(x.dtype) == 2 ? least_narrow_pixels : least_pixels));
  }
  void multiply_images(NodeId id) {
    const Node& n = r_.from.node(id);
    Builder& b = r_.builder;
    b.set_origin(n.origin);
    V x = b.wrap(r_[n.args[0].get<ValueId>()]), w = b.wrap(r_[n.args[1].get<ValueId>()]);
    Expr pixels = b.integer(1);
    for (size_t d = 2; d < x.rank(); d++) pixels = pixels * x.size(static_cast<int64_t>(d));
    V weights = b.expand(b.reshape(w, {b.integer(1), w.size(0), w.size(1)}), {x.size(0), w.size(0), w.size(1)});
    ArgList operands{weights, b.reshape(x, {x.size(0), x.size(1), pixels})};
    bool wide = n.op == edge::convolution_dtype;
    if (wide) operands.push_back(r_.from.type(n.outputs[0]).dtype);
    V y = b.call1(wide ? edge::bmm_dtype : edge::bmm, std::move(operands));
    r_.set(n.outputs[0], b.reshape(y, r_.from.type(n.outputs[0]).sizes));
  }

  // A depthwise convolution with several outputs of a channel, as one of as many copies of the channel: kernels in channels-last memory
  // have one output of each.
  void convolve_copies(NodeId id) {
    const Node& n = r_.from.node(id);
    Builder& b = r_.builder;
    b.set_origin(n.origin);
    V x = b.wrap(r_[n.args[0].get<ValueId>()]);
    Expr copies = b.integer(multiplier(n));
    std::vector<Expr> sizes = r_.to.type(r_[n.args[0].get<ValueId>()]).sizes, apart = sizes;
    apart.insert(apart.begin() + 2, copies), sizes[1] = sizes[1] * copies;
    ValueId all = b.reshape(b.expand(b.unsqueeze(x, 2), apart), sizes);
    ArgList args;
    for (const Arg& a : n.args) args.push_back(map_values(a, [&](ValueId v) { return r_[v]; }));
    args[0] = copy(r_.to, b.block(), all, channels_last_strides(pool(), sizes), n.origin);
    args[8] = sizes[1]; // groups
    r_.set(n.outputs[0], b.call1(n.op, std::move(args)));
  }

  void find_uses() {
    const Graph& g = r_.from;
    for (uint32_t i = 0; i < g.num_nodes(); i++) for_each_use(g, NodeId{i}, [&](ValueId v) { users_[v].push_back(NodeId{i}); });
    for (uint32_t i = 0; i < g.num_nodes(); i++) depends_[NodeId{i}] = is_conv(g.node(NodeId{i})) || uses_conv(g.node(NodeId{i}));
    for (uint32_t i = g.num_nodes(); i-- > 0;) find_leads(g.node(NodeId{i}));
  }
  void find_leads(const Node& n) {
    if (is_conv(n)) leads_[n.args[0].get<ValueId>()] = true;
    else if (follows(n) && leads_.get(n.outputs[0]))
      for (ValueId v : tensor_operands(n.args, r_.from))
        if (r_.from.type(v).rank() == r_.from.type(n.outputs[0]).rank()) leads_[v] = true;
  }
  bool uses_conv(const Node& n) const {
    std::vector<ValueId> operands = tensor_operands(n.args, r_.from);
    return !n.blocks.empty() || std::any_of(operands.begin(), operands.end(), [&](ValueId v) {
      return r_.from.value(v).node.valid() && depends_.get(r_.from.value(v).node);
    });
  }

  // All that is made of a value, element by element and without another convolution's result, is returned or read as row-major memory.
  bool is_wanted_row_major(ValueId v) {
    auto [it, fresh] = wanted_.try_emplace(v, false);
    if (!fresh) return it->second;
    const std::vector<NodeId>& users = users_[v];
    bool wanted = std::all_of(users.begin(), users.end(), [&](NodeId id) { return is_row_major_use(r_.from.node(id), v); });
    return wanted_[v] = wanted;
  }
  bool is_row_major_use(const Node& n, ValueId v) {
    if (reads_row_major(n)) return true;
    if (n.outputs.size() != 1) return false;
    if (is_conv(n)) {
      return n.args[0] == Arg(v) && runs_by_lines(n) && (is_narrow(n) || is_wanted_row_major(n.outputs[0]));
    }
    if (n.def->kind != Kind::Pointwise && n.op != edge::_to_copy) return false;
    for (ValueId o : tensor_operands(n.args, r_.from)) {
      NodeId by = r_.from.value(o).node;
      if (o != v && (!strides(r_.from, o).empty() || (by.valid() && depends_.get(by)))) return false;
    }
    return is_wanted_row_major(n.outputs[0]);
  }

  // Results of these keep their operand's layout.
  bool follows(const Node& n) const { return n.def && n.outputs.size() == 1 && (n.def->kind == Kind::Pointwise || n.def->layout_follows); }

  // Rows [N, space..., C] permuted to images [N, C, space...], or to lines that a view folds into images: channels-last as they lie.
  bool is_of_rows(const Node& n) const {
    const Node* permuted = &n;
    const Type& out = r_.from.type(n.outputs[0]);
    if (n.op == edge::view) {
      const Type& lines = r_.from.type(n.args[0].get<ValueId>());
      if (lines.rank() != 3 || out.rank() < 3 || lines.sizes[0] != out.sizes[0] || lines.sizes[1] != out.sizes[1]) return false;
      NodeId by = r_.from.value(n.args[0].get<ValueId>()).node;
      if (!by.valid()) return false;
      permuted = &r_.from.node(by);
    }
    if (permuted->op != edge::permute) return false;
    std::vector<int64_t> order = Call(r_.from, *permuted->def, permuted->args).integers("dims");
    int64_t rank = static_cast<int64_t>(order.size());
    bool rows = rank >= 3 && order[0] == 0 && order[1] == rank - 1;
    for (int64_t d = 2; d < rank; d++) rows = rows && order[d] == d - 1;
    return rows && is_row_major(r_.to.type(r_[permuted->args[0].get<ValueId>()]));
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
      r_.set(v, copy(r_.to, r_.builder.block(), now, std::move(wanted), r_.from.node(id).origin));
    }
    r_.copy_node(id);
    for (auto [v, now] : before) r_.set(v, now);
  }

  void visit(NodeId id) {
    const Node& n = r_.from.node(id);
    bool conv = is_conv(n), reads_rows = conv && is_row_major(r_.to.type(r_[n.args[0].get<ValueId>()]));
    if (reads_rows && is_wanted_row_major(n.outputs[0]) && is_product(n)) return multiply_images(id);
    if (reads_rows && is_narrow(n)) return r_.copy_node(id);
    if (conv && is_wanted_row_major(n.outputs[0]) && gives_row_major(n)) {
      if (runs_by_lines(n) && reads_rows) return r_.copy_node(id);
      if (!is_depthwise(n))
        return copy_node_with(id, {n.args[0].get<ValueId>()}, [&](const Type& t) { return channels_last_strides(pool(), t.sizes); });
    }
    if (conv && is_depthwise(n) && multiplier(n) > 1) convolve_copies(id);
    else if (conv) copy_node_with(id, {n.args[0].get<ValueId>()}, [&](const Type& t) { return channels_last_strides(pool(), t.sizes); });
    else if (reads_row_major(n)) copy_node_with(id, tensor_operands(n.args, r_.from), [](const Type&) { return std::vector<Expr>(); });
    else r_.copy_node(id);
    bool of_rows = !conv && n.outputs.size() == 1 && is_of_rows(n) && leads_.get(n.outputs[0]);
    if (!conv && !follows(n) && !of_rows) return;
    ValueId out = r_[n.outputs[0]];
    size_t rank = r_.to.type(out).rank();
    bool channels_last = conv || of_rows;
    for (ValueId v : tensor_operands(n.args, r_.from))
      channels_last |= r_.to.type(r_[v]).rank() == rank && is_channels_last(pool(), r_.to.type(r_[v]));
    if (channels_last && rank >= 3) r_.to.value(out).type.strides = channels_last_strides(pool(), r_.to.type(out).sizes);
  }

  ExprPool& pool() { return r_.to.pool(); }

  LoadedProgram& program_;
  Rewriter r_;
  std::unordered_map<ValueId, std::vector<NodeId>> users_;
  std::unordered_map<ValueId, bool> wanted_;
  std::set<size_t> in_order_;              // results that are returned in the memory that the program records
  SideTable<NodeId, bool> depends_{false}; // made of a convolution's result
  SideTable<ValueId, bool> leads_{false};  // read by a convolution, or by what keeps the layout for one
};

} // namespace

bool choose_layout(LoadedProgram& program) { return ChooseLayout(program).run(); }

} // namespace tenon
