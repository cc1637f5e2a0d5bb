// What of a matrix product is asked for ahead, by where it lies. The hardware fetches what the last cache holds in time; asking for it
// takes its place.
#pragma once
#include "runtime/matmul.h"

namespace tenon {

inline constexpr int64_t page_bytes = 4096; // lines so far apart share a set of L1

/// Whether the last cache may hold an operand of a product, of all its batches.
bool lies_near(const Caches& caches, DType type, int64_t elements, const int64_t (&strides)[2], const Matmul& m);

/// Whether the lines of a B in place are asked for: those from memory, and those that would share sets of L2 with all others.
bool asks_for_b(const Caches& caches, const Matmul& m);

/// Whether the next rows of A are asked for: those that the last cache hardly holds beside other threads' and what is written.
bool asks_for_rows(const Caches& caches, const MatmulPlan& plan, const Matmul& m);

/// Whether lines of results are asked for before their tile: what an epilogue reads and writes, where L2 does not hold it; those of C,
/// whose stores nothing waits for, where they come from memory.
bool looks_for_results(const GemmFamily& family, const Caches& caches, const Matmul& m);

} // namespace tenon
