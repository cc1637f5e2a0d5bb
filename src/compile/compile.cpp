// The stages in order.
#include "compile/compile.h"

#include <algorithm>

#include "aten/passes.h"
#include "backend/passes.h"
#include "base/similar.h"
#include "compile/fold_weights.h"
#include "edge/constraints.h"
#include "edge/passes.h"
#include "ir/pass_runner.h"
#include "ir/verify.h"

namespace tenon {

Pass find_pass(std::string_view name) {
  std::vector<std::string_view> known;
  for (std::span<const Pass> stage : {std::span<const Pass>(aten_passes), std::span<const Pass>(core_passes),
                                      std::span<const Pass>(edge_passes), std::span<const Pass>(backend_passes)})
    for (const Pass& p : stage) {
      if (p.name == name) return p;
      if (std::ranges::find(known, p.name) == known.end()) known.push_back(p.name);
    }
  bad_input("no pass is called {}{}", name, there_are(name, known));
}

void verify_program(const LoadedProgram& program) {
  verify(program.graph);
  check_edge_types(program.graph);
}

void verify_given_program(const LoadedProgram& program, Dialect dialect, std::string_view whose) {
  try {
    verify(program.graph, dialect);
    check_edge_types(program.graph);
  } catch (const Error& e) {
    bad_input("{}: {}", whose, e.what());
  }
}

static void lower_to_core(LoadedProgram& program) {
  require_input(!program.is_edge, "the program begins in Edge: there is no core graph of it");
  PassOptions options = pass_options_from_env();
  PassRunner runner(options);
  runner.check = verify_program;
  runner.dump(program, "loaded");
  if (runner.run(program, core_passes) && options.verify) verify(program.graph, Dialect::Core);
}

void lower(LoadedProgram& program, std::string_view stage, const Options& options) {
  if (stage == "core") return lower_to_core(program);
  struct Stage {
    std::string_view name; // as lower() is asked for it; empty: not by itself
    std::span<const Pass> passes;
    Dialect dialect; // of the graph afterwards
  };
  const Stage stages[] = {
      {"aten", {}, Dialect::Aten},
      {"edge", aten_passes, Dialect::Edge},
      {"", edge_passes, Dialect::Edge},
      {"backend", backend_passes, Dialect::Backend},
  };
  bool known = false;
  for (const Stage& s : stages) known |= !s.name.empty() && s.name == stage;
  require_input(known, "no such stage: {}", stage);
  PassOptions pass_options = pass_options_from_env();
  if (!options.interpret) program.kernels = options.kernels;
  PassRunner runner(pass_options);
  runner.check = verify_program;
  runner.dump(program, "loaded");
  for (const Stage& s : stages) {
    if (s.dialect == Dialect::Backend && narrow_products(program, options.precision)) runner.dump(program, "narrow_products");
    StageTimer timer;
    if (s.dialect == Dialect::Backend && fold_weights(program, options)) runner.dump(program, "fold_weights");
    if (s.dialect == Dialect::Backend) timer.done("fold_weights");
    if (!runner.run(program, s.passes)) return;
    // A program of which a pass of the user made the Edge graph begins there.
    if (pass_options.verify) verify(program.graph, s.dialect == Dialect::Aten && program.is_edge ? Dialect::Edge : s.dialect);
    if (s.name == stage) return;
  }
}

} // namespace tenon
