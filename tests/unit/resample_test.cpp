// Resized and pooled images: native code beside the interpreter, at scales where what a vector reads lies near, far, and in
// descending order.
#include <array>
#include <cmath>

#include "tests/unit/graph_harness.h"
#include "tests/unit/occurrences.h"

namespace tenon::resample_test {
using namespace tenon::test;

namespace {

Tensor image(DType t, std::vector<int64_t> sizes) {
  return filled(t, std::move(sizes), [](int64_t i) { return static_cast<double>(i * 31 % 127) / 4; });
}

} // namespace

TEST_CASE("resized images in every float format, enlarged, reduced and turned") {
  for (Isa isa : {Isa::Auto, Isa::Avx2})
    for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16})
      for (int64_t width : {1, 33, 400})
        for (int64_t out : {16, 99}) {
          CAPTURE(name_of(t));
          CAPTURE(width);
          CAPTURE(out);
          TestGraph g;
          V x = g.input({2, 3, 4, width}, t);
          for (bool align : {false, true})
            for (auto op : {"aten::upsample_bilinear2d.default", "aten::upsample_bicubic2d.default"})
              g.returns(g.b.call1(op, {x, ArgList{7, out}, align}));
          V near = g.b.call1("aten::upsample_nearest2d.default", {x, ArgList{7, out}});
          g.returns(near);
          g.returns(g.b.call1("aten::flip.default", {near, ArgList{3}}));
          compare(g, {{image(t, {2, 3, 4, width})}}, {.isa = isa});
        }
}

TEST_CASE("resized images of any size, and of three dimensions") {
  for (Isa isa : {Isa::Auto, Isa::Avx2}) {
    TestGraph g;
    Expr h = g.symbol("s0", 1), w = g.symbol("s1", 1);
    V x = g.input({g.b.integer(2), g.b.integer(3), h, w});
    g.returns(g.b.call1("aten::upsample_bilinear2d.default", {x, ArgList{h * 2.0, w * 2.0}, false}));
    g.returns(g.b.call1("aten::upsample_nearest2d.default", {x, ArgList{h * 3.0, w * 3.0}}));
    compare(g, {{image(DType::F32, {2, 3, 5, 40})}, {image(DType::F32, {2, 3, 1, 1})}, {image(DType::F32, {2, 3, 17, 9})}}, {.isa = isa});
    TestGraph solid;
    solid.returns(solid.b.call1("aten::upsample_trilinear3d.default", {solid.input({1, 2, 3, 5, 20}), ArgList{6, 7, 64}, true}));
    compare(solid, {{image(DType::F32, {1, 2, 3, 5, 20})}}, {.isa = isa});
  }
}

namespace {

// One dim antialiased by the triangle, as torch defines it: [rows, in] to [rows, out].
std::vector<double> shrunk(const std::vector<double>& x, int64_t rows, int64_t in, int64_t out) {
  std::vector<double> y;
  double step = static_cast<double>(in) / static_cast<double>(out), wide = std::max(step, 1.0);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < out; i++) {
      double center = (static_cast<double>(i) + 0.5) * step, sum = 0, weights = 0;
      for (int64_t k = std::max<int64_t>(static_cast<int64_t>(center - wide + 0.5), 0);
           k < std::min(static_cast<int64_t>(center + wide + 0.5), in); k++) {
        double w = std::max(0.0, 1 - std::abs(static_cast<double>(k) - center + 0.5) / wide);
        sum += w * x[static_cast<size_t>(r * in + k)], weights += w;
      }
      y.push_back(sum / weights);
    }
  return y;
}

std::vector<double> turned(const std::vector<double>& x, int64_t rows, int64_t columns) {
  std::vector<double> y;
  for (int64_t c = 0; c < columns; c++)
    for (int64_t r = 0; r < rows; r++) y.push_back(x[static_cast<size_t>(r * columns + c)]);
  return y;
}

double largest_difference(const Tensor& got, const std::vector<double>& want) {
  std::vector<double> values = numbers(got);
  double most = values.size() == want.size() ? 0 : INFINITY;
  for (size_t i = 0; i < want.size(); i++) most = std::max(most, std::abs(values[i] - want[i]));
  return most;
}

} // namespace

TEST_CASE("antialiased images, whichever dim comes first") {
  for (Isa isa : {Isa::Auto, Isa::Avx2})
    for (auto [h, w, out_h, out_w] : {std::array{37, 61, 16, 20}, {16, 20, 37, 61}, {40, 9, 7, 33}, {5, 100, 5, 31}, {64, 1, 3, 1}})
      for (DType t : {DType::F32, DType::F64, DType::U8}) {
        CAPTURE(name_of(t));
        CAPTURE(h);
        TestGraph fixed, any;
        V x = fixed.input({1, 1, h, w}, t),
          y = any.input({any.b.integer(1), any.b.integer(1), any.symbol("s0", 1), any.symbol("s1", 1)}, t);
        std::vector<std::string_view> ops{"aten::_upsample_bilinear2d_aa.default", "aten::_upsample_bicubic2d_aa.default"};
        for (auto op : ops) fixed.returns(fixed.b.call1(op, {x, ArgList{out_h, out_w}, false}));
        for (auto op : ops) any.returns(any.b.call1(op, {y, ArgList{out_h, out_w}, false}));
        Tensor in = image(t, {1, 1, h, w});
        compare(fixed, {{in}}, {.isa = isa});
        compare(any, {{in}}, {.isa = isa});
        std::vector<double> want = shrunk(numbers(in), h, w, out_w);
        want = turned(shrunk(turned(want, h, out_w), out_w, h, out_h), out_w, out_h);
        double bound = t == DType::U8 ? 1.01 : t == DType::F32 ? 4e-5 : 1e-11; // of numbers up to 32; bytes are rounded twice
        for (const TestGraph* g : {&fixed, &any}) {
          Executable exe = g->program().compile({.isa = isa}).value();
          CHECK(largest_difference(run(exe, {in})[0], want) <= bound);
        }
      }
}

TEST_CASE("turned bytes lie in memory where several taps read each, not where they are copied once more") {
  TestGraph resized, copied;
  V x = resized.input({1, 3, 64, 90}, DType::U8), y = copied.input({1, 3, 64, 90}, DType::U8);
  resized.returns(resized.b.call1("aten::_upsample_bilinear2d_aa.default", {x, ArgList{20, 30}, false}));
  copied.returns(copied.b.to(copied.b.call1("tenon::to_layout.default", {copied.b.transpose(y, -1, -2)}), DType::F32));
  std::string text = resized.program().dump("loops").value(), copy = copied.program().dump("backend").value();
  CHECK_MESSAGE(occurrences(text, "= turned b") == 1, text);
  CHECK_MESSAGE(occurrences(copy, "tenon::to_layout.default[inline=True]") == 1, copy);
}

TEST_CASE("averages over windows of which some are longer") {
  for (Isa isa : {Isa::Auto, Isa::Avx2})
    for (auto [h, w, out_h, out_w] : {std::array{30, 30, 7, 7}, {5, 17, 3, 17}, {3, 4, 7, 9}, {64, 33, 10, 1}})
      for (DType t : {DType::F32, DType::F64, DType::BF16}) {
        TestGraph fixed, any;
        V x = fixed.input({2, 5, h, w}, t),
          y = any.input({any.b.integer(2), any.b.integer(5), any.symbol("s0", 1), any.symbol("s1", 1)}, t);
        fixed.returns(fixed.b.call1("aten::_adaptive_avg_pool2d.default", {x, ArgList{out_h, out_w}}));
        any.returns(any.b.call1("aten::_adaptive_avg_pool2d.default", {y, ArgList{out_h, out_w}}));
        Tensor in = image(t, {2, 5, h, w});
        compare(fixed, {{in}}, {.isa = isa});
        compare(any, {{in}}, {.isa = isa});
        std::vector<double> from = numbers(in), want;
        for (int64_t plane = 0; plane < 10; plane++)
          for (int64_t i = 0; i < out_h; i++)
            for (int64_t j = 0; j < out_w; j++) {
              int64_t top = i * h / out_h, bottom = ((i + 1) * h + out_h - 1) / out_h, left = j * w / out_w,
                      right = ((j + 1) * w + out_w - 1) / out_w;
              double sum = 0;
              for (int64_t r = top; r < bottom; r++)
                for (int64_t c = left; c < right; c++) sum += from[static_cast<size_t>((plane * h + r) * w + c)];
              want.push_back(sum / static_cast<double>((bottom - top) * (right - left)));
            }
        double bound = t == DType::BF16 ? 0.13 : t == DType::F32 ? 2e-5 : 1e-12;
        for (const TestGraph* g : {&fixed, &any})
          CHECK(largest_difference(run(g->program().compile({.isa = isa}).value(), {in})[0], want) <= bound);
      }
}

} // namespace tenon::resample_test
