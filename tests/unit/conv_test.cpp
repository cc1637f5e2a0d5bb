// Convolution, general and depthwise, against plain loops in double precision.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include "emulated_tiles.h"
#include "kernel_test.h"
#include "runtime/conv.h"

using namespace tenon;

namespace {

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
  bool row_major = false, by_lines = false; // by lines: row-major as well
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
                  std::to_string(c.bias) + " gap " + std::to_string(c.gap) + (c.transposed ? " transposed" : "") +
                  (c.packed ? "" : " weights in the call") + " of " + std::string(name_of(c.in_type)) + " and " +
                  std::string(name_of(c.weight_type)) + ", padding " + std::to_string(c.padding) +
                  (c.row_major ? " row-major" : "") + (c.by_lines ? " by lines" : "") +
                  (c.winograd ? ", Winograd" : "") + (c.epilogue ? "" : ", no epilogue");
  for (int d = 0; d < 3; d++)
    s += ", " + std::to_string(c.in[d]) + " by " + std::to_string(c.kernel[d]) + " stride " +
         std::to_string(c.stride[d]) + " pad " + std::to_string(c.pad[d]) + " dilation " +
         std::to_string(c.dilation[d]);
  return s;
}

DType sum_of(const Case& c) { return c.in_type == DType::F64 ? DType::F64 : is_int(c.in_type) ? DType::I32 : DType::F32; }

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
      : pixels(p), channels(c), out(o), out_pixel(op), row_major(rows), bias(b),
        seen(static_cast<size_t>(batch * p * c)) {}
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
        if (self.bias)
          self.out.set(self.place(t.batch, m, n), element(self.out.type, sums + at * bytes) + self.bias->get(n));
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
bool input_at(const Case& c, int d, int64_t out, int64_t tap, int64_t& at) {
  at = c.transposed ? out + c.pad[d] - tap * c.dilation[d] : out * c.stride[d] - c.pad[d] + tap * c.dilation[d];
  if (!c.transposed) return true;
  bool hit = at % c.stride[d] == 0;
  at /= c.stride[d];
  return hit && at >= 0;
}

/// The sum of one output element, and of its terms' magnitudes.
void reference(const Case& c, const ConvWindow& w, const std::vector<double>& in, int64_t image, int64_t pixel, const std::vector<double>& weights, int64_t m,
               int64_t o, double& sum, double& size) {
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

ConvWindow window_of(const Case& c) {
  ConvWindow w;
  for (int d = 0; d < 3; d++) {
    w.in[d] = c.in[d];
    w.kernel[d] = c.kernel[d];
    w.stride[d] = c.stride[d];
    w.pad[d] = c.pad[d];
    w.dilation[d] = c.dilation[d];
    int64_t reach = c.dilation[d] * (c.kernel[d] - 1);
    w.out[d] = c.transposed ? (c.in[d] - 1) * c.stride[d] - 2 * c.pad[d] + reach + 1 + c.output_pad[d] : (c.in[d] + 2 * c.pad[d] - reach - 1) / c.stride[d] + 1;
  }
  return w;
}

std::vector<double> numbers(TypedBuffer& b) {
  std::vector<double> all;
  for (int64_t i = 0; i < b.count; i++) all.push_back(b.get(i));
  return all;
}

void check_case(const KernelTable& kernels, const Workers& workers, Case c) {
  c.row_major = c.row_major || c.by_lines;
  CAPTURE(text(c));
  ConvWindow w = window_of(c);
  for (int64_t size : w.out) REQUIRE(size > 0);
  int64_t in_pixel = c.in_channels + c.gap, out_pixel = c.out_channels + c.gap, inputs = c.in_channels / c.groups;
  int64_t in_image = w.in_pixels() * in_pixel - c.gap, out_image = w.out_pixels() * out_pixel;
  DType sum_type = sum_of(c);
  TypedBuffer in(c.in_type, c.batch * in_image), out(sum_type, c.batch * out_image), weights(c.weight_type, c.out_channels * inputs * w.positions());
  TypedBuffer bias(sum_type, c.out_channels);
  in.fill_random(1);
  weights.fill_random(2);
  bias.fill_random(3);
  for (int64_t i = 0; i < out.count; i++) out.set(i, untouched);
  Cover cover(c.batch, w.out_pixels(), c.out_channels, out, out_pixel, c.row_major, c.bias ? &bias : nullptr);
  int64_t x = c.kernel[2], y = x * c.kernel[1], z = y * c.kernel[0],
          second = c.transposed ? c.out_channels / c.groups : inputs;
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
  GuardedBuffer packed((packed_conv_bytes(kernels, conv) + 63) / 64 * 16);
  if (c.packed) {
    pack_conv(kernels, workers, conv, packed.data());
    conv.weights = packed.data();
    conv.packed = true;
  }
  Caches caches{.l1 = 4 << 10, .l2 = 64 << 10};
  ConvPlan plan = plan_conv(kernels, caches, workers.threads(), conv);
  GuardedBuffer scratch((plan.scratch_bytes(workers.threads()) + 63) / 64 * 16);
  run_conv(kernels, workers, plan, conv, scratch.data());

  std::vector<double> input = numbers(in), weight = numbers(weights);
  int64_t wrong = 0, not_once = 0;
  double eps = sum_type == DType::F64 ? 1e-14 : sum_type == DType::F32 ? 1e-6 : 0;
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

TEST_CASE("convolution by Winograd's minimal filtering") {
  for_all_machines([](const auto& check) {
    for (int64_t size : {2, 3, 8, 15})
      for (int64_t pad : {0, 1, 2})
        for (auto [in, out] : {std::pair<int64_t, int64_t>{1, 7}, {16, 16}, {17, 33}, {64, 65}, {130, 150}}) {
          if (size + 2 * pad < 3) continue;
          Case c = square(size, 3, 1, pad, in, out);
          c.winograd = true;
          c.bias = pad == 1, c.epilogue = pad < 2;
          c.batch = size == 3 ? 3 : 1;
          c.row_major = size == 15 && pad != 1;
          c.gap = size == 15 && pad == 1 ? 3 : 0;
          check(c);
        }
    Case wide = square(5, 3, 1, 1, 16, 20);
    wide.in[2] = 131;
    wide.winograd = wide.bias = true;
    check(wide);
  });
}

TEST_CASE("Winograd's filtering keeps infinities and NaN where they belong") {
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    Workers workers(2);
    constexpr int64_t channels = 24, size = 9;
    std::vector<float> in(size * size * channels, 0.5f), weights(channels * channels * 9), out(in.size()), plain(in.size());
    for (size_t i = 0; i < weights.size(); i++) weights[i] = static_cast<float>(i % 13) - 6;
    in[(4 * size + 4) * channels + 3] = INFINITY;
    in[(0 * size + 7) * channels + 5] = NAN;
    in[(8 * size + 1) * channels] = 3e38f; // too large for the sums of a patch
    auto run = [&](bool winograd, std::vector<float>& to) {
      Conv c{.window = {.in = {1, size, size}, .out = {1, size, size}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
             .in_channels = channels,
             .out_channels = channels,
             .winograd = winograd,
             .input = in.data(),
             .in_pixel = channels,
             .weights = weights.data(),
             .packed = false,
             .weight_strides = {channels * 9, 9, 9, 3, 1},
             .output = to.data(),
             .out_pixel = channels};
      GuardedBuffer packed(packed_conv_bytes(mk.table(), c) / 4);
      pack_conv(mk.table(), workers, c, packed.data());
      c.weights = packed.data(), c.packed = true;
      ConvPlan plan = plan_conv(mk.table(), {}, 2, c);
      GuardedBuffer scratch((plan.scratch_bytes(2) + 63) / 64 * 16);
      run_conv(mk.table(), workers, plan, c, scratch.data());
    };
    run(true, out), run(false, plain);
    int64_t finite = 0, wrong = 0;
    for (size_t i = 0; i < out.size(); i++) {
      bool same = out[i] == plain[i] || (std::isnan(out[i]) && std::isnan(plain[i])) || std::abs(out[i] - plain[i]) <= 1e-5f * std::abs(plain[i]) + 1e-3f;
      wrong += !same, finite += std::isfinite(plain[i]);
    }
    CHECK(wrong == 0);
    CHECK(finite > (size * size - 27) * channels);
    CHECK(finite < size * size * channels);
  }
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

TEST_CASE("depthwise convolution along lines") {
  for_all_machines([](const auto& check) {
    auto by_lines = [&](Case c) {
      c.by_lines = true;
      check(c);
    };
    for (int64_t size : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 70})
      for (int64_t kernel : {1, 2, 3, 5, 7, 8})
        for (int64_t stride : {1, 2})
          for (int64_t dilation : {1, 2}) {
            int64_t pad = kernel == 8 ? 7 : kernel / 2;
            if (size + 2 * pad <= dilation * (kernel - 1)) continue;
            Case c = square(size, kernel, stride, pad, 3, 3, 3, dilation);
            c.bias = stride == 1;
            c.packed = dilation == 1;
            by_lines(c);
          }
  });
}

TEST_CASE("depthwise convolution along lines: channels, images, one and three dimensions") {
  for_all_machines([](const auto& check) {
    auto by_lines = [&](Case c) {
      c.by_lines = true;
      check(c);
    };
    for (int64_t channels : {2, 40, 129}) {
      Case c = square(13, 3, 1, 1, channels, channels * 2, channels);
      c.batch = 3;
      c.bias = channels == 40;
      by_lines(c);
      c.out_channels = channels;
      by_lines(c);
    }
    by_lines(square(40, 13, 1, 6, 2, 2, 2)); // more taps than lines share
    by_lines({.batch = 2, .groups = 5, .in_channels = 5, .out_channels = 5, .in = {1, 1, 300}, .kernel = {1, 1, 4}, .pad = {0, 0, 3}, .bias = true});
    by_lines({.groups = 5, .in_channels = 5, .out_channels = 10, .in = {1, 1, 500}, .kernel = {1, 1, 64}, .stride = {1, 1, 2}, .pad = {0, 0, 31}});
    for (int64_t stride : {1, 3})
      by_lines({.batch = 2, .groups = 6, .in_channels = 6, .out_channels = 6, .in = {4, 9, 20}, .kernel = {3, 3, 3}, .stride = {stride, stride, 1}, .pad = {1, 1, 1}, .dilation = {1, 2, 1}, .bias = true});
    by_lines({.groups = 3, .in_channels = 3, .out_channels = 3, .in = {1, 300, 200}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}});
    by_lines({.groups = 3, .in_channels = 3, .out_channels = 3, .in = {1, 2, 50}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}, .bias = true});
  });
}

TEST_CASE("convolution along lines") {
  for_all_machines([](const auto& check) {
    for (auto [in, out, groups] : {std::array<int64_t, 3>{1, 5, 1}, {3, 64, 1}, {5, 17, 1}, {8, 8, 2}, {12, 20, 4}, {64, 64, 8}})
      for (int64_t kernel : {1, 3, 4, 7})
        for (int64_t size : {1, 14, 33, 100})
          for (int64_t stride : {1, 2}) {
            Case c = square(size, kernel, stride, kernel / 2, in, out, groups, 1 + (size == 33));
            if (size + 2 * (kernel / 2) <= c.dilation[1] * (kernel - 1) || (size == 100 && groups > 2)) continue;
            c.bias = size == 14;
            c.packed = kernel != 4;
            c.batch = 1 + size % 2;
            c.by_lines = true;
            check(c);
          }
    check({.batch = 2, .groups = 3, .in_channels = 12, .out_channels = 27, .in = {1, 1, 130}, .kernel = {1, 1, 9}, .stride = {1, 1, 2}, .pad = {0, 0, 4}, .bias = true, .by_lines = true});
    check({.in_channels = 3, .out_channels = 10, .in = {4, 10, 21}, .kernel = {3, 3, 3}, .stride = {2, 1, 1}, .pad = {1, 1, 1}, .by_lines = true});
  });
}

TEST_CASE("convolution with row-major results") {
  for_all_machines([](const auto& check) {
    for (auto [in, out, groups] : {std::array<int64_t, 3>{1, 5, 1}, {3, 64, 1}, {8, 33, 1}, {64, 150, 1}, {12, 24, 3}})
      for (int64_t kernel : {1, 3})
        for (int64_t size : {1, 9, 20}) {
          Case c = square(size, kernel, 1 + kernel / 3, kernel / 2, in, out, groups);
          c.row_major = true;
          c.bias = size == 9;
          c.batch = 1 + size % 2;
          check(c);
          c.in_type = DType::U8, c.weight_type = DType::I8, c.padding = 3;
          check(c);
          c.in_type = c.weight_type = DType::BF16, c.padding = 0;
          check(c);
        }
  });
}

TEST_CASE("convolution of every number format, in place and copied") {
  for_all_machines([](const auto& check) {
    using enum DType;
    for (auto [in_type, weight_type] : {std::pair{F64, F64}, {BF16, BF16}, {F16, F16}, {F32, BF16}, {U8, I8}, {I8, I8}, {U8, U8}, {F32, I8}})
      for (auto [in, out, groups] : {std::array<int64_t, 3>{1, 5, 1}, {3, 17, 1}, {8, 33, 1}, {64, 40, 1}, {12, 24, 3}, {6, 6, 2}, {5, 5, 5}})
        for (int64_t kernel : {1, 3, 5}) {
          Case c = square(9, kernel, 1 + kernel / 4, kernel / 2, in, out, groups);
          c.in_type = in_type, c.weight_type = weight_type;
          c.bias = in == 3 || kernel == 5;
          c.padding = is_int(in_type) && kernel == 3 ? 7 : 0;
          c.batch = kernel == 1 ? 2 : 1;
          c.gap = in == 8 ? 3 : 0;
          check(c);
        }
  });
}

TEST_CASE("transposed convolution over kernels, strides, padding, dilation and groups") {
  for_all_machines([](const auto& check) {
    for (int64_t kernel : {1, 2, 3, 4})
      for (int64_t stride : {1, 2, 3})
        for (int64_t pad : {0, 1})
          for (int64_t dilation : {1, 2, 3})
            for (auto [in, out, groups] : {std::array<int64_t, 3>{3, 7, 1}, {32, 17, 1}, {8, 12, 4}}) {
              Case c = square(6, kernel, stride, pad, in, out, groups, dilation);
              c.transposed = true;
              c.bias = kernel % 2;
              c.batch = 1 + stride % 2;
              c.output_pad[1] = stride > 1 ? 1 : 0;
              c.packed = dilation != 2;
              check(c);
            }
    Case c = {.in_channels = 20, .out_channels = 30, .in = {1, 1, 50}, .kernel = {1, 1, 16}, .stride = {1, 1, 8}, .pad = {0, 0, 4}, .bias = true, .transposed = true};
    check(c);
    c = {.in_channels = 4, .out_channels = 6, .in = {3, 4, 5}, .kernel = {2, 3, 2}, .stride = {2, 1, 2}, .pad = {0, 1, 0}, .transposed = true};
    check(c);
    c = square(20, 4, 2, 1, 64, 150);
    c.transposed = c.bias = true;
    check(c);
    c.in_type = c.weight_type = DType::BF16;
    check(c);
  });
}

TEST_CASE("convolution packs weights that it gets in the call") {
  for_all_machines([](const auto& check) {
    for (int64_t kernel : {1, 3, 7})
      for (auto [in, out, groups] : {std::array<int64_t, 3>{3, 16, 1}, {40, 70, 1}, {24, 24, 24}, {24, 48, 4}}) {
        Case c = square(8, kernel, 1, kernel / 2, in, out, groups);
        c.packed = false;
        c.bias = kernel == 3;
        check(c);
      }
  });
}

TEST_CASE("convolution on tile registers") {
  test::EmulatedTiles tiles;
  for (int threads : {1, 2}) {
    Workers workers(threads);
    for (DType type : {DType::BF16, DType::U8, DType::I8})
      for (auto [in, out, groups] : {std::array<int64_t, 3>{3, 17, 1}, {64, 40, 1}, {12, 24, 3}, {130, 96, 1}, {20, 20, 20}})
        for (int64_t kernel : {1, 3, 4})
          for (bool transposed : {false, true}) {
            Case c = square(13, kernel, 1 + kernel / 4, kernel / 2, in, out, groups);
            c.in_type = type, c.weight_type = type == DType::BF16 ? type : DType::I8;
            c.bias = out % 2;
            c.transposed = transposed;
            c.padding = type == DType::U8 && !transposed ? 9 : 0;
            c.row_major = !transposed && in == 64;
            check_case(tiles.table(), workers, c);
          }
  }
}
