// Derivatives against central differences in f64: <grad, f(x + hv) - f(x - hv)> / 2h is <backward(grad), v>.
#include "tests/unit/graph_harness.h"

namespace tenon::backward_ops_test {
using namespace tenon::test;

namespace {

using Sizes = std::vector<int64_t>;
using Forward = std::function<V(Builder&, V x)>;
using Backward = std::function<V(Builder&, V grad, V x)>;

/// Dynamic: the last size is not known.
void check_gradient(Sizes in, const Forward& forward, const Backward& backward, bool dynamic = false) {
  constexpr double h = 1e-5;
  TestGraph g;
  std::vector<Expr> sizes;
  for (int64_t n : in) sizes.push_back(g.b.integer(n));
  if (dynamic) sizes.back() = g.symbol("s0");
  V x = g.input(sizes, DType::F64), v = g.input(sizes, DType::F64), seed = g.input({1009}, DType::F64);
  V up = forward(g.b, x + v * Arg(h)), down = forward(g.b, x - v * Arg(h));
  V grad = g.b.reshape(g.b.slice(seed, 0, g.b.integer(0), product(g.b.pool(), up.sizes())), up.sizes());
  V back = backward(g.b, grad, x);
  CHECK(back.sizes() == x.sizes());
  g.returns(g.b.call1("aten::sum.default", {grad * (up - down)}));
  g.returns(g.b.call1("aten::sum.default", {back * v}));
  auto wave = [](double step) { return [=](int64_t i) { return std::sin(step * static_cast<double>(i) + 0.3); }; };
  std::vector<Tensor> inputs{filled(DType::F64, in, wave(1.7)), filled(DType::F64, in, wave(0.9)), filled(DType::F64, {1009}, wave(2.3))},
      out;
  Executable exe = g.program().compile().value();
  exe.run(inputs, out).check();
  double want = out[0].data_as<double>()[0] / (2 * h), got = out[1].data_as<double>()[0];
  CHECK(std::fabs(want) > 1e-3); // or it would show nothing
  CHECK(got == doctest::Approx(want).epsilon(1e-6));
}

V first(Values values) { return values.at(0); }
const ArgList all_three{true, true, true};

} // namespace

TEST_CASE("derivatives of sampling at a grid's points") {
  for (bool corners : {false, true})
    for (int64_t padding : {0, 1, 2})
      for (auto [dims, mode] : {std::pair<size_t, int64_t>{2, 0}, {2, 1}, {2, 2}, {3, 0}, {3, 1}}) {
        CAPTURE(corners);
        CAPTURE(padding);
        CAPTURE(dims);
        CAPTURE(mode);
        std::vector<int64_t> image{2, 3, 5, 4, 3}, points{2, 3, 4, 2, 3};
        if (dims == 2) image.pop_back(), points = {2, 3, 4, 2};
        std::string name = fmt::format("aten::grid_sampler_{}d", dims);
        auto other = [](Builder& b, const std::vector<int64_t>& sizes, double step) {
          return b.constant(filled(DType::F64, sizes, [=](int64_t i) { return 1.3 * std::sin(step * static_cast<double>(i) + 0.2); }));
        };
        auto sample = [&](Builder& b, V x, V grid) { return b.call1(name, {x, grid, mode, padding, corners}); };
        auto back = [&](Builder& b, V grad, V x, V grid, bool of_input) {
          Values both = b.call(name + "_backward", {grad, x, grid, mode, padding, corners, ArgList{of_input, !of_input}});
          return both.at(of_input ? 0 : 1);
        };
        check_gradient(
            image, [&](Builder& b, V x) { return sample(b, x, other(b, points, 0.4)); },
            [&](Builder& b, V grad, V x) { return back(b, grad, x, other(b, points, 0.4), true); });
        if (mode != 1) // places do not move with the points
          check_gradient(
              points, [&](Builder& b, V grid) { return sample(b, other(b, image, 0.7), grid * Arg(1.3)); },
              [&](Builder& b, V grad, V grid) { return back(b, grad, other(b, image, 0.7), grid * Arg(1.3), false) * Arg(1.3); });
      }
}

TEST_CASE("derivatives of sampling refuse operands that do not fit") {
  auto refused = [](Sizes grad, Sizes x, Sizes grid, DType t = DType::F32) {
    TestGraph g;
    auto input = [&](const Sizes& sizes, DType of) {
      std::vector<Expr> as;
      for (int64_t n : sizes) as.push_back(g.b.integer(n));
      return g.input(as, of);
    };
    ArgList args{input(grad, DType::F32), input(x, DType::F32), input(grid, t), 0, 0, false, ArgList{true, true}};
    try {
      g.b.call("aten::grid_sampler_2d_backward", args);
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  CHECK(!refused({2, 3, 4, 5}, {2, 3, 7, 6}, {2, 4, 5, 2}));
  CHECK(refused({2, 3, 5, 4}, {2, 3, 7, 6}, {2, 4, 5, 2})); // as many points
  CHECK(refused({2, 3, 4, 5}, {2, 3, 7, 6}, {1, 4, 5, 2}));
  CHECK(refused({2, 1, 4, 5}, {2, 3, 7, 6}, {2, 4, 5, 2}));
  CHECK(refused({2, 3, 4, 5}, {2, 3, 7, 6}, {2, 4, 5, 3}));
  CHECK(refused({2, 3, 4, 5}, {2, 3, 7, 6}, {2, 4, 5, 2}, DType::F64));
  CHECK(refused({2, 3, 4}, {2, 3, 7}, {2, 4, 1}));
}

TEST_CASE("derivatives of distances between rows") {
  for (double p : {0.5, 1.0, 1.5, 2.0, 3.0, static_cast<double>(INFINITY)}) {
    CAPTURE(p);
    auto other = [](Builder& b) {
      return b.constant(filled(DType::F64, {2, 4, 6}, [](int64_t i) { return std::cos(0.8 * static_cast<double>(i)); }));
    };
    check_gradient(
        {2, 3, 6}, [&](Builder& b, V x) { return b.call1("aten::cdist", {x, other(b), p}); },
        [&](Builder& b, V grad, V x) {
          return b.call1("aten::_cdist_backward", {grad, x, other(b), p, b.call1("aten::cdist", {x, other(b), p})});
        });
    check_gradient(
        {7, 5}, [&](Builder& b, V x) { return b.call1("aten::pdist", {x, p}); },
        [&](Builder& b, V grad, V x) { return b.call1("aten::_pdist_backward", {grad, x, p, b.call1("aten::pdist", {x, p})}); });
  }
}

TEST_CASE("derivatives of activations") {
  for (const char* name : {"mish", "silu", "gelu", "softshrink", "hardshrink"}) {
    INFO(name);
    bool edge = std::string(name).ends_with("shrink");
    ArgList more = edge ? ArgList{0.25} : ArgList{};
    auto call = [&](Builder& b, const std::string& op, ArgList args) {
      args.insert(args.end(), more.begin(), more.end());
      return b.call1(op, args);
    };
    check_gradient(
        {3, 7}, [&](Builder& b, V x) { return call(b, fmt::format("aten::{}", name), {x}); },
        [&](Builder& b, V grad, V x) { return call(b, fmt::format("aten::{}_backward", name), {grad, x}); });
  }
  check_gradient(
      {3, 8}, [](Builder& b, V x) { return b.call1("aten::glu", {x, 1}); },
      [](Builder& b, V grad, V x) { return b.call1("aten::glu_backward", {grad, x, 1}); });
  check_gradient(
      {3, 7}, [](Builder& b, V x) { return b.call1("aten::log_softmax.int", {x, 1}); },
      [](Builder& b, V grad, V x) {
        return b.call1("aten::_log_softmax_backward_data", {grad, b.call1("aten::log_softmax.int", {x, 1}), 1, DType::F64});
      });
}

TEST_CASE("derivatives of normalisations") {
  check_gradient(
      {2, 3, 5}, [](Builder& b, V x) { return first(b.call("aten::native_layer_norm", {x, {3, 5}, Arg(), Arg(), 1e-5})); },
      [](Builder& b, V grad, V x) {
        Values y = b.call("aten::native_layer_norm", {x, {3, 5}, Arg(), Arg(), 1e-5});
        return first(b.call("aten::native_layer_norm_backward", {grad, x, {3, 5}, y[1], y[2], Arg(), Arg(), all_three}));
      });
  check_gradient(
      {2, 6, 3}, [](Builder& b, V x) { return first(b.call("aten::native_group_norm", {x, Arg(), Arg(), 2, 6, 3, 2, 1e-5})); },
      [](Builder& b, V grad, V x) {
        Values y = b.call("aten::native_group_norm", {x, Arg(), Arg(), 2, 6, 3, 2, 1e-5});
        return first(b.call("aten::native_group_norm_backward", {grad, x, y[1], y[2], Arg(), 2, 6, 3, 2, all_three}));
      });
}

TEST_CASE("derivatives of convolutions, by input and by weight") {
  struct Case {
    Sizes x, w;
    int64_t stride, padding, dilation;
    bool transposed;
    int64_t output_padding, groups;
  };
  for (const Case& k : {Case{{2, 4, 9}, {6, 2, 3}, 2, 1, 1, false, 0, 2}, Case{{2, 4, 8}, {3, 4, 2}, 3, 0, 2, false, 0, 1},
                        Case{{2, 4, 5}, {4, 3, 3}, 2, 1, 1, true, 1, 1}, Case{{1, 4, 5}, {4, 1, 2}, 1, 0, 3, true, 0, 2}}) {
    auto convolve = [&](Builder& b, V x, V w) {
      return b.call1("aten::convolution", {x, w, Arg(), {k.stride}, {k.padding}, {k.dilation}, k.transposed, {k.output_padding}, k.groups});
    };
    auto backward = [&](Builder& b, V grad, V x, V w) {
      return b.call("aten::convolution_backward",
                    {grad, x, w, Arg(), {k.stride}, {k.padding}, {k.dilation}, k.transposed, {k.output_padding}, k.groups, all_three});
    };
    auto constant = [](Builder& b, Sizes sizes) {
      return b.constant(filled(DType::F64, sizes, [](int64_t i) { return std::cos(static_cast<double>(i)); }));
    };
    check_gradient(
        k.x, [&](Builder& b, V x) { return convolve(b, x, constant(b, k.w)); },
        [&](Builder& b, V grad, V x) { return backward(b, grad, x, constant(b, k.w))[0]; });
    check_gradient(
        k.w, [&](Builder& b, V w) { return convolve(b, constant(b, k.x), w); },
        [&](Builder& b, V grad, V w) { return backward(b, grad, constant(b, k.x), w)[1]; });
  }
}

TEST_CASE("gradients of convolutions over images of any size are those of the sizes that are known") {
  struct Case {
    Sizes w; // of 4 channels
    int64_t stride, padding, dilation, groups;
  };
  for (const Case& k : {Case{{4, 1, 3, 3}, 1, 1, 1, 4}, Case{{8, 1, 5, 5}, 2, 2, 1, 4}, Case{{4, 1, 3, 2}, 3, 0, 1, 4},
                        Case{{4, 1, 3, 3}, 1, 2, 2, 4}, Case{{6, 4, 3, 3}, 1, 1, 1, 1}, Case{{6, 2, 3, 3}, 2, 1, 1, 2}})
    for (DType type : {DType::F32, DType::BF16})
      for (auto [h, w] : {std::pair<int64_t, int64_t>{7, 6}, {8, 31}, {25, 26}}) {
        auto given = [&](int64_t n, size_t d) { return (n + 2 * k.padding - k.dilation * (k.w[d] - 1) - 1) / k.stride + 1; };
        Sizes of_x{2, 4, h, w}, of_grad{2, k.w[0], given(h, 2), given(w, 3)};
        auto results = [&](bool known, DType of) {
          TestGraph g;
          auto size = [&](const char* name, int64_t n) { return known ? g.b.integer(n) : g.symbol(name, 1); };
          Expr batch = size("s0", 2);
          std::vector<Expr> of_w;
          for (int64_t n : k.w) of_w.push_back(g.b.integer(n));
          V x = g.input({batch, g.b.integer(4), size("s1", h), size("s2", w)}, of),
            grad = g.input({batch, g.b.integer(k.w[0]), size("s3", of_grad[2]), size("s4", of_grad[3])}, of), weight = g.input(of_w, of);
          for (V y :
               g.b.call("aten::convolution_backward",
                        {grad, x, weight, Arg(), {k.stride}, {k.padding}, {k.dilation}, false, {0}, k.groups, ArgList{true, true, false}}))
            if (y) g.returns(y);
          auto wave = [&](const Sizes& sizes) { return filled(of, sizes, [](int64_t i) { return static_cast<double>(i % 7 - 3); }); };
          return run(g.program().compile({.threads = 1}).value(), {wave(of_x), wave(of_grad), wave(k.w)});
        };
        std::vector<Tensor> got = results(false, type), want = results(true, DType::F64);
        for (size_t i = 0; i < 2; i++) {
          std::vector<double> is = numbers(got[i]), should = numbers(want[i]);
          CHECK(got[i].sizes() == want[i].sizes());
          double most = 1, worst = 0;
          for (size_t j = 0; j < should.size(); j++)
            most = std::max(most, std::fabs(should[j])), worst = std::max(worst, std::fabs(is[j] - should[j]));
          CHECK(worst <= most * (type == DType::F32 ? 1e-5 : 4e-3));
        }
      }
}

TEST_CASE("derivatives of embedding bags, by the table and by the weights of its rows") {
  auto places = [](Builder& b, std::vector<double> values) {
    return b.constant(filled(DType::I64, {std::ssize(values)}, [&](int64_t i) { return values[static_cast<size_t>(i)]; }));
  };
  auto bags = [&](Builder& b, V table, int64_t mode, const Arg& weights, int64_t padding) {
    return b.call("aten::_embedding_bag",
                  {table, places(b, {0, 4, 1, 1, 3, 0, 2}), places(b, {0, 3, 3, 6}), false, mode, false, weights, false, padding});
  };
  for (int64_t mode : {0, 1, 2})
    for (int64_t padding : {-1, 1})
      check_gradient(
          {5, 4}, [&](Builder& b, V table) { return bags(b, table, mode, Arg(), padding)[0]; },
          [&](Builder& b, V grad, V table) {
            std::vector<V> of = bags(b, table, mode, Arg(), padding);
            return b.call1("aten::_embedding_bag_backward", {grad, places(b, {0, 4, 1, 1, 3, 0, 2}), places(b, {0, 3, 3, 6}), of[1], of[2],
                                                             of[3], 5, false, mode, false, Arg(), padding});
          });
  auto constant = [](Builder& b, Sizes sizes) {
    return b.constant(filled(DType::F64, sizes, [](int64_t i) { return std::cos(static_cast<double>(i)); }));
  };
  check_gradient(
      {7}, [&](Builder& b, V weights) { return bags(b, constant(b, {5, 4}), 0, weights, 1)[0]; },
      [&](Builder& b, V grad, V weights) {
        V table = constant(b, {5, 4});
        return b.call1("aten::_embedding_bag_per_sample_weights_backward",
                       {grad, table, places(b, {0, 4, 1, 1, 3, 0, 2}), places(b, {0, 3, 3, 6}), bags(b, table, 0, weights, 1)[1], 0, 1});
      });
}

TEST_CASE("a table's gradient, divided by how often a row is read") {
  TestGraph g;
  V grad = g.input({2, 3, 2}, DType::BF16), indices = g.input({2, 3}, DType::I64);
  g.returns(g.b.call1("aten::embedding_dense_backward", {grad, indices, 5, 4, true}));
  Tensor ones = filled(DType::BF16, {2, 3, 2}, [](int64_t) { return 1.0; }),
         rows = filled(DType::I64, {2, 3},
                       [](int64_t i) { return static_cast<double>(std::vector{0, 2, 2, 4, 2, 0}[static_cast<size_t>(i)]); });
  CHECK(numbers(run(g.program().compile({}).value(), {ones, rows})[0]) == std::vector<double>{1, 1, 0, 0, 1, 1, 0, 0, 0, 0});
}

TEST_CASE("derivatives of linear operators, by places and by matrices") {
  for (bool dynamic : {false, true}) {
    check_gradient(
        {2, 5, 4}, [](Builder& b, V x) { return b.call1("aten::reflection_pad2d", {x, {2, 1, 3, 0}}); },
        [](Builder& b, V grad, V x) { return b.call1("aten::reflection_pad2d_backward", {grad, x, {2, 1, 3, 0}}); }, dynamic);
    check_gradient(
        {3, 4}, [](Builder& b, V x) { return b.call1("aten::replication_pad1d", {x, {5, 2}}); },
        [](Builder& b, V grad, V x) { return b.call1("aten::replication_pad1d_backward", {grad, x, {5, 2}}); }, dynamic);
  }
  check_gradient(
      {2, 2, 3, 4}, [](Builder& b, V x) { return b.call1("aten::replication_pad3d", {x, {0, 2, 4, 0, 1, 1}}); },
      [](Builder& b, V grad, V x) { return b.call1("aten::replication_pad3d_backward", {grad, x, {0, 2, 4, 0, 1, 1}}); });
  check_gradient(
      {2, 3, 5, 4}, [](Builder& b, V x) { return b.call1("aten::upsample_nearest2d", {x, {5, 12}}); },
      [](Builder& b, V grad, V) { return b.call1("aten::upsample_nearest2d_backward", {grad, {5, 12}, {2, 3, 5, 4}}); });
  check_gradient( // the scale given says which elements are repeated
      {1, 3, 4}, [](Builder& b, V x) { return b.call1("aten::upsample_nearest1d", {x, {8}, 2.6}); },
      [](Builder& b, V grad, V) { return b.call1("aten::upsample_nearest1d_backward", {grad, {8}, {1, 3, 4}, 2.6}); });
  check_gradient(
      {3, 9, 2}, [](Builder& b, V x) { return b.call1("aten::unfold", {x, 1, 2, 3}); },
      [](Builder& b, V grad, V) { return b.call1("aten::unfold_backward", {grad, {3, 9, 2}, 1, 2, 3}); });
  check_gradient(
      {2, 3, 5, 4}, [](Builder& b, V x) { return b.call1("aten::upsample_nearest2d", {x, {7, 9}}); },
      [](Builder& b, V grad, V) { return b.call1("aten::upsample_nearest2d_backward", {grad, {7, 9}, {2, 3, 5, 4}}); });
  check_gradient(
      {2, 3, 5, 4}, [](Builder& b, V x) { return b.call1("aten::upsample_bilinear2d", {x, {7, 3}, false}); },
      [](Builder& b, V grad, V) { return b.call1("aten::upsample_bilinear2d_backward", {grad, {7, 3}, {2, 3, 5, 4}, false}); });
  check_gradient(
      {2, 9, 8}, [](Builder& b, V x) { return b.call1("aten::avg_pool2d", {x, {3, 2}, {2, 1}, {1, 1}, true, false}); },
      [](Builder& b, V grad, V x) { return b.call1("aten::avg_pool2d_backward", {grad, x, {3, 2}, {2, 1}, {1, 1}, true, false, Arg()}); });
  check_gradient(
      {2, 9, 8}, [](Builder& b, V x) { return b.call1("aten::_adaptive_avg_pool2d", {x, {4, 5}}); },
      [](Builder& b, V grad, V x) { return b.call1("aten::_adaptive_avg_pool2d_backward", {grad, x}); });
  check_gradient(
      {3, 9}, [](Builder& b, V x) { return b.call1("aten::unfold", {x, 1, 4, 2}); },
      [](Builder& b, V grad, V) { return b.call1("aten::unfold_backward", {grad, {3, 9}, 1, 4, 2}); });
  check_gradient(
      {3, 9}, [](Builder& b, V x) { return b.call1("aten::slice.Tensor", {x, 1, 1, 8, 3}); },
      [](Builder& b, V grad, V) { return b.call1("aten::slice_backward", {grad, {3, 9}, 1, 1, 8, 3}); });
}

TEST_CASE("derivatives that broadcast, and of products by groups") {
  check_gradient(
      {3, 9}, [](Builder& b, V x) { return b.call1("aten::sum.dim_IntList", {b.call1("aten::unfold", {x, 1, 4, 2}), ArgList{0}, true}); },
      [](Builder& b, V grad, V) { return b.call1("aten::unfold_backward", {grad, {3, 9}, 1, 4, 2}); }); // one window for all rows
  auto ends = [](Builder& b) { return b.arange(b.integer(3), DType::I64) * Arg(2) + Arg(1); }; // rows 0, 1 2, 3 4; the last is of no group
  auto other = [](Builder& b, std::vector<Expr> sizes) {
    return b.reshape(b.call1("aten::sin.default", {b.arange(product(b.pool(), sizes), DType::F64)}), sizes);
  };
  auto grouped = [](Builder& b, V x, V w, V offs) { return b.call1("transformers::grouped_mm_fallback", {x, w, offs}); };
  auto back = [](Builder& b, V x, V w, V offs, V grad) { return b.call("transformers::grouped_mm_fallback_backward", {x, w, offs, grad}); };
  auto weights = [&](Builder& b) { return other(b, {b.integer(3), b.integer(4), b.integer(5)}); };
  auto rows = [&](Builder& b) { return other(b, {b.integer(6), b.integer(4)}); };
  check_gradient(
      {6, 4}, [&](Builder& b, V x) { return grouped(b, x, weights(b), ends(b)); },
      [&](Builder& b, V grad, V x) { return back(b, x, weights(b), ends(b), grad)[0]; });
  check_gradient(
      {3, 4, 5}, [&](Builder& b, V w) { return grouped(b, rows(b), w, ends(b)); },
      [&](Builder& b, V grad, V w) { return back(b, rows(b), w, ends(b), grad)[1]; });
}

TEST_CASE("attention's logarithm of sums is 0 where all is masked, and the gradients there are 0") {
  TestGraph g;
  V q = g.input({1, 1, 3, 4}), k = g.input({1, 1, 5, 4}), v = g.input({1, 1, 5, 4}), mask = g.input({3, 5}), grad = g.input({1, 1, 3, 4});
  Values out = g.b.call("aten::_scaled_dot_product_flash_attention_for_cpu", {q, k, v, 0.0, false}, {{"attn_mask", mask}});
  for (V y : out) g.returns(y);
  for (V y : g.b.call("aten::_scaled_dot_product_flash_attention_for_cpu_backward", {grad, q, k, v, out[0], out[1], 0.0, false},
                      {{"attn_mask", mask}}))
    g.returns(y);
  auto wave = [](int64_t i) { return std::sin(1.3 * static_cast<double>(i) + 0.2); };
  std::vector<Tensor> in{
      filled(DType::F32, {1, 1, 3, 4}, wave), filled(DType::F32, {1, 1, 5, 4}, wave), filled(DType::F32, {1, 1, 5, 4}, wave),
      filled(DType::F32, {3, 5}, [](int64_t i) { return i / 5 == 1 ? -INFINITY : 0.0; }), filled(DType::F32, {1, 1, 3, 4}, wave)};
  for (bool interpret : {false, true}) {
    std::vector<Tensor> got = run(g.program().compile({.interpret = interpret}).value(), in);
    std::vector<double> logs = numbers(got[1]), of_q = numbers(got[2]);
    CHECK(logs[1] == 0);
    CHECK(logs[0] > 0.5);
    for (size_t i = 0; i < 12; i++) CHECK((of_q[i] == 0) == (i / 4 == 1));
    for (size_t t = 2; t < 5; t++)
      for (double x : numbers(got[t])) CHECK(std::isfinite(x));
  }
}

TEST_CASE("gradients of causal attention are those under its mask, of many rows too") {
  for (auto [rows, keys] : {std::pair<int64_t, int64_t>{256, 256}, {301, 301}, {259, 70}, {257, 400}, {20, 20}}) {
    INFO(rows, " rows, ", keys, " keys");
    TestGraph g;
    V q = g.input({1, 2, rows, 4}), k = g.input({1, 2, keys, 4}), v = g.input({1, 2, keys, 4}), grad = g.input({1, 2, rows, 4}),
      mask = g.input({rows, keys});
    Values out = g.b.call("aten::_scaled_dot_product_flash_attention_for_cpu", {q, k, v, 0.0, true});
    const char* backward = "aten::_scaled_dot_product_flash_attention_for_cpu_backward";
    for (V y : g.b.call(backward, {grad, q, k, v, out[0], out[1], 0.0, true})) g.returns(y);
    for (V y : g.b.call(backward, {grad, q, k, v, out[0], out[1], 0.0, false}, {{"attn_mask", mask}})) g.returns(y);
    auto wave = [](double step) { return [=](int64_t i) { return std::sin(step * static_cast<double>(i) + 0.3); }; };
    auto lower = [&](int64_t i) { return i / keys >= i % keys ? 0.0 : -INFINITY; };
    std::vector<Tensor> got =
        run(g.program().compile().value(), {filled(DType::F32, {1, 2, rows, 4}, wave(1.7)), filled(DType::F32, {1, 2, keys, 4}, wave(0.9)),
                                            filled(DType::F32, {1, 2, keys, 4}, wave(2.3)), filled(DType::F32, {1, 2, rows, 4}, wave(0.7)),
                                            filled(DType::F32, {rows, keys}, lower)});
    for (size_t t = 0; t < 3; t++) {
      std::vector<double> a = numbers(got[t]), b = numbers(got[t + 3]);
      double most = 0, furthest = 0;
      for (size_t i = 0; i < a.size(); i++) most = std::max(most, std::fabs(b[i])), furthest = std::max(furthest, std::fabs(a[i] - b[i]));
      CHECK(most > 1e-3);
      CHECK(furthest < 2e-5 * most);
    }
  }
}

} // namespace tenon::backward_ops_test
