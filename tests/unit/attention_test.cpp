// Attention steps against the interpreter: sizes, masks, grouped heads, bounds of the keys, the ways models write it.
#include <random>

#include "compile/compile.h"
#include "emulated_tiles.h"
#include "graph_harness.h"
#include "runtime/attention.h"

namespace tenon::attention_test {
using namespace tenon::test;

namespace {

Tensor random(std::vector<int64_t> sizes, unsigned seed, double scale = 1) {
  std::mt19937 gen(seed);
  std::normal_distribution<double> normal(0, scale);
  return filled(DType::F32, std::move(sizes), [&](int64_t) { return normal(gen); });
}

int attentions(const TestGraph& g) {
  LoadedProgram p = g.p;
  lower(p, "backend");
  int n = 0;
  for (NodeId id : p.graph.block(p.graph.top()).nodes) n += p.graph.node(id).op == "tenon::attention";
  return n;
}

void compare_all(const TestGraph& g, const std::vector<std::vector<Tensor>>& calls, int expected = 1) {
  CHECK(attentions(g) == expected);
  compare(g, calls, {.threads = 1});
  compare(g, calls, {.threads = 2});
  compare(g, calls, {.threads = 2, .isa = Isa::Avx2});
}

struct Sizes {
  int64_t batch, heads, rows, keys, depth, columns;
};

V sdpa(TestGraph& g, V q, V k, V v, const Arg& mask = {}, bool causal = false, bool grouped = false) {
  return g.b.call1("aten::scaled_dot_product_attention", {q, k, v, mask, 0.0, causal}, {{"enable_gqa", grouped}});
}

} // namespace

TEST_CASE("attention of many sizes") {
  for (Sizes s : {Sizes{1, 1, 1, 2, 1, 2},
                  {1, 2, 5, 7, 3, 4},
                  {2, 3, 17, 19, 16, 16},
                  {1, 2, 73, 129, 64, 65},
                  {2, 2, 49, 49, 32, 32},
                  {1, 1, 2, 1500, 8, 3},
                  {1, 1, 1, 900, 40, 40},
                  {1, 2, 600, 31, 5, 7},
                  {2, 1, 0, 5, 4, 4},
                  {1, 3, 9, 700, 33, 130},
                  {1, 1, 97, 401, 256, 17}}) {
    CAPTURE(s.rows);
    CAPTURE(s.keys);
    CAPTURE(s.depth);
    for (bool causal : {false, true}) {
      TestGraph g;
      V q = g.input({s.batch, s.heads, s.rows, s.depth}), k = g.input({s.batch, s.heads, s.keys, s.depth}),
        v = g.input({s.batch, s.heads, s.keys, s.columns});
      g.returns(sdpa(g, q, k, v, {}, causal));
      compare_all(g,
                  {{random({s.batch, s.heads, s.rows, s.depth}, 1), random({s.batch, s.heads, s.keys, s.depth}, 2),
                    random({s.batch, s.heads, s.keys, s.columns}, 3)}},
                  s.rows > 0);
    }
  }
}

TEST_CASE("attention under masks, rows without keys included") {
  for (DType type : {DType::Bool, DType::F32})
    for (bool causal : {false, true}) {
      TestGraph g;
      V q = g.input({2, 3, 70, 16}), k = g.input({2, 3, 450, 16}), v = g.input({2, 3, 450, 20}), m = g.input({2, 1, 70, 450}, type);
      g.returns(sdpa(g, q, k, v, m, causal));
      Tensor mask = filled(type, {2, 1, 70, 450}, [&](int64_t i) {
        int64_t row = i / 450 % 70, key = i % 450;
        bool hidden = row == 3 || (row == 5 && key < 440) || (i * 7919) % 5 == 0;
        return type == DType::Bool ? !hidden : hidden ? -INFINITY : 0.25 * static_cast<double>(i % 3);
      });
      compare_all(g, {{random({2, 3, 70, 16}, 1), random({2, 3, 450, 16}, 2), random({2, 3, 450, 20}, 3), mask}});
    }
}

TEST_CASE("attention of grouped heads, and of one row against many keys") {
  for (int64_t rows : {1, 3, 40})
    for (int64_t kv : {1, 2, 4}) {
      TestGraph g;
      V q = g.input({2, 8, rows, 32}), k = g.input({2, kv, 1300, 32}), v = g.input({2, kv, 1300, 48});
      g.returns(sdpa(g, q, k, v, {}, rows > 1, true));
      compare_all(g, {{random({2, 8, rows, 32}, 1), random({2, kv, 1300, 32}, 2), random({2, kv, 1300, 48}, 3)}});
    }
}

TEST_CASE("attention of sizes known when it runs") {
  TestGraph g;
  Expr b = g.symbol("b"), n = g.symbol("n"), m = g.symbol("m");
  V q = g.input({b, g.b.integer(2), m, g.b.integer(24)}), k = g.input({b, g.b.integer(2), n, g.b.integer(24)}),
    v = g.input({b, g.b.integer(2), n, g.b.integer(24)});
  g.returns(sdpa(g, q, k, v, {}, true));
  std::vector<std::vector<Tensor>> calls;
  for (auto [bs, rows, keys] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 5, 9}, {3, 200, 801}, {2, 1, 64}, {0, 4, 4}, {1, 0, 4}, {2, 300, 17}})
    calls.push_back({random({bs, 2, rows, 24}, 1), random({bs, 2, keys, 24}, 2), random({bs, 2, keys, 24}, 3)});
  compare_all(g, calls);
}

TEST_CASE("attention as models write it") {
  // Heads split off [B, S, H*D] by views, scale on q, a table of biases, windows masked by groups, the result back in
  // [B, S, H*D].
  TestGraph g;
  V x = g.input({6, 49, 3, 4, 32}), bias = g.input({4, 49, 49}), mask = g.input({3, 49, 49});
  auto part = [&](int64_t i) { return g.b.permute(g.b.select(x, 2, g.b.integer(i)), {0, 2, 1, 3}); };
  V q = g.b.call1("aten::mul.Scalar", {part(0), 0.17}), k = part(1), v = part(2);
  V scores = g.b.matmul(q, g.b.transpose(k, -2, -1)) + g.b.unsqueeze(bias, 0);
  scores = g.b.call1("aten::view", {scores, {2, 3, 4, 49, 49}}) + g.b.unsqueeze(g.b.unsqueeze(mask, 1), 0);
  V weights = g.b.call1("aten::softmax.int", {g.b.call1("aten::view", {scores, {6, 4, 49, 49}}), -1});
  V out = g.b.call1("aten::reshape", {g.b.permute(g.b.matmul(weights, v), {0, 2, 1, 3}), {6, 49, 128}});
  g.returns(g.b.call1("aten::mul.Scalar", {out, 2.0}));
  compare_all(g, {{random({6, 49, 3, 4, 32}, 1), random({4, 49, 49}, 2), random({3, 49, 49}, 3)}});
}

TEST_CASE("attention with the softmax that gives rows without keys nothing") {
  TestGraph g;
  V q = g.input({2, 5, 8}), k = g.input({2, 9, 8}), v = g.input({2, 9, 8}), m = g.input({5, 9});
  V scores = g.b.call1("aten::bmm", {q, g.b.transpose(k, 1, 2)}) + m;
  g.returns(g.b.call1("aten::bmm", {g.b.call1("aten::_safe_softmax", {scores, -1}), v}));
  Tensor mask = filled(DType::F32, {5, 9}, [](int64_t i) { return i / 9 == 2 || i % 3 == 1 ? -INFINITY : 0; });
  compare_all(g, {{random({2, 5, 8}, 1), random({2, 9, 8}, 2), random({2, 9, 8}, 3), mask}});
}

TEST_CASE("attention whose mask is made of indices") {
  for (bool fill : {false, true}) {
    TestGraph g;
    V q = g.input({2, 150, 20}), k = g.input({2, 500, 20}), v = g.input({2, 500, 20});
    V row = g.b.unsqueeze(g.b.arange(g.b.integer(150), DType::I64), 1), key = g.b.arange(g.b.integer(500), DType::I64);
    V scores = g.b.call1("aten::div.Scalar", {g.b.call1("aten::bmm", {q, g.b.transpose(k, 1, 2)}), 4.5});
    V distance = key - row;
    V hidden =
        g.b.call1("aten::logical_or", {g.b.call1("aten::gt.Scalar", {distance, 300}), g.b.call1("aten::lt.Scalar", {distance, 200})});
    if (fill) scores = g.b.call1("aten::masked_fill.Scalar", {scores, hidden, -INFINITY});
    else scores = scores + g.b.where(hidden, g.b.scalar(-INFINITY, DType::F32), g.b.scalar(0.0, DType::F32));
    scores = g.b.call1("aten::mul.Scalar", {g.b.call1("aten::tanh", {g.b.call1("aten::mul.Scalar", {scores, 0.05})}), 20.0});
    scores = g.b.where(hidden, g.b.scalar(-INFINITY, DType::F32), scores);
    g.returns(g.b.call1("aten::bmm", {g.b.call1("aten::softmax.int", {scores, -1}), v}));
    compare_all(g, {{random({2, 150, 20}, 1), random({2, 500, 20}, 2), random({2, 500, 20}, 3)}});
  }
}

TEST_CASE("attention that is none: weights needed by others, numbers that are not finite") {
  TestGraph g;
  V q = g.input({2, 5, 8}), k = g.input({2, 9, 8}), v = g.input({2, 9, 8});
  V weights = g.b.call1("aten::softmax.int", {g.b.call1("aten::bmm", {q, g.b.transpose(k, 1, 2)}), -1});
  g.returns(g.b.call1("aten::bmm", {weights, v}));
  g.returns(weights);
  Tensor bad = random({2, 5, 8}, 1);
  bad.data_as<float>()[3] = NAN, bad.data_as<float>()[17] = INFINITY;
  compare_all(g, {{bad, random({2, 9, 8}, 2), random({2, 9, 8}, 3)}}, 0);
  TestGraph h;
  q = h.input({2, 5, 8}), k = h.input({2, 9, 8}), v = h.input({2, 9, 8});
  h.returns(sdpa(h, q, k, v));
  compare_all(h, {{bad, random({2, 9, 8}, 2), random({2, 9, 8}, 3)}});
}

TEST_CASE("attention of reduced floats") {
  for (DType type : {DType::BF16, DType::F16})
    for (Sizes s : {Sizes{1, 2, 5, 7, 3, 4},
                    {2, 3, 17, 19, 16, 16},
                    {1, 2, 73, 129, 64, 65},
                    {1, 1, 1, 900, 40, 40},
                    {1, 3, 9, 700, 33, 130},
                    {1, 2, 200, 600, 80, 48}})
      for (bool causal : {false, true}) {
        CAPTURE(s.rows);
        CAPTURE(s.keys);
        TestGraph g;
        V q = g.input({s.batch, s.heads, s.rows, s.depth}, type), k = g.input({s.batch, s.heads, s.keys, s.depth}, type),
          v = g.input({s.batch, s.heads, s.keys, s.columns}, type);
        g.returns(sdpa(g, q, k, v, {}, causal));
        auto make = [&](int64_t rows, int64_t columns, int64_t salt) {
          return filled(type, {s.batch, s.heads, rows, columns},
                        [&](int64_t i) { return static_cast<double>((i * 31 + salt) % 113 - 56) / 40; });
        };
        compare_all(g, {{make(s.rows, s.depth, 1), make(s.keys, s.depth, 2), make(s.keys, s.columns, 3)}});
      }
}

namespace {

// Softmax of scaled scores, and its result, as the generated kernels compute them.
struct Softmax {
  float scale;
  int64_t stride, out_stride, rows, columns;
  std::vector<float> out;

  static void score(void* context, const AttentionTile& t) {
    auto& s = *static_cast<Softmax*>(context);
    for (int64_t i = 0; i < t.m1 - t.m0; i++) {
      float *row = t.scores + i * s.stride, top = t.top[i];
      for (int64_t k = 0; k < t.n1 - t.n0; k++) top = std::max(top, row[k] * s.scale);
      t.correction[i] = std::exp(t.top[i] - top);
      t.top[i] = top, t.sum[i] *= t.correction[i];
      for (int64_t k = 0; k < t.n1 - t.n0; k++) t.sum[i] += row[k] = std::exp(row[k] * s.scale - top);
    }
  }
  static void finish(void* context, const AttentionTile& t) {
    auto& s = *static_cast<Softmax*>(context);
    for (int64_t i = 0; i < t.m1 - t.m0; i++)
      for (int64_t n = 0; n < s.columns; n++)
        s.out[static_cast<size_t>((t.batch * s.rows + t.m0 + i) * s.columns + n)] = t.out[i * s.out_stride + n] / t.sum[i];
  }
};

std::vector<double> attend(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v, Sizes s,
                           double scale) {
  auto at = [](const std::vector<double>& x, int64_t i) { return x[static_cast<size_t>(i)]; };
  std::vector<double> out;
  for (int64_t b = 0; b < s.batch; b++)
    for (int64_t m = 0; m < s.rows; m++) {
      std::vector<double> weights, sums(static_cast<size_t>(s.columns), 0);
      double total = 0;
      for (int64_t key = 0; key < s.keys; key++) {
        double score = 0;
        for (int64_t d = 0; d < s.depth; d++) score += at(q, (b * s.rows + m) * s.depth + d) * at(k, (b * s.keys + key) * s.depth + d);
        total += std::exp(score * scale);
        for (int64_t n = 0; n < s.columns; n++)
          sums[static_cast<size_t>(n)] += std::exp(score * scale) * at(v, (b * s.keys + key) * s.columns + n);
      }
      for (double x : sums) out.push_back(x / total);
    }
  return out;
}

} // namespace

TEST_CASE("attention on tile registers") {
  EmulatedTiles tiles;
  for (Sizes s :
       {Sizes{1, 1, 20, 30, 16, 16}, {2, 1, 16, 64, 64, 64}, {3, 1, 75, 129, 40, 33}, {1, 1, 200, 500, 64, 80}, {2, 1, 9, 700, 33, 130}})
    for (int threads : {1, 2}) {
      CAPTURE(s.rows);
      Tensor q = random({s.batch, s.rows, s.depth}, 1), k = random({s.batch, s.keys, s.depth}, 2),
             v = random({s.batch, s.keys, s.columns}, 3);
      auto narrow = [](const Tensor& t) { return filled(DType::BF16, {t.numel()}, [&](int64_t i) { return t.data_as<float>()[i]; }); };
      Tensor q16 = narrow(q), k16 = narrow(k), v16 = narrow(v);
      AttentionCall c;
      c.digits[3] = s.batch;
      c.rows = s.rows, c.keys = s.keys, c.depth = s.depth, c.columns = s.columns;
      auto view = [](const Tensor& t, int64_t rows, int64_t columns) {
        AttentionOperandView o{.data = t.data(), .type = DType::BF16, .row = columns};
        o.batch[3] = rows * columns;
        return o;
      };
      c.q = view(q16, s.rows, s.depth), c.k = view(k16, s.keys, s.depth), c.v = view(v16, s.keys, s.columns);
      c.block_keys = attention_block_keys(s.keys), c.score_stride = attention_score_stride(c.block_keys);
      Softmax softmax{.scale = 0.2f,
                      .stride = c.score_stride,
                      .out_stride = (s.columns + 15) / 16 * 16,
                      .rows = s.rows,
                      .columns = s.columns,
                      .out = std::vector<float>(static_cast<size_t>(s.batch * s.rows * s.columns))};
      c.context = &softmax, c.score = Softmax::score, c.finish = Softmax::finish;
      Workers workers(threads);
      std::vector<char> scratch(static_cast<size_t>(attention_scratch(tiles.table(), {}, workers, c)) + 64);
      void* aligned = scratch.data();
      size_t space = scratch.size();
      run_attention(tiles.table(), {}, workers, c, std::align(64, space - 64, aligned, space));
      std::vector<double> want = attend(numbers(q16), numbers(k16), numbers(v16), s, 0.2);
      int64_t wrong = 0;
      for (size_t i = 0; i < want.size(); i++) wrong += !(std::abs(static_cast<double>(softmax.out[i]) - want[i]) < 0.02);
      CHECK(wrong == 0);
    }
}

TEST_CASE("attention of grouped heads in reduced floats") {
  for (DType t : {DType::BF16, DType::F16})
    for (int64_t rows : {1, 80}) {
      TestGraph g;
      V q = g.input({2, 4, rows, 24}, t), k = g.input({2, 2, 420, 24}, t), v = g.input({2, 2, 420, 40}, t);
      g.returns(sdpa(g, q, k, v, {}, false, true));
      auto of = [&](std::vector<int64_t> sizes, unsigned seed) {
        std::vector<double> x = numbers(random(sizes, seed));
        return filled(t, sizes, [&](int64_t i) { return x[static_cast<size_t>(i)]; });
      };
      compare_all(g, {{of({2, 4, rows, 24}, 1), of({2, 2, 420, 24}, 2), of({2, 2, 420, 40}, 3)}});
    }
}

} // namespace tenon::attention_test
