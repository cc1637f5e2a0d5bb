// Conditions of an export on sizes, as Python writes them.
#include "load/load.h"
#include "tests/unit/graph_harness.h"

namespace tenon::guards_test {
using namespace tenon::test;

namespace {

/// Whether a program exported with this guard takes x of [m, n]; an error must name the guard.
bool takes(const std::string& guard, int64_t m, int64_t n) {
  TestGraph g;
  g.returns(g.input({g.symbol("m"), g.symbol("n")}) + Arg(1));
  g.p.in_spec = Tree::tuple({Tree::tuple({ArgInfo()}), Tree::dict({})});
  g.p.forward_arg_names = {"x"};
  g.p.guards = {guard};
  add_guards(g.p);
  bool both[2];
  for (bool interpret : {false, true}) {
    Result<Executable> exe = g.program().compile({.interpret = interpret});
    Outcome got = outcome_of(exe, {Tensor(DType::F32, {m, n})});
    if (got.error) CHECK(std::string(got.error->what()).find("exported for inputs with " + guard) != std::string::npos);
    both[interpret] = !got.error;
  }
  CHECK(both[0] == both[1]);
  return both[0];
}

} // namespace

TEST_CASE("guards: alternatives, conjunctions, negations") {
  std::string m = "L['x'].size()[0]", n = "L['x'].size()[1]";
  struct Row {
    std::string guard;
    std::function<bool(int64_t, int64_t)> holds;
  };
  const Row rows[] = {
      {m + " > 3 or " + n + " > 7", [](int64_t a, int64_t b) { return a > 3 || b > 7; }},
      {"(" + m + " > 3) or (" + n + " % 2 == 0 and " + m + " == 2)", [](int64_t a, int64_t b) { return a > 3 || (b % 2 == 0 && a == 2); }},
      {"((" + m + " + 1) * 2 > 8 and " + n + " <= 8)", [](int64_t a, int64_t b) { return (a + 1) * 2 > 8 && b <= 8; }},
      {"not (" + m + " == 4 or " + n + " == 9)", [](int64_t a, int64_t b) { return a != 4 && b != 9; }},
      {"(" + m + " + (2)) == 6 or (((" + n + ")) == 9)", [](int64_t a, int64_t b) { return a == 4 || b == 9; }},
      {m + " != 4", [](int64_t a, int64_t) { return a != 4; }},
      {m + " >= 2 or " + n + " == 8", [](int64_t a, int64_t b) { return a >= 2 || b == 8; }},
      {m + " >= 2 and " + n + " == 8", [](int64_t, int64_t b) { return b == 8; }}, // sizes 0 and 1 are taken
      {m + " >= 2", [](int64_t, int64_t) { return true; }},
      {m + " != 1", [](int64_t, int64_t) { return true; }},
      {m + " != " + n, [](int64_t, int64_t) { return true; }},
  };
  for (const Row& row : rows)
    for (int64_t a : {0, 1, 2, 4, 5})
      for (int64_t b : {1, 7, 8, 9}) CHECK_MESSAGE(takes(row.guard, a, b) == row.holds(a, b), row.guard, ", ", a, ", ", b);
}

TEST_CASE("guards of another kind are passed over") {
  for (auto guard :
       {"L['x'].stride()[0] == 1", "", "(", "L['x'].size()[0] ==", "L['y'].size()[0] == 3", "L['x'].size()[0] == 3 or unknown", "not"})
    CHECK(takes(guard, 2, 2));
  CHECK(takes(std::string(100000, '(') + "1 == 1", 2, 2));
  CHECK(takes(std::string(100000, '(') + "1" + std::string(100000, ')') + " == 2", 2, 2));
}

} // namespace tenon::guards_test
