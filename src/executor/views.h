// Views as strides: where the elements of an operator's result lie in the memory of its operand.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace tenon::executor {

struct StridedView {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0; // in elements, from the operand's first
};

/// How result `v` of an Edge graph shows its only parameter, whose strides are given; none where it does not, or at no regular distances.
/// All sizes in the graph are numbers.
std::optional<StridedView> strided_view(const Graph& graph, ValueId v, std::span<const int64_t> strides);

} // namespace tenon::executor
