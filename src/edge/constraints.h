// Which dtypes the arguments and results of each Edge operator may have, in the language of ExecuTorch's edge.yaml:
//   - func: add.Tensor
//     namespace: edge
//     inherits: aten::add.Tensor
//     type_alias:
//       T0: [Float]
//       T1: [Double]
//     type_constraint:
//     - self: T0
//       other: T0
//       alpha: T1
//       __ret_0: T0
// A call is allowed where one entry of type_constraint holds for all its tensors. The table comes from the operators' rows.
#pragma once
#include <optional>

#include "ir/op.h"

namespace tenon {

inline constexpr DTypes every_type = (DTypes{1} << num_dtypes) - 1;

struct EdgeOp {
  std::string func, name_space, inherits;
  std::vector<std::pair<std::string, DTypes>> aliases;
  /// Each: argument (or __ret_0, __ret_1 ...) -> alias. What is not named is free.
  std::vector<std::vector<std::pair<std::string, std::string>>> constraints;

  std::string name() const { return name_space + "::" + func; }
  const DTypes* alias(std::string_view name) const;
  bool operator==(const EdgeOp&) const = default;
};

/// All Edge operators of ATen, ordered by name. What tenon adds (tenon::) and custom operators have no constraints.
const std::vector<EdgeOp>& edge_ops();
std::string to_yaml(const std::vector<EdgeOp>& ops);
/// Throws Error(BadInput) with the line of what is wrong.
std::vector<EdgeOp> parse_edge_yaml(std::string_view text);
/// "Float, Double": torch's names of the dtypes in a set.
std::string list_of(DTypes types);

/// What an argument, or "__ret_0", may be in any allowed call of "edge::add.Tensor"; none where there is no such operator or
/// argument.
std::optional<DTypes> allowed_set(std::string_view op, std::string_view argument);
/// Throws an Error for the first node that no entry of its operator allows, with the argument, its dtype, and what is allowed.
/// Operators in `instead` are held to what that says of them.
void check_edge_types(const Graph& graph, const std::vector<EdgeOp>& instead = {}, ErrorKind kind = ErrorKind::Internal);

} // namespace tenon
