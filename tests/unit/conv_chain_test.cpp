// Convolutions that run as a chain, beside the interpreter: tensors between them are larger than a core's cache, so
// that chains pay (L2 of up to 2 MB).
#include "codegen/target.h"
#include "tests/unit/graph_harness.h"

namespace tenon::conv_chain_test {
using namespace tenon::test;

namespace {

struct Chain {
  int64_t batch, height, width, in, wide, out;
  int64_t kernel, stride, pad;
  bool before = true, after = true, activation = true, residual = false,
       kept = false; // kept: what lies between is a result too
  DType type = DType::F32;
  bool narrow = false; // products read bf16
};

// Odd sizes of all kinds; the wide tensor of the first is larger than that of the others.
const Chain blocks[] = {
    {2, 53, 61, 7, 131, 9, 3, 1, 1},
    {1, 61, 53, 5, 112, 5, 3, 2, 1},
    {1, 49, 53, 6, 144, 6, 5, 1, 2, true, true, true, true},
    {3, 27, 31, 3, 160, 17, 5, 2, 0, true, true, false},
    {1, 37, 43, 9, 224, 3, 7, 1, 5},
    {2, 41, 37, 4, 144, 8, 7, 2, 3, true, false},
    {2, 36, 43, 8, 130, 8, 3, 1, 0, true, false, false},
    {2, 35, 43, 128, 128, 11, 3, 1, 1, false},
    {2, 74, 69, 136, 136, 12, 5, 2, 3, false, true, false},
    {2, 35, 41, 7, 131, 7, 3, 1, 1, true, true, true, true, true},
    {2, 53, 61, 16, 128, 16, 3, 1, 1},
    {2, 53, 61, 8, 192, 20, 3, 2, 1, true, true, false},
    {2, 75, 61, 8, 192, 20, 3, 2, 1, true, true, true, false, false, DType::BF16},
    {2, 75, 83, 16, 130, 9, 5, 1, 2, true, true, true, false, false, DType::BF16},
    {1, 75, 83, 16, 226, 16, 3, 1, 1, true, true, false, true, false, DType::F16},
    {2, 70, 86, 128, 128, 11, 7, 1, 3, false, true, true, false, false, DType::BF16},
    {2, 74, 83, 12, 136, 8, 7, 2, 3, true, true, true, false, false, DType::BF16},
    {2, 53, 61, 8, 144, 9, 3, 1, 1, true, true, true, false, false, DType::F32, true},
    {2, 75, 81, 128, 128, 12, 3, 1, 1, false, true, true, false, false, DType::F32, true},
    {2, 53, 61, 12, 136, 8, 5, 2, 2, true, true, false, false, false, DType::F32, true},
};

Tensor mixed(DType type, std::vector<int64_t> sizes, int64_t step) {
  return filled(type, std::move(sizes), [&](int64_t i) { return static_cast<double>(i * step % 251 - 125) / 64; });
}

V convolve(TestGraph& g, V x, int64_t out, int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t groups, bool biased) {
  V w = g.b.constant(mixed(x.dtype(), {out, in / groups, kernel, kernel}, 37));
  Arg bias = biased ? Arg(g.b.constant(mixed(x.dtype(), {out}, 91))) : Arg();
  return g.b.call1("aten::convolution.default", {x, w, bias, {stride, stride}, {pad, pad}, {1, 1}, false, {0, 0}, groups});
}

/// A product that reads bf16 and gives f32.
V multiply_narrow(TestGraph& g, V x, int64_t out, int64_t in) {
  V w = g.b.constant(mixed(DType::BF16, {out, in, 1, 1}, 37));
  return g.b.call1("aten::convolution.dtype",
                   {g.b.to(x, DType::BF16), w, Arg(), {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, int64_t{1}, DType::F32});
}

TestGraph graph_of(const Chain& s, bool dynamic) {
  TestGraph g;
  int64_t first = s.before ? s.in : s.wide;
  V x = dynamic ? g.input(std::vector<Expr>{g.symbol("n", 1), g.b.integer(first), g.symbol("h", 12), g.symbol("w", 12)}, s.type)
                : g.input({s.batch, first, s.height, s.width}, s.type);
  auto activate = [&](V v) { return s.activation ? g.b.call1("aten::relu6.default", {v}) : v; };
  auto multiply = [&](V v, int64_t out, int64_t in) {
    return s.narrow ? multiply_narrow(g, v, out, in) : convolve(g, v, out, in, 1, 1, 0, 1, s.activation);
  };
  V y = s.before ? activate(multiply(x, s.wide, s.in)) : x, between = y;
  y = activate(convolve(g, y, s.wide, s.wide, s.kernel, s.stride, s.pad, s.wide, s.activation));
  if (s.after) y = multiply(y, s.out, s.wide);
  if (s.residual) y = g.b.call1("aten::add.Tensor", {y, x});
  g.returns(y);
  if (s.kept) g.returns(between);
  return g;
}

/// Of the largest two tensors that steps one by one need at once: the wide one before the depthwise convolution and the one behind it.
int64_t bytes_without_chain(const Chain& s) {
  auto out = [&](int64_t n) { return (n + 2 * s.pad - s.kernel) / s.stride + 1; };
  return s.batch * s.wide * (s.height * s.width + out(s.height) * out(s.width)) * static_cast<int64_t>(size_of(s.type));
}

} // namespace

TEST_CASE("chains of convolutions give what the interpreter gives") {
  int expected = 0, chains = 0;
  for (const Chain& s : blocks) {
    CAPTURE(s.wide);
    CAPTURE(s.kernel);
    Tensor x = mixed(s.type, {s.batch, s.before ? s.in : s.wide, s.height, s.width}, 31);
    Program program = graph_of(s, false).program(), dynamic = graph_of(s, true).program();
    std::vector<Tensor> want = run(program.compile({.interpret = true}).value(), {x});
    double tolerance = s.narrow ? 2e-2 : 1e-4;
    bool chained = !s.kept && s.type != DType::F16; // products of F16 copy what they read
    auto check = [&](const Program& p, Options options) {
      Executable native = p.compile(options).value();
      for (int again = 0; again < 2; again++) {
        std::vector<Tensor> got = run(native, {x});
        REQUIRE(got.size() == want.size());
        if (chained && options.threads == 1 && again == 0) {
          expected++;
          chains += static_cast<int64_t>(native.stats().arena_bytes) < bytes_without_chain(s);
        }
        for (size_t i = 0; i < got.size(); i++)
          CHECK_MESSAGE(difference(got[i], want[i], tolerance) == "", "output ", i, ": ", difference(got[i], want[i], tolerance));
      }
    };
    for (int threads : {1, 2, 3}) check(program, {.threads = threads});
    check(program, {.threads = 2, .isa = Isa::Avx2});
    check(dynamic, {.threads = 2});
  }
  // An L2 of 512 KB has no room for the rows of the largest.
  if (host_target(Isa::Auto).l2_bytes >= 1 << 20) CHECK(chains == expected);
  else CHECK(chains > expected / 2);
}

TEST_CASE("a chain's cost is that of its first step, and all of it is counted") {
  const Chain& s = blocks[10];
  Executable native = graph_of(s, false).program().compile({.threads = 1, .profile = true}).value();
  run(native, {mixed(s.type, {s.batch, s.in, s.height, s.width}, 31)});
  Explanation e = native.explanation().value();
  double flops = 0, most = 0;
  for (const ExplainedStep& step : e.steps) {
    if (step.kind != ExplainedStep::Kind::Conv) continue;
    flops += step.flops, most = std::max(most, step.flops);
  }
  double pixels = static_cast<double>(s.batch * s.height * s.width);
  CHECK(flops == 2 * pixels * static_cast<double>(s.wide * (s.in + s.kernel * s.kernel + s.out)));
  CHECK(most == flops);
}

} // namespace tenon::conv_chain_test
