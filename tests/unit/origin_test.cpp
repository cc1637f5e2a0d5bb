// Where nodes come from: what is read off the export's texts, and that it stays with nodes through all stages, errors and reports.
#include <doctest/doctest.h>

#include <filesystem>

#include "compile/compile.h"
#include "ir/parse.h"
#include "tenon/tenon.h"
#include "tests/unit/changed_program.h"

namespace tenon::origin_test {

namespace {

std::string frame(std::string trace) { return std::string(user_frame(Origin{.stack_trace = std::move(trace)})); }
std::string path(std::string stack) { return module_path(Origin{.module_stack = std::move(stack)}); }

std::string program_path(const std::string& name) { return TENON_FIXTURES + ("/programs/" + name + ".pt2"); }

} // namespace

TEST_CASE("the user's frame is the innermost outside of torch") {
  std::string user = "File \"export.py\", line 57, in forward\n    logits = self.layers(x)\n";
  std::string torch = "  File \"torch/nn/modules/container.py\", line 259, in forward\n    input = module(input)";
  CHECK(frame(user + torch) == "File \"export.py\", line 57, in forward");
  for (std::string path :
       {"/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", "/a/lib/python3.11/site-packages/torch/functional.py",
        "/src/pytorch/torch/nn/functional.py", "/src/pytorch/torch/_ops.py"})
    CHECK(frame(user + "  File \"" + path + "\", line 1, in f\n    return f(x)") == "File \"export.py\", line 57, in forward");
  for (std::string path : {"/home/u/torch/model.py", "/a/site-packages/torchvision/models/resnet.py", "/a/site-packages/transformers/x.py"})
    CHECK(frame(user + "  File \"" + path + "\", line 1, in f\n    return f(x)") == "File \"" + path + "\", line 1, in f");
  CHECK(frame(torch) == "File \"torch/nn/modules/container.py\", line 259, in forward"); // there is no other
  CHECK(frame("") == "");
  CHECK(frame("no frame at all") == "");
  CHECK(frame("File \"cut") == "File \"cut");
}

TEST_CASE("paths of modules") {
  CHECK(path("L__self__,,__main__.Mlp;L__self__layers,layers,torch.nn.modules.container.Sequential;L__self__layers.3,layers.3,"
             "torch.nn.modules.activation.SiLU") == "layers.3");
  CHECK(path("L__self__,,__main__.Mlp") == "");
  CHECK(path("") == "");
  CHECK(path("key") == "");
  // As strict exports and older torches write them.
  CHECK(path("L__self__,L['self'],__main__.M;k,L['self'].encoder.layer[3].attention,m.Attention") == "encoder.layer.3.attention");
  CHECK(path("fn_0,getattr(L['fn'], '0'),torch.nn.modules.linear.Linear") == "fn.0");
  CHECK(path("k,L['self']._modules['layers'][2],m.T") == "layers.2");
  CHECK(path("self_linear,self.linear,torch.nn.Linear") == "linear");
  CHECK(path(";;,,") == "");
}

TEST_CASE("origins of several nodes, each once") {
  Origin a{.stack_trace = "File \"m.py\", line 1, in f", .module_stack = "k,a,T"}, b{.stack_trace = "File \"m.py\", line 2, in f"}, none;
  CHECK(to_string(a) == "a, File \"m.py\", line 1, in f");
  CHECK(to_string(std::vector<const Origin*>{&a, &a, nullptr, &none, &b, &a}) ==
        "a, File \"m.py\", line 1, in f; File \"m.py\", line 2, in f");
  std::vector<Origin> many(7);
  std::vector<const Origin*> all;
  for (size_t i = 0; i < many.size(); i++) many[i].module_stack = "k,m." + std::to_string(i) + ",T", all.push_back(&many[i]);
  CHECK(to_string(all) == "m.0; m.1; m.2; m.3; and 3 more");
}

TEST_CASE("what an archive records of nodes is read") {
  LoadedProgram p = load_pt2(program_path("mlp"));
  auto& nodes = p.graph.block(p.graph.top()).nodes;
  const Origin& o = *p.graph.node(nodes.at(3)).origin;
  CHECK(module_path(o) == "layers.3");
  CHECK(user_frame(o).starts_with("File \"export.py\", line "));
  CHECK(o.torch_fn == "silu_1;function.silu");
  std::string with_source =
      changed("mlp", R"("torch_fn": "silu_1;)", R"("source_fn_stack": "silu,torch.nn.functional.silu", "torch_fn": "silu_1;)");
  LoadedProgram q = load_pt2(as_byte_span(with_source), "test");
  CHECK(q.graph.node(q.graph.block(q.graph.top()).nodes.at(3)).origin->source_fn_stack == "silu,torch.nn.functional.silu");
}

TEST_CASE("origins stay with nodes through all stages") {
  int checked = 0;
  for (auto& entry : std::filesystem::directory_iterator(TENON_FIXTURES + std::string("/programs"))) {
    if (entry.path().extension() != ".pt2") continue;
    INFO(entry.path().filename().string());
    for (auto stage : {"aten", "edge", "backend"}) {
      LoadedProgram p = load_pt2(entry.path().string());
      lower(p, stage);
      for (uint32_t i = 0; i < p.graph.num_nodes(); i++) {
        const Node& n = p.graph.node(NodeId{i});
        if (n.op == "prim::Constant" || n.op == "prim::Assert") continue; // weights, conditions of the export
        checked++;
        INFO(std::string(stage));
        CHECK_MESSAGE((n.origin && !user_frame(*n.origin).empty()), to_string(p.graph, NodeId{i}));
      }
      // The text keeps them.
      if (stage == std::string("edge")) CHECK(to_string(parse_graph(to_string(p.graph)).graph) == to_string(p.graph));
    }
  }
  CHECK(checked > 500);
}

TEST_CASE("explain and errors say module and line") {
  Program program = Program::load(program_path("mlp")).value();
  std::string text = program.compile().value().explain();
  CHECK_MESSAGE(has(text, "layers.0, File \"export.py\", line "), text);
  CHECK_MESSAGE(has(text, "layers.3, File \"export.py\", line "), text);
  CHECK_MESSAGE(!has(text, "torch/nn"), text);
  auto wrong = Program::load(
      as_byte_span(changed("mlp", R"({"name": "dim", "arg": {"as_int": -1})", R"({"name": "dim", "arg": {"as_float": 1.5})")), "test");
  REQUIRE(!wrong.ok());
  CHECK_MESSAGE(has(wrong.error().what(), ", from File \"export.py\", line "), wrong.error().what());
}

} // namespace tenon::origin_test
