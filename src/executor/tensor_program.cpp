#include "executor/tensor_program.h"

#include "compile/build_plan.h"
#include "compile/compile.h"
#include "ir/define.h"

namespace tenon::executor {

namespace {

// The interpreter computes some 50 elements a microsecond; native code takes milliseconds to make.
constexpr double work_worth_compiling = 200'000;

double extent(const std::vector<Expr>& axes) {
  double n = 1;
  for (Expr a : axes) {
    const int64_t* e = const_int(a->args[0]) ? &a->args[0]->bits : nullptr;
    n *= e ? static_cast<double>(*const_int(a->args[0])) : 16;
  }
  return n;
}

double work_of(const Graph& g, BlockId block) {
  double work = 0;
  for (NodeId id : g.block(block).nodes) {
    const Node& n = g.node(id);
    for (BlockId inner : n.blocks) work += 16 * work_of(g, inner);
    if (n.def && n.blocks.empty() && has_definition(n)) {
      Compute c = definition_of(g, n);
      work += extent(c.axes) * extent(c.reduce_axes);
    } else
      for (ValueId v : n.outputs) {
        double elements = 1;
        for (Expr s : g.type(v).sizes) elements *= const_int(s) ? static_cast<double>(*const_int(s)) : 16;
        work += elements;
      }
  }
  return work;
}

} // namespace

TensorProgram::TensorProgram(LoadedProgram program) : program_(std::move(program)) {
  LoadedProgram edge = program_;
  lower(edge, "edge");
  work_ = work_of(edge.graph, edge.graph.top());
  interpreter_ = std::make_unique<InterpretedRunner>(std::move(edge), 0);
}

void TensorProgram::compile() {
  LoadedProgram program = program_;
  Options options;
  lower(program, "backend", options);
  Compiled compiled = build_plan(std::move(program), options, {}, {});
  native_ = std::make_unique<PlanRunner>(compiled.plan, Workers(options.threads, options.pool));
}

std::vector<Tensor> TensorProgram::run(std::span<const TensorView> inputs) {
  {
    std::scoped_lock lock(mutex_);
    interpreted_work_ += work_;
    if (!native_ && interpreted_work_ > work_worth_compiling) compile();
  }
  if (!native_) return interpreter_->run(inputs);
  std::vector<Tensor> outputs;
  if (Status s = native_->run(inputs, outputs); !s) throw s.error();
  return outputs;
}

} // namespace tenon::executor
