// StepEmitter: steps of kernels, of the library and of numbers.
#include <algorithm>

#include "backend/contract.h"
#include "backend/join.h"
#include "compile/step_emitter.h"
#include "ir/collective.h"
#include "ir/verify.h"
#include "ops/custom.h"
#include "ops/names.h"
#include "runtime/library_names.h"
#include "runtime/library_steps.h"

namespace tenon {

namespace {

std::string operators_of(const Graph& g, NodeId id) {
  if (!id.valid()) return "copy";
  const Node& n = g.node(id);
  if (n.blocks.empty()) return ops::find_custom(n.op) ? ops::text_of(*n.def) : n.op.name();
  std::string s;
  for (NodeId inner : g.block(n.blocks.at(0)).nodes) s += fmt::format(" {}", g.node(inner).op.base());
  return fmt::format("{}:{}", n.op.base(), s);
}

// Where it comes from; of a region, where its own nodes do, not those that it computes again for itself.
std::string source_of(const Graph& g, NodeId id) {
  if (!id.valid()) return {};
  const Node& n = g.node(id);
  std::vector<const Origin*> origins;
  if (is_region(n))
    for (NodeId inner : g.block(n.blocks.at(0)).nodes) {
      if (!g.node(inner).attribute("inline")) origins.push_back(g.node(inner).origin.get());
    }
  else origins.push_back(n.origin.get());
  return to_string(origins);
}

// Contractions that became ordinary loops.
std::string refused_in(const Graph& g, NodeId id) {
  std::string s;
  for (NodeId inner : g.block(g.node(id).blocks.at(0)).nodes)
    if (std::string why = contract_refusal(g, g.node(inner)); !why.empty())
      s += fmt::format("{}{}: {}", s.empty() ? "" : "; ", g.node(inner).op, why);
  return s;
}

} // namespace

Step& StepEmitter::append(NodeId id, decltype(Step::run) run) {
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

void StepEmitter::build_block(BlockId block) {
  BlockId outer = std::exchange(block_, block);
  for (NodeId id : g_.block(block).nodes) build_node(id);
  block_ = outer;
}

void StepEmitter::build_node(NodeId id) {
  const Node& n = g_.node(id);
  waits_for_ = 0;
  if (n.op == prim::Constant) return;
  if (is_join(n)) return; // its operands lie in its memory
  if (define_in_place(id)) return;
  if (n.op == own::loops) return build_loops(id);
  if (n.op == own::matmul) return build_matmul(id);
  if (n.op == own::conv) return build_conv(id);
  if (n.op == own::attention) return build_attention(id);
  if (n.op == prim::If) return build_if(id);
  if (n.op == prim::While) return build_while(id);
  if (n.op == prim::Scan) return build_scan(id);
  if (n.op == prim::Delegate) return build_delegate(id);
  if (n.op == prim::Item) return build_item(id);
  if (n.op == prim::Assert) return build_assert(id);
  if (n.op == prim::Print) return build_print(id);
  require(n.def && n.def->library, "{} is no step", n.op);
  if (is_collective(n)) return build_collective(id);
  if (is_wait(n)) return build_wait(id);
  build_library(id);
}

StepEmitter::Region StepEmitter::region_of(NodeId id) const {
  size_t number = region_numbers_.at(id);
  return {regions_[number], selected_.regions[number]};
}

void StepEmitter::build_loops(NodeId id) {
  const auto& [lowered, selected] = region_of(id);
  if (!lowered.refused.empty()) {
    fmt::print(stderr, "tenon: a step runs in the interpreter: {}\n", lowered.refused);
    build_fallback(id);
    steps_->back().refused = lowered.refused;
    return;
  }
  const RegionKernels& kernels = lowered.loops;
  if (kernels.kernels.size() == 1 && g_.node(id).outputs.size() == 1) define_result(id, kernels.kernels[0]);
  else
    for (ValueId v : g_.node(id).outputs) define(v);
  std::vector<int> temporaries;
  for (auto& t : kernels.temporaries) temporaries.push_back(define(Type::tensor(t.dtype, {t.elements}), "partial"));
  for (size_t k = 0; k < kernels.kernels.size(); k++) append_kernel(id, kernels.kernels[k], selected.kernels[k], temporaries);
}

void StepEmitter::append_kernel(NodeId id, const RegionKernel& k, const KernelUse& use, const std::vector<int>& temporaries) {
  KernelStep s;
  Expr written = g_.pool().integer(0);
  for (ValueId v : k.buffers) s.buffers.push_back(buffer_or_scratch(v));
  for (auto& [buffer, temporary] : k.temporaries) s.buffers[static_cast<size_t>(buffer)] = temporaries[static_cast<size_t>(temporary)];
  for (size_t i = 0; i < s.buffers.size(); i++)
    if (k.kernel.buffers[i].kind == BufferKind::Output) {
      s.written.push_back(s.buffers[i]);
      written = written + (k.buffers[i].valid() ? product(g_.pool(), g_.type(k.buffers[i]).sizes) : g_.pool().integer(1));
    }
  s.iterations = slot(k.iterations);
  if (!written->is_const()) s.elements = exact_slot(written);
  if (k.kernel.scratch_bytes) s.scratch_bytes = slot(k.kernel.scratch_bytes);
  s.iteration_elements = slot(floor_div(k.elements, max(k.iterations, g_.pool().integer(1))));
  s.element_ns = 0.05 + 0.02 * k.weight;
  s.operations = k.weight;
  s.kernel = use.kernel, s.scalars = scalars_of(use);
  append(id, std::move(s)).refused = refused_in(g_, id);
}

void StepEmitter::count_uses() {
  auto count = [&](ValueId v) { uses_[v]++; };
  for (NodeId id : g_.block(g_.top()).nodes) for_each_use(g_, id, count);
  for (const Arg& a : g_.block(g_.top()).returns) for_each_value(a, count);
}

// Whether a step may write its output over an input: a temporary of the same sizes that nothing else reads, nor parts of it.
bool StepEmitter::dies_here(ValueId input, ValueId output) {
  const Type &from = g_.type(input), &to = g_.type(output);
  bool holds_parts = std::ranges::any_of(parts_, [&](auto& part) { return part.second.whole == input; });
  if (conditional_ > 0 || g_.stored_constant(input) || parts_.contains(output) || holds_parts ||
      plan_.buffers[static_cast<size_t>(buffer_of(input))].place != BufferPlace::Arena)
    return false;
  return from.dtype == to.dtype && from.sizes == to.sizes && uses_[input] == 1;
}

// The result of a region that is one kernel: over an input where that dies, else memory of its own.
void StepEmitter::define_result(NodeId id, const RegionKernel& k) {
  ValueId out = g_.node(id).outputs.at(0);
  for (int b : inputs_beside_result(k.kernel)) {
    ValueId v = k.buffers[static_cast<size_t>(b)];
    if (!v.valid() || !dies_here(v, out)) continue;
    buffers_[out] = buffer_of(v);
    return;
  }
  define(out);
}

int StepEmitter::number_of(LibraryFn step) {
  auto& known = out_.library;
  auto at = std::find(known.begin(), known.end(), step);
  if (at == known.end()) at = known.insert(at, step), plan_.library.emplace_back(library::name_of(step));
  return static_cast<int>(at - known.begin());
}

void StepEmitter::build_library(NodeId id) {
  const Node& n = g_.node(id);
  LibraryStep step = n.def->library(Call(g_, *n.def, n.args, n.attributes));
  if (step.function == library::sort && uses_[n.outputs[1]] == 0)
    step.ints[2] = g_.pool().integer(1); // the order of equal values shows in the positions only: the stable one is quickest
  LibraryStepCall s{.function = number_of(step.function),
                    .inputs = {},
                    .outputs = {},
                    .ints = slots_of(step.ints),
                    .numbers = step.numbers,
                    .texts = step.texts,
                    .is_random = library::is_random(step.function)};
  for (ValueId v : step.inputs) s.inputs.push_back(buffer_of(v));
  int stage = 0;
  if (n.def->data_dependent) {
    stage = slots_.new_stage();
    for (ValueId v : n.outputs)
      for (Expr e : g_.type(v).sizes)
        if (e->op == Op::Symbol && !slots_.is_bound(e)) slots_.bind_checked(e, stage);
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

void StepEmitter::build_item(NodeId id) {
  const Node& n = g_.node(id);
  Expr symbol = g_.type(n.outputs[0]).value;
  if (!symbol || symbol->op != Op::Symbol) return;
  int b = buffer_of(n.args[0].get<ValueId>());
  int stage = slots_.new_stage();
  append(id, ItemStep{b, slots_.bind_checked(symbol, stage), is_float(symbol->type)}).binds = stage;
}

void StepEmitter::build_assert(NodeId id) {
  const Node& n = g_.node(id);
  Expr condition = to_expr(g_.pool(), n.args[0]);
  if (!condition) return;
  AssertStep s{exact_slot(condition), n.args[1].is<std::string>() ? n.args[1].get<std::string>() : "assertion failed"};
  visit(condition, [&](const ExprNode& e) {
    if (e.op == Op::Symbol && !is_float(e.type)) s.values.emplace_back(e.name, slot(Expr(&e)));
  });
  append(id, std::move(s));
}

void StepEmitter::build_print(NodeId id) {
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
int StepEmitter::scalar_buffer(const Arg& a) {
  Expr e = a.is<ValueId>() ? g_.type(a.get<ValueId>()).value : to_expr(g_.pool(), a);
  require(static_cast<bool>(e), "an output is not a number");
  DType t = is_float(e->type) ? DType::F64 : e->type == DType::Bool ? DType::Bool : DType::I64;
  int b = new_buffer(Type::tensor(t, {}), BufferPlace::Arena, "number");
  append(NodeId{}, ScalarStep{slot(e), b, is_float(e->type)});
  return b;
}

StepEmitter::StepEmitter(const LoadedProgram& program, const std::vector<LoweredRegion>& regions, const SelectedKernels& selected,
                         const Options& options, EmittedPlan& out)
    : program_(program), g_(program.graph), regions_(regions), selected_(selected), options_(options), out_(out), plan_(out.plan),
      slots_(plan_.sizes), parts_(joined_parts(g_)) {
  for (size_t i = 0; i < regions.size(); i++) region_numbers_.emplace(regions[i].node, i);
}

void StepEmitter::run() {
  add_inputs();
  steps_ = &plan_.steps;
  count_uses();
  build_block(g_.top());
  add_outputs();
  note_sizes_in_code();
  plan_.num_steps = now_;
}

EmittedPlan emit_steps(const LoadedProgram& backend, const std::vector<LoweredRegion>& regions, const SelectedKernels& selected,
                       const Options& options, const PlanTarget& target) {
  EmittedPlan out;
  out.plan.caches = target.caches;
  out.plan.seed = options.seed;
  out.plan.notes = backend.notes;
  for (const Kernel& k : selected.kernels) out.plan.kernels.push_back(k.name);
  StepEmitter(backend, regions, selected, options, out).run();
  return out;
}

} // namespace tenon
