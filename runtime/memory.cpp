// Memory of calls: the block pool, and the arena's layout.
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "runtime/frame.h"

namespace tenon {

struct BlockPool::State {
  std::mutex mutex;
  std::unordered_multimap<size_t, void*> free;
  size_t bytes = 0;
  ~State() {
    for (auto& [size, block] : free) std::free(block);
  }
};

BlockPool::BlockPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<void> BlockPool::take(size_t bytes) {
  constexpr size_t most_kept = size_t{256} << 20; // beyond that, blocks go back to the system
  bytes = std::max<size_t>(64, (bytes + 63) / 64 * 64);
  auto s = state_;
  void* block = nullptr;
  {
    std::scoped_lock lock(s->mutex);
    if (auto it = s->free.find(bytes); it != s->free.end()) {
      block = it->second;
      s->free.erase(it);
      s->bytes -= bytes;
    }
  }
  if (!block) block = std::aligned_alloc(64, bytes);
  if (!block) return nullptr;
  return std::shared_ptr<void>(block, [s, bytes](void* p) {
    std::scoped_lock lock(s->mutex);
    if (s->bytes + bytes > most_kept) return std::free(p);
    s->free.emplace(bytes, p);
    s->bytes += bytes;
  });
}

namespace {

struct Placed {
  int first, last;
  size_t begin, end;
};

size_t place(size_t bytes, int first, int last, std::vector<Placed>& placed) {
  // Those alive at the same time, by address; the first gap that is large enough.
  size_t at = 0;
  for (const Placed& p : placed) {
    if (p.last < first || p.first > last) continue;
    if (p.begin >= at + bytes) break;
    at = std::max(at, p.end);
  }
  Placed now{first, last, at, at + bytes};
  placed.insert(std::upper_bound(placed.begin(), placed.end(), now, [](auto& a, auto& b) { return a.begin < b.begin; }), now);
  return at;
}

/// Steps of a chain run side by side: what one of them needs lives as long as all of them.
void prolong(const Frame& f, int& first, int& last) {
  for (const ConvChain& c : f.chains) {
    if (first > c.first_step && first <= c.last_step) first = c.first_step;
    if (last >= c.first_step && last < c.last_step) last = c.last_step;
  }
}

/// What a chain's convolutions hand on lies in the workers' scratch.
bool is_between(const Frame& f, size_t buffer) {
  return std::any_of(f.chains.begin(), f.chains.end(), [&](const ConvChain& c) {
    return c.between[0] == static_cast<int>(buffer) || c.between[1] == static_cast<int>(buffer);
  });
}

} // namespace

bool bytes_of(const PlanBuffer& b, const Frame& f, size_t& bytes) {
  bytes = size_of(b.dtype);
  bool fits = true, empty = false;
  for (Slot s : b.sizes) {
    int64_t size = f.slots[static_cast<size_t>(s)];
    empty |= size == 0;
    fits &= size >= 0;
    if (size > 0 && __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) bytes = SIZE_MAX;
  }
  if (empty) bytes = 0;
  return fits && bytes <= size_t{1} << 62;
}

bool plan_memory(Frame& f) {
  const Plan& plan = *f.plan;
  std::vector<std::pair<size_t, size_t>> order; // bytes, buffer
  f.offsets.assign(plan.buffers.size(), 0);
  for (size_t i = 0; i < plan.buffers.size(); i++) {
    const PlanBuffer& b = plan.buffers[i];
    bool part = b.place == BufferPlace::Part;
    if ((b.place != BufferPlace::Arena && !part) || is_between(f, i)) continue;
    size_t bytes;
    if (!bytes_of(b, f, bytes)) {
      // In a branch that is not taken sizes may be anything: it gets no memory.
      if (!b.is_conditional)
        return f.message = "the sizes of " + (b.name.empty() ? "a temporary" : b.name) + " are negative, or too large", false;
      bytes = 0;
    }
    if (!part) order.emplace_back((std::max<size_t>(bytes, 1) + 63) / 64 * 64, i);
  }
  std::stable_sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.first > b.first; });
  std::vector<Placed> placed;
  f.arena_bytes = 0;
  for (auto& [bytes, i] : order) {
    int first = plan.buffers[i].first, last = plan.buffers[i].last;
    prolong(f, first, last);
    f.offsets[i] = place(bytes, first, last, placed);
    f.arena_bytes = std::max(f.arena_bytes, f.offsets[i] + bytes);
  }
  return true;
}

} // namespace tenon
