// What the decisions of a matrix product have in common: internal to them.
#pragma once
#include "runtime/matmul.h"
#include "runtime/matmul_ahead.h"

namespace tenon {

/// Cycles to pack a byte of B.
inline double packing(const GemmFamily& f, const Matmul& m) { return m.b_n == 1 ? f.group == 1 ? 0.07 : 0.2 : f.group == 1 ? 0.12 : 0.18; }
inline bool uses_dots(BUse use) { return use == BUse::Dot || use == BUse::GatherDot; }

/// Few rows, whose tiles depend on how many they are.
inline constexpr int64_t in_place_rows = 16;
inline constexpr int64_t max_super_rows = 512;
inline constexpr int64_t stream_bytes = 16384; // of a row of B, and at most so many of C, which stay in L1
/// Dot products read B's columns where they lie, or gather up to so many.
inline constexpr int64_t most_gathered = 15;

/// Steps of k before a B in place is continued in the next columns: keeps the pages in use few.
inline constexpr int64_t in_place_depth = 256;
/// Whether L2 holds a line of each of these steps, a page apart: then a second pass finds them there.
inline bool holds_paged_lines(const Caches& caches) { return caches.l2 / page_bytes >= in_place_depth; }

/// The panels of a B in place: few rows take tiles that depend on how many they are.
Panels in_place_panels(const GemmFamily& f, int64_t m, int64_t n, int64_t k, bool asks);
/// Cycles of a product that reads B so, without what all have in common; 1e300 where it cannot.
double cycles_of(BUse use, const GemmFamily& f, const Caches& caches, const Matmul& m);

/// Tile registers: rows that may stream past panels of B; what was just read from memory is soon thrown out of L2.
inline constexpr int64_t most_streamed_rows = 256;
bool crowds_l1(const GemmFamily& f, const Caches& caches, int64_t row_bytes, int64_t k);
bool streams_rows(const MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m);
void choose_tiled_blocks(MatmulPlan& p, const GemmFamily& f, const Caches& caches, const Matmul& m);

/// The items that the workers share out, after panels, tiles and blocks are chosen.
void choose_items(MatmulPlan& plan, const GemmFamily& family, const Caches& caches, int threads, const Matmul& m);

/// Cycles of the worker that has most to do, with the rows of A read anew for each panel.
double expected_cycles(const MatmulPlan& plan, const GemmFamily& family, int threads, const Matmul& m);

} // namespace tenon
