// PlanBuilder: steps of kernels, library calls and control flow.
#include <algorithm>
#include <unordered_set>

#include "backend/contract.h"
#include "backend/join.h"
#include "base/strided.h"
#include "compile/plan_builder.h"
#include "interp/interp.h"
#include "runtime/frame.h"
#include "runtime/library_names.h"
#include "runtime/library_steps.h"

namespace tenon {

namespace {

std::string operators_of(const Graph& g, NodeId id) {
  if (!id.valid()) return "copy";
  const Node& n = g.node(id);
  if (n.blocks.empty()) return n.op;
  std::string s;
  for (NodeId inner : g.block(n.blocks.at(0)).nodes) {
    std::string op = g.node(inner).op;
    size_t colon = op.find("::"), dot = op.rfind('.');
    s += (s.empty() ? "" : " ") + op.substr(colon + 2, dot - colon - 2);
  }
  return n.op.substr(7) + ": " + s;
}

std::string source_of(const Graph& g, NodeId id) {
  if (!id.valid() || !g.node(id).origin) return {};
  const std::string& trace = g.node(id).origin->stack_trace;
  size_t at = trace.rfind("File \"");
  return at == trace.npos ? "" : trace.substr(at, trace.find('\n', at) - at);
}

// Contractions that became ordinary loops.
std::string refused_in(const Graph& g, NodeId id) {
  std::string s;
  for (NodeId inner : g.block(g.node(id).blocks.at(0)).nodes)
    if (std::string why = contract_refusal(g, g.node(inner)); !why.empty()) s += (s.empty() ? "" : "; ") + g.node(inner).op + ": " + why;
  return s;
}

} // namespace

Step& PlanBuilder::append(NodeId id, decltype(Step::run) run) {
  steps_->push_back(Step{.run = std::move(run),
                         .dynamic = std::exchange(dynamic_, {}),
                         .what = operators_of(g_, id),
                         .source = source_of(g_, id),
                         .number = now_,
                         .waits_for = waits_for_});
  now_++;
  if (id.valid())
    if (const Arg* why = g_.node(id).attribute("refused")) steps_->back().refused = why->get<std::string>();
  return steps_->back();
}

void PlanBuilder::build_block(BlockId block) {
  for (NodeId id : g_.block(block).nodes) build_node(id);
}

void PlanBuilder::build_node(NodeId id) {
  const Node& n = g_.node(id);
  waits_for_ = 0;
  if (n.op == "prim::Constant") return;
  if (is_join(n)) return; // its operands lie in its memory
  if (n.op == "tenon::loops") return build_loops(id);
  if (n.op == "tenon::matmul") return build_matmul(id);
  if (n.op == "tenon::conv") return build_conv(id);
  if (n.op == "tenon::attention") return build_attention(id);
  if (n.op == "prim::If") return build_if(id);
  if (n.op == "prim::While") return build_while(id);
  if (n.op == "prim::Scan") return build_scan(id);
  if (n.op == "prim::Item") return build_item(id);
  if (n.op == "prim::Assert") return build_assert(id);
  if (n.op == "prim::Print") return build_print(id);
  require(n.def && n.def->library, "{} is no step", n.op);
  build_library(id);
}

void PlanBuilder::build_loops(NodeId id) {
  RegionKernels kernels;
  try {
    auto is_part = [&](ValueId v) { return parts_.contains(v); }; // stores past the caches are of whole lines
    kernels = kernels_of_loops(g_, id, vector_bytes_, std::ranges::any_of(g_.node(id).outputs, is_part) ? INT64_MAX : streamed_bytes_);
    for (auto& k : kernels.kernels) verify(k.kernel);
  } catch (const Error& e) {
    if (options_.forbid_fallback) throw;
    fmt::print(stderr, "tenon: a step runs in the interpreter: {}\n", e.what());
    build_fallback(id);
    steps_->back().refused = e.what();
    return;
  }
  if (kernels.kernels.size() == 1 && g_.node(id).outputs.size() == 1) define_result(id, kernels.kernels[0]);
  else
    for (ValueId v : g_.node(id).outputs) define(v);
  std::vector<int> temporaries;
  for (auto& t : kernels.temporaries) temporaries.push_back(define(Type::tensor(t.dtype, {t.elements}), "partial"));
  for (auto& k : kernels.kernels) append_kernel(id, k, temporaries);
}

void PlanBuilder::append_kernel(NodeId id, const RegionKernel& k, const std::vector<int>& temporaries) {
  KernelStep s;
  for (ValueId v : k.buffers) s.buffers.push_back(v.valid() ? buffer_of(v) : -1);
  for (auto& [buffer, temporary] : k.temporaries) s.buffers[static_cast<size_t>(buffer)] = temporaries[static_cast<size_t>(temporary)];
  for (int b : s.buffers)
    if (b >= 0) use(b);
  s.iterations = slot(k.iterations);
  if (k.kernel.scratch_bytes) s.scratch_bytes = slot(k.kernel.scratch_bytes);
  s.iteration_elements = slot(floor_div(k.elements, max(k.iterations, g_.pool().integer(1))));
  s.element_ns = 0.05 + 0.02 * k.weight;
  s.operations = k.weight;
  s.kernel = add_kernel(k.kernel, heat_of(k.elements, k.weight), s.scalars);
  append(id, std::move(s)).refused = refused_in(g_, id);
}

void PlanBuilder::count_uses() {
  auto count = [&](ValueId v) { uses_[v]++; };
  for (NodeId id : g_.block(g_.top()).nodes) for_each_use(g_, id, count);
  for (const Arg& a : g_.block(g_.top()).returns) for_each_value(a, count);
}

// Whether a step may write its output over an input: a temporary of the same sizes that nothing else reads, nor parts of it.
bool PlanBuilder::dies_here(ValueId input, ValueId output) {
  const Type &from = g_.type(input), &to = g_.type(output);
  NodeId from_node = g_.value(input).node;
  if (conditional_ > 0 || g_.stored_constant(input) || parts_.contains(output) || (from_node.valid() && is_join(g_.node(from_node))) ||
      plan_.buffers[static_cast<size_t>(buffer_of(input))].place != BufferPlace::Arena)
    return false;
  return from.dtype == to.dtype && from.sizes == to.sizes && uses_[input] == 1;
}

// The result of a region that is one kernel: over an input where that dies, else memory of its own.
void PlanBuilder::define_result(NodeId id, const RegionKernel& k) {
  ValueId out = g_.node(id).outputs.at(0);
  for (int b : inputs_beside_result(k.kernel)) {
    ValueId v = k.buffers[static_cast<size_t>(b)];
    if (!v.valid() || !dies_here(v, out)) continue;
    buffers_[out] = buffer_of(v);
    return;
  }
  define(out);
}

int PlanBuilder::number_of(LibraryFn step) {
  auto& known = linked_.library;
  auto at = std::find(known.begin(), known.end(), step);
  if (at == known.end()) at = known.insert(at, step), plan_.library.emplace_back(library::name_of(step));
  return static_cast<int>(at - known.begin());
}

void PlanBuilder::build_library(NodeId id) {
  const Node& n = g_.node(id);
  LibraryStep step = n.def->library(Call(g_, *n.def, n.args));
  if (step.function == library::sort && uses_[n.outputs[1]] == 0)
    step.ints[2] = g_.pool().integer(1); // the order of equal values shows in the positions only: the stable one is quickest
  LibraryStepCall s{.function = number_of(step.function),
                    .inputs = {},
                    .outputs = {},
                    .ints = slots_of(step.ints),
                    .numbers = step.numbers,
                    .is_random = library::is_random(step.function)};
  for (ValueId v : step.inputs) s.inputs.push_back(buffer_of(v)), use(s.inputs.back());
  int stage = 0;
  if (n.def->data_dependent) {
    stage = slots_.new_stage();
    for (ValueId v : n.outputs)
      for (Expr e : g_.type(v).sizes)
        if (e->op == Op::Symbol && !slots_.is_bound(e)) slots_.bind(e, stage);
  }
  for (ValueId v : n.outputs) {
    if (library::writes_over(step.function) && dies_here(step.inputs[0], v)) buffers_[v] = s.inputs[0];
    else define(v);
    s.outputs.push_back(buffers_.at(v));
  }
  if (n.def->data_dependent) dynamic_.clear(); // the step itself allocates
  for (int b : s.outputs)
    if (n.def->data_dependent) plan_.buffers[static_cast<size_t>(b)].place = BufferPlace::Dynamic;
  append(id, std::move(s)).binds = stage;
}

void PlanBuilder::build_item(NodeId id) {
  const Node& n = g_.node(id);
  Expr symbol = g_.type(n.outputs[0]).value;
  if (!symbol || symbol->op != Op::Symbol) return;
  int b = buffer_of(n.args[0].get<ValueId>());
  use(b);
  int stage = slots_.new_stage();
  append(id, ItemStep{b, slots_.bind(symbol, stage), is_float(symbol->type)}).binds = stage;
}

void PlanBuilder::build_assert(NodeId id) {
  const Node& n = g_.node(id);
  Expr condition = to_expr(g_.pool(), n.args[0]);
  if (!condition) return;
  AssertStep s{slot(condition), n.args[1].is<std::string>() ? n.args[1].get<std::string>() : "assertion failed"};
  visit(condition, [&](const ExprNode& e) {
    if (e.op == Op::Symbol && !is_float(e.type)) s.values.emplace_back(e.name, slot(Expr(&e)));
  });
  append(id, std::move(s));
}

void PlanBuilder::build_print(NodeId id) {
  PrintStep s;
  s.texts.emplace_back();
  for (const Arg& part : g_.node(id).args[0].get<ArgList>()) {
    Expr e = to_expr(g_.pool(), part);
    if (part.is<std::string>()) s.texts.back() += part.get<std::string>();
    else if (!e) s.texts.back() += part.is_none() ? "None" : "<tensor>";
    else s.numbers.push_back({slot(e), is_float(e->type)}), s.texts.emplace_back();
  }
  append(id, std::move(s));
}

// A 0-d buffer that holds the number.
int PlanBuilder::scalar_buffer(const Arg& a) {
  Expr e = a.is<ValueId>() ? g_.type(a.get<ValueId>()).value : to_expr(g_.pool(), a);
  require(static_cast<bool>(e), "an output is not a number");
  DType t = is_float(e->type) ? DType::F64 : e->type == DType::Bool ? DType::Bool : DType::I64;
  int b = new_buffer(Type::tensor(t, {}), BufferPlace::Arena, "number");
  append(NodeId{}, ScalarStep{slot(e), b, is_float(e->type)});
  return b;
}

void PlanBuilder::copy_to(const Arg& from, int to) {
  int b = from.is<ValueId>() ? buffer_of(from.get<ValueId>()) : scalar_buffer(from);
  use(b), use(to);
  append(NodeId{}, CopyStep{b, to});
}

// Sizes of results that depend on the branch taken: the branch binds them.
std::vector<PlanBuilder::BranchSize> PlanBuilder::branch_sizes(NodeId id) {
  const Node& n = g_.node(id);
  std::vector<BranchSize> out;
  auto add = [&](Expr symbol, auto value_in) {
    if (!symbol || symbol->op != Op::Symbol || slots_.is_bound(symbol)) return;
    BranchSize size;
    for (size_t k : {size_t{0}, size_t{1}}) size.values[k] = value_in(g_.block(n.blocks.at(k)).returns);
    size.stage = slots_.new_stage();
    size.slot = slots_.bind(symbol, size.stage);
    size.buffer = new_buffer(Type::tensor(DType::I64, {}), BufferPlace::Arena, symbol->name);
    out.push_back(size);
  };
  for (size_t i = 0; i < n.outputs.size(); i++) {
    const Type& t = g_.type(n.outputs[i]);
    add(t.value, [&](const ArgList& returns) { return to_expr(g_.pool(), returns.at(i)); });
    for (size_t d = 0; d < t.sizes.size(); d++)
      add(t.sizes[d], [&](const ArgList& returns) { return g_.type(returns.at(i).get<ValueId>()).sizes.at(d); });
  }
  return out;
}

void PlanBuilder::build_if(NodeId id) {
  const Node& n = g_.node(id);
  IfStep s;
  if (n.args[0].is<ValueId>()) s.condition = buffer_of(n.args[0].get<ValueId>()), use(s.condition);
  else s.condition_slot = slot(to_expr(g_.pool(), n.args[0]));
  std::vector<BranchSize> sizes = branch_sizes(id);
  for (ValueId v : n.outputs) define(v);
  std::vector<int> dynamic = std::exchange(dynamic_, {}), by_branch;
  if (!sizes.empty()) by_branch = std::exchange(dynamic, {});
  std::vector<Step>* outer = steps_;
  for (size_t k : {size_t{0}, size_t{1}}) {
    steps_ = &s.branches[k];
    conditional_++;
    build_block(n.blocks.at(k));
    for (const BranchSize& size : sizes) {
      append(NodeId{}, ScalarStep{slot(size.values[k]), size.buffer, false});
      use(size.buffer);
      append(NodeId{}, ItemStep{size.buffer, size.slot, false}).binds = size.stage;
    }
    dynamic_.insert(dynamic_.end(), by_branch.begin(), by_branch.end());
    for (size_t i = 0; i < n.outputs.size(); i++) copy_to(g_.block(n.blocks[k]).returns.at(i), buffers_.at(n.outputs[i]));
  }
  steps_ = outer;
  conditional_ -= 2;
  dynamic_ = std::move(dynamic);
  append(id, std::move(s));
}

// Buffers that a loop reads and that were there before it live as long as the loop.
static void keep_through_loop(Plan& plan, int begin, int end) {
  for (PlanBuffer& b : plan.buffers)
    if (b.first <= begin && b.last >= begin) b.last = std::max(b.last, end);
}

void PlanBuilder::build_while(NodeId id) {
  const Node& n = g_.node(id);
  WhileStep s;
  auto& initial = n.args[0].get<ArgList>();
  for (ValueId v : n.outputs) define(v);
  require(dynamic_.empty(), "a while loop over data-dependent sizes");
  for (size_t i = 0; i < initial.size(); i++) copy_to(initial[i], buffers_.at(n.outputs[i]));
  int begin = now_;
  for (size_t k : {size_t{0}, size_t{1}})
    for (size_t i = 0; i < initial.size(); i++) buffers_[g_.block(n.blocks.at(k)).params.at(i)] = buffers_.at(n.outputs[i]);
  std::vector<Step>* outer = steps_;
  steps_ = &s.condition;
  build_block(n.blocks[0]);
  const Arg& flag = g_.block(n.blocks[0]).returns.at(0);
  if (flag.is<ValueId>()) s.flag = buffer_of(flag.get<ValueId>()), use(s.flag);
  else s.flag_slot = slot(to_expr(g_.pool(), flag));
  steps_ = &s.body;
  conditional_++;
  build_block(n.blocks[1]);
  // Through temporaries: a new value may be another carried one.
  std::vector<int> temporaries;
  auto& returns = g_.block(n.blocks[1]).returns;
  for (size_t i = 0; i < returns.size(); i++) {
    temporaries.push_back(new_buffer(g_.type(n.outputs[i]), BufferPlace::Arena, "carried"));
    copy_to(returns[i], temporaries.back());
  }
  for (size_t i = 0; i < returns.size(); i++) {
    int to = buffers_.at(n.outputs[i]);
    use(temporaries[i]), use(to);
    append(NodeId{}, CopyStep{temporaries[i], to});
  }
  steps_ = outer;
  conditional_--;
  append(id, std::move(s));
  keep_through_loop(plan_, begin, now_);
}

void PlanBuilder::check_sizes(Expr fits) {
  if (const_int(fits) != 1) append(NodeId{}, AssertStep{slot(fits), "a scan's slices have other sizes than the program says"});
}

// Points at one slice after the other of `whole` along dim 0.
int PlanBuilder::add_slice(ScanStep& s, const Type& slice, const Type& type, int whole, Expr steps) {
  ExprPool& pool = g_.pool();
  Expr elements = product(pool, slice.sizes), bytes = elements * static_cast<double>(size_of(slice.dtype));
  check_sizes(logical_and(eq(type.sizes.at(0), steps), eq(product(pool, std::span(type.sizes).subspan(1)), elements)));
  int b = new_buffer(slice, BufferPlace::Alias, "slice");
  use(whole);
  s.slices.push_back({b, whole, slot(bytes)});
  return b;
}

static bool is_slice(const Type& whole, const Type& slice) {
  return whole.dtype == slice.dtype && std::ranges::equal(std::span(whole.sizes).subspan(1), slice.sizes);
}

// Where the body's results go: what a step of the body makes it makes in place, where it has the sizes that are promised; the
// rest is copied.
std::vector<int> PlanBuilder::scan_results(NodeId id, ScanStep& s, Expr steps) {
  const Node& n = g_.node(id);
  const Block& body = g_.block(n.blocks.at(0));
  size_t carried = n.args[0].get<ArgList>().size();
  std::vector<int> to(body.returns.size(), -1);
  std::unordered_set<NodeId> inside(body.nodes.begin(), body.nodes.end());
  auto bind = [&](size_t i, const Type& promised) {
    if (!body.returns[i].is<ValueId>()) return;
    ValueId v = body.returns[i].get<ValueId>();
    NodeId from = g_.value(v).node;
    if (!from.valid() || !inside.contains(from) || g_.stored_constant(v)) return;
    if (g_.node(from).def && g_.node(from).def->data_dependent) return;
    if (g_.type(v).dtype == promised.dtype && g_.type(v).sizes == promised.sizes) bound_.emplace(v, to[i]);
  };
  for (size_t i = carried; i < to.size(); i++) {
    Type slice = g_.type(n.outputs[i]);
    slice.sizes.erase(slice.sizes.begin());
    to[i] = add_slice(s, slice, g_.type(n.outputs[i]), buffers_.at(n.outputs[i]), steps);
    bind(i, slice);
  }
  for (size_t i = 0; i < carried; i++) {
    const Type& t = g_.type(n.outputs[i]);
    const Arg& first = n.args[0].get<ArgList>()[i];
    ScanStep::Carried c{.now = new_buffer(t, BufferPlace::Alias, "carried"),
                        .next = -1,
                        .first = first.is<ValueId>() ? buffer_of(first.get<ValueId>()) : scalar_buffer(first),
                        .last = buffers_.at(n.outputs[i])};
    use(c.first);
    if (first.is<ValueId>()) check_sizes(eq(product(g_.pool(), g_.type(first.get<ValueId>()).sizes), product(g_.pool(), t.sizes)));
    for (size_t k = carried; k < to.size(); k++)
      if (body.returns[k] == body.returns[i] && c.stacked < 0 && is_slice(g_.type(n.outputs[k]), t))
        c.stacked = static_cast<int>(s.slices.size() - to.size() + k), c.next = to[k];
    if (c.stacked < 0) {
      c.next = new_buffer(t, BufferPlace::Alias, "carried");
      c.spare = new_buffer(t, BufferPlace::Arena, "carried");
      to[i] = c.next;
      bind(i, t);
    }
    buffers_[body.params.at(i)] = c.now;
    s.carried.push_back(c);
  }
  return to;
}

void PlanBuilder::build_scan(NodeId id) {
  const Node& n = g_.node(id);
  ScanStep s;
  auto &initial = n.args[0].get<ArgList>(), &xs = n.args[1].get<ArgList>();
  s.reverse = n.args[2].is<bool>() && n.args[2].get<bool>();
  for (ValueId v : n.outputs) define(v);
  require(dynamic_.empty(), "a scan over data-dependent sizes");
  const Block& body = g_.block(n.blocks.at(0));
  require(!xs.empty(), "a scan over nothing");
  Expr steps = g_.type(xs[0].get<ValueId>()).sizes.at(0);
  s.steps = slot(steps);
  for (size_t i = 0; i < xs.size(); i++) {
    ValueId x = xs[i].get<ValueId>(), p = body.params.at(initial.size() + i);
    buffers_[p] = add_slice(s, g_.type(p), g_.type(x), buffer_of(x), steps);
  }
  std::vector<int> to = scan_results(id, s, steps);
  int begin = now_;
  auto keep = [&] { // the first and the last values live as long as the loop
    for (auto& slice : s.slices) use(slice.whole);
    for (auto& c : s.carried)
      for (int b : {c.first, c.last, c.spare})
        if (b >= 0) use(b);
  };
  keep();
  std::vector<Step>* outer = std::exchange(steps_, &s.body);
  conditional_++, scans_++;
  build_block(n.blocks[0]);
  for (size_t i = 0; i < to.size(); i++) {
    if (to[i] < 0) continue; // stacked
    const Arg& from = body.returns[i];
    auto bound = from.is<ValueId>() ? bound_.find(from.get<ValueId>()) : bound_.end();
    if (bound == bound_.end() || bound->second != to[i]) copy_to(from, to[i]);
  }
  steps_ = outer;
  conditional_--, scans_--;
  keep();
  append(id, std::move(s));
  keep_through_loop(plan_, begin, now_);
}

} // namespace tenon
