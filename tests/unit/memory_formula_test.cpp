// Memory before running: what the formula says, what is planned, and what runs take.
#include <doctest/doctest.h>

#include <climits>
#include <deque>
#include <filesystem>
#include <random>

#include "api/impl.h"
#include "compile/memory_formula.h"
#include "compile/slots.h"
#include "tests/unit/graph_harness.h"

namespace tenon::memory_formula_test {
using namespace tenon::test;

namespace {

/// The value of an expression, or of "max(a, b, ...)", for values of its symbols.
int64_t value_of(const std::string& text, const std::map<std::string, int64_t>& values) {
  ExprPool pool;
  Substitution sizes;
  for (auto& [name, v] : values) sizes.set(pool.symbol(name), pool.integer(v));
  int depth = 0;
  std::vector<std::string> terms = {""};
  size_t closed = std::string::npos;
  for (size_t i = 0; i < text.size(); i++) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth == 0 && closed == std::string::npos && i >= 4) closed = i;
  }
  if (!text.starts_with("max(") || closed + 1 != text.size()) return const_int(sizes.apply(parse_expr(pool, text))).value();
  for (size_t i = 4; i < closed; i++) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth == 0 && text[i] == ',') terms.emplace_back();
    else terms.back() += text[i];
  }
  int64_t most = 0;
  for (const std::string& t : terms) most = std::max(most, const_int(sizes.apply(parse_expr(pool, t))).value());
  return most;
}

/// Inputs of some sizes, without data but for numbers.
struct Sized {
  std::map<std::string, int64_t> values = {}; // of symbols and of whole numbers
  std::deque<std::vector<int64_t>> sizes = {};
  std::deque<Tensor> numbers = {};
  std::vector<TensorView> views = {};
};

constexpr int64_t interesting[] = {0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 37, 64, 97, 128, 211, 256, 509, 1024, 4099};

Sized random_sizes(const Executable& exe, const Program& program, std::mt19937& random) {
  Sized out;
  ExprPool pool;
  Substitution values;
  auto pick = [&] { return interesting[random() % std::size(interesting)]; };
  for (const ArgInfo& in : program.inputs()) {
    std::vector<int64_t>& sizes = out.sizes.emplace_back();
    for (const std::string& s : in.sizes) {
      Expr size = parse_expr(pool, s);
      visit(size, [&](const ExprNode& n) {
        if (n.op != Op::Symbol || out.values.contains(n.name)) return;
        values.set(Expr(&n), pool.integer(out.values[n.name] = pick()));
      });
      sizes.push_back(const_int(values.apply(size)).value());
    }
    const InputSpec& spec = exe.impl().runner->plan().inputs.at(out.views.size());
    void* data = nullptr;
    if (in.is_number) {
      double number = spec.is_fixed ? spec.fixed : static_cast<double>(out.values[in.name] = 1 + pick() % 9);
      data = out.numbers.emplace_back(filled(in.dtype, {}, [&](int64_t) { return number; })).data();
    }
    out.views.push_back({in.dtype, data, sizes, {}});
  }
  return out;
}

/// What layouts lose at most between buffers, as a part of what is alive, beside rounding each to a cache line.
constexpr double most_lost = 0.25;

void check_sizes(const std::string& path) {
  CAPTURE(path);
  std::mt19937 random(5);
  Program program = Program::load(path).value();
  Executable exe = program.compile({.threads = 2}).value();
  MemoryFormula formula = exe.memory_formula().value();
  size_t rounding = 64 * exe.impl().runner->plan().buffers.size();
  int fitting = 0;
  for (int i = 0; i < 100; i++) {
    Sized in = random_sizes(exe, program, random);
    auto use = exe.memory(in.views);
    if (!use) { // sizes that the program refuses
      CHECK(use.error().kind == ErrorKind::BadInput);
      continue;
    }
    fitting++;
    MemoryUse m = use.value();
    CHECK(m.alive == static_cast<size_t>(value_of(formula.temporaries, in.values)));
    CHECK(m.results == static_cast<size_t>(value_of(formula.results, in.values)));
    CHECK(m.alive <= m.temporaries);
    CHECK(static_cast<double>(m.temporaries) <= static_cast<double>(m.alive) * (1 + most_lost) + static_cast<double>(rounding));
  }
  CHECK(fitting > 0);
}

/// What was said before is what a run takes.
void check_run(const std::string& path) {
  CAPTURE(path);
  Program program = Program::load(path).value();
  auto inputs = program.example_inputs();
  if (!inputs) return;
  Executable exe = program.compile({.threads = 2}).value();
  std::vector<TensorView> views;
  for (const Tensor& t : inputs.value()) views.push_back(t.view());
  MemoryUse said = exe.memory(views).value();
  std::vector<Tensor> outputs = run(exe, inputs.value());
  CHECK(exe.stats().arena_bytes == said.temporaries);
  size_t results = 0;
  for (const Tensor& t : outputs) results += static_cast<size_t>(t.numel()) * size_of(t.dtype());
  int uncounted = exe.memory_formula().value().uncounted;
  CHECK((uncounted > 0 ? said.results <= results : said.results == results));
}

template <class F> void for_each_fixture(const F& f) {
  for (auto folder : {"programs", "control", "quantized"})
    for (auto& file : std::filesystem::directory_iterator(std::string(TENON_FIXTURES) + "/" + folder))
      if (file.path().extension() == ".pt2") f(file.path().string());
}

} // namespace

TEST_CASE("memory before running: the formula and the layout, at sizes of all kinds") { for_each_fixture(check_sizes); }

TEST_CASE("memory before running: runs take what was said") { for_each_fixture(check_run); }

TEST_CASE("memory before running: terms that others exceed are left out") {
  ExprPool pool;
  Plan plan;
  SlotTable slots(plan.sizes);
  Expr a = pool.symbol("s0", DType::I64, 0), b = pool.symbol("s1", DType::I64, 0);
  plan.inputs.push_back({.name = "x"});
  for (auto& [size, least] : {std::pair(a, 0), std::pair(b, 1)})
    plan.inputs[0].dims.push_back({.kind = InputDim::Kind::Bind, .slot = slots.bind(size, 0), .lo = least, .text = size->name});
  auto alive = [&](Expr elements, int first, int last) {
    plan.buffers.push_back({.dtype = DType::F32, .sizes = {slots.of(elements)}, .first = first, .last = last});
  };
  alive(a * 64.0, 0, 1), alive(a * b, 1, 2), alive(pool.integer(4), 2, 2);
  CHECK(memory_formula(plan).temporaries == "max(s0*256 + s0*s1*4, s0*s1*4 + 16)");
  alive(a * b * 3.0 + a, 4, 5), alive(b * 2.0, 5, INT_MAX), alive(a, 7, 9);
  CHECK(memory_formula(plan).temporaries == "max(s0*256 + s0*s1*4, s0*s1*4 + 16, s0*4 + s0*s1*12 + s1*8)");
  alive(a * 1000.0, 3, 5);
  CHECK(memory_formula(plan).temporaries == "max(s0*s1*4 + 16, s0*4004 + s0*s1*12 + s1*8)");
  CHECK(memory_formula(plan).results == "0");
  Plan empty;
  empty.sizes.stages.resize(1);
  CHECK(memory_formula(empty).temporaries == "0");
}

TEST_CASE("memory before running: sizes that were solved for, and numbers") {
  ExprPool pool;
  Plan plan;
  SlotTable slots(plan.sizes);
  Expr whole = pool.symbol("size"), s = pool.symbol("s2", DType::I64, 0), scale = pool.symbol("s3", DType::F64);
  plan.inputs.push_back({.name = "x"}), plan.inputs.push_back({.name = "scale", .dtype = DType::F64, .is_number = true});
  plan.inputs[0].dims.push_back({.kind = InputDim::Kind::Bind, .slot = slots.bind(whole, 0), .text = "s2*2 + 1"});
  plan.inputs[1].number_slot = slots.bind(scale, 0);
  slots.define(s, floor_div(whole - 1.0, pool.integer(2)));
  Expr scaled = cast(unary(Op::Floor, cast(s, DType::F64) * scale), DType::I64);
  plan.buffers.push_back({.dtype = DType::F32, .sizes = {slots.of(s * 8.0), slots.of(s)}});
  CHECK(memory_formula(plan).temporaries == "s2*s2*32");
  plan.buffers.push_back({.dtype = DType::I8, .sizes = {slots.of(scaled)}, .first = 1, .last = 1});
  CHECK(memory_formula(plan).temporaries == "max(s2*s2*32, max(i64(floor(symbol_f64(scale)*f64(s2))), 0))");
}

TEST_CASE("memory before running: the report, refusals") {
  Program program = Program::load(std::string(TENON_FIXTURES) + "/programs/mlp.pt2").value();
  Executable exe = program.compile().value();
  CHECK(exe.explain().find("temporaries alive at once: " + exe.memory_formula().value().temporaries + " bytes\n") != std::string::npos);
  CHECK(exe.memory({}).error().kind == ErrorKind::BadInput);
  Executable interpreted = program.compile({.interpret = true}).value();
  CHECK(interpreted.memory_formula().error().kind == ErrorKind::Unsupported);
  CHECK(interpreted.memory({}).error().kind == ErrorKind::Unsupported);
}

} // namespace tenon::memory_formula_test
