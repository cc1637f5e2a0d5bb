// Derivatives of sampling at the points of a grid: a sample is a sum over taps of each dim, in f32 for the reduced floats. A result that
// the output mask leaves out is None to the caller; here it is a number that nobody reads.
#include "ops/body.h"
#include "ops/grid_sample.h"
#include "ops/shape.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

/// Of one dim, for every point: a place in [0, size), its weight and the derivative of that by the grid's coordinate. Both are zero
/// outside.
struct Tap {
  V place, weight, slope;
};

class Samples {
public:
  Samples(Builder& b, const Call& c) : b_(b), grad_(wide("grad_output", c)), x_(wide("input", c)), grid_(wide("grid", c)), call_(c) {
    for (size_t k = 0; k < dims(); k++) taps_.push_back(taps_of(k));
    grad_ = as_rows(grad_);
  }

  /// Each sample's gradient, added where it was read.
  V of_input() {
    V sum = b_.full({x_.size(0) * pixels(), x_.size(1)}, 0, x_.dtype());
    for_each_corner([&](const std::vector<const Tap*>& corner) {
      V weight = corner[0]->weight;
      for (size_t k = 1; k < corner.size(); k++) weight = weight * corner[k]->weight;
      sum = b_.call1("aten::index_add.default", {sum, 0, rows_of(corner), grad_ * b_.reshape(weight, {grad_.size(0), b_.integer(1)})});
    });
    std::vector<Expr> sizes = x_.sizes();
    sizes.erase(sizes.begin() + 1), sizes.push_back(x_.size(1));
    std::vector<int64_t> order{0, static_cast<int64_t>(x_.rank()) - 1};
    for (size_t k = 0; k < dims(); k++) order.push_back(static_cast<int64_t>(k + 1));
    return b_.to(b_.permute(b_.reshape(sum, sizes), order), call_.type("input").dtype);
  }

  /// How samples change with each coordinate of their point, the last dim's first.
  V of_grid() {
    std::vector<V> slopes(dims());
    V image = as_rows(x_);
    for_each_corner([&](const std::vector<const Tap*>& corner) {
      V values = b_.call1("aten::index_select.default", {image, 0, rows_of(corner)});
      V change = b_.reshape(b_.sum(values * grad_, {1}, false), corner[0]->weight.sizes());
      for (size_t k = 0; k < corner.size(); k++) {
        V term = change;
        for (size_t other = 0; other < corner.size(); other++) term = term * (other == k ? corner[other]->slope : corner[other]->weight);
        slopes[k] = slopes[k] ? slopes[k] + term : term;
      }
    });
    ArgList parts;
    for (size_t k = dims(); k-- > 0;) parts.push_back(b_.unsqueeze(slopes[k], -1));
    return b_.to(b_.call1("aten::cat.default", {parts, -1}), call_.type("grid").dtype);
  }

private:
  V wide(std::string_view name, const Call& c) { return b_.to(b_.input(c, name), compute_type(c.type(name).dtype)); }
  size_t dims() const { return x_.rank() - 2; }
  Expr size(size_t k) const { return x_.size(static_cast<int64_t>(k + 2)); }
  Expr pixels() const { return product(b_.pool(), {x_.sizes().begin() + 2, x_.sizes().end()}); }
  V number(const Expr& e) { return b_.scalar(Arg(e), x_.dtype()); }
  V greater(V a, V b) { return b_.call1("aten::gt.Tensor", {a, b}); }
  V both(V a, V b) { return b_.call1("aten::logical_and", {a, b}); }
  V function(const char* name, V x) { return b_.call1(name, {x}); }

  /// A coordinate, and its derivative by the grid's: torch's steps, each with its own.
  struct Coordinate {
    V at, slope;
  };
  Coordinate unnormalized(size_t k) {
    V g = b_.select(grid_, -1, b_.integer(static_cast<int64_t>(dims() - 1 - k)));
    V half = number(call_.flag("align_corners") ? size(k) - 1.0 : size(k)) * Arg(0.5);
    V at = (g + Arg(1.0)) * half;
    return {call_.flag("align_corners") ? at : at - Arg(0.5), b_.expand(half, at.sizes())};
  }
  Coordinate reflected(Coordinate x, size_t k) {
    bool corners = call_.flag("align_corners");
    double low = corners ? 0 : -0.5;
    V span = number(corners ? size(k) - 1.0 : size(k)), zero = number(b_.integer(0)), from = x.at - Arg(low);
    V sign = b_.where(greater(zero, from), Arg(-1.0), Arg(1.0)), far = function("aten::abs", from);
    V flips = function("aten::floor", far / span), rest = far - flips * span;
    V odd = b_.call1("aten::eq.Scalar", {b_.call1("aten::fmod.Scalar", {flips, 2.0}), Arg(1.0)}),
      point = b_.call1("aten::eq.Tensor", {span, zero});
    V at = b_.where(odd, span - rest, rest) + Arg(low), slope = b_.where(odd, -sign, sign) * x.slope;
    return {b_.where(point, zero, at), b_.where(point, zero, slope)};
  }
  Coordinate clipped(Coordinate x, size_t k) {
    V last = number(size(k) - 1.0), zero = number(b_.integer(0)), inside = both(greater(x.at, zero), greater(last, x.at));
    V at = b_.where(greater(x.at, zero), x.at, zero);
    return {b_.where(greater(at, last), last, at), b_.where(inside, x.slope, zero)};
  }
  Coordinate padded(Coordinate x, size_t k) {
    int64_t padding = call_.integer("padding_mode");
    if (padding == Reflection) x = reflected(x, k);
    return padding == Zeros ? x : clipped(x, k);
  }

  /// A tap at a place that may be outside.
  Tap tap(V at, V weight, V slope, size_t k) {
    V zero = number(b_.integer(0)), inside = both(b_.call1("aten::ge.Tensor", {at, zero}), greater(number(size(k)), at));
    return {b_.to(b_.where(inside, at, zero), DType::I64), b_.where(inside, weight, zero), b_.where(inside, slope, zero)};
  }
  std::vector<Tap> taps_of(size_t k) {
    int64_t interpolation = call_.integer("interpolation_mode");
    Coordinate x = unnormalized(k);
    if (interpolation == Bicubic) return cubic_taps(x, k);
    x = padded(x, k);
    V one = b_.full(x.at.sizes(), 1, x.at.dtype());
    if (interpolation == Nearest) return {tap(function("aten::round", x.at), one, one * Arg(0.0), k)};
    V low = function("aten::floor", x.at), part = x.at - low;
    return {tap(low, one - part, -x.slope, k), tap(low + Arg(1.0), part, x.slope, k)};
  }
  /// Keys' cubic with a = -0.75; each tap is padded by itself.
  std::vector<Tap> cubic_taps(Coordinate x, size_t k) {
    constexpr double a = -0.75;
    V base = function("aten::floor", x.at), part = x.at - base;
    auto inner = [&](V t) { return (t * Arg(a + 2) - Arg(a + 3)) * t * t + Arg(1.0); };
    auto outer = [&](V t) { return ((t * Arg(a) - Arg(5 * a)) * t + Arg(8 * a)) * t - Arg(4 * a); };
    auto inner_slope = [&](V t) { return (t * Arg(3 * (a + 2)) - Arg(2 * (a + 3))) * t; };
    auto outer_slope = [&](V t) { return (t * Arg(3 * a) - Arg(10 * a)) * t + Arg(8 * a); };
    V before = part + Arg(1.0), after = -part + Arg(1.0), last = -part + Arg(2.0);
    V weights[] = {outer(before), inner(part), inner(after), outer(last)};
    V slopes[] = {outer_slope(before), inner_slope(part), -inner_slope(after), -outer_slope(last)};
    std::vector<Tap> taps;
    for (size_t i = 0; i < 4; i++) {
      V at = padded({base + Arg(static_cast<double>(i) - 1.0), x.slope}, k).at;
      taps.push_back(tap(function("aten::trunc", at), weights[i], slopes[i] * x.slope, k));
    }
    return taps;
  }

  template <class F> void for_each_corner(const F& f) {
    std::vector<const Tap*> corner;
    each_corner(corner, f);
  }
  template <class F> void each_corner(std::vector<const Tap*>& corner, const F& f) {
    if (corner.size() == dims()) return f(corner);
    for (const Tap& t : taps_[corner.size()]) {
      corner.push_back(&t);
      each_corner(corner, f);
      corner.pop_back();
    }
  }
  /// [N, C, ...] as [N * points, C].
  V as_rows(V v) {
    Expr points = product(b_.pool(), {v.sizes().begin() + 2, v.sizes().end()});
    return b_.reshape(b_.transpose(b_.reshape(v, {v.size(0), v.size(1), points}), 1, 2), {v.size(0) * points, v.size(1)});
  }
  /// Of each point, the row of the image that lies at the corner.
  V rows_of(const std::vector<const Tap*>& corner) {
    std::vector<Expr> each(dims() + 1, b_.integer(1));
    each[0] = x_.size(0);
    V row = b_.reshape(b_.arange(x_.size(0), DType::I64), each);
    for (size_t k = 0; k < corner.size(); k++) row = row * b_.scalar(Arg(size(k)), DType::I64) + corner[k]->place;
    return b_.reshape(row, {grad_.size(0)});
  }

  Builder& b_;
  V grad_, x_, grid_;
  const Call& call_;
  std::vector<std::vector<Tap>> taps_;
};

Values grid_sampler_backward(Builder& b, const Call& c) {
  const Type &x = c.type("input"), &grid = c.type("grid"), &grad = c.type("grad_output");
  size_t rank = x.rank();
  if (rank < 4 || rank > 5 || rank != grid.rank() || rank != grad.rank())
    c.fail("input, grid and the gradient are not of rank 4 or of rank 5");
  if (!is_float(x.dtype) || x.dtype != grid.dtype || x.dtype != grad.dtype)
    c.fail("input, grid and the gradient are not floats of one dtype");
  bool fits = is_const_int(grid.sizes.back(), static_cast<int64_t>(rank) - 2) && !differ(x.sizes[0], grid.sizes[0]);
  for (size_t d = 0; d < rank; d++) fits = fits && !differ(grad.sizes[d], d == 1 ? x.sizes[1] : grid.sizes[d == 0 ? 0 : d - 1]);
  if (!fits) c.fail("input, grid and the gradient do not fit");
  if (rank != 4 && c.integer("interpolation_mode") == Bicubic) c.fail("the cubic interpolation is of two dims");
  Samples samples(b, c);
  auto wanted = [&](size_t i) { return c["output_mask"].get<ArgList>().at(i) == Arg(true); };
  V none = b.scalar(0, DType::F32);
  V of_input = wanted(0) ? samples.of_input() : none;
  return {of_input, wanted(1) ? samples.of_grid() : none};
}

const OpRow backward_sample_ops[] = {
    {.schema = "aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
               "bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)",
     .decompose = grid_sampler_backward},
    {.schema = "aten::grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
               "bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)",
     .decompose = grid_sampler_backward},
};

} // namespace

std::span<const OpRow> backward_sample_rows() { return backward_sample_ops; }

} // namespace tenon::ops
