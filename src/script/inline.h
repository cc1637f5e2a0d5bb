// Calls of functions of the script language emitted into graphs that exist already: the derivative of an operator, say.
#pragma once
#include <memory>
#include <span>

#include "ir/graph.h"

namespace tenon::script {

struct Scope;

/// Functions of one source. Immutable, shared by threads.
class Functions {
public:
  /// Throws Error(BadInput) with what does not parse. `file` begins with "torch/" where parameters without annotation take any type.
  Functions(std::string file, std::string text);
  ~Functions();
  bool has(std::string_view name) const;

private:
  friend ValueId emit_call(Graph& graph, BlockId block, const Functions& functions, std::string_view name, std::span<const ValueId> args);
  std::unique_ptr<Scope> scope_;
};

/// Appends what `name` does with `args` to the block, and gives its result. Throws Error(BadInput) in the compiler's words.
ValueId emit_call(Graph& graph, BlockId block, const Functions& functions, std::string_view name, std::span<const ValueId> args);

} // namespace tenon::script
