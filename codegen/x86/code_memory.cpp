// Page-wise executable memory over mmap and mprotect.
#include "codegen/x86/code_memory.h"

#include <sys/mman.h>

#include "base/check.h"
#include "codegen/code_count.h"

namespace tenon {

static constexpr size_t page = 4096;

CodeMemory::CodeMemory(size_t bytes) : bytes_(bytes) {
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require_input(p != MAP_FAILED, "out of memory: {} bytes of address space for generated code", bytes);
  base_ = static_cast<uint8_t*>(p);
}

CodeMemory::~CodeMemory() { munmap(base_, bytes_); }

uint8_t* CodeMemory::begin() {
  require(used_ + max_kernel_bytes <= bytes_, "the memory for generated micro-kernels is used up");
  int failed = mprotect(base_ + used_, max_kernel_bytes, PROT_READ | PROT_WRITE);
  require_input(failed == 0, "the system refuses memory for generated code");
  return base_ + used_;
}

void* CodeMemory::commit(size_t bytes) {
  uint8_t* start = base_ + used_;
  size_t whole = (bytes + page - 1) / page * page;
  int failed = mprotect(start, whole, PROT_READ | PROT_EXEC);
  require_input(failed == 0, "the system refuses to make generated code executable");
  used_ += whole;
  pieces_of_code++;
  return start;
}

} // namespace tenon
