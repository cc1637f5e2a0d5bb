// Script: TorchScript's programs as users see them.
#include "tenon/script.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "api/graph_impl.h"
#include "api/impl.h"
#include "autodiff/differentiate.h"
#include "executor/graph_executor.h"
#include "script/arguments.h"
#include "script/lint.h"
#include "script/script.h"

namespace tenon {

struct Script::Impl {
  std::shared_ptr<const script::ScriptProgram> program;
  std::shared_ptr<executor::GraphExecutor> executor;
  std::vector<Param> params;
  std::vector<IValue> weights; // None: without a value
};

namespace {

Script make(script::ScriptProgram program) {
  Script::Impl impl;
  ir::GraphImpl types(Graph(), Dialect::Script);
  for (const script::ScriptParam& p : program.params) impl.params.push_back({p.name, types.out(p.type), p.fallback});
  impl.weights.resize(program.weights.size());
  impl.executor = std::make_shared<executor::GraphExecutor>(Graph(program.graph));
  impl.program = std::make_shared<const script::ScriptProgram>(std::move(program));
  return Script(std::make_shared<const Script::Impl>(std::move(impl)));
}

Script of_text(std::string_view text, std::vector<std::string> weights) {
  script::ScriptProgram program = script::program_of_text(text, std::move(weights));
  script::lint(program.graph);
  return make(std::move(program));
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  require_input(in.good(), "{} cannot be read", path);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace

Result<Script> Script::compile(std::string_view source, const std::string& entry, const std::string& file) {
  return guarded([&] { return make(script::compile_script(source, file, entry)); });
}

Result<Script> Script::load(const std::string& path, const std::string& entry) {
  return guarded([&] {
    std::string text = read_text(path);
    return entry.empty() ? of_text(text, {}) : make(script::compile_script(text, path, entry));
  });
}

Result<Script> Script::parse(std::string_view text, std::vector<std::string> weights) {
  return guarded([&] { return of_text(text, std::move(weights)); });
}

Result<Script> Script::from(const ir::Graph& graph, std::vector<std::string> weights) {
  return guarded([&] {
    require_input(graph.impl().is_script(), "a script graph is needed, this one is of the dialect {}", graph.dialect());
    graph.lint();
    return make(script::program_of_graph(graph.impl().graph, std::move(weights)));
  });
}

const std::vector<Script::Param>& Script::params() const { return impl_->params; }
const std::vector<std::string>& Script::weights() const { return impl_->program->weights; }

std::vector<NamedTensor> Script::state_dict() const {
  std::vector<NamedTensor> list;
  for (size_t i = 0; i < weights().size(); i++)
    if (!impl_->weights[i].is_none()) list.push_back({weights()[i], impl_->weights[i].to_tensor()});
  return list;
}

Result<Script> Script::with_state_dict(std::span<const NamedTensor> given) const {
  return guarded([&] {
    Impl now = *impl_;
    std::set<std::string_view> seen;
    for (const NamedTensor& w : given) {
      require_input(seen.insert(w.name).second, "{} is there twice", w.name);
      require_input(w.tensor.defined(), "{} has no value", w.name);
      auto at = std::ranges::find(weights(), w.name);
      if (at != weights().end()) now.weights[static_cast<size_t>(at - weights().begin())] = w.tensor;
    }
    return Script(std::make_shared<const Impl>(std::move(now)));
  });
}

Result<Script> Script::gradient(std::span<const std::string> wrt) const {
  return guarded([&] {
    const script::ScriptProgram& p = *impl_->program;
    std::vector<size_t> places;
    for (const std::string& name : wrt) {
      auto param = std::ranges::find(p.params, name, &script::ScriptParam::name);
      auto weight = std::ranges::find(p.weights, name);
      require_input(param != p.params.end() || weight != p.weights.end(), "'{}' is no parameter and no weight of the program", name);
      places.push_back(param != p.params.end() ? static_cast<size_t>(param - p.params.begin())
                                               : p.params.size() + static_cast<size_t>(weight - p.weights.begin()));
    }
    script::ScriptProgram both{.graph = autodiff::differentiate(p.graph, places).both, .params = p.params, .weights = p.weights};
    Impl now = *impl_;
    now.executor = std::make_shared<executor::GraphExecutor>(Graph(both.graph));
    now.program = std::make_shared<const script::ScriptProgram>(std::move(both));
    return Script(std::make_shared<const Impl>(std::move(now)));
  });
}

Script Script::with_options(const Options& options) const {
  Impl now = *impl_;
  executor::ExecutorOptions wanted{.interpret = options.interpret, .forbid_fallback = options.forbid_fallback, .threads = options.threads};
  now.executor = std::make_shared<executor::GraphExecutor>(Graph(impl_->program->graph), wanted);
  return Script(std::make_shared<const Impl>(std::move(now)));
}

std::string Script::explain() const {
  std::string text = impl_->executor->explain();
  for (const std::string& why : impl_->executor->why_interpreted()) text += fmt::format("interpreted: {}\n", why);
  return text;
}

ir::Graph Script::graph() const { return ir::public_graph(impl_->program->graph, Dialect::Script); }
std::string Script::text() const { return script::to_text(impl_->program->graph); }

Result<std::vector<IValue>> Script::run(std::vector<IValue> args, const std::vector<Named>& kwargs, const ScriptOptions& options) const {
  return guarded([&] {
    std::vector<IValue> all = script::bind_arguments(impl_->program->params, std::move(args), kwargs);
    for (size_t i = 0; i < weights().size(); i++) {
      require_input(!impl_->weights[i].is_none(), "the weight {} has no value: with_state_dict gives it one", weights()[i]);
      all.push_back(impl_->weights[i]);
    }
    return impl_->executor->run(std::move(all), options.print);
  });
}

Result<IValue> Script::call(std::vector<IValue> args, const std::vector<Named>& kwargs, const ScriptOptions& options) const {
  auto results = run(std::move(args), kwargs, options);
  if (!results) return results.error();
  if (results->size() == 1) return std::move((*results)[0]);
  return results->empty() ? IValue() : IValue::tuple(std::move(*results));
}

} // namespace tenon
