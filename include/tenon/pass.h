// Passes of the user: functions that change a program's graph, and rewriting by patterns.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/graph.h"

namespace tenon::ir {

/// A change of a graph; says whether it made any. What it throws ends the run.
struct Pass {
  std::string name;
  std::function<bool(Graph&)> run;
};

/// Runs passes in order on graphs of one dialect, and lints the graph after each. TENON_DUMP and TENON_TIMING tell of them by their names,
/// as of tenon's own. Program::transform takes one.
class TENON_API PassManager {
public:
  /// "edge" or "aten"; "script" for the graphs of TorchScript, which run() takes.
  explicit PassManager(std::string dialect = "edge");
  PassManager& add(Pass pass);
  PassManager& add(std::string name, std::function<bool(Graph&)> run) { return add(Pass{std::move(name), std::move(run)}); }
  /// All again, until none changes anything, `most` times at most.
  PassManager& repeat(int most = 100);
  /// Whether anything was changed. Throws Error(BadInput) that names the pass: for what it threw, for a graph that is not of the dialect
  /// afterwards, and where `most` rounds did not suffice.
  bool run(Graph& graph) const;
  const std::string& dialect() const { return dialect_; }

private:
  std::string dialect_;
  std::vector<Pass> passes_;
  int rounds_ = 1; // that may change something
  bool repeats_ = false;
};

/// Where a pattern was found.
struct Match {
  std::vector<Arg> inputs;    ///< what the pattern's inputs stand for: values, or constants
  std::vector<Value> outputs; ///< of the graph, for the pattern's
  std::vector<Node> nodes;    ///< of the graph, for the pattern's, in the order in which the pattern inserts them
};

/// What to find, and what to put in its place, both written with Graph::insert:
///   Rewrite{.inputs = 2,
///           .pattern = [](Graph& g, auto& x) { return std::vector{g.insert("aten::add.Tensor", {g.insert("aten::mul.Tensor", {x[0],
///           x[1]}), x[1]})}; }, .replacement = [](Graph& g, const Match& m) { return std::vector{g.insert("mine::fma", {m.inputs[0],
///           m.inputs[1]})}; }}
/// An input of the pattern stands for any value or constant, the same wherever it occurs. Constants in the pattern match their like by
/// value, numbers in the Edge dialect also a tensor that is filled with them. Operators are compared by name: in an Edge graph aten:: and
/// edge:: are the same. A result inside of what is found, which the pattern does not give, may have no other use.
struct Rewrite {
  size_t inputs = 0;
  std::function<std::vector<Value>(Graph&, const std::vector<Value>& inputs)> pattern = {};
  /// Inserts before the last node that was found, or before what uses it first; gives a value for each of the pattern's outputs, of the
  /// same type.
  std::function<std::vector<Value>(Graph&, const Match&)> replacement = {};
  std::function<bool(const Match&)> filter = {}; ///< none: all matches count
  bool commute = false;                          ///< operands of operators that commute (add, mul) may be in either order
};

/// Where the pattern occurs, in the order of the nodes; no node is in two matches. Throws Error(BadInput) for a pattern without nodes, or
/// one that does not use an input.
TENON_API std::vector<Match> find(const Rewrite& rewrite, Graph& graph);
/// Replaces what it finds, inner blocks included. Gives the number of replacements. Throws Error(BadInput) for a replacement of another
/// type, and what the functions throw.
TENON_API size_t replace(const Rewrite& rewrite, Graph& graph);

} // namespace tenon::ir
