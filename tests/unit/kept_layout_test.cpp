// What keeps the memory of convolutions: norms of groups, resized images, rows permuted to images; and stacks of constant matrices.
#include <algorithm>
#include <tuple>

#include "tests/unit/graph_harness.h"
#include "tests/unit/occurrences.h"

namespace tenon::kept_layout_test {
using namespace tenon::test;

namespace {

Tensor mixed(DType t, std::vector<int64_t> sizes, int64_t step = 31) {
  return filled(t, std::move(sizes), [&](int64_t i) { return static_cast<double>(i * step % 251 - 125) / 64; });
}

V convolve(Builder& b, V x, V w, int64_t spatial) {
  auto all = [&](int64_t v) { return std::vector<int64_t>(static_cast<size_t>(spatial), v); };
  return b.call1("aten::convolution.default",
                 {x, w, Arg(), all(1), all(w.rank() > 2 && w.size(2) == b.integer(3)), all(1), false, all(0), 1});
}

struct Group {
  std::vector<int64_t> sizes; // of an image, channels at 1
  int64_t groups;
};

/// Group norm of a convolution's result and what its statistics are; of the input as it is where the graph is `plain`.
TestGraph normed(const Group& s, DType t, bool plain, bool dynamic = false) {
  TestGraph g;
  Builder& b = g.b;
  std::vector<Expr> sizes;
  for (int64_t n : s.sizes) sizes.push_back(b.integer(n));
  if (dynamic) sizes[0] = g.symbol("s0"), sizes.back() = g.symbol("s1", 2);
  int64_t channels = s.sizes[1], spatial = static_cast<int64_t>(s.sizes.size()) - 2;
  V x = g.input(sizes, t), y = x;
  if (!plain) {
    std::vector<int64_t> one(s.sizes.size(), 1);
    one[0] = one[1] = channels;
    y = b.call1("aten::relu.default", {convolve(b, x, b.constant(mixed(t, one, 17)), spatial)});
  }
  Arg weight = b.constant(mixed(t, {channels}, 7)), bias = b.constant(mixed(t, {channels}, 5));
  Expr pixels = b.integer(1);
  for (size_t d = 2; d < sizes.size(); d++) pixels = pixels * sizes[d];
  Values n = b.call("aten::native_group_norm.default", {y, weight, bias, sizes[0], channels, pixels, s.groups, 1e-5});
  if (!plain) g.returns(y);
  for (const V& v : n) g.returns(v);
  g.returns(b.call1("aten::group_norm.default", {y, s.groups, Arg(), bias, 1e-3, false}));
  return g;
}

} // namespace

TEST_CASE("norms of a convolution's groups are those of any tensor's, channel by channel") {
  for (const Group& s : {Group{{2, 12, 7, 9}, 4}, Group{{1, 32, 16, 17}, 8}, Group{{3, 6, 31}, 1}, Group{{1, 10, 64}, 10},
                         Group{{2, 8, 3, 5, 4}, 2}, Group{{1, 7, 1, 1}, 7}, Group{{1, 6, 130}, 3}})
    for (DType t : {DType::F32, DType::BF16, DType::F64})
      for (bool dynamic : {false, true}) {
        CAPTURE(s.sizes);
        CAPTURE(name_of(t));
        TestGraph made = normed(s, t, false, dynamic), plain = normed(s, t, true, dynamic);
        std::vector<Tensor> x{mixed(t, s.sizes)};
        compare(made, {x});
        auto got = run(made.program().compile({.interpret = true}).value(), x);
        auto want = run(plain.program().compile({.interpret = true}).value(), {got[0]});
        REQUIRE(got.size() == want.size() + 1);
        for (size_t i = 0; i < want.size(); i++)
          CHECK_MESSAGE(difference(got[i + 1], want[i], t == DType::BF16 ? 1e-2 : 1e-4) == "", "output ", i);
      }
}

TEST_CASE("groups of a convolution's channels are summed where they lie") {
  for (int64_t groups : {3, 12}) {
    TestGraph g;
    V x = g.input({1, 12, 20, 24}), y = convolve(g.b, x, g.b.constant(mixed(DType::F32, {12, 12, 3, 3})), 2);
    V n = g.b.call1("aten::group_norm.default", {y, groups, Arg(), Arg(), 1e-5, false});
    g.returns(convolve(g.b, n, g.b.constant(mixed(DType::F32, {12, 12, 3, 3}, 11)), 2));
    std::string text = g.program().dump("backend").value();
    CHECK_MESSAGE(occurrences(text, "tenon::to_layout") == 1, text); // of the input
    compare(g, {{mixed(DType::F32, {1, 12, 20, 24})}});
  }
}

TEST_CASE("rows permuted to images are channels-last for the convolution behind") {
  for (bool lines : {false, true})
    for (bool dynamic : {false, true})
      for (bool direct : {false, true}) {
        CAPTURE(lines);
        CAPTURE(dynamic);
        TestGraph g;
        Builder& b = g.b;
        Expr n = dynamic ? g.symbol("s0") : b.integer(2);
        V rows = g.input(lines ? std::vector{n, b.integer(35), b.integer(24)} : std::vector{n, b.integer(5), b.integer(7), b.integer(24)});
        V image = b.call1("aten::gelu", {rows});
        image =
            lines ? b.reshape(b.permute(image, {0, 2, 1}), {n, b.integer(24), b.integer(5), b.integer(7)}) : b.permute(image, {0, 3, 1, 2});
        V large = direct ? image : b.call1("aten::upsample_bilinear2d.default", {image, {10, 14}, false});
        V all = b.call1("aten::cat.default", {ArgList{large, large * Arg(0.5)}, 1});
        g.returns(b.call1("aten::relu.default", {convolve(b, all, b.constant(mixed(DType::F32, {31, 48, 3, 3})), 2)}));
        g.returns(image + Arg(1.0));
        std::string text = g.program().dump("backend").value();
        CHECK_MESSAGE(occurrences(text, "tenon::to_layout") == 1, text); // of the second result
        std::vector<std::vector<Tensor>> calls;
        for (int64_t images : {2, 1, 3})
          if (dynamic || images == 2)
            calls.push_back({lines ? mixed(DType::F32, {images, 35, 24}) : mixed(DType::F32, {images, 5, 7, 24})});
        compare(g, calls);
      }
}

namespace {

/// x [batch, rows, k] by a stack [matrices, k, n] given as it is, turned, or as heads of rows [n, matrices * k]; of more batches than
/// matrices, each matrix comes again.
TestGraph stacked(int64_t batch, int64_t matrices, std::tuple<int64_t, int64_t, int64_t> sizes, DType t, int form, bool dynamic) {
  auto [rows, k, n] = sizes;
  TestGraph g;
  Builder& b = g.b;
  V x = g.input({b.integer(batch), dynamic ? g.symbol("s0") : b.integer(rows), b.integer(k)}, t), w;
  if (form == 0) w = b.constant(mixed(t, {matrices, k, n}, 13));
  else if (form == 1) w = b.permute(b.constant(mixed(t, {matrices, n, k}, 13)), {0, 2, 1});
  else w = b.permute(b.reshape(b.constant(mixed(t, {n, matrices * k}, 13)), {b.integer(n), b.integer(matrices), b.integer(k)}), {1, 2, 0});
  if (batch > matrices) {
    std::vector<Expr> again{b.integer(batch / matrices), b.integer(matrices), b.integer(k), b.integer(n)};
    w = b.reshape(b.expand(b.unsqueeze(w, 0), again), {b.integer(batch), b.integer(k), b.integer(n)});
  }
  g.returns(b.call1("aten::bmm.default", {x, w}));
  g.returns(b.call1("aten::relu.default", {b.call1("aten::bmm.default", {x * Arg(0.5), w})}));
  return g;
}

} // namespace

TEST_CASE("a stack of constant matrices is packed once, as one is") {
  for (auto [batch, matrices] : {std::pair<int64_t, int64_t>{6, 6}, {8, 4}, {3, 1}, {1, 1}, {0, 0}})
    for (std::tuple<int64_t, int64_t, int64_t> sizes : {std::tuple{65, 64, 129}, {1, 33, 70}, {200, 7, 16}, {31, 130, 1}, {15, 48, 512}})
      for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16})
        for (int form : {0, 1, 2})
          for (bool dynamic : {false, true}) {
            auto [rows, k, n] = sizes;
            CAPTURE(batch);
            CAPTURE(matrices);
            CAPTURE(rows);
            CAPTURE(name_of(t));
            CAPTURE(form);
            TestGraph g = stacked(batch, matrices, sizes, t, form, dynamic);
            bool ahead = g.program().dump("kernels").value().find("B packed ") != std::string::npos;
            CHECK((ahead || matrices <= 1 || form != 1 || rows != 65)); // columns along k, which many rows pay to turn
            std::vector<std::vector<Tensor>> calls{{mixed(t, {batch, rows, k})}};
            for (int64_t other : {1, 17})
              if (dynamic) calls.push_back({mixed(t, {batch, other, k})});
            compare_each(g, calls, {{.threads = 1}, {.threads = 2, .isa = Isa::Avx2}});
          }
}

} // namespace tenon::kept_layout_test
