#include "codegen/code.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace tenon {
namespace {

std::atomic<size_t> bytes_held{0};

size_t whole_pages(size_t bytes) {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

} // namespace

CodePages::CodePages(size_t bytes) {
  size_t size = whole_pages(bytes);
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return;
  data_ = static_cast<uint8_t*>(p), size_ = size;
  bytes_held += size;
}

CodePages::~CodePages() {
  if (!data_) return;
  munmap(data_, size_);
  bytes_held -= size_;
}

bool CodePages::seal(size_t bytes) {
  size_t end = whole_pages(bytes);
  if (end <= sealed_) return true;
  if (mprotect(data_ + sealed_, end - sealed_, PROT_READ | PROT_EXEC) != 0) return false;
  sealed_ = end;
  return true;
}

void CodePages::trim() {
  if (sealed_ == size_ || munmap(data_ + sealed_, size_ - sealed_) != 0) return;
  bytes_held -= size_ - sealed_;
  size_ = sealed_;
  if (size_ == 0) data_ = nullptr;
}

size_t CodePages::held() { return bytes_held; }

} // namespace tenon
