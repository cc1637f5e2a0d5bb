// Runs a script graph: in the interpreter at first, then by plans for what it is called with. Plans are of the whole graph, as a program of
// the ATen dialect (lift.h); what cannot be lifted stays with the interpreter, and `why_interpreted` says why.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "executor/interpreter.h"
#include "executor/lift.h"
#include "runtime/executable.h"
#include "tenon/explain.h"

namespace tenon::executor {

struct ExecutorOptions {
  bool interpret = false;       ///< no plans
  bool forbid_fallback = false; ///< a call that no plan serves is an error, which says why; plans are made at once
  int calls_before_plan = 1;    ///< with arguments of one kind, that the interpreter serves
  int threads = 0;              ///< of plans; 0: all cores
  bool profile = false;         ///< steps of plans are timed
};

class GraphExecutor {
public:
  /// Throws Error(BadInput) that lists all operators that are not known.
  explicit GraphExecutor(Graph graph, ExecutorOptions options = {});
  ~GraphExecutor();

  /// The graph's returns. What the program prints goes to `printer`, without one to stdout. Thread-safe. Throws Error, with what the
  /// program raises where it does.
  std::vector<IValue> run(std::vector<IValue> args, Printer printer = {});
  /// Of the arguments of one kind or another: why calls with them go to the interpreter. Empty where none do.
  std::vector<std::string> why_interpreted() const;
  size_t num_plans() const;
  /// The graph of each plan.
  std::string explain() const;
  /// The steps of each plan.
  std::vector<Explanation> explanations() const;
  /// What is looked up with every call, for measurements: whether there is a plan for these arguments.
  bool matches(std::span<const IValue> args);

private:
  struct Plan;
  struct Entry;
  /// Arguments of dtypes, ranks and lists' lengths; open in sizes and numbers.
  struct Pattern;
  using Key = std::vector<int64_t>;

  template <class F> void for_each_plan(const F& f) const;
  Entry& find(const Key& key);
  std::shared_ptr<Plan> choose(std::span<const IValue> args);
  Pattern* pattern_of(std::span<const IValue> args);
  std::shared_ptr<Plan> plan_for(Pattern& pattern, std::span<const IValue> args);
  std::shared_ptr<Plan> compile(std::span<const IValue> args, Sizes sizes);

  Graph graph_;
  ExecutorOptions options_;
  std::shared_ptr<const Code> code_;
  mutable std::mutex mutex_; // of what follows
  std::shared_ptr<Entry> last_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  std::map<Key, Pattern> patterns_;
  std::set<std::string> failures_; ///< of calls that no plan served
};

} // namespace tenon::executor
