// The stages in order.
#include "compile/compile.h"

#include "aten/passes.h"
#include "backend/passes.h"

namespace tenon {

namespace {

void run_passes(LoadedProgram& program, std::span<const Pass> passes) {
  for (const Pass& p : passes) p.run(program);
}

} // namespace

void lower(LoadedProgram& program, std::string_view stage) {
  if (stage == "aten") return;
  run_passes(program, aten_passes);
  if (stage == "edge") return;
  run_passes(program, backend_passes);
  if (stage == "backend") return;
  bad_input("no such stage: {}", stage);
}

} // namespace tenon
