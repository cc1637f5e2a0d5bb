// The domain of a kernel in the making: members over loop axes, brought into a form that vectorises: axes split where a
// member divides them, ordered by stride, merged where memory is contiguous.
#pragma once
#include "backend/region.h"

namespace tenon {

/// One member, with loads of memory as flat offsets: Load(operand = ValueId index, {offset}).
struct DomainMember {
  ValueId value;
  bool full = true; // over all axes
  Reduction reduction = Reduction::None;
  DType type = DType::F32; // of `value`
  Expr body, position;     // position: of ArgMax and ArgMin
  Expr store;              // flat offset of `value` in its memory
};

struct LoopDomain {
  std::vector<Expr> axes; // ordered: the last one has the smallest stride
  std::vector<Expr> reduced;
  std::vector<DomainMember> members;
  std::vector<Expr> others; // of the axes, and changed with them
  bool is_reduced(Expr a) const { return std::find(reduced.begin(), reduced.end(), a) != reduced.end(); }
};

/// The operand of a load of a member: its ValueId and, of a product that is read by slices of its columns, which slice.
inline int64_t member_operand(ValueId value, int64_t slice) { return slice << 32 | value.index; }
inline int64_t slice_of_operand(int64_t operand) { return operand >> 32; }

/// From the members of a region. Loads of members stay as Load(member_operand, {}).
LoopDomain make_domain(const Graph& graph, const RegionDomain& region, const std::function<bool(ValueId)>& is_stored);
/// Splits axes that occur as a // K and a % K.
void split_axes(LoopDomain& domain);
/// Orders axes by the strides of the main access.
void order_axes(LoopDomain& domain);
/// Merges neighbours that every access walks through as one. Where the last axis has few elements even so, the longest goes last.
void merge_axes(LoopDomain& domain);
/// Whether axes can become one: substitutes `inner` (of the new extent) for both. False, and nothing changed, where not.
/// `cuts`: flat loops are cut where conditions on the outer axis change.
bool merge_pair(LoopDomain& domain, Expr outer, Expr inner, bool cuts = false);
/// Replaces an axis everywhere.
void substitute(LoopDomain& domain, const std::vector<std::pair<Expr, Expr>>& replacements);

} // namespace tenon
