// transform: Edge graph to text, through the user's pass, and back.
#include "compile/transform.h"

#include "compile/compile.h"
#include "ir/parse.h"

namespace tenon {

namespace {

void check_same(const Type& was, const Type& now, std::string_view what, size_t i) {
  require_input(to_string(was) == to_string(now), "transform: {} {} was {}, and is {}", what, i, to_string(was), to_string(now));
}

} // namespace

LoadedProgram transform(LoadedProgram program, const std::function<std::string(const std::string&)>& pass) {
  lower(program, "edge");
  const Graph& was = program.graph;
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < was.num_tensors(); i++) tensors.push_back(was.tensor(TensorId{i}));
  ParsedGraph parsed = parse_graph(pass(to_string(was)), tensors);
  require_input(parsed.missing_tensors == 0, "transform: {} constants are not of this program", parsed.missing_tensors);
  const Graph& now = parsed.graph;
  auto &old_params = was.block(was.top()).params, &params = now.block(now.top()).params;
  auto &old_returns = was.block(was.top()).returns, &returns = now.block(now.top()).returns;
  require_input(params.size() == old_params.size() && returns.size() == old_returns.size(),
                "transform: {} parameters and {} results, there were {} and {}", params.size(), returns.size(), old_params.size(),
                old_returns.size());
  for (size_t i = 0; i < params.size(); i++) check_same(was.type(old_params[i]), now.type(params[i]), "parameter", i);
  for (size_t i = 0; i < returns.size(); i++)
    if (old_returns[i].is<ValueId>() && returns[i].is<ValueId>())
      check_same(was.type(old_returns[i].get<ValueId>()), now.type(returns[i].get<ValueId>()), "result", i);
  for (auto& in : program.inputs)
    if (in.value.valid()) in.value = params.at(was.value(in.value).index);
  program.graph = std::move(parsed.graph);
  if (!program.fingerprint.empty()) program.fingerprint += to_string(program.graph);
  verify_given_program(program, Dialect::Edge, "transform");
  return program;
}

} // namespace tenon
