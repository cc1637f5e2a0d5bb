// The backward pass: each block of the forward pass walked from its end, each node undone. Gradients of values are values of the backward
// block; one that a branch or an iteration may leave without is an Optional[Tensor], and what it takes stands in an If on it.
#pragma once
#include <functional>

#include "autodiff/saved.h"

namespace tenon::autodiff {

class Reverse {
public:
  /// `backward` is a block of the graph that becomes the backward pass.
  Reverse(Graph& graph, const Activity& activity, BlockId backward);

  /// Adds to the gradient of a value of the top block.
  void seed(ValueId v, ValueId grad) { add(v, grad, top_); }
  void run() { undo_block(top_); }
  /// The gradient of an input once the pass is written: of a list, a dict or a tuple one of gradients. Zeros where there is none.
  /// Throws Error(BadInput) where the type has none.
  ValueId gradient_of_input(ValueId v);

private:
  /// A gradient that goes to a forward value.
  struct Share {
    ValueId to, grad;
  };
  using Shares = std::vector<Share>;
  using Part = std::function<Shares(BlockId, std::vector<ValueId>)>;

  // reverse.cpp
  void undo_block(Mirror& m);
  void undo_node(NodeId id, Mirror& m);
  void undo_call(NodeId id, Mirror& m);
  void undo_in_place(NodeId id, Mirror& m);
  void undo_list(NodeId id, Mirror& m);
  void undo_unpacked(NodeId id, Mirror& m);
  void undo_read(NodeId id, Mirror& m);
  void undo_cast(NodeId id, Mirror& m);
  void undo_view_of_written(NodeId id, Mirror& m);
  Shares shares_of_call(NodeId id, BlockId block, const std::vector<ValueId>& grads, Mirror& m);
  ValueId operand_of_rule(NodeId id, const std::string& name, const std::vector<ValueId>& grads, const Rule& rule, BlockId block,
                          Mirror& m);
  ValueId argument(NodeId id, size_t i, BlockId block, Mirror& m);
  ValueId property(NodeId id, const std::string& name, Mirror& m);
  ValueId summed_to(ValueId grad, ValueId operand, BlockId block, Mirror& m);
  /// What `part` makes of the gradients where at least one is there; at once where that is known.
  void guarded(const std::vector<ValueId>& grads, const Part& part, Mirror& m);
  Shares branch_on(const std::vector<ValueId>& grads, const Part& part, Mirror& m);

  // reverse_control.cpp
  void undo_if(NodeId id, Mirror& m);
  void undo_loop(NodeId id, Mirror& m);
  struct LoopDraft;
  bool draft_body(LoopDraft& draft, Mirror& m);
  void finish_loop(LoopDraft& draft, Mirror& m);

  // gradients
  void add(ValueId v, ValueId grad, Mirror& m);
  void add_all(const Shares& shares, Mirror& m);
  /// Takes what has come together for a value; invalid where nothing has.
  ValueId taken(ValueId v, Mirror& m);
  ValueId gradient_of_result(ValueId v, Mirror& m);
  ValueId joined(ValueId a, ValueId b, BlockId block);
  bool is_surely(ValueId grad) const { return g_.type(grad).is_any_tensor() || g_.type(grad).is(TypeKind::List); }
  ValueId call(BlockId block, std::string_view function, std::initializer_list<ValueId> args) {
    return script::emit_call(g_, block, library(), function, std::vector<ValueId>(args));
  }
  ValueId none(BlockId block);
  ValueId collected(ValueId v, bool written);
  std::vector<ValueId> captured(const Mirror& m) const;

  Graph& g_;
  const Activity& activity_;
  Saved saved_;
  Mirror top_;
  ValueId grads_; // those that lie outside of variables
};

} // namespace tenon::autodiff
