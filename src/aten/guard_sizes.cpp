// Size guards. Shape rules take sizes for equal that they cannot compare: broadcast operands of sizes s0 and s1, the common
// dim of a product, the elements of a view. torch.export proved them for the programs it wrote; whatever the program, no
// operand is read beyond its end.
#include <algorithm>
#include <span>
#include <unordered_set>

#include "aten/passes.h"
#include "ir/define.h"
#include "ops/names.h"
#include "ops/shape.h"

namespace tenon {

namespace {

const std::pair<OpId, OpId> scatters[] = {
    {edge::slice_scatter, aten::slice_Tensor}, {edge::select_scatter, aten::select_int}, {edge::diagonal_scatter, aten::diagonal}};

const OpId pads[] = {edge::reflection_pad1d,  edge::reflection_pad2d,  edge::reflection_pad3d,
                     edge::replication_pad1d, edge::replication_pad2d, edge::replication_pad3d};
const OpId resamplings[] = {own::resample_nearest, own::resample_nearest_exact, own::resample_linear, own::resample_cubic};
bool is_among(OpId op, std::span<const OpId> ops) { return std::ranges::find(ops, op) != ops.end(); }

// `tenon::amax_or_lowest` is not among them.
bool is_extreme(OpId op) { return op == edge::amax || op == edge::amin || op == edge::argmax || op == edge::argmin; }

bool is_symbolic(const Graph& g, ValueId v) {
  auto& sizes = g.type(v).sizes;
  return std::any_of(sizes.begin(), sizes.end(), [](Expr s) { return !s->is_const(); });
}

bool has_symbol(const Arg& a) {
  if (auto* list = std::get_if<ArgList>(&a.v)) return std::ranges::any_of(*list, has_symbol);
  auto* e = std::get_if<Expr>(&a.v);
  return e && *e && !(*e)->is_const();
}

// Calls f on each node once, from the root; below a node only where f says so.
template <class F> void walk(Expr e, std::unordered_set<const ExprNode*>& seen, const F& f) {
  if (!seen.insert(e.get()).second || !f(*e)) return;
  for (Expr a : e->args) walk(a, seen, f);
}

class Guards {
public:
  Guards(const Graph& g, const Node& n) : g_(g), operands_(tensor_operands(n.args, g)), output_(g.type(n.outputs[0])) {
    takes_all_ = n.def->kind == Kind::Pointwise || n.def->kind == Kind::Matmul || n.op == edge::expand;
  }

  void require_true(Expr condition) {
    if (const_int(condition) != 1) out.push_back(condition);
  }

  // A condition on an axis is there because the index may lie outside: what it selects is not held to that axis.
  void check_loads(Expr body, bool is_pointwise) {
    std::unordered_set<const ExprNode*> seen, outside, tested, conditional_axes;
    std::vector<const ExprNode*> loads; // in the order of the body
    walk(body, seen, [&](const ExprNode& n) {
      if (n.op == Op::Load) loads.push_back(&n);
      if (n.op == Op::Select)
        walk(n.args[0], tested, [&](const ExprNode& c) {
          if (c.op == Op::Axis) conditional_axes.insert(&c);
          return c.op != Op::Load && c.op != Op::Axis;
        });
      return true;
    });
    if (is_pointwise) conditional_axes.clear();
    walk(body, outside, [&](const ExprNode& n) {
      if (n.op == Op::Load) check_load(n, {});
      return n.op != Op::Select;
    });
    for (const ExprNode* n : loads)
      if (!outside.contains(n)) check_load(*n, conditional_axes);
  }

  void check_view() {
    auto& sizes = g_.type(operands_.at(0)).sizes;
    require_true(eq(product(g_.pool(), sizes), product(g_.pool(), output_.sizes)));
  }

  void check_scatter(const Call& call, std::string_view view) {
    std::vector<Expr> part = ops::scattered_part(call, view).sizes, sizes = call.type("src").sizes;
    for (size_t d = 0; d < sizes.size(); d++) require_true(eq(part.at(d), sizes[d]));
  }

  void check_strided(const Call& call) {
    ExprPool& pool = g_.pool();
    std::vector<Expr> strides = call.syms("stride");
    Expr first = call.has("storage_offset") ? call.sym("storage_offset") : pool.integer(0), last = first;
    Expr nothing = eq(product(pool, output_.sizes), pool.integer(0));
    for (size_t d = 0; d < strides.size(); d++) {
      require_true(le(pool.integer(0), strides[d]));
      last = last + (output_.sizes[d] - 1.0) * strides[d];
    }
    require_true(logical_or(nothing, le(pool.integer(0), first)));
    require_true(logical_or(nothing, lt(last, product(pool, call.type("self").sizes))));
  }

  void check_select(const Call& call) {
    Expr index = call.sym("index"), size = call.size("self", call.dim("dim", call.type("self").rank()));
    require_true(le(g_.pool().integer(0), index + size));
    require_true(lt(index, size));
  }

  void check_narrow(const Call& call) {
    Expr size = call.size("self", call.dim("dim", call.type("self").rank())), start = ops::wrap_index(call.sym("start"), size);
    require_true(le(g_.pool().integer(0), start));
    require_true(le(start + call.sym("length"), size));
  }

  // A dim of size 1 would be gone, and what follows is for the rank it has with it.
  void check_squeezed(const Call& call) {
    for (int64_t d : call.dims("dim", call.type("self").rank(), false))
      if (Expr size = call.size("self", d); !const_int(size)) require_true(ne(size, g_.pool().integer(1)));
  }

  void check_windows(const Call& call) {
    bool single = call.type("self").rank() == 0;
    require_true(le(call.sym("size"), single ? g_.pool().integer(1) : call.size("self", call.dim("dimension", call.type("self").rank()))));
  }

  // Rows are the elements of a window in each channel, columns the windows.
  void check_blocks(const Call& call) {
    auto kernel = call.integers("kernel_size"), dilation = call.integers("dilation"), pad = call.integers("padding"),
         stride = call.integers("stride");
    std::vector<Expr> size = call.syms("output_size");
    Expr places = g_.pool().integer(1);
    for (size_t k = 0; k < 2; k++) places = places * ops::windows(size.at(k), kernel.at(k), dilation.at(k), pad.at(k), stride.at(k));
    require_true(eq(places, call.size("self", -1)));
    require_true(eq(mod(call.size("self", -2), g_.pool().integer(kernel.at(0) * kernel.at(1))), g_.pool().integer(0)));
  }

  // Each group of channels is summed by a part of the weight. A transposed convolution, as in a gradient, gives what some input of the
  // regular one may have been.
  void check_convolution(const Call& call) {
    Expr groups = call.sym("groups");
    bool transposed = call.flag("transposed");
    require_true(eq(call.size("input", 1), transposed ? call.size("weight", 0) : call.size("weight", 1) * groups));
    if (!transposed) return;
    std::vector<Expr> more = call.syms("output_padding"), stride = call.syms("stride"), dilation = call.syms("dilation");
    for (size_t d = 0; d < more.size(); d++) {
      if (more[d]->is_const()) continue;
      require_true(le(g_.pool().integer(0), more[d]));
      require_true(lt(more[d], max(stride[stride.size() == 1 ? 0 : d], dilation[dilation.size() == 1 ? 0 : d])));
    }
  }

  // Nothing has no extreme.
  void check_extreme(const Compute& definition) {
    std::vector<Expr> extents;
    for (Expr a : definition.reduce_axes) extents.push_back(a->args[0]);
    require_unless_empty(lt(g_.pool().integer(0), product(g_.pool(), extents)));
  }

  // No more is cropped than there is.
  void check_cropped() {
    for (Expr size : output_.sizes)
      if (size->lo < 0) require_true(le(g_.pool().integer(0), size));
  }

  // Each dim is continued by what it has: a reflected one by all but its border, a circular one by all, a repeated one by any.
  void check_padding(const Call& call, std::string_view amounts) {
    std::vector<Expr> pad = call.syms(amounts);
    bool repeats = call.def.signature.name.find("replication") != std::string::npos, wraps = amounts == "pad";
    for (size_t k = 0; k < pad.size(); k++) {
      Expr size = call.size("self", -1 - static_cast<int64_t>(k / 2));
      Expr none = le(pad[k], g_.pool().integer(0));
      require_unless_empty(repeats ? lt(g_.pool().integer(0), size) : logical_or(none, wraps ? le(pad[k], size) : lt(pad[k], size)));
    }
  }

  // Whatever place of it is asked for, there is an element.
  void check_filled(const Call& call) { require_unless_empty(lt(g_.pool().integer(0), product(g_.pool(), call.type("self").sizes))); }

  std::vector<Expr> out;

private:
  void require_unless_empty(Expr condition) {
    require_true(logical_or(eq(product(g_.pool(), output_.sizes), g_.pool().integer(0)), condition));
  }

  void check_load(const ExprNode& load, const std::unordered_set<const ExprNode*>& except) {
    auto& sizes = g_.type(operands_.at(static_cast<size_t>(load.bits))).sizes;
    for (size_t d = 0; d < sizes.size() && d < load.args.size(); d++) {
      if (load.args[d]->op != Op::Axis || except.contains(load.args[d].get())) continue;
      Expr extent = load.args[d]->args[0];
      if (takes_all_) require_true(eq(extent, sizes[d]));
      else if (!proves_le(extent, sizes[d])) require_true(le(extent, sizes[d]));
    }
  }

  const Graph& g_;
  std::vector<ValueId> operands_;
  const Type& output_;
  bool takes_all_; // and not a part of a dim, as a slice does
};

std::vector<Expr> guards_of(const Graph& g, const Node& n);

// Of a composite that stays whole: those of its parts.
std::vector<Expr> guards_of_parts(const Graph& g, const Node& n) {
  std::vector<Expr> out;
  Graph parts = written_out(g, *n.def, n.args);
  for (NodeId id : parts.block(parts.top()).nodes)
    for (Expr condition : guards_of(parts, parts.node(id))) out.push_back(condition);
  return out;
}

std::vector<Expr> guards_of(const Graph& g, const Node& n) {
  if (n.def && n.def->is_composite()) return guards_of_parts(g, n);
  if (!has_definition(n) || n.outputs.empty()) return {};
  Guards guards(g, n);
  bool symbolic = is_symbolic(g, n.outputs[0]) || std::ranges::any_of(n.args, has_symbol);
  for (ValueId v : tensor_operands(n.args, g)) symbolic |= is_symbolic(g, v);
  Call call(g, *n.def, n.args);
  if (n.op == edge::as_strided) guards.check_strided(call);
  else if (is_among(n.op, pads)) guards.check_padding(call, "padding");
  else if (n.op == edge::_pad_circular) guards.check_padding(call, "pad");
  else if (is_among(n.op, resamplings)) guards.check_filled(call);
  else if (n.op == edge::narrow) guards.check_narrow(call);
  else if (n.op == edge::unfold) guards.check_windows(call);
  else if (n.op == edge::col2im) guards.check_blocks(call);
  else if (!symbolic) return {};
  else if (n.op == edge::view) guards.check_view();
  else if (n.op == edge::squeeze_dims) guards.check_squeezed(call);
  else if (n.op == edge::select_int) guards.check_select(call);
  else {
    Compute definition = definition_of(g, n);
    guards.check_loads(definition.body, n.def->body != nullptr);
    if (n.def->kind == Kind::Conv) guards.check_convolution(call);
    else if (n.op == edge::constant_pad_nd) guards.check_cropped();
    else if (is_extreme(n.op)) guards.check_extreme(definition);
    for (auto [scatter, view] : scatters)
      if (n.op == scatter) guards.check_scatter(call, view);
    if (n.op == edge::select_scatter) guards.check_select(call);
  }
  return std::move(guards.out);
}

// Puts the guards before their nodes, each once: what a block checks holds in its inner blocks.
class GuardSizes {
public:
  explicit GuardSizes(LoadedProgram& program) : program_(program), r_(program.graph, false) {}

  bool run() {
    find(program_.graph.top());
    if (guards_.empty()) return false;
    r_.node = [this](NodeId id) {
      if (auto guards = guards_.find(id); guards != guards_.end()) append(program_.graph.node(id), guards->second);
      r_.copy_node(id);
    };
    return rewrite_program(program_, r_, true);
  }

private:
  void find(BlockId block) {
    for (NodeId id : program_.graph.block(block).nodes) {
      const Node& n = program_.graph.node(id);
      if (n.op == prim::Assert && n.args[0].is<Expr>()) known_.insert(n.args[0].get<Expr>().get());
      if (n.op.dialect() != "prim")
        for (Expr condition : guards_of(program_.graph, n))
          if (known_.insert(condition.get()).second) guards_[id].push_back(condition);
      for (BlockId inner : n.blocks) {
        auto outer = known_;
        find(inner);
        known_ = std::move(outer);
      }
    }
  }

  void append(const Node& n, const std::vector<Expr>& conditions) {
    for (Expr condition : conditions) {
      std::string why = fmt::format("{}: the sizes do not fit: {} does not hold", n.op, to_string(condition));
      r_.to.append(r_.builder.block(), Node{.op = prim::Assert, .def = find_op(prim::Assert), .args = {condition, why}, .origin = n.origin},
                   {});
    }
  }

  LoadedProgram& program_;
  Rewriter r_;
  std::unordered_set<const ExprNode*> known_; // checked before, in this block or an outer one
  std::unordered_map<NodeId, std::vector<Expr>> guards_;
};

} // namespace

bool guard_sizes(LoadedProgram& program) { return GuardSizes(program).run(); }

} // namespace tenon
