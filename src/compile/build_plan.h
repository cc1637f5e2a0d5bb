// Backend graph to a plan that runs, value by value:
//
//   lower_regions  (lower_regions.h)   regions -> loops, and operands of micro-kernels
//   select_kernels (select_kernels.h)  -> distinct kernels, micro-kernels, packed forms of constants
//   emit_steps     (emit_steps.h)      -> steps over buffers, the program of sizes
//   assign_buffers (assign_buffers.h)  -> lifetimes of buffers: after the steps, whose order they follow from
//   compile_code   (codegen/codegen.h) kernels -> machine code, while the workers of
//   pack_weights   (pack_weights.h)    pack constants, and make the micro-kernels that steps may need
//
// and last the numbers in the plan get addresses.
#pragma once
#include "base/large_memory.h"
#include "codegen/codegen.h"
#include "codegen/x86/micro_kernels.h"
#include "compile/emit_steps.h"

namespace tenon {

/// The machine, and its micro-kernels.
struct Machine {
  /// Those of `shared`, where that is given.
  Machine(const LoadedProgram& backend, const Options& options, const LinkedPlan* shared = nullptr);
  Target target;
  bool has_narrow; // products of less than 32 bits
  std::shared_ptr<const MicroKernels> own;
  const KernelTable* micro_kernels;
};

/// What is kept of compiling, besides code that runs.
struct Keep {
  bool texts = false, objects = false;
};

struct CompiledCode {
  std::vector<CompiledKernel> kernels; // of one Code
  std::vector<CodeText> texts;         // of the kernels, where asked for
  std::vector<CodeObject> objects;     // the same
};

CompiledCode compile_code(const SelectedKernels& selected, const Target& target, const Together& together, Keep keep = {});

struct Compiled {
  std::shared_ptr<const LinkedPlan> plan;
  std::vector<CodeObject> objects; // of the kernels, where asked for
  Target target;
  bool has_narrow = false;
  size_t own_bytes = 0; // of code, packed weights and folded constants, without those of the plan that it shares with
};

/// All stages. Packed weights go to `packed`. What `shared`, a plan of the same program, has packed or holds as a constant serves here too.
Compiled build_plan(LoadedProgram backend, const Options& options, Keep keep = {}, LargeMemory packed = {},
                    std::shared_ptr<const LinkedPlan> shared = nullptr);

} // namespace tenon
