// TorchScript from C++: a cell recorded from expressions, called in a loop of a program in the language, with an operator of one's own
// between.
//   g++ -std=c++20 script.cpp $(pkg-config --cflags --libs tenon) -o script && ./script
#include <tenon/tenon.h>

#include <cstdio>

using namespace tenon;

constexpr const char* source = R"(
import torch

def accumulate(x: torch.Tensor, w: torch.Tensor, steps: int):
    h = torch.zeros_like(x)
    norms: List[float] = []
    for i in range(steps):
        h = torch.tanh(h @ w + x)
        norms.append(torch.ops.example.norm(h))
        if norms[i] > 3.0:
            print("stopped at", i)
            break
    return h, norms
)";

int main() {
  register_operator("example::norm(Tensor x) -> float", [](Tensor x) {
    double sum = 0;
    Tensor dense = x.contiguous();
    for (int64_t i = 0; i < dense.numel(); i++) sum += static_cast<double>(dense.data_as<float>()[i]) * dense.data_as<float>()[i];
    return sum;
  }).check();

  Tensor x(DType::F32, {2, 2}), w(DType::F32, {2, 2});
  for (int i = 0; i < 4; i++) x.data_as<float>()[i] = 0.25f * static_cast<float>(i), w.data_as<float>()[i] = i % 3 == 0 ? 1.0f : 0.0f;

  Result<Script> program = Script::compile(source, "accumulate");
  if (!program) return std::fprintf(stderr, "%s\n", program.error().what()), 1;
  IValue result = (*program)(x, w, 20);
  std::printf("%zu steps\n", result.to_tuple()[1].to_list().size());

  // One step of the same as C++ expressions, with the types that follow from those of its arguments.
  ir::Type matrix = ir::Type::tensor(DType::F32, {2, 2});
  ir::Graph step = trace_graph([](Var x, Var h, Var w) { return tanh(matmul(h, w) + x); }, {matrix, matrix, matrix});
  std::printf("%s", step.toString().c_str());
  IValue h = Script::from(step).value()(x, result.to_tuple()[0], w);
  std::printf("%s\n", str(h).c_str());
}
