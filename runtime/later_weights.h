// Weights that products read where they are stored until they have been packed, by and by in the calls that read them: the first result
// does not wait for it, and later ones come from packed panels, which are read faster.
#pragma once
#include <atomic>
#include <deque>

#include "base/background.h"
#include "base/large_memory.h"
#include "runtime/gemm_pack.h"
#include "runtime/parallel.h"

namespace tenon {

class LaterWeights {
public:
  struct Form {
    int family;
    Panels panels;
    PackSource stored; // out x in: the columns of a panel are rows that lie one behind the other
  };

  /// Address space for all of them is taken at once, memory by those that are packed. Pages of `file`, a mapped file that is not written
  /// to, are dropped when they were packed.
  LaterWeights(const KernelTable& kernels, const std::vector<Form>& forms, std::span<const std::byte> file);

  /// The packed form of number i, or null where it is not there yet. Thread-safe, as all of this.
  const void* find(int i) const noexcept { return weights_[static_cast<size_t>(i)].packed.load(std::memory_order_acquire); }
  size_t size() const { return weights_.size(); }
  /// Each call but the first may pack a part of them.
  void begin_call() noexcept;
  /// Packs number i by all workers, unless what the call may pack is used up, or another call does.
  void pack(int i, const Workers& workers) noexcept;

private:
  void drop_stored(const Form& form, int64_t begin, int64_t end) const noexcept;

  struct Weight {
    Form form;
    std::shared_ptr<void> memory;
    std::atomic<bool> is_claimed = false;
    std::atomic<const void*> packed = nullptr;
  };

  const KernelTable& kernels_;
  const std::span<const std::byte> file_;
  LargeMemory place_;
  std::deque<Weight> weights_;
  int64_t bytes_ = 0;
  std::atomic<int64_t> left_of_call_ = 0;
  std::atomic<bool> is_first_ = true, is_done_ = false;
  Background joining_{Background::Priority::Low}; // ends before the rest does
};

} // namespace tenon
