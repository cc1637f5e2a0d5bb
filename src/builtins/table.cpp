// The table of TorchScript's own operators: the families' rows, with their schemas parsed, found by name.
#include "builtins/builtin.h"

#include <algorithm>
#include <map>

namespace tenon {

namespace {

struct Table {
  std::vector<BuiltinOp> ops;
  std::map<std::string, std::vector<const BuiltinOp*>, std::less<>> by_name;
};

Table make_table() {
  Table table;
  for (auto& row : builtins::all_rows()) table.ops.push_back({row, parse_schema(row.schema)});
  for (auto& op : table.ops) table.by_name[op.schema.substr(0, op.schema.find_first_of(".("))].push_back(&op);
  return table;
}

const Table& table() {
  static const Table all = make_table();
  return all;
}

} // namespace

std::span<const BuiltinOp* const> find_builtins(std::string_view name) {
  auto place = table().by_name.find(name);
  return place == table().by_name.end() ? std::span<const BuiltinOp* const>() : place->second;
}

std::vector<const BuiltinOp*> all_builtins() {
  std::vector<const BuiltinOp*> all;
  for (auto& [name, ops] : table().by_name) all.insert(all.end(), ops.begin(), ops.end());
  return all;
}

bool is_pure(const BuiltinOp& op) {
  auto is_plain = [](const SchemaArg& arg) {
    Type type = type_of(arg);
    if (type.is(TypeKind::Optional)) type = type.element();
    return type.is_number() || type.is(TypeKind::Bool) || type.is(TypeKind::String) || type.is(TypeKind::Device);
  };
  bool has_effect = op.signature.returns.empty() || op.schema.starts_with("prim::TimePoint");
  bool open = op.signature.any_args || op.signature.any_returns || op.bind;
  return !has_effect && !open && std::ranges::all_of(op.signature.args, is_plain) && std::ranges::all_of(op.signature.returns, is_plain);
}

std::vector<BuiltinRow> builtins::all_rows() {
  std::vector<BuiltinRow> all;
  for (auto family : {conversion_rows, list_rows, tensor_rows, tensor_pair_rows, string_rows, number_rows, order_rows, math_rows,
                      format_rows, dict_rows, object_rows, gradient_rows}) {
    auto rows = family();
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

} // namespace tenon
