// Graphs of the fixtures' programs written as FX text: valid, the same graph when read back, with the same results.
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <sstream>

#include "api/impl.h"
#include "aten/passes.h"
#include "base/strided.h"
#include "fx/from_graph.h"
#include "fx/python_module.h"
#include "fx/python_text.h"
#include "fx/text.h"
#include "fx/to_graph.h"
#include "ir/parse.h"
#include "load/load.h"

namespace tenon::fx_print_test {

namespace fs = std::filesystem;

namespace {

// A text names its weights.
void give_tensors(FxGraph& to, const FxGraph& from) {
  to.tensors = from.tensors;
  for (size_t i = 0; i < to.modules.size(); i++) give_tensors(to.modules[i], from.modules.at(i));
}

// The graph without what FX text does not say: names of values, ranges of symbols, source lines.
std::string plain(Graph g) {
  for (uint32_t i = 0; i < g.num_values(); i++) g.value(ValueId{i}).name.clear();
  std::istringstream lines(to_string(g));
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("symbol ")) out += line.substr(0, line.find("  # File")) + "\n";
  return out;
}

FxGraph untyped(FxGraph g) {
  for (FxNode& n : g.nodes) n.val.reset();
  for (FxGraph& m : g.modules) m = untyped(std::move(m));
  return g;
}

// Of the graph alone, whose parameters are all its inputs.
std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) {
  std::vector<Tensor> outputs;
  LoadedProgram p = program_of(Graph(graph));
  Program(std::make_shared<Program::Impl>(Program::Impl{std::move(p), {}}))
      .compile({.interpret = true})
      .value()
      .run(inputs, outputs)
      .check();
  return outputs;
}

std::vector<Tensor> inputs_of(const LoadedProgram& p) {
  std::vector<Tensor> given = load_example_inputs(p), inputs;
  size_t next = 0;
  for (const ProgramInput& in : p.inputs) {
    bool takes = in.kind == InputKind::User || (in.kind == InputKind::Fixed && !in.fixed.is_none() && !in.fixed.is<std::string>());
    Tensor t = takes ? given.at(next++) : in.value.valid() ? p.weights.at(in.target) : Tensor();
    if (!in.value.valid()) continue;
    Tensor copy(t.dtype(), t.sizes()); // programs change their inputs
    copy_strided(t.view(), copy.data());
    inputs.push_back(std::move(copy));
  }
  return inputs;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().data(), b.contiguous().data(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

void check_round_trip(const LoadedProgram& p) {
  FxGraph fx = fx_of(p.graph);
  std::string text = to_string(fx);
  for (const char* number : {"({", ", {", "[{"}) CHECK(text.find(number) == text.npos); // they are nodes
  FxGraph again = parse_fx(text);
  CHECK(to_string(again) == text);
  CHECK(to_string(untyped(parse_fx(to_python(fx, "Program")))) == to_string(untyped(fx)));
  give_tensors(again, fx);
  Graph graph = program_of(again).graph;
  CHECK(plain(graph) == plain(p.graph));
  std::vector<Tensor> got = run(graph, inputs_of(p)), want = run(p.graph, inputs_of(p));
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); i++) CHECK(same(got[i], want[i]));
}

} // namespace

TEST_CASE("graphs as FX text are the same graphs when they are read, in ATen and in Edge") {
  int seen = 0;
  for (const char* folder : {"/programs", "/control", "/quantized", "/fx"})
    for (auto& entry : fs::directory_iterator(TENON_FIXTURES + std::string(folder))) {
      if (entry.path().extension() != ".pt2") continue;
      LoadedProgram p = load_pt2(entry.path().string());
      for (const char* dialect : {"ATen", "Edge"}) {
        INFO(entry.path().filename().string(), " ", dialect);
        try {
          if (dialect[0] == 'E') lift_weights(p), functionalize(p), to_edge(p);
          check_round_trip(p);
          seen++;
        } catch (const Error& e) {
          FAIL_CHECK(fmt::format("{} {}: {}", entry.path().filename().string(), dialect, e.what()));
        }
      }
    }
  CHECK(seen >= 200);
}

TEST_CASE("a program as a Python module: its inputs, weights by qualified names, changed buffers, graphs that nodes run") {
  auto module_of = [](const std::string& name) {
    FxGraph fx = fx_of(load_pt2(TENON_FIXTURES + ("/" + name + ".pt2")));
    return python_module(fx, "Program", name);
  };
  auto has = [](const std::string& text, std::string_view part) { return text.find(part) != text.npos; };
  std::string buffers = module_of("control/swapped_buffers");
  CHECK(has(buffers, "\n    def forward(self, x: \"f32[s77, 4]\"):\n"));
  CHECK(has(buffers, " = self.calls\n"));
  CHECK(has(buffers, "torch.ops.aten.copy_.default(b_b, "));
  std::string norm = module_of("fx/batch_norm");
  CHECK(has(norm, "p_0_weight: \"f32[8]\" = getattr(self, \"0\").weight\n"));
  std::string float8 = module_of("control/float8");
  CHECK(has(float8, "BITS = {\n    \"weight\": torch.float8_e4m3fn,\n}"));
  std::string cond = module_of("control/cond_sizes");
  CHECK(has(cond, "torch.ops.higher_order.cond("));
  CHECK(has(cond, "\n    class true_graph_0(torch.nn.Module):\n        def forward(self"));
  std::string sizes = module_of("control/size_math");
  CHECK(has(sizes, " = torch.ops.aten.sym_size.int(x, 0)\n"));
  CHECK(has(sizes, "torch.sym_max("));
  FxGraph calls = parse_fx("def forward(self, x):\n    y = self.layer(x)\n    return (y,)");
  CHECK_THROWS_WITH_AS(python_module(calls, "Program", ""), "%y: a call of the module layer, which is not in the graph", Error);
}

} // namespace tenon::fx_print_test
