// Random graphs as native code, for every instruction set the machine has, against the interpreter.
// TENON_DIFF_GRAPHS=n runs n of them, TENON_DIFF_SEED=n starts at another seed.
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>

#include "codegen/target.h"
#include "compile/compile.h"
#include "tests/unit/random_graph.h"

namespace tenon::ops_diff_test {
using namespace tenon::test;

namespace {

// Per thousand calls: those that the interpreter refuses, and those whose results are too large to be compared. Per thousand
// steps: those that shape rules refuse.
constexpr uint32_t most_refused = 115, most_large = 4, most_refused_steps = 2;

uint32_t setting(const char* name, uint32_t otherwise) {
  const char* s = std::getenv(name);
  return s ? static_cast<uint32_t>(std::atoi(s)) : otherwise;
}

// What may be refused by one side only: `native: TEXT` or `interpreter: TEXT`, a part of the message, a line each.
struct Expected {
  std::vector<std::string> lines;
  std::set<std::string> met;
  Expected() {
    std::ifstream file(std::string(TENON_FIXTURES) + "/../expected/random_graphs.txt");
    REQUIRE(file.good());
    for (std::string line; std::getline(file, line);)
      if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  bool has(std::string_view side, const std::string& message) {
    for (const std::string& line : lines)
      if (line.starts_with(side) && message.find(line.substr(side.size())) != std::string::npos) return met.insert(line), true;
    return false;
  }
};

struct Counts {
  uint32_t calls = 0, compared = 0, refused = 0, large = 0; // refused: by the interpreter
  uint32_t steps = 0, refused_steps = 0;                    // of the graphs, when they are made
};

// Empty where both sides agree: equal results, or a refusal by both, be it in compiling or in the call.
std::string compare_calls(const RandomGraph& r, const Outcome& want, const Outcome& got, Counts& counts, Expected& expected) {
  counts.calls++;
  for (auto& [side, c] : {std::pair{"interpreter: ", &want}, {"native: ", &got}})
    if (c->error && c->error->kind == ErrorKind::Internal) return std::string(side) + c->error->what();
  if (want.error) {
    counts.refused++;
    return got.error || expected.has("interpreter: ", want.error->what()) ? "" : std::string("interpreter alone: ") + want.error->what();
  }
  if (got.error) return expected.has("native: ", got.error->what()) ? "" : std::string("native code alone: ") + got.error->what();
  if (got.outputs.size() != want.outputs.size()) return "another number of outputs";
  if (std::any_of(want.outputs.begin(), want.outputs.end(), [](const Tensor& t) { return t.numel() > 1 << 22; })) {
    counts.large++; // as many elements as a value says
    return {};
  }
  counts.compared++;
  for (size_t i = 0; i < got.outputs.size(); i++)
    if (std::string d = difference(got.outputs[i], want.outputs[i], r.tolerance(i) + 1e-6); !d.empty())
      return fmt::format("output {}: {}", i, d);
  return {};
}

// Empty where the graph's results agree, for each instruction set and choice of sizes.
std::string check(uint32_t seed, int steps, const std::vector<Isa>& isas, Counts& counts, Expected& expected) try {
  RandomGraph r(seed, steps);
  counts.steps += static_cast<uint32_t>(steps), counts.refused_steps += r.refused_steps;
  Program program = r.g.program();
  Result<Executable> oracle = program.compile({.interpret = true});
  for (Isa isa : isas) {
    Result<Executable> native = program.compile({.isa = isa, .forbid_fallback = true});
    for (int choice = 0; choice < (r.is_dynamic() ? 2 : 1); choice++) {
      std::vector<Tensor> inputs = r.inputs(choice);
      std::string why = compare_calls(r, outcome_of(oracle, inputs), outcome_of(native, inputs), counts, expected);
      if (!why.empty()) return fmt::format("{} ({} sizes {})", why, static_cast<int>(isa), choice);
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
  uint32_t count = setting("TENON_DIFF_GRAPHS", 250), start = setting("TENON_DIFF_SEED", 1);
  Counts counts;
  Expected expected;
  for (uint32_t seed = start; seed < start + count; seed++) {
    int steps = 3 + static_cast<int>(seed % 6);
    CAPTURE(seed); // a crash tells it
    std::string why = check(seed, steps, isas, counts, expected);
    if (why.empty()) continue;
    for (int k = 1; k < steps; k++) { // the shortest graph that fails
      Counts ignored;
      if (std::string w = check(seed, k, isas, ignored, expected); !w.empty()) {
        steps = k, why = w;
        break;
      }
    }
    std::string text = why.starts_with("build") ? "" : to_string(RandomGraph(seed, steps).g.p.graph);
    MESSAGE("seed ", seed, ", ", steps, " steps: ", why, "\n", text);
    CHECK(why.empty());
  }
  MESSAGE(counts.calls, " calls of ", count, " graphs: ", counts.compared, " compared, ", counts.refused, " refused by the interpreter, ",
          counts.large, " with too large results; ", counts.refused_steps, " of ", counts.steps, " steps refused");
  // Random calls may ask for what the values do not allow, but few do.
  CHECK(counts.refused <= most_refused * counts.calls / 1000 + 8);
  CHECK(counts.refused_steps <= most_refused_steps * counts.steps / 1000 + 4);
  CHECK(counts.large <= most_large * counts.calls / 1000 + 4);
  if (count >= 2000) // the list may only shrink
    for (const std::string& line : expected.lines)
      CHECK_MESSAGE(expected.met.contains(line), "remove from tests/expected/random_graphs.txt: ", line);
}

} // namespace tenon::ops_diff_test
