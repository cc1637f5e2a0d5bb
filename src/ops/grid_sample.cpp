// Sampling at the points of a grid tensor, and the grid of an affine map.
#include "ops/grid_sample.h"

#include "ops/autocast.h"
#include "ops/body.h"
#include "ops/table.h"

namespace tenon::ops {

namespace {

struct Sampler {
  int64_t interpolation, padding;
  bool align_corners;
};

std::vector<Type> grid_sample_types(const Call& c) {
  DType t = c.type("input").dtype;
  if (c.rank("input") < 4 || c.rank("input") > 5 || !is_float(t) || c.type("grid").dtype != t)
    c.fail("needs an input of 4 or 5 dims, and a grid of its dtype");
  size_t dims = c.rank("input") - 2;
  if (c.rank("grid") != dims + 2 || !is_const_int(c.size("grid", -1), static_cast<int64_t>(dims)))
    c.fail("the grid does not fit the input");
  std::vector<Expr> sizes{c.size("input", 0), c.size("input", 1)};
  for (size_t k = 0; k < dims; k++) sizes.push_back(c.size("grid", static_cast<int64_t>(k + 1)));
  return {Type::tensor(c.type("input").dtype, sizes)};
}

// Coordinates of a reduced float, and what is computed from them, are rounded to it after every operation, as torch does:
// whether a place is left or right of the middle of a pixel depends on it.
struct Rounding {
  DType type;
  Expr operator()(Expr e) const { return cast(cast(e, type), e->type); }
};

// From [-1, 1] to places in [0, size), by the formula of torch's kernel for two dims or for three.
Expr unnormalize(Expr g, Expr size, bool align_corners, Rounding rounded, size_t dims) {
  Expr up = rounded(g + 1.0);
  if (dims == 3 && align_corners) return rounded(rounded(up * 0.5) * rounded(size - 1.0));
  if (dims == 3) return rounded(rounded(rounded(up * rounded(size)) - 1.0) * 0.5);
  if (align_corners) return rounded(up * rounded((size - 1.0) * 0.5));
  return rounded(rounded(up * rounded(size * 0.5)) - 0.5);
}

// Mirrored into [low, low + span], by the formula of torch's kernel for two dims or for three.
Expr reflect(Expr x, double low, Expr span, Rounding rounded, size_t dims) {
  Expr from = abs(rounded(x - low)), mirrored;
  if (dims == 3) {
    Expr rest = binary(Op::Fmod, from, span), flips = floor(rounded(from / span));
    Expr even = eq(binary(Op::Fmod, flips, like(2, flips)), like(0, flips));
    mirrored = select(even, rest, rounded(span - rest));
  } else {
    Expr twice = span * 2.0, rest = rounded(from - rounded(trunc(rounded(from / twice)) * twice));
    mirrored = min(rest, rounded(twice - rest));
  }
  return select(eq(span, like(0, span)), like(0, x), rounded(mirrored + low));
}

struct Point {
  const DefineArgs& d;
  std::vector<Expr> numbers; // sizes of the input's last dims, in the dtype of coordinates
  Sampler sampler;
  Rounding rounded;

  // The place along dim k after padding; of zeros it stays, and what is outside is left out later.
  Expr padded(Expr x, size_t k) const {
    Expr last = rounded(numbers[k] - 1.0);
    if (sampler.padding == Zeros) return x;
    if (sampler.padding == Reflection)
      x = reflect(x, sampler.align_corners ? 0 : -0.5, sampler.align_corners ? last : rounded(numbers[k]), rounded, numbers.size());
    return min(max(x, like(0, x)), last);
  }

  // The element at integer places (given in the dtype of coordinates), zero outside.
  Expr at(const std::vector<Expr>& places) const {
    std::vector<Expr> index{d.i(0), d.i(1)};
    Expr inside = d.pool.boolean(true);
    for (size_t k = 0; k < places.size(); k++) {
      Expr zero = like(0, places[k]);
      inside = logical_and(inside, logical_and(le(zero, places[k]), lt(places[k], numbers[k])));
      index.push_back(cast(places[k], DType::I64));
    }
    Expr x = d.load_wide("input", index);
    return select(inside, x, like(0, x));
  }
};

// The sum over the corners of the cell around x.
Expr linear(const Point& p, const std::vector<Expr>& x) {
  Expr sum;
  for (unsigned corner = 0; corner < 1u << x.size(); corner++) {
    std::vector<Expr> places;
    Expr weight;
    for (size_t k = 0; k < x.size(); k++) {
      Expr low = floor(x[k]), part = p.rounded(x[k] - low);
      bool upper = corner >> (x.size() - 1 - k) & 1;
      places.push_back(upper ? low + 1.0 : low);
      Expr w = upper ? part : p.rounded(1.0 - part);
      weight = weight ? p.rounded(weight * w) : w;
    }
    Expr term = p.rounded(p.at(places) * weight);
    sum = sum ? p.rounded(sum + term) : term;
  }
  return sum;
}

// Keys' cubic with a = -0.75, at distances x + 1, x, 1 - x, 2 - x.
std::vector<Expr> cubic_weights(Expr x, Rounding r) {
  auto inner = [&](Expr t) { return r(r(r(r(r(t * 1.25) - 2.25) * t) * t) + 1.0); };
  auto outer = [&](Expr t) { return r(r(r(r(r(r(t * -0.75) + 3.75) * t) - 6.0) * t) + 3.0); };
  return {outer(r(x + 1.0)), inner(x), inner(r(1.0 - x)), outer(r(2.0 - x))};
}

// The sum over four places along dim k and all of the next dims; each place is padded by itself.
Expr cubic(const Point& p, const std::vector<Expr>& x, std::vector<Expr>& places) {
  size_t k = places.size();
  if (k == x.size()) return p.at(places);
  Expr base = floor(x[k]), sum;
  std::vector<Expr> weights = cubic_weights(p.rounded(x[k] - base), p.rounded);
  for (size_t tap = 0; tap < 4; tap++) {
    places.push_back(trunc(p.padded(p.rounded(base + (static_cast<double>(tap) - 1.0)), k)));
    Expr term = p.rounded(cubic(p, x, places) * weights[tap]);
    places.pop_back();
    sum = sum ? p.rounded(sum + term) : term;
  }
  return sum;
}

Compute grid_sample_define(const DefineArgs& d) {
  const Call& c = d.call;
  size_t dims = d.axes.size() - 2;
  Sampler sampler{c.integer("interpolation_mode"), c.integer("padding_mode"), c.flag("align_corners")};
  DType t = c.type("grid").dtype;
  // torch's cubic kernel for three dims computes in f32.
  Point p{d, {}, sampler, {dims == 3 && sampler.interpolation == Bicubic ? compute_type(t) : t}};
  std::vector<Expr> x;
  for (size_t k = 0; k < dims; k++) { // the grid's last coordinate is the input's first spatial dim
    std::vector<Expr> index{d.i(0)};
    index.insert(index.end(), d.axes.begin() + 2, d.axes.end());
    index.push_back(d.integer(static_cast<int64_t>(dims - 1 - k)));
    Expr g = d.load_wide("grid", index);
    p.numbers.push_back(cast(c.size("input", static_cast<int64_t>(k + 2)), g->type));
    x.push_back(unnormalize(g, p.numbers[k], p.sampler.align_corners, p.rounded, dims));
  }
  for (size_t k = 0; k < dims && p.sampler.interpolation != Bicubic; k++) x[k] = p.padded(x[k], k);
  Expr body;
  if (p.sampler.interpolation == Nearest) {
    for (Expr& e : x) e = round(e);
    body = p.at(x);
  } else if (p.sampler.interpolation == Bilinear) body = linear(p, x);
  else {
    std::vector<Expr> places;
    body = cubic(p, x, places);
  }
  return {.axes = d.axes, .body = body};
}

Values grid_sampler(Builder& b, const Call& c) {
  if (c.rank("input") != 4 && c.rank("input") != 5) c.fail("the input must be of rank 4 or 5");
  return b.call(c.rank("input") == 4 ? "aten::grid_sampler_2d.default" : "aten::grid_sampler_3d.default",
                {c["input"], c["grid"], c["interpolation_mode"], c["padding_mode"], c["align_corners"]});
}

// Coordinates of n points in [-1, 1].
V coordinates(Builder& b, Expr n, bool align_corners, DType t) {
  if (align_corners && is_const_int(n, 1)) return b.full({n}, 0, t);
  V i = b.to(b.arange(n, DType::I64), t);
  if (align_corners) return i * b.scalar(Arg(2.0), t) / b.scalar(Arg(max(n - 1.0, b.integer(1))), t) - b.scalar(Arg(1.0), t);
  return (i * b.scalar(Arg(2.0), t) + b.scalar(Arg(1.0), t)) / b.scalar(Arg(n), t) - b.scalar(Arg(1.0), t);
}

// grid[n, d, h, w] = theta[n] @ (x, y, z, 1), as a sum of broadcast products.
Values affine_grid(Builder& b, const Call& c) {
  V theta = b.input(c, "theta");
  std::vector<Expr> size = c.syms("size");
  DType result = theta.dtype(), wide = compute_type(result);
  size_t dims = size.size() - 2;
  if (theta.rank() != 3 || (dims != 2 && dims != 3)) c.fail("needs theta [N, 2, 3] with four sizes, or [N, 3, 4] with five");
  theta = b.to(theta, wide);
  std::vector<Expr> row{size[0]};
  row.insert(row.end(), dims, b.integer(1));
  row.push_back(b.integer(static_cast<int64_t>(dims)));
  auto column = [&](size_t k) { return b.reshape(b.select(theta, 2, b.integer(static_cast<int64_t>(k))), row); };
  V out;
  for (size_t k = 0; k < dims; k++) { // x is the last dim
    std::vector<Expr> shape(dims + 1, b.integer(1));
    shape[dims - 1 - k] = size[size.size() - 1 - k];
    V term = b.reshape(coordinates(b, size[size.size() - 1 - k], c.flag("align_corners"), wide), shape) * column(k);
    out = out ? out + term : term;
  }
  return b.to(out + column(dims), result);
}

const OpRow grid_sample_ops[] = {
    {.schema = "aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
     .kind = Kind::View,
     .infer = grid_sample_types,
     .define = grid_sample_define,
     .dtypes = float_types,
     .autocast = to_f32},
    {.schema = "aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
     .kind = Kind::View,
     .infer = grid_sample_types,
     .define = grid_sample_define,
     .dtypes = float_types,
     .autocast = to_f32},
    {.schema = "aten::grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
     .decompose = grid_sampler,
     .autocast = to_f32},
    {.schema = "aten::_grid_sampler_2d_cpu_fallback(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "
               "align_corners) -> Tensor",
     .decompose = grid_sampler},
    {.schema = "aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", .decompose = affine_grid},
};

} // namespace

std::span<const OpRow> grid_sample_rows() { return grid_sample_ops; }

} // namespace tenon::ops
