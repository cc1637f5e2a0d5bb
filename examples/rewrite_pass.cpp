// A pass of one's own: silu(x) * y, as gated layers have it, becomes one custom operator. Built against the installed library:
//   g++ -std=c++20 rewrite_pass.cpp $(pkg-config --cflags --libs tenon) -o rewrite_pass && ./rewrite_pass model.pt2
#include <tenon/tenon.h>

#include <cstdio>

using namespace tenon;

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: rewrite_pass MODEL.pt2\n"), 2;
  register_op({.schema = "mine::gate(Tensor x, Tensor y) -> Tensor", .expression = "x * sigmoid(x) * y"}).check();
  Result<Program> program = Program::load(argv[1]);
  if (!program) return std::fprintf(stderr, "%s\n", program.error().what()), 1;

  ir::Rewrite gate{
      .inputs = 2,
      .pattern = [](ir::Graph& g,
                    auto& x) { return std::vector{g.insert("aten::mul.Tensor", {g.insert("aten::silu.default", {x[0]}), x[1]})}; },
      .replacement = [](ir::Graph& g, const ir::Match& m) { return std::vector{g.insert("mine::gate", {m.inputs[0], m.inputs[1]})}; },
      .filter = {},
      .commute = true};
  size_t found = 0;
  ir::PassManager passes;
  passes.add("gate", [&](ir::Graph& g) {
    size_t now = replace(gate, g);
    found += now;
    return now > 0;
  });
  Program changed = program->transform(passes).value();
  std::printf("%zu places\n", found);
  std::printf("%s", changed.graph("edge").value().toString().c_str());

  std::vector<Tensor> inputs = program->example_inputs().value(), was, now;
  program->compile().value().run(inputs, was).check();
  changed.compile().value().run(inputs, now).check();
  std::printf("%zu results\n", now.size());
  return was.size() == now.size() ? 0 : 1;
}
