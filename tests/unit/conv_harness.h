// Checks convolutions, as the drivers run them, against plain loops in double precision.
#pragma once
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include "emulated_tiles.h"
#include "kernel_test.h"
#include "runtime/conv.h"

namespace tenon::conv_harness {

struct Case {
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;
  int64_t in[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  bool bias = false;
  int64_t gap = 0; // unused elements behind each pixel
  bool transposed = false;
  int64_t output_pad[3] = {0, 0, 0};
  bool packed = true;
  DType in_type = DType::F32, weight_type = DType::F32;
  int padding = 0;
  bool winograd = false, epilogue = true;
  bool by_size = false;                     // Winograd's, or windows: weights are packed for both
  bool row_major = false, by_lines = false; // by lines: row-major as well
  double f32_error = 1e-6;                  // of sums in f32, at most so much of what their terms are in size together
};

/// A 2-D case, square in everything.
inline Case square(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t in, int64_t out, int64_t groups = 1,
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

inline std::string text(const Case& c) {
  std::string s = "batch " + std::to_string(c.batch) + " groups " + std::to_string(c.groups) + " channels " +
                  std::to_string(c.in_channels) + "->" + std::to_string(c.out_channels) + " bias " + std::to_string(c.bias) + " gap " +
                  std::to_string(c.gap) + (c.transposed ? " transposed" : "") + (c.packed ? "" : " weights in the call") + " of " +
                  std::string(name_of(c.in_type)) + " and " + std::string(name_of(c.weight_type)) + ", padding " +
                  std::to_string(c.padding) + (c.row_major ? " row-major" : "") + (c.by_lines ? " by lines" : "") +
                  (c.winograd ? ", Winograd" : "") + (c.by_size ? " or windows" : "") + (c.epilogue ? "" : ", no epilogue");
  for (int d = 0; d < 3; d++)
    s += ", " + std::to_string(c.in[d]) + " by " + std::to_string(c.kernel[d]) + " stride " + std::to_string(c.stride[d]) + " pad " +
         std::to_string(c.pad[d]) + " dilation " + std::to_string(c.dilation[d]);
  return s;
}

inline DType sum_of(const Case& c) { return c.in_type == DType::F64 ? DType::F64 : is_int(c.in_type) ? DType::I32 : DType::F32; }

constexpr double untouched = 12345;

/// Counts how often the epilogue sees each element; without an output of its own, writes it, plus the bias.
struct Cover {
  int64_t pixels, channels;
  TypedBuffer& out;
  int64_t out_pixel;
  bool row_major;
  TypedBuffer* bias;
  std::vector<std::atomic<int>> seen;
  Cover(int64_t batch, int64_t p, int64_t c, TypedBuffer& o, int64_t op, bool rows, TypedBuffer* b)
      : pixels(p), channels(c), out(o), out_pixel(op), row_major(rows), bias(b), seen(static_cast<size_t>(batch * p * c)) {}
  int64_t place(int64_t batch, int64_t m, int64_t n) const {
    return row_major ? (batch * channels + n) * pixels + m : (batch * pixels + m) * out_pixel + n;
  }
  static void call(void* ctx, const SumTile& t) {
    Cover& self = *static_cast<Cover*>(ctx);
    const char* sums = static_cast<const char*>(t.sums);
    int64_t bytes = static_cast<int64_t>(size_of(self.out.type));
    for (int64_t m = t.m0, i = 0; m < t.m1; m += t.m_step, i++)
      for (int64_t n = t.n0; n < t.n1; n++) {
        self.seen[static_cast<size_t>((t.batch * self.pixels + m) * self.channels + n)]++;
        int64_t j = n - t.n0, at = self.row_major ? j * t.stride + i : i * t.stride + j;
        if (self.bias) self.out.set(self.place(t.batch, m, n), element(self.out.type, sums + at * bytes) + self.bias->get(n));
      }
  }
  static double element(DType type, const char* at) {
    return dispatch(type, [&]<class T>(T v) {
      std::memcpy(&v, at, sizeof v);
      return convert<double>(v);
    });
  }
};

/// The input coordinate that a tap of an output sees; false where none.
inline bool input_at(const Case& c, int d, int64_t out, int64_t tap, int64_t& at) {
  at = c.transposed ? out + c.pad[d] - tap * c.dilation[d] : out * c.stride[d] - c.pad[d] + tap * c.dilation[d];
  if (!c.transposed) return true;
  bool hit = at % c.stride[d] == 0;
  at /= c.stride[d];
  return hit && at >= 0;
}

/// The sum of one output element, and of its terms' magnitudes.
inline void reference(const Case& c, const ConvWindow& w, const std::vector<double>& in, int64_t image, int64_t pixel,
                      const std::vector<double>& weights, int64_t m, int64_t o, double& sum, double& size) {
  int64_t at[3] = {m / w.out[2] / w.out[1], m / w.out[2] % w.out[1], m % w.out[2]};
  int64_t inputs = c.in_channels / c.groups, outputs = c.out_channels / c.groups, first = o / outputs * inputs, taps = w.positions();
  for (int64_t q = 0; q < taps; q++) {
    int64_t k[3] = {q / c.kernel[2] / c.kernel[1], q / c.kernel[2] % c.kernel[1], q % c.kernel[2]}, p[3];
    bool sees = true, inside = true;
    for (int d = 0; d < 3; d++) {
      sees = sees && input_at(c, d, at[d], k[d], p[d]);
      inside = inside && p[d] >= 0 && p[d] < c.in[d];
    }
    if (!sees || (!inside && c.padding == 0)) continue;
    for (int64_t i = 0; i < inputs; i++) {
      int64_t weight = c.transposed ? ((first + i) * outputs + o % outputs) * taps + q : (o * inputs + i) * taps + q;
      int64_t q_in = (p[0] * c.in[1] + p[1]) * c.in[2] + p[2],
              at_in = c.by_lines ? (first + i) * w.in_pixels() + q_in : q_in * pixel + first + i;
      double x = inside ? in[static_cast<size_t>(image + at_in)] : c.padding;
      double v = x * weights[static_cast<size_t>(weight)];
      sum += v;
      size += std::abs(v);
    }
  }
}

inline ConvWindow window_of(const Case& c) {
  ConvWindow w;
  for (int d = 0; d < 3; d++) {
    w.in[d] = c.in[d];
    w.kernel[d] = c.kernel[d];
    w.stride[d] = c.stride[d];
    w.pad[d] = c.pad[d];
    w.dilation[d] = c.dilation[d];
    int64_t reach = c.dilation[d] * (c.kernel[d] - 1);
    w.out[d] = c.transposed ? (c.in[d] - 1) * c.stride[d] - 2 * c.pad[d] + reach + 1 + c.output_pad[d]
                            : (c.in[d] + 2 * c.pad[d] - reach - 1) / c.stride[d] + 1;
  }
  return w;
}

/// Packs the weights, where that is done ahead, plans and runs.
inline void run_packed(const KernelTable& kernels, const Workers& workers, const Case& c, Conv& conv) {
  Conv windows = conv;
  windows.winograd = false;
  GuardedBuffer packed((packed_conv_bytes(kernels, conv) + 63) / 64 * 16),
      packed_windows((packed_conv_bytes(kernels, windows) + 63) / 64 * 16);
  if (c.by_size) {
    pack_conv(kernels, workers, windows, packed_windows.data());
    conv.window_weights = packed_windows.data();
  }
  if (c.packed) {
    pack_conv(kernels, workers, conv, packed.data());
    conv.weights = packed.data();
    conv.packed = true;
  }
  Caches caches{.l1 = 4 << 10, .l2 = c.batch > 1 ? 2 << 10 : 64 << 10}; // of several images, pixels are asked for ahead
  ConvPlan plan = plan_conv(kernels, caches, workers.threads(), conv);
  GuardedBuffer scratch((plan.scratch_bytes(workers.threads()) + 63) / 64 * 16);
  run_conv(kernels, workers, plan, conv, scratch.data());
}

inline void check_case(const KernelTable& kernels, const Workers& workers, Case c) {
  c.row_major = c.row_major || c.by_lines;
  CAPTURE(text(c));
  ConvWindow w = window_of(c);
  for (int64_t size : w.out) REQUIRE(size > 0);
  int64_t in_pixel = c.in_channels + c.gap, out_pixel = c.out_channels + c.gap, inputs = c.in_channels / c.groups;
  int64_t in_image = w.in_pixels() * in_pixel - c.gap, out_image = w.out_pixels() * out_pixel;
  DType sum_type = sum_of(c);
  TypedBuffer in(c.in_type, c.batch * in_image), out(sum_type, c.batch * out_image),
      weights(c.weight_type, c.out_channels * inputs * w.positions());
  TypedBuffer bias(sum_type, c.out_channels);
  in.fill_random(1), weights.fill_random(2), bias.fill_random(3);
  for (int64_t i = 0; i < out.count; i++) out.set(i, untouched);
  Cover cover(c.batch, w.out_pixels(), c.out_channels, out, out_pixel, c.row_major, c.bias ? &bias : nullptr);
  int64_t x = c.kernel[2], y = x * c.kernel[1], z = y * c.kernel[0], second = c.transposed ? c.out_channels / c.groups : inputs;
  Conv conv{.window = w,
            .transposed = c.transposed,
            .row_major = c.row_major,
            .by_lines = c.by_lines,
            .batch = c.batch,
            .groups = c.groups,
            .in_channels = c.in_channels,
            .out_channels = c.out_channels,
            .in_type = c.in_type,
            .weight_type = c.weight_type,
            .padding = c.padding,
            .winograd = c.winograd,
            .input = in.data(),
            .in_pixel = in_pixel,
            .in_batch = in_image,
            .weights = weights.data(),
            .packed = false,
            .weight_strides = {z * second, z, y, x, 1},
            .output = c.bias ? nullptr : out.data(),
            .out_pixel = out_pixel,
            .out_batch = out_image,
            .epilogue = c.epilogue ? Epilogue{Cover::call, &cover} : Epilogue{}};
  run_packed(kernels, workers, c, conv);

  std::vector<double> input = in.numbers(), weight = weights.numbers();
  int64_t wrong = 0, not_once = 0;
  double eps = sum_type == DType::F64 ? 1e-14 : sum_type == DType::F32 ? c.f32_error : 0;
  for (int64_t b = 0; b < c.batch; b++)
    for (int64_t m = 0; m < w.out_pixels(); m++)
      for (int64_t o = 0; o < out_pixel; o++) {
        double got = out.get(o < c.out_channels ? cover.place(b, m, o) : b * out_image + m * out_pixel + o);
        if (o >= c.out_channels) {
          wrong += got != untouched;
          continue;
        }
        double sum = c.bias ? bias.get(o) : 0, size = std::abs(sum);
        reference(c, w, input, b * in_image, in_pixel, weight, m, o, sum, size);
        if (c.winograd) size = std::max(size, static_cast<double>(c.in_channels)); // errors are relative to the whole patch
        wrong += !(std::abs(got - sum) <= eps * size + 1e-30);
      }
  CHECK(wrong == 0);
  for (auto& n : cover.seen) not_once += n != c.epilogue;
  CHECK(not_once == 0);
}

template <class F> void for_all_machines(const F& f) {
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    for (int threads : {1, 2}) {
      CAPTURE(threads);
      CAPTURE(mk.table().families()[0].name);
      Workers workers(threads);
      f([&](const Case& c) { check_case(mk.table(), workers, c); });
    }
  }
}

} // namespace tenon::conv_harness
