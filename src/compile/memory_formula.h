// How much memory a plan's temporaries and results take: as expressions over the sizes of its inputs, and for given sizes.
#pragma once
#include "runtime/plan.h"
#include "tenon/program.h"

namespace tenon {

/// From the plan alone. Sizes are called as the program calls them, numbers among the inputs by their names.
MemoryFormula memory_formula(const Plan& plan);
/// What the plan's slots hold, as texts over the sizes of its inputs; "?" where steps find it out.
std::vector<std::string> slot_texts(const Plan& plan);
/// The most bytes of temporaries that are alive at once under the values of slots: what the formula says of them.
size_t alive_bytes(const Plan& plan, const std::vector<int64_t>& slots);

} // namespace tenon
