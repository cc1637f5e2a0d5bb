// Binding: memory laid out, products and convolutions planned, for one combination of sizes.
#include "runtime/bound_plan.h"

#include <algorithm>

#include "base/rounding.h"
#include "base/strided.h"
#include "runtime/frame.h"
#include "runtime/intervals.h"

namespace tenon {

void ScratchNeed::add(const ScratchNeed& other) {
  per_worker = std::max(per_worker, (other.per_worker + 63) / 64 * 64);
  shared = std::max(shared, other.shared);
}

size_t ScratchNeed::bytes(int threads) const { return std::max(per_worker * static_cast<size_t>(threads), shared); }

namespace {

// ---- launches

/// Plans by what they were made for: layers are alike.
template <class Shape, class Plan> struct Plans {
  std::deque<Plan> all = {};
  std::vector<Shape> shapes = {};
  template <class F> const Plan& of(const Shape& shape, const F& make) {
    auto found = std::find(shapes.begin(), shapes.end(), shape);
    if (found != shapes.end()) return all[static_cast<size_t>(found - shapes.begin())];
    shapes.push_back(shape);
    return all.emplace_back(make());
  }
};

/// Plans one step; where its plan goes is the caller's to say.
struct Planner {
  Frame& f;
  ScratchNeed need = {};
  Plans<Matmul, MatmulPlan> matmuls = {};
  Plans<Conv, ConvPlan> convs = {};

  static size_t bytes(int64_t n) { return static_cast<size_t>(std::max<int64_t>(n, 0)); }
  const KernelTable& kernels() const { return *f.linked->micro_kernels; }
  /// `later`: with the weights packed that are stored otherwise at first.
  const MatmulPlan& plan(const MatmulStep& s, bool later = false) {
    Matmul m = matmul_of(s, f, f.pointers.data(), later ? this : nullptr);
    m.a = m.b = nullptr;
    m.c = s.c >= 0 ? this : nullptr; // given, whether memory is there yet or not
    const MatmulPlan& plan = matmuls.of(m, [&] { return plan_matmul(kernels(), f.plan->caches, f.workers->threads(), m); });
    need.add({bytes(plan.worker_bytes()), 0});
    return plan;
  }
  const ConvPlan& plan(const ConvStep& s) {
    Conv c = conv_of(s, f);
    c.input = nullptr, c.weights = this;
    c.output = s.output >= 0 ? this : nullptr;
    if (c.window_weights) c.window_weights = this;
    const ConvPlan& plan = convs.of(c, [&] { return plan_conv(kernels(), f.plan->caches, f.workers->threads(), c); });
    need.add({0, bytes(plan.scratch_bytes(f.workers->threads()))});
    return plan;
  }
  void plan_scratch(Slot scratch) { need.add({bytes(f.slots[static_cast<size_t>(scratch)]), 0}); }
  void plan(const AttentionStep& s) { need.add({0, bytes(attention_scratch(kernels(), f.plan->caches, *f.workers, attention_of(s, f)))}); }
};

// ---- memory

/// Steps of a chain run side by side: what one of them needs lives as long as all of them.
void prolong(const std::vector<ConvChain>& chains, int& first, int& last) {
  for (const ConvChain& c : chains) {
    if (first > c.first_step && first <= c.last_step) first = c.first_step;
    if (last >= c.first_step && last < c.last_step) last = c.last_step;
  }
}

/// What a chain's convolutions hand on lies in the workers' scratch.
bool is_between(const std::vector<ConvChain>& chains, int buffer) {
  auto is = [&](const ConvChain& c) { return c.between[0] == buffer || c.between[1] == buffer; };
  return std::any_of(chains.begin(), chains.end(), is);
}

/// Lays out the arena. False: sizes that do not fit.
bool place_buffers(Frame& f, BoundPlan& out) {
  const BindTable& table = *f.table;
  std::vector<size_t> bytes;
  for (const BindTable::Extent& e : table.extents) {
    size_t& n = bytes.emplace_back();
    if (bytes_of(std::span(table.sizes).subspan(e.sizes_begin, e.sizes_end - e.sizes_begin), e.element_bytes, f, n)) continue;
    // In a branch that is not taken sizes may be anything: it gets no memory.
    if (e.named >= 0) {
      const std::string& name = f.plan->buffers[static_cast<size_t>(e.named)].name;
      return f.message = "the sizes of " + (name.empty() ? "a temporary" : name) + " are negative, or too large", false;
    }
    n = 0;
  }
  std::vector<Interval> alive;
  std::vector<int> buffers; // of the intervals
  alive.reserve(table.arena.size()), buffers.reserve(table.arena.size());
  for (const BindTable::ArenaBuffer& b : table.arena) {
    if (is_between(out.chains, b.buffer)) continue;
    alive.push_back({b.first, b.last, static_cast<size_t>(up64(std::max<int64_t>(static_cast<int64_t>(bytes[b.extent]), 1))), 0});
    prolong(out.chains, alive.back().first, alive.back().last);
    buffers.push_back(b.buffer);
  }
  out.arena_bytes =
      place_intervals(alive, out.chains.empty() ? table.overlaps : Overlaps(alive, f.plan->num_steps), f.workers->threads() > 1);
  out.offsets.assign(f.plan->buffers.size(), 0);
  for (size_t i = 0; i < alive.size(); i++) out.offsets[static_cast<size_t>(buffers[i])] = alive[i].offset;
  return true;
}

bool place_results(Frame& f, BoundPlan& out) {
  for (const OutputSpec& o : f.plan->outputs) {
    BoundPlan::Result& r = out.results.emplace_back();
    const PlanBuffer& b = f.plan->buffers[static_cast<size_t>(o.buffer)];
    if (b.place != BufferPlace::Output) continue;
    if (!bytes_of(b, f, r.bytes))
      return f.message = "the sizes of " + (b.name.empty() ? "a result" : "the result " + b.name) + " are negative, or too large", false;
    r.sizes = sizes_of(o.sizes, f);
    r.strides = dense_strides(r.sizes, o.order);
  }
  return true;
}

} // namespace

bool bytes_of(std::span<const Slot> sizes, size_t element_bytes, const Frame& f, size_t& bytes) {
  bytes = element_bytes;
  bool fits = true, empty = false;
  for (Slot s : sizes) {
    int64_t size = f.slots[static_cast<size_t>(s)];
    empty |= size == 0;
    fits &= size >= 0;
    if (size > 0 && __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) bytes = SIZE_MAX;
  }
  if (empty) bytes = 0;
  return fits && bytes <= size_t{1} << 62;
}

bool bytes_of(const PlanBuffer& b, const Frame& f, size_t& bytes) { return bytes_of(b.sizes, size_of(b.dtype), f, bytes); }

std::shared_ptr<const BoundPlan> bind_plan(Frame& f, std::vector<int64_t> key) {
  auto out = std::make_shared<BoundPlan>();
  out->key = std::move(key);
  out->slots = f.slots;
  out->chains = find_chains(f);
  if (!place_buffers(f, *out) || !place_results(f, *out)) return nullptr;
  const BindTable& table = *f.table;
  Planner planner{f};
  std::vector<const MatmulPlan*> matmuls, later;
  std::vector<const ConvPlan*> convs;
  for (const MatmulStep& s : table.matmuls)
    matmuls.push_back(&planner.plan(s)), later.push_back(s.later < 0 ? nullptr : &planner.plan(s, true));
  for (const ConvStep& s : table.convs) convs.push_back(&planner.plan(s));
  for (const AttentionStep& s : table.attentions) planner.plan(s);
  for (Slot s : table.kernel_scratch) planner.plan_scratch(s);
  for (int m : table.matmul_of) out->matmuls.push_back(m < 0 ? nullptr : matmuls[static_cast<size_t>(m)]);
  if (f.linked->later)
    for (int m : table.matmul_of) out->later_matmuls.push_back(m < 0 ? nullptr : later[static_cast<size_t>(m)]);
  for (int c : table.conv_of) out->convs.push_back(c < 0 ? nullptr : convs[static_cast<size_t>(c)]);
  for (const ConvChain& c : out->chains) planner.need.add({0, static_cast<size_t>(c.worker_bytes() * f.workers->threads())});
  out->scratch = planner.need;
  out->matmul_plans = std::move(planner.matmuls.all), out->conv_plans = std::move(planner.convs.all);
  return out;
}

bool bind_stage(Frame& f, int stage) {
  Planner planner{f};
  for (const Step* step : f.table->waiting[static_cast<size_t>(stage)]) {
    if (auto* m = std::get_if<MatmulStep>(&step->run))
      f.matmuls[static_cast<size_t>(m->number)] = &(f.own_matmuls[m->number] = planner.plan(*m));
    if (auto* c = std::get_if<ConvStep>(&step->run)) f.convs[static_cast<size_t>(c->number)] = &(f.own_convs[c->number] = planner.plan(*c));
    if (auto* k = std::get_if<KernelStep>(&step->run); k && k->scratch_bytes >= 0) planner.plan_scratch(k->scratch_bytes);
    if (auto* a = std::get_if<AttentionStep>(&step->run)) planner.plan(*a);
  }
  return f.reserve_scratch(planner.need) || (f.message = "out of memory", false);
}

// ---- BoundPlans

std::shared_ptr<const BoundPlan> BoundPlans::find(const std::vector<int64_t>& key) {
  std::scoped_lock lock(mutex_);
  for (Entry& e : entries_)
    if (e.plan->key == key) {
      e.used = ++uses_;
      return e.plan;
    }
  return nullptr;
}

void BoundPlans::add(std::shared_ptr<const BoundPlan> plan) {
  std::scoped_lock lock(mutex_);
  if (entries_.size() >= most) {
    auto oldest = std::min_element(entries_.begin(), entries_.end(), [](auto& a, auto& b) { return a.used < b.used; });
    *oldest = {std::move(plan), ++uses_};
  } else entries_.push_back({std::move(plan), ++uses_});
}

} // namespace tenon
