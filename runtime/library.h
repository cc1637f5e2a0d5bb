// The contract of library steps: hand-written functions that a plan calls where generated code does not pay (sort, topk,
// scatter ...). They see plain memory, never a Graph.
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "tenon/tensor.h"

namespace tenon {

class KernelTable;
class Workers;
struct Caches;

[[noreturn]] inline void wrong_operand(DType t) {
  throw std::invalid_argument("a library step does not take an operand of " + std::string(name_of(t)));
}

/// Memory of one operand. Inputs are contiguous unless the step asked for strides; outputs are contiguous.
struct LibraryTensor {
  void* data;
  DType dtype;
  std::span<const int64_t> sizes;
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  int64_t size(int64_t d) const { return sizes[static_cast<size_t>(d)]; }
  /// The elements, or the numbers that complex ones consist of; an operand whose elements have another size is an error of the call,
  /// and none of its memory is touched.
  template <class T> T* as() const {
    bool complex = dtype == DType::C64 || dtype == DType::C128;
    if (sizeof(T) != size_of(dtype) && !(complex && 2 * sizeof(T) == size_of(dtype))) wrong_operand(dtype);
    return static_cast<T*>(data);
  }
};

struct LibraryCall {
  std::span<const LibraryTensor> inputs;
  std::span<LibraryTensor> outputs;
  std::span<const int64_t> ints;
  std::span<const double> numbers;
  uint64_t seed; ///< of random steps
  /// Gives output `index` its sizes and memory: for steps whose output sizes depend on values. Null on failure.
  void* (*allocate)(void* context, int index, std::span<const int64_t> sizes);
  void* context;
  const Workers* workers; ///< may be null: run on the calling thread
  std::span<const std::string> texts = {};
  const KernelTable* kernels = nullptr; ///< of the machine, for products; null: there are none
  const Caches* caches = nullptr;       ///< beside kernels
};

/// Returns null, or a message: what about the values is wrong ("index 7 is out of range for size 5").
using LibraryFn = const char* (*)(const LibraryCall&);

} // namespace tenon
