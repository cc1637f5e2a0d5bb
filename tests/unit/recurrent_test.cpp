// Recurrent layers and what they are made of: scans as series of phases, products whose columns are read by slices.
#include <atomic>
#include <thread>

#include "runtime/parallel.h"
#include "tests/unit/graph_harness.h"

namespace tenon::recurrent_test {
using namespace tenon::test;

namespace {

Tensor wave(DType t, std::vector<int64_t> sizes, double step) {
  return filled(t, std::move(sizes), [&](int64_t i) { return 0.4 * std::sin(step * static_cast<double>(i + 1)); });
}

struct Layer {
  const char* op;
  int64_t gates, input, hidden, layers = 1;
  bool bidirectional = false, batch_first = false, biases = true, constant = true;
  DType dtype = DType::F32;
};

/// A layer of any length and batch, with its states as inputs.
TestGraph recurrent(const Layer& l) {
  TestGraph g;
  Expr steps = g.symbol("t"), batch = g.symbol("b");
  int64_t directions = l.bidirectional ? 2 : 1;
  auto integer = [&](int64_t n) { return g.b.integer(n); };
  V x = l.batch_first ? g.input({batch, steps, integer(l.input)}, l.dtype) : g.input({steps, batch, integer(l.input)}, l.dtype);
  std::vector<Expr> state{integer(l.layers * directions), batch, integer(l.hidden)};
  bool lstm = l.gates == 4;
  Arg h = g.input(state, l.dtype);
  if (lstm) h = ArgList{h, g.input(state, l.dtype)};
  ArgList params;
  double step = 0.1;
  for (int64_t layer = 0; layer < l.layers; layer++)
    for (int64_t d = 0; d < directions; d++) {
      std::vector<std::vector<int64_t>> sizes{{l.gates * l.hidden, layer ? directions * l.hidden : l.input},
                                              {l.gates * l.hidden, l.hidden}};
      if (l.biases) sizes.insert(sizes.end(), 2, {l.gates * l.hidden});
      for (auto& s : sizes) {
        step += 0.37;
        Tensor w = wave(l.dtype, s, step);
        params.push_back(l.constant ? g.b.constant(w) : g.buffer("w" + std::to_string(params.size()), w));
      }
    }
  for (V y : g.b.call(l.op, {x, h, params, l.biases, static_cast<int>(l.layers), 0.0, false, l.bidirectional, l.batch_first})) g.returns(y);
  return g;
}

std::vector<Tensor> inputs_of(const Layer& l, int64_t steps, int64_t batch) {
  int64_t directions = l.bidirectional ? 2 : 1;
  std::vector<int64_t> state{l.layers * directions, batch, l.hidden};
  std::vector<Tensor> in{wave(l.dtype, l.batch_first ? std::vector{batch, steps, l.input} : std::vector{steps, batch, l.input}, 0.7),
                         wave(l.dtype, state, 1.3)};
  if (l.gates == 4) in.push_back(wave(l.dtype, state, 1.9));
  return in;
}

void check(const Layer& l, Options options = {},
           std::vector<std::pair<int64_t, int64_t>> sizes = {{3, 2}, {1, 1}, {0, 3}, {4, 13}, {2, 0}, {5, 1}}) {
  INFO(l.op, " hidden ", l.hidden, " dtype ", name_of(l.dtype), " threads ", options.threads);
  std::vector<std::vector<Tensor>> calls;
  for (auto& [steps, batch] : sizes) calls.push_back(inputs_of(l, steps, batch));
  compare(recurrent(l), calls, options);
}

constexpr Layer lstm{"aten::lstm.input", 4, 5, 17}, gru{"aten::gru.input", 3, 5, 17}, tanh_layer{"aten::rnn_tanh.input", 1, 5, 17},
    relu_layer{"aten::rnn_relu.input", 1, 5, 17};

int count(const Program& p, const std::string& what) {
  std::string text = p.dump("backend", {}).value();
  int n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at++) n++;
  return n;
}

V columns(TestGraph& g, V x, int64_t from, int64_t to) { return g.b.slice(x, -1, g.b.integer(from), g.b.integer(to - from)); }

} // namespace

TEST_CASE("series: each part of a phase once, after the phase before") {
  for (int threads : {1, 2, 5}) {
    Workers workers(threads);
    auto one = [&](int64_t phases, int parts) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(phases * parts));
      std::atomic<int64_t> done{0};
      std::atomic<int> early{0};
      workers.run_series(phases, parts, [&](int64_t phase, int part, int worker) {
        if (done.load() < phase * parts || worker < 0 || worker >= threads) early++;
        workers.run(3, 1, [](int64_t, int64_t, int) {});
        runs[static_cast<size_t>(phase * parts + part)]++;
        done++;
      });
      CHECK(early == 0);
      CHECK(std::all_of(runs.begin(), runs.end(), [](auto& r) { return r == 1; }));
    };
    for (int64_t phases : {0, 1, 2, 500})
      for (int parts = 1; parts <= threads; parts++) one(phases, parts);
    std::vector<std::thread> callers;
    for (int c = 0; c < 3; c++) callers.emplace_back([&] { one(300, threads); });
    for (auto& t : callers) t.join();
  }
}

TEST_CASE("recurrent layers: every kind, size and dtype") {
  for (Layer l : {lstm, gru, tanh_layer, relu_layer})
    for (int64_t hidden : {1, 7, 8, 16, 31, 33}) {
      l.hidden = hidden;
      check(l);
    }
  for (DType t : {DType::F64, DType::BF16, DType::F16})
    for (Layer l : {lstm, gru, tanh_layer}) {
      l.dtype = t;
      check(l);
    }
}

TEST_CASE("recurrent layers: layers, directions, weights that are not constant") {
  for (Layer l : {lstm, gru}) {
    l.layers = 2, l.bidirectional = true, l.batch_first = true;
    check(l);
    l.biases = false, l.layers = 1;
    check(l);
    l.constant = false;
    check(l, {}, {{3, 2}, {0, 1}});
  }
}

TEST_CASE("recurrent layers: a state of another dtype than the input is refused") {
  TestGraph g;
  V x = g.input({3, 2, 4}), h = g.input({1, 2, 5}), c = g.input({1, 2, 5}, DType::U8), w = g.input({20, 4}), u = g.input({20, 5});
  ArgList args{x, ArgList{h, c}, ArgList{w, u}, false, 1, 0.0, false, false, false};
  CHECK_THROWS_WITH_AS(g.b.call("aten::lstm.input", args), "aten::lstm.input: the input is f32, a state u8", Error);
}

TEST_CASE("recurrent layers: threads and instructions") {
  for (Layer l : {lstm, gru, tanh_layer}) {
    l.hidden = 120;
    for (int threads : {1, 2, 3})
      for (Isa isa : {Isa::Auto, Isa::Avx2}) check(l, {.threads = threads, .isa = isa}, {{7, 1}, {4, 5}, {2, 33}});
    l.hidden = 33;
    check(l, {.profile = true}); // steps one after the other
  }
}

TEST_CASE("recurrent layers: the gates are computed where the product is") {
  CHECK(count(recurrent(lstm).program(), "[slices=4]") == 1);
  CHECK(count(recurrent(gru).program(), "[slices=3]") == 1);
  CHECK(count(recurrent(tanh_layer).program(), "[slices") == 0);
}

TEST_CASE("scans: carried values exchanged, passed on, and stacked twice") {
  for (bool reverse : {false, true}) {
    TestGraph g;
    Expr s = g.symbol("s0");
    V xs = g.input({s, g.b.integer(300)}), a = g.input({300}), b = g.input({300}), w = g.b.constant(wave(DType::F32, {300, 300}, 0.01));
    auto out = g.b.scan({a, b, a, b}, {xs}, reverse, [&](const std::vector<V>& c, const std::vector<V>& x) {
      V row = g.b.call1("aten::view.default", {c[0], ArgList{1, 300}});
      V next = g.b.call1("aten::view.default", {g.b.call1("aten::tanh.default", {g.b.call1("aten::mm.default", {row, w})}), ArgList{300}}) +
               x[0];
      return std::vector{c[1], next, c[2], next, next, next, c[0], x[0], a};
    });
    for (V v : out) g.returns(v);
    std::vector<std::vector<Tensor>> calls;
    for (int64_t n : {3, 0, 1, 2, 8})
      calls.push_back({wave(DType::F32, {n, 300}, 0.3), wave(DType::F32, {300}, 0.5), wave(DType::F32, {300}, 0.9)});
    compare(g, calls);
  }
}

TEST_CASE("slices of a product's columns: gated layers, and products that stay whole") {
  struct Case {
    int64_t columns;
    int slices; // regions that read side by side
    std::function<void(TestGraph&, V)> use;
  };
  auto sigmoid = [](TestGraph& g, V x) { return g.b.call1("aten::sigmoid.default", {x}); };
  std::vector<Case> cases{
      {40, 1, [&](TestGraph& g, V y) { g.returns(sigmoid(g, columns(g, y, 0, 20)) * columns(g, y, 20, 40)); }},
      {40, 1,
       [&](TestGraph& g, V y) { // one slice twice, the other not at all
         V z = columns(g, g.b.call1("aten::gelu.default", {y + Arg(1)}), 20, 40);
         g.returns(z * sigmoid(g, z));
       }},
      {99, 1, [&](TestGraph& g, V y) { g.returns(columns(g, y, 66, 99) - columns(g, y, 33, 66) * columns(g, y, 0, 33)); }},
      {32, 0, [&](TestGraph& g, V y) { g.returns(columns(g, y, 0, 16) * columns(g, y, 16, 32)), g.returns(y); }},
      {32, 0, [&](TestGraph& g, V y) { g.returns(columns(g, y, 0, 16)), g.returns(columns(g, y, 16, 32)); }},
      {32, 0, [&](TestGraph& g, V y) { g.returns(sigmoid(g, columns(g, y, 4, 20)) * columns(g, y, 16, 32)); }},
      {32, 0,
       [&](TestGraph& g, V y) {
         g.returns(g.b.call1("aten::sum.dim_IntList", {sigmoid(g, columns(g, y, 0, 16)) * columns(g, y, 16, 32), ArgList{1}}));
       }},
      {32, 0,
       [&](TestGraph& g, V y) { // what becomes of one half has other places
         g.returns(g.b.call1("aten::permute.default", {sigmoid(g, columns(g, y, 0, 16)), ArgList{1, 0}}));
         g.returns(columns(g, y, 16, 32) * Arg(2));
       }},
  };
  for (DType t : {DType::F32, DType::F64, DType::BF16})
    for (size_t k = 0; k < cases.size(); k++) {
      INFO("case ", k);
      TestGraph g;
      V x = g.input({g.symbol("s0"), g.b.integer(24)}, t);
      cases[k].use(g, g.b.call1("aten::mm.default", {x, g.b.constant(wave(t, {24, cases[k].columns}, 0.21))}));
      std::vector<std::vector<Tensor>> calls;
      for (int64_t n : {1, 0, 5, 64, 131}) calls.push_back({wave(t, {n, 24}, 0.17)});
      for (Isa isa : {Isa::Auto, Isa::Avx2}) compare(g, calls, {.isa = isa});
      if (k < 6) CHECK(count(g.program(), "[slices") == cases[k].slices);
    }
}

TEST_CASE("a layer as oneDNN has it is that of an LSTM, in either direction") {
  TestGraph g;
  V x = g.input({g.symbol("t"), g.symbol("b"), g.b.integer(5)});
  V h = g.input({g.b.integer(1), x.size(1), g.b.integer(7)}), c = g.input({g.b.integer(1), x.size(1), g.b.integer(7)});
  auto weights = [&](double step) {
    std::vector<V> w;
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{28, 5}, {28, 7}, {28}, {28}})
      w.push_back(g.b.constant(wave(DType::F32, sizes, step += 0.3)));
    return w;
  };
  std::vector<V> ahead = weights(0.1), back = weights(1.7);
  ArgList params(ahead.begin(), ahead.end());
  params.insert(params.end(), back.begin(), back.end());
  auto layer = [&](const std::vector<V>& w, bool reverse, int64_t mode, bool train) {
    return g.b.call("aten::mkldnn_rnn_layer.default",
                    {x, w[0], w[1], w[2], w[3], h, c, reverse, ArgList{}, mode, int64_t{7}, 1, true, true, false, train});
  };
  Values one = layer(ahead, false, 2, false), two = layer(back, true, 2, false);
  ArgList hx{g.b.call1("aten::cat.default", {ArgList{h, h}, 0}), g.b.call1("aten::cat.default", {ArgList{c, c}, 0})};
  Values all = g.b.call("aten::lstm.input", {x, hx, params, true, 1, 0.0, false, true, false});
  for (size_t i = 0; i < 3; i++) {
    g.returns(g.b.call1("aten::cat.default", {ArgList{one[i], two[i]}, i == 0 ? 2 : 0}));
    g.returns(all[i]);
  }
  g.returns(one[3]);
  Executable exe = g.program().compile().value();
  for (int64_t steps : {1, 6}) {
    std::vector<Tensor> out =
        run(exe, {wave(DType::F32, {steps, 3, 5}, 0.7), wave(DType::F32, {1, 3, 7}, 1.3), wave(DType::F32, {1, 3, 7}, 1.9)});
    for (size_t i = 0; i < 6; i += 2) CHECK(difference(out[i], out[i + 1], 1e-6) == "");
    CHECK(out[6].numel() == 0);
  }
  CHECK_THROWS(layer(ahead, false, 3, false)); // a GRU
  CHECK_THROWS(layer(ahead, false, 2, true));
}

} // namespace tenon::recurrent_test
