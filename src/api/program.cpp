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
#include "interp/interp.h"
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
    impl->program = impl_->loaded;
    lower(impl->program, options.interpret ? "edge" : "backend", options.precision);
    if (!options.interpret) {
      auto lowered = std::make_shared<LoadedProgram>(std::move(impl->program));
      impl->program.weights.clear();
      auto compiled = std::make_shared<Compiled>(build_plan(lowered, impl_->loaded.inputs, options, false, std::move(packed)));
      const Plan& plan = compiled->plan;
      for (size_t i = 0; i < plan.state_names.size(); i++) impl->program.weights[plan.state_names[i]] = plan.initial_state[i];
      impl->stats.kernels_compiled = static_cast<int>(compiled->kernels.size());
      impl->stats.steps = plan.num_steps;
      impl->stats.fallback_steps = plan.fallback_steps;
      for (const Tensor& t : plan.initial_state) impl->stats.state_bytes += static_cast<size_t>(t.numel()) * size_of(t.dtype());
      impl->runner = std::make_unique<PlanRunner>(std::move(compiled->plan), options.threads, options.profile);
      impl->compiled = std::move(compiled);
      impl->stats.compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      return Executable(impl);
    }
    impl->inputs = impl_->inputs;
    for (auto& in : impl_->loaded.inputs) {
      bool fixed = in.kind == InputKind::Fixed && info_of_fixed("", in.fixed);
      if (in.kind != InputKind::User && !fixed) continue;
      impl->is_fixed.push_back(fixed);
      impl->fixed.push_back(!fixed ? 0 : to_expr(impl->program.graph.pool(), in.fixed)->number());
    }
    for (auto& out : impl->program.outputs)
      if (out.kind == OutputKind::BufferMutation) {
        const Tensor& w = impl_->loaded.weights.at(out.target);
        Tensor copy(w.dtype(), w.sizes());
        copy_strided(w.view(), copy.data());
        impl->state[out.target] = copy;
        impl->stats.state_bytes += static_cast<size_t>(copy.numel()) * size_of(copy.dtype());
      }
    impl->stats.compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return Executable(impl);
  });
}

std::vector<TensorView> Executable::Impl::user_inputs(std::span<const TensorView> given) const {
  require_input(given.size() == is_fixed.size(), "{} inputs are given, the program takes {}", given.size(), is_fixed.size());
  std::vector<TensorView> out;
  for (size_t i = 0; i < given.size(); i++) {
    if (!is_fixed[i]) {
      out.push_back(given[i]);
      continue;
    }
    require_input(given[i].sizes.empty(), "input {}: a number must be a 0-d tensor", inputs[i].name);
    double v = dispatch(given[i].dtype, [&]<class T>(T) { return convert<double>(*static_cast<const T*>(given[i].data)); });
    require_input(v == fixed[i], "input {}: the program was exported for the value {}, not {}", inputs[i].name, fixed[i], v);
  }
  return out;
}

// The number of a tensor or free number among the program's own inputs.
size_t Executable::Impl::user_number(const std::string& name) const {
  size_t i = 0;
  for (auto& in : program.inputs) {
    if (!in.value.valid() || in.kind != InputKind::User) continue;
    if (in.name == name) return i;
    i++;
  }
  internal_error("{} is changed and is not an input", name);
}

std::vector<NamedTensor> Executable::Impl::buffers() {
  std::vector<NamedTensor> out;
  if (runner) {
    std::vector<Tensor> values = runner->state();
    for (size_t i = 0; i < values.size(); i++) out.push_back({runner->plan().state_names[i], values[i]});
    return out;
  }
  std::scoped_lock lock(state_mutex);
  for (auto& [name, t] : state) out.push_back({name, t}); // replaced by a run, never written
  return out;
}

void Executable::Impl::set_buffer(const std::string& name, const Tensor& value) {
  if (runner) {
    auto& names = runner->plan().state_names;
    return runner->set_state(static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin()), value.view());
  }
  Tensor copy(value.dtype(), value.sizes());
  copy_strided(value.view(), copy.data());
  std::scoped_lock lock(state_mutex);
  state[name] = copy;
}

std::vector<NamedTensor> Executable::state() const { return impl_->buffers(); }

Status Executable::set_state(std::span<const NamedTensor> values) {
  auto done = guarded([&] {
    std::vector<NamedTensor> now = impl_->buffers();
    for (auto& v : values) {
      auto at = std::find_if(now.begin(), now.end(), [&](auto& n) { return n.name == v.name; });
      require_input(at != now.end(), "the program has no state {}", v.name);
      require_input(at->tensor.dtype() == v.tensor.dtype() && at->tensor.sizes() == v.tensor.sizes(), "state {}: another dtype or size",
                    v.name);
    }
    for (auto& v : values) impl_->set_buffer(v.name, v.tensor);
    return true;
  });
  return done ? Status() : Status(done.error());
}

void Executable::reset_state() {
  for (auto& v : impl_->buffers()) impl_->set_buffer(v.name, impl_->initial(v.name));
}

Executable Executable::copy() const {
  auto made = std::make_shared<Impl>();
  const Impl& from = *impl_;
  made->options = from.options, made->program = from.program, made->inputs = from.inputs, made->is_fixed = from.is_fixed,
  made->fixed = from.fixed;
  made->stats = from.stats, made->compiled = from.compiled;
  if (from.runner) made->runner = from.runner->copy();
  else
    for (auto& v : impl_->buffers()) made->state[v.name] = v.tensor;
  return Executable(made);
}

Status Executable::Impl::run(std::span<const TensorView> given, std::vector<Tensor>& outputs) {
  std::vector<TensorView> users = user_inputs(given);
  SymbolValues symbols = bind_symbols(program, users);
  std::scoped_lock lock(state_mutex);
  std::vector<Tensor> params;
  size_t next = 0;
  for (auto& in : program.inputs) {
    if (!in.value.valid()) continue;
    if (in.kind != InputKind::User) {
      params.push_back(state.at(in.target));
      continue;
    }
    const TensorView& v = users[next++];
    Tensor copy(v.dtype, {v.sizes.begin(), v.sizes.end()});
    copy_strided(v, copy.data());
    params.push_back(copy);
  }
  std::vector<Tensor> results = interpret(program.graph, params, symbols, options.seed);
  outputs.clear();
  for (size_t i = 0; i < results.size(); i++) {
    if (program.outputs[i].kind == OutputKind::BufferMutation) state[program.outputs[i].target] = results[i].contiguous();
    else if (program.outputs[i].kind == OutputKind::InputMutation)
      copy_to_strided(results[i].contiguous().data(), users[user_number(program.outputs[i].target)]);
    else if (program.outputs[i].kind == OutputKind::User && results[i].defined()) outputs.push_back(results[i].contiguous());
  }
  return {};
}

Status Executable::run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) const {
  if (impl_->runner) return impl_->runner->run(inputs, outputs);
  try {
    return impl_->run(inputs, outputs);
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::BadInput, "out of memory");
  } catch (const std::exception& e) {
    return Error(ErrorKind::Internal, e.what());
  }
}

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
