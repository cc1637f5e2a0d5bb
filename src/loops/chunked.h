// Reductions to few results: the reduced axes in chunks, so that all threads have work. A kernel a level adds up chunks to
// partial results in memory; the next one begins by combining them, the last one stores what was asked for. The chunks depend
// on the sizes only, and so do the results.
#pragma once
#include "loops/region_draft.h"

namespace tenon {

struct Chunks {
  Expr axis, size; // the reduced axis that is cut, and the elements of a chunk
};
/// How to cut a region's reduced axes; nothing where its kept axes give work enough, or little is reduced.
std::optional<Chunks> chunks_of(const RegionDraft& draft);
RegionKernels chunked_kernels(RegionDraft& draft, const Chunks& chunks);

} // namespace tenon
