// cse: each pure node gets a key of its operator, arguments and types; a second node with the same key is the first.
#include <unordered_map>

#include "edge/passes.h"
#include "ir/collective.h"
#include "ir/key.h"
#include "ops/names.h"
#include "runtime/library_steps.h"

namespace tenon {

namespace {

class Cse {
public:
  explicit Cse(LoadedProgram& program) : program_(program), r_(program.graph, true) {}

  bool run() {
    r_.node = [this](NodeId id) { visit(id); };
    // Each block by itself: a value that an inner block captures must be in memory, so a cheap one is better made again there.
    r_.block = [this](BlockId old, BlockId now) {
      auto outer = std::exchange(known_, {});
      r_.copy_block(old, now);
      known_ = std::move(outer);
    };
    return rewrite_program(program_, r_, changed_);
  }

private:
  // Random steps give something else each time; ranks count the collectives of others; prim:: nodes bind symbols, have blocks or effects.
  bool is_pure(const Node& n) const {
    if (!n.def || !n.blocks.empty() || n.outputs.empty() || n.def->data_dependent) return false;
    if (n.def->kind == Kind::Prim) return n.op == prim::Constant;
    if (is_collective(n)) return false;
    return !n.def->library || !library::is_random(n.def->library(Call(r_.from, *n.def, n.args)).function);
  }

  std::string key_of(const Node& n) const {
    Key key(r_.from, [this](ValueId v) { return r_[v].index; });
    key.add(n);
    return key.take();
  }

  void visit(NodeId id) {
    const Node& n = r_.from.node(id);
    if (!is_pure(n)) return r_.copy_node(id);
    auto [it, is_new] = known_.try_emplace(key_of(n));
    if (is_new) {
      r_.copy_node(id);
      for (ValueId v : n.outputs) it->second.push_back(r_[v]);
      return;
    }
    changed_ = true;
    for (size_t i = 0; i < n.outputs.size(); i++) r_.set(n.outputs[i], it->second[i]);
  }

  LoadedProgram& program_;
  Rewriter r_;
  std::unordered_map<std::string, std::vector<ValueId>> known_;
  bool changed_ = false;
};

} // namespace

bool cse(LoadedProgram& program) { return Cse(program).run(); }

} // namespace tenon
