// What outlives a call: buffers (read, set, reset, copied with an Executable) and inputs that a program changes in place.
#include <doctest/doctest.h>

#include <thread>

#include "tests/unit/graph_harness.h"

namespace tenon::state_test {
using namespace tenon::test;

namespace {

Tensor ones(std::vector<int64_t> sizes) {
  return filled(DType::F32, std::move(sizes), [](int64_t) { return 1; });
}

// total += x; returns total * 2
TestGraph accumulator() {
  TestGraph g;
  V total = g.buffer("m.total", counting(DType::F32, {3})), x = g.input({3});
  V now = total + x;
  g.mutates("m.total", now);
  g.returns(now * Arg(2));
  return g;
}

using Numbers = std::vector<double>;

} // namespace

TEST_CASE("state: read, set, reset, copied") {
  for (bool interpret : {false, true}) {
    CAPTURE(interpret);
    Executable e = accumulator().program().compile({.interpret = interpret}).value();
    REQUIRE(e.state().size() == 1);
    CHECK(e.state()[0].name == "m.total");
    CHECK(numbers(e.state()[0].tensor) == Numbers{0, 1, 2});
    run(e, {ones({3})});
    auto kept = e.state();
    CHECK(numbers(run(e, {ones({3})})[0]) == Numbers{4, 6, 8});
    CHECK(numbers(kept[0].tensor) == Numbers{1, 2, 3}); // a copy
    uint64_t code = Executable::pieces_of_code();
    Executable other = e.copy();
    CHECK(Executable::pieces_of_code() == code);
    CHECK(numbers(run(other, {ones({3})})[0]) == Numbers{6, 8, 10});
    CHECK(numbers(e.state()[0].tensor) == Numbers{2, 3, 4});
    e.set_state(kept).check();
    CHECK(numbers(run(e, {ones({3})})[0]) == Numbers{4, 6, 8});
    CHECK(numbers(other.state()[0].tensor) == Numbers{3, 4, 5});
    e.reset_state();
    CHECK(numbers(run(e, {ones({3})})[0]) == Numbers{2, 4, 6});
    CHECK(e.stats().state_bytes == 12);
  }
}

TEST_CASE("state: what does not fit is refused as a whole") {
  Executable e = accumulator().program().compile().value();
  auto refuses = [&](std::vector<NamedTensor> state, const std::string& why) {
    Status s = e.set_state(state);
    REQUIRE(!s.ok());
    CHECK(s.error().kind == ErrorKind::BadInput);
    CHECK(std::string(s.error().what()).find(why) != std::string::npos);
    CHECK(numbers(e.state()[0].tensor) == Numbers{0, 1, 2});
  };
  refuses({{"total", ones({3})}}, "no state total");
  refuses({{"m.total", ones({2})}}, "dtype or size");
  refuses({{"m.total", ones({3})}, {"m.total", counting(DType::F64, {3})}}, "dtype or size");
  TestGraph none;
  none.returns(none.input({2}) + Arg(1));
  CHECK(none.program().compile().value().state().empty());
}

TEST_CASE("state: many threads, one after the other") {
  Executable e = accumulator().program().compile().value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; i++) run(e, {ones({3})}), e.state();
    });
  for (auto& t : threads) t.join();
  CHECK(numbers(e.state()[0].tensor) == Numbers{200, 201, 202});
}

TEST_CASE("inputs changed in place: written to the caller's memory, strided too, swapped, last") {
  for (bool interpret : {false, true}) {
    CAPTURE(interpret);
    TestGraph g;
    Expr s = g.symbol("s0");
    V x = g.input({s, g.b.integer(2)}), y = g.input({s, g.b.integer(2)}), buffer = g.buffer("b", ones({1}));
    g.returns(x + y);
    g.returns(x);
    auto writes = [&](const std::string& name, V now) {
      g.p.graph.block(g.p.graph.top()).returns.push_back(now);
      g.p.outputs.push_back({OutputKind::InputMutation, name});
    };
    writes("x0", y);
    writes("x1", x * Arg(10));
    g.mutates("b", g.b.sum(x, {0, 1}, false) * buffer);
    Executable e = g.program().compile({.interpret = interpret}).value();
    for (int64_t n : {0, 1, 3, 17}) {
      Tensor a = counting(DType::F32, {n, 2}), store = counting(DType::F32, {2, n}, 100);
      Tensor b(DType::F32, {n, 2}, {1, n}, store.storage(), store.data()); // the transpose
      Numbers old_a = numbers(a), old_b = numbers(b), sum, tens;
      for (size_t i = 0; i < old_a.size(); i++) sum.push_back(old_a[i] + old_b[i]), tens.push_back(old_a[i] * 10);
      auto out = run(e, {a, b});
      CHECK(out.size() == 2);
      CHECK(numbers(out[0]) == sum);
      CHECK(numbers(out[1]) == old_a);
      CHECK(numbers(a) == old_b);
      CHECK(numbers(b) == tens);
    }
  }
}

} // namespace tenon::state_test
