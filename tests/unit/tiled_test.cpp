// Loads and stores along different axes: transposes, interleaved and separated elements of all widths and sizes.
#include <array>

#include "tests/unit/graph_harness.h"

namespace tenon::tiled_test {
using namespace tenon::test;

namespace {

Tensor mixed(DType t, std::vector<int64_t> sizes) {
  return filled(t, std::move(sizes), [&](int64_t i) { return static_cast<double>(i * 31 % 251 - (is_float(t) ? 100 : 0)); });
}

V permute(TestGraph& g, V x, const ArgList& dims) {
  return g.b.call1("aten::clone.default", {g.b.call1("aten::permute.default", {x, dims})});
}

void compare_both(const TestGraph& g, const std::vector<std::vector<Tensor>>& calls) {
  compare(g, calls);
  compare(g, calls, {.isa = Isa::Avx2});
}

} // namespace

TEST_CASE("tiled: transposes of all widths") {
  for (DType t : {DType::F32, DType::BF16, DType::U8, DType::I64, DType::Bool}) {
    TestGraph g;
    Expr m = g.symbol("s0"), n = g.symbol("s1");
    V x = g.input({m, n}, t);
    g.returns(permute(g, x, {1, 0}));
    std::vector<std::vector<Tensor>> calls;
    for (auto [a, b] : {std::pair{1, 1}, {3, 40}, {16, 16}, {17, 15}, {8, 200}, {31, 33}, {64, 64}, {127, 129}, {200, 300}, {0, 5}})
      calls.push_back({mixed(t, {a, b})});
    compare_both(g, calls);
    for (auto [a, b] : {std::pair{13, 70}, {16, 16}, {9, 11}, {128, 64}, {65, 191}, {10, 16}}) {
      TestGraph fixed;
      fixed.returns(permute(fixed, fixed.input({a, b}, t), {1, 0}));
      compare_both(fixed, {{mixed(t, {a, b})}});
    }
  }
}

TEST_CASE("tiled: permutations of several axes, computed on the way") {
  for (auto dims : std::vector<ArgList>{{0, 3, 1, 2}, {0, 2, 3, 1}, {3, 2, 1, 0}, {2, 0, 3, 1}})
    for (auto sizes : std::vector<std::vector<int64_t>>{{2, 3, 20, 17}, {1, 32, 9, 33}, {2, 4, 16, 16}, {3, 5, 7, 6}}) {
      TestGraph g;
      std::vector<Expr> e;
      for (int64_t s : sizes) e.push_back(g.b.integer(s));
      V x = g.input(e), y = permute(g, x, dims);
      V z = g.input({y.sizes().begin(), y.sizes().end()});
      g.returns(y);
      g.returns(y * Arg(2) + z);
      std::vector<int64_t> other;
      for (auto& d : dims) other.push_back(sizes[static_cast<size_t>(std::get<int64_t>(d.v))]);
      compare_both(g, {{mixed(DType::F32, sizes), mixed(DType::F32, other)}});
    }
}

TEST_CASE("tiled: transposes that run backwards") {
  for (DType t : {DType::F32, DType::BF16, DType::I64})
    for (auto sizes : std::vector<std::vector<int64_t>>{{2, 20, 17}, {1, 33, 70}, {3, 129, 200}})
      for (auto dims : {ArgList{1}, ArgList{2}, ArgList{1, 2}}) {
        TestGraph g;
        std::vector<Expr> e;
        for (int64_t s : sizes) e.push_back(g.b.integer(s));
        V x = g.input(e, t), y = permute(g, g.b.call1("aten::flip.default", {x, dims}), {0, 2, 1});
        V z = g.input({y.sizes().begin(), y.sizes().end()}, t);
        g.returns(y);
        g.returns(y + z);
        compare_both(g, {{mixed(t, sizes), mixed(t, {sizes[0], sizes[2], sizes[1]})}});
      }
}

TEST_CASE("tiled: of what lies across, the largest is turned") {
  for (auto [a, b, c] : {std::tuple{100, 17, 130}, {12, 20, 64}, {33, 9, 31}}) {
    TestGraph g;
    V x = g.input({a, b, c}), row = g.input({a, b, 1});
    g.returns(permute(g, x * row, {1, 2, 0}));
    CHECK(g.program().dump("loops").value().find("= turned b1") != std::string::npos);
    compare_both(g, {{mixed(DType::F32, {a, b, c}), mixed(DType::F32, {a, b, 1})}});
  }
}

TEST_CASE("tiled: rows are reduced where they lie, and turned before or after") {
  auto lies_turned = [](const TestGraph& g) { return g.program().dump("loops").value().find("turned") != std::string::npos; };
  for (auto [rows, length] : {std::pair{1, 40}, {17, 1}, {196, 8}, {196, 9}, {33, 129}, {64, 512}, {100, 97}})
    for (bool known : {true, false}) {
      TestGraph g;
      Expr m = known ? g.b.integer(rows) : g.symbol("s0"), n = known ? g.b.integer(length) : g.symbol("s1");
      V x = g.input({g.b.integer(2), m, n}), y = g.input({g.b.integer(2), n, m});
      ArgList last{-1}, turned{0, 2, 1};
      g.returns(permute(g, g.b.call1("aten::_softmax.default", {x, -1, false}), turned));
      V sum = x + g.b.call1("aten::permute.default", {y, turned}), mean = g.b.call1("aten::mean.dim", {sum, last, true});
      V apart = sum - mean, squares = g.b.call1("aten::mean.dim", {apart * apart, last, true});
      g.returns(apart * g.b.call1("aten::rsqrt.default", {squares + Arg(1e-5)}));
      V across = g.b.call1("aten::permute.default", {y, turned});
      g.returns(g.b.call1("aten::clone.default", {across - g.b.call1("aten::amax.default", {across, last, true})}));
      if (rows > 16) CHECK(lies_turned(g) == (length > 8 || !known));
      compare_both(g, {{mixed(DType::F32, {2, rows, length}), mixed(DType::F32, {2, length, rows})}});
    }
}

TEST_CASE("tiled: elements interleaved and separated") {
  for (DType t : {DType::F32, DType::BF16, DType::U8, DType::F64})
    for (int64_t n : {2, 3, 4, 7, 8}) {
      TestGraph g;
      Expr s = g.symbol("s0");
      ArgList parts;
      for (int64_t k = 0; k < n; k++) parts.push_back(g.input({g.b.integer(3), s}, t));
      V all = g.b.call1("aten::stack.default", {parts, -1});
      g.returns(all);
      V x = g.input({g.b.integer(2), s, g.b.integer(n)}, t);
      g.returns(permute(g, x, {0, 2, 1}));
      g.returns(g.b.call1("aten::select.int", {x, 2, n - 1}) + Arg(1));
      std::vector<std::vector<Tensor>> calls;
      for (int64_t size : {1, 15, 16, 40, 1500}) {
        std::vector<Tensor> call;
        for (int64_t k = 0; k < n; k++) call.push_back(mixed(t, {3, size}));
        call.push_back(mixed(t, {2, size, n}));
        calls.push_back(std::move(call));
      }
      compare_both(g, calls);
    }
}

TEST_CASE("tiled: a padded transpose keeps to its bounds") {
  TestGraph g;
  V x = g.input({20, 37});
  V padded = g.b.call1("aten::constant_pad_nd.default", {x, ArgList{1, 2, 3, 1}, 0.5});
  g.returns(permute(g, padded, {1, 0}));
  compare_both(g, {{mixed(DType::F32, {20, 37})}});
}

TEST_CASE("large results are stored past the caches") {
  TestGraph g;
  Expr rows = g.b.integer(7000), columns = g.b.integer(2500);
  V x = g.input({rows, g.b.integer(1)}), y = g.input({g.b.integer(1), columns}), z = x + y;
  g.returns(z);
  g.returns(permute(g, g.b.expand(y, {rows, columns}), {1, 0}));
  Executable e = g.program().compile().value();
  auto out = run(e, {mixed(DType::F32, {7000, 1}), mixed(DType::F32, {1, 2500})});
  Tensor a = mixed(DType::F32, {7000, 1}), b = mixed(DType::F32, {1, 2500});
  int64_t wrong = 0;
  for (int64_t i = 0; i < 7000; i++)
    for (int64_t j = 0; j < 2500; j++)
      wrong += out[0].data_as<float>()[i * 2500 + j] != a.data_as<float>()[i] + b.data_as<float>()[j] ||
               out[1].data_as<float>()[j * 7000 + i] != b.data_as<float>()[j];
  CHECK(wrong == 0);
}

TEST_CASE("cuts: paddings of all kinds in loops that are cut where the place read from changes") {
  for (const char* op : {"aten::reflection_pad1d.default", "aten::replication_pad1d.default"})
    for (int64_t n : {3, 22, 23, 40, 129}) {
      TestGraph g;
      Expr s = g.symbol("s0", 3);
      V fixed = g.input({2, n}), any = g.input({g.b.integer(2), s}), padded = g.b.call1(op, {fixed, {2, 1}});
      g.returns(padded * Arg(2) + Arg(1));
      g.returns(g.b.call1(op, {any, {1, 2}}));
      g.returns(g.b.call1("aten::roll.default", {fixed, {n / 2}, {1}}));
      g.returns(g.b.call1("aten::constant_pad_nd.default", {fixed, {2, n}, 5}));
      g.returns(g.b.call1("aten::index_select.default",
                          {any, 1, g.b.call1("aten::clamp.default", {g.b.arange(g.b.integer(n), DType::I64), 1, 2})}));
      compare_both(g,
                   {{mixed(DType::F32, {2, n}), mixed(DType::F32, {2, n + 1})}, {mixed(DType::F32, {2, n}), mixed(DType::F32, {2, 200})}});
    }
}

TEST_CASE("cuts: tensors joined and padded along any dim, in loops over all dims behind it") {
  for (DType t : {DType::F32, DType::I64, DType::BF16})
    for (int64_t dim : {0, 1, 2}) {
      TestGraph g;
      Expr s = g.symbol("s0");
      std::vector<Tensor> call, other;
      ArgList fixed, any;
      for (int64_t n : {1, 7, 40, 0, 33, 128, 5}) {
        std::vector<int64_t> sizes{3, 4, 37};
        sizes[static_cast<size_t>(dim)] = n;
        fixed.push_back(g.input({sizes[0], sizes[1], sizes[2]}, t));
        call.push_back(mixed(t, sizes)), other.push_back(mixed(t, sizes));
      }
      for (int64_t k : {2, 3}) {
        std::vector<Expr> sizes{g.b.integer(3), g.b.integer(4), g.b.integer(37)};
        std::vector<int64_t> one{3, 4, 37}, two = one;
        sizes[static_cast<size_t>(dim)] = s + static_cast<double>(k);
        one[static_cast<size_t>(dim)] = k, two[static_cast<size_t>(dim)] = 200 + k;
        any.push_back(g.input(sizes, t));
        call.push_back(mixed(t, one)), other.push_back(mixed(t, two));
      }
      V joined = g.b.call1("aten::cat.default", {fixed, dim});
      g.returns(joined);
      g.returns(joined * Arg(2) + Arg(1));
      g.returns(g.b.call1("aten::cat.default", {any, dim}));
      g.returns(g.b.call1("aten::constant_pad_nd.default", {any[0].get<ValueId>(), ArgList{0, 0, 1, 2, 2, 0}, 5}));
      compare_both(g, {call, other});
    }
}

TEST_CASE("products of integers, read along rows or columns") {
  for (DType t : {DType::I64, DType::I32, DType::I16, DType::U8, DType::I8})
    for (auto [m, k, n] : std::vector<std::array<int64_t, 3>>{{5, 7, 3}, {33, 40, 129}, {1, 100, 64}, {17, 0, 20}, {40, 1, 8}}) {
      TestGraph g;
      Expr s = g.symbol("s0");
      V x = g.input({m, k}, t), y = g.input({k, n}, t), z = g.input({n, k}, t), b = g.input({g.b.integer(2), s, g.b.integer(n)}, t);
      g.returns(g.b.call1("aten::mm.default", {x, y}));
      g.returns(g.b.call1("aten::mm.default", {x, permute(g, z, {1, 0})}));
      g.returns(g.b.call1("aten::mm.default", {permute(g, y, {1, 0}), permute(g, x, {1, 0})}));
      g.returns(g.b.call1("aten::bmm.default", {permute(g, b, {0, 2, 1}), b}));
      compare_both(g, {{mixed(t, {m, k}), mixed(t, {k, n}), mixed(t, {n, k}), mixed(t, {2, 9, n})},
                       {mixed(t, {m, k}), mixed(t, {k, n}), mixed(t, {n, k}), mixed(t, {2, 70, n})}});
    }
}

TEST_CASE("short rows that are reduced lie in vectors side by side") {
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I32})
    for (int64_t row = 1; row <= 9; row++) {
      TestGraph g;
      Expr rows = g.symbol("s0");
      V x = g.input({rows, g.b.integer(2), g.b.integer(row)}, t), scale = g.input({row}, t);
      V most = g.b.call1("aten::amax.default", {x, ArgList{2}, true}), y = (x - most) * scale;
      g.returns(y);
      g.returns(g.b.call1("aten::argmax.default", {y, 2}));
      g.returns(g.b.call1("aten::sum.dim_IntList", {y, ArgList{2}}));
      if (is_float(t)) g.returns(g.b.call1("aten::softmax.int", {x, 2}));
      auto value = [&](int64_t i) { return static_cast<double>(i * 7919 % 101 - 50) / (is_float(t) ? 25 : 1); };
      std::vector<std::vector<Tensor>> calls;
      for (int64_t n : {0, 1, 31, 32, 33, 63, 64, 65, 257}) calls.push_back({filled(t, {n, 2, row}, value), filled(t, {row}, value)});
      CAPTURE(row);
      compare(g, calls);
    }
}

TEST_CASE("short rows, several at once") {
  for (int64_t n : {1, 3, 50, 511, 512, 513})
    for (DType t : {DType::F32, DType::BF16, DType::U8}) {
      TestGraph g;
      Expr s = g.symbol("s0");
      V fixed = g.input({3, 83, n}, t), any = g.input({g.b.integer(3), s, g.b.integer(n)}, t);
      for (V x : {fixed, any}) {
        V turned = permute(g, x, {1, 0, 2});
        g.returns(turned);
        g.returns(turned * Arg(2) + Arg(1));
        g.returns(g.b.call1("aten::constant_pad_nd.default", {turned, ArgList{1, 0, 0, 2}, 3}));
      }
      compare_both(g, {{mixed(t, {3, 83, n}), mixed(t, {3, 0, n})}, {mixed(t, {3, 83, n}), mixed(t, {3, 129, n})}});
    }
}

TEST_CASE("parts computed where they are joined") {
  for (int64_t dim : {0, 1, 2})
    for (int64_t n : {1, 16, 33}) {
      TestGraph g;
      V x = g.input({5, 7, n}), y = g.input({5, 7, n});
      V re = x * x - y * y, im = x * y + y * x;
      g.returns(g.b.call1("aten::cat.default", {ArgList{re, im}, dim}));
      g.returns(g.b.call1("aten::stack.default", {ArgList{re, im, x}, dim + 1}));
      compare_both(g, {{mixed(DType::F32, {5, 7, n}), mixed(DType::F32, {5, 7, n})}});
    }
}

TEST_CASE("products of matrices whose elements lie apart") {
  for (DType t : {DType::F32, DType::F64, DType::BF16})
    for (auto [m, k, n, c] : std::vector<std::array<int64_t, 4>>{{9, 13, 11, 3}, {40, 33, 17, 8}, {1, 20, 20, 2}, {20, 0, 20, 2}}) {
      TestGraph g;
      Expr s = g.symbol("s0");
      V x = g.input({m, k, c}, t), y = g.input({k, n, c}, t), z = g.input({g.b.integer(m), s, g.b.integer(c)}, t);
      auto apart = [&](V v) { return g.b.call1("aten::permute.default", {v, ArgList{2, 0, 1}}); };
      g.returns(g.b.call1("aten::bmm.default", {apart(x), apart(y)}));
      g.returns(g.b.call1("aten::bmm.default", {g.b.call1("aten::permute.default", {z, ArgList{2, 1, 0}}), apart(x)}));
      compare_both(g, {{mixed(t, {m, k, c}), mixed(t, {k, n, c}), mixed(t, {m, 12, c})}});
    }
}

TEST_CASE("windows are summed where they lie, with and without gaps") {
  for (auto [kernel, stride, pad, dilation] : std::vector<std::array<int64_t, 4>>{
           {3, 1, 1, 1}, {4, 4, 0, 1}, {4, 4, 3, 1}, {5, 2, 1, 1}, {2, 5, 0, 1}, {3, 2, 2, 2}, {7, 3, 3, 1}, {6, 3, 0, 1}}) {
    constexpr int64_t size = 23, channels = 2;
    int64_t places = (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
    TestGraph g;
    V x = g.input({1, channels * kernel * kernel, places * places});
    g.returns(g.b.call1("aten::col2im.default", {x, ArgList{size, size}, ArgList{kernel, kernel}, ArgList{dilation, dilation},
                                                 ArgList{pad, pad}, ArgList{stride, stride}}));
    Tensor in = mixed(DType::F32, {1, channels * kernel * kernel, places * places});
    std::vector<double> want(static_cast<size_t>(channels * size * size), 0), from = numbers(in);
    for (int64_t i = 0; i < std::ssize(from); i++) {
      int64_t place = i % (places * places), tap = i / (places * places) % (kernel * kernel),
              channel = i / (places * places) / (kernel * kernel);
      int64_t row = place / places * stride - pad + tap / kernel * dilation,
              column = place % places * stride - pad + tap % kernel * dilation;
      if (row >= 0 && row < size && column >= 0 && column < size)
        want[static_cast<size_t>((channel * size + row) * size + column)] += from[static_cast<size_t>(i)];
    }
    CHECK(numbers(run(g.program().compile().value(), {in})[0]) == want);
    compare_both(g, {{in}});
  }
}

} // namespace tenon::tiled_test
