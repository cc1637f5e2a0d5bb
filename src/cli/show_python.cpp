// `tenon show --python`: a program as source for others to read and run.
#include <fmt/core.h>

#include <fstream>

#include "aten/passes.h"
#include "cli/commands.h"
#include "fx/from_graph.h"
#include "fx/python_module.h"
#include "fx/text.h"
#include "load/load.h"
#include "load/npz.h"

namespace tenon::cli {

namespace {

void write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  require_input(out.good(), "cannot write '{}'", path);
}

// "FILE.py": its weights go to FILE.npz.
std::string weights_path(const std::string& output) {
  require_input(output.ends_with(".py"), "-o: '{}' is no name of a Python file, FILE.py", output);
  return output.substr(0, output.size() - 3) + ".npz";
}

// Duals live on a level that torch enters outside of the graph: their tangents are computed beside them instead.
FxGraph load_as_fx(const Model& model) {
  LoadedProgram program = load_pt2(model.file, model.method);
  forward_ad(program);
  return fx_of(program);
}

} // namespace

int show_python(const ShowArgs& args) {
  FxGraph fx = args.model.file.ends_with(".pt2") ? load_as_fx(args.model) : parse_fx(read_file(args.model.file));
  auto weights = weights_of(fx);
  std::string path = args.output.empty() ? "" : weights_path(args.output);
  std::string title =
      fmt::format("{} as a module of torch; its weights are arrays of an .npz.", args.model.file.substr(args.model.file.rfind('/') + 1));
  std::string text = python_module(fx, "Program", title);
  if (args.output.empty()) return std::fputs(text.c_str(), stdout) < 0;
  write_text(args.output, text);
  if (!weights.empty()) write_npz(path, weights);
  return 0;
}

} // namespace tenon::cli
