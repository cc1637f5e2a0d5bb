// Memory in large pages: of a tensor, and LargeMemory, arrays of weights one behind the other, so that there are no gaps between them.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tenon/tensor.h"

namespace tenon {

/// Uninitialised bytes at a multiple of 64, with 64 more behind them; null where the memory is refused. Large pages that they fill are
/// asked for: fewer faults, fewer misses of the TLB.
std::shared_ptr<void> allocate_memory(size_t bytes);

class LargeMemory {
public:
  enum class Pages { Large, Small };
  LargeMemory() : LargeMemory(Pages::Large) {}
  explicit LargeMemory(Pages pages);
  /// What runs work in another thread, some time or never.
  using Start = std::function<void(std::function<void()> work)>;
  /// So many bytes will be wanted soon: another thread fetches their pages from the system meanwhile. Nothing is written there before
  /// `settle`.
  LargeMemory(size_t expected, const Start& start);

  /// Uninitialised bytes at a multiple of 64, with 64 more behind them; null where the memory is refused. Their pages go back to the system
  /// with the last pointer to them, whatever else of a block is in use.
  std::shared_ptr<void> allocate(size_t bytes);
  /// What is wanted has been allocated: no more pages are fetched, and those fetched in vain go back.
  void settle();
  /// Fetches the large pages of memory that is to be written next. When they come slowly, all that are not there yet will be small: if the
  /// host of a virtual machine has taken free memory back, a large page takes as long as seven times its size in small ones. Thread-safe,
  /// if nothing is allocated meanwhile.
  void fetch(void* p, size_t bytes) const noexcept;

  bool has_small_pages() const { return !*quick_; }
  /// Joins the small pages of some memory that has been written to into a large one, which takes milliseconds; false where nothing is left.
  /// What lies there may be read and written meanwhile.
  bool join_pages() noexcept;

private:
  struct Ahead;
  struct Block { // of address space: what is not used takes no memory
    std::shared_ptr<char> memory;
    size_t used, size;
  };
  bool add_block(size_t bytes);

  std::shared_ptr<Ahead> ahead_;
  std::vector<Block> blocks_;                // the last one is being filled
  std::shared_ptr<std::atomic<bool>> quick_; // large pages come quickly
  size_t joined_block_ = 0, joined_ = 0;
};

/// Gives the whole pages inside of `part` back, where it lies in `file`, a mapped file that nothing writes to: what reads them again finds
/// them there.
void drop_pages(std::span<const std::byte> part, std::span<const std::byte> file);
/// A tensor's memory; empty where it has gaps.
std::span<const std::byte> memory_of(const Tensor& t);

} // namespace tenon
