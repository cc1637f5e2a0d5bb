// What a call may not ask for is refused by native code as by the interpreter, also where the answer would not depend on it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/graph_harness.h"

namespace tenon::refusals_test {
using namespace tenon::test;

namespace {

class Both {
public:
  explicit Both(const TestGraph& g)
      : native_(g.program().compile({.forbid_fallback = true}).value()), oracle_(g.program().compile({.interpret = true}).value()) {}

  /// Why native code refuses a call, as the interpreter does; empty where both give the same.
  std::string refuse(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> got, want;
    Status native = native_.run(inputs, got), oracle = oracle_.run(inputs, want);
    if (native.ok() != oracle.ok()) return native.ok() ? "native code does not" : "the interpreter does not";
    if (native.ok()) return difference(got.at(0), want.at(0));
    CHECK(native.error().kind == ErrorKind::BadInput);
    return native.error().what();
  }

private:
  Executable native_, oracle_;
};

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("an index counts although the element is the same at all places") {
  struct Source {
    const char* name;
    int64_t size; // of the dim that is indexed
    std::function<V(TestGraph&, DType)> make;
  };
  auto view = [](TestGraph& g, DType t) { return g.b.reshape(g.input({}, t), {g.b.integer(1)}); };
  auto expanded = [](TestGraph& g, DType t) { return g.b.expand(g.input({1}, t), {g.b.integer(5)}); };
  auto constant = [](TestGraph& g, DType t) { return g.b.full({g.b.integer(3)}, 2.0, t) + g.input({}, t); };
  auto computed = [](TestGraph& g, DType t) { return g.b.call1("aten::neg", {g.input({1}, t)}); };
  auto twice = [&](TestGraph& g, DType t) { return g.b.call1("aten::gather", {view(g, t), 0, g.input({4}, DType::I64)}); };
  for (const Source& s : {Source{"view", 1, view}, Source{"expand", 5, expanded}, Source{"constant", 3, constant},
                          Source{"computed", 1, computed}, Source{"twice", 4, twice}})
    for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I64, DType::I8})
      for (int64_t n : {1, 2, 16, 17, 100}) {
        CAPTURE(s.name);
        CAPTURE(name_of(t));
        CAPTURE(n);
        TestGraph g;
        V x = s.make(g, t), at = g.input({n}, DType::I64);
        g.returns(g.b.call1("aten::gather", {x, 0, at}));
        std::vector<Tensor> inputs;
        for (const ProgramInput& in : g.p.inputs) {
          std::vector<int64_t> sizes;
          for (Expr e : g.p.graph.type(in.value).sizes) sizes.push_back(*const_int(e));
          inputs.push_back(counting(g.p.graph.type(in.value).dtype, sizes, 0));
          if (in.value == at.id || s.size == 4) inputs.back() = filled(inputs.back().dtype(), sizes, [](int64_t) { return 0; });
        }
        Both both(g);
        CHECK(both.refuse(inputs) == "");
        for (int64_t bad : {s.size, int64_t{-1}, INT64_MAX})
          for (int64_t place : {int64_t{0}, n - 1}) {
            inputs.back() = filled(DType::I64, {n}, [](int64_t) { return 0; });
            inputs.back().data_as<int64_t>()[place] = bad;
            CHECK(mentions(both.refuse(inputs), fmt::format("index {} is out of range for size {}", bad, s.size)));
          }
      }
}

TEST_CASE("parts of a dim lie within it") {
  TestGraph g;
  Expr s = g.symbol("s0");
  V x = g.input({s});
  g.returns(g.b.call1("aten::narrow", {x, 0, 2, 3}));
  Both narrow(g);
  for (int64_t n = 0; n < 9; n++) CHECK(mentions(narrow.refuse({counting(DType::F32, {n})}), "do not fit") == (n < 5));

  TestGraph h;
  h.returns(h.b.call1("aten::unfold", {h.input({h.symbol("s0")}), 0, 4, 2}));
  Both unfold(h);
  for (int64_t n = 0; n < 9; n++) CHECK(mentions(unfold.refuse({counting(DType::F32, {n})}), n < 2 ? "negative" : "do not fit") == (n < 4));

  TestGraph k;
  V y = k.input({3, 1});
  CHECK_THROWS_AS(k.b.call1("aten::unfold", {y, 1, 2, -2}), Error);
  CHECK_THROWS_AS(k.b.call1("aten::unfold", {y, 1, -1, 1}), Error);
  V z = k.input({1, 1, 3});
  CHECK_THROWS_AS(k.b.call1("aten::bmm", {z, z}), Error);
  CHECK_THROWS_AS(k.b.call1("aten::bmm", {z, k.input({2, 3, 1})}), Error);
  CHECK_THROWS_AS(k.b.call1("aten::mm", {y, y}), Error);
  CHECK_THROWS_AS(k.b.call("aten::linspace.Tensor_Scalar", {y, 2, 5}), Error);
  CHECK_THROWS_AS(k.b.call("aten::logspace.Scalar_Tensor", {2, y, 5}), Error);
  auto blocks = [](TestGraph& b, V v, int64_t pad) { // windows of 2 x 2
    ArgList two{2, 2}, one{1, 1};
    return b.b.call1("aten::col2im", {v, ArgList{4, 4}, two, one, ArgList{pad, pad}, two});
  };
  CHECK_THROWS_AS(blocks(k, k.input({4, 4}), -1), Error);
  CHECK_THROWS_AS(blocks(k, k.input({6, 4}), 0), Error);
  TestGraph d;
  d.returns(blocks(d, d.input({d.b.integer(4), d.symbol("s0")}), 0));
  Both col2im(d);
  for (int64_t n : {1, 3, 4, 5}) CHECK(mentions(col2im.refuse({counting(DType::F32, {4, n})}), "do not fit") == (n != 4));
  TestGraph u;
  V w = u.input({3, 1});
  u.returns(u.b.call1("aten::unfold", {w, 1, 2, 1})); // no such window
  CHECK(mentions(Both(u).refuse({counting(DType::F32, {3, 1})}), "the sizes do not fit"));
}

TEST_CASE("linear algebra refuses batches of other sizes") {
  struct Case {
    const char* op;
    std::vector<std::vector<int64_t>> sizes; // -1: dynamic
    int64_t fits;                            // in place of it
    DType second = DType::F32;
    std::vector<Attribute> more = {};
  };
  for (const Case& c :
       {Case{"aten::linalg_householder_product", {{2, 4, 3}, {-1, 3}}, 2}, Case{"aten::lu_unpack", {{2, 3, 3}, {-1, 3}}, 2, DType::I32},
        Case{"aten::linalg_lstsq", {{2, 4, 3}, {-1, 4, 2}}, 2}, Case{"aten::ormqr", {{2, 4, 3}, {-1, 3}, {2, 4, 5}}, 2},
        Case{"aten::linalg_solve_triangular", {{2, 3, 3}, {2, -1, 3}}, 3, DType::F32, {{"upper", true}}}}) {
    CAPTURE(c.op);
    TestGraph g;
    Expr s = g.symbol("s0");
    ArgList args;
    for (size_t i = 0; i < c.sizes.size(); i++) {
      std::vector<Expr> sizes;
      for (int64_t n : c.sizes[i]) sizes.push_back(n < 0 ? s : g.b.integer(n));
      args.push_back(g.input(sizes, i == 1 ? c.second : DType::F32));
    }
    g.returns(g.b.call(c.op, args, c.more)[0]);
    Both both(g);
    auto call = [&](int64_t n) {
      std::vector<Tensor> inputs;
      for (size_t i = 0; i < c.sizes.size(); i++) {
        std::vector<int64_t> sizes = c.sizes[i];
        std::ranges::replace(sizes, -1, n);
        inputs.push_back(filled(i == 1 ? c.second : DType::F32, sizes,
                                [&](int64_t k) { return c.second == DType::I32 ? 3.0 : 1.0 + std::sin(double(k)); }));
      }
      return both.refuse(inputs);
    };
    CHECK(call(c.fits) == "");
    for (int64_t n : {1, 5}) CHECK(mentions(call(n), " not fit"));
  }
}

TEST_CASE("a convolution refuses other channels than its weight has") {
  for (bool transposed : {false, true}) {
    CAPTURE(transposed);
    TestGraph g;
    Expr c = g.symbol("s0"), five = g.b.integer(5);
    V x = g.input({g.b.integer(2), c, five, five}), w = transposed ? g.input({4, 3, 2, 2}) : g.input({6, 2, 2, 2});
    g.returns(g.b.call1("aten::convolution", {x, w, {}, {1, 1}, {0, 0}, {1, 1}, transposed, {0, 0}, transposed ? 1 : 2}));
    Both both(g);
    auto call = [&](int64_t channels) {
      auto weight = transposed ? std::vector<int64_t>{4, 3, 2, 2} : std::vector<int64_t>{6, 2, 2, 2};
      return both.refuse({counting(DType::F32, {2, channels, 5, 5}), counting(DType::F32, weight)});
    };
    CHECK(call(4) == "");
    for (int64_t channels : {0, 1, 2, 5, 8}) CHECK(mentions(call(channels), "the sizes do not fit"));
  }
}

TEST_CASE("a convolution's gradient refuses another size than the convolution gives") {
  for (int64_t which : {0, 1}) {
    CAPTURE(which);
    TestGraph g;
    Expr three = g.b.integer(3);
    V x = g.input({g.b.integer(2), three, g.symbol("s0", 1), g.b.integer(9)}), w = g.input({5, 3, 3, 3});
    V grad = g.input({g.b.integer(2), g.b.integer(5), g.symbol("s1", 1), g.b.integer(5)});
    std::vector<V> all = g.b.call("aten::convolution_backward",
                                  {grad, x, w, {}, {2, 2}, {1, 1}, {1, 1}, false, {0, 0}, 1, ArgList{which == 0, which == 1, false}});
    g.returns(all.at(static_cast<size_t>(which)));
    Both both(g);
    auto call = [&](int64_t image, int64_t gradient) {
      return both.refuse(
          {counting(DType::F32, {2, 3, image, 9}), counting(DType::F32, {5, 3, 3, 3}), counting(DType::F32, {2, 5, gradient, 5})});
    };
    for (int64_t image : {1, 7, 8}) {
      int64_t fits = (image - 1) / 2 + 1;
      CHECK(call(image, fits) == "");
      for (int64_t other : {fits - 1, fits + 1, fits + 7})
        if (other > 0) CHECK(mentions(call(image, other), which == 0 ? "the sizes do not fit" : "not of the size"));
    }
  }
}

TEST_CASE("nothing has no extreme, but a softmax") {
  for (const char* op : {"aten::amax", "aten::amin", "aten::argmax", "aten::softmax.int", "aten::logsumexp"}) {
    CAPTURE(op);
    bool extreme = std::string_view(op).starts_with("aten::a");
    TestGraph g;
    V x = g.input({g.b.integer(3), g.symbol("s0")});
    g.returns(g.b.call1(op, {x, 1}));
    Both both(g);
    CHECK(both.refuse({counting(DType::F32, {3, 4})}) == "");
    std::string none = both.refuse({Tensor(DType::F32, {3, 0})});
    CHECK((extreme ? mentions(none, "the sizes do not fit") : none.empty()));
  }
}

TEST_CASE("a dim that is squeezed has the size 1 always or never") {
  for (int form : {0, 1, 2}) {
    TestGraph g;
    V x = g.input({g.b.integer(1), g.symbol("m"), g.symbol("n"), g.b.integer(3)});
    if (form == 0) g.returns(g.b.call1("aten::squeeze.dim", {x, 1}));
    if (form == 1) g.returns(g.b.call1("aten::squeeze.default", {x}));
    if (form == 2) g.returns(g.b.call1("aten::squeeze.dims", {x, {1, 3}}) + Arg(1));
    for (bool interpret : {false, true}) {
      auto exe = g.program().compile({.interpret = interpret});
      for (int64_t m : {0, 1, 2})
        for (int64_t n : {1, 4}) {
          Outcome got = outcome_of(exe, {Tensor(DType::F32, {1, m, n, 3})});
          bool fits = m != 1 && (form != 1 || n != 1);
          CHECK(!got.error == fits);
          if (!fits) CHECK(std::string(got.error->what()).find("squeeze.dims: the sizes do not fit: ") != std::string::npos);
          else CHECK(got.outputs[0].sizes() == (form == 1 ? std::vector<int64_t>{m, n, 3} : std::vector<int64_t>{1, m, n, 3}));
        }
    }
  }
}

TEST_CASE("no more is cropped than there is") {
  TestGraph g;
  V x = g.input({g.symbol("s0")});
  g.returns(g.b.call1("aten::constant_pad_nd", {g.b.call1("aten::constant_pad_nd", {x, {-2, -1}}), {3, 3}}));
  Both both(g);
  for (int64_t n : {3, 4, 20}) CHECK(both.refuse({counting(DType::F32, {n})}) == "");
  for (int64_t n : {0, 1, 2}) CHECK(mentions(both.refuse({counting(DType::F32, {n})}), "the sizes do not fit"));
}

TEST_CASE("indices of another rank") {
  auto build = [](const char* op, std::initializer_list<int64_t> index, std::initializer_list<int64_t> source) {
    TestGraph g;
    V x = g.input({4, 5}), at = g.input(index, DType::I64);
    ArgList args{x, 1, at};
    if (source.size() > 0) args.push_back(g.input(source));
    g.b.call1(op, args);
  };
  build("aten::scatter_add", {2, 3}, {2, 3});
  build("aten::scatter_add", {0}, {7}); // nothing is written
  build("aten::gather", {2, 3}, {});
  CHECK_THROWS_AS(build("aten::scatter_add", {3}, {3}), Error);
  CHECK_THROWS_AS(build("aten::scatter_add", {2, 3}, {3}), Error);
  CHECK_THROWS_AS(build("aten::scatter.src", {1, 2, 3}, {1, 2, 3}), Error);
  CHECK_THROWS_AS(build("aten::index_add", {2, 3}, {4, 6}), Error);
  CHECK_THROWS_AS(build("aten::gather", {3}, {}), Error);
}

TEST_CASE("shuffles by no group, or fewer") {
  auto build = [](const char* op, int64_t by) {
    TestGraph g;
    Expr n = g.symbol("s0");
    g.b.call1(op, {g.input({n, n, n, n}), by});
  };
  for (const char* op : {"aten::channel_shuffle", "aten::native_channel_shuffle", "aten::pixel_shuffle", "aten::pixel_unshuffle"}) {
    build(op, 2);
    for (int64_t by : {0, -1, -2}) CHECK_THROWS_AS(build(op, by), Error);
  }
}

TEST_CASE("frexp is of floats, and exact") {
  for (DType t : {DType::I64, DType::Bool}) {
    TestGraph g;
    V x = g.input({4}, t);
    std::string message;
    try {
      g.returns(g.b.call("aten::frexp.Tensor", {x})[0]);
      message = g.program().compile({}).ok() ? "" : "refused";
    } catch (const Error& e) {
      CHECK(e.kind == ErrorKind::BadInput);
      message = e.what();
    }
    CHECK(message != "");
  }
  for (DType t : {DType::F32, DType::F64}) {
    TestGraph g;
    for (V v : g.b.call("aten::frexp.Tensor", {g.input({11}, t)})) g.returns(v);
    double tiny = t == DType::F32 ? 0x1p-149 : 0x1p-1074, largest = t == DType::F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
    std::vector<double> x{1, -0.75, 8, 7.999, tiny, -3 * tiny, largest, 0, -0.0, INFINITY, 0x1p-126};
    Tensor in = filled(t, {11}, [&](int64_t i) { return x[static_cast<size_t>(i)]; });
    compare(g, {{in}});
    auto got = run(g.program().compile({}).value(), {in});
    std::vector<double> exact = numbers(in), mantissas = numbers(got[0]), exponents = numbers(got[1]);
    for (size_t i = 0; i < x.size(); i++) {
      int exponent = 0;
      double mantissa = std::frexp(exact[i], &exponent);
      CHECK(mantissas[i] == mantissa);
      if (std::isfinite(exact[i])) CHECK(exponents[i] == exponent);
    }
  }
}

} // namespace tenon::refusals_test
