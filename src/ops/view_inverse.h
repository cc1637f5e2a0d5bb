// How a write to a view goes back to what it is a view of: what rows say of it (OpRow::view_inverse, OpRow::shares).
#pragma once
#include "ops/body.h"

namespace tenon {

/// A write to a result of a view.
struct ViewWrite {
  const Call& call;              ///< the view, of its operands as they are now
  std::span<const Type> results; ///< of the view
  size_t output;                 ///< which result is written
  V parent, now;                 ///< what it is a view of, and what is written

  /// `parent` with the range of `dim` from `start` on replaced by `now`.
  V into_range(const Arg& dim, const Arg& start, const Arg& end) const {
    return parent.builder().call1("aten::slice_scatter.default", {parent, now, dim, start, end, 1});
  }
};

namespace ops {

/// Of views of every element where it is.
inline V all_elements(Builder&, const ViewWrite& w) { return w.now.sizes() == w.parent.sizes() ? w.now : V(); }
/// Of views that keep the row-major order.
inline V reshaped_back(Builder& b, const ViewWrite& w) { return b.reshape(w.now, w.parent.sizes()); }

/// Of reshapes: what is not row-major is copied, if it changes at all.
inline bool reshapes_in_place(const Type& operand, const Type& result) { return operand.strides.empty() || operand.sizes == result.sizes; }
/// Of what makes its operand row-major.
inline bool is_row_major(const Type& operand, const Type&) { return operand.strides.empty(); }
/// Of conversions: what need not be converted is not copied.
inline bool stays_itself(const Type& operand, const Type& result) {
  return operand.dtype == result.dtype && operand.strides == result.strides;
}

} // namespace ops
} // namespace tenon
