// Variants: which plan serves a call, and what calls cost. Which plans there are is decided in respecialize.cpp.
#include "variants/variants.h"

#include <algorithm>

namespace tenon {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t always_timed = 4, timed_each = 16; // calls
constexpr double long_call = 10'000;                  // ns: worth two looks at the clock
constexpr uint64_t most_calls = 256;                  // of a tally
constexpr double most_ns = 1e6;

bool is_sized(const InputSpec& s) { return !s.is_number && !s.is_fixed; }

double work_of(std::span<const TensorView> inputs) {
  double all = 1;
  for (const TensorView& t : inputs) {
    double elements = 1;
    for (int64_t n : t.sizes) elements *= static_cast<double>(n);
    all += elements;
  }
  return all;
}

} // namespace

Variants::Variants(PlanRunner& generic, const Specialization& options, Make make, double compile_ms)
    : generic_(generic), options_(options), make_(std::move(make)), is_active_(options.in_background && options.most > 0),
      expected_ms_(compile_ms) {
  bool some = false, all = true;
  for (const InputSpec& s : generic_.plan().inputs)
    for (const InputDim& d : s.dims) {
      in_code_.push_back(d.in_code);
      some |= d.in_code, all &= d.in_code || d.kind == InputDim::Kind::Equal;
    }
  has_code_guards_ = some && !all;
  for (Reader& r : readers_) r.tally.sizes.reserve(in_code_.size());
  publish({});
}

Variants::~Variants() = default;

// ---- sizes

/// Whether the inputs have these sizes.
bool Variants::is(const std::vector<int64_t>& sizes, std::span<const TensorView> inputs) const noexcept {
  auto& specs = generic_.plan().inputs;
  const int64_t *at = sizes.data(), *end = at + sizes.size();
  for (size_t i = 0; i < inputs.size() && i < specs.size(); i++) {
    if (!is_sized(specs[i])) continue;
    if (inputs[i].sizes.size() > static_cast<size_t>(end - at)) return false;
    for (int64_t n : inputs[i].sizes)
      if (int64_t want = *at++; n != want && want >= 0) return false;
  }
  return at == end;
}

std::vector<int64_t> Variants::sizes_of(std::span<const TensorView> inputs) const {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < inputs.size() && i < generic_.plan().inputs.size(); i++)
    if (is_sized(generic_.plan().inputs[i])) sizes.insert(sizes.end(), inputs[i].sizes.begin(), inputs[i].sizes.end());
  return sizes;
}

std::vector<int64_t> Variants::fixed_in(std::span<const int64_t> sizes, Guard kind) const {
  std::vector<int64_t> fixed(sizes.begin(), sizes.end());
  for (size_t i = 0; i < fixed.size() && kind == Guard::Code; i++)
    if (!in_code_[i]) fixed[i] = -1;
  return fixed;
}

// ---- calls

// A reader that nobody has, holding the table that is published; null where all are taken. After `held` is written the table may have been
// replaced: whoever replaces it looks at the readers afterwards, so that one of the two sees the other.
Variants::Reader* Variants::claim() noexcept {
  static std::atomic<unsigned> threads{0};
  static thread_local unsigned first = threads++;
  for (unsigned i = 0; i < readers_.size(); i++) {
    Reader& r = readers_[(first + i) % readers_.size()];
    const Table *none = nullptr, *table = table_.load();
    if (r.held.load(std::memory_order_relaxed) || !r.held.compare_exchange_strong(none, table)) continue;
    for (const Table* now; (now = table_.load()) != table; table = now) r.held.store(now);
    return &r;
  }
  return nullptr;
}

// Before a call, whose results may take the place of its inputs: what it will be counted under.
bool Variants::open(Tally& t, std::span<const TensorView> inputs, Guard served) noexcept {
  if (t.served == served && is(t.sizes, inputs)) return true;
  try {
    flush(t);
    t.served = served;
    t.sizes.clear();
    for (size_t i = 0; i < inputs.size() && i < generic_.plan().inputs.size(); i++)
      if (is_sized(generic_.plan().inputs[i])) t.sizes.insert(t.sizes.end(), inputs[i].sizes.begin(), inputs[i].sizes.end());
    return true;
  } catch (const std::exception&) { // no memory for statistics
    t.times = {};
    return false;
  }
}

void Variants::count(Tally& t, double ns, double work) noexcept {
  try {
    t.times.calls++;
    if (ns >= 0) t.times.timed++, t.times.ns += ns, t.times.work += work;
    if (t.times.calls >= most_calls || t.times.ns > most_ns) flush(t);
  } catch (const std::exception&) {
    t.times = {};
  }
}

template <class Run> Status Variants::dispatch(std::span<const TensorView> inputs, const Run& run) noexcept {
  Reader* r = is_active_.load(std::memory_order_relaxed) ? claim() : nullptr;
  if (!r) return run(generic_);
  PlanRunner* runner = &generic_;
  Guard served = Guard::None;
  for (auto& v : r->held.load(std::memory_order_relaxed)->variants)
    if (is(v->sizes, inputs)) {
      runner = v->runner.get(), served = v->kind;
      break;
    }
  const CallTimes& times = r->tally.times;
  bool counted = open(r->tally, inputs, served),
       timed = times.calls < always_timed || times.mean() > long_call || times.calls % timed_each == 0;
  double work = timed ? work_of(inputs) : 0;
  auto begin = timed ? Clock::now() : Clock::time_point();
  Status status = run(*runner);
  double ns = timed ? std::chrono::duration<double, std::nano>(Clock::now() - begin).count() : -1;
  if (status.ok() && counted) count(r->tally, ns, work);
  r->held.store(nullptr, std::memory_order_release);
  return status;
}

Status Variants::run(std::span<const TensorView> inputs, std::vector<Tensor>& outputs) noexcept {
  return dispatch(inputs, [&](PlanRunner& r) { return r.run(inputs, outputs); });
}

Status Variants::run_into(std::span<const TensorView> inputs, std::span<const TensorView> outputs) noexcept {
  return dispatch(inputs, [&](PlanRunner& r) { return r.run_into(inputs, outputs); });
}

void Variants::note(std::span<const TensorView> inputs, const Variant* served, uint64_t calls, double ns) {
  Tally t{.sizes = sizes_of(inputs),
          .served = served ? served->kind : Guard::None,
          .times = {.calls = calls, .timed = ns >= 0, .ns = std::max(ns, 0.0), .work = ns >= 0 ? work_of(inputs) : 0}};
  flush(t);
}

std::shared_ptr<const Variant> Variants::find(std::span<const TensorView> inputs) {
  std::scoped_lock lock(mutex_);
  auto& all = tables_.back()->variants;
  auto at = std::ranges::find_if(all, [&](auto& v) { return is(v->sizes, inputs); });
  return at == all.end() ? nullptr : *at;
}

// ---- what there is

std::vector<Variants::Info> Variants::infos() {
  for (Reader& r : readers_) { // what is not counted yet, of readers that nobody has
    const Table *none = nullptr, *table = table_.load();
    if (!r.held.compare_exchange_strong(none, table)) continue;
    flush(r.tally);
    r.held.store(nullptr, std::memory_order_release);
  }
  std::scoped_lock lock(mutex_);
  std::vector<Info> out{{.guard = {}, .times = generic_times_, .generic = generic_times_}};
  for (auto& v : tables_.back()->variants) {
    Info& info = out.emplace_back(Info{.guard = v->guard, .times = {}, .generic = {}, .bytes = v->bytes, .compile_ms = v->compile_ms});
    if (const SizeUse* use = histogram(v->kind).find(v->sizes)) info.times = use->own, info.generic = use->generic;
  }
  return out;
}

} // namespace tenon
