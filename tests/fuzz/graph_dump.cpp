// Writes random graphs with their inputs and the results of native code, for torch_graphs.py to compare with torch.
//
//   graph_dump FOLDER COUNT [FIRST_SEED]
#include <cstdlib>
#include <filesystem>
#include <fstream>

#define DOCTEST_CONFIG_IMPLEMENT
#include "load/npz.h"
#include "tests/unit/random_graph.h"

using namespace tenon;
using namespace tenon::test;

int main(int argc, char** argv) {
  if (argc < 3) return std::puts("graph_dump FOLDER COUNT [FIRST_SEED]"), 1;
  std::string folder = argv[1];
  std::filesystem::create_directories(folder);
  auto count = static_cast<uint32_t>(std::atoi(argv[2])), first = static_cast<uint32_t>(argc > 3 ? std::atoi(argv[3]) : 1);
  uint32_t written = 0;
  for (uint32_t seed = first; written < count; seed++) {
    RandomGraph r(seed, 3 + static_cast<int>(seed % 6));
    auto native = r.g.program().compile({.threads = 1});
    if (!native) continue; // a random call that no row allows
    int choice = static_cast<int>(seed % 2) && r.is_dynamic();
    std::vector<Tensor> inputs = r.inputs(choice), outputs;
    if (!native.value().run(inputs, outputs).ok()) continue;
    std::vector<std::pair<std::string, Tensor>> arrays;
    const Graph& g = r.g.p.graph;
    for (size_t i = 0; i < inputs.size(); i++) arrays.emplace_back(fmt::format("x{}", i), inputs[i]);
    for (uint32_t i = 0; i < g.num_tensors(); i++) arrays.emplace_back(fmt::format("c{}", i), g.tensor(TensorId{i}));
    std::ofstream text(fmt::format("{}/{}.txt", folder, seed));
    for (size_t i = 0; i < outputs.size(); i++) {
      arrays.emplace_back(fmt::format("out{}", i), outputs[i].contiguous());
      text << "# tolerance " << r.tolerance(i) << "\n";
    }
    text << to_string(g);
    write_npz(fmt::format("{}/{}.npz", folder, seed), arrays);
    written++;
  }
  fmt::print("{} graphs in {}\n", written, folder);
  return 0;
}
