// The gradient of a convolution's weights: by the machine's matrix kernels, or by its definition where there are none.
#include "runtime/conv_gradient.h"

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

/// Whether there are as many windows along a dim as the gradient says. What a transposed convolution gives may be longer than they reach by
/// less than its stride or its dilation.
bool fits(const ConvWindow& w, size_t dim) {
  int64_t rest = w.in[dim] + 2 * w.pad[dim] - w.dilation[dim] * (w.kernel[dim] - 1) - 1, windows = rest < 0 ? 0 : rest / w.stride[dim] + 1;
  return w.out[dim] == windows || (w.out[dim] < windows && w.dilation[dim] > w.stride[dim]);
}

/// The operands' sizes over three dimensions; null, or what is wrong with them.
const char* read_sizes(const LibraryCall& c, ConvGradient& g) {
  const LibraryTensor &in = c.inputs[0], &grad = c.inputs[1], &out = c.outputs[0];
  const int64_t dims = out.rank() - 2;
  if (dims < 1 || dims > 3 || in.rank() != dims + 2 || grad.rank() != dims + 2 || std::ssize(c.ints) != 3 * dims + 1)
    return "a gradient of weights is of a convolution over one to three dimensions";
  if (in.dtype != out.dtype || grad.dtype != out.dtype) return "a convolution, its gradient and its weights are of one dtype";
  g.type = out.dtype, g.groups = c.ints.back(), g.batch = in.size(0), g.inputs = out.size(1);
  if (g.groups < 1 || out.size(0) % g.groups != 0 || in.size(1) != g.groups * g.inputs || grad.size(0) != g.batch ||
      grad.size(1) != out.size(0))
    return "the sizes of a gradient of weights do not go together";
  g.outputs = out.size(0) / g.groups;
  for (int64_t d = 0; d < dims; d++) {
    auto to = static_cast<size_t>(d + 3 - dims), at = static_cast<size_t>(d), step = static_cast<size_t>(dims);
    g.window.in[to] = in.size(d + 2), g.window.out[to] = grad.size(d + 2), g.window.kernel[to] = out.size(d + 2);
    g.window.stride[to] = c.ints[at], g.window.pad[to] = c.ints[at + step], g.window.dilation[to] = c.ints[at + 2 * step];
    constexpr int64_t most = int64_t{1} << 31; // products of places do not overflow
    if (c.ints[at] < 1 || c.ints[at] > most || c.ints[at + step] < -most || c.ints[at + step] > most || c.ints[at + 2 * step] < 1 ||
        c.ints[at + 2 * step] > most || out.size(d + 2) > most)
      return "stride and dilation of a convolution are at least 1, and at most 2^31, as its padding";
    if (!fits(g.window, to)) return "the gradient is not of the size of what the convolution gives";
  }
  g.input = in.data, g.grad = grad.data, g.out = out.data;
  return nullptr;
}

/// One weight's sum.
template <class T> Sum<T> sum_of_weight(const ConvGradient& g, int64_t output, int64_t input, const int64_t (&tap)[3]) {
  const ConvWindow& w = g.window;
  Sum<T> sum = 0;
  for (int64_t n = 0; n < g.batch; n++) {
    const T* x = static_cast<const T*>(g.input) + (n * g.groups * g.inputs + input) * w.in_pixels();
    const T* grad = static_cast<const T*>(g.grad) + (n * g.groups * g.outputs + output) * w.out_pixels();
    for (int64_t i = 0; i < w.out_pixels(); i++) {
      int64_t at[3] = {i / w.out[2] / w.out[1], i / w.out[2] % w.out[1], i % w.out[2]}, pixel = 0;
      bool inside = true;
      for (int d = 0; d < 3; d++) {
        int64_t place = at[d] * w.stride[d] + tap[d] * w.dilation[d] - w.pad[d];
        inside &= place >= 0 && place < w.in[d];
        pixel = pixel * w.in[d] + place;
      }
      if (inside) sum += static_cast<Sum<T>>(widen(grad[i])) * static_cast<Sum<T>>(widen(x[pixel]));
    }
  }
  return sum;
}

template <class T> void by_definition(const LibraryCall& c, const ConvGradient& g) {
  const ConvWindow& w = g.window;
  parallel(c, c.outputs[0].numel(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t tap = i % w.positions(), channel = i / w.positions() % g.inputs, output = i / w.positions() / g.inputs;
      const int64_t at[3] = {tap / w.kernel[2] / w.kernel[1], tap / w.kernel[2] % w.kernel[1], tap % w.kernel[2]};
      static_cast<T*>(g.out)[i] = narrow<T>(sum_of_weight<T>(g, output, output / g.outputs * g.inputs + channel, at));
    }
  });
}

} // namespace

const char* conv_weight_gradient(const LibraryCall& c) {
  ConvGradient g;
  if (const char* wrong = read_sizes(c, g)) return wrong;
  if (c.outputs[0].numel() == 0) return nullptr;
  return for_float(g.type, [&](auto zero) -> const char* {
    using T = decltype(zero);
    int family = c.kernels && c.workers && may_be_products(g) ? conv_gradient_family(*c.kernels, g.type) : -1;
    if (g.batch * g.window.out_pixels() == 0) std::fill_n(static_cast<T*>(g.out), c.outputs[0].numel(), T());
    else if (family < 0) by_definition<T>(c, g);
    else run_conv_gradient(*c.kernels, *c.caches, *c.workers, family, g);
    return nullptr;
  });
}

} // namespace tenon::library
