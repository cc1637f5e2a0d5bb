// Programs of TorchScript: from source text in its language, from IR text, from a graph built by hand (graph.h) or traced (trace.h); run on
// values (ivalue.h).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/graph.h"
#include "tenon/ivalue.h"
#include "tenon/program.h"

namespace tenon {

struct ScriptOptions {
  /// Gets each line that the program prints, its end included; none: stdout. Called in the thread that runs.
  std::function<void(std::string_view)> print = {};
};

/// A program of TorchScript: interpreted at first, then by plans of native code for the kinds of arguments that it is called with.
/// Immutable; copies share it. It may be run by many threads at once, where they do not pass it lists, dicts or
/// tensors that it changes in place.
class TENON_API Script {
public:
  struct Param {
    std::string name;
    ir::Type type;
    std::optional<IValue> fallback = {}; ///< the default
  };
  using Named = std::pair<std::string, IValue>; ///< a keyword argument

  /// Compiles the function `entry` of a source in TorchScript's language with all that it calls, or the forward of the module class
  /// `entry`, whose __init__ takes no arguments. `file` is what errors call the source. Errors: BadInput in torch's words, with the lines
  /// they are about and `where` as file:line:column; those of from().
  static Result<Script> compile(std::string_view source, const std::string& entry, const std::string& file = "script.py");
  /// The same from a file; without `entry`, the file's text is IR. Errors: also BadInput where it cannot be read.
  static Result<Script> load(const std::string& path, const std::string& entry = {});
  /// From the text of a graph, as torch prints it or in the spelling of 2018. `weights` names the last inputs. Errors: BadInput with line
  /// and column; those of from().
  static Result<Script> parse(std::string_view text, std::vector<std::string> weights = {});
  /// From a script graph. Errors: BadInput for a graph of another dialect, or one that Graph::lint refuses; and with all operators that are
  /// not known, or whose arguments fit no overload.
  static Result<Script> from(const ir::Graph& graph, std::vector<std::string> weights = {});

  /// What a caller passes, in order.
  const std::vector<Param>& params() const;
  /// Parameters and buffers of a module, by their names in its state dict: the graph's inputs behind params().
  const std::vector<std::string>& weights() const;
  /// Those that have values.
  std::vector<NamedTensor> state_dict() const;
  /// The program with values for weights; others keep theirs. The tensors are shared: what the program writes to a buffer is written there.
  /// Names that the program does not use are passed over, as a state dict may have more. Errors: BadInput for a name that is there twice.
  Result<Script> with_state_dict(std::span<const NamedTensor> weights) const;

  /// The program that gives gradients behind its results, by reverse-mode differentiation: one for each of `wrt`, names of parameters or
  /// weights, of the sum of all floating elements of the results; of its size and dtype, zero where nothing depends on it. Weights keep
  /// their values. Errors: BadInput for a name that is neither, and what can have no gradient; Unsupported for an operator without
  /// derivative, with its place.
  Result<Script> gradient(std::span<const std::string> wrt) const;

  /// The program under other options, of which interpret, forbid_fallback and threads count; what it has learned of its calls begins anew.
  Script with_options(const Options& options) const;
  /// The steps of the plans that calls so far have got, and why calls go to the interpreter where they do.
  std::string explain() const;

  /// Its graph, a copy, to read, or to change and make a program of by from().
  ir::Graph graph() const;
  /// The graph as text: ir::Graph::toString.
  std::string text() const;

  /// Runs on arguments for params(), positional ones first; those at the end may be left out where there are defaults. Ints stand for
  /// floats. Gives what the graph returns. Tensors are passed without copies, and results may share the memory of arguments, as views do.
  /// Errors: BadInput for arguments that are missing, too many or of another type, for weights without values; and for what the program
  /// raises, in torch's words, with `where` as the place in the source. Thread-safe.
  Result<std::vector<IValue>> run(std::vector<IValue> args, const std::vector<Named>& kwargs = {}, const ScriptOptions& options = {}) const;
  /// The same with one value: the only one, a tuple of several, None where there is none.
  Result<IValue> call(std::vector<IValue> args, const std::vector<Named>& kwargs = {}, const ScriptOptions& options = {}) const;
  /// The same; throws Error.
  template <class... A> IValue operator()(A&&... args) const { return call({IValue(std::forward<A>(args))...}).value(); }

  struct Impl;
  explicit Script(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

private:
  std::shared_ptr<const Impl> impl_;
};

} // namespace tenon
