// Convolutions by Winograd's filtering, along lines, and with row-major results.
#include "conv_harness.h"

namespace tenon::conv_kernels_test {
using namespace conv_harness;

TEST_CASE("convolution by Winograd's minimal filtering") {
  for_all_machines([](const auto& check) {
    for (int64_t size : {2, 3, 8, 15})
      for (int64_t pad : {0, 1, 2})
        for (auto [in, out] : {std::pair<int64_t, int64_t>{1, 7}, {16, 16}, {17, 33}, {64, 65}, {130, 150}}) {
          if (size + 2 * pad < 3) continue;
          Case c = square(size, 3, 1, pad, in, out);
          c.winograd = true;
          c.bias = pad == 1, c.epilogue = pad < 2;
          c.packed = size != 8;
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

TEST_CASE("convolution by Winograd's filtering or windows, as the size says") {
  for_all_machines([](const auto& check) {
    for (int64_t size : {2, 3, 7, 12, 33})
      for (auto [in, out] : {std::pair<int64_t, int64_t>{64, 64}, {130, 97}}) {
        Case c = square(size, 3, 1, 1, in, out);
        c.winograd = c.by_size = true;
        c.bias = size != 7;
        c.row_major = size == 12;
        check(c);
      }
  });
  MicroKernels mk;
  Case c = square(0, 3, 1, 1, 256, 256);
  auto kind = [&](int64_t size) {
    c.in[1] = c.in[2] = size;
    float weights;
    Conv conv{.window = window_of(c),
              .in_channels = 256,
              .out_channels = 256,
              .winograd = true,
              .in_pixel = 256,
              .weights = &weights,
              .window_weights = &weights,
              .out_pixel = 256};
    return plan_conv(mk.table(), {}, 2, conv).kind;
  };
  CHECK(kind(2) == ConvPlan::Kind::Windows);
  CHECK(kind(64) == ConvPlan::Kind::Winograd);
}

// A 3x3 convolution of 24 channels over 9x9 pixels; weights packed ahead, or in the call.
static void run_filter(MicroKernels& mk, Workers& workers, bool packed, bool winograd, const std::vector<float>& in,
                       const std::vector<float>& weights, std::vector<float>& to) {
  constexpr int64_t channels = 24, size = 9;
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
  GuardedBuffer ahead(packed_conv_bytes(mk.table(), c) / 4);
  if (packed) {
    pack_conv(mk.table(), workers, c, ahead.data());
    c.weights = ahead.data(), c.packed = true;
  }
  ConvPlan plan = plan_conv(mk.table(), {}, 2, c);
  GuardedBuffer scratch((plan.scratch_bytes(2) + 63) / 64 * 16);
  run_conv(mk.table(), workers, plan, c, scratch.data());
}

TEST_CASE("weights of the call that are too large for Winograd's filtering") {
  for (const Target& target : available_targets()) {
    MicroKernels mk(target);
    Workers workers(2);
    constexpr int64_t channels = 24, size = 9;
    std::vector<float> in(size * size * channels, 0.5f), weights(channels * channels * 9, 0.25f), out(in.size()), plain(in.size());
    auto run = [&](bool winograd, std::vector<float>& to) { run_filter(mk, workers, false, winograd, in, weights, to); };
    for (float large : {0.0f, 2e18f, -3e38f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      weights[channels * 9 * 7 + 13] = large;
      run(true, out), run(false, plain);
      int64_t wrong = 0;
      for (size_t i = 0; i < out.size(); i++)
        wrong +=
            !(out[i] == plain[i] || (std::isnan(out[i]) && std::isnan(plain[i])) || (large == 0 && std::abs(out[i] - plain[i]) < 1e-4f));
      CHECK(wrong == 0);
    }
  }
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
    auto run = [&](bool winograd, std::vector<float>& to) { run_filter(mk, workers, true, winograd, in, weights, to); };
    run(true, out), run(false, plain);
    int64_t finite = 0, wrong = 0;
    for (size_t i = 0; i < out.size(); i++) {
      bool same = out[i] == plain[i] || (std::isnan(out[i]) && std::isnan(plain[i])) ||
                  std::abs(out[i] - plain[i]) <= 1e-5f * std::abs(plain[i]) + 1e-3f;
      wrong += !same, finite += std::isfinite(plain[i]);
    }
    CHECK(wrong == 0);
    CHECK(finite > (size * size - 27) * channels);
    CHECK(finite < size * size * channels);
  }
}

/// A case along lines as it is, then of reduced floats: of both kinds, or of one after the other.
template <class Check> class ByLines {
public:
  explicit ByLines(const Check& check, bool both = true) : check_(check), both_(both) {}
  void operator()(Case c) {
    c.by_lines = true;
    check_(c);
    for (DType t : {DType::BF16, DType::F16}) {
      c.in_type = c.weight_type = t;
      if (both_ || (t == DType::BF16) == (count_ % 2 == 0)) check_(c);
    }
    count_++;
  }

private:
  const Check& check_;
  bool both_;
  int count_ = 0;
};

TEST_CASE("depthwise convolution along lines") {
  for_all_machines([](const auto& check) {
    ByLines by_lines(check, false);
    for (int64_t size : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 70})
      for (int64_t kernel : {1, 2, 3, 5, 7, 8})
        for (int64_t stride : {1, 2})
          for (int64_t dilation : {1, 2}) {
            int64_t pad = kernel == 8 ? 7 : kernel / 2;
            if (size + 2 * pad <= dilation * (kernel - 1)) continue;
            Case c = square(size, kernel, stride, pad, 3, 3, 3, dilation);
            c.bias = stride == 1;
            c.packed = dilation == 1;
            if (stride == 2) c.weight_type = dilation == 1 ? DType::BF16 : DType::F16;
            by_lines(c);
          }
  });
}

TEST_CASE("depthwise convolution along lines: channels, images, one and three dimensions") {
  for_all_machines([](const auto& check) {
    ByLines by_lines(check);
    for (int64_t channels : {2, 40, 129}) {
      Case c = square(13, 3, 1, 1, channels, channels * 2, channels);
      c.batch = 3;
      c.bias = channels == 40;
      by_lines(c);
      c.out_channels = channels;
      by_lines(c);
    }
    by_lines(square(40, 13, 1, 6, 2, 2, 2)); // more taps than lines share
    by_lines({.batch = 2,
              .groups = 5,
              .in_channels = 5,
              .out_channels = 5,
              .in = {1, 1, 300},
              .kernel = {1, 1, 4},
              .pad = {0, 0, 3},
              .bias = true});
    by_lines({.groups = 5,
              .in_channels = 5,
              .out_channels = 10,
              .in = {1, 1, 500},
              .kernel = {1, 1, 64},
              .stride = {1, 1, 2},
              .pad = {0, 0, 31}});
    for (int64_t stride : {1, 3})
      by_lines({.batch = 2,
                .groups = 6,
                .in_channels = 6,
                .out_channels = 6,
                .in = {4, 9, 20},
                .kernel = {3, 3, 3},
                .stride = {stride, stride, 1},
                .pad = {1, 1, 1},
                .dilation = {1, 2, 1},
                .bias = true});
    by_lines({.groups = 3, .in_channels = 3, .out_channels = 3, .in = {1, 300, 200}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}});
    by_lines({.groups = 3, .in_channels = 3, .out_channels = 3, .in = {1, 2, 50}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}, .bias = true});
  });
}

TEST_CASE("convolution along lines") {
  for_all_machines([](const auto& check) {
    ByLines by_lines(check, false);
    for (auto [in, out, groups] : {std::array<int64_t, 3>{1, 5, 1}, {3, 64, 1}, {5, 17, 1}, {8, 8, 2}, {12, 20, 4}, {64, 64, 8}})
      for (int64_t kernel : {1, 3, 4, 7})
        for (int64_t size : {1, 14, 33, 100})
          for (int64_t stride : {1, 2, 3, 4}) {
            Case c = square(size, kernel, stride, kernel / 2, in, out, groups, 1 + (size == 33));
            if (size + 2 * (kernel / 2) <= c.dilation[1] * (kernel - 1) || (size == 100 && groups > 2)) continue;
            c.bias = size == 14;
            c.packed = kernel != 4;
            c.batch = 1 + size % 2;
            c.by_lines = true;
            size == 100 ? check(c) : by_lines(c);
          }
  });
}

TEST_CASE("convolution along lines: one and three dimensions, strides and wide kernels") {
  for_all_machines([](const auto& check) {
    ByLines by_lines(check);
    by_lines({.batch = 2,
              .groups = 3,
              .in_channels = 12,
              .out_channels = 27,
              .in = {1, 1, 130},
              .kernel = {1, 1, 9},
              .stride = {1, 1, 2},
              .pad = {0, 0, 4},
              .bias = true});
    by_lines({.in_channels = 3, .out_channels = 10, .in = {4, 10, 21}, .kernel = {3, 3, 3}, .stride = {2, 1, 1}, .pad = {1, 1, 1}});
    by_lines({.batch = 2,
              .in_channels = 3,
              .out_channels = 19,
              .in = {9, 30, 21},
              .kernel = {3, 3, 3},
              .stride = {2, 2, 2},
              .pad = {1, 1, 1},
              .bias = true});
    by_lines({.in_channels = 3, .out_channels = 40, .in = {1, 90, 230}, .kernel = {1, 11, 11}, .stride = {1, 4, 4}, .pad = {0, 2, 2}});
    by_lines({.in_channels = 2, .out_channels = 9, .in = {1, 7, 500}, .kernel = {1, 2, 10}, .stride = {1, 1, 8}, .pad = {0, 1, 30}});
    by_lines(
        {.groups = 5, .in_channels = 5, .out_channels = 5, .in = {3, 40, 31}, .kernel = {2, 3, 3}, .stride = {1, 3, 3}, .pad = {1, 1, 1}});
  });
}

TEST_CASE("long sums along lines are added up in parts") {
  for_all_machines([](const auto& check) {
    for (auto [in, kernel] : {std::pair<int64_t, int64_t>{16, 9}, {40, 5}, {90, 3}}) {
      Case c = square(kernel + 16, kernel, 1, 0, in, 8);
      c.by_lines = true;
      c.f32_error = 5e-8; // in one go more
      check(c);
      c.in_type = c.weight_type = DType::BF16;
      check(c);
    }
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

} // namespace tenon::conv_kernels_test
