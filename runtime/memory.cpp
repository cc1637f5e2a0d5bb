#include "runtime/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace tenon {

namespace {

constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t least_mapped = size_t{1} << 20; // larger blocks are mapped: they go back to the system when they are freed

// Sizes in four steps for each doubling: a few classes serve all sizes, and at most a fifth of a block is unused.
size_t class_bytes(size_t bytes) {
  bytes = std::max<size_t>(bytes, 64);
  size_t step = std::max<size_t>(64, std::bit_floor(bytes - 1) / 4);
  return (bytes + step - 1) / step * step;
}

size_t class_number(size_t bytes) { // of a result of class_bytes
  size_t low = std::bit_floor(bytes - 1);
  return static_cast<size_t>(std::bit_width(bytes - 1)) * 4 + (bytes - 1 - low) * 4 / low;
}

void* allocate(size_t bytes) {
  if (bytes < least_mapped) return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (bytes >= 2 * huge_page) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

void release(void* p, size_t bytes) {
  if (bytes < least_mapped) std::free(p);
  else munmap(p, bytes);
}

} // namespace

// ---- GrowingBlock

GrowingBlock::~GrowingBlock() { release(); }

void GrowingBlock::release() {
  if (data_) tenon::release(data_, capacity_);
  data_ = nullptr, capacity_ = 0;
}

bool GrowingBlock::reserve(size_t bytes) {
  most_used_ = std::max(most_used_, bytes);
  if (bytes <= capacity_) return true;
  bytes = class_bytes(bytes);
  release();
  data_ = static_cast<char*>(allocate(bytes));
  if (data_) capacity_ = bytes;
  return data_ != nullptr;
}

void GrowingBlock::begin_call() {
  constexpr int window = 256;
  if (++calls_ < window) return;
  if (capacity_ >= least_mapped && most_used_ < capacity_ / 2) release();
  calls_ = 0, most_used_ = 0;
}

// ---- BlockPool

struct BlockPool::State {
  static constexpr size_t most_kept = size_t{256} << 20; // beyond that, blocks go back to the system
  static constexpr uint64_t patience = 512;              // takes that a block waits for
  struct Kept {
    void* block;
    uint64_t since;
  };
  std::mutex mutex;
  std::array<std::vector<Kept>, 260> free; // by class
  size_t bytes = 0;
  uint64_t takes = 0;

  ~State() {
    for (size_t c = 0; c < free.size(); c++)
      for (Kept& k : free[c]) release(k.block, bytes_of(c));
  }
  static size_t bytes_of(size_t number) { // the inverse of class_number
    size_t low = size_t{1} << (number / 4 - 1);
    return low + (number % 4 + 1) * std::max<size_t>(low / 4, 1);
  }
  void* take(size_t& size) {
    std::scoped_lock lock(mutex);
    if (++takes % 64 == 0) drop_old();
    size_t first = class_number(size);
    for (size_t c = first; c < std::min(first + 3, free.size()); c++) {
      if (free[c].empty()) continue;
      void* block = free[c].back().block;
      free[c].pop_back();
      size = bytes_of(c);
      bytes -= size;
      return block;
    }
    return nullptr;
  }
  void give_back(void* block, size_t size) {
    {
      std::scoped_lock lock(mutex);
      if (bytes + size <= most_kept) {
        free[class_number(size)].push_back({block, takes});
        bytes += size;
        return;
      }
    }
    release(block, size);
  }
  void drop_old() {
    for (size_t c = 0; c < free.size(); c++) {
      auto old = std::find_if(free[c].begin(), free[c].end(), [&](const Kept& k) { return k.since + patience >= takes; });
      for (auto k = free[c].begin(); k != old; ++k) release(k->block, bytes_of(c)), bytes -= bytes_of(c);
      free[c].erase(free[c].begin(), old);
    }
  }
};

BlockPool::BlockPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<void> BlockPool::take(size_t bytes) {
  if (bytes > size_t{1} << 62) return nullptr;
  size_t size = class_bytes(bytes);
  void* block = state_->take(size);
  if (!block) block = allocate(size);
  if (!block) return nullptr;
  return std::shared_ptr<void>(block, [s = state_, size](void* p) { s->give_back(p, size); });
}

size_t BlockPool::kept_bytes() const {
  std::scoped_lock lock(state_->mutex);
  return state_->bytes;
}

} // namespace tenon
