// Blocks of address space, and large pages as soon as one is filled: fewer faults while it is written, fewer TLB misses later.
#include "base/large_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>

namespace tenon {

namespace {

constexpr size_t page = 4096, large_page = 2 << 20;
constexpr size_t block_bytes = 64 << 20;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

std::shared_ptr<char> map_block(size_t bytes) {
  size_t all = bytes + large_page;
  void* p = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  std::shared_ptr<void> owner(p, [all](void* q) { munmap(q, all); });
  return {owner, reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(p), large_page))};
}

void drop(const void* from, size_t bytes) {
  auto begin = round_up(reinterpret_cast<uintptr_t>(from), page), end = (reinterpret_cast<uintptr_t>(from) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

} // namespace

std::shared_ptr<void> allocate_memory(size_t bytes) {
  bool large = bytes >= 2 * large_page;
  void* p = nullptr;
  if (posix_memalign(&p, large ? large_page : 64, (bytes + 127) / 64 * 64) != 0) return nullptr;
  if (large) madvise(p, bytes / large_page * large_page, MADV_HUGEPAGE);
  return {p, [](void* q) { std::free(q); }};
}

/// Fetches the pages of a block one after the other until it is ended. Faults do not hold up what others ask of the address space, as
/// madvise with MADV_POPULATE_WRITE does.
struct LargeMemory::Ahead {
  std::shared_ptr<char> block;
  size_t bytes;
  std::atomic<bool> ended{false};
  std::mutex at_work;

  void fetch() {
    std::scoped_lock lock(at_work);
    for (size_t at = 0; at < bytes && !ended; at += page) block.get()[at] = 0;
  }
  void end() {
    ended = true;
    std::scoped_lock lock(at_work);
    block = nullptr; // `fetch` may begin yet
  }
};

LargeMemory::LargeMemory(size_t expected, const Start& start) {
  size_ = round_up(expected, large_page);
  block_ = map_block(size_);
  if (!block_) {
    size_ = 0;
    return;
  }
  madvise(block_.get(), size_, MADV_HUGEPAGE);
  auto ahead = std::make_shared<Ahead>(block_, size_);
  ahead_ = {ahead.get(), [ahead](Ahead* a) { a->end(); }};
  start([ahead] { ahead->fetch(); });
}

void LargeMemory::settle() {
  if (!ahead_) return;
  ahead_ = nullptr;
  drop(block_.get() + used_, size_ - used_);
}

std::shared_ptr<void> LargeMemory::allocate(size_t bytes) {
  size_t padded = round_up(bytes, 64) + 64;
  if (padded > size_ - used_) {
    settle();
    size_ = std::max(block_bytes, round_up(padded, large_page)), used_ = 0;
    block_ = map_block(size_);
    if (!block_) return size_ = 0, nullptr;
  }
  char* p = block_.get() + used_;
  size_t first = used_ / large_page * large_page;
  used_ += padded;
  if (used_ >= large_page && !ahead_) madvise(block_.get() + first, round_up(used_, large_page) - first, MADV_HUGEPAGE);
  return {p, [block = block_, bytes](void* q) { drop(q, bytes); }};
}

void drop_pages(std::span<const std::byte> part, std::span<const std::byte> file) {
  if (part.size() <= file.size() && part.data() >= file.data() && part.data() <= file.data() + (file.size() - part.size()))
    drop(part.data(), part.size());
}

std::span<const std::byte> memory_of(const Tensor& t) {
  if (!t.is_contiguous()) return {};
  return {t.data_as<std::byte>(), static_cast<size_t>(t.numel()) * size_of(t.dtype())};
}

} // namespace tenon
