// PlanRunner: binds inputs, runs the steps, hands over the results. Sizes are checked and bound in bind_inputs.cpp.
#include "runtime/executable.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "base/strided.h"

namespace tenon {

namespace {

Error bad(std::string message) { return Error(ErrorKind::BadInput, message); }
Error failure(const std::exception& e) { return bad(dynamic_cast<const std::bad_alloc*>(&e) ? "out of memory" : e.what()); }

size_t bytes_of(const TensorView& v) {
  size_t bytes = size_of(v.dtype);
  for (int64_t n : v.sizes) bytes *= static_cast<size_t>(n);
  return bytes;
}

// The first byte of memory that strided elements lie in, and the one behind the last.
std::pair<uintptr_t, uintptr_t> range_of(const TensorView& v) {
  auto low = reinterpret_cast<uintptr_t>(v.data), high = low + size_of(v.dtype);
  if (v.strides.empty()) return {low, low + bytes_of(v)};
  for (size_t d = 0; d < v.sizes.size(); d++) {
    if (v.sizes[d] == 0) return {low, low};
    int64_t far = (v.sizes[d] - 1) * v.strides[d] * static_cast<int64_t>(size_of(v.dtype));
    (far < 0 ? low : high) += static_cast<uintptr_t>(far);
  }
  return {low, high};
}

bool overlap(const TensorView& a, const TensorView& b) {
  auto [a0, a1] = range_of(a);
  auto [b0, b1] = range_of(b);
  return a0 < b1 && b0 < a1;
}

std::vector<Tensor> copies_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) {
    out.emplace_back(t.dtype(), t.sizes());
    copy_strided(t.view(), out.back().data());
  }
  return out;
}

} // namespace

Session::Session(const Workers& w, const std::vector<Tensor>& initial, std::shared_ptr<const Collectives> c)
    : workers(w), collectives(std::move(c)), state(copies_of(initial)) {}

PlanRunner::PlanRunner(std::shared_ptr<const LinkedPlan> plan, const Workers& workers, bool profile,
                       std::shared_ptr<const Collectives> collectives)
    : PlanRunner(plan, std::make_shared<Session>(workers, plan->plan.initial_state, std::move(collectives)), profile) {}

PlanRunner::PlanRunner(std::shared_ptr<const LinkedPlan> plan, std::shared_ptr<Session> session, bool profile)
    : linked_(std::move(plan)), plan_(&linked_->plan), session_(std::move(session)), table_(*plan_), is_profiled_(profile) {
  for (size_t i = 0; i < plan_->buffers.size(); i++) {
    if (plan_->buffers[i].place == BufferPlace::Arena) arena_buffers_.push_back(i);
    if (plan_->buffers[i].place == BufferPlace::Part) parts_.push_back(i);
  }
  for (size_t i = 0; i < plan_->inputs.size(); i++)
    if (table_.is_free[i] && plan_->inputs[i].number_slot >= 0) free_numbers_.push_back(i);
  for (const OutputSpec& o : plan_->outputs) num_results_ += o.returned_as >= 0;
}

PlanRunner::~PlanRunner() = default;

// ---- state

std::unique_ptr<PlanRunner> PlanRunner::copy() {
  auto made = std::make_unique<PlanRunner>(linked_, session_->workers, is_profiled_, session_->collectives);
  std::vector<Tensor> now = state();
  for (size_t i = 0; i < now.size(); i++) made->set_state(i, now[i].view());
  return made;
}

std::vector<Tensor> PlanRunner::state() {
  std::scoped_lock lock(session_->state_mutex);
  return copies_of(session_->state);
}

void PlanRunner::set_state(size_t i, const TensorView& value) {
  std::scoped_lock lock(session_->state_mutex);
  copy_strided(value, session_->state[i].data());
}

Profile PlanRunner::profile() {
  std::scoped_lock lock(profile_mutex_);
  return profile_;
}

std::vector<int64_t> PlanRunner::profiled_slots() {
  std::scoped_lock lock(profile_mutex_);
  return profiled_slots_;
}

// ---- frames

std::unique_ptr<Frame> PlanRunner::make_frame() {
  auto f = std::make_unique<Frame>();
  f->linked = linked_.get();
  f->plan = plan_;
  f->workers = &session_->workers;
  f->pool = &session_->blocks;
  f->table = &table_;
  f->slots = plan_->sizes.initial;
  f->pointers.assign(plan_->buffers.size(), nullptr);
  for (size_t i = 0; i < plan_->buffers.size(); i++) {
    const PlanBuffer& b = plan_->buffers[i];
    if (b.place == BufferPlace::Constant) f->pointers[i] = plan_->constants[static_cast<size_t>(b.index)].data();
    if (b.place == BufferPlace::State) f->pointers[i] = session_->state[static_cast<size_t>(b.index)].data();
  }
  f->collectives = session_->collectives.get();
  f->requests.resize(static_cast<size_t>(plan_->num_requests));
  f->profiled = f->observed = is_profiled_;
  if (is_profiled_) f->profile.resize(static_cast<size_t>(plan_->num_steps));
  return f;
}

Frame* PlanRunner::take_frame() {
  Frame* f = frames_.take([&] { return make_frame(); });
  try {
    f->memory = session_->memory.take([] { return std::make_unique<CallMemory>(); });
  } catch (...) {
    frames_.give_back(f);
    throw;
  }
  return f;
}

void PlanRunner::give_back(Frame* f) {
  f->held.clear();
  if (is_profiled_) {
    std::scoped_lock lock(profile_mutex_);
    if (add(profile_, f->profile)) profiled_slots_ = f->slots;
    f->profile.assign(f->profile.size(), {});
  }
  if (f->memory) session_->memory.give_back(std::exchange(f->memory, nullptr));
  frames_.give_back(f);
}

void PlanRunner::enter(Frame& f, std::shared_ptr<const BoundPlan> bound) {
  const BoundPlan& b = *bound;
  f.slots = b.slots;
  f.matmuls = b.matmuls, f.convs = b.convs;
  f.scratch_per_worker = b.scratch.per_worker;
  f.placed_at = nullptr;
  arena_bytes_.store(b.arena_bytes, std::memory_order_relaxed);
  f.bound = std::move(bound);
}

void PlanRunner::point_at_arena(Frame& f) {
  f.placed_at = f.memory->arena.data();
  for (size_t i : arena_buffers_) f.pointers[i] = f.memory->arena.data() + f.bound->offsets[i];
}

// ---- results

std::string output_refusal(int number, const TensorView& given, DType dtype, std::span<const int64_t> sizes) {
  auto refuse = [&]<class... A>(fmt::format_string<A...> text, A&&... a) {
    return fmt::format("output {}: {}", number, fmt::format(text, std::forward<A>(a)...));
  };
  if (given.dtype != dtype) return refuse("dtype is {}, the result's {}", name_of(given.dtype), name_of(dtype));
  if (!std::equal(given.sizes.begin(), given.sizes.end(), sizes.begin(), sizes.end()))
    return refuse("sizes are [{}], the result's [{}]", fmt::join(given.sizes, ", "), fmt::join(sizes, ", "));
  if (!given.strides.empty() && given.strides.size() != given.sizes.size()) return refuse("sizes and strides differ in number");
  if (!given.data && bytes_of(given) > 0) return refuse("data is null");
  return {};
}

// Memory for a result in `t`, which may be a tensor of an earlier call: that is written again if the caller alone holds it, and no
// input lies in it. One that an input lies in lives until the call is done.
bool PlanRunner::place_tensor(Frame& f, std::span<const TensorView> inputs, DType dtype, const BoundPlan::Result& r, Tensor& t) {
  bool is_read = t.defined() && std::any_of(inputs.begin(), inputs.end(), [&](const TensorView& v) { return overlap(t.view(), v); });
  if (t.defined() && !is_read && t.storage().use_count() == 1 && t.dtype() == dtype && t.sizes() == r.sizes &&
      is_layout(r.sizes, t.strides(), r.strides))
    return true;
  if (is_read) f.held.push_back(std::make_shared<Tensor>(std::move(t))); // with the sizes that the input's view points at
  t = Tensor();                                                          // its memory may be taken
  auto block = session_->blocks.take(r.bytes);
  if (!block) return f.message = "out of memory", false;
  void* data = block.get();
  t = Tensor(dtype, r.sizes, r.strides, std::move(block), data);
  return true;
}

bool PlanRunner::place_view(Frame& f, std::span<const TensorView> inputs, Results& results, size_t k) {
  const OutputSpec& o = plan_->outputs[k];
  const BoundPlan::Result& r = f.bound->results[k];
  const TensorView& v = results.views[static_cast<size_t>(o.returned_as)];
  bool in_place = plan_->buffers[static_cast<size_t>(o.buffer)].place == BufferPlace::Output;
  f.message = output_refusal(o.returned_as, v, o.dtype, in_place ? std::span<const int64_t>(r.sizes) : v.sizes);
  if (!f.message.empty()) return false;
  if (!in_place) return true;
  bool direct = v.strides.empty() ? o.order.empty() : is_layout(v.sizes, v.strides, r.strides);
  for (const TensorView& in : inputs) direct = direct && !overlap(v, in);
  for (const TensorView& other : results.views) direct = direct && (&other == &v || !overlap(v, other));
  if (direct) return f.pointers[static_cast<size_t>(o.buffer)] = v.data, true;
  f.held.push_back(session_->blocks.take(r.bytes));
  return (f.pointers[static_cast<size_t>(o.buffer)] = f.held.back().get()) || (f.message = "out of memory", false);
}

bool PlanRunner::place_results(Frame& f, std::span<const TensorView> inputs, Results& results) {
  if (!results.tensors && results.views.size() != num_results_)
    return f.message = fmt::format("{} outputs are given, the program has {}", results.views.size(), num_results_), false;
  if (results.tensors) {
    for (size_t i = num_results_; i < results.tensors->size(); i++)
      f.held.push_back(std::make_shared<Tensor>(std::move((*results.tensors)[i])));
    results.tensors->resize(num_results_);
  }
  for (size_t k = 0; k < plan_->outputs.size(); k++) {
    const OutputSpec& o = plan_->outputs[k];
    if (o.returned_as < 0) continue;
    if (!results.tensors) {
      if (!place_view(f, inputs, results, k)) return false;
      continue;
    }
    if (plan_->buffers[static_cast<size_t>(o.buffer)].place != BufferPlace::Output) continue;
    Tensor& t = (*results.tensors)[static_cast<size_t>(o.returned_as)];
    if (!place_tensor(f, inputs, o.dtype, f.bound->results[k], t)) return false;
    f.pointers[static_cast<size_t>(o.buffer)] = t.data();
  }
  for (size_t i : parts_) {
    const PlanBuffer& b = plan_->buffers[i];
    f.pointers[i] = static_cast<char*>(f.pointers[static_cast<size_t>(b.index)]) + f.slots[static_cast<size_t>(b.offset)];
  }
  return true;
}

// What lies elsewhere than in the result's own memory: sizes that depend on data, strided memory of the caller's.
bool PlanRunner::hand_over_result(Frame& f, size_t k, Results& results) {
  const OutputSpec& o = plan_->outputs[k];
  const PlanBuffer& b = plan_->buffers[static_cast<size_t>(o.buffer)];
  void* made = f.pointers[static_cast<size_t>(o.buffer)];
  if (results.tensors) {
    if (b.place == BufferPlace::Output) return true;
    Tensor memory(b.dtype, sizes_of(b, f)), t = out_of_order(memory, o.order);
    if (size_t bytes = bytes_of(memory.view())) std::memcpy(t.data(), made, bytes);
    std::swap((*results.tensors)[static_cast<size_t>(o.returned_as)], t);
    if (t.defined()) f.held.push_back(std::make_shared<Tensor>(std::move(t))); // it may be an input
    return true;
  }
  const TensorView& v = results.views[static_cast<size_t>(o.returned_as)];
  if (v.data == made) return true;
  f.message = output_refusal(o.returned_as, v, o.dtype, sizes_of(o.sizes, f));
  if (!f.message.empty()) return false;
  copy_to_strided(made, v, o.order);
  return true;
}

bool PlanRunner::hand_over(Frame& f, std::span<const TensorView> inputs, Results& results) {
  for (size_t k = 0; k < plan_->outputs.size(); k++) {
    const OutputSpec& o = plan_->outputs[k];
    void* made = f.pointers[static_cast<size_t>(o.buffer)];
    size_t bytes;
    if (o.is_state) {
      if (bytes_of(plan_->buffers[static_cast<size_t>(o.buffer)], f, bytes))
        std::memcpy(session_->state[static_cast<size_t>(o.state)].data(), made, bytes);
    } else if (o.input >= 0) copy_to_strided(made, inputs[static_cast<size_t>(o.input)]);
    else if (!hand_over_result(f, k, results)) return false;
  }
  return true;
}

// ---- run

Status PlanRunner::run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) noexcept {
  Results results{&outputs, {}};
  Status status = run(inputs, results);
  if (!status.ok()) outputs.clear();
  return status;
}

Status PlanRunner::run_into(std::span<const TensorView> inputs, std::span<const TensorView> outputs) noexcept {
  Results results{nullptr, outputs};
  return run(inputs, results);
}

Status PlanRunner::run(std::span<const TensorView> inputs, Results& results) noexcept {
  Frame* f = nullptr;
  try {
    f = take_frame();
    bool ok = bind(*f, inputs) && place_results(*f, inputs, results);
    Status status = ok ? run_bound(*f, inputs, results) : failed(*f, bad(std::exchange(f->message, {})));
    give_back(f);
    return status;
  } catch (const std::exception& e) {
    if (!f) return failure(e);
    Status status = failed(*f, failure(e));
    give_back(f);
    return status;
  }
}

// Other ranks must not wait for this one. Operations that are under way may still use the call's memory: it stays for good.
Status PlanRunner::failed(Frame& f, Error error) noexcept {
  if (!f.collectives || plan_->num_requests == 0) return error;
  f.collectives->abort(error.what());
  if (std::exchange(f.in_flight, 0) > 0) {
    struct Kept {
      std::shared_ptr<Session> session;
      std::vector<std::shared_ptr<void>> held;
    };
    new Kept{session_, std::move(f.held)};
    f.memory = nullptr;
  }
  return error;
}

// Pointers are set.
Status PlanRunner::run_bound(Frame& f, std::span<const TensorView> inputs, Results& results) noexcept {
  try {
    std::unique_lock<std::mutex> turn, state(session_->state_mutex, std::defer_lock);
    if (f.collectives && plan_->num_requests > 0) turn = f.collectives->turn();
    if (!session_->state.empty()) state.lock();
    f.random_steps = 0;
    if (linked_->later) linked_->later->begin_call();
    if (linked_->page_joiner) linked_->page_joiner->begin_call();
    RecordedCall recorded(f);
    bool ok = run_steps(plan_->steps, f) && hand_over(f, inputs, results);
    return ok ? Status() : failed(f, bad(std::exchange(f.message, {})));
  } catch (const std::exception& e) {
    return failed(f, failure(e));
  }
}

} // namespace tenon
