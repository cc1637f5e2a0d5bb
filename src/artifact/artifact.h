// A compiled program as one file: its plan, object code, and weights as kernels read them, which are mapped where it is loaded. It holds
// machine code: a file is to be trusted as a library is. Checksums find damage, not malice.
#pragma once
#include <string>
#include <vector>

#include "codegen/code_object.h"
#include "ir/signature.h"
#include "runtime/linked_plan.h"
#include "tenon/options.h"

namespace tenon::artifact {

/// What a file says besides weights.
struct Description {
  std::string name; // of the program
  Signature signature;
  Isa isa = Isa::Auto;
  std::string target;                                     // describe(Target), which the machine that loads it must have
  bool has_narrow = false;                                // products of less than 32 bits: its tile registers may be used
  std::string key;                                        // what a cache looks it up by
  Plan plan;                                              // without tensors
  std::vector<CodeObject> objects;                        // by the numbers of the plan's kernels
  std::vector<std::pair<int64_t, std::string>> operators; // custom ones that it calls, by number, and what they say of themselves
};

struct Loaded {
  Description description;
  std::shared_ptr<const LinkedPlan> plan;
};

/// Whether the file begins as one of these.
bool is_artifact(const std::string& path);
/// Replaces `path` at once, when all is written. Unsupported: a step that has no form in a file (of the interpreter).
/// BadInput: the system's reason why it cannot be written; then nothing is left of it.
void write(const std::string& path, const Description& description, const LinkedPlan& linked);
/// BadInput: no such file, another version's, or damaged. Unsupported: compiled for another kind of machine, or a custom operator that is
/// not registered. The workers look through the weights.
Loaded load(const std::string& path, const Workers& workers);

} // namespace tenon::artifact
