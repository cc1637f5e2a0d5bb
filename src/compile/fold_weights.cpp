// The part of the graph above the weights is cut out as a program without inputs, compiled, and run.
#include "compile/fold_weights.h"

#include <algorithm>
#include <unordered_set>

#include "backend/passes.h"
#include "compile/build_plan.h"
#include "interp/interp.h"
#include "ir/define.h"
#include "ir/parse.h"
#include "ir/pass_runner.h"
#include "ops/names.h"
#include "runtime/executable.h"

namespace tenon {

namespace {

constexpr int64_t few_elements = 1 << 18; // the interpreter has them before code for them would be there
constexpr int64_t most_growth = 16 << 20; // bytes of an operand that is larger than the weights it is made of

class FoldWeights {
public:
  FoldWeights(LoadedProgram& program, const Options& options)
      : program_(program), g_(program.graph), options_{.threads = options.threads, .pool = options.pool} {
    for (uint32_t i = 0; i < g_.num_tensors(); i++) {
      const Tensor& t = g_.stored(TensorId{i});
      stored_ += t.numel() * static_cast<int64_t>(size_of(t.dtype()));
    }
  }

  bool run() {
    find_results();
    if (results_.empty()) return false;
    std::vector<Tensor> values = compute();
    Rewriter r(g_, true);
    r.node = [&](NodeId id) {
      const Node& n = g_.node(id);
      auto at = n.outputs.empty() ? results_.end() : std::find(results_.begin(), results_.end(), n.outputs[0]);
      if (at == results_.end()) return r.copy_node(id);
      r.set(*at, r.builder.constant(values[static_cast<size_t>(at - results_.begin())], g_.value(*at).name));
    };
    bool changed = true;
    rewrite_program(program_, r, changed);
    remove_dead_code(program_);
    return true;
  }

private:
  bool is_view(const Node& n) const {
    return n.def->kind == Kind::View && !n.args.empty() && n.args[0].is<ValueId>() &&
           g_.type(n.outputs[0]).dtype == g_.type(n.args[0].get<ValueId>()).dtype;
  }
  NodeId node_of(ValueId v) const { return g_.value(v).node; }

  ValueId viewed(ValueId v) const { return g_.node(node_of(v)).args[0].get<ValueId>(); }
  bool is_view_of_fixed(ValueId v) { return is_fixed(v) && !g_.stored_constant(v) && is_view(g_.node(node_of(v))); }
  bool is_pick(ValueId v) { return is_view_of_fixed(v) && tensor_operands(g_.node(node_of(v)).args, g_).size() > 1; }

  // Bytes; none where sizes are not fixed.
  std::optional<int64_t> bytes_of(ValueId v) const {
    const Type& t = g_.type(v);
    int64_t bytes = static_cast<int64_t>(size_of(t.dtype));
    for (Expr s : t.sizes) {
      auto n = const_int(s);
      if (!n || *n <= 0 || bytes > (int64_t{1} << 40) / *n) return std::nullopt;
      bytes *= *n;
    }
    return bytes;
  }

  static bool is_packing(const Node& n) { return n.op == own::pack_quantized_weight; }
  static bool is_contraction(const Node& n) {
    return n.def && (n.def->kind == Kind::Matmul || n.def->kind == Kind::Conv || n.op == own::quantized_weight_mm);
  }
  static bool is_computable(const Node& n) { return has_definition(n) || is_packing(n); }

  // Made of stored tensors and numbers alone.
  bool is_fixed(ValueId v) {
    if (g_.stored_constant(v)) return true;
    NodeId id = node_of(v);
    if (!id.valid()) return false;
    if (signed char known = fixed_.get(id)) return known > 0;
    const Node& n = g_.node(id);
    bool fixed = is_computable(n) && n.outputs.size() == 1 && n.blocks.empty() && bytes_of(v) && !is_complex(g_.type(v).dtype);
    std::vector<ValueId> operands = tensor_operands(n.args, g_);
    fixed = fixed && std::all_of(operands.begin(), operands.end(), [&](ValueId o) { return is_fixed(o); });
    fixed_[id] = fixed ? 1 : -1;
    return fixed;
  }

  // Whether sums over elements are among the nodes that it is made by: reading it costs less than computing it.
  bool has_sums(const std::unordered_set<ValueId>& made_by) const {
    return std::any_of(made_by.begin(), made_by.end(), [&](ValueId v) {
      return node_of(v).valid() && g_.node(node_of(v)).def && g_.node(node_of(v)).def->kind == Kind::Reduce;
    });
  }

  // The nodes that `v` is made by; gives the bytes of stored tensors below it.
  int64_t collect(ValueId v, std::unordered_set<ValueId>& seen) {
    if (!seen.insert(v).second) return 0;
    if (const Tensor* t = g_.stored_constant(v)) return t->numel() * static_cast<int64_t>(size_of(t->dtype()));
    int64_t bytes = 0;
    for (ValueId o : tensor_operands(g_.node(node_of(v)).args, g_)) bytes += collect(o, seen);
    return bytes;
  }

  bool add(ValueId v, int64_t most) {
    if (g_.stored_constant(v) || !is_fixed(v)) return false;
    if (std::find(results_.begin(), results_.end(), v) != results_.end()) return true;
    std::unordered_set<ValueId> below;
    int64_t from = collect(v, below), to = *bytes_of(v);
    bool packed = is_packing(g_.node(node_of(v))); // else it is packed in each call
    if (has_sums(below)) most = std::max(most, std::min(most_growth, stored_ - grown_));
    if (from == 0 || to > std::max(packed ? 2 * from : from, most)) return false;
    if (to > from) grown_ += to;
    results_.push_back(v);
    made_of_.insert(below.begin(), below.end());
    return true;
  }

  // Elements picked by stored indices, in the order of dims that is read: reading them costs less than picking. All together take
  // no more memory than the program's weights.
  bool add_picked(ValueId v) {
    while (is_view_of_fixed(v) && !is_pick(v) && *bytes_of(v) > bytes_of(viewed(v)).value_or(0)) v = viewed(v);
    ValueId at = v;
    while (is_view_of_fixed(at) && !is_pick(at)) at = viewed(at);
    return is_pick(at) && add(v, std::min(most_growth, stored_ - grown_));
  }

  // Whether what `n` reads would be copied in each call if it stayed a view: zeros around memory by a contraction, other sizes by a
  // convolution, which packs stored weights alone.
  bool is_copied(ValueId view, const Node& n) const {
    OpId op = g_.node(node_of(view)).op;
    return is_contraction(n) && (op == edge::constant_pad_nd || (op == edge::view && n.def->kind == Kind::Conv));
  }

  // A value that `n` reads, or that is returned, for a result of computing: views of it stay views.
  void add_result(ValueId v, const Node* n) {
    if (add_picked(v)) return;
    for (; is_view_of_fixed(v); v = viewed(v))
      if (n && is_copied(v, *n) && add(v, most_growth)) return;
    add(v, n && is_contraction(*n) ? most_growth : 0);
  }

  void find_results() {
    for (NodeId id : g_.block(g_.top()).nodes) {
      const Node& n = g_.node(id);
      if (n.outputs.size() == 1 && n.blocks.empty() && n.def && is_computable(n) && is_fixed(n.outputs[0])) continue;
      for_each_use(g_, id, [&](ValueId v) { add_result(v, &n); });
    }
    for (const Arg& a : g_.block(g_.top()).returns) for_each_value(a, [&](ValueId v) { add_result(v, nullptr); });
  }

  // What lies in the bodies of loops and branches as well.
  void copy_made_of(BlockId block, Rewriter& r) const {
    for (NodeId id : g_.block(block).nodes) {
      const Node& n = g_.node(id);
      if (n.outputs.size() == 1 && made_of_.contains(n.outputs[0])) r.copy_node(id);
      for (BlockId inner : n.blocks) copy_made_of(inner, r);
    }
  }

  // That are computed or read on the way.
  int64_t elements() const {
    int64_t sum = 0;
    for (ValueId v : made_of_) {
      if (g_.stored_constant(v)) continue;
      const Node& n = g_.node(node_of(v));
      if (n.def->kind == Kind::Matmul || n.def->kind == Kind::Conv || is_packing(n)) return INT64_MAX;
      sum += *bytes_of(v) / static_cast<int64_t>(size_of(g_.type(v).dtype));
      if (n.def->kind == Kind::Reduce)
        for (ValueId o : tensor_operands(n.args, g_)) sum += *bytes_of(o) / static_cast<int64_t>(size_of(g_.type(o).dtype));
    }
    return sum;
  }

  static std::vector<Tensor> interpreted(const Graph& g) {
    std::vector<Tensor> values = interpret(g, {}, {}, 0);
    for (Tensor& t : values) t = t.contiguous();
    return values;
  }

  std::vector<Tensor> compute() {
    Rewriter r(g_, true);
    for (uint32_t i = 0; i < g_.num_tensors(); i++) r.to.add_tensor(g_.stored(TensorId{i}));
    copy_made_of(g_.top(), r);
    ArgList returns;
    for (ValueId v : results_) returns.push_back(r[v]);
    r.to.block(r.to.top()).returns = returns;
    if (elements() <= few_elements) return interpreted(r.to);
    LoadedProgram part = program_of(std::move(r.to));
    part.file = program_.file;
    PassRunner runner(PassOptions{});
    runner.run(part, backend_passes);
    Compiled compiled = build_plan(std::move(part), options_);
    PlanRunner plan(compiled.plan, Workers(options_.threads, options_.pool));
    std::vector<Tensor> values;
    Status status = plan.run({}, values);
    if (!status.ok()) throw status.error();
    return values;
  }

  LoadedProgram& program_;
  const Graph& g_;
  Options options_;
  SideTable<NodeId, signed char> fixed_{0}; // 0: not known yet
  int64_t stored_ = 0, grown_ = 0;          // bytes: of the program's tensors, of results larger than theirs
  std::vector<ValueId> results_;
  std::unordered_set<ValueId> made_of_;
};

} // namespace

bool fold_weights(LoadedProgram& program, const Options& options) { return FoldWeights(program, options).run(); }

} // namespace tenon
