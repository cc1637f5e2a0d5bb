// Program and Executable: the public handles. The only place that catches exceptions.
#include <algorithm>

#include "api/impl.h"
#include "base/strided.h"
#include "base/timeline.h"
#include "codegen/code_count.h"
#include "compile/explain.h"
#include "compile/memory_formula.h"
#include "compile/transform.h"
#include "expr/eval.h"
#include "ir/pass.h"
#include "load/load.h"

namespace tenon {

std::shared_ptr<const Program::Impl> describe(LoadedProgram loaded) {
  Signature signature = signature_of(loaded);
  loaded.graph.pool().freeze();
  return std::make_shared<Program::Impl>(Program::Impl{std::move(loaded), std::move(signature)});
}

Result<Program> Program::load(const std::string& path) {
  return guarded([&] {
    RecordedSpan span("load");
    return Program(describe(load_pt2(path)));
  });
}
Result<Program> Program::load(const std::string& path, const std::string& method) {
  return guarded([&] {
    require_input(!method.empty(), "an empty name of a method");
    RecordedSpan span("load");
    return Program(describe(load_pt2(path, method)));
  });
}
Result<std::vector<std::string>> Program::methods(const std::string& path) {
  return guarded([&] { return pt2_methods(path); });
}
Result<Program> Program::load(std::span<const std::byte> bytes, std::string name) {
  return guarded([&] { return Program(describe(load_pt2(bytes, name))); });
}
Result<Program> Program::load_graph(std::string_view json, std::span<const NamedTensor> weights) {
  return guarded([&] { return Program(describe(load_pt2_graph(json, weights))); });
}
const std::vector<ArgInfo>& Program::inputs() const { return impl_->signature.inputs; }
const std::vector<ArgInfo>& Program::outputs() const { return impl_->signature.outputs; }
const Tree& Program::in_spec() const { return impl_->signature.in_spec; }
const Tree& Program::out_spec() const { return impl_->signature.out_spec; }
Result<std::vector<Tensor>> Program::example_inputs() const {
  return guarded([&] { return load_example_inputs(impl_->loaded); });
}
bool is_supported(std::string_view overload) { return find_op(overload) != nullptr; }
std::vector<std::string> Program::unsupported() const { return missing_operators(impl_->loaded.graph); }

Result<Program> Program::transform(const std::function<std::string(const std::string&)>& pass) const {
  return guarded([&] { return Program(describe(tenon::transform(impl_->loaded, pass))); });
}

Result<std::string> Program::dump(std::string_view stage, const Options& options) const {
  return guarded([&] { return dump_stage(to_backends(impl_, options.backends)->loaded, stage, options); });
}

// Of one output; 1 where one is finite and the other is not, or both differ in infinity.
static double error_between(const Tensor& got, const Tensor& want) {
  Tensor a = got.contiguous(), b = want.contiguous();
  return dispatch(b.dtype(), [&]<class T>(T) -> double {
    double most = 0, largest = 0;
    if constexpr (!is_complex_v<T>)
      for (int64_t i = 0; i < b.numel(); i++) {
        double x = convert<double>(a.data_as<T>()[i]), y = convert<double>(b.data_as<T>()[i]);
        if (x == y || (std::isnan(x) && std::isnan(y))) x = y = std::isfinite(y) ? y : 0;
        if (!std::isfinite(x) || !std::isfinite(y)) return 1;
        most = std::max(most, std::abs(x - y)), largest = std::max(largest, std::abs(y));
      }
    return most > 0 ? most / std::max(largest, most) : 0;
  });
}

Result<double> Program::error_of(const Options& options, std::span<const TensorView> inputs) const {
  return guarded([&] {
    Options strict = options;
    strict.precision = Precision::Strict;
    strict.kernels.clear(), strict.backends.clear();
    std::vector<Tensor> got, want;
    compile(options).value().run(inputs, got).check();
    compile(strict).value().run(inputs, want).check();
    double error = 0;
    for (size_t i = 0; i < want.size(); i++)
      error = std::max(error, got.at(i).sizes() == want[i].sizes() ? error_between(got[i], want[i]) : 1.0);
    return error;
  });
}

Status Program::save(const std::string& path) const {
  auto done = guarded([&] {
    save_pt2(impl_->loaded, path);
    return true;
  });
  return done ? Status() : Status(done.error());
}

std::vector<NamedTensor> Executable::state() const {
  std::vector<NamedTensor> out;
  if (!guarded([&] { return impl_->finish(), true; })) return out;
  std::vector<Tensor> values = impl_->state();
  for (size_t i = 0; i < values.size(); i++) out.push_back({impl_->state_names()[i], values[i]});
  return out;
}

Status Executable::set_state(std::span<const NamedTensor> values) {
  auto done = guarded([&] {
    std::vector<NamedTensor> now = state();
    std::vector<size_t> places;
    for (auto& v : values) {
      auto at = std::find_if(now.begin(), now.end(), [&](auto& n) { return n.name == v.name; });
      require_input(at != now.end(), "the program has no state {}", v.name);
      require_input(at->tensor.dtype() == v.tensor.dtype() && at->tensor.sizes() == v.tensor.sizes(), "state {}: another dtype or size",
                    v.name);
      places.push_back(static_cast<size_t>(at - now.begin()));
    }
    for (size_t i = 0; i < values.size(); i++) impl_->set_state(places[i], values[i].tensor.view());
    return true;
  });
  return done ? Status() : Status(done.error());
}

void Executable::reset_state() {
  if (!guarded([&] { return impl_->finish(), true; })) return;
  for (size_t i = 0; i < impl_->state_names().size(); i++) impl_->set_state(i, impl_->initial_state(i).view());
}

Executable Executable::copy() const {
  auto made = std::make_shared<Impl>();
  if (!guarded([&] { return impl_->finish(), true; })) return *this; // calls of one give the error, as those of the other
  made->options = impl_->options, made->stats = impl_->stats, made->signature = impl_->signature;
  made->make_variant = impl_->make_variant;
  if (impl_->runner) start(*made, impl_->runner->copy());
  else made->interpreter = impl_->interpreter->copy();
  return Executable(made);
}

Status Executable::run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) const { return impl_->run(inputs, outputs); }

Status Executable::run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const {
  return impl_->run_into(inputs, outputs);
}

Result<BoundCall> Executable::bind(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const {
  return guarded([&] {
    impl_->finish();
    if (!impl_->runner) unsupported("the interpreter binds no calls");
    auto bound = std::make_shared<BoundCall::Impl>(BoundCall::Impl{.executable = impl_, .variant = {}, .call = {}});
    bound->choose_plan(inputs, outputs);
    if (!bound->call->status().ok()) throw bound->call->status().error();
    return BoundCall(std::move(bound));
  });
}

Status BoundCall::run() const { return impl_->run(); }

Status Executable::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) const {
  std::vector<TensorView> views;
  for (auto& t : inputs) views.push_back(t.view());
  return run(views, outputs);
}

const std::vector<ArgInfo>& Executable::inputs() const { return impl_->signature.inputs; }
const std::vector<ArgInfo>& Executable::outputs() const { return impl_->signature.outputs; }
const Tree& Executable::in_spec() const { return impl_->signature.in_spec; }
const Tree& Executable::out_spec() const { return impl_->signature.out_spec; }

ExecutableStats Executable::stats() const {
  if (!impl_->is_ready) return {.is_compiling = true};
  ExecutableStats s = impl_->stats;
  if (impl_->runner) s.arena_bytes = impl_->runner->arena_bytes();
  return s;
}

Result<MemoryFormula> Executable::memory_formula() const {
  return guarded([&] {
    impl_->finish();
    if (!impl_->runner) unsupported("the interpreter plans no memory");
    return tenon::memory_formula(impl_->runner->plan());
  });
}

Result<MemoryUse> Executable::memory(std::span<const TensorView> inputs) const {
  return guarded([&] {
    impl_->finish();
    if (!impl_->runner) unsupported("the interpreter plans no memory");
    const Plan& plan = impl_->runner->plan();
    std::shared_ptr<const BoundPlan> bound = impl_->runner->plan_for(inputs);
    MemoryUse use{.temporaries = bound->arena_bytes,
                  .alive = alive_bytes(plan, bound->slots),
                  .scratch = bound->scratch.bytes(impl_->runner->workers().threads())};
    for (size_t i = 0; i < plan.outputs.size(); i++)
      if (plan.outputs[i].returned_as >= 0) use.results += bound->results[i].bytes;
    return use;
  });
}

Status Executable::specialize(std::span<const TensorView> inputs) const {
  auto done = guarded([&] {
    impl_->finish();
    if (!impl_->variants) unsupported("the program's sizes do not vary, or it is interpreted, or comes from a file");
    impl_->variants->specialize(inputs);
    return true;
  });
  return done ? Status() : Status(done.error());
}

Status Executable::wait() const {
  auto done = guarded([&] {
    impl_->finish();
    if (impl_->variants) impl_->variants->wait();
    return true;
  });
  return done ? Status() : Status(done.error());
}

std::vector<VariantInfo> Executable::variants() const {
  if (!guarded([&] { return impl_->finish(), true; })) return {};
  if (!impl_->variants) return {VariantInfo{.guard = {}, .compile_ms = impl_->stats.compile_ms}};
  std::vector<VariantInfo> out;
  for (const Variants::Info& v : impl_->variants->infos())
    out.push_back({.guard = v.guard,
                   .calls = v.times.calls,
                   .mean_us = v.times.mean() / 1e3,
                   .generic_us = v.generic.per_work() * (v.times.timed ? v.times.work / static_cast<double>(v.times.timed) : 0) / 1e3,
                   .bytes = v.bytes,
                   .compile_ms = v.guard.empty() ? impl_->stats.compile_ms : v.compile_ms});
  return out;
}

uint64_t Executable::pieces_of_code() { return tenon::pieces_of_code; }

Result<Explanation> Executable::explanation() const {
  return guarded([&] {
    impl_->finish();
    Explanation e;
    if (impl_->runner) e = tenon::explain(*impl_->runner);
    else e.notes = {"everything runs in the interpreter"};
    e.stats = stats();
    std::vector<VariantInfo> all = variants();
    if (all.size() > 1) e.variants.assign(all.begin() + 1, all.end());
    return e;
  });
}

std::string Executable::explain() const {
  Result<Explanation> e = explanation();
  return e.ok() ? to_text(*e) : fmt::format("not compiled: {}\n", e.error().what());
}

} // namespace tenon
