// Targets of ExecuTorch's Edge dialect.
#include "fx/edge_target.h"

#include <fmt/core.h>

#include "ir/op.h"

namespace tenon {

namespace {

// "aten_add_Tensor": which '_' stands for "::" and which for '.', the operators that there are tell; of others the first and the last.
std::optional<std::string> unflatten(std::string_view flat) {
  auto split = [&](size_t space, size_t dot) {
    return fmt::format("{}::{}.{}", flat.substr(0, space), flat.substr(space + 1, dot - space - 1), flat.substr(dot + 1));
  };
  for (size_t space = flat.find('_'); space != flat.npos; space = flat.find('_', space + 1))
    for (size_t dot = flat.rfind('_'); dot != flat.npos && dot > space; dot = flat.rfind('_', dot - 1)) {
      std::string op = split(space, dot);
      if (find_op(op)) return op;
    }
  size_t first = flat.find('_'), last = flat.rfind('_');
  return first < last ? std::optional(split(first, last)) : std::nullopt;
}

} // namespace

std::optional<std::string> edge_operator(std::string_view target) {
  if (target.starts_with(flat_edge_prefix)) return unflatten(target.substr(flat_edge_prefix.size()));
  if (!target.starts_with(edge_prefix)) return std::nullopt;
  target.remove_prefix(edge_prefix.size());
  size_t dot = target.find('.');
  if (dot == target.npos) return std::nullopt;
  return fmt::format("{}::{}", target.substr(0, dot), target.substr(dot + 1));
}

std::string edge_target(std::string_view op) {
  size_t colons = op.find("::");
  return fmt::format("{}{}.{}", edge_prefix, op.substr(0, colons), op.substr(colons + 2));
}

} // namespace tenon
