// PlanRunner: binds inputs, plans memory for their sizes, runs the steps, hands over the outputs.
#include "runtime/executable.h"

#include <bit>
#include <cstring>

#include <fmt/core.h>

#include "base/strided.h"
#include "expr/eval.h"

namespace tenon {

namespace {

Error bad(std::string message) { return Error(ErrorKind::BadInput, message); }

size_t total_bytes(const PlanBuffer& b, const Frame& f) {
  size_t bytes;
  return bytes_of(b, f, bytes) ? bytes : 0;
}

template <class F> void for_each_step(const std::vector<Step>& steps, F& f) {
  for (const Step& s : steps) {
    f(s);
    if (auto* i = std::get_if<IfStep>(&s.run)) for_each_step(i->branches[0], f), for_each_step(i->branches[1], f);
    if (auto* w = std::get_if<WhileStep>(&s.run)) for_each_step(w->condition, f), for_each_step(w->body, f);
    if (auto* c = std::get_if<ScanStep>(&s.run)) for_each_step(c->body, f);
  }
}

// Plans contractions; the scratch that steps need: per worker, and of convolutions and attention in all.
struct ScratchNeed {
  Frame& f;
  size_t per_worker = 0;
  int64_t shared = 0;
  int64_t slot(Slot s) const { return f.slots[static_cast<size_t>(s)]; }
  void operator()(const Step& step) {
    if (auto* k = std::get_if<KernelStep>(&step.run); k && k->scratch_bytes >= 0)
      per_worker = std::max(per_worker, (static_cast<size_t>(std::max<int64_t>(slot(k->scratch_bytes), 0)) + 63) / 64 * 64);
    if (auto* s = std::get_if<MatmulStep>(&step.run)) {
      Matmul m = matmul_of(*s, f);
      if (s->c >= 0) m.c = this; // given, whether memory is there yet or not
      auto& plan = f.matmuls[static_cast<size_t>(s->number)] = plan_matmul(*f.plan->micro_kernels, f.plan->caches, f.workers->threads(), m);
      add(plan.worker_bytes());
    }
    if (auto* s = std::get_if<ConvStep>(&step.run)) {
      Conv c = conv_of(*s, f);
      if (s->output >= 0) c.output = this;
      auto& plan = f.convs[static_cast<size_t>(s->number)] = plan_conv(*f.plan->micro_kernels, f.plan->caches, f.workers->threads(), c);
      shared = std::max(shared, plan.scratch_bytes(f.workers->threads()));
    }
    if (auto* s = std::get_if<AttentionStep>(&step.run))
      shared = std::max(shared, attention_scratch(*f.plan->micro_kernels, f.plan->caches, *f.workers, attention_of(*s, f)));
  }
  void add(int64_t bytes) { per_worker = std::max(per_worker, (static_cast<size_t>(std::max<int64_t>(bytes, 0)) + 63) / 64 * 64); }
};

bool reserve(std::shared_ptr<void>& block, size_t& capacity, size_t bytes, BlockPool& pool) {
  if (block && capacity >= bytes) return true;
  block.reset();
  block = pool.take(bytes);
  capacity = block ? bytes : 0;
  return block != nullptr;
}

} // namespace

bool reserve_scratch(Frame& f) {
  ScratchNeed need{f};
  f.matmuls.resize(static_cast<size_t>(f.plan->num_matmuls));
  f.convs.resize(static_cast<size_t>(f.plan->num_convs));
  for_each_step(f.plan->steps, need);
  for (const ConvChain& c : f.chains) need.shared = std::max(need.shared, c.worker_bytes() * f.workers->threads());
  f.scratch_per_worker = need.per_worker;
  f.scratch_bytes = std::max(need.per_worker * static_cast<size_t>(f.workers->threads()), static_cast<size_t>(need.shared));
  return reserve(f.scratch, f.scratch_capacity, f.scratch_bytes, *f.pool) || (f.message = "out of memory", false);
}

static std::vector<Tensor> copies_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) {
    out.emplace_back(t.dtype(), t.sizes());
    copy_strided(t.view(), out.back().data());
  }
  return out;
}

PlanRunner::PlanRunner(Plan plan, int threads, bool profile)
    : plan_(std::move(plan)), workers_(threads), state_(copies_of(plan_.initial_state)), threads_(threads), is_profiled_(profile) {}

std::unique_ptr<PlanRunner> PlanRunner::copy() {
  auto made = std::make_unique<PlanRunner>(plan_, threads_, is_profiled_);
  made->state_ = state();
  return made;
}

std::vector<Tensor> PlanRunner::state() {
  std::scoped_lock lock(state_mutex_);
  return copies_of(state_);
}

void PlanRunner::set_state(size_t i, const TensorView& value) {
  std::scoped_lock lock(state_mutex_);
  copy_strided(value, state_[i].data());
}
PlanRunner::~PlanRunner() = default;

Profile PlanRunner::profile() {
  std::scoped_lock lock(mutex_);
  return profile_;
}

std::unique_ptr<Frame> PlanRunner::take_frame() {
  std::scoped_lock lock(mutex_);
  if (!frames_.empty()) {
    auto f = std::move(frames_.back());
    frames_.pop_back();
    return f;
  }
  auto f = std::make_unique<Frame>();
  f->plan = &plan_;
  f->workers = &workers_;
  f->pool = &pool_;
  f->slots = plan_.sizes.initial;
  f->pointers.assign(plan_.buffers.size(), nullptr);
  f->dynamic_sizes.resize(plan_.buffers.size());
  f->outputs.resize(plan_.buffers.size());
  f->profiled = is_profiled_;
  if (is_profiled_) f->profile.resize(static_cast<size_t>(plan_.num_steps));
  return f;
}

void PlanRunner::give_back(std::unique_ptr<Frame> f) {
  f->held.clear();
  for (auto& t : f->outputs)
    if (t.defined()) t = Tensor();
  std::scoped_lock lock(mutex_);
  if (is_profiled_) {
    add(profile_, f->profile);
    f->profile.assign(f->profile.size(), {});
  }
  frames_.push_back(std::move(f));
}

bool PlanRunner::bind_input(Frame& f, const InputSpec& s, const TensorView& v, bool check_equal) {
  auto fail = [&](std::string message) { return f.message = "input " + s.name + ": " + message, false; };
  if (s.is_number || s.is_fixed) {
    if (check_equal) return true;
    if (!v.sizes.empty()) return fail("a number must be a 0-d tensor");
    if (!v.data) return fail("data is null");
    double number = dispatch(v.dtype, [&]<class T>(T) { return convert<double>(*static_cast<const T*>(v.data)); });
    if (s.is_fixed) return number == s.fixed || fail(fmt::format("the program was exported for the value {}, not {}", s.fixed, number));
    if (s.number_slot >= 0) {
      int64_t whole = dispatch(v.dtype, [&]<class T>(T) { return convert<int64_t>(*static_cast<const T*>(v.data)); });
      f.slots[static_cast<size_t>(s.number_slot)] = s.dtype == DType::F64 ? std::bit_cast<int64_t>(number) : whole;
    }
    return true;
  }
  auto has_no_data = [&] { return !v.data && std::find(v.sizes.begin(), v.sizes.end(), 0) == v.sizes.end(); };
  if (!check_equal) {
    if (v.dtype != s.dtype) return fail(fmt::format("dtype is {}, the program takes {}", name_of(v.dtype), name_of(s.dtype)));
    if (v.sizes.size() != s.dims.size()) return fail(fmt::format("rank is {}, the program takes {}", v.sizes.size(), s.dims.size()));
    if (!v.strides.empty() && v.strides.size() != v.sizes.size()) return fail("sizes and strides differ in number");
    if (has_no_data()) return fail("data is null");
  }
  for (size_t d = 0; d < s.dims.size(); d++) {
    const InputDim& dim = s.dims[d];
    int64_t size = v.sizes[d];
    if (dim.kind == InputDim::Kind::Bind && !check_equal) {
      if (size < dim.lo || size > dim.hi)
        return fail(fmt::format("size {} of dim {} ({}) is outside its range {} to {}", size, d, dim.text, dim.lo,
                                dim.hi == INT64_MAX ? "unbounded" : std::to_string(dim.hi)));
      f.slots[static_cast<size_t>(dim.slot)] = size;
    }
    int64_t want = f.slots[static_cast<size_t>(dim.equal >= 0 ? dim.equal : dim.slot)];
    if (check_equal && size != want)
      return fail(
          fmt::format("size {} of dim {} must be {}{}", size, d, want, dim.text == std::to_string(want) ? "" : " (" + dim.text + ")"));
  }
  return true;
}

bool PlanRunner::bind(Frame& f, std::span<const TensorView> inputs) {
  if (inputs.size() != plan_.inputs.size())
    return f.message = fmt::format("{} inputs are given, the program takes {}", inputs.size(), plan_.inputs.size()), false;
  for (size_t i = 0; i < inputs.size(); i++)
    if (!bind_input(f, plan_.inputs[i], inputs[i], false)) return false;
  run_stage(plan_.sizes, 0, f.slots.data());
  for (size_t i = 0; i < inputs.size(); i++)
    if (!bind_input(f, plan_.inputs[i], inputs[i], true)) return false;
  for (size_t i = 0; i < inputs.size(); i++) {
    const InputSpec& s = plan_.inputs[i];
    if (s.buffer < 0) continue;
    const TensorView& v = inputs[i];
    void* data = v.data;
    if (!v.strides.empty() && !is_contiguous_layout(v.sizes, v.strides)) { // staged
      size_t bytes = size_of(v.dtype);
      for (int64_t n : v.sizes) bytes *= static_cast<size_t>(n);
      auto block = pool_.take(bytes);
      if (!block) return f.message = "out of memory", false;
      copy_strided(v, block.get());
      data = block.get();
      f.held.push_back(std::move(block));
    }
    f.pointers[static_cast<size_t>(s.buffer)] = data;
  }
  return true;
}

bool PlanRunner::prepare_memory(Frame& f) {
  // The slots that inputs bind decide all sizes known before the run.
  std::vector<int64_t> bound;
  for (const InputSpec& s : plan_.inputs) {
    if (s.number_slot >= 0) bound.push_back(f.slots[static_cast<size_t>(s.number_slot)]);
    for (const InputDim& d : s.dims)
      if (d.kind == InputDim::Kind::Bind) bound.push_back(f.slots[static_cast<size_t>(d.slot)]);
  }
  if (f.planned && bound == f.bound) return true;
  f.planned = false;
  f.chains = find_chains(f);
  if (!plan_memory(f)) return false;
  if (!reserve(f.arena, f.arena_capacity, f.arena_bytes, pool_) || !reserve_scratch(f))
    return f.message = fmt::format("out of memory: {} bytes of temporaries", f.arena_bytes + f.scratch_bytes), false;
  for (size_t i = 0; i < plan_.buffers.size(); i++) {
    const PlanBuffer& b = plan_.buffers[i];
    if (b.place == BufferPlace::Arena) f.pointers[i] = static_cast<char*>(f.arena.get()) + f.offsets[i];
    if (b.place == BufferPlace::Constant) f.pointers[i] = plan_.constants[static_cast<size_t>(b.index)].data();
  }
  f.bound = std::move(bound);
  f.planned = true;
  arena_bytes_.store(f.arena_bytes, std::memory_order_relaxed);
  return true;
}

bool PlanRunner::prepare_outputs(Frame& f) {
  for (size_t i = 0; i < plan_.buffers.size(); i++) {
    const PlanBuffer& b = plan_.buffers[i];
    if (b.place == BufferPlace::Part)
      f.pointers[i] = static_cast<char*>(f.pointers[static_cast<size_t>(b.index)]) + f.slots[static_cast<size_t>(b.offset)];
    if (b.place == BufferPlace::State) f.pointers[i] = state_[static_cast<size_t>(b.index)].data();
    if (b.place != BufferPlace::Output) continue;
    size_t bytes;
    if (!bytes_of(b, f, bytes)) return f.message = "the sizes of the result " + b.name + " are negative, or too large", false;
    auto block = pool_.take(bytes);
    if (!block) return f.message = "out of memory", false;
    f.pointers[i] = block.get();
    auto sizes = sizes_of(b, f);
    auto strides = contiguous_strides(sizes);
    f.outputs[i] = Tensor(b.dtype, std::move(sizes), std::move(strides), block, block.get());
  }
  return true;
}

// Results of an earlier call make room for those of this one, unless an input may lie in them.
static void let_go(std::vector<Tensor>& outputs, std::span<const TensorView> inputs) {
  for (const Tensor& t : outputs) {
    auto begin = reinterpret_cast<uintptr_t>(t.data()), end = begin + static_cast<size_t>(t.numel()) * size_of(t.dtype());
    for (const TensorView& v : inputs)
      if (auto at = reinterpret_cast<uintptr_t>(v.data); at == begin || (at > begin && at < end) || !t.is_contiguous()) return;
  }
  outputs.clear();
}

Status PlanRunner::run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) noexcept {
  try {
    auto f = take_frame();
    std::unique_lock<std::mutex> state(state_mutex_, std::defer_lock);
    if (!state_.empty()) state.lock();
    f->random_steps = 0;
    bool ok = bind(*f, inputs) && prepare_memory(*f);
    if (ok) let_go(outputs, inputs);
    ok = ok && prepare_outputs(*f) && run_steps(plan_.steps, *f);
    if (!ok) {
      Error e = bad(std::exchange(f->message, {}));
      f->planned = false;
      give_back(std::move(f));
      return e;
    }
    outputs.clear();
    outputs.resize(
        static_cast<size_t>(std::count_if(plan_.outputs.begin(), plan_.outputs.end(), [](auto& o) { return o.returned_as >= 0; })));
    for (const OutputSpec& o : plan_.outputs) {
      const PlanBuffer& b = plan_.buffers[static_cast<size_t>(o.buffer)];
      size_t i = static_cast<size_t>(o.buffer);
      if (o.is_state) std::memcpy(state_[static_cast<size_t>(o.state)].data(), f->pointers[i], total_bytes(b, *f));
      else if (o.input >= 0) copy_to_strided(f->pointers[i], inputs[static_cast<size_t>(o.input)]);
      else if (f->outputs[i].defined()) outputs[static_cast<size_t>(o.returned_as)] = f->outputs[i];
      else { // data-dependent: its own block, or one that an earlier output shares
        Tensor t(b.dtype, sizes_of(b, *f));
        std::memcpy(t.data(), f->pointers[i], total_bytes(b, *f));
        outputs[static_cast<size_t>(o.returned_as)] = t;
      }
    }
    give_back(std::move(f));
    return {};
  } catch (const std::bad_alloc&) {
    return bad("out of memory");
  } catch (const std::exception& e) {
    return bad(e.what());
  }
}

} // namespace tenon
