// Program::dump: the program as text after a stage of the line.
#include <algorithm>

#include <fmt/ranges.h>

#include "api/impl.h"
#include "compile/assign_buffers.h"
#include "compile/compile.h"

namespace tenon {

namespace {

std::string kernel_texts(const std::vector<Kernel>& kernels, char comment, const std::function<std::string(size_t)>& text_of) {
  std::string out;
  for (size_t i = 0; i < kernels.size(); i++) out += fmt::format("{} kernel {} {}\n{}\n", comment, i, kernels[i].name, text_of(i));
  return out;
}

} // namespace

std::string dump_stage(const LoadedProgram& loaded, std::string_view stage, const Options& options) {
  LoadedProgram program = loaded;
  if (stage == "aten" || stage == "core" || stage == "edge" || stage == "backend") {
    lower(program, stage, options);
    return to_string(program.graph);
  }
  constexpr std::string_view others[] = {"regions", "kernels", "loops", "plan", "llvm", "asm"};
  if (std::ranges::find(others, stage) == std::end(others))
    bad_input("no such stage: {}; there are aten, core, edge, backend, {}", stage, fmt::join(others, ", "));
  lower(program, "backend", options);
  Machine machine(program, options);
  PlanTarget target(machine.target);
  auto regions = lower_regions(program.graph, target, options.forbid_fallback);
  if (stage == "regions") return to_string(program.graph, regions);
  SelectedKernels selected = select_kernels(program.graph, regions, *machine.micro_kernels, target);
  if (stage == "kernels") return to_string(program.graph, regions, selected, *machine.micro_kernels);
  if (stage == "loops") return kernel_texts(selected.kernels, '#', [&](size_t i) { return to_string(selected.kernels[i]); });
  if (stage == "plan") {
    EmittedPlan emitted = emit_steps(program, regions, selected, options, target);
    assign_buffers(emitted.plan);
    return to_string(emitted.plan);
  }
  Workers workers(options.threads, options.pool);
  CompiledCode code =
      compile_code(selected, machine.target, [&](const std::function<void()>& work) { workers.together(work); }, {.texts = true});
  if (stage == "llvm") return kernel_texts(selected.kernels, ';', [&](size_t i) { return code.texts.at(i).ir; });
  return kernel_texts(selected.kernels, '#', [&](size_t i) { return code.texts.at(i).assembly; });
}

} // namespace tenon
