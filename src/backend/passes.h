// Edge to Backend, in order.
#pragma once
#include "ir/pass.h"

namespace tenon {

/// Convolutions work on channels-last memory: their operands get it by tenon::to_layout copies, results keep it as long as
/// pointwise operators and poolings follow; windows of one pixel between row-major tensors become products instead; library steps and
/// control flow read row-major copies, and the program's outputs are row-major again.
bool choose_layout(LoadedProgram& program);
/// What a cat joins is made in the memory of its result where that can be, and copied there otherwise; the cat becomes tenon::join, which
/// has nothing to do. Cats that would be copied anyway, or not at all, stay.
bool join_in_place(LoadedProgram& program);
/// Cats of more operands than a loop is cut for become cats of cats.
bool split_cats(LoadedProgram& program);
/// Groups nodes into regions, each one step of the plan:
///   tenon::loops   pointwise, views and reductions over one domain, one generated kernel
///   tenon::matmul  a matrix product with what follows element by element
///   tenon::conv    the same for a convolution
///   tenon::attention  softmax(score(Q K^T)) V by blocks of keys, with what follows
/// What is left are edge:: operators that are library steps, tenon::join, and prim::.
bool fuse(LoadedProgram& program);

/// Waits for collectives go behind what can be done meanwhile.
bool overlap_collectives(LoadedProgram& program);

inline constexpr Pass backend_passes[] = {
    {"choose_layout", choose_layout},
    {"join_in_place", join_in_place},
    {"split_cats", split_cats},
    {"fuse", fuse},
    {"overlap_collectives", overlap_collectives},
};

} // namespace tenon
