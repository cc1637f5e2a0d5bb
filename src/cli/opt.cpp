// `tenon opt`: runs passes by name on a graph as text or a .pt2, and prints the graph as text, or writes it as a .pt2.
#include <fmt/core.h>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/print.h"
#include "compile/compile.h"
#include "edge/constraints.h"
#include "fx/from_graph.h"
#include "fx/text.h"
#include "fx/to_graph.h"
#include "ir/parse.h"
#include "ir/pass_runner.h"
#include "ir/verify.h"
#include "load/load.h"

namespace tenon::cli {

namespace {

LoadedProgram load(const std::string& path) {
  if (path.ends_with(".pt2")) return load_pt2(path);
  std::string text = read_file(path);
  bool is_fx = text.starts_with("graph():\n    %") || text.starts_with("class ") || text.starts_with("def "); // FX indents by four
  if (is_fx) return program_of(parse_fx(text));
  ParsedGraph parsed = parse_graph(text);
  if (parsed.missing_tensors > 0)
    fmt::print(stderr, "tenon: {} constants are only named in the text: they are all zeros here\n", parsed.missing_tensors);
  return program_of(std::move(parsed.graph));
}

} // namespace

int opt(const OptArgs& args) {
  LoadedProgram program = load(args.file);
  std::vector<Pass> passes;
  for (const std::string& name : args.passes) passes.push_back(find_pass(name));
  PassOptions options = pass_options_from_env();
  options.verify = true;
  PassRunner runner(options);
  std::vector<EdgeOp> types;
  if (!args.edge_types.empty()) types = parse_edge_yaml(read_file(args.edge_types));
  runner.check = [&](const LoadedProgram& p) {
    verify_program(p);
    check_edge_types(p.graph, types, ErrorKind::BadInput);
  };
  verify_given_program(program, Dialect::Any, args.file);
  if (args.contiguous) verify_contiguous(program.graph);
  check_edge_types(program.graph, types, ErrorKind::BadInput);
  std::string ran;
  for (const Pass& pass : passes) {
    std::string before = args.json ? to_string(program.graph) : "";
    bool goes_on = runner.run(program, std::span(&pass, 1));
    if (args.json)
      ran += (ran.empty() ? "" : ", ") + JsonObject().text("pass", pass.name).flag("changed", to_string(program.graph) != before).str();
    if (!goes_on) break;
  }
  std::string text = !args.json && !args.output.empty() ? "" : args.fx ? to_string(fx_of(program.graph)) + "\n" : to_string(program.graph);
  if (!args.output.empty()) save_pt2(std::move(program), args.output);
  if (args.json) {
    JsonObject json;
    json.json("passes", "[" + ran + "]").json("output", args.output.empty() ? "null" : json_quote(args.output)).text("graph", text);
    fmt::print("{}\n", json.str());
  } else if (args.output.empty()) fmt::print("{}", text);
  return 0;
}

} // namespace tenon::cli
