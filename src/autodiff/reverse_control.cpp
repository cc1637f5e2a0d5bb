// Branches and loops undone.
//   y = prim::If(c) { ... -> a } { ... -> b }    ->   dx = prim::If(c) { ... from dy to what is outside } { ... }
//   y = prim::Loop(n, c, x) { ... }              ->   dx, da = prim::Loop(iterations, true, dy, None) { the last iteration first }
#include <algorithm>

#include "autodiff/reverse.h"
#include "ops/call_names.h"
#include "ops/names.h"

namespace tenon::autodiff {

namespace {

Type optional_tensor() { return Type::optional(Type::simple(TypeKind::Dynamic)); }

} // namespace

std::vector<ValueId> Reverse::captured(const Mirror& m) const {
  std::vector<ValueId> outside;
  for (auto& [v, grad] : m.grads)
    if (activity_.block_of(v) != m.forward) outside.push_back(v);
  return outside;
}

void Reverse::undo_if(NodeId id, Mirror& m) {
  std::vector<ValueId> outputs = g_.node(id).outputs;
  std::vector<BlockId> blocks = g_.node(id).blocks;
  std::vector<ValueId> grads;
  for (ValueId o : outputs) grads.push_back(taken(o, m));
  NodeId branch = make_detached(g_, prim::If);
  std::vector<Mirror> sides;
  for (BlockId b : blocks) sides.push_back({.forward = b, .backward = g_.add_block(branch), .outer = &m, .owner = id});
  std::vector<ValueId> outside;
  bool empty = true;
  for (Mirror& side : sides) {
    for (size_t i = 0; i < outputs.size(); i++) add(g_.block(side.forward).returns.at(i).get<ValueId>(), grads[i], side);
    undo_block(side);
    for (ValueId v : captured(side))
      if (std::find(outside.begin(), outside.end(), v) == outside.end()) outside.push_back(v);
    empty &= g_.block(side.backward).nodes.empty();
  }
  if (empty && outside.empty()) return;
  std::sort(outside.begin(), outside.end());
  g_.node(branch).args = {saved_.reach(g_.node(id).args.at(0).get<ValueId>(), m)};
  std::vector<ValueId> results;
  for (ValueId v : outside) {
    bool surely = true;
    for (Mirror& side : sides) {
      auto it = side.grads.find(v);
      ValueId grad = it == side.grads.end() ? none(side.backward) : it->second;
      surely &= is_surely(grad);
      g_.block(side.backward).returns.emplace_back(grad);
    }
    results.push_back(g_.add_output(branch, surely ? Type::simple(TypeKind::Dynamic) : optional_tensor()));
  }
  place(g_, m.backward, branch);
  for (size_t i = 0; i < outside.size(); i++) add(outside[i], results[i], m);
}

// The backward loop while it is written: whether a carried gradient is there in all iterations shows once the body is.
struct Reverse::LoopDraft {
  NodeId forward, backward = {};
  std::vector<size_t> carried = {};  // places of the values whose gradients are carried
  std::vector<ValueId> starts = {};  // gradients of the loop's results; invalid: none
  std::vector<bool> optional = {};   // whether the carried gradient may be missing
  std::vector<ValueId> outside = {}; // what the body takes from around the loop and gives gradients to
};

bool Reverse::draft_body(LoopDraft& draft, Mirror& m) {
  BlockId body = g_.node(draft.forward).blocks.at(0);
  draft.backward = make_detached(g_, prim::Loop);
  Mirror inner{.forward = body, .backward = g_.add_block(draft.backward), .outer = &m, .owner = draft.forward};
  BlockId back = inner.backward;
  ValueId iteration = g_.add_param(back, Type::simple(TypeKind::Int));
  ValueId count = saved_.reach(saved_.iterations(draft.forward, m.forward), m);
  ValueId one = append_constant(g_, back, int64_t{1}, Type::simple(TypeKind::Int));
  ValueId rest = append_one(g_, back, call::sub, {count, iteration}, Type::simple(TypeKind::Int));
  inner.iteration = append_one(g_, back, call::sub, {rest, one}, Type::simple(TypeKind::Int));
  for (size_t k = 0; k < draft.carried.size(); k++) {
    if (!draft.starts[k].valid() && !draft.optional[k]) continue;
    ValueId grad = g_.add_param(back, draft.optional[k] ? optional_tensor() : Type::simple(TypeKind::Dynamic));
    add(g_.block(body).returns.at(draft.carried[k] + 1).get<ValueId>(), grad, inner);
  }
  undo_block(inner);
  ValueId go_on = append_constant(g_, back, true, Type::simple(TypeKind::Bool));
  g_.block(back).returns = {go_on};
  bool settled = true;
  for (size_t k = 0; k < draft.carried.size(); k++) {
    ValueId grad = taken(g_.block(body).params.at(draft.carried[k] + 1), inner);
    bool is_carried = draft.starts[k].valid() || draft.optional[k];
    bool fits = is_carried ? grad.valid() && (draft.optional[k] || is_surely(grad)) : !grad.valid();
    if (!fits && !draft.optional[k]) draft.optional[k] = true, settled = false;
    if (is_carried) g_.block(back).returns.emplace_back(grad.valid() ? grad : none(back));
  }
  if (!settled) return false;
  draft.outside = captured(inner);
  for (ValueId v : draft.outside) {
    ValueId sum = g_.add_param(back, optional_tensor());
    g_.block(back).returns.emplace_back(joined(sum, inner.grads.at(v), back));
  }
  return true;
}

void Reverse::finish_loop(LoopDraft& draft, Mirror& m) {
  ValueId count = saved_.reach(saved_.iterations(draft.forward, m.forward), m);
  ArgList args{count, append_constant(g_, m.backward, true, Type::simple(TypeKind::Bool))};
  std::vector<std::pair<ValueId, ValueId>> results;
  for (size_t k = 0; k < draft.carried.size(); k++) {
    if (!draft.starts[k].valid() && !draft.optional[k]) continue;
    args.emplace_back(draft.starts[k].valid() ? draft.starts[k] : none(m.backward));
    ValueId out = g_.add_output(draft.backward, draft.optional[k] ? optional_tensor() : Type::simple(TypeKind::Dynamic));
    results.emplace_back(g_.node(draft.forward).args.at(draft.carried[k] + 2).get<ValueId>(), out);
  }
  for (ValueId v : draft.outside) {
    args.emplace_back(none(m.backward));
    results.emplace_back(v, g_.add_output(draft.backward, optional_tensor()));
  }
  g_.node(draft.backward).args = std::move(args);
  place(g_, m.backward, draft.backward);
  for (auto& [v, grad] : results) add(v, grad, m);
}

void Reverse::undo_loop(NodeId id, Mirror& m) {
  LoopDraft draft{.forward = id};
  std::vector<ValueId> outputs = g_.node(id).outputs; // without those that are added for the backward pass
  for (size_t i = 0; i < outputs.size(); i++) {
    if (!activity_.active(outputs[i]) || activity_.written(outputs[i]) || !is_tensor(g_.type(outputs[i]))) continue;
    draft.carried.push_back(i);
    draft.starts.push_back(taken(outputs[i], m));
    draft.optional.push_back(draft.starts.back().valid() && !is_surely(draft.starts.back()));
  }
  bool starts = std::any_of(draft.starts.begin(), draft.starts.end(), [](ValueId v) { return v.valid(); });
  bool inside = false; // lists and memory may bring gradients into the body
  for (uint32_t i = 0; i < g_.num_values() && !inside; i++)
    if (ValueId v{i}; activity_.active(v)) inside = activity_.written(v) || activity_.held(v);
  if (!starts && !inside) return;
  while (!draft_body(draft, m)) {}
  finish_loop(draft, m);
}

} // namespace tenon::autodiff
