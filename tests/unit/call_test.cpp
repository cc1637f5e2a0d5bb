// What a call does besides its steps: results in the caller's memory, memory used again, nothing allocated once it is warm.
#include <doctest/doctest.h>

#include <fstream>
#include <random>

#include "api/impl.h"
#include "runtime/memory.h"
#include "tests/unit/allocations.h"
#include "tests/unit/graph_harness.h"

namespace tenon::call_test {
using namespace tenon::test;

namespace {

// x + y, the sum of its rows, and their running sums by a library step.
TestGraph small_graph() {
  TestGraph g;
  Expr rows = g.symbol("s0");
  V x = g.input({rows, g.b.integer(8)}), y = g.input({g.b.integer(8)});
  V z = x + y;
  g.returns(z);
  g.returns(g.b.sum(z, {0}, false));
  g.returns(g.b.call1("aten::cumsum.default", {z, 1}));
  return g;
}

TensorView view_of(const Tensor& t) { return t.view(); }

} // namespace

TEST_CASE("calls: results in memory of the caller") {
  Program program = small_graph().program();
  for (bool interpret : {false, true}) {
    Executable exe = program.compile({.interpret = interpret}).value();
    Tensor x = counting(DType::F32, {3, 8}), y = counting(DType::F32, {8}, 100);
    std::vector<Tensor> want = run(exe, {x, y});
    std::vector<TensorView> in{view_of(x), view_of(y)};
    Tensor z(DType::F32, {3, 8}), sums(DType::F32, {8}), running(DType::F32, {3, 8});
    std::vector<TensorView> out{view_of(z), view_of(sums), view_of(running)};
    exe.run(in, out).check();
    CHECK(numbers(z) == numbers(want[0]));
    CHECK(numbers(sums) == numbers(want[1]));
    CHECK(numbers(running) == numbers(want[2]));

    // Strided: columns first, and every other element.
    Tensor wide(DType::F32, {8, 3, 2});
    std::vector<int64_t> sizes{3, 8}, strides{2, 6};
    out[0] = {DType::F32, wide.data(), sizes, strides};
    exe.run(in, out).check();
    CHECK(numbers(Tensor(DType::F32, sizes, strides, wide.storage(), wide.data()).contiguous()) == numbers(want[0]));

    // Over an input.
    Tensor again = counting(DType::F32, {3, 8});
    in[0] = view_of(again), out[0] = view_of(again);
    exe.run(in, out).check();
    CHECK(numbers(again) == numbers(want[0]));
    CHECK(numbers(sums) == numbers(want[1]));
  }
}

TEST_CASE("calls: outputs that do not fit") {
  Program program = small_graph().program();
  for (bool interpret : {false, true}) {
    Executable exe = program.compile({.interpret = interpret}).value();
    Tensor x = counting(DType::F32, {3, 8}), y = counting(DType::F32, {8}), z(DType::F32, {3, 8}), sums(DType::F32, {8});
    std::vector<TensorView> in{view_of(x), view_of(y)}, right{view_of(z), view_of(sums), view_of(z)};
    auto says = [&](std::vector<TensorView> out, const char* part) {
      Status s = exe.run(in, out);
      CHECK_FALSE(s.ok());
      CHECK_MESSAGE(std::string(s.error().what()).find(part) != std::string::npos, std::string(s.error().what()));
      CHECK(s.error().kind == ErrorKind::BadInput);
    };
    says({right[0], right[1]}, "2 outputs are given, the program has 3");
    says({right[0], right[0], right[2]}, "output 1: sizes are [3, 8], the result's [8]");
    Tensor other(DType::F64, {8});
    says({right[0], view_of(other), right[2]}, "output 1: dtype is f64");
    std::vector<int64_t> sizes{8};
    says({right[0], {DType::F32, nullptr, sizes, {}}, right[2]}, "output 1: data is null");
  }
}

TEST_CASE("calls: a tensor that only the caller holds is written again, others stay") {
  Executable exe = small_graph().program().compile().value();
  std::vector<Tensor> in{counting(DType::F32, {3, 8}), counting(DType::F32, {8})}, out;
  exe.run(in, out).check();
  void* first = out[0].data();
  Tensor held = out[1];
  std::vector<double> sums = numbers(held);
  in[1] = counting(DType::F32, {8}, 50);
  exe.run(in, out).check();
  CHECK(out[0].data() == first);
  CHECK(out[1].data() != held.data());
  CHECK(numbers(held) == sums);

  // Results that become inputs.
  std::vector<Tensor> next{out[0], in[1]};
  std::vector<double> z = numbers(out[0]);
  exe.run(next, out).check();
  for (size_t i = 0; i < z.size(); i++) CHECK(numbers(out[0])[i] == z[i] + 50 + static_cast<double>(i % 8));

  // The same with views alone: `out` holds the only reference.
  std::vector<double> before = numbers(out[0]);
  std::vector<TensorView> views{out[0].view(), in[1].view()};
  next.clear();
  exe.run(views, out).check();
  for (size_t i = 0; i < before.size(); i++) CHECK(numbers(out[0])[i] == before[i] + 50 + static_cast<double>(i % 8));

  // More tensors than results, the last of which is an input.
  out.push_back(counting(DType::F32, {3, 8}, 7));
  views[0] = out.back().view();
  exe.run(views, out).check();
  REQUIRE(out.size() == 3);
  CHECK(numbers(out[0])[0] == 57);
}

TEST_CASE("calls: nothing is allocated once they are warm") {
  Program program = small_graph().program();
  for (int threads : {1, 2}) {
    Executable exe = program.compile({.threads = threads}).value();
    Tensor x = counting(DType::F32, {300, 8}), y = counting(DType::F32, {8});
    std::vector<TensorView> in{view_of(x), view_of(y)};
    std::vector<Tensor> out;
    for (int i = 0; i < 3; i++) exe.run(in, out).check();
    std::vector<TensorView> into;
    for (const Tensor& t : out) into.push_back(view_of(t));
    int64_t before = allocations();
    for (int i = 0; i < 10; i++) exe.run(in, into).check();
    CHECK(allocations() == before);
    std::vector<Tensor> fresh;
    exe.run(in, fresh).check();
    before = allocations();
    for (int i = 0; i < 10; i++) exe.run(in, fresh).check();
    CHECK(allocations() == before);
  }
}

TEST_CASE("calls: bound once, run again on what the memory holds") {
  Program program = small_graph().program();
  Executable exe = program.compile().value();
  Tensor x = counting(DType::F32, {5, 8}), y = counting(DType::F32, {8}, 9);
  Tensor z(DType::F32, {5, 8}), sums(DType::F32, {8}), running(DType::F32, {5, 8}), columns(DType::F32, {8, 5});
  std::vector<int64_t> sizes{5, 8}, strides{1, 5};
  for (bool strided : {false, true}) {
    std::vector<TensorView> in{view_of(x), view_of(y)}, out{view_of(z), view_of(sums), view_of(running)};
    if (strided) out[0] = {DType::F32, columns.data(), sizes, strides};
    BoundCall call = exe.bind(in, out).value();
    for (int i = 0; i < 3; i++) {
      x.data_as<float>()[i] += 3;
      call.run().check();
      std::vector<Tensor> want = run(exe, {x, y}); // between runs, other calls
      Tensor got = strided ? Tensor(DType::F32, sizes, strides, columns.storage(), columns.data()).contiguous() : z;
      CHECK(numbers(got) == numbers(want[0]));
      CHECK(numbers(sums) == numbers(want[1]));
      CHECK(numbers(running) == numbers(want[2]));
    }
    int64_t before = allocations();
    call.run().check();
    if (!strided) CHECK(allocations() == before);
    out.pop_back();
    CHECK(std::string(exe.bind(in, out).error().what()).find("2 outputs are given") != std::string::npos);
  }
  CHECK_FALSE(program.compile({.interpret = true}).value().bind({}, {}));
}

TEST_CASE("calls: bound ones let go of memory whose size depends on data") {
  TestGraph g;
  V x = g.input({g.b.integer(1 << 18)});
  g.returns(g.b.sum(g.b.call1("aten::masked_select.default", {x, g.b.call1("aten::gt.Scalar", {x, 0.5})}), {0}, false));
  Executable exe = g.program().compile().value();
  Tensor ones = filled(DType::F32, {1 << 18}, [](int64_t i) { return i % 4 == 0 ? 0 : 1; }), sum(DType::F32, {});
  std::vector<TensorView> in{view_of(ones)}, out{view_of(sum)};
  BoundCall call = exe.bind(in, out).value();
  auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    int64_t all = 0, pages = 0;
    statm >> all >> pages;
    return pages * 4096;
  };
  call.run().check();
  int64_t before = resident();
  for (int i = 0; i < 300; i++) call.run().check();
  CHECK(numbers(sum)[0] == 3 * (1 << 16));
  CHECK(resident() - before < 32 << 20); // of 300 times three quarters of a megabyte
}

TEST_CASE("calls: sizes that come in turn, and results of each") {
  Program program = small_graph().program();
  Executable exe = program.compile().value(), oracle = program.compile({.interpret = true}).value();
  std::mt19937 random(5);
  Tensor y = counting(DType::F32, {8}, -3);
  for (int i = 0; i < 300; i++) { // more combinations than are kept
    Tensor x = counting(DType::F32, {static_cast<int64_t>(random() % 150), 8}, 0.5);
    auto got = run(exe, {x, y}), want = run(oracle, {x, y});
    for (size_t k = 0; k < want.size(); k++) CHECK(difference(got[k], want[k]) == "");
  }
}

TEST_CASE("memory: blocks come back in classes of sizes, and do not pile up") {
  BlockPool pool;
  void* first = pool.take(5000).get();
  CHECK(pool.take(4999).get() == first);
  std::vector<std::shared_ptr<void>> many;
  for (size_t bytes = 1; bytes < size_t{1} << 22; bytes = bytes * 5 / 4 + 1) many.push_back(pool.take(bytes));
  for (auto& block : many) CHECK(reinterpret_cast<uintptr_t>(block.get()) % 64 == 0);
  many.clear();
  size_t kept = pool.kept_bytes();
  CHECK(kept > 0);
  for (int i = 0; i < 2000; i++) pool.take(100);
  CHECK(pool.kept_bytes() < 1000);
  CHECK(pool.take(size_t{1} << 61) == nullptr);
  CHECK(pool.take(SIZE_MAX) == nullptr);

  GrowingBlock block;
  CHECK(block.reserve(100));
  CHECK(block.reserve(3 << 20));
  CHECK(block.capacity() >= 3 << 20);
  for (int i = 0; i < 600; i++) block.begin_call(), block.reserve(1000);
  CHECK(block.capacity() < 1 << 20);
  CHECK_FALSE(block.reserve(size_t{1} << 61));
  CHECK(block.reserve(10));
}

TEST_CASE("a number that no size depends on is bound anew in each call, sizes are not") {
  TestGraph g;
  auto number = [&](const char* name, TypeKind kind, DType type) {
    Expr e = g.b.pool().symbol(name, type);
    ValueId v = g.p.graph.add_param(g.p.graph.top(), Type::scalar(kind, e), name);
    g.p.inputs.push_back({.kind = InputKind::User, .name = name, .target = {}, .value = v});
    return e;
  };
  Expr rows = g.symbol("s0"), factor = number("factor", TypeKind::Float, DType::F64), count = number("count", TypeKind::Int, DType::I64);
  V x = g.input({rows});
  g.returns(g.b.call1("aten::mul.Scalar", {x, factor + 1.0}));
  g.returns(g.b.call1("aten::full.default", {Arg(ArgList{count}), 2.0}));
  auto exe = g.program().compile({}).value();
  auto scalar = [](DType t, double v) { return filled(t, {}, [=](int64_t) { return v; }); };
  std::shared_ptr<const BoundPlan> first;
  for (int64_t n : {4, 7})
    for (int k : {3, 2})
      for (double f : {0.5, -2.0, 0.5, 8.25}) {
        std::vector<Tensor> inputs{scalar(DType::F64, f), scalar(DType::I64, k), counting(DType::F32, {n}, 1)}, out;
        exe.run(inputs, out).check();
        for (int64_t i = 0; i < n; i++) CHECK(numbers(out[0])[static_cast<size_t>(i)] == doctest::Approx((1 + i) * (f + 1)));
        CHECK(out[1].numel() == k);
        std::vector<TensorView> views;
        for (Tensor& t : inputs) views.push_back(t.view());
        auto bound = exe.impl().runner->plan_for(views);
        if (f == 0.5) first = bound;
        CHECK(bound == first);
      }
}

TEST_CASE("an index that the program gives is held against the sizes of the call") {
  TestGraph g;
  V x = g.input({g.symbol("s0"), g.b.integer(3)});
  g.returns(g.b.call1("aten::select.int", {x, 0, 2}));
  g.returns(g.b.call1("aten::select.int", {x, 0, -3}));
  auto exe = g.program().compile({}).value();
  for (int64_t rows : {2, 3, 5}) {
    std::vector<Tensor> inputs{counting(DType::F32, {rows, 3})}, out;
    Status status = exe.run(inputs, out);
    CHECK(status.ok() == (rows >= 3));
    if (!status.ok()) CHECK(std::string(status.error().what()).find("the sizes do not fit") != std::string::npos);
    else CHECK(numbers(out[0]) == std::vector<double>{6, 7, 8});
    if (status.ok()) CHECK(numbers(out[1])[0] == static_cast<double>(3 * (rows - 3)));
  }
}

TEST_CASE("binomial numbers take counts and probabilities of one dtype") {
  TestGraph g;
  V counts = g.input({100}, DType::F16), probabilities = g.input({100});
  CHECK_THROWS_AS(g.b.call1("aten::binomial.default", {counts, probabilities}), Error);
}

} // namespace tenon::call_test
