// The Edge dialect in the public API.
#include "tenon/edge.h"

#include "api/impl.h"
#include "compile/compile.h"
#include "edge/constraints.h"

namespace tenon {

Result<std::vector<DType>> allowed_types(std::string_view op, std::string_view argument) {
  return guarded([&] {
    std::optional<DTypes> set = allowed_set(op, argument);
    if (!set) bad_input("no Edge operator {} has an argument or result {}", op, argument);
    std::vector<DType> out;
    for (int t = 0; t < num_dtypes; t++)
      if (*set >> t & 1) out.push_back(static_cast<DType>(t));
    return out;
  });
}

std::string edge_types_yaml() { return to_yaml(edge_ops()); }

Status Program::check_edge_types(std::string_view edge_yaml) const {
  auto done = guarded([&] {
    std::vector<EdgeOp> given = parse_edge_yaml(edge_yaml);
    LoadedProgram program = impl_->loaded;
    lower(program, "edge");
    tenon::check_edge_types(program.graph, given, ErrorKind::BadInput);
    return true;
  });
  return done ? Status() : Status(done.error());
}

} // namespace tenon
