// ir::PassManager: passes of the user, with a lint after each.
#include "api/graph_impl.h"
#include "ir/pass_runner.h"
#include "tenon/pass.h"

namespace tenon::ir {

PassManager::PassManager(std::string dialect) : dialect_(std::move(dialect)) {
  require_input(dialect_ == "edge" || dialect_ == "aten" || dialect_ == "script",
                "there are no passes for the dialect '{}': aten, edge, script", dialect_);
}

PassManager& PassManager::add(Pass pass) {
  require_input(!pass.name.empty() && pass.run, "a pass has a name and a function");
  passes_.push_back(std::move(pass));
  return *this;
}

PassManager& PassManager::repeat(int most) {
  require_input(most > 0, "passes run {} times", most);
  rounds_ = most, repeats_ = true;
  return *this;
}

namespace {

bool run_one(const Pass& pass, Graph& graph) {
  auto fail = [&](ErrorKind kind, const char* what, const std::string& where) {
    throw Error(kind, fmt::format("pass {}: {}", pass.name, what), where);
  };
  bool changed = false;
  try {
    changed = pass.run(graph);
    graph.lint();
  } catch (const Error& e) {
    fail(e.kind, e.what(), e.where);
  } catch (const std::exception& e) {
    fail(ErrorKind::BadInput, e.what(), "");
  }
  return changed;
}

} // namespace

bool PassManager::run(Graph& graph) const {
  require_input(graph.dialect() == dialect_, "the passes are for the {} dialect, the graph is {}", dialect_, graph.dialect());
  PassOptions options = pass_options_from_env();
  PassRunner files(options);
  bool any = false, changed = !passes_.empty();
  for (int round = 0; changed; round++) {
    // One more than may change something: that nothing changes ends it.
    require_input(round <= rounds_, "passes still change the graph after {} rounds", rounds_);
    changed = false;
    for (const Pass& pass : passes_) {
      StageTimer timer(options.timing);
      bool now = run_one(pass, graph);
      timer.done(pass.name, now ? "" : " (no change)");
      files.dump(graph.impl().graph, pass.name);
      changed |= now;
    }
    any |= changed;
    if (!repeats_) break;
  }
  return any;
}

} // namespace tenon::ir
