#include "codegen/x86/code_memory.h"

#include "base/check.h"
#include "codegen/code_count.h"

namespace tenon {

static constexpr size_t page = 4096;
/// Address space: some dozens of kernels are usual, of 1 to 16 KB.
static constexpr size_t piece = 8 * CodeMemory::max_kernel_bytes;

uint8_t* CodeMemory::begin() {
  if (pages_.empty() || used_ + max_kernel_bytes > pages_.back().size()) {
    if (!pages_.empty()) pages_.back().trim();
    CodePages fresh(piece);
    require_input(fresh.data() != nullptr, "the system refuses memory for generated code");
    pages_.push_back(std::move(fresh));
    used_ = 0;
  }
  return pages_.back().data() + used_;
}

void* CodeMemory::commit(size_t bytes) {
  require_input(pages_.back().seal(used_ + bytes), "the system refuses to make generated code executable");
  last_ = std::exchange(used_, (used_ + bytes + page - 1) / page * page);
  last_bytes_ = bytes;
  pieces_of_code++;
  return pages_.back().data() + last_;
}

void CodeMemory::name_last(const std::string& name) {
  NamedCode code = {name, pages_.back().data() + last_, last_bytes_};
  names_.emplace_back(std::span(&code, 1));
}

} // namespace tenon
