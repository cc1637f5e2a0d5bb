// Program::to_backend: each part that a backend takes becomes a node prim::Delegate around it, with the bytes that the backend makes of it.
#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "api/impl.h"
#include "api/partition.h"
#include "compile/compile.h"
#include "compile/transform.h"
#include "ir/pass.h"
#include "ops/names.h"
#include "runtime/backends.h"

namespace tenon {

namespace {

/// What a delegate reads and gives.
struct Border {
  std::vector<ValueId> inputs, outputs;
  std::vector<NodeId> nodes; // with those that come along, in order
  std::vector<Expr> sizes;   // symbols that no operand has as a size
  std::string operators;
};

class Delegation {
public:
  Delegation(ir::Graph& graph, const Backend& backend)
      : graph_(graph), g_(graph.impl().graph), backend_(backend), name_(backend.runtime.name), r_(g_, true) {}

  Graph run() {
    for (uint32_t i = 0; i < g_.num_tensors(); i++) r_.to.add_tensor(g_.stored(TensorId{i}));
    r_.copy_params(g_.top(), r_.to.top());
    r_.block = [this](BlockId old, BlockId now) { copy_block(old, now); };
    copy_block(g_.top(), r_.to.top());
    return std::move(r_.to);
  }
  bool any() const { return count_ > 0; }
  /// Checksums of all bytes, for the program's fingerprint.
  std::string checksums;

private:
  void copy_block(BlockId old, BlockId now) {
    BlockId outer = r_.builder.block();
    r_.builder.set_block(now);
    for (const ir::BlockPart& part : ir::partition_block(graph_, old, backend_.partitioner)) {
      const Node& first = g_.node(part.nodes[0]);
      if (part.is_delegate) delegate(part.nodes);
      else if (first.op == prim::Delegate) copy_delegate(part.nodes[0]);
      else r_.copy_node(part.nodes[0]);
    }
    r_.to.block(now).returns = r_(g_.block(old).returns);
    r_.builder.set_block(outer);
  }

  // Of another backend: what is in it is taken.
  void copy_delegate(NodeId id) {
    auto mine = std::exchange(r_.block, [this](BlockId old, BlockId now) { r_.copy_block(old, now); });
    r_.copy_node(id);
    r_.block = std::move(mine);
  }

  Border border_of(const std::vector<NodeId>& members) const {
    Border b;
    std::unordered_set<NodeId> inside(members.begin(), members.end()), along;
    std::unordered_set<ValueId> seen;
    for (NodeId id : members) {
      for (const Arg& a : g_.node(id).args)
        for_each_value(a, [&](ValueId v) {
          NodeId maker = g_.value(v).node;
          if (maker.valid() && inside.contains(maker)) return;
          if (maker.valid() && ir::comes_along(g_, g_.node(maker))) {
            if (along.insert(maker).second) b.nodes.push_back(maker);
          } else if (seen.insert(v).second) b.inputs.push_back(v);
        });
      b.nodes.push_back(id);
      for (ValueId v : g_.node(id).outputs)
        if (is_read_outside(v, inside)) b.outputs.push_back(v);
      b.operators += fmt::format("{}{}", b.operators.empty() ? "" : " ", g_.node(id).op.base());
    }
    note_sizes(b);
    return b;
  }

  bool is_read_outside(ValueId v, const std::unordered_set<NodeId>& inside) const {
    return std::ranges::any_of(graph_.impl().uses.get(v),
                               [&](auto& use) { return use.user.is_block || !inside.contains(NodeId{use.user.id}); });
  }

  void note_sizes(Border& b) const {
    std::unordered_set<const ExprNode*> known;
    for (ValueId v : b.inputs)
      for (Expr e : g_.type(v).sizes) known.insert(e.get());
    auto note = [&](Expr e) {
      visit(e, [&](const ExprNode& n) {
        if (n.op == Op::Symbol && known.insert(&n).second) b.sizes.emplace_back(&n);
      });
    };
    std::function<void(const Arg&)> look = [&](const Arg& a) {
      if (a.is<Expr>()) note(a.get<Expr>());
      else if (a.is<ArgList>()) std::ranges::for_each(a.get<ArgList>(), look);
    };
    for (NodeId id : b.nodes) {
      std::ranges::for_each(g_.node(id).args, look);
      for (ValueId v : g_.node(id).outputs) std::ranges::for_each(g_.type(v).sizes, note);
    }
  }

  /// The sub-graph by itself, as the backend sees it.
  ir::Graph subgraph(const Border& b) const {
    Rewriter s(g_, true);
    for (ValueId v : b.inputs) s.add_param(v, s.to.top());
    for (NodeId id : b.nodes) {
      s.builder.set_origin(g_.node(id).origin);
      if (g_.node(id).op == prim::Constant) {
        ValueId v = g_.node(id).outputs[0];
        s.set(v, s.builder.constant(g_.stored(g_.node(id).args[0].get<TensorId>()), g_.value(v).name).id);
      } else s.copy_node(id);
    }
    for (ValueId v : b.outputs) s.to.block(s.to.top()).returns.push_back(s[v]);
    return ir::public_graph(Graph(s.to), Dialect::Edge); // with expressions of its own
  }

  Tensor compile(const Border& b) {
    std::vector<std::string> sizes;
    for (Expr e : b.sizes) sizes.push_back(e->name);
    try {
      std::vector<std::byte> bytes = backend_.preprocess(subgraph(b), sizes);
      Tensor t(DType::U8, {static_cast<int64_t>(bytes.size())});
      if (!bytes.empty()) std::memcpy(t.data(), bytes.data(), bytes.size());
      return t;
    } catch (const std::exception& e) {
      auto* known = dynamic_cast<const Error*>(&e);
      std::string from;
      if (auto& origin = g_.node(b.nodes.back()).origin) from = to_string(*origin);
      throw Error(known ? known->kind : ErrorKind::BadInput,
                  fmt::format("backend {}: {}{}: {}", name_, b.operators, from.empty() ? "" : ", from " + from, e.what()));
    }
  }

  void delegate(const std::vector<NodeId>& members) {
    Border b = border_of(members);
    Tensor bytes = compile(b);
    checksums += fmt::format("{} {:08x}\n", name_, checksum(bytes));
    r_.builder.set_origin(g_.node(members.back()).origin);
    ValueId constant = r_.builder.constant(std::move(bytes), fmt::format("{}_{}", name_, count_++)).id;
    ArgList inputs, sizes;
    std::vector<Type> types;
    for (ValueId v : b.inputs) inputs.push_back(r_[v]);
    for (Expr e : b.sizes) sizes.push_back(e);
    for (ValueId v : b.outputs) types.push_back(g_.type(v));
    NodeId made = r_.to.append(r_.builder.block(),
                               {.op = prim::Delegate,
                                .def = find_op(prim::Delegate),
                                .args = {inputs, constant, sizes, name_, b.operators},
                                .origin = g_.node(members.back()).origin},
                               types);
    define(b, made);
    for (size_t i = 0; i < b.outputs.size(); i++) {
      ValueId now = r_.to.node(made).outputs[i];
      r_.to.value(now).name = g_.value(b.outputs[i]).name;
      r_.set(b.outputs[i], now);
    }
  }

  /// The block of a delegate: what it means.
  void define(const Border& b, NodeId made) {
    BlockId outer = r_.builder.block(), inner = r_.to.add_block(made);
    std::unordered_map<ValueId, ValueId> outside;
    for (ValueId v : b.inputs) outside.emplace(v, r_[v]), r_.add_param(v, inner);
    std::vector<std::pair<ValueId, ValueId>> along; // copies, which only the block sees
    r_.builder.set_block(inner);
    for (NodeId id : b.nodes) {
      if (ir::comes_along(g_, g_.node(id))) along.emplace_back(g_.node(id).outputs[0], r_[g_.node(id).outputs[0]]);
      r_.copy_node(id);
    }
    for (ValueId v : b.outputs) r_.to.block(inner).returns.push_back(r_[v]);
    r_.builder.set_block(outer);
    for (auto& [old, now] : outside) r_.set(old, now);
    for (auto& [old, now] : along) r_.set(old, now);
  }

  ir::Graph& graph_;
  const Graph& g_;
  const Backend& backend_;
  std::string name_;
  Rewriter r_;
  int count_ = 0;
};

LoadedProgram delegated(LoadedProgram program, const std::string& name) {
  std::shared_ptr<const Backend> backend = find_backend(name);
  require_input(backend != nullptr, "there is no backend {}", name);
  require_input(backend->preprocess != nullptr, "backend {} runs delegates, and makes none: it has no preprocess", name);
  lower(program, "edge");
  ir::Graph graph = ir::public_graph(program.graph, Dialect::Edge);
  Delegation d(graph, *backend);
  Graph now = d.run();
  if (!d.any()) return program;
  if (!program.fingerprint.empty()) program.fingerprint += d.checksums;
  return with_graph(std::move(program), std::move(now));
}

} // namespace

std::shared_ptr<const Program::Impl> to_backends(std::shared_ptr<const Program::Impl> program, const std::vector<std::string>& backends) {
  if (backends.empty()) return program;
  LoadedProgram loaded = program->loaded;
  for (const std::string& b : backends) loaded = delegated(std::move(loaded), b);
  loaded.graph.pool().freeze();
  return std::make_shared<Program::Impl>(Program::Impl{std::move(loaded), program->signature});
}

Result<Program> Program::to_backend(const std::string& backend) const {
  return guarded([&] { return Program(to_backends(impl_, {backend})); });
}

} // namespace tenon
