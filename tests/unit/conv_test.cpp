// Convolution, general and depthwise, against plain loops in double precision.
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <string>

#include "kernel_test.h"
#include "runtime/conv.h"

using namespace tenon;

namespace {

struct Case {
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;
  int64_t in[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  bool bias = false, accumulate = false;
  int64_t gap = 0; // unused elements behind each pixel
};

/// A 2-D case, square in everything.
Case square(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t in, int64_t out, int64_t groups = 1,
            int64_t dilation = 1) {
  return {.groups = groups,
          .in_channels = in,
          .out_channels = out,
          .in = {1, size, size + 1},
          .kernel = {1, kernel, kernel},
          .stride = {1, stride, stride},
          .pad = {0, pad, pad},
          .dilation = {1, dilation, dilation}};
}

std::string text(const Case& c) {
  std::string s = "batch " + std::to_string(c.batch) + " groups " + std::to_string(c.groups) + " channels " +
                  std::to_string(c.in_channels) + "->" + std::to_string(c.out_channels) + " bias " +
                  std::to_string(c.bias) + " accumulate " + std::to_string(c.accumulate) + " gap " +
                  std::to_string(c.gap);
  for (int d = 0; d < 3; d++)
    s += ", " + std::to_string(c.in[d]) + " by " + std::to_string(c.kernel[d]) + " stride " +
         std::to_string(c.stride[d]) + " pad " + std::to_string(c.pad[d]) + " dilation " +
         std::to_string(c.dilation[d]);
  return s;
}

constexpr float untouched = 12345.f;

struct Cover { // counts how often the epilogue sees each element; without an output of its own, writes it, plus the bias
  int64_t pixels, channels;
  float* out;
  int64_t out_pixel;
  const float* bias;
  std::vector<std::atomic<int>> seen;
  Cover(int64_t batch, int64_t p, int64_t c, float* o, int64_t op, const float* b)
      : pixels(p), channels(c), out(o), out_pixel(op), bias(b), seen(static_cast<size_t>(batch * p * c)) {}
  static void call(void* ctx, const SumTile& t) {
    Cover& self = *static_cast<Cover*>(ctx);
    for (int64_t m = t.m0; m < t.m1; m++)
      for (int64_t n = t.n0; n < t.n1; n++) {
        self.seen[static_cast<size_t>((t.batch * self.pixels + m) * self.channels + n)]++;
        float sum = static_cast<const float*>(t.sums)[(m - t.m0) * t.stride + n - t.n0];
        if (self.bias) self.out[(t.batch * self.pixels + m) * self.out_pixel + n] = sum + self.bias[n];
      }
  }
};

/// The sum of one output element, and of its terms' magnitudes.
void reference(const Case& c, const ConvWindow& w, const float* image, int64_t pixel, const float* weights, int64_t m,
               int64_t o, double& sum, double& size) {
  int64_t at[3] = {m / w.out[2] / w.out[1], m / w.out[2] % w.out[1], m % w.out[2]};
  int64_t inputs = c.in_channels / c.groups, first = o / (c.out_channels / c.groups) * inputs;
  for (int64_t z = 0; z < c.kernel[0]; z++)
    for (int64_t y = 0; y < c.kernel[1]; y++)
      for (int64_t x = 0; x < c.kernel[2]; x++) {
        int64_t k[3] = {z, y, x}, p[3];
        bool inside = true;
        for (int d = 0; d < 3; d++) {
          p[d] = at[d] * c.stride[d] - c.pad[d] + k[d] * c.dilation[d];
          inside = inside && p[d] >= 0 && p[d] < c.in[d];
        }
        if (!inside) continue;
        for (int64_t i = 0; i < inputs; i++) {
          double v = static_cast<double>(image[((p[0] * c.in[1] + p[1]) * c.in[2] + p[2]) * pixel + first + i]) *
                     weights[(((o * inputs + i) * c.kernel[0] + z) * c.kernel[1] + y) * c.kernel[2] + x];
          sum += v;
          size += std::abs(v);
        }
      }
}

void check_case(const MicroKernels& mk, const Workers& workers, const Case& c) {
  CAPTURE(text(c));
  const KernelTable& kernels = mk.table();
  ConvWindow w;
  for (int d = 0; d < 3; d++) {
    w.in[d] = c.in[d];
    w.kernel[d] = c.kernel[d];
    w.stride[d] = c.stride[d];
    w.pad[d] = c.pad[d];
    w.dilation[d] = c.dilation[d];
    w.out[d] = (c.in[d] + 2 * c.pad[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
    REQUIRE(w.out[d] > 0);
  }
  int64_t in_pixel = c.in_channels + c.gap, out_pixel = c.out_channels + c.gap, inputs = c.in_channels / c.groups;
  int64_t in_image = w.in_pixels() * in_pixel - c.gap, out_image = w.out_pixels() * out_pixel;
  GuardedBuffer in(c.batch * in_image), out(c.batch * out_image), weights(c.out_channels * inputs * w.positions());
  GuardedBuffer bias(c.out_channels);
  in.fill_random(1);
  weights.fill_random(2);
  bias.fill_random(3);
  out.fill_random(4);
  for (int64_t p = 0; p < c.batch * w.out_pixels(); p++)
    for (int64_t j = c.out_channels; j < out_pixel; j++) out.data()[p * out_pixel + j] = untouched;
  std::vector<float> before(out.values.begin(), out.values.end());
  Cover cover(c.batch, w.out_pixels(), c.out_channels, out.data(), out_pixel, c.bias ? bias.data() : nullptr);
  Conv conv{.window = w,
            .batch = c.batch,
            .groups = c.groups,
            .in_channels = c.in_channels,
            .out_channels = c.out_channels,
            .input = in.data(),
            .in_pixel = in_pixel,
            .in_batch = in_image,
            .weights = nullptr,
            .output = c.bias ? nullptr : out.data(),
            .out_pixel = out_pixel,
            .out_batch = out_image,
            .accumulate = c.accumulate,
            .epilogue = {Cover::call, &cover}};
  GuardedBuffer packed((packed_conv_size(kernels, conv) + 15) / 16 * 16);
  int64_t x = c.kernel[2], y = x * c.kernel[1], z = y * c.kernel[0], strides[5] = {z * inputs, z, y, x, 1};
  pack_conv_weights(kernels, conv, weights.data(), strides, packed.data());
  conv.weights = packed.data();
  Caches caches{.l1 = 4 << 10, .l2 = 64 << 10};
  ConvPlan plan = plan_conv(kernels, caches, workers.threads(), conv);
  GuardedBuffer scratch((plan.worker_bytes() * workers.threads() + 63) / 64 * 16);
  run_conv(kernels, workers, plan, conv, scratch.data());

  int64_t wrong = 0, not_once = 0;
  for (int64_t b = 0; b < c.batch; b++)
    for (int64_t m = 0; m < w.out_pixels(); m++)
      for (int64_t o = 0; o < out_pixel; o++) {
        size_t at = static_cast<size_t>(b * out_image + m * out_pixel + o);
        if (o >= c.out_channels) {
          wrong += out.values[at] != untouched;
          continue;
        }
        double sum = c.accumulate ? before[at]
                     : c.bias     ? bias.values[static_cast<size_t>(o)]
                                  : 0.f,
               size = std::abs(sum);
        reference(c, w, in.data() + b * in_image, in_pixel, weights.data(), m, o, sum, size);
        wrong += !(std::abs(out.values[at] - sum) <= 1e-6 * size + 1e-30);
      }
  CHECK(wrong == 0);
  for (auto& n : cover.seen) not_once += n != 1;
  CHECK(not_once == 0);
}

template <class F> void for_all_machines(const F& f) {
  for (Isa isa : available_isas()) {
    MicroKernels mk(isa);
    for (int threads : {1, 2}) {
      CAPTURE(threads);
      CAPTURE(static_cast<int>(isa));
      Workers workers(threads);
      f([&](const Case& c) { check_case(mk, workers, c); });
    }
  }
}

} // namespace

TEST_CASE("convolution over kernels, strides, padding, dilation and channels") {
  for_all_machines([](const auto& check) {
    for (int64_t kernel : {1, 2, 3, 5})
      for (int64_t stride : {1, 2, 3})
        for (int64_t pad : {0, 1, 2})
          for (int64_t dilation : {1, 2})
            for (auto [in, out] : {std::pair<int64_t, int64_t>{1, 7}, {3, 16}, {16, 17}, {33, 65}}) {
              Case c = square(11, kernel, stride, pad, in, out, 1, dilation);
              c.bias = kernel % 2;
              c.accumulate = !c.bias && stride == 2;
              check(c);
            }
    check(square(20, 7, 2, 3, 3, 64));
    check(square(3, 7, 1, 3, 3, 5)); // windows wider than the image
    check(square(14, 3, 1, 1, 130, 150));
  });
}

TEST_CASE("convolution with groups, batches, gaps between pixels") {
  for_all_machines([](const auto& check) {
    for (int64_t groups : {2, 3, 4}) {
      Case c = square(9, 3, 1, 1, groups * 4, groups * 6, groups);
      c.batch = 3;
      c.bias = true;
      c.gap = 5;
      check(c);
    }
    for (int64_t gap : {0, 1, 16}) {
      Case c = square(8, 1, 1, 0, 31, 33);
      c.batch = 2;
      c.gap = gap;
      check(c);
      c = square(8, 3, 2, 1, 3, 33);
      c.batch = 2;
      c.gap = gap;
      check(c);
    }
    check(square(6, 3, 1, 1, 4, 8, 4)); // more outputs than inputs in every group
  });
}

TEST_CASE("convolution in one and three dimensions") {
  for_all_machines([](const auto& check) {
    check({.batch = 2,
           .in_channels = 20,
           .out_channels = 30,
           .in = {1, 1, 50},
           .kernel = {1, 1, 5},
           .stride = {1, 1, 2},
           .pad = {0, 0, 4},
           .bias = true});
    check({.in_channels = 1, .out_channels = 32, .in = {1, 1, 400}, .kernel = {1, 1, 10}, .stride = {1, 1, 5}});
    check({.batch = 2,
           .in_channels = 3,
           .out_channels = 18,
           .in = {5, 6, 7},
           .kernel = {3, 3, 3},
           .stride = {1, 2, 1},
           .pad = {1, 1, 1},
           .bias = true});
    check({.in_channels = 24,
           .out_channels = 5,
           .in = {4, 5, 6},
           .kernel = {2, 3, 2},
           .pad = {0, 1, 1},
           .dilation = {2, 1, 1}});
    check(
        {.groups = 18, .in_channels = 18, .out_channels = 18, .in = {4, 5, 6}, .kernel = {3, 3, 3}, .pad = {1, 1, 1}});
  });
}

TEST_CASE("depthwise convolution over channels, kernels, strides and multipliers") {
  for_all_machines([](const auto& check) {
    for (int64_t channels : {2, 7, 8, 16, 17, 32, 47, 64, 96, 129})
      for (int64_t kernel : {3, 5})
        for (int64_t stride : {1, 2}) {
          Case c = square(9, kernel, stride, kernel / 2, channels, channels, channels);
          c.bias = stride == 1;
          c.accumulate = stride == 2 && kernel == 5;
          check(c);
        }
    for (int64_t multiplier : {2, 3, 16}) {
      Case c = square(7, 3, 1, 1, 5, 5 * multiplier, 5);
      c.batch = 2;
      c.gap = 3;
      c.bias = true;
      check(c);
    }
    check(square(12, 7, 1, 3, 40, 40, 40));
    check(square(12, 3, 1, 2, 40, 40, 40, 2));
    check(square(1, 1, 1, 0, 3, 3, 3));
  });
}
