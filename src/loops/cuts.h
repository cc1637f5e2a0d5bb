// Loops whose body differs by where the index lies (what a concatenation, a roll, a padding read from) in parts without conditions.
#pragma once
#include "loops/region_draft.h"

namespace tenon {

/// The loop, or those over its parts, in order.
std::vector<Stmt> cut_at_conditions(RegionDraft& draft, Loop loop);

} // namespace tenon
