// Windows over the last dims of a tensor, which pooling reduces: where they lie, and how many there are.
#pragma once
#include "ir/builder.h"

namespace tenon::ops {

/// A uniform window along one dim.
struct Window {
  int64_t kernel, stride, padding, dilation;
};

/// Uniform windows by the arguments kernel_size, stride, padding, dilation of a call; the last two may be missing.
std::vector<Window> windows_of(const Call& c, size_t dims);
/// How many windows fit. In ceil mode the last may reach past the end, but begins inside the input or its left padding.
Expr pooled_size(const Window& w, Expr in, bool ceil);
/// Whether some window may reach past the end of the input.
bool overhangs(const Window& w, Expr in, bool ceil);

/// Adaptive window i of `out`: [begin, end).
inline Expr adaptive_begin(Expr i, Expr in, Expr out) { return in == out ? i : floor_div(i * in, out); }
inline Expr adaptive_end(Expr i, Expr in, Expr out) { return in == out ? i + 1.0 : floor_div((i + 1.0) * in + out - 1.0, out); }
/// The longest of them; an upper bound where the sizes are symbols.
Expr adaptive_extent(Expr in, Expr out);

} // namespace tenon::ops
