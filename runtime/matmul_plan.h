// What the decisions of a matrix product have in common: internal to them.
#pragma once
#include "runtime/matmul.h"

namespace tenon {

/// Cycles to pack a byte of B.
inline double packing(const GemmFamily& f, const Matmul& m) { return m.b_n == 1 ? f.group == 1 ? 0.07 : 0.2 : 0.18; }
inline bool uses_dots(BUse use) { return use == BUse::Dot || use == BUse::GatherDot; }

/// The items that the workers share out, after panels, tiles and blocks are chosen.
void choose_items(MatmulPlan& plan, const GemmFamily& family, const Caches& caches, int threads, const Matmul& m);

/// Cycles of the worker that has most to do, with the rows of A read anew for each panel.
double expected_cycles(const MatmulPlan& plan, const GemmFamily& family, int threads, const Matmul& m);

} // namespace tenon
