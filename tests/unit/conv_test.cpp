// Convolution, general and depthwise, against plain loops in double precision.
#include "conv_harness.h"

namespace tenon::conv_test {
using namespace conv_harness;

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
    check({.in_channels = 24, .out_channels = 5, .in = {4, 5, 6}, .kernel = {2, 3, 2}, .pad = {0, 1, 1}, .dilation = {2, 1, 1}});
    check({.groups = 18, .in_channels = 18, .out_channels = 18, .in = {4, 5, 6}, .kernel = {3, 3, 3}, .pad = {1, 1, 1}});
  });
}

TEST_CASE("blocks of windows, one after the other, are the first to meet each pixel once, and before it is read") {
  for (int64_t size : {5, 30, 150})
    for (int64_t stride : {1, 2, 3})
      for (int64_t kernel : {1, 3, 5})
        for (int64_t depth : {1, 4}) {
          Case c = square(size, kernel, stride, kernel / 2, 1, 1);
          c.in[0] = depth, c.kernel[0] = std::min(depth, kernel);
          CAPTURE(text(c));
          ConvWindow w = window_of(c);
          PixelCut cut = cut_pixels(w, 13, 1);
          const char image[1] = {};
          int64_t end = 0; // of what has been met, in pixels
          auto last = [&](int d, int64_t at) {
            return std::clamp<int64_t>(at * w.stride[d] - w.pad[d] + (w.kernel[d] - 1) * w.dilation[d], 0, w.in[d] - 1);
          };
          for (int64_t u0 = 0, u1; u0 < cut.units(); u0 = u1) {
            u1 = std::min(u0 + cut.block_units, cut.units());
            ReadNext met = first_met(w, image, 3, cut.begin(u0), cut.begin(u1));
            if (met.bytes > 0) {
              REQUIRE(met.at - image == end * 3);
              end += met.bytes / 3;
            }
            for (int64_t m = cut.begin(u0); m < cut.begin(u1); m++) {
              int64_t z = m / w.out[2] / w.out[1], y = m / w.out[2] % w.out[1], x = m % w.out[2];
              REQUIRE((last(0, z) * w.in[1] + last(1, y)) * w.in[2] + last(2, x) < end);
            }
          }
          CHECK(end <= w.in_pixels());
        }
}

TEST_CASE("depthwise convolution over channels, kernels, strides and multipliers") {
  for_all_machines([](const auto& check) {
    for (DType type : {DType::F32, DType::BF16, DType::F16})
      for (int64_t channels : {2, 7, 8, 16, 17, 32, 47, 64, 96, 129})
        for (int64_t kernel : {3, 5})
          for (int64_t stride : {1, 2}) {
            Case c = square(9, kernel, stride, kernel / 2, channels, channels, channels);
            c.bias = stride == 1;
            c.batch = 1 + channels % 2;
            c.in_type = c.weight_type = type;
            check(c);
          }
    for (DType type : {DType::BF16, DType::F16}) // of reduced floats: windows of any kind, weights in the call
      for (int64_t channels : {3, 8, 15, 40, 129})
        for (int64_t kernel : {1, 2, 4}) {
          Case c = square(11, kernel, 1 + kernel / 4, kernel / 2, channels, channels, channels, 1 + channels % 2);
          c.batch = 2, c.gap = channels == 40 ? 16 : 3;
          c.packed = kernel != 2;
          c.in_type = c.weight_type = type;
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

TEST_CASE("convolution of 2, 4 and 8 channels a group") {
  for_all_machines([](const auto& check) {
    for (int64_t group : {2, 4, 8})
      for (int64_t groups : {2, 3, 4, 5, 7, 8, 9, 33})
        for (int64_t kernel : {1, 3, 5}) {
          int64_t channels = group * groups;
          Case c = square(group == 4 ? 17 : 9, kernel, 1 + groups % 2, kernel / 2, channels, channels, groups);
          c.bias = kernel == 3;
          c.batch = 1 + groups % 2;
          c.gap = groups == 5 ? 3 : 0;
          c.packed = groups != 8;
          if (groups % 3 == 0) c.in_type = c.weight_type = kernel == 3 ? DType::F16 : DType::BF16;
          check(c);
        }
    check({.batch = 2,
           .groups = 9,
           .in_channels = 36,
           .out_channels = 36,
           .in = {1, 1, 70},
           .kernel = {1, 1, 4},
           .pad = {0, 0, 3},
           .dilation = {1, 1, 2}});
    check(
        {.groups = 6, .in_channels = 12, .out_channels = 12, .in = {4, 5, 6}, .kernel = {3, 3, 3}, .stride = {1, 2, 1}, .pad = {1, 1, 1}});
    check(
        {.groups = 6, .in_channels = 12, .out_channels = 24, .in = {1, 9, 9}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}}); // of matrix kernels
  });
}

TEST_CASE("convolution of every number format, in place and copied") {
  for_all_machines([](const auto& check) {
    using enum DType;
    for (auto [in_type, weight_type] :
         {std::pair{F64, F64}, {BF16, BF16}, {F16, F16}, {F32, BF16}, {U8, I8}, {I8, I8}, {U8, U8}, {F32, I8}})
      for (auto [in, out, groups] :
           {std::array<int64_t, 3>{1, 5, 1}, {3, 17, 1}, {8, 33, 1}, {64, 40, 1}, {12, 24, 3}, {6, 6, 2}, {5, 5, 5}})
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
    Case c = {.in_channels = 20,
              .out_channels = 30,
              .in = {1, 1, 50},
              .kernel = {1, 1, 16},
              .stride = {1, 1, 8},
              .pad = {0, 0, 4},
              .bias = true,
              .transposed = true};
    check(c);
    c = {.in_channels = 4,
         .out_channels = 6,
         .in = {3, 4, 5},
         .kernel = {2, 3, 2},
         .stride = {2, 1, 2},
         .pad = {0, 1, 0},
         .transposed = true};
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
            c.padding = transposed || type == DType::BF16 ? 0 : type == DType::U8 ? 9 : -5;
            c.row_major = !transposed && in == 64;
            check_case(tiles.table(), workers, c);
          }
  }
}

TEST_CASE("convolution on tile registers copies windows by rows of the image") {
  // Rows and strides, windows beyond both sides, several blocks, a part of k at a time; dilated columns are copied otherwise.
  const Case cases[] = {
      {.in_channels = 4, .out_channels = 33, .in = {1, 61, 67}, .kernel = {1, 7, 7}, .stride = {1, 2, 2}, .pad = {0, 3, 3}, .bias = true},
      {.batch = 2, .in_channels = 5, .out_channels = 20, .in = {1, 40, 53}, .kernel = {1, 3, 5}, .stride = {1, 3, 1}, .pad = {0, 1, 6}},
      {.in_channels = 33, .out_channels = 16, .in = {1, 19, 9}, .kernel = {1, 5, 1}, .stride = {1, 2, 3}, .pad = {0, 7, 0}},
      {.in_channels = 64, .out_channels = 70, .in = {1, 23, 31}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
      {.in_channels = 300, .out_channels = 40, .in = {1, 9, 7}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}, .bias = true},
      {.in_channels = 700, .out_channels = 24, .in = {1, 3, 5}, .kernel = {1, 2, 3}, .pad = {0, 1, 1}},
      {.in_channels = 16, .out_channels = 48, .in = {1, 30, 17}, .kernel = {1, 3, 3}, .pad = {0, 2, 1}, .dilation = {1, 2, 1}},
      {.in_channels = 16,
       .out_channels = 48,
       .in = {1, 20, 17},
       .kernel = {1, 4, 3},
       .stride = {1, 2, 1},
       .pad = {0, 3, 1},
       .dilation = {1, 3, 1}},
      {.in_channels = 8, .out_channels = 9, .in = {1, 12, 30}, .kernel = {1, 3, 3}, .pad = {0, 1, 2}, .dilation = {1, 1, 2}},
      {.in_channels = 40, .out_channels = 12, .in = {1, 33, 37}, .kernel = {1, 1, 1}, .stride = {1, 2, 2}},
      {.in_channels = 3, .out_channels = 5, .in = {1, 7, 7}, .kernel = {1, 3, 3}, .stride = {1, int64_t{1} << 60, 1}, .pad = {0, 1, 1}},
      {.in_channels = 24,
       .out_channels = 12,
       .in = {1, 9, 7},
       .kernel = {1, 2, 1},
       .stride = {1, 3, 2},
       .bias = true,
       .transposed = true}, // parts without a tap are zeros
      {.in_channels = 24, .out_channels = 12, .in = {1, 1, 1500}, .kernel = {1, 1, 9}, .stride = {1, 1, 2}, .pad = {0, 0, 4}},
  };
  test::EmulatedTiles tiles;
  MicroKernels host(host_target(resolve_isa(Isa::Auto))); // tile registers, if it has any
  for (int threads : {1, 2}) {
    Workers workers(threads);
    for (DType type : {DType::BF16, DType::U8, DType::I8})
      for (Case c : cases) {
        c.in_type = type, c.weight_type = type == DType::BF16 ? type : DType::I8;
        c.padding = type == DType::U8 && !c.transposed ? 7 : 0;
        check_case(tiles.table(), workers, c);
        check_case(host.table(), workers, c);
        c.packed = false;
        check_case(tiles.table(), workers, c);
      }
  }
}

} // namespace tenon::conv_test
