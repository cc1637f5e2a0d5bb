// StepEmitter: branches, loops and scans.
#include <algorithm>
#include <unordered_set>

#include "compile/step_emitter.h"

namespace tenon {

void StepEmitter::copy_to(const Arg& from, int to) {
  int b = from.is<ValueId>() ? buffer_of(from.get<ValueId>()) : scalar_buffer(from);
  append(NodeId{}, CopyStep{b, to});
}

// Sizes of results that depend on the branch taken: the branch binds them.
std::vector<StepEmitter::BranchSize> StepEmitter::branch_sizes(NodeId id) {
  const Node& n = g_.node(id);
  std::vector<BranchSize> out;
  auto add = [&](Expr symbol, auto value_in) {
    if (!symbol || symbol->op != Op::Symbol || slots_.is_bound(symbol)) return;
    BranchSize size;
    for (size_t k : {size_t{0}, size_t{1}}) size.values[k] = value_in(g_.block(n.blocks.at(k)).returns);
    size.stage = slots_.new_stage();
    size.slot = slots_.bind_checked(symbol, size.stage);
    size.buffer = new_buffer(Type::tensor(DType::I64, {}), BufferPlace::Arena, symbol->name);
    out.push_back(size);
  };
  for (size_t i = 0; i < n.outputs.size(); i++) {
    const Type& t = g_.type(n.outputs[i]);
    add(t.value, [&](const ArgList& returns) { return to_expr(g_.pool(), returns.at(i)); });
    for (size_t d = 0; d < t.sizes.size(); d++)
      add(t.sizes[d], [&](const ArgList& returns) { return g_.type(returns.at(i).get<ValueId>()).sizes.at(d); });
  }
  return out;
}

void StepEmitter::build_if(NodeId id) {
  const Node& n = g_.node(id);
  IfStep s;
  if (n.args[0].is<ValueId>()) s.condition = buffer_of(n.args[0].get<ValueId>());
  else s.condition_slot = slot(to_expr(g_.pool(), n.args[0]));
  std::vector<BranchSize> sizes = branch_sizes(id);
  for (ValueId v : n.outputs) define(v);
  std::vector<int> dynamic = std::exchange(dynamic_, {}), by_branch;
  if (!sizes.empty()) by_branch = std::exchange(dynamic, {});
  std::vector<Step>* outer = steps_;
  for (size_t k : {size_t{0}, size_t{1}}) {
    steps_ = &s.branches[k];
    conditional_++;
    build_block(n.blocks.at(k));
    for (const BranchSize& size : sizes) {
      append(NodeId{}, ScalarStep{slot(size.values[k]), size.buffer, false});
      append(NodeId{}, ItemStep{size.buffer, size.slot, false}).binds = size.stage;
    }
    dynamic_.insert(dynamic_.end(), by_branch.begin(), by_branch.end());
    for (size_t i = 0; i < n.outputs.size(); i++) copy_to(g_.block(n.blocks[k]).returns.at(i), buffers_.at(n.outputs[i]));
  }
  steps_ = outer;
  conditional_ -= 2;
  dynamic_ = std::move(dynamic);
  append(id, std::move(s));
}

void StepEmitter::build_while(NodeId id) {
  const Node& n = g_.node(id);
  WhileStep s;
  auto& initial = n.args[0].get<ArgList>();
  for (ValueId v : n.outputs) define(v);
  require(dynamic_.empty(), "a while loop over data-dependent sizes");
  for (size_t i = 0; i < initial.size(); i++) copy_to(initial[i], buffers_.at(n.outputs[i]));
  for (size_t k : {size_t{0}, size_t{1}})
    for (size_t i = 0; i < initial.size(); i++) buffers_[g_.block(n.blocks.at(k)).params.at(i)] = buffers_.at(n.outputs[i]);
  std::vector<Step>* outer = steps_;
  steps_ = &s.condition;
  build_block(n.blocks[0]);
  const Arg& flag = g_.block(n.blocks[0]).returns.at(0);
  if (flag.is<ValueId>()) s.flag = buffer_of(flag.get<ValueId>());
  else s.flag_slot = slot(to_expr(g_.pool(), flag));
  steps_ = &s.body;
  conditional_++;
  build_block(n.blocks[1]);
  // Through temporaries: a new value may be another carried one.
  std::vector<int> temporaries;
  auto& returns = g_.block(n.blocks[1]).returns;
  for (size_t i = 0; i < returns.size(); i++) {
    temporaries.push_back(new_buffer(g_.type(n.outputs[i]), BufferPlace::Arena, "carried"));
    copy_to(returns[i], temporaries.back());
  }
  for (size_t i = 0; i < returns.size(); i++) {
    int to = buffers_.at(n.outputs[i]);
    append(NodeId{}, CopyStep{temporaries[i], to});
  }
  steps_ = outer;
  conditional_--;
  append(id, std::move(s));
}

void StepEmitter::check_sizes(Expr fits) {
  if (const_int(fits) != 1) append(NodeId{}, AssertStep{exact_slot(fits), "a scan's slices have other sizes than the program says"});
}

// Points at one slice after the other of `whole` along dim 0.
int StepEmitter::add_slice(ScanStep& s, const Type& slice, const Type& type, int whole, Expr steps) {
  ExprPool& pool = g_.pool();
  Expr elements = product(pool, slice.sizes), bytes = elements * static_cast<double>(size_of(slice.dtype));
  check_sizes(logical_and(eq(type.sizes.at(0), steps), eq(product(pool, std::span(type.sizes).subspan(1)), elements)));
  int b = new_buffer(slice, BufferPlace::Alias, "slice");
  s.slices.push_back({b, whole, slot(bytes)});
  return b;
}

static bool is_slice(const Type& whole, const Type& slice) {
  return whole.dtype == slice.dtype && std::ranges::equal(std::span(whole.sizes).subspan(1), slice.sizes);
}

// Where the body's results go: what a step of the body makes it makes in place, where it has the sizes that are promised; the
// rest is copied.
std::vector<int> StepEmitter::scan_results(NodeId id, ScanStep& s, Expr steps) {
  const Node& n = g_.node(id);
  const Block& body = g_.block(n.blocks.at(0));
  size_t carried = n.args[0].get<ArgList>().size();
  std::vector<int> to(body.returns.size(), -1);
  std::unordered_set<NodeId> inside(body.nodes.begin(), body.nodes.end());
  auto bind = [&](size_t i, const Type& promised) {
    if (!body.returns[i].is<ValueId>()) return;
    ValueId v = body.returns[i].get<ValueId>();
    NodeId from = g_.value(v).node;
    if (!from.valid() || !inside.contains(from) || g_.stored_constant(v)) return;
    if (g_.node(from).def && g_.node(from).def->data_dependent) return;
    if (g_.type(v).dtype == promised.dtype && g_.type(v).sizes == promised.sizes) bound_.emplace(v, to[i]);
  };
  for (size_t i = carried; i < to.size(); i++) {
    Type slice = g_.type(n.outputs[i]);
    slice.sizes.erase(slice.sizes.begin());
    to[i] = add_slice(s, slice, g_.type(n.outputs[i]), buffers_.at(n.outputs[i]), steps);
    bind(i, slice);
  }
  for (size_t i = 0; i < carried; i++) {
    const Type& t = g_.type(n.outputs[i]);
    const Arg& first = n.args[0].get<ArgList>()[i];
    ScanStep::Carried c{.now = new_buffer(t, BufferPlace::Alias, "carried"),
                        .next = -1,
                        .first = first.is<ValueId>() ? buffer_of(first.get<ValueId>()) : scalar_buffer(first),
                        .last = buffers_.at(n.outputs[i])};
    if (first.is<ValueId>()) check_sizes(eq(product(g_.pool(), g_.type(first.get<ValueId>()).sizes), product(g_.pool(), t.sizes)));
    for (size_t k = carried; k < to.size(); k++)
      if (body.returns[k] == body.returns[i] && c.stacked < 0 && is_slice(g_.type(n.outputs[k]), t))
        c.stacked = static_cast<int>(s.slices.size() - to.size() + k), c.next = to[k];
    if (c.stacked < 0) {
      c.next = new_buffer(t, BufferPlace::Alias, "carried");
      c.spare = new_buffer(t, BufferPlace::Arena, "carried");
      to[i] = c.next;
      bind(i, t);
    }
    buffers_[body.params.at(i)] = c.now;
    s.carried.push_back(c);
  }
  return to;
}

void StepEmitter::build_scan(NodeId id) {
  const Node& n = g_.node(id);
  ScanStep s;
  auto &initial = n.args[0].get<ArgList>(), &xs = n.args[1].get<ArgList>();
  s.reverse = n.args[2].is<bool>() && n.args[2].get<bool>();
  for (ValueId v : n.outputs) define(v);
  require(dynamic_.empty(), "a scan over data-dependent sizes");
  const Block& body = g_.block(n.blocks.at(0));
  require(!xs.empty(), "a scan over nothing");
  Expr steps = g_.type(xs[0].get<ValueId>()).sizes.at(0);
  s.steps = slot(steps);
  for (size_t i = 0; i < xs.size(); i++) {
    ValueId x = xs[i].get<ValueId>(), p = body.params.at(initial.size() + i);
    buffers_[p] = add_slice(s, g_.type(p), g_.type(x), buffer_of(x), steps);
  }
  std::vector<int> to = scan_results(id, s, steps);
  std::vector<Step>* outer = std::exchange(steps_, &s.body);
  conditional_++, scans_++;
  build_block(n.blocks[0]);
  for (size_t i = 0; i < to.size(); i++) {
    if (to[i] < 0) continue; // stacked
    const Arg& from = body.returns[i];
    auto bound = from.is<ValueId>() ? bound_.find(from.get<ValueId>()) : bound_.end();
    if (bound == bound_.end() || bound->second != to[i]) copy_to(from, to[i]);
  }
  steps_ = outer;
  conditional_--, scans_--;
  append(id, std::move(s));
}

} // namespace tenon
