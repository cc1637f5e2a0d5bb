// What fusing costs and saves: the only place with such numbers.
#pragma once
#include <unordered_map>

#include "ir/op.h"

namespace tenon {

struct InlineCost {
  int loads = 0;  // distinct
  int weight = 0; // operations, a transcendental function counts as 8
};
/// Of a body with its operands inlined; index arithmetic does not count.
InlineCost inline_cost(Expr body);

/// A view, or a cheap function of at most one load, is written into all its users.
bool is_always_inline(Kind kind, const InlineCost& cost);
/// A value used once, by a definition that does not read it repeatedly: only code size speaks against it.
bool is_inline_when_used_once(const InlineCost& cost);
/// Whether it costs less to compute a part of joined tensors for elements of another part too, than to store it.
bool is_cheap_to_choose(const InlineCost& cost);
/// Inline nodes that are looked through from what an epilogue could store back to the contraction.
inline constexpr int most_in_epilogue = 16;
/// Worth keeping in scratch memory between two passes over a row, instead of computing it again.
bool is_worth_keeping(const InlineCost& cost);

} // namespace tenon
