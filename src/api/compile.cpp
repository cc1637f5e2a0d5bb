// Executables: compiled from programs, found in the cache, loaded from files.
#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/ranges.h>

#include "api/pending.h"
#include "artifact/cache.h"
#include "base/stage.h"
#include "base/timeline.h"
#include "compile/compile.h"
#include "compile/pack_weights.h"
#include "compile/specialize.h"
#include "ir/collective.h"
#include "ir/pass_runner.h"
#include "ops/custom.h"

namespace tenon {

namespace {

Compiled compile_program(const LoadedProgram& loaded, const Options& options, Keep keep) {
  LargeMemory packed = expect_packed_weights(loaded, Workers(options.threads, options.pool));
  LoadedProgram program = loaded;
  lower(program, "backend", options);
  return build_plan(std::move(program), options, keep, std::move(packed));
}

artifact::Description describe(const Program::Impl& program, const Options& options, Compiled& compiled, std::string key) {
  return {.name = program.loaded.name,
          .signature = program.signature,
          .isa = options.isa,
          .target = describe(compiled.target),
          .has_narrow = compiled.has_narrow,
          .key = std::move(key),
          .plan = {},
          .objects = std::move(compiled.objects),
          .operators = {}};
}

// What an operator of the user computes is not told by the program.
bool calls_custom(const Graph& g) {
  for (uint32_t i = 0; i < g.num_nodes(); i++)
    if (g.node(NodeId{i}).def && ops::find_custom(g.node(NodeId{i}).op)) return true;
  return false;
}

/// From the cache, or compiled and put there.
std::shared_ptr<const LinkedPlan> cached_plan(const Program::Impl& program, const Options& options, CacheUse& use) {
  std::string key;
  bool is_known = options.kernels.empty() && !calls_custom(program.loaded.graph);
  if (!options.cache_folder.empty() && is_known) key = artifact::cache_key(program.loaded.fingerprint, options);
  if (key.empty()) return compile_program(program.loaded, options, {}).plan;
  artifact::Cache cache(options.cache_folder, options.cache_bytes);
  if (auto found = cache.find(key, Workers(options.threads, options.pool))) {
    use = CacheUse::Found;
    return std::move(found->plan);
  }
  Compiled compiled = compile_program(program.loaded, options, {.objects = true});
  use = cache.put(describe(program, options, compiled, std::move(key)), *compiled.plan) ? CacheUse::Stored : CacheUse::Failed;
  return compiled.plan;
}

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

void note_state(Executable::Impl& impl, std::chrono::steady_clock::time_point begin) {
  for (const Tensor& t : impl.state()) impl.stats.state_bytes += static_cast<size_t>(t.numel()) * size_of(t.dtype());
  impl.stats.compile_ms = ms_since(begin);
}

void start(Executable::Impl& impl, std::shared_ptr<const LinkedPlan> plan, std::chrono::steady_clock::time_point begin) {
  impl.stats.kernels_compiled = static_cast<int>(plan->kernels.size());
  impl.stats.steps = plan->plan.num_steps;
  impl.stats.fallback_steps = plan->plan.fallback_steps;
  impl.stats.delegate_steps = plan->plan.num_delegates;
  impl.stats.compile_ms = ms_since(begin);
  start(impl, std::make_unique<PlanRunner>(std::move(plan), Workers(impl.options.threads, impl.options.pool), impl.options.profile,
                                           impl.collectives));
  note_state(impl, begin);
}

/// Makes plans for exact sizes, in the thread that asks for it.
Variants::Make variant_maker(std::shared_ptr<const Program::Impl> program, Options options, std::shared_ptr<const LinkedPlan> generic) {
  options.threads = 1;
  return [=](std::span<const int64_t> sizes) {
    std::map<std::string, int64_t> symbols = symbols_of(program->loaded, sizes);
    LoadedProgram exact = specialize(program->loaded, symbols);
    lower(exact, "backend", options);
    Compiled compiled = build_plan(std::move(exact), options, {}, {}, generic);
    std::vector<std::string> guard;
    for (auto& [name, value] : symbols) guard.push_back(fmt::format("{} = {}", name, value));
    return Variants::Made{compiled.plan, compiled.own_bytes, fmt::format("{}", fmt::join(guard, ", "))};
  };
}

// What the program was exported for is what there is.
void check_groups(const Graph& g, const Collectives& collectives) {
  for (const GroupUse& use : groups_of(g)) {
    std::string why = collectives.refusal(use.group, use.ranks);
    require_input(why.empty(), "{}: {}", use.op, why);
  }
}

bool has_sizes(const Plan& plan) {
  return std::ranges::any_of(plan.inputs, [](const InputSpec& in) {
    return std::ranges::any_of(in.dims, [](const InputDim& d) { return d.kind == InputDim::Kind::Bind; });
  });
}

} // namespace

void start(Executable::Impl& impl, std::unique_ptr<PlanRunner> runner) {
  impl.runner = std::move(runner);
  if (!impl.make_variant) return;
  Specialization s = impl.options.specialization;
  PassOptions passes = pass_options_from_env();
  if (impl.options.profile || !passes.dump.empty() || !passes.stop_after.empty()) s.in_background = false;
  impl.variants = std::make_unique<Variants>(*impl.runner, s, impl.make_variant, impl.stats.compile_ms);
}

void compile_into(Executable::Impl& impl, const std::shared_ptr<const Program::Impl>& program) {
  RecordedSpan span("compile");
  auto begin = std::chrono::steady_clock::now();
  if (has_collectives(program->loaded.graph)) {
    require_input(static_cast<bool>(impl.options.communicator),
                  "the program communicates with other ranks: it needs Options::communicator");
    impl.options.specialization.in_background = false; // ranks would not change their plans together
    impl.collectives = std::make_shared<Collectives>(impl.options.communicator, impl.options.groups);
    check_groups(program->loaded.graph, *impl.collectives);
  }
  if (impl.options.interpret) {
    LoadedProgram edge = program->loaded;
    lower(edge, "edge", impl.options);
    impl.interpreter = std::make_unique<InterpretedRunner>(std::move(edge), impl.options.seed, impl.collectives);
    note_state(impl, begin);
  } else {
    std::shared_ptr<const LinkedPlan> plan = cached_plan(*program, impl.options, impl.stats.cache);
    if (has_sizes(plan->plan)) impl.make_variant = variant_maker(program, impl.options, plan); // it keeps the program
    start(impl, std::move(plan), begin);
  }
}

Result<Executable> Program::compile(const Options& options) const {
  return guarded([&] {
    auto impl = std::make_shared<Executable::Impl>();
    impl->options = options, impl->signature = impl_->signature;
    Stage stage("compiling");
    std::shared_ptr<const Program::Impl> program = to_backends(impl_, options.backends);
    if (std::isinf(options.compile_budget_ms) || options.interpret) {
      compile_into(*impl, program);
    } else {
      if (auto missing = unsupported(); !missing.empty()) tenon::unsupported("{}", fmt::join(missing, ", "));
      impl->pending = std::make_unique<Pending>(*impl, program);
      impl->pending->wait_for(options.compile_budget_ms);
    }
    return Executable(std::move(impl));
  });
}

Status Program::save_compiled(const std::string& path, const Options& options) const {
  auto done = guarded([&] {
    Stage stage("compiling");
    std::shared_ptr<const Program::Impl> program = to_backends(impl_, options.backends);
    Compiled compiled = compile_program(program->loaded, options, {.objects = true});
    artifact::write(path, describe(*program, options, compiled, {}), *compiled.plan);
    return true;
  });
  return done ? Status() : Status(done.error());
}

Result<Executable> Executable::load(const std::string& path, const Options& options) {
  return guarded([&] {
    auto begin = std::chrono::steady_clock::now();
    require_input(!options.interpret, "a compiled program cannot be interpreted");
    RecordedSpan span("load compiled");
    artifact::Loaded loaded = artifact::load(path, Workers(options.threads, options.pool));
    auto impl = std::make_shared<Executable::Impl>();
    impl->options = options, impl->signature = std::move(loaded.description.signature);
    if (loaded.plan->plan.num_requests > 0) {
      require_input(static_cast<bool>(options.communicator), "the program communicates with other ranks: it needs Options::communicator");
      impl->collectives = std::make_shared<Collectives>(options.communicator, options.groups);
    }
    start(*impl, std::move(loaded.plan), begin);
    return Executable(std::move(impl));
  });
}

} // namespace tenon
