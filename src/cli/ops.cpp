// `tenon ops`: what can run at all.
#include <fmt/core.h>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "edge/constraints.h"
#include "ir/op.h"

namespace tenon::cli {

namespace {

constexpr const char* how(const OpDef& op) {
  switch (op.kind) {
  case Kind::Pointwise: return "pointwise, generated code";
  case Kind::View: return "view or index map, generated code";
  case Kind::Reduce: return "reduction, generated code";
  case Kind::Matmul: return "matrix product, micro-kernels (f32) or generated code";
  case Kind::Conv: return "convolution, micro-kernels (f32) or generated code";
  case Kind::Library: return op.data_dependent ? "library step, sizes from data" : "library step";
  case Kind::Composite: return "decomposed";
  case Kind::Prim: return "plan";
  }
  return "";
}

std::string dtypes_of(const OpDef& op) {
  if (op.is_composite()) return "as its parts";
  std::string s;
  for (int t = 0; t < num_dtypes; t++)
    if (op.dtypes >> t & 1) s += (s.empty() ? "" : " ") + std::string(name_of(static_cast<DType>(t)));
  return s;
}

std::string json_of(const OpDef& op, const std::string& name, const char* dialect) {
  std::string types;
  for (int t = 0; t < num_dtypes; t++)
    if (op.dtypes >> t & 1) types += (types.empty() ? "" : ", ") + json_quote(name_of(static_cast<DType>(t)));
  return JsonObject()
      .text("name", name)
      .text("schema", op.schema)
      .text("dialect", dialect)
      .text("how", how(op))
      .json("dtypes", op.is_composite() ? "null" : "[" + types + "]")
      .str();
}

// The operators as one of two texts, or as JSON.
void print_ops(const OpsArgs& args, const std::vector<const OpDef*>& all) {
  std::string entries;
  for (const OpDef* op : all) {
    std::string name(op->schema.substr(0, op->schema.find('(')));
    const char* dialect = op->kind == Kind::Prim ? "all" : op->stays_in_edge() ? "aten, edge" : "aten";
    if (args.json) entries += (entries.empty() ? "" : ", ") + json_of(*op, name, dialect);
    else if (args.markdown) fmt::print("| `{}` | {} | {} | {} |\n", name, dialect, how(*op), op->is_composite() ? "" : dtypes_of(*op));
    else fmt::print("{:<56} {:<11} {:<54} {}\n", name, dialect, how(*op), dtypes_of(*op));
  }
  if (args.json) fmt::print("{{\"operators\": [{}]}}\n", entries);
}

} // namespace

int ops(const OpsArgs& args) {
  if (!args.allowed.empty()) {
    std::vector<DType> types = allowed_types(args.allowed[0], args.allowed[1]).value();
    if (args.json) fmt::print("{{\"dtypes\": {}}}\n", json_array(types, [](DType t) { return json_quote(torch_name(t)); }));
    else
      for (DType t : types) fmt::print("{}\n", torch_name(t));
    return 0;
  }
  if (args.edge_yaml) return std::fputs(to_yaml(edge_ops()).c_str(), stdout) < 0;
  auto all = all_ops();
  if (args.markdown)
    fmt::print("# Operators\n\nEvery overload with a row, in-place forms apart: `tenon ops --markdown` wrote this. A decomposed operator "
               "has the dtypes of its parts.\n\n"
               "| operator | dialect | how it runs | dtypes |\n|---|---|---|---|\n");
  print_ops(args, all);
  if (!args.markdown && !args.json) fmt::print("{} operators\n", all.size());
  return 0;
}

} // namespace tenon::cli
