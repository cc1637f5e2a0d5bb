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

LoadedProgram with_graph(LoadedProgram program, Graph now) {
  const Graph &was = program.graph, &is = now;
  auto &old_params = was.block(was.top()).params, &params = is.block(is.top()).params;
  auto &old_returns = was.block(was.top()).returns, &returns = is.block(is.top()).returns;
  require_input(params.size() == old_params.size() && returns.size() == old_returns.size(),
                "transform: {} parameters and {} results, there were {} and {}", params.size(), returns.size(), old_params.size(),
                old_returns.size());
  for (size_t i = 0; i < params.size(); i++) check_same(was.type(old_params[i]), now.type(params[i]), "parameter", i);
  for (size_t i = 0; i < returns.size(); i++)
    if (old_returns[i].is<ValueId>() && returns[i].is<ValueId>())
      check_same(was.type(old_returns[i].get<ValueId>()), now.type(returns[i].get<ValueId>()), "result", i);
  for (auto& in : program.inputs)
    if (in.value.valid()) in.value = params.at(was.value(in.value).index);
  program.graph = std::move(now);
  if (!program.fingerprint.empty()) program.fingerprint += to_string(program.graph);
  verify_given_program(program, program.is_edge ? Dialect::Edge : Dialect::Aten, "transform");
  return program;
}

LoadedProgram transform(LoadedProgram program, const std::function<std::string(const std::string&)>& pass) {
  lower(program, "edge");
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < program.graph.num_tensors(); i++) tensors.push_back(program.graph.tensor(TensorId{i}));
  ParsedGraph parsed = parse_graph(pass(to_string(program.graph)), tensors);
  require_input(parsed.missing_tensors == 0, "transform: {} constants are not of this program", parsed.missing_tensors);
  return with_graph(std::move(program), std::move(parsed.graph));
}

} // namespace tenon
