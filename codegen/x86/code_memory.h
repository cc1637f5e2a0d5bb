// Executable memory of the micro-kernels: a reserved address range, given out by whole pages. A page is writable while
// its kernel is emitted and executable afterwards, never both.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tenon {

class CodeMemory {
public:
  static constexpr size_t max_kernel_bytes = size_t{1} << 16;

  explicit CodeMemory(size_t bytes);
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  /// Writable memory of max_kernel_bytes, where the next kernel goes. Throws Error when the range is used up.
  uint8_t* begin();
  /// Ends the kernel that begin() started: its pages turn executable.
  void* commit(size_t bytes);

private:
  uint8_t* base_;
  size_t bytes_, used_ = 0;
};

} // namespace tenon
