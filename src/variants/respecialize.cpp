// Variants: which sizes get a plan of their own. Making plans may take a share of the time that calls take; it goes to the sizes that most
// of that time goes to. A plan that is no faster than the one for all sizes goes again.
#include <algorithm>

#include "base/stop_point.h"
#include "variants/variants.h"

namespace tenon {

namespace {

constexpr double least_share = 0.05;  // of recent time, for a plan of its own
constexpr double hotter = 2;          // than the one whose place is taken
constexpr uint64_t least_calls = 16;  // before a plan is made
constexpr uint64_t least_long = 2;    // of calls that take long beside making it
constexpr double much_longer = 16;    // all of them
constexpr uint64_t enough_calls = 32; // to tell whether it is worth its place
constexpr double worth = 0.99;        // of the time without it
constexpr double varied = 0.9; // one choice of all sizes that takes a larger part of the calls that a guard of some would serve goes first

} // namespace

// Tables that no call holds go, and with them the variants that no other has.
void Variants::publish(std::vector<std::shared_ptr<const Variant>> variants) {
  if (!variants.empty()) is_active_ = true;
  tables_.push_back(std::make_unique<const Table>(std::move(variants)));
  table_.store(tables_.back().get());
  sweep();
}

void Variants::sweep() {
  std::erase_if(tables_, [&](auto& t) {
    return t != tables_.back() && std::ranges::none_of(readers_, [&](const Reader& r) { return r.held.load() == t.get(); });
  });
}

double Variants::heat_of(const Variant& v) {
  const SizeUse* use = histogram(v.kind).find(v.sizes);
  return use ? use->heat : 0;
}

void Variants::drop(const Variant& gone) {
  if (SizeUse* use = histogram(gone.kind).find(gone.sizes)) use->is_held = false;
  auto left = tables_.back()->variants;
  std::erase_if(left, [&](auto& v) { return v.get() == &gone; });
  publish(std::move(left));
}

// The coldest make room; of those as cold as each other, the oldest.
void Variants::add(std::shared_ptr<const Variant> variant) {
  auto all = tables_.back()->variants;
  std::erase_if(all, [&](auto& v) { return v->sizes == variant->sizes; });
  size_t bytes = variant->bytes;
  for (auto& v : all) bytes += v->bytes;
  while (!all.empty() && (all.size() >= static_cast<size_t>(options_.most) || bytes > options_.most_bytes)) {
    auto coldest = std::ranges::min_element(all, {}, [&](auto& v) { return heat_of(*v); });
    if (SizeUse* use = histogram((*coldest)->kind).find((*coldest)->sizes)) use->is_held = false;
    bytes -= (*coldest)->bytes;
    all.erase(coldest);
  }
  histogram(variant->kind).add(variant->sizes, {}, true).is_held = true;
  see_less(*variant);
  all.push_back(std::move(variant));
  std::ranges::stable_partition(all, [](auto& v) { return v->kind == Guard::All; });
  publish(std::move(all));
}

// What a new plan serves is no longer there for others: a guard of some sizes loses those calls; one of all sizes must be better than it.
void Variants::see_less(const Variant& v) {
  const SizeUse* own = histogram(v.kind).find(v.sizes);
  if (v.kind == Guard::All) {
    SizeUse* some = histogram(Guard::Code).find(fixed_in(v.sizes, Guard::Code));
    if (some && own) some->heat = std::max(0.0, some->heat - own->heat);
  } else {
    for (SizeUse& e : histogram(Guard::All).entries())
      if (!e.is_held && fixed_in(e.sizes, Guard::Code) == v.sizes) e.generic = {};
  }
}

void Variants::drop_useless() {
  auto all = tables_.back()->variants; // a copy: tables change
  for (auto& v : all) {
    SizeUse* use = histogram(v->kind).find(v->sizes);
    if (v->was_asked_for || !use || use->own.timed < enough_calls || use->generic.timed < least_calls) continue;
    if (use->own.per_work() <= worth * use->generic.per_work()) continue;
    use->is_refused = true;
    drop(*v);
  }
}

SizeUse* Variants::hottest(Guard kind) {
  SizeUse* best = nullptr;
  auto enough = [&](const CallTimes& t) {
    return t.calls >= least_calls || (t.calls >= least_long && t.ns >= much_longer * expected_ms_ * 1e6);
  };
  for (SizeUse& e : histogram(kind).entries())
    if (!e.is_held && !e.is_refused && enough(e.generic) && (!best || e.heat > best->heat)) best = &e;
  return best && best->heat >= least_share * histogram(Guard::All).heat() ? best : nullptr;
}

// The sizes that most of the recent time goes to, if they are worth a plan now.
Variants::Candidate Variants::hottest() {
  if ((spent_ms_ + expected_ms_) * 1e6 > options_.compile_share * histogram(Guard::All).total_ns()) return {};
  Candidate best{Guard::All, hottest(Guard::All)};
  if (SizeUse* some = hottest(Guard::Code); some && (!best.use || best.use->heat < varied * some->heat)) best = {Guard::Code, some};
  if (!best.use) return {};
  auto& all = tables_.back()->variants;
  bool full = all.size() >= static_cast<size_t>(options_.most);
  bool colder = std::ranges::any_of(all, [&](auto& v) { return best.use->heat > hotter * heat_of(*v); });
  return full && !colder ? Candidate{} : best;
}

void Variants::flush(Tally& t) {
  if (t.times.calls == 0) return;
  std::scoped_lock lock(mutex_);
  CallTimes times = std::exchange(t.times, {});
  if (t.served == Guard::None) generic_times_.add(times);
  histogram(Guard::All).add(t.sizes, times, t.served == Guard::All);
  if (has_code_guards_ && t.served != Guard::All)
    histogram(Guard::Code).add(fixed_in(t.sizes, Guard::Code), times, t.served == Guard::Code);
  sweep();
  if (!options_.in_background || options_.most <= 0) return;
  drop_useless();
  if (hottest().use) background_.start([this] { return make_next(); });
}

std::shared_ptr<const Variant> Variants::make(Guard kind, std::span<const int64_t> sizes) {
  auto begin = std::chrono::steady_clock::now();
  Made made = make_(sizes);
  auto v = std::make_shared<Variant>();
  v->kind = kind, v->sizes.assign(sizes.begin(), sizes.end());
  v->guard = std::move(made.guard), v->bytes = made.bytes;
  v->runner = std::make_unique<PlanRunner>(std::move(made.plan), generic_.session());
  v->compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return v;
}

// In the background. False: nothing is left to do.
bool Variants::make_next() {
  std::vector<int64_t> sizes;
  Guard kind;
  {
    std::scoped_lock lock(mutex_);
    Candidate next = hottest();
    if (!next.use) return false;
    kind = next.kind, sizes = next.use->sizes;
  }
  std::shared_ptr<const Variant> made;
  try {
    made = make(kind, sizes);
  } catch (const Stopped&) {
    throw;
  } catch (const std::exception&) { // the plan for all sizes goes on to serve them
  }
  std::scoped_lock lock(mutex_);
  if (made) spent_ms_ += made->compile_ms, expected_ms_ = made->compile_ms;
  if (made && made->bytes <= options_.most_bytes) add(std::move(made));
  else histogram(kind).add(sizes, {}, false).is_refused = true;
  return true;
}

void Variants::specialize(std::span<const TensorView> inputs) {
  require_input(options_.most > 0, "the executable holds no plans for exact sizes: Specialization::most is {}", options_.most);
  generic_.plan_for(inputs);
  std::vector<int64_t> sizes = sizes_of(inputs);
  auto made = std::const_pointer_cast<Variant>(make(Guard::All, sizes));
  require_input(made->bytes <= options_.most_bytes, "the plan takes {} bytes of its own, Specialization::most_bytes is {}", made->bytes,
                options_.most_bytes);
  made->was_asked_for = true;
  std::scoped_lock lock(mutex_);
  add(std::move(made));
}

} // namespace tenon
