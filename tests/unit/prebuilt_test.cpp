// Kernels that the library brings along: the table, that programs find what they need in it, and that it holds what this machine would have
// compiled.
#include <algorithm>
#include <cstdlib>

#include "codegen/code_count.h"
#include "codegen/codegen.h"
#include "codegen/prebuilt.h"
#include "compile/compile.h"
#include "compile/select_kernels.h"
#include "prebuilt/layer.h"
#include "tests/unit/graph_harness.h"

namespace tenon::prebuilt_test {

namespace {

std::vector<Isa> levels() {
  std::vector<Isa> out{Isa::Avx2};
  if (host_target(Isa::Auto).avx512()) out.push_back(Isa::Avx512);
  return out;
}

const unsigned char* bytes_of(const std::string& s) { return reinterpret_cast<const unsigned char*>(s.data()); }

std::vector<Tensor> waves(const test::TestGraph& g, int64_t length) {
  std::vector<Tensor> inputs;
  for (const ProgramInput& in : g.p.inputs) {
    if (in.kind != InputKind::User) continue;
    const Type& type = g.p.graph.type(in.value);
    std::vector<int64_t> sizes;
    for (Expr e : type.sizes) sizes.push_back(const_int(e).value_or(length));
    inputs.push_back(test::filled(type.dtype, sizes, [](int64_t i) { return std::sin(static_cast<double>(i)); }));
  }
  return inputs;
}

// A program of layers without the numbers of any that is prebuilt.
test::TestGraph layers(bool known) {
  test::TestGraph g;
  auto weight = [&](std::vector<int64_t> sizes) {
    return g.buffer("w" + std::to_string(g.p.inputs.size()),
                    test::filled(DType::F32, sizes, [](int64_t i) { return std::cos(static_cast<double>(i)) / 8; }));
  };
  Expr rows = known ? g.b.integer(23) : g.symbol("length", 1);
  V x = g.input({rows, g.b.integer(72)});
  V wide = g.b.call1("aten::gelu", {g.b.call1("aten::linear", {x, weight({88, 72}), weight({88})})});
  V y = x + g.b.call1("aten::linear", {wide, weight({72, 88}), weight({72})});
  g.returns(g.b.call1("aten::layer_norm", {y, ArgList{72}, weight({72}), weight({72}), 1e-5}));
  g.returns(g.b.call1("aten::linear",
                      {g.b.call1("aten::silu", {g.b.call1("aten::linear", {x, weight({40, 72})})}), weight({9, 40}), weight({9})}));
  return g;
}

struct Made {
  uint64_t pieces;
  Executable executable;
};
Made make(const Program& program, Isa isa) {
  uint64_t before = pieces_of_code;
  Executable e = program.compile({.isa = isa}).value();
  return {pieces_of_code - before, std::move(e)};
}

} // namespace

TEST_CASE("a table of prebuilt kernels gives what was put in, by its shape") {
  std::vector<PrebuiltKernel> kernels;
  for (size_t n : {0, 1, 40, 5000})
    kernels.push_back({std::string(n, 'k') + "\n", {"f" + std::to_string(n), std::vector<char>(3 * n + 1, static_cast<char>(n))}});
  std::string bytes = "other bytes";
  std::vector<PrebuiltTable::Place> places = deflate(kernels, bytes);
  PrebuiltTable table(places, bytes_of(bytes));
  for (const PrebuiltKernel& k : kernels) {
    auto found = table.find(k.shape);
    REQUIRE(found);
    CHECK(found->name == k.code.name);
    CHECK(found->bytes == k.code.bytes);
  }
  for (const char* other : {"", "k", "kk\n", "kernel"}) CHECK(!table.find(other));
  CHECK(!PrebuiltTable().find("\n"));

  std::string damaged = bytes;
  for (char& c : damaged) c ^= 0x5a;
  CHECK_THROWS_AS(PrebuiltTable(places, bytes_of(damaged)).find(kernels[2].shape), Error);

  for (PrebuiltTable::Place& p : places) p.hash = places[0].hash; // of one hash, it is the text that counts
  int found = 0;
  for (const PrebuiltKernel& k : kernels) {
    auto code = table.find(k.shape);
    if (!code) continue;
    CHECK(code->name == k.code.name);
    found++;
  }
  CHECK(found == 1); // the one whose hash it is
}

TEST_CASE("common layers compile nothing, and compute what they do without prebuilt kernels") {
  for (bool known : {true, false}) {
    test::TestGraph g = layers(known);
    Program program = g.program();
    for (Isa isa : levels()) {
      CAPTURE(known);
      setenv("TENON_PREBUILT", "0", 1);
      Made own = make(program, isa);
      unsetenv("TENON_PREBUILT");
      Made prebuilt = make(program, isa);
      int kernels = prebuilt.executable.stats().kernels_compiled;
      CHECK(kernels >= 3);
      CHECK(own.pieces - prebuilt.pieces == static_cast<uint64_t>(kernels));
      for (int64_t length : known ? std::vector<int64_t>{23} : std::vector<int64_t>{1, 2, 31, 33, 64}) {
        std::vector<Tensor> inputs = waves(g, length);
        auto a = test::run(prebuilt.executable, inputs), b = test::run(own.executable, inputs);
        for (size_t i = 0; i < a.size(); i++) CHECK(test::difference(a[i], b[i], 1e-6) == "");
      }
      test::compare(g, {waves(g, known ? 23 : 17)}, {.isa = isa});
    }
  }
}

TEST_CASE("prebuilt kernels are what this machine would have compiled") {
  std::vector<LoadedProgram> programs;
  add_products(programs), add_norms(programs);
  for (LoadedProgram& p : programs) lower(p, "backend");
  for (Isa level : levels()) {
    Target target = host_target(level);
    PlanTarget plan(target);
    ExprPool pool;
    std::vector<GeneralKernel> kernels;
    for (const LoadedProgram& p : programs)
      for (GeneralKernel& k : general_kernels(lower_regions(p.graph, plan, true), pool)) kernels.push_back(std::move(k));
    REQUIRE(kernels.size() > 500);
    Jit jit(target, kernel_symbols());
    for (size_t i = 0; i < kernels.size(); i += 5) {
      auto found = prebuilt_kernels(level).find(kernels[i].shape);
      REQUIRE_MESSAGE(found, kernels[i].shape);
      CodeObject now;
      const Kernel* kernel = &kernels[i].kernel;
      compile_kernels({&kernel, 1}, jit, [](auto& work) { work(); }, {}, {&now, 1});
      CHECK(now.bytes == found->bytes);
    }
  }
}

} // namespace tenon::prebuilt_test
