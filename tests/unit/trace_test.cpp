// Graphs recorded by C++ expressions, and the types that shape analysis gives them.
#include <doctest/doctest.h>

#include <cmath>

#include "tenon/tenon.h"
#include "tests/unit/load_samples.h"

namespace tenon::trace_test {

namespace {

ir::Type matrix(int64_t rows, int64_t columns) { return ir::Type::tensor(DType::F32, {rows, columns}); }
Tensor filled(std::vector<int64_t> sizes, float start) {
  Tensor t(DType::F32, std::move(sizes));
  for (int64_t i = 0; i < t.numel(); i++) t.data_as<float>()[i] = start + 0.25f * static_cast<float>(i);
  return t;
}
float at(const IValue& v, size_t i = 0) { return v.to_tensor().contiguous().data_as<float>()[i]; }

} // namespace

TEST_CASE("trace: lambdas on Vars become programs") {
  Script f = trace([](Var x, Var w) { return tanh(matmul(x, w)) + 1; }, {matrix(2, 3), matrix(3, 2)});
  Tensor x = filled({2, 3}, 0), w = filled({3, 2}, -1);
  IValue y = f(x, w);
  CHECK(y.to_tensor().sizes() == std::vector<int64_t>{2, 2});
  CHECK(at(y) == doctest::Approx(std::tanh(0 * -1 + 0.25f * -0.5f + 0.5f * 0.0f) + 1));
  CHECK(has(f.text(), "Float(2, 2) = aten::matmul("));
  auto wrong = f.call({x, x});
  REQUIRE_FALSE(wrong.ok());
  CHECK(has(wrong.error().what(), "Float(3, 2)"));
}

TEST_CASE("trace: numbers on either side, comparisons, operators by name") {
  Script f = trace(
      [](Var x) {
        Var y = 1 - x, z = 2 / (x + 2), c = 0.5 < x;
        return std::tuple(y, z, c, -x * 3 % 2, Var::call("softmax", x, -1), Var::call("clamp", x, kw("max", 0.5)), where(x > 0, x, 0.0));
      },
      {ir::Type::tensor(DType::F32, {2})});
  Tensor x = filled({2}, 0.5);
  IValue r = f(x);
  REQUIRE(r.to_tuple().size() == 7);
  CHECK(at(r.to_tuple()[0]) == 0.5f);
  CHECK(at(r.to_tuple()[1]) == doctest::Approx(0.8));
  CHECK(r.to_tuple()[2].to_tensor().data_as<bool>()[0] == false);
  CHECK(r.to_tuple()[2].to_tensor().data_as<bool>()[1] == true);
  CHECK(at(r.to_tuple()[3]) == doctest::Approx(0.5)); // -1.5 % 2
  CHECK(at(r.to_tuple()[4], 1) == doctest::Approx(1 / (1 + std::exp(-0.25))));
  CHECK(at(r.to_tuple()[5], 1) == 0.5f);
  CHECK(at(r.to_tuple()[6], 1) == 0.75f);
}

TEST_CASE("trace: C++ loops unroll, lists and tuples are taken apart") {
  Script f = trace(
      [](Var x, Var h) {
        std::vector<Var> all;
        for (Var row : x.unbind(0)) {
          h = sigmoid(row + h);
          all.push_back(h);
        }
        return std::pair(stack(all), all);
      },
      {matrix(3, 2), ir::Type::tensor(DType::F32, {2})});
  IValue r = f(filled({3, 2}, 0), filled({2}, 0));
  CHECK(r.to_tuple()[0].to_tensor().sizes() == std::vector<int64_t>{3, 2});
  CHECK(r.to_tuple()[1].to_list().size() == 3);
  CHECK(at(r.to_tuple()[0]) == doctest::Approx(0.5));
  CHECK(has(f.text(), "Float(3, 2) = aten::stack("));
  Script g = trace(
      [](Var x) {
        auto parts = x.chunk(2, 1);
        std::vector<Var> best = Var::calls("max", parts[0], 1);
        return best[0] + parts[1][0][0] + x.size(0) * 1;
      },
      {matrix(2, 3)});
  CHECK(at(g(filled({2, 3}, 0))) == doctest::Approx(0.25 + 0.5 + 2));
  Script nested = trace([](Var x) { return std::tuple(std::pair(x, 2), std::vector{x, x}, "text"); }, {matrix(1, 2)});
  CHECK(nested(filled({1, 2}, 0)).to_tuple()[0].to_tuple()[1].to_int() == 2);
  CHECK(nested(filled({1, 2}, 0)).to_tuple()[2].to_string() == "text");
  Script h = trace([](const std::vector<Var>& xs) { return cat(xs); }, {matrix(1, 2), matrix(2, 2)});
  CHECK(h(filled({1, 2}, 0), filled({2, 2}, 0)).to_tensor().sizes() == std::vector<int64_t>{3, 2});
}

TEST_CASE("trace: what cannot be recorded") {
  auto traced = [](auto f, std::vector<ir::Type> types) { return error_thrown_by([&] { trace(f, types); }); };
  CHECK(has(traced([](Var x) { return x; }, {}), "takes 1 Vars, 0 types are given"));
  CHECK(has(traced([](Var x) { return x + "a"; }, {matrix(1, 1)}), "aten::add"));
  CHECK(has(traced([](Var x) { return x.unbind()[0]; }, {ir::Type::dynamic()}), "the size of dim 0 of Tensor is not known"));
  CHECK(has(traced([](Var x) { return x.unpack(2)[0]; }, {matrix(1, 1)}), "neither a list nor a tuple"));
  CHECK(has(traced([](Var x) { return x.chunk(0)[0]; }, {matrix(1, 1)}), "0 chunks"));
  CHECK(has(traced([](Var x) { return Var::call("max", x, 0); }, {matrix(1, 1)}), "gives 2 results"));
  CHECK(has(traced([](Var x) { return x.known_size(2), x; }, {matrix(1, 1)}), "dim 2"));
  CHECK(has(traced([](Var) { return Var::call("zeros", std::vector<int64_t>{1}); }, {matrix(1, 1)}), "no argument is a Var"));
  Var outside;
  trace_graph([&](Var x) { return outside = x; }, {matrix(1, 1)});
}

TEST_CASE("types: full and partial ones are propagated, and printed") {
  ir::Graph g = trace_graph(
      [](Var x, Var w) {
        Var y = relu(matmul(x, w));
        Var z = y + x.size(0) * 1.0;
        return std::tuple(z.view({-1, 2}), sum(z), z > 0, z.squeeze(0), z.transpose(0, 1), z.to(DType::F64));
      },
      {ir::Type::partial(DType::F32, 2), matrix(3, 4)});
  std::string text = g.toString();
  CHECK(has(text, ": Float(*, 4) = aten::matmul("));
  CHECK(has(text, ": Float(*, 4) = aten::relu("));
  CHECK(has(text, ": Float(*, 2) = aten::view("));
  CHECK(has(text, ": Float() = aten::sum("));
  CHECK(has(text, ": Bool(*, 4) = aten::gt("));
  CHECK(has(text, ": Tensor = aten::squeeze(")); // its rank depends on the size
  CHECK(has(text, ": Float(4, *) = aten::transpose("));
  CHECK(has(text, ": Double(*, 4) = aten::to("));
  CHECK_FALSE(g.propagateTypes());
  g.inputs()[0].setType(matrix(5, 3));
  CHECK(g.propagateTypes());
  CHECK(has(g.toString(), ": Float(5, 4) = aten::squeeze("));
  g.inputs()[0].setType(ir::Type::dynamic());
  CHECK(g.propagateTypes());
  CHECK(has(g.toString(), ": Tensor = aten::relu("));
}

TEST_CASE("types: sizes that broadcast are known only where they are the same whatever the unknown ones are") {
  auto type = [](std::vector<ir::Size> a, std::vector<ir::Size> b) {
    ir::Graph g = trace_graph([](Var x, Var y) { return x + y; }, {ir::Type::tensor(DType::F32, a), ir::Type::tensor(DType::F32, b)});
    return g.outputs()[0].type().str();
  };
  CHECK(type({2, 3}, {3}) == "Float(2, 3)");
  CHECK(type({"*", 3}, {1, 1}) == "Float(*, 3)");
  CHECK(type({"*"}, {3}) == "Float(3)");
  CHECK(type({"*"}, {1}) == "Float(*)");
  CHECK(type({"*"}, {"*"}) == "Float(*)");
  CHECK(type({2}, {3}) == "Tensor"); // told when it runs
}

TEST_CASE("types: what is written in place is known no longer than it holds") {
  ir::Graph g = Script::compile(R"(
import torch
def f(x, y):
    parts = [x, x]
    a = torch.cat(parts)
    grown = [x]
    grown.append(y)
    b = torch.cat(grown)
    c = x + 1
    c.mul_(2.0)
    p, q = grown
    return a, b, c, p, x.add_(torch.relu(y))
)",
                                "f")
                    .value()
                    .graph();
  g.inputs()[0].setType(matrix(2, 4));
  CHECK(g.propagateTypes());
  CHECK(g.outputs()[0].type().str() == "(Float(4, 4), Tensor, Float(2, 4), Tensor, Float(2, 4))");
  CHECK_FALSE(g.propagateTypes());
}

TEST_CASE("types: through branches and loops") {
  ir::Graph g = Script::compile(R"(
import torch
def f(x, c: bool, n: int):
    if c:
        y = torch.cat([x, x])
    else:
        y = x + 1
    z = y
    for i in range(n):
        z = torch.cat([z, y], 1)
    w = x
    for i in range(n):
        w = w * 2
    h, k = torch.relu(w).chunk(2, 1)
    return z, w, (h, k)
)",
                                "f")
                    .value()
                    .graph();
  g.inputs()[0].setType(matrix(2, 4));
  CHECK(g.propagateTypes());
  std::string text = g.toString();
  CHECK(has(text, ": Float(4, 4) = aten::cat("));
  CHECK(has(text, "%y : Float(*, 4) = prim::If("));
  CHECK(has(text, ": Float(*, *) = prim::Loop("));
  CHECK(has(text, ": Float(2, 4) = prim::Loop("));
  CHECK(has(text, "%h : Float(2, 2), %k : Float(2, 2) = prim::ListUnpack("));
  CHECK(has(text, ": (Float(*, *), Float(2, 4), (Float(2, 2), Float(2, 2))) = prim::TupleConstruct("));
  g.lint();
  ir::Type x = matrix(2, 4);
  x.requires_grad = true;
  g.inputs()[0].setType(x);
  g.propagateTypes();
  CHECK(has(g.toString(), ": Float(2, 4, requires_grad=1, device=cpu) = aten::relu("));
}

} // namespace tenon::trace_test
