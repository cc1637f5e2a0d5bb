// How much machine code this process has made: what shows that a call compiles nothing.
#pragma once
#include <atomic>
#include <cstdint>

namespace tenon {

/// Modules that LLVM compiled, and micro-kernels that were assembled.
inline std::atomic<uint64_t> pieces_of_code{0};

} // namespace tenon
