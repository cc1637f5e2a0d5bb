// Blocks of convolutional networks.
#include "prebuilt/layer.h"

namespace tenon {

namespace {

V grouped_conv(Layer& l, V x, int64_t to, int64_t window, int64_t stride, int64_t groups, bool bias) {
  int64_t from = *const_int(x.size(1)), pad = window / 2;
  return l.call("aten::conv2d", {x, l.weight({to, from / groups, window, window}), bias ? Arg(l.weight({to})) : Arg(),
                                 ArgList{stride, stride}, ArgList{pad, pad}, ArgList{1, 1}, groups});
}

V normed(Layer& l, V x) {
  int64_t n = *const_int(x.size(1));
  return l.call("aten::batch_norm", {x, l.weight({n}), l.weight({n}), l.weight({n}), l.weight({n}), false, 0.1, 1e-5, false});
}

V conv(Layer& l, V x, int64_t to, int64_t window, int64_t stride = 1) {
  return normed(l, grouped_conv(l, x, to, window, stride, 1, false));
}

V biased_conv(Layer& l, V x, int64_t to) { return grouped_conv(l, x, to, 1, 1, 1, true); }

V depthwise(Layer& l, V x, int64_t window) {
  int64_t channels = *const_int(x.size(1));
  return normed(l, grouped_conv(l, x, channels, window, 1, channels, false));
}

V mean_of(Layer& l, V image) { return l.call("aten::adaptive_avg_pool2d", {image, ArgList{1, 1}}); }

void classify(Layer& l, V image) { l.gives(l.linear(l.call("aten::flatten.using_ints", {mean_of(l, image), int64_t{1}}), 10)); }

std::vector<Expr> batches(Layer& l) { return {l.b().integer(1), l.b().integer(3), l.symbol("batch")}; }

} // namespace

// With and without a convolution beside, between a first layer and a mean.
static void add_residual_blocks(std::vector<LoadedProgram>& out, bool trained) {
  for (size_t batch : {0, 1, 2})
    for (const Activation& f : std::span(activations()).first(activations_of_images))
      for (bool pools : {false, true}) {
        Layer l(trained);
        Expr size = l.b().integer(112);
        V x = f(l, conv(l, l.input({batches(l)[batch], l.b().integer(3), size, size}), 64, 7, 2));
        if (pools) x = l.call("aten::max_pool2d", {x, ArgList{3, 3}, ArgList{2, 2}, ArgList{1, 1}});
        x = f(l, conv(l, f(l, conv(l, x, 64, 3)), 64, 3) + x);
        x = f(l, x + conv(l, f(l, conv(l, x, 64, 1)), 64, 1));
        x = f(l, conv(l, f(l, conv(l, x, 96, 3, 2)), 160, 1) + conv(l, x, 160, 1, 2));
        x = x + conv(l, f(l, conv(l, x, 96, 1)), 160, 1);
        x = conv(l, f(l, conv(l, x, 96, 1)), 160, 1) + x;
        x = f(l, conv(l, f(l, conv(l, x, 96, 3, 2)), 160, 1) + conv(l, x, 160, 1, 2));
        classify(l, x);
        out.push_back(l.done());
      }
}

void add_residual_blocks(std::vector<LoadedProgram>& out) {
  for (bool trained : {false, true}) add_residual_blocks(out, trained);
}

// Linear at their ends, with channels weighed by their means.
static void add_inverted_residual(std::vector<LoadedProgram>& out, int64_t size, int64_t channels, bool swish, bool trained) {
  Layer l(trained);
  Activation f = call_of(swish ? "aten::silu" : "aten::hardswish"), gate = call_of(swish ? "aten::sigmoid" : "aten::hardsigmoid");
  V x = f(l, conv(l, l.input({1, 3, 2 * size, 2 * size}), 24, 3, 2));
  for (bool first : {false, true}) {
    V wide = f(l, depthwise(l, f(l, conv(l, x, channels, 1)), 3));
    V weight = (swish ? f : call_of("aten::relu"))(l, biased_conv(l, mean_of(l, wide), 16));
    weight = gate(l, biased_conv(l, weight, channels));
    V y = conv(l, first ? weight * wide : wide * weight, 24, 1);
    x = first ? y + x : x + y;
  }
  classify(l, f(l, conv(l, x, channels, 1)));
  out.push_back(l.done());
}

void add_inverted_residuals(std::vector<LoadedProgram>& out) {
  constexpr int64_t most_elements = 112 * 112 * 128;
  for (int64_t size : {7, 14, 28, 56, 112})
    for (int64_t channels : {88, 128, 448, 896})
      for (bool swish : {false, true})
        for (bool trained : {false, true})
          if (size * size * channels <= most_elements) add_inverted_residual(out, size, channels, swish, trained);
}

// Convolutions with biases, pooled by windows that overlap or do not.
void add_pooled_stages(std::vector<LoadedProgram>& out) {
  for (size_t batch : {0, 1, 2})
    for (const char* activation : {"aten::relu", "aten::silu"})
      for (auto [window, pad] : {std::pair{2, 0}, {3, 0}, {3, 1}}) {
        Layer l;
        Activation f = call_of(activation);
        V x = l.input({batches(l)[batch], l.b().integer(3), l.b().integer(112), l.b().integer(112)});
        for (int64_t channels : {64, 96, 128}) {
          x = f(l, grouped_conv(l, x, channels, 3, 1, 1, true));
          x = l.call("aten::max_pool2d", {x, ArgList{window, window}, ArgList{2, 2}, ArgList{pad, pad}});
        }
        classify(l, f(l, biased_conv(l, x, 160)));
        out.push_back(l.done());
      }
}

namespace {

V norm_of_channels(Layer& l, V image, double epsilon) {
  int64_t n = *const_int(image.size(1));
  V rows = l.b().permute(image, {0, 2, 3, 1});
  return l.b().permute(l.call("aten::layer_norm", {rows, ArgList{n}, l.weight({n}), l.weight({n}), epsilon}), {0, 3, 1, 2});
}

// A large window of each channel, then products of rows of channels.
V wide_block(Layer& l, V x, bool scales_image) {
  int64_t n = *const_int(x.size(1));
  V y = l.b().permute(grouped_conv(l, x, n, 7, 1, n, true), {0, 2, 3, 1});
  y = l.call("aten::layer_norm", {y, ArgList{n}, l.weight({n}), l.weight({n}), 1e-6});
  y = l.linear(l.call("aten::gelu", {l.linear(y, 2 * n)}), n);
  if (!scales_image) return x + l.b().permute(l.weight({n}) * y, {0, 3, 1, 2});
  return l.b().permute(y, {0, 3, 1, 2}) * l.call("aten::reshape", {l.weight({n}), ArgList{1, -1, 1, 1}}) + x;
}

} // namespace

void add_wide_blocks(std::vector<LoadedProgram>& out) {
  for (size_t batch : {0, 1, 2})
    for (bool scales_image : {false, true}) {
      Layer l;
      V x = l.input({batches(l)[batch], l.b().integer(3), l.b().integer(224), l.b().integer(224)});
      x = norm_of_channels(l, l.call("aten::conv2d", {x, l.weight({80, 3, 4, 4}), l.weight({80}), ArgList{4, 4}}), 1e-6);
      for (int64_t channels : {80, 160, 320, 640}) {
        for (int i = 0; i < 2; i++) x = wide_block(l, x, scales_image);
        if (channels != 640)
          x = l.call("aten::conv2d",
                     {norm_of_channels(l, x, 1e-6), l.weight({2 * channels, channels, 2, 2}), l.weight({2 * channels}), ArgList{2, 2}});
      }
      V mean = norm_of_channels(l, mean_of(l, x), 1e-6);
      l.gives(l.linear(l.call("aten::flatten.using_ints", {mean, int64_t{1}}), 10));
      out.push_back(l.done());
    }
}

} // namespace tenon
