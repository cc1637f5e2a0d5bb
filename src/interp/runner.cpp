#include "interp/runner.h"

#include <algorithm>
#include <cmath>

#include "base/strided.h"
#include "expr/eval.h"
#include "interp/interp.h"
#include "ir/builder.h"

namespace tenon {

namespace {

Tensor copy_of(const TensorView& v) {
  Tensor copy(v.dtype, {v.sizes.begin(), v.sizes.end()});
  copy_strided(v, copy.data());
  return copy;
}

} // namespace

InterpretedRunner::InterpretedRunner(LoadedProgram program, uint64_t seed, std::shared_ptr<const Collectives> collectives)
    : program_(std::move(program)), seed_(seed), collectives_(std::move(collectives)) {
  for (auto& out : program_.outputs)
    if (out.writes_state()) names_.push_back(out.target), state_.push_back(copy_of(program_.weights.at(out.target).view()));
}

Tensor& InterpretedRunner::state_of(const std::string& name) {
  auto at = std::find(names_.begin(), names_.end(), name);
  require(at != names_.end(), "{} is no state", name);
  return state_[static_cast<size_t>(at - names_.begin())];
}

// Numbers fixed at export are compared, and left out.
std::vector<TensorView> InterpretedRunner::without_fixed(std::span<const TensorView> given) {
  std::vector<TensorView> out;
  size_t next = 0;
  for (auto& in : program_.inputs) {
    Expr fixed = in.kind == InputKind::Fixed ? to_expr(program_.graph.pool(), in.fixed) : Expr();
    if (!fixed && (in.kind != InputKind::User || !in.value.valid())) continue;
    const TensorView& v = given[next++];
    if (!fixed) {
      out.push_back(v);
      continue;
    }
    require_input(v.sizes.empty() && v.data, "input {}: a number must be a 0-d tensor", in.name);
    double number = dispatch(v.dtype, [&]<class T>(T) { return convert<double>(*static_cast<const T*>(v.data)); });
    bool is_same = number == fixed->number() || (std::isnan(number) && std::isnan(fixed->number()));
    require_input(is_same, "input {}: the program was exported for the value {}, not {}", in.name, fixed->number(), number);
  }
  return out;
}

// The number of a tensor or free number among the program's own inputs.
size_t InterpretedRunner::number_of(const std::string& name) const {
  size_t i = 0;
  for (auto& in : program_.inputs) {
    if (!in.value.valid() || in.kind != InputKind::User) continue;
    if (in.name == name) return i;
    i++;
  }
  internal_error("{} is changed and is not an input", name);
}

std::vector<Tensor> InterpretedRunner::run(std::span<const TensorView> given) {
  std::scoped_lock lock(mutex_);
  if (!collectives_) return run_in_turn(given);
  auto turn = collectives_->turn();
  try {
    return run_in_turn(given);
  } catch (const std::exception& e) { // others must not wait for this rank
    collectives_->abort(e.what());
    throw;
  }
}

std::vector<Tensor> InterpretedRunner::run_in_turn(std::span<const TensorView> given) {
  auto is_given = [&](const ProgramInput& in) {
    return in.kind == InputKind::Fixed ? static_cast<bool>(to_expr(program_.graph.pool(), in.fixed))
                                       : in.kind == InputKind::User && in.value.valid();
  };
  auto wanted = static_cast<size_t>(std::count_if(program_.inputs.begin(), program_.inputs.end(), is_given));
  require_input(given.size() == wanted, "{} inputs are given, the program takes {}", given.size(), wanted);
  std::vector<TensorView> users = without_fixed(given);
  SymbolValues symbols = bind_symbols(program_, users);
  std::vector<Tensor> params;
  size_t next = 0;
  for (auto& in : program_.inputs)
    if (in.value.valid()) params.push_back(in.kind == InputKind::User ? copy_of(users[next++]) : state_of(in.target));
  std::vector<Tensor> results = interpret(program_.graph, params, symbols, seed_, collectives_.get()), outputs;
  for (size_t i = 0; i < results.size(); i++) {
    const ProgramOutput& out = program_.outputs[i];
    if (out.writes_state()) state_of(out.target) = results[i].contiguous();
    else if (out.kind == OutputKind::InputMutation) copy_to_strided(results[i].contiguous().data(), users[number_of(out.target)]);
    else if (out.is_returned() && results[i].defined()) outputs.push_back(out_of_order(results[i].contiguous(), out.order));
  }
  return outputs;
}

std::vector<Tensor> InterpretedRunner::state() {
  std::scoped_lock lock(mutex_);
  return state_;
}

void InterpretedRunner::set_state(size_t i, const TensorView& value) {
  Tensor copy = copy_of(value);
  std::scoped_lock lock(mutex_);
  state_[i] = copy;
}

std::unique_ptr<InterpretedRunner> InterpretedRunner::copy() {
  std::scoped_lock lock(mutex_);
  auto made = std::make_unique<InterpretedRunner>(program_, seed_, collectives_);
  made->state_ = state_;
  return made;
}

} // namespace tenon
