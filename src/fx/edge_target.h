// How ExecuTorch spells the operators of its Edge dialect.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

/// executorch.exir.dialects.edge._ops.aten.add.Tensor, in the print of a graph.
inline constexpr std::string_view edge_prefix = "executorch.exir.dialects.edge._ops.";
/// executorch_exir_dialects_edge__ops_aten_add_Tensor, in Python code.
inline constexpr std::string_view flat_edge_prefix = "executorch_exir_dialects_edge__ops_";

/// "aten::add.Tensor" of either spelling; none for other targets.
std::optional<std::string> edge_operator(std::string_view target);
/// The first spelling of "aten::add.Tensor".
std::string edge_target(std::string_view op);

} // namespace tenon
