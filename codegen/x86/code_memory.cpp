#include "codegen/x86/code_memory.h"

#include "base/check.h"
#include "codegen/code_count.h"

namespace tenon {

uint8_t* CodeMemory::begin() {
  open_ = CodePages(max_kernel_bytes);
  require_input(open_.data() != nullptr, "the system refuses memory for generated code");
  return open_.data();
}

void* CodeMemory::commit(size_t bytes) {
  require_input(open_.seal(bytes), "the system refuses to make generated code executable");
  kernels_.push_back(std::move(open_));
  last_bytes_ = bytes;
  pieces_of_code++;
  return kernels_.back().data();
}

void CodeMemory::name(const std::string& name) {
  NamedCode code = {name, kernels_.back().data(), last_bytes_};
  names_.emplace_back(std::span(&code, 1));
}

} // namespace tenon
