// Rules of autocast that look at the operands.
#include "ops/autocast.h"

#include <algorithm>

namespace tenon::ops {

std::optional<DType> to_widest(DType lower, const Graph& graph, const ArgList& args) {
  std::vector<ValueId> operands = tensor_operands(args, graph);
  bool wide = std::any_of(operands.begin(), operands.end(), [&](ValueId v) { return graph.type(v).dtype == DType::F32; });
  return wide ? DType::F32 : lower;
}

} // namespace tenon::ops
