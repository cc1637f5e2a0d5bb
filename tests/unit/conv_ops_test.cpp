// Convolutions as programs: native code beside the interpreter, with weights that are inputs, constants, or made of constants.
#include "tests/unit/graph_harness.h"

namespace tenon::conv_ops_test {
using namespace tenon::test;

namespace {

Tensor mixed(DType t, std::vector<int64_t> sizes) {
  return filled(t, std::move(sizes), [&](int64_t i) {
    return is_int(t) ? static_cast<double>(i * 37 % 255 - (t == DType::I8 ? 127 : 0)) : static_cast<double>(i * 31 % 251 - 125) / 64;
  });
}

struct Shape {
  std::vector<int64_t> in, weight;
  int64_t stride, pad, dilation, groups;
  bool transposed = false;
};

const Shape shapes[] = {
    {{1, 3, 11, 12}, {16, 3, 3, 3}, 1, 1, 1, 1},
    {{2, 8, 7, 7}, {5, 8, 1, 1}, 1, 0, 1, 1},
    {{2, 8, 9, 7}, {24, 8, 3, 3}, 2, 1, 1, 1},
    {{1, 12, 9, 9}, {12, 1, 5, 5}, 1, 2, 1, 12},
    {{2, 6, 19, 21}, {12, 1, 3, 3}, 2, 1, 1, 6},
    {{2, 5, 70}, {5, 1, 4}, 1, 3, 1, 5},
    {{1, 4, 5, 6, 7}, {12, 1, 3, 3, 3}, 1, 1, 1, 4}, // three outputs of a channel
    {{3, 5, 40}, {10, 1, 7}, 3, 2, 1, 5},
    {{1, 3, 6, 9, 20}, {3, 1, 3, 3, 3}, 1, 1, 1, 3},
    {{1, 12, 9, 9}, {24, 4, 3, 3}, 1, 2, 2, 3},
    {{3, 6, 40}, {10, 6, 7}, 1, 3, 1, 1},
    {{1, 4, 5, 6, 7}, {8, 4, 3, 3, 3}, 1, 1, 1, 1},
    {{2, 3, 31, 64}, {19, 3, 7, 7}, 2, 3, 1, 1}, // along lines that are parted
    {{1, 3, 24, 64}, {20, 3, 4, 4}, 4, 0, 1, 1},
    {{2, 1, 9, 28}, {18, 1, 5, 5}, 1, 2, 1, 1},
    {{1, 32, 26, 25}, {40, 32, 3, 3}, 1, 1, 1, 1}, // by Winograd's filtering
    {{1, 6, 8, 9}, {6, 7, 2, 2}, 2, 0, 1, 1, true},
    {{2, 6, 8, 9}, {6, 4, 4, 4}, 2, 1, 1, 2, true},
    {{1, 6, 30}, {6, 5, 16}, 8, 4, 1, 1, true},
    {{1, 6, 5, 6}, {6, 5, 3, 3}, 3, 0, 2, 1, true},
};

std::vector<Expr> exprs(TestGraph& g, const std::vector<int64_t>& sizes) {
  std::vector<Expr> out;
  for (int64_t n : sizes) out.push_back(g.b.integer(n));
  return out;
}

// The first and last dim of the image are dynamic.
V image(TestGraph& g, const Shape& s, DType t) {
  std::vector<Expr> sizes = exprs(g, s.in);
  sizes[0] = g.symbol("s0"), sizes.back() = g.symbol("s1", s.in.back() - 2);
  return g.input(sizes, t);
}

V convolve(TestGraph& g, V x, V w, const Arg& bias, const Shape& s) {
  auto each = [&](int64_t v) { return ArgList(s.in.size() - 2, Arg(v)); };
  return g.b.call1("aten::convolution.default",
                   {x, w, bias, each(s.stride), each(s.pad), each(s.dilation), s.transposed, each(0), s.groups});
}

void compare_both(const TestGraph& g, const std::vector<Tensor>& call) {
  compare(g, {call});
  compare(g, {call}, {.isa = Isa::Avx2});
}

} // namespace

TEST_CASE("convolutions with weights in the call and constant ones, in every float format") {
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16})
    for (const Shape& s : shapes) {
      CAPTURE(name_of(t));
      CAPTURE(s.weight);
      Tensor weight = mixed(t, s.weight), bias = mixed(t, {s.transposed ? s.weight[1] * s.groups : s.weight[0]});
      TestGraph fixed, given;
      V y = convolve(fixed, image(fixed, s, t), fixed.b.constant(weight), fixed.b.constant(bias), s);
      fixed.returns(fixed.b.call1("aten::relu.default", {y}));
      compare_both(fixed, {mixed(t, s.in)});
      V x = given.input(exprs(given, s.in), t), w = given.input(exprs(given, s.weight), t);
      given.returns(convolve(given, x, w, Arg(), s));
      compare_both(given, {mixed(t, s.in), weight});
    }
}

TEST_CASE("windows of one pixel between row-major tensors are products, which copy nothing") {
  const Shape products[] = {{{1, 31, 13, 19}, {17, 31, 1, 1}, 1, 0, 1, 1},
                            {{3, 8, 12, 11}, {65, 8, 1, 1}, 1, 0, 1, 1},
                            {{2, 17, 130}, {1, 17, 1}, 1, 0, 1, 1},
                            {{1, 12, 4, 7, 9}, {5, 12, 1, 1, 1}, 1, 0, 1, 1}};
  for (const Shape& s : products)
    for (DType t : {DType::F32, DType::BF16, DType::F16, DType::F64})
      for (bool dynamic : {false, true}) {
        CAPTURE(s.weight);
        CAPTURE(name_of(t));
        TestGraph g;
        V x = dynamic ? image(g, s, t) : g.input(exprs(g, s.in), t), w = g.input(exprs(g, s.weight), t), bias = g.input({s.weight[0]}, t);
        V constant = g.buffer("w", mixed(t, s.weight));
        g.returns(g.b.call1("aten::relu.default", {convolve(g, x, w, bias, s)}));
        g.returns(convolve(g, x, constant, Arg(), s));
        std::string plan = g.program().dump("plan").value();
        CHECK_MESSAGE(plan.find("to_layout") == plan.npos, plan);
        CHECK_MESSAGE(plan.find("convolution") == plan.npos, plan);
        std::vector<std::vector<Tensor>> calls{{mixed(t, s.in), mixed(t, s.weight), mixed(t, {s.weight[0]})}};
        for (auto [batch, longer] : {std::pair<int64_t, int64_t>{0, 0}, {4, -2}, {2, 14}})
          if (dynamic) {
            std::vector<int64_t> in = s.in;
            in[0] = batch, in.back() += longer;
            calls.push_back({mixed(t, in), calls[0][1], calls[0][2]});
          }
        compare_each(g, calls, {{.threads = 2}, {.threads = 1, .isa = Isa::Avx2}});
      }
}

TEST_CASE("convolutions of few outputs run along lines, whatever reads them") {
  for (int64_t in : {1, 3})
    for (int64_t out : {1, 6, 8, 9})
      for (int64_t kernel : {3, 5})
        for (int64_t stride : {1, 2}) {
          CAPTURE(in);
          CAPTURE(out);
          CAPTURE(kernel);
          CAPTURE(stride);
          TestGraph g;
          V x = g.input(std::vector<Expr>{g.symbol("n", 1), g.b.integer(in), g.b.integer(31), g.b.integer(42)});
          auto next = [&](V v, std::vector<int64_t> weight, int64_t step, int64_t pad) {
            V w = g.b.constant(mixed(DType::F32, weight)), bias = g.b.constant(mixed(DType::F32, {weight[0]}));
            return convolve(g, v, w, bias, {{1, 1, 1, 1}, weight, step, pad, 1, 1});
          };
          V y = g.b.call1("aten::tanh.default", {next(x, {out, in, kernel, kernel}, stride, kernel / 2)});
          V pooled = g.b.call1("aten::avg_pool2d.default", {y, {2, 2}, {2, 2}});
          V sum = g.b.call1("aten::add.Tensor", {next(y, {out, out, 1, 1}, 1, 0), y}); // of both layouts
          g.returns(next(pooled, {17, out, 3, 3}, 1, 1));
          g.returns(sum);
          std::string plan = g.program().dump("plan").value();
          CHECK_MESSAGE((plan.find("to_layout") > plan.find("convolution")) == (out <= 8), plan);
          compare_each(g, {{mixed(DType::F32, {2, in, 31, 42})}, {mixed(DType::F32, {1, in, 31, 42})}},
                       {{.threads = 2}, {.threads = 1, .isa = Isa::Avx2}});
        }
}

TEST_CASE("transposed depthwise convolutions become regular ones") {
  struct Window {
    int64_t kernel, stride, pad, extra, multiple;
  };
  const Window windows[] = {{4, 2, 1, 0, 1}, {3, 2, 1, 1, 1}, {3, 1, 1, 0, 1}, {3, 1, 0, 0, 2}, {2, 2, 0, 0, 3},
                            {5, 3, 4, 2, 1}, {1, 3, 0, 0, 1}, {1, 2, 0, 1, 1}, {7, 2, 6, 0, 1}, {16, 8, 4, 0, 1},
                            {2, 2, 0, 1, 1}, {3, 4, 1, 3, 2}, {1, 1, 0, 0, 1}};
  auto build = [](TestGraph& g, V x, V w, const Arg& bias, const Window& s, size_t dims) {
    auto each = [&](int64_t v) { return ArgList(dims, Arg(v)); };
    g.returns(g.b.call1("aten::relu.default", {g.b.call1("aten::convolution.default", {x, w, bias, each(s.stride), each(s.pad), each(1),
                                                                                       true, each(s.extra), x.size(1)})}));
  };
  for (DType t : {DType::F32, DType::BF16, DType::F16})
    for (size_t dims : {size_t{1}, size_t{2}, size_t{3}})
      for (const Window& s : windows)
        for (int64_t channels : {5, 32}) {
          bool common = &s < windows + 3; // elsewhere than in two dims of f32, and of many channels, these are enough
          if (!common && (t != DType::F32 || dims != 2 || channels > 5)) continue;
          if (t != DType::F32 && (dims != 2 || channels > 5)) continue;
          CAPTURE(dims);
          CAPTURE(s.kernel);
          CAPTURE(s.stride);
          std::vector<int64_t> in{2, channels}, weight{channels, s.multiple};
          for (size_t d = 0; d < dims; d++) in.push_back(7 + static_cast<int64_t>(d)), weight.push_back(s.kernel);
          TestGraph fixed, given;
          std::vector<Expr> sizes = exprs(fixed, in);
          sizes[0] = fixed.symbol("s0"), sizes.back() = fixed.symbol("s1", 5);
          V x = fixed.input(sizes, t);
          Tensor w = mixed(t, weight), bias = mixed(t, {channels * s.multiple});
          build(fixed, x, fixed.b.constant(w), fixed.b.constant(bias), s, dims);
          compare_both(fixed, {mixed(t, in)});
          V y = given.input(exprs(given, in), t), v = given.input(exprs(given, weight), t);
          build(given, y, v, Arg(), s, dims);
          compare_both(given, {mixed(t, in), w});
        }
}

TEST_CASE("transposed depthwise convolutions with one number for all dims") {
  TestGraph g;
  V x = g.input({g.b.integer(2), g.b.integer(6), g.b.integer(7), g.b.integer(8)});
  g.returns(g.b.call1("aten::convolution.default",
                      {x, g.b.constant(mixed(DType::F32, {6, 1, 3, 3})), Arg(), ArgList{2}, ArgList{1}, ArgList{1}, true, ArgList{1}, 6}));
  compare_both(g, {mixed(DType::F32, {2, 6, 7, 8})});
}

TEST_CASE("transposed convolutions without a stride become regular ones where there are many pixels") {
  struct Window {
    Shape shape;
    bool regular;
  };
  for (const Window& s :
       {Window{{{1, 6, 24, 25}, {6, 5, 3, 3}, 1, 1, 1, 1, true}, true}, Window{{{2, 6, 300}, {6, 4, 7}, 1, 3, 2, 2, true}, true},
        Window{{{1, 4, 9, 8, 9}, {4, 3, 3, 3, 3}, 1, 0, 1, 1, true}, true},
        Window{{{1, 32, 26, 25}, {32, 40, 3, 3}, 1, 2, 1, 1, true}, true}, Window{{{1, 6, 8, 9}, {6, 5, 3, 3}, 1, 1, 1, 1, true}, false},
        Window{{{1, 6, 24, 25}, {6, 5, 3, 3}, 1, 3, 1, 1, true}, false}}) // cut off, rather than padded
    for (DType t : {DType::F32, DType::BF16, DType::F16}) {
      INFO(s.shape.in.size(), " dims, ", s.shape.weight[1], " outputs, padding ", s.shape.pad);
      TestGraph given, fixed;
      Tensor w = mixed(t, s.shape.weight), bias = mixed(t, {s.shape.weight[1] * s.shape.groups});
      V x = given.input(exprs(given, s.shape.in), t);
      given.returns(convolve(given, x, given.input(exprs(given, s.shape.weight), t), Arg(), s.shape));
      CHECK((given.program().dump("backend").value().find("flip") != std::string::npos) == s.regular);
      compare_both(given, {mixed(t, s.shape.in), w});
      fixed.returns(convolve(fixed, fixed.input(exprs(fixed, s.shape.in), t), fixed.b.constant(w), fixed.b.constant(bias), s.shape));
      compare_both(fixed, {mixed(t, s.shape.in)});
    }
}

TEST_CASE("convolutions that cannot be are refused, unusual ones computed") {
  auto fails = [](Shape s) {
    TestGraph g;
    try {
      g.returns(convolve(g, g.input(exprs(g, s.in)), g.input(exprs(g, s.weight)), Arg(), s));
      return !g.program().compile().ok();
    } catch (const Error&) {
      return true;
    }
  };
  CHECK(fails({{1, 5, 9, 9}, {16, 3, 3, 3}, 1, 1, 1, 1}));
  CHECK(fails({{1, 3, 9, 9}, {16, 3, 3, 3}, 0, 1, 1, 1}));
  CHECK(fails({{1, 3, 9, 9}, {16, 3, 3, 3}, 1, -1, 1, 1}));
  CHECK(fails({{1, 3, 9, 9}, {16, 3, 3, 3}, 1, 1, 0, 1}));
  CHECK(fails({{1, 3, 9, 9}, {16, 3, 3, 3}, 1, 1, 1, 0}));
  CHECK(fails({{1, 3, 9, 9}, {4, 6, 3, 3}, 1, 1, 1, 1, true}));
  for (Shape s : {Shape{{1, 3, 4}, {3, 2, 2}, 2000, 1, 1, 1, true}, Shape{{1, 3, 4}, {3, 2, 2}, 3, 0, 7, 1, true},
                  Shape{{2, 4, 5, 6}, {4, 1, 3, 3}, 2, 1, 1, 4, true}}) {
    TestGraph g;
    V x = g.input(exprs(g, s.in)), w = g.input(exprs(g, s.weight));
    g.returns(convolve(g, x, w, Arg(), s));
    compare_both(g, {mixed(DType::F32, s.in), mixed(DType::F32, s.weight)});
  }
}

TEST_CASE("convolutions of quantized tensors") {
  for (const Shape& s : shapes)
    for (bool is_signed : {false, true}) {
      if (s.transposed) continue;
      CAPTURE(s.weight);
      DType type = is_signed ? DType::I8 : DType::U8;
      int64_t low = is_signed ? -128 : 0;
      TestGraph g;
      auto quantized = [&](V x, const char* name, double scale, int64_t zero) {
        return g.b.call1(std::string("quantized_decomposed::") + name + "_per_tensor.default", {x, scale, zero, low, low + 255, type});
      };
      int64_t out = s.weight[0];
      V scales = g.b.constant(filled(DType::F32, {out}, [](int64_t i) { return 0.01 * static_cast<double>(i % 3 + 1); }));
      V zeros = g.b.constant(filled(DType::I64, {out}, [](int64_t) { return 0; }));
      V w = g.b.call1("quantized_decomposed::dequantize_per_channel.default",
                      {g.b.constant(mixed(DType::I8, s.weight)), scales, zeros, 0, -127, 127, DType::I8});
      V x = quantized(quantized(image(g, s, DType::F32), "quantize", 0.02, low + 100), "dequantize", 0.02, low + 100);
      V y = g.b.call1("aten::relu.default", {convolve(g, x, w, g.b.constant(mixed(DType::F32, {out})), s)});
      g.returns(y);
      g.returns(quantized(y, "quantize", 0.5, low));
      compare_both(g, {mixed(DType::F32, s.in)});
    }
}

TEST_CASE("weights that are made of weights are computed once") {
  TestGraph g;
  V v = g.b.constant(mixed(DType::F32, {64, 32, 3, 3})),
    scale = g.b.constant(filled(DType::F32, {64, 1, 1, 1}, [](int64_t i) { return 1 + static_cast<double>(i) / 8; }));
  V norm = g.b.call1("aten::linalg_vector_norm.default", {v, 2, ArgList{1, 2, 3}, true});
  V w = v * (scale / norm), x = g.input({2, 32, 9, 9});
  g.returns(convolve(g, x, w, Arg(), {{2, 32, 9, 9}, {64, 32, 3, 3}, 1, 1, 1, 1}));
  V m = g.b.constant(mixed(DType::F32, {200, 100}));
  g.returns(g.b.call1("aten::mm.default", {g.input({3, 200}), g.b.call1("aten::exp.default", {m})}));
  g.returns(g.b.call1("aten::permute.default", {g.b.call1("aten::exp.default", {m}), ArgList{1, 0}}));
  compare_both(g, {mixed(DType::F32, {2, 32, 9, 9}), mixed(DType::F32, {3, 200})});
  std::string backend = g.program().dump("backend").value();
  CHECK(backend.find("tenon::conv") != std::string::npos);
  for (auto op : {"edge::exp", "edge::div", "edge::mul"}) CHECK(backend.find(op) == std::string::npos);
}

TEST_CASE("weights that are standardized as rows are packed once") {
  for (DType t : {DType::F32, DType::BF16})
    for (int64_t kernel : {1, 3}) {
      Shape s{{2, 40, 9, 11}, {64, 40, kernel, kernel}, 1, 1, 1, 1};
      TestGraph g;
      V rows = g.b.call1("aten::view.default", {g.b.constant(mixed(t, s.weight)), ArgList{64, -1}});
      V centred = rows - g.b.call1("aten::mean.dim", {rows, ArgList{1}, true});
      V w = g.b.call1("aten::view.default", {centred, ArgList{64, 40, kernel, kernel}});
      g.returns(convolve(g, image(g, s, t), w, Arg(), s));
      std::string plan = g.program().dump("plan").value();
      CHECK_MESSAGE((plan.find("and packed 0") != plan.npos && plan.find("mean") == plan.npos), plan);
      compare_both(g, {mixed(t, s.in)});
    }
}

TEST_CASE("weights of three channels in bf16 are made four once, whatever their size") {
  for (int64_t kernel : {3, 32}) {
    Shape s{{2, 3, 64, 96}, {200, 3, kernel, kernel}, kernel, 0, 1, 1};
    TestGraph g;
    g.returns(convolve(g, image(g, s, DType::BF16), g.b.constant(mixed(DType::BF16, s.weight)), Arg(), s));
    std::string backend = g.program().dump("backend").value();
    size_t first = backend.find("constant_pad_nd"); // of the image
    CHECK_MESSAGE((first != backend.npos && backend.find("constant_pad_nd", first + 1) == backend.npos), backend);
    compare_both(g, {mixed(DType::BF16, s.in)});
  }
}

TEST_CASE("groups of few channels of reduced floats between row-major tensors run along lines") {
  for (DType t : {DType::BF16, DType::F16})
    for (Shape s : {Shape{{2, 5, 70}, {5, 1, 31}, 1, 15, 1, 5}, Shape{{1, 6, 19, 21}, {12, 1, 3, 3}, 2, 1, 1, 6},
                    Shape{{1, 7, 5, 9, 11}, {7, 1, 3, 3, 3}, 1, 1, 1, 7}, Shape{{2, 12, 30, 31}, {12, 4, 3, 3}, 1, 1, 1, 3},
                    Shape{{1, 16, 20, 33}, {24, 8, 3, 3}, 1, 1, 1, 2}, Shape{{1, 6, 50}, {9, 2, 5}, 1, 2, 1, 3}}) {
      CAPTURE(s.weight);
      TestGraph g;
      V x = g.input(exprs(g, s.in), t), w = g.input(exprs(g, s.weight), t), first = g.b.call1("aten::sigmoid.default", {x});
      g.returns(g.b.call1("aten::relu.default", {convolve(g, first, g.b.constant(mixed(t, s.weight)), Arg(), s)}));
      g.returns(convolve(g, x, w, Arg(), s));
      std::string plan = g.program().dump("plan").value();
      CHECK_MESSAGE(plan.find("to_layout") == plan.npos, plan);
      compare_both(g, {mixed(t, s.in), mixed(t, s.weight)});
    }
}

TEST_CASE("windows that reach far beyond the image copy no lines as long as they reach") {
  constexpr int64_t far = 100'000'000;
  for (DType t : {DType::F32, DType::BF16})
    for (Shape s : {Shape{{1, 16, 64}, {16, 8, 3}, 1, far, far, 2}, Shape{{1, 16, 8, 20}, {16, 8, 3, 3}, 1, far, far, 2}}) {
      TestGraph g;
      g.returns(convolve(g, g.input(exprs(g, s.in), t), g.b.constant(mixed(t, s.weight)), Arg(), s));
      compare_both(g, {mixed(t, s.in)});
    }
}

TEST_CASE("f32 convolutions by weights of reduced floats") {
  for (DType t : {DType::BF16, DType::F16})
    for (Shape s : {Shape{{2, 40, 9, 11}, {40, 1, 3, 3}, 1, 1, 1, 40}, Shape{{2, 24, 9, 11}, {24, 4, 3, 3}, 1, 1, 1, 6},
                    Shape{{1, 17, 9, 9}, {20, 17, 3, 3}, 2, 1, 1, 1}, Shape{{1, 2, 40, 40}, {3, 2, 3, 3}, 1, 1, 1, 1}}) {
      CAPTURE(s.weight);
      TestGraph g;
      V x = g.input(exprs(g, s.in)), w = g.b.constant(mixed(t, s.weight));
      auto each = [&](int64_t v) { return ArgList{v, v}; };
      g.returns(
          g.b.call1("aten::convolution.dtype", {x, w, Arg(), each(s.stride), each(s.pad), each(1), false, each(0), s.groups, DType::F32}));
      compare_both(g, {mixed(DType::F32, s.in)});
    }
}

} // namespace tenon::conv_ops_test
