// Core ATen: which operators programs come down to, beside what torch's run_decompositions leaves of them
// (tests/fixtures/core_programs.txt), and that they compute the same. Differences are listed with reasons in tests/expected/core_ops.txt,
// which may only shrink.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "aten/passes.h"
#include "compile/compile.h"
#include "graph_harness.h"
#include "interp/runner.h"
#include "ir/parse.h"
#include "ir/verify.h"
#include "load/load.h"
#include "load_samples.h"
#include "tenon/tenon.h"

namespace tenon::core_test {

namespace {

// Lines "leaves aten::erfinv.default" and "lacks aten::split_with_sizes.default", below a reason.
struct Exceptions {
  std::set<std::string> lines, met;

  Exceptions() {
    std::ifstream file(std::string(TENON_FIXTURES) + "/../expected/core_ops.txt");
    bool reason = false;
    for (std::string line; std::getline(file, line);) {
      if (line.empty()) reason = false;
      else if (line.starts_with("#")) reason = true;
      else {
        CHECK_MESSAGE(reason, "no reason stands above: ", line);
        lines.insert(line);
      }
    }
  }
  void expect(const std::string& line, const std::string& where) {
    CHECK_MESSAGE(lines.contains(line), where, " ", line);
    met.insert(line);
  }
};

std::set<std::string> operators_of(const Graph& g) {
  std::set<std::string> out;
  for (uint32_t i = 0; i < g.num_nodes(); i++)
    if (const Node& n = g.node(NodeId{i}); n.def && n.op.dialect() == "aten") out.insert(n.def->signature.name);
  return out;
}

// What torch leaves of the programs, by name.
std::map<std::string, std::set<std::string>> torch_operators() {
  std::map<std::string, std::set<std::string>> out;
  std::ifstream file(std::string(TENON_FIXTURES) + "/core_programs.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string name;
    in >> name;
    out[name] = {std::istream_iterator<std::string>(in), {}};
  }
  return out;
}

LoadedProgram in_core(const std::string& path) {
  LoadedProgram p = load_pt2(path);
  lower(p, "core");
  return p;
}

// On the program's examples; those of another run may have been written.
std::vector<Tensor> interpret(LoadedProgram p) {
  lift_weights(p);
  std::vector<Tensor> inputs = load_example_inputs(p);
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  return InterpretedRunner(std::move(p), 0).run(views);
}

void check_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); i++) CHECK(test::difference(got[i], want[i]) == "");
}

} // namespace

TEST_CASE("programs come down to core ATen, and keep the operators of it that torch keeps") {
  Exceptions exceptions;
  auto torch = torch_operators();
  int programs = 0;
  for (const char* folder : {"programs", "control", "quantized", "operators"})
    for (auto& entry : std::filesystem::directory_iterator(std::string(TENON_FIXTURES) + "/" + folder)) {
      if (entry.path().extension() != ".pt2") continue;
      std::string name = std::string(folder) + "/" + entry.path().stem().string();
      CAPTURE(name);
      LoadedProgram p = in_core(entry.path());
      CHECK(is_core(p.graph));
      CHECK_FALSE(to_core(p));
      std::set<std::string> ours = operators_of(p.graph);
      for (const std::string& op : ours)
        if (!find_op(op)->is_core) exceptions.expect("leaves " + op, name);
      for (const std::string& op : torch[name])
        if (const OpDef* def = find_op(op); def && def->is_core && !ours.contains(op)) exceptions.expect("lacks " + op, name);
      programs++;
    }
  CHECK(programs > 80);
  for (const std::string& line : exceptions.lines)
    CHECK_MESSAGE(exceptions.met.contains(line), "remove from tests/expected/core_ops.txt: ", line);
}

TEST_CASE("a core graph computes what the program does") {
  int programs = 0;
  for (const char* folder : {"/programs", "/control", "/quantized"})
    for (auto& entry : std::filesystem::directory_iterator(std::string(TENON_FIXTURES) + folder)) {
      if (entry.path().extension() != ".pt2") continue;
      std::string path = entry.path();
      CAPTURE(path);
      LoadedProgram core = in_core(path), edge = load_pt2(path);
      lower(edge, "edge");
      std::vector<Tensor> want = interpret(edge), got = interpret(core);
      lower(core, "edge");
      check_close(got, want);
      check_close(interpret(core), want);
      programs++;
    }
  CHECK(programs > 40);
}

TEST_CASE("operators of core stay, others are taken apart down to them") {
  auto core = [](std::string_view params, std::string_view call, std::string_view type) {
    LoadedProgram p = program_of(parse_graph(fmt::format("graph({}):\n  %y : {} = {}\n  return (%y)\n", params, type, call)).graph);
    lower(p, "core");
    std::string out;
    for (NodeId id : p.graph.block(p.graph.top()).nodes) out += (out.empty() ? "" : " ") + p.graph.node(id).op.name().substr(6);
    return out;
  };
  CHECK(core("%x : Float(4, 3), %w : Float(2, 3), %b : Float(2)", "aten::linear.default(%x, %w, %b)", "Float(4, 2)") ==
        "permute.default addmm.default");
  CHECK(core("%x : Float(4, 3)", "aten::layer_norm.default(%x, [3], None, None, 1e-05, True)", "Float(4, 3)") ==
        "native_layer_norm.default");
  CHECK(core("%x : Float(4, 3)", "aten::softmax.int(%x, 1, None)", "Float(4, 3)") == "_softmax.default");
  CHECK(core("%x : Float(4, 3)", "aten::silu.default(%x)", "Float(4, 3)") == "sigmoid.default mul.Tensor");
  CHECK(core("%x : Float(4, 3)", "aten::add.Scalar(%x, 2, 1)", "Float(4, 3)") == "add.Scalar");
  CHECK(core("%x : Float(1, 2, 4, 4)", "aten::adaptive_avg_pool2d.default(%x, [1, 1])", "Float(1, 2, 1, 1)") == "mean.dim");
  CHECK(core("%x : Float(1, 2, 4, 4)", "aten::max_pool2d.default(%x, [2, 2], [2, 2], [0, 0], [1, 1], False)", "Float(1, 2, 2, 2)") ==
        "max_pool2d_with_indices.default");
  CHECK(core("%x : Float(4, 3)", "aten::erfinv.default(%x)", "Float(4, 3)") == "erfinv.default"); // nothing takes it apart
}

TEST_CASE("a graph that is not in core ATen is refused as such") {
  Graph g = parse_graph("graph(%x : Float(4, 3)):\n  %y : Float(4, 3) = aten::silu.default(%x)\n  return (%y)\n").graph;
  CHECK_FALSE(is_core(g));
  CHECK(error_thrown_by([&] { verify(g, Dialect::Core); }, ErrorKind::Internal).find("an operator that core ATen takes apart in `%y") !=
        std::string::npos);
  Graph edge = parse_graph("graph(%x : Float(4, 3)):\n  %y : Float(4, 3) = edge::exp.default(%x)\n  return (%y)\n").graph;
  CHECK_FALSE(is_core(edge));
}

} // namespace tenon::core_test
