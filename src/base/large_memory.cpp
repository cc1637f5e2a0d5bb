// Blocks of address space, and large pages as soon as one is filled: fewer faults while it is written, fewer TLB misses later.
#include "base/large_memory.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <mutex>

namespace tenon {

namespace {

constexpr size_t page = 4096, large_page = 2 << 20;
constexpr size_t block_bytes = 64 << 20;
constexpr int collapse = 25; // MADV_COLLAPSE, which the headers of Debian 12 do not have

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

char* up_to_page(void* p) { return reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(p), large_page)); }

std::shared_ptr<char> map_block(size_t bytes) {
  size_t all = bytes + large_page;
  void* p = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  std::shared_ptr<void> owner(p, [all](void* q) { munmap(q, all); });
  return {owner, up_to_page(p)};
}

void drop(const void* from, size_t bytes) {
  auto begin = round_up(reinterpret_cast<uintptr_t>(from), page), end = (reinterpret_cast<uintptr_t>(from) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

double thread_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

/// Fetches a page, large if it may be; false when those that were fetched lately took longer than small ones would have, by so much
/// that it is not by chance.
bool fetch_page(char* p) {
  constexpr double of_small_ones = 0.7; // ms in a virtual machine, 0.2 to 0.4 elsewhere; clearing a large one is 0.05 to 0.3
  constexpr double much = 10;           // ms
  static std::atomic<double> lost{0};   // by large pages. What is lost of it where threads meet does not matter
  double begin = thread_ms();
  __atomic_fetch_or(p, 0, __ATOMIC_RELAXED); // another thread may be writing there
  double more = thread_ms() - begin - of_small_ones, before = lost, now = before + more;
  if (more < 0) now = before > much ? much : std::max(now, 0.0); // a quick one: they are tried again
  lost = std::min(now, 2 * much);
  return now <= much;
}

bool all_there(char* p) {
  unsigned char pages[large_page / page];
  return mincore(p, large_page, pages) == 0 && std::ranges::all_of(pages, [](unsigned char c) { return c & 1; });
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
  LargeMemory place; // a block
  std::atomic<bool> ended{false};
  std::mutex at_work;

  void fetch() {
    std::scoped_lock lock(at_work);
    if (place.blocks_.empty()) return;
    const Block& b = place.blocks_.back();
    for (char *p = b.memory.get(), *last = p + b.size; p < last && !ended; p += page) {
      place.fetch(p, 1);
      *p = 0;
    }
  }
  void end() {
    ended = true;
    std::scoped_lock lock(at_work);
    place.blocks_.clear(); // `fetch` may begin yet
  }
};

LargeMemory::LargeMemory(Pages pages) : quick_(std::make_shared<std::atomic<bool>>(pages == Pages::Large)) {}

LargeMemory::LargeMemory(size_t expected, const Start& start) : LargeMemory() {
  if (!add_block(round_up(expected, large_page))) return;
  madvise(blocks_.back().memory.get(), blocks_.back().size, MADV_HUGEPAGE);
  auto ahead = std::make_shared<Ahead>(*this);
  ahead_ = {ahead.get(), [ahead](Ahead* a) { a->end(); }};
  start([ahead] { ahead->fetch(); });
}

void LargeMemory::settle() {
  if (!ahead_) return;
  ahead_ = nullptr;
  Block& b = blocks_.back();
  drop(b.memory.get() + b.used, b.size - b.used);
}

bool LargeMemory::add_block(size_t bytes) {
  std::shared_ptr<char> block = map_block(bytes);
  if (!block) return false;
  blocks_.push_back({std::move(block), 0, bytes});
  return true;
}

std::shared_ptr<void> LargeMemory::allocate(size_t bytes) {
  size_t padded = round_up(bytes, 64) + 64;
  if (blocks_.empty() || padded > blocks_.back().size - blocks_.back().used) {
    settle();
    if (!add_block(std::max(block_bytes, round_up(padded, large_page)))) return nullptr;
  }
  Block& b = blocks_.back();
  char* p = b.memory.get() + b.used;
  size_t first = b.used / large_page * large_page;
  b.used += padded;
  if (b.used >= large_page && !ahead_ && *quick_) madvise(b.memory.get() + first, round_up(b.used, large_page) - first, MADV_HUGEPAGE);
  return {p, [block = b.memory, bytes](void* q) { drop(q, bytes); }};
}

void LargeMemory::fetch(void* p, size_t bytes) const noexcept {
  char* end = static_cast<char*>(p) + bytes;
  for (char* at = up_to_page(p); at < end && *quick_; at += large_page)
    if (!fetch_page(at) && quick_->exchange(false))
      for (const Block& b : blocks_) madvise(b.memory.get(), b.size, MADV_NOHUGEPAGE);
}

bool LargeMemory::join_pages() noexcept {
  for (; joined_block_ < blocks_.size(); joined_block_++, joined_ = 0) {
    const Block& b = blocks_[joined_block_];
    char* p = b.memory.get() + joined_;
    if (joined_ + large_page > b.used) continue;
    joined_ += large_page;
    if (!all_there(p)) return true; // it was given back
    madvise(p, large_page, MADV_HUGEPAGE);
    return madvise(p, large_page, collapse) == 0 || errno != EINVAL; // before Linux 6.1 the system does it by itself, some time
  }
  return false;
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
