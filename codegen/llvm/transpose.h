// Transposes of blocks in memory: what generated code calls for nests whose loads and stores are contiguous along different axes.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace tenon {

/// to[i*to_step + j] = from[j*from_step + i] for i < rows, j < columns; steps in elements. `streamed`: past the caches, where lines
/// are whole; the caller fences.
using TransposeFn = void (*)(void* to, int64_t to_step, const void* from, int64_t from_step, int64_t rows, int64_t columns, bool streamed);

struct TransposeRow {
  std::string name; // "tenon_transpose4": of elements of 4 bytes
  TransposeFn function;
};
/// For the machine that runs this, elements of 1, 2, 4 and 8 bytes.
std::span<const TransposeRow> transpose_functions();

} // namespace tenon
