// Without a stride, a transposed convolution is the regular one by turned weights, padded by what its window lacks. With a stride s, output
// o = s m + r - padding sums x[m - j] w[s j + r] over j. So a regular depthwise convolution with s outputs for each channel and a window of
// ceil(k / s) taps, the last ones first, computes all residues r, and its outputs are shuffled into place.
#include "edge/transposed_convolution.h"

#include <numeric>

#include "ops/names.h"

namespace tenon {

namespace {

constexpr int64_t most_residues = 256, most_padding = int64_t{1} << 32;

struct Axis {
  int64_t kernel, stride, taps, padding, first; // of the regular window; the first shuffled place that is a result
};

std::optional<int64_t> known_number(const ArgList& args, size_t at, size_t dim) {
  const ArgList& list = args[at].get<ArgList>(); // one number may stand for all dims
  if (list.size() != 1 && dim >= list.size()) return std::nullopt;
  const Arg& a = list[list.size() == 1 ? 0 : dim];
  return a.is<int64_t>() ? std::optional(a.get<int64_t>()) : a.is<Expr>() ? const_int(a.get<Expr>()) : std::nullopt;
}

// By how much more than its windows reach the result is longer, which is less than the stride without a dilation: at most, where it is not
// known, as in the gradient of an image of any size.
std::optional<int64_t> most_output_padding(const ArgList& args, size_t dim) {
  auto known = known_number(args, 7, dim), stride = known_number(args, 3, dim);
  return known || !stride || known_number(args, 5, dim) != 1 ? known : std::optional(*stride - 1);
}

// Outputs that are cut off anyway are not computed, as far as they are as many on both sides.
std::optional<Axis> axis_of(const Expr& size, size_t dim, const ArgList& args) {
  auto known = [&](size_t at) { return known_number(args, at, dim); };
  auto k = const_int(size), s = known(3), p = known(4), d = known(5), e = most_output_padding(args, dim);
  if (!k || !s || !p || !e || !d || *d != 1 || *s < 1 || *s > most_residues || *k < 1 || *p > most_padding || *e < 0 || *e > most_padding)
    return {};
  int64_t taps = (*k + *s - 1) / *s;
  for (int64_t cut = std::min(*p / *s, taps - 1); cut >= 0; cut--)
    if (*k + *e - *p + cut * *s <= taps * *s) return Axis{*k, *s, taps, taps - 1 - cut, *p - cut * *s};
  return {};
}

// [C, multiple, kernel...] as [C multiple residues..., 1, taps...]
V regular_weights(Builder& b, V w, const std::vector<Axis>& axes) {
  std::vector<int64_t> pad, flipped, order{0, 1};
  std::vector<Expr> split{w.size(0), w.size(1)}, sizes{w.size(0) * w.size(1), b.integer(1)};
  for (size_t d = 0; d < axes.size(); d++) {
    const Axis& a = axes[d];
    pad.insert(pad.begin(), {0, a.taps * a.stride - a.kernel}); // last dim first
    flipped.push_back(static_cast<int64_t>(2 + 2 * d));
    split.push_back(b.integer(a.taps)), split.push_back(b.integer(a.stride));
    sizes[0] = sizes[0] * b.integer(a.stride), sizes.push_back(b.integer(a.taps));
  }
  for (int64_t at : {1, 0})
    for (int64_t d : flipped) order.push_back(d + at);
  w = b.reshape(b.call1(aten::constant_pad_nd, {w, pad, 0}), split);
  return b.reshape(b.permute(b.call1(aten::flip, {w, flipped}), order), sizes);
}

// [N, channels residues..., places...] as [N, channels, places * residues...]
V shuffled(Builder& b, V y, Expr channels, const std::vector<Axis>& axes) {
  std::vector<Expr> split{y.size(0), channels}, sizes = split;
  std::vector<int64_t> order{0, 1};
  auto dims = static_cast<int64_t>(axes.size());
  for (const Axis& a : axes) split.push_back(b.integer(a.stride));
  for (int64_t d = 0; d < dims; d++) {
    split.push_back(y.size(2 + d));
    sizes.push_back(y.size(2 + d) * b.integer(axes[static_cast<size_t>(d)].stride));
    order.push_back(2 + dims + d), order.push_back(2 + d);
  }
  return b.reshape(b.permute(b.reshape(y, split), order), sizes);
}

/// With groups of one input channel each.
V of_single_channels(Builder& b, V x, V w, const ArgList& args, const Type& result) {
  Arg groups = args[8];
  auto channels = const_int(x.size(1)), multiple = const_int(w.size(1));
  bool depthwise = channels && *channels > 1 && multiple && groups == Arg(*channels) && is_const_int(w.size(0), *channels);
  if (!depthwise) return {};
  std::vector<Axis> axes;
  int64_t residues = 1;
  for (size_t d = 0; d + 2 < w.rank(); d++) {
    auto axis = axis_of(w.size(static_cast<int64_t>(d + 2)), d, args);
    if (!axis || (residues *= axis->stride) > most_residues) return {};
    axes.push_back(*axis);
  }
  std::vector<int64_t> ones(axes.size(), 1), none(axes.size(), 0), padding;
  for (const Axis& a : axes) padding.push_back(a.padding);
  V y = b.call1(aten::convolution,
                {b.to(x, DType::F32), regular_weights(b, b.to(w, DType::F32), axes), Arg(), ones, padding, ones, false, none, groups});
  y = shuffled(b, y, result.sizes[1], axes);
  for (size_t d = 0; d < axes.size(); d++) y = b.call1(edge::narrow, {y, static_cast<int64_t>(d + 2), axes[d].first, result.sizes[d + 2]});
  return b.to(y, result.dtype);
}

/// [groups * inputs, outputs, kernel...] as [groups * outputs, inputs, kernel...], the last taps first.
V turned_weights(Builder& b, V w, int64_t groups) {
  std::vector<Expr> split = w.sizes(), sizes = w.sizes();
  split[0] = floor_div(w.size(0), b.integer(groups)), split.insert(split.begin(), b.integer(groups));
  sizes[0] = w.size(1) * b.integer(groups), sizes[1] = split[1];
  std::vector<int64_t> order(split.size()), spatial;
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[1], order[2]);
  for (size_t d = 2; d < w.rank(); d++) spatial.push_back(static_cast<int64_t>(d));
  return b.call1(aten::flip, {b.reshape(b.permute(b.reshape(w, split), order), sizes), spatial});
}

/// Weights are turned in each call where they are no constants: there are to be pixels enough that this is little, as there mostly are
/// where some size is not known.
V without_stride(Builder& b, V x, V w, const ArgList& args, const Type& result) {
  constexpr int64_t least_pixels = 512, most_places = 1 << 20;
  auto groups = args[8].is<int64_t>() ? std::optional(args[8].get<int64_t>()) : std::nullopt;
  int64_t pixels = const_int(result.sizes[0]).value_or(least_pixels);
  if (!groups || *groups < 1 || result.dtype != x.dtype() || w.dtype() != x.dtype()) return {};
  std::vector<int64_t> ones(w.rank() - 2, 1), none(ones.size(), 0), padding;
  int64_t places = 1;
  for (size_t d = 0; d < ones.size(); d++) {
    auto k = const_int(w.size(static_cast<int64_t>(d + 2)));
    auto s = known_number(args, 3, d), p = known_number(args, 4, d), reach = known_number(args, 5, d), e = most_output_padding(args, d);
    if (!k || s != 1 || !p || !reach || e != 0 || *reach > most_places || *k > most_places || *p > *reach * (*k - 1)) return {};
    places = std::max(places, *k);
    padding.push_back(*reach * (*k - 1) - *p);
    pixels = std::min(pixels * std::min(const_int(result.sizes[d + 2]).value_or(least_pixels), least_pixels), least_pixels);
  }
  if (pixels < least_pixels || places == 1) return {};
  V y = b.call1(aten::convolution, {x, turned_weights(b, w, *groups), Arg(), ones, padding, args[5], false, none, *groups});
  for (size_t d = 2; d < result.sizes.size(); d++) // of equal sizes that do not look equal
    if (y.sizes()[d] != result.sizes[d]) y = b.call1(edge::narrow, {y, static_cast<int64_t>(d), 0, result.sizes[d]});
  return y;
}

} // namespace

V without_transposition(Builder& b, V x, V w, const ArgList& args, const Type& result) {
  if (args[6] != Arg(true) || !(x.dtype() == DType::F32 || is_reduced_float(x.dtype()))) return {};
  if (V regular = without_stride(b, x, w, args, result)) return regular;
  return of_single_channels(b, x, w, args, result);
}

} // namespace tenon
