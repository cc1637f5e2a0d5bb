// The stages from a Backend graph to a plan, one by one: values that can be made again, and lifetimes of buffers.
#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <functional>

#include "compile/assign_buffers.h"
#include "compile/build_plan.h"
#include "compile/compile.h"
#include "load/load.h"
#include "loops/canonical.h"

namespace tenon::stages_test {

namespace {

struct Stages {
  std::string regions, kernels, plan;
  explicit Stages(const LoadedProgram& backend) {
    Options options;
    Machine machine(backend, options);
    PlanTarget target(machine.target);
    auto lowered = lower_regions(backend.graph, target, false);
    SelectedKernels selected = select_kernels(backend.graph, lowered, *machine.micro_kernels, target);
    EmittedPlan emitted = emit_steps(backend, lowered, selected, options, target);
    assign_buffers(emitted.plan);
    regions = to_string(backend.graph, lowered);
    kernels = to_string(backend.graph, lowered, selected, *machine.micro_kernels);
    plan = to_string(emitted.plan);
  }
};

PlanBuffer arena() { return {.dtype = DType::F32, .place = BufferPlace::Arena}; }

Step step(int number, decltype(Step::run) run) { return {.run = std::move(run), .number = number}; }

} // namespace

// Calls f with the Backend graph of each fixture; gives their number.
static int for_each_fixture(const std::function<void(const LoadedProgram&)>& f) {
  int programs = 0;
  for (const char* folder : {"/programs", "/control", "/quantized"})
    for (auto& file : std::filesystem::directory_iterator(std::string(TENON_FIXTURES) + folder)) {
      if (file.path().extension() != ".pt2") continue;
      CAPTURE(file.path().filename().string());
      LoadedProgram program = load_pt2(file.path());
      lower(program, "backend");
      f(program);
      programs++;
    }
  return programs;
}

TEST_CASE("each stage of a plan gives the same again, and build_plan goes through them") {
  int programs = for_each_fixture([](const LoadedProgram& program) {
    Stages once(program), again(program);
    CHECK(once.regions == again.regions);
    CHECK(once.kernels == again.kernels);
    CHECK(once.plan == again.plan);
    CHECK(once.plan == to_string(build_plan(program, Options()).plan->plan));
  });
  CHECK(programs > 40);
}

// A region's text, its kernels without their names for values.
static std::string text_of(const Graph& g, LoweredRegion r) {
  ExprPool pool;
  auto rename = [&](RegionKernel& k) { k.kernel = canonical(k.kernel, pool, 0).kernel; };
  std::ranges::for_each(r.loops.kernels, rename);
  if (r.epilogue) rename(*r.epilogue);
  if (r.attention) rename(r.attention->kernels.score), rename(r.attention->kernels.finish);
  std::string out = to_string(g, {r});
  if (r.attention)
    for (const AttentionOperand* o : {&r.attention->attention.q, &r.attention->attention.k, &r.attention->attention.v})
      out += fmt::format("%{} from {}\n", o->value.index, to_string(o->offset));
  if (r.attention) out += fmt::format("scores {}\n", r.attention->attention.scores.index);
  return out;
}

TEST_CASE("a region like an earlier one has the kernels that it would get alone, over its own values") {
  PlanTarget target{host_target(Isa::Auto)};
  int alike = 0;
  for_each_fixture([&](const LoadedProgram& program) {
    for (const LoweredRegion& r : lower_regions(program.graph, target, false)) {
      if (r.same_as < 0) continue;
      alike++;
      CHECK(text_of(program.graph, r) == text_of(program.graph, lower_region(program.graph, r.node, target, false)));
    }
  });
  CHECK(alike > 10);
}

TEST_CASE("a buffer lives from the first step that names it to the last") {
  Plan plan;
  for (int i = 0; i < 6; i++) plan.buffers.push_back(arena());
  plan.buffers[5] = {.dtype = DType::F32, .place = BufferPlace::Part, .index = 4};
  plan.steps.push_back(step(0, CopyStep{0, 1}));
  plan.steps.push_back(step(1, CopyStep{1, 2}));
  plan.steps.push_back(step(2, CopyStep{2, 5}));
  plan.steps.push_back(step(3, CopyStep{4, 3}));
  plan.outputs.push_back({.buffer = 3, .dtype = DType::F32});
  assign_buffers(plan);
  auto lives = [&](size_t b, int first, int last) { return plan.buffers[b].first == first && plan.buffers[b].last == last; };
  CHECK(lives(0, 0, 0));
  CHECK(lives(1, 0, 1));
  CHECK(lives(2, 1, 2));
  CHECK(lives(3, 3, INT_MAX));
  CHECK(lives(4, 2, 3)); // its part is written before
  CHECK(lives(5, 2, 2));
}

TEST_CASE("what a loop reads and was there before lives as long as the loop") {
  Plan plan;
  for (int i = 0; i < 5; i++) plan.buffers.push_back(arena());
  WhileStep loop{.condition = {step(1, CopyStep{0, 3})}, .body = {step(2, CopyStep{1, 4}), step(3, CopyStep{4, 0})}, .flag = 3};
  plan.steps.push_back(step(0, CopyStep{2, 1}));
  plan.steps.push_back(step(4, std::move(loop)));
  assign_buffers(plan);
  auto lives = [&](size_t b, int first, int last) { return plan.buffers[b].first == first && plan.buffers[b].last == last; };
  CHECK(lives(2, 0, 0)); // read before
  CHECK(lives(1, 0, 4)); // read by each turn
  CHECK(lives(3, 1, 4)); // the flag
  CHECK(lives(4, 2, 3)); // within a turn
}

} // namespace tenon::stages_test
