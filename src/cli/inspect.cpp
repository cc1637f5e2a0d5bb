// `tenon dump`, `tenon explain`: what the program became, what its steps cost.
#include <chrono>

#include <fmt/core.h>

#include "cli/commands.h"

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

void run_for(const ExplainArgs& args, const Executable& exe, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  auto end = Clock::now() + std::chrono::duration<double>(args.seconds);
  do exe.run(inputs, outputs).check();
  while (goes_on(args.options, Clock::now() < end));
}

// What a plan for just the inputs' sizes gains, where sizes vary.
void explain_exact(const Program& program, const ExplainArgs& args, const std::vector<Tensor>& inputs) {
  Options options = args.options;
  options.specialization.compile_share = 0; // calls are counted; nothing is made by itself
  Executable exe = program.compile(options).value();
  run_for(args, exe, inputs);
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  if (!exe.specialize(views).ok()) return;
  run_for(args, exe, inputs);
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
  run_for(args, exe, inputs);
  std::fputs(exe.explain().c_str(), stdout);
  ExecutableStats s = exe.stats();
  fmt::print("{} steps, {} in the interpreter, {} of backends; {} kernels; {} bytes of temporaries, {} of state\n", s.steps,
             s.fallback_steps, s.delegate_steps, s.kernels_compiled, s.arena_bytes, s.state_bytes);
  explain_exact(program, args, inputs);
  return 0;
}

} // namespace tenon::cli
