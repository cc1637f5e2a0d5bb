// Random graphs as native code, for every instruction set the machine has, against the interpreter.
// TENON_DIFF_GRAPHS=n runs n of them, TENON_DIFF_SEED=n starts at another seed.
#include <cstdlib>
#include <fstream>

#include "codegen/target.h"
#include "compile/compile.h"
#include "tests/unit/random_graph.h"

using namespace tenon;
using namespace tenon::test;

namespace {

uint32_t setting(const char* name, uint32_t otherwise) {
  const char* s = std::getenv(name);
  return s ? static_cast<uint32_t>(std::atoi(s)) : otherwise;
}

// Empty where the graph's results agree; counts what was compared.
std::string check(uint32_t seed, int steps, const std::vector<Isa>& isas, uint32_t& compared) try {
  RandomGraph r(seed, steps);
  Program program = r.g.program();
  auto oracle = program.compile({.interpret = true});
  if (!oracle && oracle.error().kind != ErrorKind::Internal) return {};
  if (!oracle) return std::string("interpreter: ") + oracle.error().what();
  for (Isa isa : isas) {
    auto native = program.compile({.isa = isa, .forbid_fallback = true});
    if (!native && native.error().kind != ErrorKind::Internal) return {}; // a random call that no row allows
    if (!native) return std::string("compile: ") + native.error().what();
    for (int choice = 0; choice < (r.is_dynamic() ? 2 : 1); choice++) {
      std::vector<Tensor> inputs = r.inputs(choice), want, got;
      Status expected = oracle.value().run(inputs, want), status = native.value().run(inputs, got);
      if (!expected.ok()) continue; // a maximum over nothing, and the like
      if (std::any_of(want.begin(), want.end(), [](const Tensor& t) { return t.numel() > 1 << 22; })) continue; // as many as a value says
      if (!status.ok()) return std::string("run: ") + status.error().what();
      if (got.size() != want.size()) return "another number of outputs";
      compared += choice == 0 && isa == isas[0];
      for (size_t i = 0; i < got.size(); i++)
        if (std::string d = difference(got[i], want[i], r.tolerance(i) + 1e-6); !d.empty())
          return fmt::format("output {} ({} sizes {}): {}", i, static_cast<int>(isa), choice, d);
    }
  }
  return {};
} catch (const Error& e) {
  return std::string("build: ") + e.what();
}

} // namespace

TEST_CASE("random graphs: native code agrees with the interpreter") {
  std::vector<Isa> isas{Isa::Avx2};
  if (host_target(Isa::Auto).avx512()) isas.push_back(Isa::Avx512);
  uint32_t count = setting("TENON_DIFF_GRAPHS", 250), start = setting("TENON_DIFF_SEED", 1), compared = 0;
  for (uint32_t seed = start; seed < start + count; seed++) {
    int steps = 3 + static_cast<int>(seed % 6);
    std::string why = check(seed, steps, isas, compared);
    if (why.empty()) continue;
    for (int k = 1; k < steps; k++) // the shortest graph that fails
      if (std::string w = check(seed, k, isas, compared); !w.empty()) {
        steps = k, why = w;
        break;
      }
    std::string text = why.starts_with("build") ? "" : to_string(RandomGraph(seed, steps).g.p.graph);
    MESSAGE("seed ", seed, ", ", steps, " steps: ", why, "\n", text);
    CHECK(why.empty());
  }
  MESSAGE(compared, " of ", count, " graphs compared");
  CHECK(compared > count / 2); // random calls may ask for what the values do not allow
}
