// What plans do with memory: values that share or outlive it, state, control flow, sizes known late, many threads.
#include <set>
#include <thread>

#include "tests/unit/graph_harness.h"

namespace tenon::plan_test {
using namespace tenon::test;

namespace {

using Branch = std::function<std::vector<V>(Builder&)>;

Tensor flag(bool v) {
  return filled(DType::Bool, {}, [&](int64_t) { return v; });
}
V less(TestGraph& g, V a, const Arg& c) { return g.b.call1("aten::lt.Scalar", {a, c}); }

} // namespace

TEST_CASE("views beside library steps are the same memory, and no steps") {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s, g.b.integer(6)});
  V sums = g.b.call1("aten::cumsum", {g.b.reshape(x, {s * 2.0, g.b.integer(3)}), 0}), again = g.b.call1("aten::cumsum", {sums, 1});
  V view = g.b.reshape(again, {s * 6.0});
  g.returns(view);
  std::string plan = g.program().dump("plan").value();
  CHECK_MESSAGE((plan.find("view") == std::string::npos && plan.find("copy") == std::string::npos), plan);
  compare(g, {{counting(DType::F32, {4, 6})}, {counting(DType::F32, {1, 6})}, {counting(DType::F32, {0, 6})}});
  for (V v : {again, view, g.b.reshape(x, {s * 3.0, g.b.integer(2)}), g.b.reshape(view, {s, g.b.integer(6)})}) g.returns(v);
  compare(g, {{counting(DType::F32, {4, 6})}, {counting(DType::F32, {17, 6})}});
  std::vector<Tensor> in{counting(DType::F32, {4, 6})}, out = run(g.program().compile().value(), in);
  for (size_t i = 0; i < out.size(); i++) {
    CHECK(out[i].data() != in[0].data());
    for (size_t k = 0; k < i; k++) CHECK(out[i].data() != out[k].data());
  }
}

TEST_CASE("values returned twice, inputs and constants returned") {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s, g.b.integer(3)}), y = x + Arg(1), c = g.b.constant(counting(DType::F32, {5}));
  for (V v : {y, x, y, c, x, c}) g.returns(v);
  g.returns(s);
  g.returns(s + 1.0);
  compare(g, {{counting(DType::F32, {4, 3})}, {counting(DType::F32, {0, 3})}, {counting(DType::F32, {17, 3})}});
  // What is returned is the caller's: a later call does not change it.
  Executable e = g.program().compile().value();
  auto first = run(e, {counting(DType::F32, {4, 3})});
  auto second = run(e, {counting(DType::F32, {4, 3}, 100)});
  CHECK(numbers(first[0])[0] == 1);
  CHECK(numbers(first[1])[0] == 0);
  CHECK(numbers(second[1])[0] == 100);
  CHECK(first[0].data() != first[2].data());
  // Outputs as inputs of the next call, in the same vector.
  std::vector<Tensor> loop{counting(DType::F32, {4, 3})};
  for (int i = 0; i < 3; i++) {
    e.run(std::vector{loop[0]}, loop).check();
    CHECK(numbers(loop[0])[0] == i + 1);
  }
  // So do views into them, from the second row on too; other results are let go and their memory serves again.
  std::vector<int64_t> sizes{2, 3};
  for (int64_t from : {0, 3}) {
    std::vector<Tensor> outputs = run(e, {counting(DType::F32, {4, 3})});
    TensorView part{DType::F32, outputs[0].data_as<float>() + from, sizes, {}};
    e.run(std::span(&part, 1), outputs).check();
    CHECK(numbers(outputs[0]) == numbers(counting(DType::F32, {2, 3}, 2.0 + static_cast<double>(from))));
  }
  std::vector<Tensor> again = run(e, {counting(DType::F32, {4, 3})}), given{counting(DType::F32, {4, 3}, 5)};
  std::set<void*> before;
  for (const Tensor& t : again) before.insert(t.data());
  e.run(given, again).check();
  CHECK(before.contains(again[0].data()));
  CHECK(numbers(again[0])[0] == 6);
}

TEST_CASE("mutated buffers: written back, returned, swapped") {
  TestGraph g;
  V a = g.buffer("a", counting(DType::F32, {3})), b = g.buffer("b", counting(DType::F32, {3}, 10)), x = g.input({3});
  V next = a + x;
  g.mutates("a", b);
  g.mutates("b", next);
  g.returns(next);
  g.returns(a);
  g.returns(b);
  Tensor one = filled(DType::F32, {3}, [](int64_t) { return 1; });
  compare(g, {{one}, {one}, {one}});
  Executable e = g.program().compile().value();
  auto r = run(e, {one});
  auto r2 = run(e, {one});
  CHECK(numbers(r[1]) == std::vector<double>{0, 1, 2});
  CHECK(numbers(r2[1]) == std::vector<double>{10, 11, 12});
  CHECK(numbers(r2[2]) == std::vector<double>{1, 2, 3});
}

TEST_CASE("branches: values from outside, nested, inputs returned as they are") {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s}), p = g.input({}, DType::Bool), q = g.input({}, DType::Bool);
  V doubled = x * Arg(2), kept = x - Arg(7);
  V y = if_(
      g, p,
      [&] {
        V inner = doubled + Arg(1);
        return if_(g, q, [&] { return inner * doubled; }, [&] { return x; }, x.type());
      },
      [&] { return g.b.call1("aten::sin.default", {kept}); }, x.type());
  g.returns(y + kept);
  g.returns(y);
  std::vector<std::vector<Tensor>> calls;
  for (int k = 0; k < 4; k++)
    for (int64_t n : {0, 1, 33}) calls.push_back({counting(DType::F32, {n}), flag(k & 1), flag(k & 2)});
  compare(g, calls);
}

TEST_CASE("library steps and control flow read a convolution's result in row-major memory") {
  TestGraph g;
  Expr s = g.symbol("s0", 1);
  V x = g.input({g.b.integer(1), g.b.integer(4), s, g.b.integer(5)}), p = g.input({}, DType::Bool);
  V weight = g.b.constant(filled(DType::F32, {4, 4, 3, 3}, [](int64_t i) { return static_cast<double>(i % 7) / 8 - 0.25; }));
  auto conv = [&](V v) { return g.b.call1("aten::conv2d.default", {v, weight, Arg(), {1, 1}, {1, 1}}); };
  V y = conv(x);
  g.returns(g.b.call1("aten::cumsum.default", {y, 2}));
  g.returns(g.b.call("aten::sort.default", {y * Arg(2), 3})[0]);
  V z = if_(g, p, [&] { return conv(g.b.call1("aten::cumsum.default", {y, 1})); }, [&] { return y; }, y.type());
  g.returns(g.b.call1("aten::cumsum.default", {z, 3}));
  g.returns(while_(
      g, {y, g.b.call1("aten::relu.default", {y})},
      [&](const std::vector<V>& c) { return less(g, g.b.call1("aten::amax.default", {c[0], ArgList{}}), 50); },
      [&](const std::vector<V>& c) { return std::vector{g.b.call1("aten::abs.default", {c[0]}) * Arg(2) + Arg(1), conv(c[0])}; })[1]);
  std::vector<std::vector<Tensor>> calls;
  for (int64_t n : {1, 2, 17})
    for (bool b : {false, true}) calls.push_back({counting(DType::F32, {1, 4, n, 5}, -9), flag(b)});
  compare(g, calls);
}

TEST_CASE("loops: carried values exchanged, captured values, loops inside loops") {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s}), limit = g.input({}, DType::I64);
  V captured = g.b.call1("aten::cos.default", {x});
  V i = g.b.full({}, 0, DType::I64);
  auto below = [&](const std::vector<V>& c) { return g.b.call1("aten::lt.Tensor", {c[0], limit}); };
  auto out = while_(g, {i, x, captured}, below, [&](const std::vector<V>& c) {
    V j = g.b.full({}, 0, DType::I64);
    auto inner = while_(
        g, {j, c[1]}, [&](const std::vector<V>& d) { return less(g, d[0], 2); },
        [&](const std::vector<V>& d) { return std::vector{d[0] + Arg(1), d[1] + captured * Arg(0.5)}; });
    return std::vector{c[0] + Arg(1), c[2], inner[1]}; // exchanged
  });
  for (V v : out) g.returns(v);
  g.returns(captured + out[1]);
  std::vector<std::vector<Tensor>> calls;
  for (int64_t n : {1, 7, 0, 65})
    for (int k : {0, 1, 4}) calls.push_back({counting(DType::F32, {n}), filled(DType::I64, {}, [&](int64_t) { return k; })});
  compare(g, calls);
}

TEST_CASE("scans: forwards, backwards, inside one another, over nothing") {
  for (bool reverse : {false, true}) {
    TestGraph g;
    Expr s = g.symbol("s0");
    V xs = g.input({s, g.b.integer(4), g.b.integer(3)}), w = g.input({3});
    V carried = g.b.call1("aten::zeros.default", {Arg(ArgList{3})});
    V hoisted = w * Arg(2);
    auto out = g.b.scan({carried}, {xs}, reverse, [&](const std::vector<V>& c, const std::vector<V>& x) {
      auto inner = g.b.scan({c[0]}, {x[0]}, !reverse, [&](const std::vector<V>& d, const std::vector<V>& row) {
        V next = d[0] * Arg(0.5) + row[0] * hoisted;
        return std::vector{next, next + w};
      });
      return std::vector{inner[0], inner[1], x[0]};
    });
    for (V v : out) g.returns(v);
    g.returns(hoisted);
    std::vector<std::vector<Tensor>> calls;
    for (int64_t n : {3, 0, 1, 9}) calls.push_back({counting(DType::F32, {n, 4, 3}), counting(DType::F32, {3})});
    compare(g, calls);
  }
}

TEST_CASE("sizes found while running feed kernels, products and their scratch") {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s, g.b.integer(33)}), w = g.input({33, 40});
  V mask = g.b.call1("aten::gt.Scalar", {g.b.select(x, 1, g.b.integer(0)), 0});
  V rows = g.b.call1("aten::nonzero.default", {mask});
  V index = g.b.reshape(rows, {rows.size(0)});
  V picked = g.b.call1("aten::index_select.default", {x, 0, index});
  V y = g.b.call1("aten::softmax.int", {g.b.matmul(picked, w), -1});
  V gram = g.b.matmul(g.b.transpose(picked, 0, 1), picked); // reduces over the size that was found
  for (V v : {rows, picked, y, gram}) g.returns(v);
  g.returns(rows.size(0));
  auto input = [](int64_t n, int every) {
    return filled(DType::F32, {n, 33}, [=](int64_t i) { return (i / 33) % every == 0 ? 1 + static_cast<double>(i % 5) : -1.; });
  };
  Tensor weights = filled(DType::F32, {33, 40}, [](int64_t i) { return std::sin(static_cast<double>(i)); });
  std::vector<std::vector<Tensor>> calls;
  for (int64_t n : {2, 700, 0, 3, 64}) calls.push_back({input(n, 2), weights}), calls.push_back({input(n, 1), weights});
  // The same sizes, other counts.
  calls.push_back({input(700, 7), weights});
  calls.push_back({input(700, 1), weights});
  compare(g, calls);
}

TEST_CASE("constant sizes beside sizes found while running: no code is made in calls") {
  TestGraph g;
  V image = g.input({1, 16, 20, 20}),
    weight = g.buffer("w", filled(DType::F32, {16, 1, 3, 3}, [](int64_t i) { return 0.1 * (i % 9) - 0.3; }));
  V y = g.b.call1("aten::convolution.default", {image, weight, Arg(), {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 16});
  V flat = g.b.reshape(y, {g.b.integer(6400)});
  g.returns(y);
  g.returns(g.b.call1("aten::nonzero.default", {g.b.call1("aten::gt.Scalar", {flat, 1.5})}));
  Program program = g.program();
  Executable native = program.compile().value();
  uint64_t code = Executable::pieces_of_code();
  Tensor x = counting(DType::F32, {1, 16, 20, 20}, -4);
  std::vector<Tensor> got = run(native, {x});
  CHECK(Executable::pieces_of_code() == code);
  std::vector<Tensor> want = run(program.compile({.interpret = true}).value(), {x});
  for (size_t i = 0; i < want.size(); i++) CHECK(difference(got.at(i), want[i]) == "");
}

TEST_CASE("sizes that go up and down between calls; 0-d and empty tensors") {
  TestGraph g;
  Expr s = g.symbol("s0"), t = g.symbol("s1");
  V x = g.input({s, t}), y = g.input({t, s}), z = g.input({});
  V m = g.b.matmul(x, y), n = g.b.call1("aten::softmax.int", {m, -1});
  V r = g.b.sum(n * z, {1}, false), total = g.b.call1("aten::sum.default", {x * x});
  for (V v : {m, n, r, total, g.b.call1("aten::cat.default", {ArgList{x, g.b.transpose(y, 0, 1)}, 0})}) g.returns(v);
  std::vector<std::vector<Tensor>> calls;
  for (auto [a, b] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {65, 3}, {2, 129}, {0, 5}, {5, 0}, {0, 0}, {64, 64}, {1, 1}, {33, 17}})
    calls.push_back({filled(DType::F32, {a, b}, [](int64_t i) { return std::cos(static_cast<double>(i)); }),
                     filled(DType::F32, {b, a}, [](int64_t i) { return std::sin(static_cast<double>(i)); }),
                     filled(DType::F32, {}, [](int64_t) { return 3; })});
  compare(g, calls);
}

TEST_CASE("sums of millions of terms keep their digits") {
  for (bool dynamic : {false, true}) {
    TestGraph g;
    int64_t rows = 700000;
    V x = g.input({dynamic ? g.symbol("s0") : g.b.integer(rows), g.b.integer(9)});
    g.returns(g.b.call1("aten::sum.default", {x}));
    g.returns(g.b.call1("aten::sum.dim_IntList", {x * Arg(0.5), {0}}));
    g.returns(g.b.call1("aten::mean.dim", {g.b.transpose(x, 0, 1), {1}}));
    for (Isa isa : {Isa::Avx2, Isa::Auto}) {
      Executable e = g.program().compile({.isa = isa}).value();
      auto out = run(e, {filled(DType::F32, {rows, 9}, [](int64_t) { return 12.3125; })}); // each sum would be rounded to the same side
      CHECK(std::fabs(numbers(out[0])[0] / (12.3125 * 9 * static_cast<double>(rows)) - 1) < 2e-6);
      for (double v : numbers(out[1])) CHECK(std::fabs(v / (12.3125 / 2 * static_cast<double>(rows)) - 1) < 2e-6);
      for (double v : numbers(out[2])) CHECK(std::fabs(v / 12.3125 - 1) < 2e-6);
    }
  }
}

TEST_CASE("kernels of more than a hundred operands") {
  TestGraph g;
  ArgList parts;
  std::vector<Tensor> inputs;
  for (int k = 0; k < 120; k++) parts.push_back(g.input({k % 3 + 1, 5})), inputs.push_back(counting(DType::F32, {k % 3 + 1, 5}, 100 * k));
  g.returns(g.b.call1("aten::cat.default", {parts, 0}));
  compare(g, {inputs});
}

TEST_CASE("inputs of any strides and alignment") {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s, g.b.integer(6)}), w = g.input({6, 6});
  g.returns(g.b.matmul(x, w));
  g.returns(x * Arg(3));
  Executable native = g.program().compile().value();
  Tensor big = counting(DType::F32, {400}), eye = filled(DType::F32, {6, 6}, [](int64_t i) { return i % 7 == 0; });
  struct Layout {
    int64_t start, s0, s1;
  };
  for (Layout l : {Layout{0, 6, 1}, {0, 1, 9}, {399, -20, -2}, {60, 0, 1}, {0, 0, 0}, {100, -6, 1}, {1, 12, 2}})
    for (size_t shift : {0, 1, 2}) { // bytes: floats need not be aligned
      std::vector<char> raw(400 * 4 + 8);
      std::memcpy(raw.data() + shift, big.data(), 1600);
      int64_t sizes[2] = {7, 6}, strides[2] = {l.s0, l.s1}, wsizes[2] = {6, 6};
      TensorView views[2] = {{DType::F32, raw.data() + shift + l.start * 4, sizes, strides}, {DType::F32, eye.data(), wsizes, {}}};
      std::vector<Tensor> out;
      native.run(views, out).check();
      for (int64_t i = 0; i < 7; i++)
        for (int64_t j = 0; j < 6; j++) {
          auto want = static_cast<float>(l.start + i * l.s0 + j * l.s1);
          CHECK(out[0].data_as<float>()[i * 6 + j] == want);
          CHECK(out[1].data_as<float>()[i * 6 + j] == 3 * want);
        }
    }
}

TEST_CASE("errors name the input, the dim and the range") {
  TestGraph g;
  Expr s = g.b.pool().symbol("s0", DType::I64, 3, 20);
  V x = g.input({s, g.b.integer(4)}), y = g.input({s + 1.0}, DType::I64);
  g.returns(x * Arg(2));
  g.returns(y);
  for (bool interpret : {false, true}) {
    Executable e = g.program().compile({.interpret = interpret}).value();
    auto message = [&](const std::vector<Tensor>& inputs) {
      std::vector<Tensor> out;
      Status status = e.run(inputs, out);
      CHECK(!status.ok());
      return status.ok() ? std::string() : std::string(status.error().what());
    };
    auto says = [&](const std::vector<Tensor>& inputs, std::initializer_list<std::string_view> words) {
      std::string m = message(inputs);
      for (auto w : words) CHECK_MESSAGE(m.find(w) != m.npos, m, " should say ", w);
    };
    Tensor x5 = counting(DType::F32, {5, 4}), y6 = counting(DType::I64, {6});
    says({x5}, {"1", "2"});
    says({x5, y6, y6}, {"3", "2"});
    says({counting(DType::F64, {5, 4}), y6}, {"x0", "f64", "f32"});
    says({counting(DType::F32, {5}), y6}, {"x0", "rank"});
    says({counting(DType::F32, {5, 3}), y6}, {"x0", "dim 1", "4"});
    says({counting(DType::F32, {2, 4}), counting(DType::I64, {3})}, {"x0", "dim 0", "3", "20"});
    says({counting(DType::F32, {21, 4}), counting(DType::I64, {22})}, {"x0", "dim 0", "21", "20"});
    says({x5, counting(DType::I64, {5})}, {"x1", "dim 0", "6"});
    CHECK(numbers(run(e, {x5, y6})[0])[1] == 2); // still in order
  }
}

TEST_CASE("sizes that would be negative or overflow are errors, not memory") {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s});
  V big = g.b.call1("aten::zeros.default",
                    {Arg(ArgList{s * static_cast<double>(int64_t{1} << 40), s * static_cast<double>(int64_t{1} << 30)})});
  g.returns(big + Arg(1));
  g.returns(x);
  Executable e = g.program().compile().value();
  std::vector<Tensor> out;
  CHECK(!e.run(std::vector{counting(DType::F32, {2})}, out).ok());
  CHECK(e.run(std::vector{counting(DType::F32, {0})}, out).ok());
}

TEST_CASE("many threads in one executable, each with sizes of its own") {
  for (bool state : {false, true}) {
    TestGraph g;
    Expr s = g.symbol("s0");
    V x = g.input({s, g.b.integer(40)}), w = g.input({40, 40});
    V y = g.b.matmul(g.b.call1("aten::softmax.int", {x, -1}), w) + Arg(1);
    g.returns(y);
    if (state) {
      V count = g.buffer("count", filled(DType::F32, {}, [](int64_t) { return 0; })), now = count + Arg(1);
      g.mutates("count", now);
      g.returns(now);
    }
    Program program = g.program();
    Executable native = program.compile().value(), oracle = program.compile({.interpret = true}).value();
    Tensor weights = filled(DType::F32, {40, 40}, [](int64_t i) { return std::sin(static_cast<double>(i)); });
    constexpr int threads = 6, rounds = 30;
    std::vector<Tensor> inputs, expected;
    for (int k = 0; k < threads; k++) {
      inputs.push_back(filled(DType::F32, {k * 11 + 1, 40}, [&](int64_t i) { return std::cos(static_cast<double>(i + k)); }));
      expected.push_back(run(oracle, {inputs.back(), weights})[0]);
    }
    std::vector<std::string> wrong(threads);
    std::vector<std::thread> pool;
    for (int k = 0; k < threads; k++)
      pool.emplace_back([&, k] {
        for (int r = 0; r < rounds && wrong[static_cast<size_t>(k)].empty(); r++) {
          size_t i = static_cast<size_t>((k + r) % threads);
          wrong[static_cast<size_t>(k)] = difference(run(native, {inputs[i], weights})[0], expected[i]);
        }
      });
    for (auto& t : pool) t.join();
    for (auto& w : wrong) CHECK(w == "");
    if (state) CHECK(numbers(run(native, {inputs[0], weights})[1])[0] == threads * rounds + 1);
  }
}

TEST_CASE("sizes that must be equal, and are told to be only by the program, are looked at") {
  struct Case {
    std::function<V(TestGraph&, V, V)> make;
    std::vector<std::vector<int64_t>> good, bad; // sizes of the two inputs, [s0, 3] and [s1, 3]
  };
  auto expand = [](TestGraph& g, V x, V y) { return g.b.expand(x, y.sizes()) * Arg(2); };
  auto product_ = [](TestGraph& g, V x, V y) { return g.b.matmul(g.b.transpose(x, 0, 1), y); };
  auto view = [](TestGraph& g, V x, V y) { return g.b.reshape(x, {g.b.integer(3), y.sizes()[0]}) + Arg(1); };
  auto put = [](TestGraph& g, V x, V y) { return g.b.call1("aten::slice_scatter.default", {x, y, 0, 1, x.sizes()[0]}); };
  auto strided = [](TestGraph& g, V x, V y) {
    return g.b.call1("aten::as_strided.default", {x, ArgList{y.sizes()[0]}, ArgList{3}, 2}) + Arg(1);
  };
  const Case cases[] = {{[](TestGraph&, V x, V y) { return x + y; }, {{4, 4}, {0, 0}}, {{4, 3}, {3, 4}, {0, 2}}},
                        {expand, {{5, 5}}, {{5, 4}, {4, 5}}},
                        {product_, {{7, 7}}, {{7, 6}, {6, 7}}},
                        {view, {{4, 4}}, {{4, 5}, {5, 4}}},
                        {put, {{5, 4}}, {{5, 3}, {5, 5}}},
                        {strided, {{5, 5}, {5, 2}}, {{5, 6}, {2, 9}}}};
  for (auto& c : cases)
    for (bool interpret : {false, true}) {
      TestGraph g;
      V x = g.input({g.symbol("s0"), g.b.integer(3)}), y = g.input({g.symbol("s1"), g.b.integer(3)});
      g.returns(c.make(g, x, y));
      Executable e = g.program().compile({.interpret = interpret}).value();
      auto run_with = [&](const std::vector<int64_t>& s) {
        std::vector<Tensor> out;
        return e.run(std::vector{counting(DType::F32, {s[0], 3}), counting(DType::F32, {s[1], 3})}, out);
      };
      for (auto& s : c.good) CHECK_MESSAGE(run_with(s).ok(), (&c - cases), " ", s[0], " ", s[1]);
      for (auto& s : c.bad) {
        Status status = run_with(s);
        REQUIRE_MESSAGE(!status.ok(), (&c - cases), " ", s[0], " ", s[1]);
        CHECK(status.error().kind == ErrorKind::BadInput);
        CHECK(std::string(status.error().what()).find("do not fit") != std::string::npos);
      }
    }
}

TEST_CASE("padding by more than there is, and resampling of nothing, are refused") {
  struct Case {
    const char* op;
    std::vector<int64_t> sizes; // the last dim is asked for at these sizes; those from the first good one on are taken
    size_t refused;
  };
  const Case cases[] = {{"aten::reflection_pad1d.default", {0, 1, 2, 3, 4, 7}, 4}, {"aten::_pad_circular.default", {0, 1, 2, 3, 4, 7}, 3},
                        {"aten::replication_pad1d.default", {0, 1, 2, 7}, 1},      {"aten::upsample_nearest1d.default", {0, 1, 5}, 1},
                        {"aten::_upsample_nearest_exact1d.default", {0, 1, 5}, 1}, {"aten::upsample_linear1d.default", {0, 1, 5}, 1}};
  for (auto& c : cases)
    for (bool is_dynamic : {false, true})
      for (size_t i = 0; i < c.sizes.size(); i++)
        for (bool interpret : {false, true}) {
          TestGraph g;
          V x = g.input({g.b.integer(2), g.b.integer(3), is_dynamic ? g.symbol("s0") : g.b.integer(c.sizes[i])});
          bool pads = std::string_view(c.op).find("pad") != std::string_view::npos;
          ArgList args{x, pads ? ArgList{2, 3} : ArgList{4}};
          if (std::string_view(c.op).find("linear") != std::string_view::npos) args.push_back(false);
          g.returns(g.b.call1(c.op, args) + Arg(1));
          Tensor input = counting(DType::F32, {2, 3, c.sizes[i]});
          if (i >= c.refused) {
            compare(g, {{input}});
            continue;
          }
          std::vector<Tensor> out;
          Status status = g.program().compile({.interpret = interpret}).value().run(std::vector{input}, out);
          REQUIRE_MESSAGE(!status.ok(), c.op, " ", c.sizes[i], " ", interpret);
          CHECK(status.error().kind == ErrorKind::BadInput);
        }
}

TEST_CASE("random steps of one program draw apart, two runs alike") {
  TestGraph g;
  V a = g.b.call1("aten::rand.default", {Arg(ArgList{100})}), b = g.b.call1("aten::rand.default", {Arg(ArgList{100})});
  g.returns(a), g.returns(b);
  compare(g, {{}, {}});
  Executable e = g.program().compile({.seed = 7}).value();
  auto r = run(e, {});
  CHECK(numbers(r[0]) != numbers(r[1]));
}

TEST_CASE("elements that stored indices pick out of stored tensors are picked once, in the order of dims that is read") {
  auto graph = [](int64_t n, int64_t heads, bool computed) {
    TestGraph g;
    V x = g.input({g.symbol("s0"), g.b.integer(heads), g.b.integer(n), g.b.integer(n)});
    V table = g.b.constant(filled(DType::F32, {2 * n - 1, heads}, [](int64_t i) { return std::sin(static_cast<double>(i)); }));
    if (computed) table = g.b.call1("aten::mm", {table, g.b.constant(counting(DType::F32, {heads, heads}))});
    V index = g.b.constant(filled(DType::I64, {n * n}, [n](int64_t i) { return i / n - i % n + n - 1; }));
    V bias = g.b.call1("aten::view", {g.b.call1("aten::index.Tensor", {table, ArgList{index}}), ArgList{n, n, heads}});
    bias = g.b.call1("aten::unsqueeze", {g.b.call1("aten::permute", {bias, ArgList{2, 0, 1}}), 0});
    V other = g.b.constant(counting(DType::F32, {4 * n * n * heads})); // weights enough
    g.returns(x + bias);
    g.returns(other);
    return g;
  };
  for (int64_t n : {1, 2, 7, 33})
    for (int64_t heads : {1, 3, 8})
      for (bool computed : {false, true})
        compare(graph(n, heads, computed), {{counting(DType::F32, {2, heads, n, n})}, {counting(DType::F32, {0, heads, n, n})}});
}

} // namespace tenon::plan_test
