// What is done to a script graph before and after its backward pass is written.
#pragma once
#include <span>
#include <vector>

#include "autodiff/derivatives.h"
#include "builtins/resolve.h"
#include "ir/graph.h"

namespace tenon::autodiff {

/// A copy in which operators that rows describe by others ("result: ...") are these, where gradients for `wrt`, places of inputs, go
/// through them; and what takes a tuple apart that was just made is gone.
///   y = aten::outer(a, b)   ->   c = aten::unsqueeze(a, 1); y = aten::mul(c, b)
Graph expand(const Graph& graph, std::span<const size_t> wrt);
/// The argument that a call leaves to its default, appended to a block. Throws Error(Unsupported) where it is no plain value.
ValueId default_argument(Graph& graph, BlockId block, const Resolved& op, size_t i);

/// Removes nodes from number `first` on whose results nothing needs; what `block` returns is needed, too.
///   l = prim::ListConstruct(); prim::Loop { ... aten::append(l, x) }   ->   prim::Loop { ... }   where nobody reads l
void prune(Graph& graph, BlockId block, uint32_t first);

} // namespace tenon::autodiff
