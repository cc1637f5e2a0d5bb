// Operators that permute or repeat elements: flip, roll, repeat, rot90, pixel and channel shuffles.
#include <algorithm>
#include <array>

#include "ops/jvp.h"
#include "ops/shape.h"
#include "ops/table.h"
#include "ops/vectorize.h"

namespace tenon::ops {

namespace {

std::vector<Type> same_type_as_self(const Call& c) { return self_with(c, c.type("self").sizes); }

Compute flip_define(const DefineArgs& d) {
  std::vector<Expr> index = d.axes;
  for (int64_t k : d.call.dims("dims", d.axes.size(), false)) {
    auto dim = static_cast<size_t>(k);
    if (dim < index.size()) index[dim] = d.output.sizes[dim] - 1.0 - index[dim];
  }
  return {.axes = d.axes, .body = d.load("self", index)};
}

V flip(Builder& b, V x, std::vector<int64_t> dims) { return b.call1("aten::flip.default", {x, dims}); }

template <int64_t Dim> Values flip_dim(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.rank() <= static_cast<size_t>(Dim)) c.fail("self has too few dims");
  return flip(b, x, {Dim});
}

// Without dims torch rolls the flat tensor.
Values roll_flat(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (!c.syms("dims").empty()) {
    if (size_t shifts = c.syms("shifts").size(), dims = c.syms("dims").size(); shifts != dims)
      c.fail(fmt::format("shifts and dimensions must align. shifts: {}, dims:{}", shifts, dims));
    return {};
  }
  V flat = b.reshape(x, {product(b.pool(), x.sizes())});
  return b.reshape(b.call1("aten::roll.default", {flat, c["shifts"], ArgList{0}}), x.sizes());
}

Compute roll_define(const DefineArgs& d) {
  std::vector<Expr> index = d.axes, shifts = d.call.syms("shifts");
  if (d.call.syms("dims").empty()) unsupported("aten::roll without dims, as it stands");
  std::vector<int64_t> dims = d.call.integers("dims");
  for (size_t k = 0; k < dims.size() && !index.empty(); k++) { // a dim may occur twice
    auto dim = static_cast<size_t>(wrap_dim(dims[k], d.axes.size(), "aten::roll"));
    Expr size = d.output.sizes[dim];
    if (is_const_int(size, 0)) continue;
    Expr from = index[dim] - mod(shifts[k], size);
    index[dim] = select(lt(from, d.integer(0)), from + size, from);
  }
  return {.axes = d.axes, .body = d.load("self", index)};
}

// fftshift brings the middle of each dim to its front; ifftshift is its inverse.
template <bool Inverse> Values fft_shift(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  std::vector<int64_t> dims = c.dims("dim", x.rank());
  std::vector<Expr> shifts;
  for (int64_t d : dims) shifts.push_back(floor_div(x.size(d) + (Inverse ? 1.0 : 0.0), b.integer(2)));
  return dims.empty() ? x : b.call1("aten::roll.default", {x, shifts, dims});
}

Values rot90(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  std::vector<int64_t> dims = c.dims("dims", x.rank(), false);
  if (dims.size() != 2) c.fail("two dims are needed");
  switch (((c.integer("k") % 4) + 4) % 4) {
  case 1: return b.transpose(flip(b, x, {dims[1]}), dims[0], dims[1]);
  case 2: return flip(b, x, dims);
  case 3: return b.transpose(flip(b, x, {dims[0]}), dims[0], dims[1]);
  default: return x;
  }
}

std::vector<Type> repeat_types(const Call& c) {
  std::vector<Expr> sizes = c.syms("repeats"), have = c.type("self").sizes;
  if (sizes.size() < have.size()) c.fail("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  for (size_t k = 0; k < have.size(); k++) {
    Expr& s = sizes[sizes.size() - 1 - k];
    s = s * have[have.size() - 1 - k];
  }
  return self_with(c, sizes);
}

Compute repeat_define(const DefineArgs& d) {
  const std::vector<Expr>& have = d.call.type("self").sizes;
  std::vector<Expr> index(d.axes.end() - static_cast<int64_t>(have.size()), d.axes.end());
  for (size_t k = 0; k < have.size(); k++)
    if (have[k] != d.output.sizes[d.axes.size() - have.size() + k])
      index[k] = is_const_int(have[k], 1) ? d.integer(0) : mod(index[k], have[k]);
  return {.axes = d.axes, .body = d.load("self", index)};
}

Values repeat_identity(Builder& b, const Call& c) {
  if (repeat_types(c)[0].sizes == c.type("self").sizes) return b.input(c, "self");
  return {};
}

Values tile(Builder& b, const Call& c) {
  std::vector<Expr> repeats = c.syms("dims");
  if (repeats.size() < c.rank("self")) repeats.insert(repeats.begin(), c.rank("self") - repeats.size(), b.integer(1));
  return b.call("aten::repeat.default", {c["self"], repeats});
}

Expr positive(const Call& c, std::string_view name, bool is_constant) {
  Expr n = is_constant ? c.pool().integer(c.integer(name)) : c.sym(name);
  if (n->hi <= 0) c.fail(fmt::format("{} is not positive", name));
  return n;
}

// [..., c*r*r, h, w] to [..., c, h*r, w*r].
Values pixel_shuffle(Builder& b, const Call& c) {
  if (auto n = c.rank("self") > 2 ? const_int(c.size("self", -3)) : std::nullopt, f = std::optional(c.integer("upscale_factor"));
      n && *f > 0 && (*n % *f || *n / *f % *f)) // the square may be too large
    c.fail(fmt::format("pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
                       "input.size(-3)={} is not divisible by {}",
                       *n, static_cast<uint64_t>(*f) * static_cast<uint64_t>(*f)));
  V x = b.input(c, "self");
  if (x.rank() < 3) c.fail("self has less than three dims");
  Expr r = positive(c, "upscale_factor", true), channels = divide_sizes(x.size(-3), r * r);
  std::vector<Expr> lead(x.sizes().begin(), x.sizes().end() - 3), split = lead, out = lead;
  split.insert(split.end(), {channels, r, r, x.size(-2), x.size(-1)});
  out.insert(out.end(), {channels, x.size(-2) * r, x.size(-1) * r});
  std::vector<int64_t> order = iota(split.size());
  auto n = static_cast<int64_t>(lead.size());
  std::copy_n(std::array{n, n + 3, n + 1, n + 4, n + 2}.begin(), 5, order.begin() + n);
  return b.reshape(b.permute(b.reshape(x, split), order), out);
}

// The inverse: [..., c, h*r, w*r] to [..., c*r*r, h, w].
Values pixel_unshuffle(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.rank() < 3) c.fail("self has less than three dims");
  Expr r = positive(c, "downscale_factor", true), h = divide_sizes(x.size(-2), r), w = divide_sizes(x.size(-1), r);
  std::vector<Expr> lead(x.sizes().begin(), x.sizes().end() - 3), split = lead, out = lead;
  split.insert(split.end(), {x.size(-3), h, r, w, r});
  out.insert(out.end(), {x.size(-3) * r * r, h, w});
  std::vector<int64_t> order = iota(split.size());
  auto n = static_cast<int64_t>(lead.size());
  std::copy_n(std::array{n, n + 2, n + 4, n + 1, n + 3}.begin(), 5, order.begin() + n);
  return b.reshape(b.permute(b.reshape(x, split), order), out);
}

Values channel_shuffle(Builder& b, const Call& c) {
  V x = b.input(c, "self");
  if (x.rank() < 3) c.fail("self has less than three dims");
  Expr groups = positive(c, "groups", false), each = divide_sizes(x.size(1), groups);
  std::vector<Expr> split = with(replaced(x.sizes(), 1, groups), 2, each);
  return b.reshape(b.transpose(b.reshape(x, split), 1, 2), x.sizes());
}

const OpRow rearrange_ops[] = {
    {.schema = "aten::flip(Tensor self, int[] dims) -> Tensor",
     .kind = Kind::View,
     .infer = same_type_as_self,
     .define = flip_define,
     .jvp = jvp_linear,
     .vectorize = along_named_dims,
     .vjp = "self: grad.flip(dims)"},
    {.schema = "aten::fliplr(Tensor self) -> Tensor", .decompose = flip_dim<1>, .vjp = "self: grad.fliplr()"},
    {.schema = "aten::flipud(Tensor self) -> Tensor", .decompose = flip_dim<0>, .vjp = "self: grad.flipud()"},
    {.schema = "aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
     .kind = Kind::View,
     .infer = same_type_as_self,
     .define = roll_define,
     .decompose = roll_flat,
     .jvp = jvp_linear,
     .vjp = "self: torch.roll(grad, negated(shifts), dims)"},
    {.schema = "aten::fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", .decompose = fft_shift<false>},
    {.schema = "aten::fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", .decompose = fft_shift<true>},
    {.schema = "aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
     .decompose = rot90,
     .vjp = "self: torch.rot90(grad, -k, dims)"},
    {.schema = "aten::repeat(Tensor self, SymInt[] repeats) -> Tensor",
     .kind = Kind::View,
     .infer = repeat_types,
     .define = repeat_define,
     .decompose = repeat_identity,
     .vjp = "self: of_repeated(grad, self_size, repeats)"},
    {.schema = "aten::tile(Tensor self, SymInt[] dims) -> Tensor",
     .decompose = tile,
     .vjp = "self: of_repeated(grad, self_size, padded_left(dims, len(self_size)))"},
    {.schema = "aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
     .decompose = pixel_shuffle,
     .vjp = "self: torch.pixel_unshuffle(grad, upscale_factor)"},
    {.schema = "aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
     .decompose = pixel_unshuffle,
     .vjp = "self: torch.pixel_shuffle(grad, downscale_factor)"},
    {.schema = "aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor",
     .decompose = channel_shuffle,
     .vjp = "self: torch.channel_shuffle(grad, grad.size(1) // groups)"},
    {.schema = "aten::native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
     .decompose = channel_shuffle,
     .vjp = "self: torch.channel_shuffle(grad, grad.size(1) // groups)"},
};

} // namespace

std::span<const OpRow> rearrange_rows() { return rearrange_ops; }

} // namespace tenon::ops
