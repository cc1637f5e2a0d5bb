// Program::dump: the program as text after a stage of the line.
#include "api/impl.h"
#include "compile/compile.h"

namespace tenon {

std::string dump_stage(const LoadedProgram& loaded, std::string_view stage, const Options& options) {
  LoadedProgram lowered = loaded;
  if (stage == "aten" || stage == "edge" || stage == "backend") {
    lower(lowered, stage, options);
    return to_string(lowered.graph);
  }
  bool texts = stage == "llvm" || stage == "asm";
  if (!texts && stage != "loops" && stage != "plan")
    bad_input("no such stage: {}; there are aten, edge, backend, loops, llvm, asm, plan", stage);
  lower(lowered, "backend", options);
  Compiled compiled = build_plan(std::move(lowered), options, {.texts = texts});
  if (stage == "plan") return to_string(compiled.plan->plan);
  std::string out;
  for (size_t i = 0; i < compiled.kernels.size(); i++) {
    const Kernel& k = compiled.kernels[i];
    out += fmt::format("{} kernel {} {}\n", stage == "llvm" ? ';' : '#', i, k.name);
    out += stage == "loops" ? to_string(k) : stage == "llvm" ? compiled.texts.at(i).ir : compiled.texts.at(i).assembly;
    out += '\n';
  }
  return out;
}

} // namespace tenon
