// The one contract between generated code and the runtime: how a kernel finds its buffers, sizes and share of the work.
#pragma once
#include <cstdint>

namespace tenon {

/// Arguments of every generated pointwise or reduction kernel. `buffers[i]` is the start of operand i (inputs, then
/// outputs), `scalars[i]` the value of the kernel's i-th size parameter, `scratch` at least the bytes the kernel asked for,
/// private to the calling thread, 64-byte aligned. Float scalars are the bits of a double. A kernel that meets an index out
/// of range stores the index and the size to `error[1]`, `error[2]`, sets `error[0]` to 1, and goes on with index 0.
struct KernelArgs {
  void* const* buffers;
  const int64_t* scalars;
  void* scratch;
  int64_t* error;
};

/// Runs iterations [begin, end) of the kernel's outer, parallel loop.
using KernelFn = void (*)(const KernelArgs*, int64_t begin, int64_t end);

} // namespace tenon
