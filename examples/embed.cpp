// Embeds tenon: loads a program, compiles it, runs it on its own example inputs, prints the results. Built against the
// installed library:
//   g++ -std=c++20 embed.cpp $(pkg-config --cflags --libs tenon) -o embed && ./embed model.pt2
#include <tenon/tenon.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: embed MODEL.pt2\n"), 2;
  tenon::Result<tenon::Program> program = tenon::Program::load(argv[1]);
  if (!program) return std::fprintf(stderr, "%s\n", program.error().what()), 1;
  tenon::Result<tenon::Executable> exe = program->compile();
  if (!exe) return std::fprintf(stderr, "%s\n", exe.error().what()), 1;

  std::printf("takes %s\ngives %s\n", exe->in_spec().to_string().c_str(), exe->out_spec().to_string().c_str());

  std::vector<tenon::Tensor> inputs = program->example_inputs().value(), outputs;
  if (tenon::Status s = exe->run(inputs, outputs); !s) return std::fprintf(stderr, "%s\n", s.error().what()), 1;
  for (const tenon::Tensor& t : outputs) {
    std::printf("%s[", std::string(tenon::name_of(t.dtype())).c_str());
    for (size_t d = 0; d < t.rank(); d++) std::printf(d ? ", %ld" : "%ld", static_cast<long>(t.sizes()[d]));
    if (t.dtype() == tenon::DType::F32 && t.numel() > 0) std::printf("] = %g ...\n", static_cast<double>(t.data_as<float>()[0]));
    else std::printf("]\n");
  }
  // An error is a value: nothing is thrown unless .value() or .check() is called on it.
  inputs.pop_back();
  tenon::Status missing = exe->run(inputs, outputs);
  std::printf("one input less: %s\n", missing ? "accepted" : missing.error().what());
  return missing ? 1 : 0;
}
