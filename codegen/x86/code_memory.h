// Executable memory of the micro-kernels: one behind the other, each in pages of its own, kept as long as this.
#pragma once
#include <string>
#include <vector>

#include "codegen/code.h"
#include "codegen/code_names.h"

namespace tenon {

class CodeMemory {
public:
  static constexpr size_t max_kernel_bytes = size_t{1} << 16;

  /// Writable memory of max_kernel_bytes for the next kernel. Throws Error where the system refuses it.
  uint8_t* begin();
  /// Ends the kernel that begin() started: its pages turn executable.
  void* commit(size_t bytes);
  /// What perf and gdb shall call the kernel that was committed last.
  void name_last(const std::string& name);

private:
  std::vector<CodePages> pages_; // the last is being filled
  size_t used_ = 0;              // bytes of it
  size_t last_ = 0, last_bytes_ = 0;
  std::vector<CodeNames> names_;
};

} // namespace tenon
