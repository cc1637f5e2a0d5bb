// ATen's pooling, written with the window operators of window.cpp.
#include "ops/autocast.h"
#include "ops/body.h"
#include "ops/table.h"
#include "ops/window.h"

namespace tenon::ops {

namespace {

using Dims = std::vector<int64_t>;

// How many dims are pooled: the digit in "max_pool2d", "max_unpool3d".
size_t pooled_dims(const Call& c) {
  std::string_view name = c.def.signature.name;
  return static_cast<size_t>(name[name.find_first_of("123")] - '0');
}

// v [n] as it goes along dim `at` of a tensor of this rank.
V along(Builder& b, V v, size_t at, size_t rank) {
  std::vector<Expr> sizes(rank - at, b.integer(1));
  sizes[0] = v.size(0);
  return b.reshape(v, sizes);
}

V divide(Builder& b, V x, const Arg& y, const char* rounding) {
  return b.call1("aten::div.Tensor_mode", {x, y}, {{"rounding_mode", rounding}});
}
V count(Builder& b, Expr n) { return b.arange(n, DType::I64); }
V at_most(Builder& b, V x, Expr limit) { return b.call1("aten::clamp.default", {x, Arg(), Arg(limit)}); }
V at_least(Builder& b, V x, int64_t limit) { return b.call1("aten::clamp.default", {x, limit, Arg()}); }

// From the place in the window, the row-major index in the pooled dims of the input; at(k, tap): where tap `tap` of dim k is.
V input_index(Builder& b, V input, V place, const std::vector<Expr>& extents, const std::function<V(size_t, V)>& at) {
  size_t dims = extents.size(), lead = input.rank() - dims;
  V out;
  for (size_t k = 0; k < dims; k++) {
    Expr below = product(b.pool(), std::span(extents).subspan(k + 1));
    bool last = k + 1 == dims;
    V tap = last ? place : divide(b, place, below, "floor");
    if (!last) place = place - tap * Arg(below);
    out = out ? out * Arg(input.size(static_cast<int64_t>(lead + k))) + at(k, tap) : at(k, tap);
  }
  return out;
}

// torch's loops let every NaN take over from what they had found: the index of a window that holds some is that of the last.
// `greatest` is the pooling's maximum over windows, here of where the NaNs are.
V or_last_nan(Builder& b, V x, size_t dims, V indices, const std::function<V(V)>& greatest) {
  if (!is_float(x.dtype())) return indices;
  V position;
  for (size_t k = x.rank() - dims; k < x.rank(); k++) {
    V i = along(b, count(b, x.size(static_cast<int64_t>(k))), k, x.rank());
    position = position ? position * Arg(x.size(static_cast<int64_t>(k))) + i : i;
  }
  V nan_at = greatest(b.where(b.call1("aten::isnan.default", {x}), position, b.scalar(Arg(-1), DType::I64)));
  return b.where(b.call1("aten::ge.Scalar", {nan_at, 0}), nan_at, indices);
}

ArgList uniform_args(Builder&, const Call& c, V x, const std::vector<Window>& w) {
  ArgList lists[4];
  for (const Window& one : w) {
    int64_t numbers[] = {one.kernel, one.stride, one.padding, one.dilation};
    for (int i = 0; i < 4; i++) lists[i].push_back(numbers[i]);
  }
  bool ceil = c.def.signature.find("ceil_mode") >= 0 && c.flag("ceil_mode");
  return {x, lists[0], lists[1], lists[2], lists[3], ceil};
}

void check_rank(const Call& c, size_t dims) {
  if (c.rank("self") != dims + 1 && c.rank("self") != dims + 2) c.fail(fmt::format("needs a tensor of rank {} or {}", dims + 1, dims + 2));
}

Values max_pool(Builder& b, const Call& c) {
  size_t dims = pooled_dims(c);
  check_rank(c, dims);
  return b.call("tenon::window_max.default", uniform_args(b, c, b.input(c, "self"), windows_of(c, dims)));
}

Values max_pool_with_indices(Builder& b, const Call& c) {
  size_t dims = pooled_dims(c);
  check_rank(c, dims);
  V x = b.input(c, "self");
  auto w = windows_of(c, dims);
  V place = b.call1("tenon::window_argmax.default", uniform_args(b, c, x, w));
  std::vector<Expr> extents;
  for (auto& one : w) extents.push_back(b.integer(one.kernel));
  size_t lead = x.rank() - dims;
  V indices = input_index(b, x, place, extents, [&](size_t k, V tap) {
    V begin = count(b, place.size(static_cast<int64_t>(lead + k))) * Arg(w[k].stride);
    V at = along(b, w[k].padding ? begin - Arg(w[k].padding) : begin, lead + k, x.rank()) +
           (w[k].dilation == 1 ? tap : tap * Arg(w[k].dilation));
    // In the padding is only the first tap of a window of nothing but -inf: its first tap inside is meant.
    return w[k].padding ? b.call1("aten::maximum.default", {at, b.call1("aten::remainder.Scalar", {at, w[k].dilation})}) : at;
  });
  auto greatest = [&](V of) { return b.call1("tenon::window_max.default", uniform_args(b, c, of, w)); };
  return {greatest(x), or_last_nan(b, x, dims, indices, greatest)};
}

V quotient(Builder& b, V sum, const Arg& divisor, DType result) {
  if (!is_float(sum.dtype())) return b.to(divide(b, sum, divisor, "trunc"), result);
  return b.to(sum / divisor, result);
}

// How many elements each window counts along dim k, or nothing where all count the same.
V window_counts(Builder& b, const Window& w, Expr in, Expr out, bool ceil, bool with_padding) {
  bool partial = with_padding ? ceil && w.stride > 1 : overhangs(w, in, ceil);
  if (!partial) return {};
  V begin = count(b, out) * Arg(w.stride) - Arg(w.padding), end = begin + Arg(w.kernel);
  if (with_padding) return at_most(b, end, in + static_cast<double>(w.padding)) - begin;
  return at_most(b, end, in) - at_least(b, begin, 0);
}

Values avg_pool(Builder& b, const Call& c) {
  size_t dims = pooled_dims(c), lead = c.rank("self") - dims;
  check_rank(c, dims);
  V x = b.input(c, "self");
  auto w = windows_of(c, dims);
  V sum = b.call1("tenon::window_sum.default", uniform_args(b, c, x, w));
  if (c.def.signature.find("divisor_override") >= 0 && c.has("divisor_override")) {
    if (c.integer("divisor_override") == 0) c.fail("divisor_override is zero");
    return quotient(b, sum, c["divisor_override"], x.dtype());
  }
  V counts;
  int64_t rest = 1;
  for (size_t k = 0; k < dims; k++) {
    auto d = static_cast<int64_t>(lead + k);
    V n = window_counts(b, w[k], x.size(d), sum.size(d), c.flag("ceil_mode"), c.flag("count_include_pad"));
    if (!n) rest *= w[k].kernel;
    else counts = counts ? counts * along(b, n, lead + k, x.rank()) : along(b, n, lead + k, x.rank());
  }
  if (!counts) return quotient(b, sum, rest, x.dtype());
  if (rest != 1) counts = counts * Arg(rest);
  return quotient(b, sum, b.to(counts, sum.dtype()), x.dtype());
}

// Windows of one size, where the sizes are known and divide: stride and kernel are both in / out.
std::vector<Window> even_windows(V x, const std::vector<Expr>& out) {
  std::vector<Window> w;
  for (size_t k = 0; k < out.size(); k++) {
    auto in = const_int(x.size(static_cast<int64_t>(x.rank() - out.size() + k))), o = const_int(out[k]);
    if (!in || !o || *o == 0 || *in == 0 || *in % *o != 0) return {};
    w.push_back({*in / *o, *in / *o, 0, 1});
  }
  return w;
}

std::vector<Expr> output_size(const Call& c, size_t dims) {
  std::vector<Expr> out = c.syms("output_size");
  if (out.size() == 1) out.assign(dims, out[0]);
  if (out.size() != dims) c.fail(fmt::format("output_size needs {} numbers", dims));
  return out;
}

// Sums over windows of all dims from `lead` on, one after the other, the outer ones first, as they are added up row by row.
V adaptive_sums(Builder& b, V x, const std::vector<Expr>& out, size_t lead) {
  std::vector<Expr> now(x.sizes().begin() + static_cast<std::ptrdiff_t>(lead), x.sizes().end());
  for (size_t k = 0; k < out.size(); k++) {
    if (now[k] == out[k]) continue;
    now[k] = out[k];
    x = b.call1("tenon::adaptive_sum.default", {x, now});
  }
  return x;
}

Values adaptive_avg_pool(Builder& b, const Call& c) {
  size_t dims = pooled_dims(c), lead = c.rank("self") - dims;
  check_rank(c, dims);
  V x = b.input(c, "self");
  std::vector<Expr> out = output_size(c, dims);
  Dims all;
  for (size_t k = 0; k < dims; k++) all.push_back(static_cast<int64_t>(lead + k));
  if (std::all_of(out.begin(), out.end(), [](Expr e) { return is_const_int(e, 1); })) return b.mean(x, all, true);
  if (auto w = even_windows(x, out); !w.empty()) {
    int64_t n = 1;
    for (auto& one : w) n *= one.kernel;
    if (n == 1) return x;
    return quotient(b, b.call1("tenon::window_sum.default", uniform_args(b, c, x, w)), n, x.dtype());
  }
  V y = adaptive_sums(b, x, out, lead);
  for (size_t k = 0; k < dims; k++) {
    Expr in = x.size(static_cast<int64_t>(lead + k));
    V i = count(b, out[k]);
    V begin = divide(b, i * Arg(in), out[k], "floor"), end = divide(b, (i + Arg(1)) * Arg(in) + Arg(out[k] - 1.0), out[k], "floor");
    y = y / b.to(along(b, end - begin, lead + k, x.rank()), y.dtype());
  }
  return b.to(y, x.dtype());
}

Values adaptive_max_pool(Builder& b, const Call& c) {
  size_t dims = pooled_dims(c), lead = c.rank("self") - dims;
  check_rank(c, dims);
  V x = b.input(c, "self");
  std::vector<Expr> out = output_size(c, dims), extents;
  for (size_t k = 0; k < dims; k++) extents.push_back(adaptive_extent(x.size(static_cast<int64_t>(lead + k)), out[k]));
  V place = b.call1("tenon::adaptive_argmax.default", {x, out});
  V indices = input_index(b, x, place, extents, [&](size_t k, V tap) {
    V begin = divide(b, count(b, out[k]) * Arg(x.size(static_cast<int64_t>(lead + k))), out[k], "floor");
    return along(b, begin, lead + k, x.rank()) + tap;
  });
  auto greatest = [&](V of) { return b.call1("tenon::adaptive_max.default", {of, out}); };
  return {greatest(x), or_last_nan(b, x, dims, indices, greatest)};
}

// Where the windows of a fractional pooling begin along one dim: [..., out], from samples [...].
V fractional_begins(Builder& b, V samples, Expr in, Expr out, int64_t kernel) {
  V i = count(b, out), last = b.call1("aten::eq.Tensor", {i, b.scalar(Arg(out - 1.0), DType::I64)});
  Expr free = in - static_cast<double>(kernel);
  V s = b.unsqueeze(samples, -1), alpha = b.scalar(Arg(free), s.dtype()) / b.scalar(Arg(max(out - 1.0, b.integer(1))), s.dtype());
  V begin = b.to((b.to(i, s.dtype()) + s) * alpha, DType::I64) - b.to(s * alpha, DType::I64);
  return b.where(last, b.scalar(Arg(free), DType::I64), begin);
}

// The samples of a plane are in the order W, H for two dims, but T, H, W for three.
Values fractional_max_pool(Builder& b, const Call& c) {
  size_t dims = pooled_dims(c), lead = c.rank("self") - dims;
  check_rank(c, dims);
  V x = b.input(c, "self"), samples = b.input(c, "random_samples");
  if (samples.rank() != 3) c.fail("random_samples must have 3 dims");
  if (lead == 1) samples = b.select(samples, 0, b.integer(0));
  Dims kernel = c.integers("kernel_size");
  if (kernel.size() == 1) kernel.assign(dims, kernel[0]);
  std::vector<Expr> out = output_size(c, dims), extents;
  std::vector<V> begins;
  for (size_t k = 0; k < dims; k++) {
    extents.push_back(b.integer(kernel[k]));
    V sample = b.select(samples, -1, b.integer(static_cast<int64_t>(dims == 2 ? 1 - k : k)));
    begins.push_back(fractional_begins(b, sample, x.size(static_cast<int64_t>(lead + k)), out[k], kernel[k]));
  }
  ArgList places(begins.begin(), begins.end());
  V place = b.call1("tenon::placed_argmax.default", {x, places, kernel});
  V indices = input_index(b, x, place, extents, [&](size_t k, V tap) {
    std::vector<Expr> sizes(x.sizes().begin(), x.sizes().begin() + static_cast<int64_t>(lead));
    for (size_t j = 0; j < dims; j++) sizes.push_back(j == k ? out[k] : b.integer(1));
    return b.reshape(begins[k], sizes) + tap;
  });
  auto greatest = [&](V of) { return b.call1("tenon::placed_max.default", {of, places, kernel}); };
  return {greatest(x), or_last_nan(b, x, dims, indices, greatest)};
}

// Each plane is a row of zeros into which the elements go by their indices.
Values max_unpool(Builder& b, const Call& c) {
  size_t dims = pooled_dims(c), lead = c.rank("self") - dims;
  check_rank(c, dims);
  V x = b.input(c, "self"), indices = b.input(c, "indices");
  std::vector<Expr> out = output_size(c, dims), sizes = x.sizes();
  Expr planes = product(b.pool(), std::span(sizes).first(lead)), from = product(b.pool(), std::span(sizes).subspan(lead)),
       into = product(b.pool(), out);
  V zeros = b.full({planes, into}, 0, x.dtype());
  V y = b.call1("aten::scatter.src", {zeros, 1, b.reshape(indices, {planes, from}), b.reshape(x, {planes, from})});
  std::copy(out.begin(), out.end(), sizes.begin() + static_cast<int64_t>(lead));
  return b.reshape(y, sizes);
}

const OpRow pool_ops[] = {
    {.schema = "aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool "
               "ceil_mode=False) -> "
               "Tensor",
     .decompose = max_pool,
     .vjp = "result: max_pooled(self, kernel_size, stride, padding, dilation, ceil_mode)[0]"},
    {.schema = "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool "
               "ceil_mode=False) -> Tensor",
     .decompose = max_pool,
     .vjp = "result: torch.max_pool2d_with_indices(self, kernel_size, or_else(stride, kernel_size), padding, dilation, ceil_mode)[0]"},
    {.schema = "aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool "
               "ceil_mode=False) -> Tensor",
     .decompose = max_pool,
     .autocast = to_f32,
     .vjp = "result: torch.max_pool3d_with_indices(self, kernel_size, or_else(stride, kernel_size), padding, dilation, ceil_mode)[0]"},
    {.schema = "aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], "
               "bool ceil_mode=False) -> (Tensor, Tensor)",
     .decompose = max_pool_with_indices,
     .vjp = "result: max_pooled(self, kernel_size, stride, padding, dilation, ceil_mode)"},
    {.schema = "aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
               "bool ceil_mode=False) -> (Tensor, Tensor)",
     .decompose = max_pool_with_indices,
     .vjp = "self: torch.max_pool2d_with_indices_backward(grad, self, kernel_size, or_else(stride, kernel_size), padding, dilation, "
            "ceil_mode, result1)"},
    {.schema = "aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, "
               "bool ceil_mode=False) -> (Tensor, Tensor)",
     .decompose = max_pool_with_indices,
     .vjp = "self: torch.max_pool3d_with_indices_backward(grad, self, kernel_size, or_else(stride, kernel_size), padding, dilation, "
            "ceil_mode, result1)"},
    {.schema = "aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, "
               "bool count_include_pad=True) -> Tensor",
     .decompose = avg_pool,
     .vjp = "result: torch.avg_pool2d(self.unsqueeze(-2), [1, kernel_size[0]], [1, or_else(stride, kernel_size)[0]], [0, padding[0]], "
            "ceil_mode, count_include_pad, None).squeeze(-2)"},
    {.schema = "aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
               "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
     .decompose = avg_pool,
     .vjp = "self: torch.avg_pool2d_backward(grad, self, kernel_size, or_else(stride, kernel_size), padding, ceil_mode, count_include_pad, "
            "divisor_override)"},
    {.schema = "aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, "
               "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
     .decompose = avg_pool,
     .autocast = to_f32,
     .vjp = "self: torch.avg_pool3d_backward(grad, self, kernel_size, or_else(stride, kernel_size), padding, ceil_mode, count_include_pad, "
            "divisor_override)"},
    {.schema = "aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
     .decompose = adaptive_avg_pool,
     .vjp = "result: torch.adaptive_avg_pool2d(self.unsqueeze(-2), [1, output_size[0]]).squeeze(-2)"},
    {.schema = "aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
     .decompose = adaptive_avg_pool,
     .vjp = "self: torch._adaptive_avg_pool2d_backward(grad, self)"},
    {.schema = "aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
     .decompose = adaptive_avg_pool,
     .autocast = to_f32,
     .vjp = "self: torch._adaptive_avg_pool3d_backward(grad, self)"},
    {.schema = "aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor",
     .decompose = adaptive_avg_pool,
     .vjp = "self: torch._adaptive_avg_pool2d_backward(grad, self)"},
    {.schema = "aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor",
     .decompose = adaptive_avg_pool,
     .vjp = "self: torch._adaptive_avg_pool3d_backward(grad, self)"},
    {.schema = "aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)",
     .decompose = adaptive_max_pool,
     .vjp = "result: squeezed_pair(torch.adaptive_max_pool2d(self.unsqueeze(-2), [1, output_size[0]]))"},
    {.schema = "aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)",
     .decompose = adaptive_max_pool,
     .vjp = "self: torch.adaptive_max_pool2d_backward(grad, self, result1)"},
    {.schema = "aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)",
     .decompose = adaptive_max_pool,
     .autocast = to_f32,
     .vjp = "self: torch.adaptive_max_pool3d_backward(grad, self, result1)"},
    {.schema =
         "aten::fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)",
     .decompose = fractional_max_pool,
     .autocast = to_f32,
     .vjp = "self: torch.fractional_max_pool2d_backward(grad, self, kernel_size, output_size, result1)"},
    {.schema =
         "aten::fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> (Tensor, Tensor)",
     .decompose = fractional_max_pool,
     .autocast = to_f32,
     .vjp = "self: torch.fractional_max_pool3d_backward(grad, self, kernel_size, output_size, result1)"},
    {.schema = "aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
     .decompose = max_unpool,
     .autocast = to_f32,
     .vjp = "self: grad.flatten(-2).gather(-1, indices.flatten(-2)).reshape(self_size)"},
    {.schema = "aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
     .decompose = max_unpool,
     .autocast = to_f32,
     .vjp = "self: grad.flatten(-3).gather(-1, indices.flatten(-3)).reshape(self_size)"},
};

} // namespace

std::span<const OpRow> pool_rows() { return pool_ops; }

} // namespace tenon::ops
