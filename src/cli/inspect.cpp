// `tenon dump`: what the program became.
#include <fmt/core.h>

#include "cli/commands.h"

namespace tenon::cli {

int dump(const DumpArgs& args) {
  if (is_script(args.model.file)) return dump_script(args);
  Program program = load(args.model);
  if (!args.edge_types.empty()) program.check_edge_types(read_file(args.edge_types)).check();
  std::fputs(program.dump(args.stage, args.options).value().c_str(), stdout);
  return 0;
}

} // namespace tenon::cli
