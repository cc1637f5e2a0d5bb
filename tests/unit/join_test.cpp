// Cats whose operands are made in the memory of the result, beside the interpreter. TENON_DIFF_GRAPHS=n runs n random
// networks.
#include <cstdlib>
#include <random>

#include "compile/compile.h"
#include "tests/unit/graph_harness.h"
#include "tests/unit/occurrences.h"

namespace tenon::join_test {
using namespace tenon::test;

namespace {

Tensor mixed(DType t, std::vector<int64_t> sizes, int64_t step) {
  return filled(t, std::move(sizes), [&](int64_t i) { return static_cast<double>(i * step % 61 - 30) / 64; });
}

V convolve(TestGraph& g, V x, int64_t in, int64_t out, int64_t kernel, int64_t groups = 1, bool biased = true) {
  DType t = x.dtype();
  double scale = std::sqrt(static_cast<double>(in / groups * kernel * kernel));
  Tensor w = filled(t, {out, in / groups, kernel, kernel}, [&](int64_t i) { return static_cast<double>(i * 37 % 29 - 14) / (8 * scale); });
  Arg bias = biased ? Arg(g.b.constant(mixed(t, {out}, 91))) : Arg();
  return g.b.call1("aten::convolution.default",
                   {x, g.b.constant(w), bias, {1, 1}, {kernel / 2, kernel / 2}, {1, 1}, false, {0, 0}, groups});
}
V relu(TestGraph& g, V x) { return g.b.call1("aten::relu.default", {x}); }
V cat(TestGraph& g, const std::vector<V>& all, int64_t dim = 1) {
  return g.b.call1("aten::cat.default", {ArgList(all.begin(), all.end()), dim});
}

/// The Backend graph as text.
std::string lowered(const TestGraph& g) {
  LoadedProgram p = g.p;
  lower(p, "backend");
  return to_string(p.graph);
}

struct Image {
  V v;
  int64_t channels;
};

/// Random networks of convolutions, poolings and cats over images of one size.
class RandomNetwork {
public:
  RandomNetwork(uint32_t seed, DType type) : random_(seed) {
    static constexpr int64_t extents[] = {1, 2, 3, 5, 7, 8, 9, 13};
    sizes_[0] = 1 + below(3);
    for (int k = 1; k < 3; k++) sizes_[k] = extents[below(std::size(extents))];
    bool dynamic = below(3) == 0;
    std::vector<Expr> dims;
    for (int k = 0; k < 3; k++) dims.push_back(dynamic && below(3) ? g.symbol("s" + std::to_string(k), 1) : g.b.integer(sizes_[k]));
    int64_t channels = choose_channels();
    dims.insert(dims.begin() + 1, g.b.integer(channels));
    images_.push_back({g.input(dims, type), channels});
    for (int k = 0; k < 10; k++) step();
    for (auto& i : images_)
      if (&i == &images_.back() || below(8) == 0) g.returns(i.v);
    input = mixed(type, {sizes_[0], channels, sizes_[1], sizes_[2]}, 31);
  }
  TestGraph g;
  Tensor input;

private:
  int64_t below(size_t n) { return static_cast<int64_t>(random_() % n); }
  int64_t choose_channels() {
    static constexpr int64_t some[] = {8, 9, 16, 17, 24, 31, 32, 33, 40, 48, 64};
    return some[below(std::size(some))];
  }
  Image pick() { return images_[images_.size() - 1 - static_cast<size_t>(std::min(below(3), static_cast<int64_t>(images_.size()) - 1))]; }

  void step() {
    Image x = pick();
    int64_t out = choose_channels();
    switch (below(10)) {
    case 0: return images_.push_back({relu(g, convolve(g, x.v, x.channels, out, 3)), out});
    case 1: return images_.push_back({convolve(g, x.v, x.channels, out, 1, 1, below(2)), out});
    case 2: return images_.push_back({convolve(g, x.v, x.channels, x.channels, 3, x.channels, below(2)), x.channels});
    case 3:
      return images_.push_back(
          {relu(g, convolve(g, x.v, x.channels, 2 * x.channels, 3, x.channels % 8 == 0 ? x.channels / 8 : 1, false)), 2 * x.channels});
    case 4: return images_.push_back({g.b.call1("aten::avg_pool2d.default", {x.v, {3, 3}, {1, 1}, {1, 1}}), x.channels});
    case 5: return images_.push_back({g.b.call1("aten::sigmoid.default", {x.v}), x.channels});
    case 6: return images_.push_back({g.b.call1("aten::add.Tensor", {x.v, convolve(g, x.v, x.channels, x.channels, 1)}), x.channels});
    default: return join();
    }
  }
  // Some of the last images, now and then one of them twice, or all that an earlier cat joined and more.
  void join() {
    Image sum{{}, 0};
    std::vector<V> parts;
    size_t first = below(2) ? 0 : images_.size() - 1 - static_cast<size_t>(below(std::min<size_t>(images_.size(), 4)));
    for (size_t k = first; k < images_.size(); k++)
      for (int64_t n = below(12) == 0 ? 2 : 1; n-- > 0 && sum.channels < 400;)
        parts.push_back(images_[k].v), sum.channels += images_[k].channels;
    sum.v = cat(g, parts);
    images_.push_back(sum);
  }

  std::mt19937 random_;
  int64_t sizes_[3];
  std::vector<Image> images_;
};

} // namespace

TEST_CASE("what a cat joins is made in its memory") {
  TestGraph g;
  V x = g.input({2, 24, 7, 5}), a = relu(g, convolve(g, x, 24, 17, 3)), b = relu(g, convolve(g, a, 17, 33, 3)),
    c = g.b.call1("aten::max_pool2d.default", {b, {3, 3}, {1, 1}, {1, 1}});
  V all = cat(g, {a, b, c});
  g.returns(convolve(g, all, 83, 19, 1));
  std::string text = lowered(g);
  CHECK(occurrences(text, "tenon::join") == 1);
  CHECK(occurrences(text, "edge::cat") == 0);
  CHECK(occurrences(text, "= tenon::loops") == 3); // the input's layout, the pooling, the output's layout
  for (int threads : {1, 3}) compare(g, {{mixed(DType::F32, {2, 24, 7, 5}, 31)}}, {.threads = threads});
  compare(g, {{mixed(DType::F32, {2, 24, 7, 5}, 31)}}, {.threads = 2, .isa = Isa::Avx2});
}

TEST_CASE("cats that grow share memory") {
  TestGraph g;
  V x = g.input({1, 16, 6, 9});
  std::vector<V> all{relu(g, convolve(g, x, 16, 32, 3))};
  int64_t channels = 32;
  for (int k = 0; k < 4; k++, channels += 16) {
    V in = all.size() == 1 ? all[0] : cat(g, all);
    V mid = relu(g, g.b.call1("aten::mul.Tensor", {in, g.b.constant(mixed(DType::F32, {channels, 1, 1}, 5))}));
    all.push_back(convolve(g, mid, channels, 16, 3, 1, false));
  }
  g.returns(convolve(g, cat(g, all), channels, 8, 1));
  std::string text = lowered(g);
  CHECK(occurrences(text, "tenon::join") == 4);
  CHECK(occurrences(text, "edge::cat") == 0);
  CHECK(occurrences(text, "tenon::to_layout") == 2); // of the input and the output
  for (int threads : {1, 2}) compare(g, {{mixed(DType::F32, {1, 16, 6, 9}, 31)}}, {.threads = threads});
}

TEST_CASE("joined memory that others need") {
  // An operand that is an input, one that is given twice, one that is returned and one in two cats; a result over an
  // input of the step.
  TestGraph g;
  V x = g.input({2, 16, 5, 5}), a = relu(g, convolve(g, x, 16, 16, 3)), b = relu(g, convolve(g, a, 16, 32, 1)),
    c = convolve(g, b, 32, 48, 3);
  V first = cat(g, {a, b, b, c, x}), second = cat(g, {c, b, first});
  g.returns(a);
  g.returns(relu(g, convolve(g, first, 144, 9, 1)));
  g.returns(relu(g, second));
  g.returns(cat(g, {convolve(g, second, 224, 17, 1), c}));
  for (int threads : {1, 2}) compare(g, {{mixed(DType::F32, {2, 16, 5, 5}, 31)}}, {.threads = threads});
}

TEST_CASE("products joined along columns, rows and batches, sizes of the call") {
  for (int64_t dim : {0, 1, 2}) {
    TestGraph g;
    Expr n = g.symbol("n"), m = g.symbol("m");
    V x = g.input(std::vector<Expr>{n, m, g.b.integer(31)}), y = g.input(std::vector<Expr>{n, g.b.integer(31), g.b.integer(33)});
    V p = g.b.call1("aten::bmm.default", {x, y}),
      q = g.b.call1("aten::tanh.default", {g.b.call1("aten::bmm.default", {x, g.b.call1("aten::abs.default", {y})})});
    V all = cat(g, {p, q}, dim);
    g.returns(g.b.call1("aten::sum.dim_IntList", {all, {0}, false}));
    g.returns(g.b.call1("aten::softmax.int", {all, -1}));
    CHECK(occurrences(lowered(g), "tenon::join") == 1);
    std::vector<std::vector<Tensor>> calls;
    for (auto [a, b] : {std::pair<int64_t, int64_t>{2, 7}, {1, 1}, {3, 16}, {5, 130}, {0, 3}})
      calls.push_back({mixed(DType::F32, {a, b, 31}, 7), mixed(DType::F32, {a, 31, 33}, 11)});
    compare(g, calls, {.threads = 2});
  }
}

TEST_CASE("random networks with cats") {
  const char* many = std::getenv("TENON_DIFF_GRAPHS");
  uint32_t count = many ? static_cast<uint32_t>(std::atoi(many)) : 40;
  size_t joined = 0;
  for (uint32_t seed = 0; seed < count; seed++) {
    CAPTURE(seed);
    static constexpr DType types[] = {DType::F32, DType::F32, DType::F32, DType::BF16, DType::F64};
    RandomNetwork n(seed, types[seed % std::size(types)]);
    joined += occurrences(lowered(n.g), "tenon::join");
    compare(n.g, {{n.input}}, {.threads = 1 + static_cast<int>(seed % 3), .isa = seed % 4 == 3 ? Isa::Avx2 : Isa::Auto});
  }
  CHECK(joined > count / 2);
}

} // namespace tenon::join_test
