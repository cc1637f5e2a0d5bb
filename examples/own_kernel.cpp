// A kernel of one's own for an operator that tenon has: here aten::gelu of f32. Built against the installed library:
//   g++ -std=c++20 own_kernel.cpp $(pkg-config --cflags --libs tenon) -o own_kernel && ./own_kernel model.pt2
#include <tenon/tenon.h>

#include <cmath>
#include <cstdio>
#include <cstring>

using namespace tenon;

// Arguments are those of the operator's schema: gelu(Tensor self, *, str approximate='none').
static const char* gelu(const tenon_op_call* call) {
  if (std::strcmp(call->args[1].texts[0], "none") != 0) return "approximations are not known here";
  const tenon_tensor &x = call->args[0].tensors[0], &y = call->outputs[0];
  int64_t n = 1;
  for (int32_t d = 0; d < x.rank; d++) n *= x.sizes[d];
  auto *from = static_cast<const float*>(x.data), *end = from + n;
  for (auto* to = static_cast<float*>(y.data); from < end; from++, to++) *to = 0.5f * *from * (1 + std::erf(*from * 0.70710678f));
  return nullptr;
}

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: own_kernel MODEL.pt2\n"), 2;
  register_kernel({.name = "mine::gelu", .op = "aten::gelu", .dtypes = "f32", .function = gelu}).check();
  Result<Program> program = Program::load(argv[1]);
  if (!program) return std::fprintf(stderr, "%s\n", program.error().what()), 1;
  Options options;
  options.kernels = {"mine::gelu"};
  Result<Executable> exe = program->compile(options);
  if (!exe) return std::fprintf(stderr, "%s\n", exe.error().what()), 1;
  std::printf("%s", exe->explain().c_str()); // which nodes the kernel took, and why not others

  // The interpreter runs the operator itself: what results should be.
  options.interpret = true;
  std::vector<Tensor> inputs = program->example_inputs().value(), got, want;
  exe->run(inputs, got).check();
  program->compile(options).value().run(inputs, want).check();
  double difference = 0;
  for (size_t k = 0; k < got.size(); k++)
    for (int64_t i = 0; got[k].dtype() == DType::F32 && i < got[k].numel(); i++)
      difference = std::fmax(difference, std::fabs(got[k].contiguous().data_as<float>()[i] - want[k].contiguous().data_as<float>()[i]));
  std::printf("largest difference %g\n", difference);
  return difference < 1e-4 ? 0 : 1;
}
