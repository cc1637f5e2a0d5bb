// What rows say of their operators beside how they compute.
#include <algorithm>
#include <fstream>
#include <map>
#include <regex>

#include "tests/unit/graph_harness.h"

namespace tenon::rows_test {
using namespace tenon::test;

namespace {

using Function = V (*)(Builder&, V x);

V reshaped(V x, const std::vector<int64_t>& sizes) { return x.builder().call1("aten::reshape.default", {x, sizes}); }
V part(V x, int64_t rows, int64_t columns) {
  Builder& b = x.builder();
  return b.call1("aten::slice.Tensor", {b.call1("aten::slice.Tensor", {x, 0, 0, rows, 1}), 1, 0, columns, 1});
}
V row(V x, int64_t k) { return x.builder().call1("aten::select.int", {x, 0, k}); }
V positions(Builder& b) { return b.call1("aten::full.default", {{2, 4}, 1}, {{"dtype", DType::I64}}); }
V exp(V x) { return x.builder().call1("aten::exp.default", {x}); }

// Of rows with a derivative that take one tensor alone.
constexpr std::string_view elementary[] = {
    "aten::sin.default",   "aten::cos.default",   "aten::tan.default",        "aten::sinh.default",    "aten::cosh.default",
    "aten::tanh.default",  "aten::atan.default",  "aten::exp.default",        "aten::expm1.default",   "aten::log.default",
    "aten::log1p.default", "aten::sqrt.default",  "aten::rsqrt.default",      "aten::sigmoid.default", "aten::erf.default",
    "aten::abs.default",   "aten::neg.default",   "aten::reciprocal.default", "aten::square.default",  "aten::relu.default",
    "aten::silu.default",  "aten::clone.default", "aten::sum.default",        "aten::mean.default",    "aten::_to_copy.default"};

// Calls of the others on a matrix of 4 x 4, where they can in more than one operand.
const std::map<std::string_view, Function> calls = {
    {"aten::add.Tensor", [](Builder& b, V x) { return b.call1("aten::add.Tensor", {x, b.call1("aten::add.Tensor", {exp(x), 3.0})}); }},
    {"aten::sub.Tensor", [](Builder& b, V x) { return b.call1("aten::sub.Tensor", {exp(x), x}, {{"alpha", 2}}); }},
    {"aten::mul.Tensor", [](Builder& b, V x) { return b.call1("aten::mul.Tensor", {x, exp(x)}); }},
    {"aten::div.Tensor", [](Builder& b, V x) { return b.call1("aten::div.Tensor", {x, exp(x)}); }},
    {"aten::pow.Tensor_Scalar", [](Builder& b, V x) { return b.call1("aten::pow.Tensor_Scalar", {x, 2.5}); }},
    {"aten::gelu.default", [](Builder& b, V x) { return b.call1("aten::gelu.default", {x}, {{"approximate", "tanh"}}); }},
    {"aten::softmax.int", [](Builder& b, V x) { return b.call1("aten::softmax.int", {x, 1}); }},
    {"aten::_softmax.default", [](Builder& b, V x) { return b.call1("aten::_softmax.default", {x, 0, false}); }},
    {"aten::log_softmax.int", [](Builder& b, V x) { return b.call1("aten::log_softmax.int", {x, -1}); }},
    {"aten::_log_softmax.default", [](Builder& b, V x) { return b.call1("aten::_log_softmax.default", {x, 0, false}); }},
    {"aten::sum.dim_IntList", [](Builder& b, V x) { return b.call1("aten::sum.dim_IntList", {x, {1}}); }},
    {"aten::mean.dim", [](Builder& b, V x) { return b.call1("aten::mean.dim", {x, {0}, true}); }},
    {"aten::cat.default", [](Builder& b, V x) { return b.call1("aten::cat.default", {ArgList{x, exp(x)}, 1}); }},
    {"aten::stack.default", [](Builder& b, V x) { return b.call1("aten::stack.default", {ArgList{x, exp(x)}, 1}); }},
    {"aten::to.dtype", [](Builder& b, V x) { return b.call1("aten::to.dtype", {x, DType::F64}); }},
    {"aten::cumsum.default", [](Builder& b, V x) { return b.call1("aten::cumsum.default", {x, 1}); }},
    {"aten::flip.default", [](Builder& b, V x) { return b.call1("aten::flip.default", {x, {0}}); }},
    {"aten::roll.default", [](Builder& b, V x) { return b.call1("aten::roll.default", {x, {1}, {0}}); }},
    {"aten::constant_pad_nd.default", [](Builder& b, V x) { return b.call1("aten::constant_pad_nd.default", {x, {1, 2}, 5.0}); }},
    {"aten::index_select.default", [](Builder& b, V x) { return b.call1("aten::index_select.default", {x, 1, row(positions(b), 0)}); }},
    {"aten::gather.default", [](Builder& b, V x) { return b.call1("aten::gather.default", {x, 0, positions(b)}); }},
    {"aten::where.self", [](Builder& b, V x) { return b.call1("aten::where.self", {b.call1("aten::gt.Scalar", {x, 0.5}), x, exp(x)}); }},
    {"aten::mm.default", [](Builder& b, V x) { return b.call1("aten::mm.default", {x, exp(x)}); }},
    {"aten::bmm.default",
     [](Builder& b, V x) { return b.call1("aten::bmm.default", {reshaped(x, {4, 2, 2}), reshaped(exp(x), {4, 2, 2})}); }},
    {"aten::mv.default", [](Builder& b, V x) { return b.call1("aten::mv.default", {x, row(x, 1)}); }},
    {"aten::dot.default", [](Builder& b, V x) { return b.call1("aten::dot.default", {row(x, 0), row(x, 1)}); }},
    {"aten::matmul.default", [](Builder& b, V x) { return b.call1("aten::matmul.default", {reshaped(x, {2, 2, 4}), x}); }},
    {"aten::linear.default", [](Builder& b, V x) { return b.call1("aten::linear.default", {reshaped(x, {2, 2, 4}), exp(x), row(x, 2)}); }},
    {"aten::convolution.default",
     [](Builder& b, V x) {
       return b.call1(
           "aten::convolution.default",
           {reshaped(x, {1, 2, 4, 2}), reshaped(exp(x), {2, 2, 2, 2}), row(part(x, 1, 2), 0), {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 1});
     }},
};

// The tangent of f at x in the direction t, beside what differences say of it.
void check_tangent(const std::function<V(Builder&, V)>& f) {
  TestGraph g;
  V x = g.input({4, 4}, DType::F64), t = g.input({4, 4}, DType::F64);
  V y = f(g.b, g.b.call1("aten::_make_dual.default", {x, t, 0}));
  g.returns(g.b.call("aten::_unpack_dual.default", {y, 0}).at(1));
  constexpr double h = 1e-5;
  g.returns((f(g.b, x + t * Arg(h)) - f(g.b, x - t * Arg(h))) * Arg(0.5 / h));
  std::vector<Tensor> inputs = {filled(DType::F64, {4, 4}, [](int64_t i) { return 0.2 + 0.07 * static_cast<double>(i * 7 % 16); }),
                                filled(DType::F64, {4, 4}, [](int64_t i) { return std::cos(static_cast<double>(i)); })};
  std::vector<Tensor> out = run(g.program().compile({.interpret = true}).value(), inputs);
  CHECK(difference(out.at(0), out.at(1), 1e-7) == "");
}

} // namespace

TEST_CASE("derivatives that rows say are what differences give") {
  for (const OpDef* def : all_ops()) {
    if (!def->jvp) continue;
    std::string_view name = def->signature.name;
    CAPTURE(name);
    bool alone = std::ranges::find(elementary, name) != std::end(elementary);
    auto call = calls.find(name);
    REQUIRE((alone || call != calls.end()));
    if (alone) check_tangent([&](Builder& b, V x) { return b.call1(name, {x}); });
    else check_tangent(call->second);
  }
}

TEST_CASE("only views say what becomes of what they show") {
  for (const OpDef* def : all_ops()) {
    const Schema& s = def->signature;
    bool view = !s.returns.empty() && !s.returns[0].alias.empty() && !s.args.empty() && s.args[0].alias[0] == s.returns[0].alias[0];
    CAPTURE(s.name);
    CHECK((!def->view_inverse || view));
    CHECK((!def->shares || def->view_inverse));
  }
}

TEST_CASE("ids of ops/names.h are those of rows") {
  std::ifstream header(TENON_FIXTURES "/../../src/ops/names.h");
  REQUIRE(header);
  const std::regex id(R"re(OpId (\w+) = "(\w+)::(\w+)(?:\.(\w+))?";)re");
  bool rows = true;
  int seen = 0;
  for (std::string line; std::getline(header, line);) {
    if (line == "// ---- without rows") rows = false;
    std::smatch m;
    if (!std::regex_search(line, m, id)) continue;
    std::string overload = m[4], name = m[2].str() + "::" + m[3].str() + (overload.empty() ? "" : "." + overload);
    CAPTURE(name);
    CHECK((find_op(functional_name(name)) != nullptr) == rows);
    CHECK(m[1].str() == m[3].str() + (overload.empty() || overload == "default" ? "" : "_" + overload));
    seen++;
  }
  CHECK(!rows);
  CHECK(seen > 100);
}

} // namespace tenon::rows_test
