// Cats of many operands, beside the interpreter.
#include "compile/compile.h"
#include "tests/unit/graph_harness.h"
#include "tests/unit/occurrences.h"

namespace tenon::split_cats_test {
using namespace tenon::test;

namespace {

Tensor mixed(DType t, std::vector<int64_t> sizes, int64_t step) {
  return filled(t, std::move(sizes), [&](int64_t i) { return static_cast<double>(i * step % 61 - 30); });
}

/// cat([x[i0], x[i1] ...], dim) of rows chosen by indices, some through a view or doubled; sizes of the call where `dynamic`.
TestGraph graph_of(size_t operands, int64_t dim, DType type, bool dynamic) {
  TestGraph g;
  Expr rows = dynamic ? g.symbol("rows", 1) : g.b.integer(13);
  V x = g.input(std::vector<Expr>{rows, g.b.integer(5)}, type);
  ArgList parts;
  for (size_t k = 0; k < operands; k++) {
    Expr chosen = dynamic && k < 4 ? g.symbol("n" + std::to_string(k)) : g.b.integer(dim == 0 ? static_cast<int64_t>(k % 5) : 3);
    if (dim == 1 && dynamic) chosen = g.b.integer(3);
    V part = g.b.call1("aten::index_select.default", {x, 0, g.input(std::vector<Expr>{chosen}, DType::I64)});
    if (k % 3 == 1) part = g.b.call1("aten::mul.Scalar", {part, 2});
    if (k % 5 == 2) part = g.b.call1("aten::flip.default", {part, {1}});
    parts.push_back(part);
  }
  g.returns(g.b.call1("aten::cat.default", {parts, dim}));
  return g;
}

std::vector<Tensor> inputs_of(const TestGraph& g, int64_t rows, int64_t chosen) {
  std::vector<Tensor> out;
  for (const ProgramInput& s : g.p.inputs) {
    const Type& t = g.p.graph.type(s.value);
    std::vector<int64_t> sizes;
    for (Expr e : t.sizes) sizes.push_back(const_int(e).value_or(out.empty() ? rows : chosen));
    int64_t step = static_cast<int64_t>(out.size());
    if (out.empty()) out.push_back(mixed(t.dtype, sizes, 7));
    else out.push_back(filled(t.dtype, sizes, [&](int64_t i) { return static_cast<double>((i * 5 + step) % rows); }));
  }
  return out;
}

} // namespace

TEST_CASE("a cat of many operands is one of cats") {
  auto cats = [](size_t operands) {
    LoadedProgram p = graph_of(operands, 0, DType::F32, false).p;
    lower(p, "backend");
    return occurrences(to_string(p.graph), "edge::cat");
  };
  CHECK(cats(32) == 1);
  CHECK(cats(33) == 1 + 6); // of six, the last of three
  CHECK(cats(90) == 1 + 9);
}

TEST_CASE("cats of many operands give what the interpreter gives") {
  for (size_t operands : {32, 33, 64, 91})
    for (int64_t dim : {0, 1})
      for (DType type : {DType::F32, DType::I64, DType::BF16, DType::Bool}) {
        CAPTURE(operands);
        CAPTURE(dim);
        CAPTURE(name_of(type));
        if (type == DType::Bool && operands != 33) continue;
        TestGraph fixed = graph_of(operands, dim, type, false), dynamic = graph_of(operands, dim, type, true);
        for (int threads : {1, 2}) compare(fixed, {inputs_of(fixed, 13, 3)}, {.threads = threads});
        compare(fixed, {inputs_of(fixed, 13, 3)}, {.threads = 1, .isa = Isa::Avx2});
        std::vector<std::vector<Tensor>> calls;
        for (auto [rows, chosen] : {std::pair<int64_t, int64_t>{13, 3}, {1, 0}, {40, 129}, {7, 1}, {64, 65}})
          calls.push_back(inputs_of(dynamic, rows, chosen));
        compare(dynamic, calls, {.threads = 2});
      }
}

} // namespace tenon::split_cats_test
