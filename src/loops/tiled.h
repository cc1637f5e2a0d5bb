// Nests whose loads and stores are contiguous along different axes: they run over both in tiles that are turned round in registers.
#pragma once
#include "loops/region_draft.h"

namespace tenon {

struct Tile {
  Expr vector, other;    // axes: of the lanes, and the one that is unrolled
  int lanes, count;      // elements of a tile along them; count 0: a transpose of any size
  bool reversed = false; // loads run backwards along `other`
};
/// Of a region without reductions; nothing where all that moves moves along one axis.
std::optional<Tile> tile_of(const RegionDraft& draft);
void tiled_nest(RegionDraft& draft, const Tile& tile);

} // namespace tenon
