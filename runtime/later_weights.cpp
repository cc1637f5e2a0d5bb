#include "runtime/later_weights.h"

#include <algorithm>

namespace tenon {

namespace {

constexpr int64_t calls_to_pack = 8;      // which share the work: each takes some tenths longer, at most
constexpr int64_t most_cached = 32 << 20; // bytes that caches may still hold when all is packed
constexpr int64_t least_share = 64 << 10; // bytes, for another thread
constexpr int64_t piece = 8 << 20;        // bytes that are packed before what they were stored in is let go of

} // namespace

LaterWeights::LaterWeights(const KernelTable& kernels, const std::vector<Form>& forms, std::span<const std::byte> file)
    : kernels_(kernels), file_(file) {
  for (const Form& form : forms) {
    prepare_packing(kernels, kernels.family(form.family), form.stored.type);
    Weight& w = weights_.emplace_back();
    w.form = form;
    w.memory = place_.allocate(static_cast<size_t>(form.panels.bytes()));
    if (!w.memory) w.is_claimed = true; // it stays where it is stored
    else bytes_ += form.panels.bytes();
  }
}

void LaterWeights::begin_call() noexcept {
  if (is_done_.load(std::memory_order_relaxed)) return;
  bool first = is_first_.exchange(false);
  left_of_call_ = first ? 0 : (bytes_ + calls_to_pack - 1) / calls_to_pack;
  if (first || !std::ranges::all_of(weights_, [](const Weight& w) { return w.is_claimed.load(); }) || is_done_.exchange(true)) return;
  if (place_.has_small_pages()) joining_.start([this] { return place_.join_pages(); });
}

void LaterWeights::drop_stored(const Form& form, int64_t begin, int64_t end) const noexcept {
  int64_t row = form.stored.other_stride * static_cast<int64_t>(size_of(form.stored.type)), width = form.panels.width(),
          rows = std::min(end * width, form.panels.n) - begin * width;
  drop_pages({static_cast<const std::byte*>(form.stored.data) + begin * width * row, static_cast<size_t>(rows * row)}, file_);
}

void LaterWeights::pack(int i, const Workers& workers) noexcept {
  Weight& w = weights_[static_cast<size_t>(i)];
  if (left_of_call_.load(std::memory_order_relaxed) <= 0 || w.is_claimed.exchange(true)) return;
  const Panels& panels = w.form.panels;
  left_of_call_ -= panels.bytes();
  const GemmFamily& family = kernels_.family(w.form.family);
  int64_t bytes = std::max<int64_t>(panels.offset(1), 1), grain = std::max<int64_t>(least_share / bytes, 1),
          together = std::max<int64_t>(piece / bytes, 1);
  for (int64_t p = 0, all = panels.count(); p < all; p += together) {
    int64_t count = std::min(together, all - p);
    workers.run(count, grain, [&](int64_t begin, int64_t end, int) {
      char* to = static_cast<char*>(w.memory.get()) + panels.offset(p + begin);
      place_.fetch(to, static_cast<size_t>(panels.offset(p + end) - panels.offset(p + begin)));
      pack_panels(kernels_, family, panels, w.form.stored, 0, panels.k, p + begin, p + end, to, bytes_ > most_cached);
    });
    drop_stored(w.form, p, p + count);
  }
  w.packed.store(w.memory.get(), std::memory_order_release);
}

} // namespace tenon
