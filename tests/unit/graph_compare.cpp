// Results of native code beside those of the interpreter.
#include "tests/unit/graph_harness.h"

namespace tenon::test {

void compare_each(const TestGraph& g, const std::vector<std::vector<Tensor>>& calls, const std::vector<Options>& options) {
  Program program = g.program();
  Executable oracle = program.compile({.interpret = true}).value();
  std::vector<std::vector<Tensor>> wanted;
  for (auto& inputs : calls) wanted.push_back(run(oracle, inputs));
  for (const Options& o : options) {
    CAPTURE(o.threads);
    Executable native = program.compile(o).value();
    CHECK(native.stats().fallback_steps == 0);
    for (size_t call = 0; call < calls.size(); call++) {
      auto got = run(native, calls[call]);
      REQUIRE(got.size() == wanted[call].size());
      for (size_t i = 0; i < got.size(); i++) {
        std::string d = difference(got[i], wanted[call][i]);
        CHECK_MESSAGE(d == "", "output ", i, ": ", d);
      }
    }
  }
}
void compare(const TestGraph& g, const std::vector<std::vector<Tensor>>& calls, const Options& options) {
  compare_each(g, calls, {options});
}

} // namespace tenon::test
