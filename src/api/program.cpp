// Program and Executable: the public handles. The only place that catches exceptions.
#include <algorithm>
#include <chrono>

#include "api/impl.h"
#include "base/strided.h"
#include "codegen/code_count.h"
#include "compile/compile.h"
#include "compile/explain.h"
#include "compile/pack_weights.h"
#include "compile/transform.h"
#include "expr/eval.h"
#include "ir/pass.h"
#include "load/load.h"

namespace tenon {

namespace {

/// Calls f; an exception becomes an Error.
template <class F> auto guarded(F f) -> Result<decltype(f())> {
  try {
    return f();
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::BadInput, "out of memory");
  } catch (const std::exception& e) {
    return Error(ErrorKind::Internal, e.what());
  }
}

ArgInfo info_of(const std::string& name, const Type& t) {
  ArgInfo info{.name = name};
  if (t.is_tensor()) {
    info.dtype = t.dtype;
    for (Expr s : t.sizes) info.sizes.push_back(to_string(s));
  } else {
    info.is_number = true;
    info.dtype = t.kind == TypeKind::Float ? DType::F64 : t.kind == TypeKind::Bool ? DType::Bool : DType::I64;
  }
  return info;
}

std::optional<ArgInfo> info_of_fixed(const std::string& name, const Arg& a) {
  if (a.is<bool>()) return ArgInfo{.name = name, .dtype = DType::Bool, .is_number = true};
  if (a.is<int64_t>()) return ArgInfo{.name = name, .dtype = DType::I64, .is_number = true};
  if (a.is<double>()) return ArgInfo{.name = name, .dtype = DType::F64, .is_number = true};
  return std::nullopt;
}

std::shared_ptr<const Program::Impl> describe(LoadedProgram loaded) {
  auto impl = std::make_shared<Program::Impl>(Program::Impl{std::move(loaded), {}, {}});
  const LoadedProgram& p = impl->loaded;
  for (auto& in : p.inputs) {
    if (in.kind == InputKind::User) impl->inputs.push_back(info_of(in.name, p.graph.type(in.value)));
    else if (in.kind == InputKind::Fixed)
      if (auto info = info_of_fixed(in.name, in.fixed)) impl->inputs.push_back(*info);
  }
  auto& returns = p.graph.block(p.graph.top()).returns;
  for (size_t i = 0; i < returns.size(); i++) {
    if (p.outputs[i].kind != OutputKind::User) continue;
    std::string name = fmt::format("out{}", impl->outputs.size());
    if (returns[i].is<ValueId>()) impl->outputs.push_back(info_of(name, p.graph.type(returns[i].get<ValueId>())));
    else if (returns[i].is<Expr>())
      impl->outputs.push_back(
          {.name = name, .dtype = is_float(returns[i].get<Expr>()->type) ? DType::F64 : returns[i].get<Expr>()->type, .is_number = true});
    else if (auto info = info_of_fixed(name, returns[i])) impl->outputs.push_back(*info);
  }
  p.graph.pool().freeze();
  return impl;
}

} // namespace

Result<Program> Program::load(const std::string& path) {
  return guarded([&] { return Program(describe(load_pt2(path))); });
}
Result<Program> Program::load(std::span<const std::byte> bytes, std::string name) {
  return guarded([&] { return Program(describe(load_pt2(bytes, name))); });
}
const std::vector<ArgInfo>& Program::inputs() const { return impl_->inputs; }
const std::vector<ArgInfo>& Program::outputs() const { return impl_->outputs; }
Result<std::vector<Tensor>> Program::example_inputs() const {
  return guarded([&] { return load_example_inputs(impl_->loaded); });
}
std::vector<std::string> Program::unsupported() const { return missing_operators(impl_->loaded.graph); }

Result<Program> Program::transform(const std::function<std::string(const std::string&)>& pass) const {
  return guarded([&] { return Program(describe(tenon::transform(impl_->loaded, pass))); });
}

Result<std::string> Program::dump(std::string_view stage, const Options& options) const {
  return guarded([&] { return dump_stage(impl_->loaded, stage, options); });
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
    std::vector<Tensor> got, want;
    compile(options).value().run(inputs, got).check();
    compile(strict).value().run(inputs, want).check();
    double error = 0;
    for (size_t i = 0; i < want.size(); i++)
      error = std::max(error, got.at(i).sizes() == want[i].sizes() ? error_between(got[i], want[i]) : 1.0);
    return error;
  });
}

Result<Executable> Program::compile(const Options& options) const {
  return guarded([&] {
    auto start = std::chrono::steady_clock::now();
    auto impl = std::make_shared<Executable::Impl>();
    impl->options = options;
    LargeMemory packed = options.interpret ? LargeMemory() : expect_packed_weights(impl_->loaded, options.threads);
    LoadedProgram program = impl_->loaded;
    lower(program, options.interpret ? "edge" : "backend", options.precision);
    if (options.interpret) impl->interpreter = std::make_unique<InterpretedRunner>(std::move(program), options.seed);
    else {
      auto compiled = std::make_shared<const Compiled>(build_plan(std::move(program), options, false, std::move(packed)));
      impl->stats.kernels_compiled = static_cast<int>(compiled->kernels.size());
      impl->stats.steps = compiled->plan->num_steps;
      impl->stats.fallback_steps = compiled->plan->fallback_steps;
      impl->runner = std::make_unique<PlanRunner>(compiled->plan, options.threads, options.profile);
      impl->compiled = std::move(compiled);
    }
    for (const Tensor& t : impl->state()) impl->stats.state_bytes += static_cast<size_t>(t.numel()) * size_of(t.dtype());
    impl->stats.compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return Executable(impl);
  });
}

std::vector<NamedTensor> Executable::state() const {
  std::vector<NamedTensor> out;
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
  for (size_t i = 0; i < impl_->state_names().size(); i++) impl_->set_state(i, impl_->initial_state(i).view());
}

Executable Executable::copy() const {
  auto made = std::make_shared<Impl>();
  made->options = impl_->options, made->stats = impl_->stats, made->compiled = impl_->compiled;
  if (impl_->runner) made->runner = impl_->runner->copy();
  else made->interpreter = impl_->interpreter->copy();
  return Executable(made);
}

Status Executable::run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) const {
  if (impl_->runner) return impl_->runner->run(inputs, outputs);
  auto results = guarded([&] { return impl_->interpreter->run(inputs); });
  if (!results) return results.error();
  outputs = std::move(results.value());
  return {};
}

// What the interpreter made, in memory of the caller.
static void copy_results(const std::vector<Tensor>& results, std::span<const TensorView> outputs) {
  require_input(outputs.size() == results.size(), "{} outputs are given, the program has {}", outputs.size(), results.size());
  for (size_t i = 0; i < results.size(); i++) {
    const TensorView &to = outputs[i], from = results[i].view();
    std::string why = output_refusal(static_cast<int>(i), to, from.dtype, from.sizes);
    require_input(why.empty(), "{}", why);
    copy_to_strided(from.data, to);
  }
}

Status Executable::run(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const {
  if (impl_->runner) return impl_->runner->run_into(inputs, outputs);
  auto done = guarded([&] { return copy_results(impl_->interpreter->run(inputs), outputs), true; });
  return done ? Status() : Status(done.error());
}

Result<BoundCall> Executable::bind(std::span<const TensorView> inputs, std::span<const TensorView> outputs) const {
  return guarded([&] {
    if (!impl_->runner) unsupported("the interpreter binds no calls");
    auto call = std::make_unique<PlanRunner::Call>(*impl_->runner, inputs, outputs);
    if (!call->status().ok()) throw call->status().error();
    return BoundCall(std::make_shared<BoundCall::Impl>(BoundCall::Impl{impl_, std::move(call)}));
  });
}

Status BoundCall::run() const { return impl_->call->run(); }

Status Executable::run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) const {
  std::vector<TensorView> views;
  for (auto& t : inputs) views.push_back(t.view());
  return run(views, outputs);
}

ExecutableStats Executable::stats() const {
  ExecutableStats s = impl_->stats;
  if (impl_->runner) s.arena_bytes = impl_->runner->arena_bytes();
  return s;
}
uint64_t Executable::pieces_of_code() { return tenon::pieces_of_code; }
std::string Executable::explain() const {
  if (!impl_->runner) return "everything runs in the interpreter\n";
  Profile profile = impl_->runner->profile();
  Limits limits;
  if (!profile.empty())
    limits = measure_limits(impl_->compiled->micro_kernels->table(), Workers(impl_->options.threads), families_of(profile));
  return tenon::explain(impl_->runner->plan(), impl_->compiled->kernels, profile, limits);
}

} // namespace tenon
