// StepEmitter: regions that no kernel computes, as a graph of their own that the interpreter runs on the plan's memory.
#include <unordered_set>

#include "base/strided.h"
#include "compile/step_emitter.h"
#include "interp/interp.h"
#include "ir/pass.h"
#include "runtime/frame.h"

namespace tenon {

namespace {

struct Operand {
  int buffer;
  DType dtype;
  std::vector<Slot> sizes, strides;
};

/// What a step runs: a graph whose parameters and results are the operands.
struct Fallback {
  Graph graph;
  std::vector<Operand> inputs, outputs;
  std::vector<std::pair<std::string, Slot>> symbols;
  uint64_t seed;

  std::string run(Frame& f) const {
    try {
      SymbolValues values;
      for (auto& [name, s] : symbols) values[name] = static_cast<double>(f.slots[static_cast<size_t>(s)]);
      std::vector<Tensor> operands;
      for (const Operand& o : inputs) operands.push_back(tensor(f, o));
      // A copy: running makes expressions, and several calls may run at once.
      std::vector<Tensor> results = interpret(Graph(graph), operands, values, seed);
      for (size_t i = 0; i < outputs.size(); i++) copy_to_strided(results[i].contiguous().data(), tensor(f, outputs[i]).view());
      return {};
    } catch (const std::exception& e) {
      return e.what();
    }
  }

private:
  static Tensor tensor(const Frame& f, const Operand& o) {
    std::vector<int64_t> sizes, strides;
    for (Slot s : o.sizes) sizes.push_back(f.slots[static_cast<size_t>(s)]);
    for (Slot s : o.strides) strides.push_back(f.slots[static_cast<size_t>(s)]);
    if (strides.empty()) strides = contiguous_strides(sizes);
    void* data = f.pointers[static_cast<size_t>(o.buffer)];
    return Tensor(o.dtype, sizes, strides, std::shared_ptr<void>(data, [](void*) {}), data);
  }
};

} // namespace

void StepEmitter::build_fallback(NodeId id) {
  const Node& n = g_.node(id);
  BlockId block = n.blocks.at(0);
  Rewriter r(g_, true);
  auto made = std::make_shared<Fallback>();
  made->seed = options_.seed;
  FallbackStep step{.number = plan_.fallback_steps++};
  std::unordered_map<std::string, Slot> symbols;
  auto note = [&](const Type& t) {
    for (Expr s : t.sizes)
      visit(s, [&](const ExprNode& e) {
        if (e.op == Op::Symbol) symbols.emplace(e.name, slot(Expr(&e)));
      });
  };
  auto operand = [&](ValueId v) {
    const Type& t = g_.type(v);
    Operand o{buffer_of(v), t.dtype, slots_of(t.sizes), slots_of(t.strides)};
    step.buffers.push_back(o.buffer);
    return o;
  };
  std::unordered_set<ValueId> known;
  for (NodeId inner : g_.block(block).nodes)
    for (ValueId v : g_.node(inner).outputs) known.insert(v), note(g_.type(v));
  for_each_use(g_, id, [&](ValueId v) {
    if (!known.insert(v).second) return;
    made->inputs.push_back(operand(v)), note(g_.type(v));
    r.set(v, r.to.add_param(r.to.top(), g_.type(v)));
  });
  r.copy_block(block, r.to.top());
  for (ValueId v : n.outputs) define(v), made->outputs.push_back(operand(v)), step.written.push_back(step.buffers.back());
  made->symbols.assign(symbols.begin(), symbols.end());
  made->graph = r.to; // with expressions of its own
  made->graph.pool().freeze();
  out_.fallbacks.push_back([fallback = std::shared_ptr<const Fallback>(made)](Frame& f) { return fallback->run(f); });
  append(id, std::move(step));
}

} // namespace tenon
