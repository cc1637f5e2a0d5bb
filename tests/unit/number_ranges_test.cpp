// Numbers that a caller gives or a tensor holds, where an operator takes them as an index, a length or a stride: whatever they are, no
// operand is read beyond its end, and what a range says of them holds.
#include <doctest/doctest.h>

#include "ops/names.h"
#include "tests/unit/graph_harness.h"

namespace tenon::number_ranges_test {
using namespace tenon::test;

namespace {

constexpr int64_t anything[] = {
    0,        1, 2, 3, 4, 7, 8, 10, 11, -1, -3, -8, 1ll << 31, -(1ll << 31), 1ll << 61, 1ll << 62, -(1ll << 62), INT64_MAX, INT64_MAX - 2,
    INT64_MIN};

/// A number among the inputs; of the range.
Expr number(TestGraph& g, const std::string& name, int64_t lo, int64_t hi) {
  Expr symbol = g.b.pool().symbol(name, DType::I64, lo, hi);
  ValueId v = g.p.graph.add_param(g.p.graph.top(), Type::scalar(TypeKind::Int, symbol), name);
  g.p.inputs.push_back({.kind = InputKind::User, .name = name, .target = {}, .value = v});
  return symbol;
}
/// The same, read from a tensor among the inputs.
Expr item(TestGraph& g, const std::string& name, int64_t lo, int64_t hi) {
  Expr symbol = g.b.pool().symbol(name, DType::I64, lo, hi);
  V from = g.input({}, DType::I64);
  g.p.graph.append(g.b.block(), {.op = prim::Item, .def = find_op(prim::Item), .args = {Arg(from)}}, {Type::scalar(TypeKind::Int, symbol)});
  return symbol;
}

Tensor scalar(int64_t v) {
  Tensor t(DType::I64, {});
  *t.data_as<int64_t>() = v;
  return t;
}

struct Case {
  const char* name;
  std::function<V(TestGraph&, V, Expr)> build; // of x[8, 4]
  std::function<bool(int64_t)> fits;
};

const Case cases[] = {
    {"select", [](TestGraph& g, V x, Expr s) { return g.b.call1("aten::select.int", {x, 0, s}); },
     [](int64_t s) { return s >= -8 && s < 8; }},
    {"narrow", [](TestGraph& g, V x, Expr s) { return g.b.call1("aten::narrow", {x, 0, s, 3}); },
     [](int64_t s) { return s >= -8 && s <= 5 && !(s < 0 && s > -3); }},
    {"select_scatter",
     [](TestGraph& g, V x, Expr s) { return g.b.call1("aten::select_scatter", {x, g.b.full({g.b.integer(4)}, 1, DType::F32), 0, s}); },
     [](int64_t s) { return s >= -8 && s < 8; }},
    {"slice_scatter",
     [](TestGraph& g, V x, Expr s) {
       return g.b.call1("aten::slice_scatter", {x, g.b.full({g.b.integer(3), g.b.integer(4)}, 1, DType::F32), 0, s, s + 3});
     },
     [](int64_t s) { return (s >= 0 && s <= 5) || (s >= -8 && s < -3); }},
    {"as_strided", [](TestGraph& g, V x, Expr s) { return g.b.call1("aten::as_strided", {x, ArgList{3, 2}, ArgList{s, 1}, 0}); },
     [](int64_t s) { return s >= 0 && s <= 15; }},
    {"as_strided's offset", [](TestGraph& g, V x, Expr s) { return g.b.call1("aten::as_strided", {x, ArgList{3, 2}, ArgList{2, 1}, s}); },
     [](int64_t s) { return s >= 0 && s <= 26; }},
    {"repeat", [](TestGraph& g, V x, Expr s) { return g.b.call1("aten::repeat", {x, ArgList{1, s}}); },
     [](int64_t s) { return s >= 0 && s <= 11; }},
    {"pad", [](TestGraph& g, V x, Expr s) { return g.b.call1("aten::constant_pad_nd", {x, ArgList{s, s}}); },
     [](int64_t s) { return s >= -2 && s <= 11; }},
};

/// Calls with every number: native code and the interpreter, as an input and as an item, of the range.
void hold(const Case& c, int64_t lo, int64_t hi) {
  for (auto make : {number, item}) {
    TestGraph g;
    V x = g.input({8, 4});
    Expr s = make(g, "s", lo, hi);
    g.returns(c.build(g, x, s));
    Executable native = g.program().compile({.forbid_fallback = true}).value(), oracle = g.program().compile({.interpret = true}).value();
    for (int64_t v : anything) {
      CAPTURE(v);
      bool fits = c.fits(v) && v >= lo && v <= hi;
      std::vector<Tensor> inputs{counting(DType::F32, {8, 4}), scalar(v)}, got;
      Status status = native.run(inputs, got);
      CHECK(status.ok() == fits);
      if (fits) CHECK(difference(got.at(0), run(oracle, inputs).at(0)) == "");
      else if (!status.ok()) CHECK(status.error().kind != ErrorKind::Internal);
    }
  }
}

} // namespace

TEST_CASE("numbers as indices, lengths and strides stay within the operand") {
  for (const Case& c : cases) {
    CAPTURE(c.name);
    hold(c, INT64_MIN, INT64_MAX);
  }
}

TEST_CASE("what a range says of a number holds, as indices are simplified for it") {
  for (const Case& c : cases) {
    CAPTURE(c.name);
    hold(c, 0, 3);
    hold(c, 0, INT64_MAX);
  }
}

TEST_CASE("a number that only values depend on is held to its range in every call") {
  TestGraph g;
  V x = g.input({4});
  Expr s = number(g, "s", 0, 9);
  g.returns(g.b.call1("aten::mul.Scalar", {x, s}));
  Executable native = g.program().compile({.forbid_fallback = true}).value();
  std::vector<Tensor> got;
  for (int64_t v : {3, 10, 10, 9, -1, -1, 0}) {
    CAPTURE(v);
    std::vector<Tensor> inputs{counting(DType::F32, {4}), scalar(v)};
    Status status = native.run(inputs, got);
    CHECK(status.ok() == (v >= 0 && v <= 9));
    if (status.ok()) CHECK(numbers(got.at(0)).at(3) == 3.0 * static_cast<double>(v));
    else CHECK(status.error().what() == fmt::format("s is {}, outside its range 0 to 9", v));
  }
}

TEST_CASE("loops over nothing end, however long the other dims are") {
  TestGraph g;
  V x = g.input({g.symbol("m"), g.symbol("n")});
  Expr s = number(g, "s", INT64_MIN, INT64_MAX);
  g.returns(g.b.call1("aten::repeat", {x, ArgList{s, 1}}));
  Executable native = g.program().compile({.forbid_fallback = true}).value();
  std::vector<Tensor> got = run(native, {Tensor(DType::F32, {8, 0}), scalar(1ll << 40)});
  CHECK(got.at(0).sizes() == std::vector<int64_t>{8ll << 40, 0});
}

} // namespace tenon::number_ranges_test
