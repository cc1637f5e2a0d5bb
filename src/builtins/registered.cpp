// Operators that were registered at run time.
#include <algorithm>
#include <deque>
#include <mutex>
#include <shared_mutex>

#include "builtins/resolve.h"

namespace tenon {

namespace {

struct Registry {
  std::shared_mutex mutex;
  std::deque<BuiltinOp> ops; // their addresses stay
};
Registry& registry() {
  static Registry r;
  return r;
}

std::string_view without_overload(std::string_view name) { return name.substr(0, name.find('.')); }

} // namespace

std::vector<const BuiltinOp*> find_registered(std::string_view name) {
  std::vector<const BuiltinOp*> found;
  std::shared_lock lock(registry().mutex);
  for (const BuiltinOp& op : registry().ops)
    if (without_overload(op.signature.name) == name) found.push_back(&op);
  return found;
}

void register_builtin(BuiltinOp op) {
  op.signature = parse_schema(op.schema);
  const std::string& name = op.signature.name;
  std::string_view dialect = OpId(name).dialect();
  for (std::string_view own : {"aten", "prim", "prims", "quantized", "edge", "tenon", ""})
    require_input(dialect != own, "{}: an operator of the user has a namespace of its own", name);
  require_input(!op.signature.any_args && !op.signature.any_returns, "{}: what an operator takes and gives has types", name);
  require_input(find_op(name) == nullptr, "{} is registered already, with another meaning", name);
  std::unique_lock lock(registry().mutex);
  bool is_new = std::ranges::none_of(registry().ops, [&](const BuiltinOp& o) { return o.signature.name == name; });
  require_input(is_new, "{} is registered already", name);
  registry().ops.push_back(std::move(op));
}

} // namespace tenon
