// `tenon dump`, `tenon explain`, `tenon ops`: what the program became, what its steps cost, what can run at all.
#include <chrono>

#include <fmt/core.h>

#include "cli/commands.h"
#include "edge/constraints.h"
#include "ir/op.h"

namespace tenon::cli {

int dump(const DumpArgs& args) {
  if (is_script(args.model.file)) return dump_script(args);
  Program program = load(args.model);
  if (!args.edge_types.empty()) program.check_edge_types(read_file(args.edge_types)).check();
  std::fputs(program.dump(args.stage, args.options).value().c_str(), stdout);
  return 0;
}

namespace {

using Clock = std::chrono::steady_clock;

void run_for(double seconds, const Executable& exe, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do exe.run(inputs, outputs).check();
  while (Clock::now() < end);
}

// What a plan for just the inputs' sizes gains, where sizes vary.
void explain_exact(const Program& program, const ExplainArgs& args, const std::vector<Tensor>& inputs) {
  Options options = args.options;
  options.specialization.compile_share = 0; // calls are counted; nothing is made by itself
  Executable exe = program.compile(options).value();
  run_for(args.seconds, exe, inputs);
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  if (!exe.specialize(views).ok()) return;
  run_for(args.seconds, exe, inputs);
  VariantInfo v = exe.variants().back();
  fmt::print("a plan for exactly {}: {:.1f} us a call, the plan for all sizes {:.1f}; {} bytes of its own, compiled in {:.1f} ms\n",
             v.guard, v.mean_us, v.generic_us, v.bytes, v.compile_ms);
}

} // namespace

int explain(const ExplainArgs& args) {
  if (is_script(args.model.file)) return explain_script(args);
  Program program = load(args.model);
  Options options = args.options;
  options.profile = true;
  std::vector<Tensor> inputs = args.inputs.empty() ? program.example_inputs().value() : read_inputs(args.inputs, program.inputs()), outputs;
  // The first run, with cold memory and late micro-kernels, goes to an executable of its own.
  program.compile(options).value().run(inputs, outputs).check();
  Executable exe = program.compile(options).value();
  run_for(args.seconds, exe, inputs);
  std::fputs(exe.explain().c_str(), stdout);
  ExecutableStats s = exe.stats();
  fmt::print("{} steps, {} in the interpreter, {} of backends; {} kernels; {} bytes of temporaries, {} of state\n", s.steps,
             s.fallback_steps, s.delegate_steps, s.kernels_compiled, s.arena_bytes, s.state_bytes);
  explain_exact(program, args, inputs);
  return 0;
}

namespace {

constexpr const char* how(const OpDef& op) {
  switch (op.kind) {
  case Kind::Pointwise: return "pointwise, generated code";
  case Kind::View: return "view or index map, generated code";
  case Kind::Reduce: return "reduction, generated code";
  case Kind::Matmul: return "matrix product, micro-kernels (f32) or generated code";
  case Kind::Conv: return "convolution, micro-kernels (f32) or generated code";
  case Kind::Library: return op.data_dependent ? "library step, sizes from data" : "library step";
  case Kind::Composite: return "decomposed";
  case Kind::Prim: return "plan";
  }
  return "";
}

std::string dtypes_of(const OpDef& op) {
  if (op.is_composite()) return "as its parts";
  std::string s;
  for (int t = 0; t < num_dtypes; t++)
    if (op.dtypes >> t & 1) s += (s.empty() ? "" : " ") + std::string(name_of(static_cast<DType>(t)));
  return s;
}

} // namespace

int ops(const OpsArgs& args) {
  if (!args.allowed.empty()) {
    for (DType t : allowed_types(args.allowed[0], args.allowed[1]).value()) fmt::print("{}\n", torch_name(t));
    return 0;
  }
  if (args.edge_yaml) return std::fputs(to_yaml(edge_ops()).c_str(), stdout) < 0;
  auto all = all_ops();
  if (args.markdown)
    fmt::print("# Operators\n\nEvery overload with a row, in-place forms apart: `tenon ops --markdown` wrote this. A decomposed operator "
               "has the dtypes of its parts.\n\n"
               "| operator | dialect | how it runs | dtypes |\n|---|---|---|---|\n");
  for (const OpDef* op : all) {
    std::string name(op->schema.substr(0, op->schema.find('(')));
    const char* dialect = op->kind == Kind::Prim ? "all" : op->stays_in_edge() ? "aten, edge" : "aten";
    if (args.markdown) fmt::print("| `{}` | {} | {} | {} |\n", name, dialect, how(*op), op->is_composite() ? "" : dtypes_of(*op));
    else fmt::print("{:<56} {:<11} {:<54} {}\n", name, dialect, how(*op), dtypes_of(*op));
  }
  if (!args.markdown) fmt::print("{} operators\n", all.size());
  return 0;
}

} // namespace tenon::cli
