// The module call graph: which modules the source had, and how those are called whose signatures the export kept.
#pragma once
#include "load/json.h"
#include "tenon/signature.h"

namespace tenon {

/// Of a GraphModule object of the schema.
std::vector<ir::ModuleCall> read_module_calls(json::Element module);

} // namespace tenon
