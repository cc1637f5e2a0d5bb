// PlanRunner: a call's inputs against the plan. Sizes that the frame is bound to already are only compared; others are checked,
// with a message that names what does not fit, and bound.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/strided.h"
#include "expr/eval.h"
#include "runtime/executable.h"

namespace tenon {

namespace {

double number_of(const TensorView& v) {
  return dispatch(v.dtype, [&]<class T>(T) { return convert<double>(*static_cast<const T*>(v.data)); });
}
int64_t whole_of(const TensorView& v) {
  return dispatch(v.dtype, [&]<class T>(T) { return convert<int64_t>(*static_cast<const T*>(v.data)); });
}
// What a number is bound to: the bits of a double, or an integer.
int64_t bits_of(const InputSpec& s, const TensorView& v) {
  return s.is_fixed || s.dtype == DType::F64 ? std::bit_cast<int64_t>(number_of(v)) : whole_of(v);
}

bool lacks_data(const TensorView& v) { return !v.data && std::find(v.sizes.begin(), v.sizes.end(), 0) == v.sizes.end(); }

} // namespace

// What a number adds to the key of a bound plan.
int64_t PlanRunner::key_of(size_t i, const TensorView& v) const { return table_.is_free[i] ? 0 : bits_of(plan_->inputs[i], v); }

// Whether the inputs are of the kinds and sizes that the frame is bound to.
bool PlanRunner::matches(const Frame& f, std::span<const TensorView> inputs) const {
  if (!f.bound || inputs.size() != plan_->inputs.size()) return false;
  const int64_t* key = f.bound->key.data();
  for (size_t i = 0; i < inputs.size(); i++) {
    const InputSpec& s = plan_->inputs[i];
    const TensorView& v = inputs[i];
    if (s.is_number || s.is_fixed) {
      if (!v.sizes.empty() || !v.data || key_of(i, v) != *key++) return false;
      continue;
    }
    if (v.dtype != s.dtype || v.sizes.size() != s.dims.size() || (!v.strides.empty() && v.strides.size() != v.sizes.size())) return false;
    for (int64_t size : v.sizes)
      if (size != *key++) return false;
    if (!v.data && lacks_data(v)) return false;
  }
  return true;
}

bool PlanRunner::bind_input(Frame& f, const InputSpec& s, const TensorView& v, bool check_equal) {
  auto fail = [&](std::string message) { return f.message = "input " + s.name + ": " + message, false; };
  if (s.is_number || s.is_fixed) {
    if (check_equal) return true;
    if (!v.sizes.empty()) return fail("a number must be a 0-d tensor");
    if (!v.data) return fail("data is null");
    double number = number_of(v);
    if (s.is_fixed)
      return number == s.fixed || (std::isnan(number) && std::isnan(s.fixed)) ||
             fail(fmt::format("the program was exported for the value {}, not {}", s.fixed, number));
    if (s.number_slot >= 0) f.slots[static_cast<size_t>(s.number_slot)] = bits_of(s, v);
    return true;
  }
  if (!check_equal) {
    if (v.dtype != s.dtype) return fail(fmt::format("dtype is {}, the program takes {}", name_of(v.dtype), name_of(s.dtype)));
    if (v.sizes.size() != s.dims.size()) return fail(fmt::format("rank is {}, the program takes {}", v.sizes.size(), s.dims.size()));
    if (!v.strides.empty() && v.strides.size() != v.sizes.size()) return fail("sizes and strides differ in number");
    if (lacks_data(v)) return fail("data is null");
  }
  for (size_t d = 0; d < s.dims.size(); d++) {
    const InputDim& dim = s.dims[d];
    int64_t size = v.sizes[d];
    if (dim.kind == InputDim::Kind::Bind && !check_equal) {
      if (size < dim.lo || size > dim.hi)
        return fail(
            fmt::format("size {} of dim {} ({}) is outside its range {}", size, d, dim.text, text_of(SizeRange{dim.text, dim.lo, dim.hi})));
      f.slots[static_cast<size_t>(dim.slot)] = size;
    }
    int64_t want = f.slots[static_cast<size_t>(dim.equal >= 0 ? dim.equal : dim.slot)];
    if (check_equal && size != want)
      return fail(
          fmt::format("size {} of dim {} must be {}{}", size, d, want, dim.text == std::to_string(want) ? "" : " (" + dim.text + ")"));
  }
  return true;
}

// Fills the slots; the sizes of different inputs must agree.
bool PlanRunner::check_inputs(Frame& f, std::span<const TensorView> inputs) {
  if (inputs.size() != plan_->inputs.size())
    return f.message = fmt::format("{} inputs are given, the program takes {}", inputs.size(), plan_->inputs.size()), false;
  for (size_t i = 0; i < inputs.size(); i++)
    if (!bind_input(f, plan_->inputs[i], inputs[i], false)) return false;
  if (auto* r = run_stage(plan_->sizes, 0, f.slots.data()))
    return f.message = outside_message(r->range, f.slots[static_cast<size_t>(r->slot)]), false;
  for (size_t i = 0; i < inputs.size(); i++)
    if (!bind_input(f, plan_->inputs[i], inputs[i], true)) return false;
  return true;
}

// The bound plan of these inputs, found or made; null: frame.message says why there is none.
std::shared_ptr<const BoundPlan> PlanRunner::bound_for(Frame& f, std::span<const TensorView> inputs) {
  f.bound.reset(); // the slots are about to change
  if (!check_inputs(f, inputs)) return nullptr;
  std::vector<int64_t> key;
  for (size_t i = 0; i < inputs.size(); i++) {
    const InputSpec& s = plan_->inputs[i];
    if (s.is_number || s.is_fixed) key.push_back(key_of(i, inputs[i]));
    else key.insert(key.end(), inputs[i].sizes.begin(), inputs[i].sizes.end());
  }
  std::shared_ptr<const BoundPlan> bound = bound_.find(key);
  if (!bound && (bound = bind_plan(f, std::move(key)))) bound_.add(bound);
  return bound;
}

std::shared_ptr<const BoundPlan> PlanRunner::plan_for(std::span<const TensorView> inputs) {
  std::vector<TensorView> sized(inputs.begin(), inputs.end());
  char anything;
  for (size_t i = 0; i < std::min(sized.size(), plan_->inputs.size()); i++)
    if (!plan_->inputs[i].is_number && !plan_->inputs[i].is_fixed) sized[i].data = &anything;
  std::unique_ptr<Frame, std::function<void(Frame*)>> f(take_frame(), [&](Frame* frame) { give_back(frame); });
  auto bound = bound_for(*f, sized);
  if (!bound) throw Error(ErrorKind::BadInput, std::exchange(f->message, {}));
  return bound;
}

// A bound plan serves calls with any values of these.
bool PlanRunner::bind_free_numbers(Frame& f, std::span<const TensorView> inputs) {
  bool changed = false;
  for (size_t i : free_numbers_) {
    const InputSpec& s = plan_->inputs[i];
    int64_t bits = bits_of(s, inputs[i]), &slot = f.slots[static_cast<size_t>(s.number_slot)];
    changed |= bits != std::exchange(slot, bits);
  }
  if (!changed) return true;
  auto* r = run_stage(plan_->sizes, 0, f.slots.data());
  if (!r) return true;
  f.message = outside_message(r->range, f.slots[static_cast<size_t>(r->slot)]);
  f.bound.reset();
  return false;
}

bool PlanRunner::bind(Frame& f, std::span<const TensorView> inputs) {
  if (!matches(f, inputs)) {
    std::shared_ptr<const BoundPlan> bound = bound_for(f, inputs);
    if (!bound) return false;
    enter(f, std::move(bound));
  }
  if (!bind_free_numbers(f, inputs)) return false;
  const BoundPlan& b = *f.bound;
  CallMemory& m = *f.memory;
  m.arena.begin_call(), m.scratch.begin_call();
  if (!m.arena.reserve(std::max<size_t>(b.arena_bytes, 1)) || !f.reserve_scratch(b.scratch))
    return f.message = fmt::format("out of memory: {} bytes of temporaries", b.arena_bytes + b.scratch.bytes(workers().threads())), false;
  if (f.placed_at != m.arena.data()) point_at_arena(f);
  return point_at_inputs(f, inputs);
}

bool PlanRunner::point_at_inputs(Frame& f, std::span<const TensorView> inputs) {
  for (size_t i = 0; i < inputs.size(); i++) {
    const InputSpec& s = plan_->inputs[i];
    if (s.buffer < 0) continue;
    const TensorView& v = inputs[i];
    void* data = v.data;
    if (!v.strides.empty() && !is_contiguous_layout(v.sizes, v.strides)) { // staged
      size_t bytes = size_of(v.dtype);
      for (int64_t n : v.sizes) bytes *= static_cast<size_t>(n);
      auto block = session_->blocks.take(bytes);
      if (!block) return f.message = "out of memory", false;
      copy_strided(v, block.get());
      data = block.get();
      f.held.push_back(std::move(block));
    }
    f.pointers[static_cast<size_t>(s.buffer)] = data;
  }
  return true;
}

} // namespace tenon
