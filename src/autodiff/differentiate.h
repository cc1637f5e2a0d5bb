// Reverse-mode differentiation of script graphs: a program becomes one that also gives gradients, or two that share what the first keeps.
// All of them are script graphs, and run as every other does.
#pragma once
#include <span>

#include "ir/graph.h"

namespace tenon::autodiff {

/// Of the results of a program, those that gradients come from ("targets") are its tensors, tuples taken apart, in order; a list or a dict
/// of tensors is one target: the sum of its floating elements.
struct Gradients {
  /// The program's inputs -> its results, then a gradient for each input asked for: of the sum of all targets. It has the input's size and
  /// dtype, and is zero where nothing depends on the input; of a list, a dict or a tuple of tensors it is one of gradients.
  Graph both;
  /// The program's inputs -> its results, then what the backward pass reads.
  Graph forward;
  /// What `forward` kept, then for each target a gradient of its size -> a gradient for each input asked for.
  Graph backward;
  size_t results = 0; ///< of the program
  size_t targets = 0;
};

/// `wrt` are places of inputs. Where an input, or memory that it shares, is written in place, the gradient is with respect to what it was.
/// Throws Error(BadInput) for an input that can have no gradient, Error(Unsupported) for an operator without derivative between an input
/// and a target; both name the place. Thread-safe.
Gradients differentiate(const Graph& graph, std::span<const size_t> wrt);

} // namespace tenon::autodiff
