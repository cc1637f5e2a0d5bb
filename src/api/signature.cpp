// What a program says of itself: its graph, signature, weights and sizes.
#include <zlib.h>

#include <algorithm>
#include <map>
#include <set>

#include "api/graph_impl.h"
#include "api/impl.h"
#include "compile/compile.h"
#include "compile/transform.h"
#include "ir/symbols.h"
#include "tenon/pass.h"

namespace tenon::ir {

std::string_view name_of(InputKind kind) {
  constexpr std::string_view names[] = {"user_input", "parameter", "buffer", "tensor_constant", "custom_obj", "token"};
  return names[static_cast<int>(kind)];
}
std::string_view name_of(OutputKind kind) {
  constexpr std::string_view names[] = {"user_output",         "loss_output",           "buffer_mutation",        "parameter_mutation",
                                        "user_input_mutation", "gradient_to_parameter", "gradient_to_user_input", "token"};
  return names[static_cast<int>(kind)];
}

namespace {

using Names = GraphSignature::Names;
using Pairs = GraphSignature::Pairs;

Names targets(const GraphSignature& s, InputKind kind, std::optional<bool> persistent = {}) {
  Names list;
  for (const InputSpec& in : s.input_specs)
    if (in.kind == kind && in.persistent == persistent.value_or(in.persistent)) list.push_back(in.target);
  return list;
}
Pairs inputs(const GraphSignature& s, InputKind kind) {
  Pairs list;
  for (const InputSpec& in : s.input_specs)
    if (in.kind == kind) list.emplace_back(in.name, in.target);
  return list;
}
Pairs outputs(const GraphSignature& s, OutputKind kind) {
  Pairs list;
  for (const OutputSpec& out : s.output_specs)
    if (out.kind == kind) list.emplace_back(out.name, out.target);
  return list;
}

} // namespace

Names GraphSignature::parameters() const { return targets(*this, InputKind::Parameter); }
Names GraphSignature::buffers() const { return targets(*this, InputKind::Buffer); }
Names GraphSignature::non_persistent_buffers() const { return targets(*this, InputKind::Buffer, false); }
Names GraphSignature::lifted_tensor_constants() const { return targets(*this, InputKind::ConstantTensor); }
Names GraphSignature::lifted_custom_objs() const { return targets(*this, InputKind::CustomObj); }
Names GraphSignature::user_inputs() const {
  Names list;
  for (const InputSpec& in : input_specs)
    if (in.kind == InputKind::UserInput) list.push_back(in.name);
  return list;
}
Names GraphSignature::user_outputs() const {
  Names list;
  for (const OutputSpec& out : output_specs)
    if (out.kind == OutputKind::UserOutput) list.push_back(out.name);
  return list;
}
Pairs GraphSignature::inputs_to_parameters() const { return ir::inputs(*this, InputKind::Parameter); }
Pairs GraphSignature::inputs_to_buffers() const { return ir::inputs(*this, InputKind::Buffer); }
Pairs GraphSignature::inputs_to_lifted_tensor_constants() const { return ir::inputs(*this, InputKind::ConstantTensor); }
Pairs GraphSignature::buffers_to_mutate() const { return ir::outputs(*this, OutputKind::BufferMutation); }
Pairs GraphSignature::parameters_to_mutate() const { return ir::outputs(*this, OutputKind::ParameterMutation); }
Pairs GraphSignature::user_inputs_to_mutate() const { return ir::outputs(*this, OutputKind::UserInputMutation); }
Pairs GraphSignature::gradients_to_parameters() const { return ir::outputs(*this, OutputKind::GradientToParameter); }
Pairs GraphSignature::gradients_to_user_inputs() const { return ir::outputs(*this, OutputKind::GradientToUserInput); }
std::optional<std::string> GraphSignature::loss_output() const {
  Pairs list = ir::outputs(*this, OutputKind::LossOutput);
  return list.empty() ? std::nullopt : std::optional(list[0].first);
}

} // namespace tenon::ir

namespace tenon {

namespace {

ir::InputKind public_kind(InputKind kind) {
  switch (kind) {
  case InputKind::Parameter: return ir::InputKind::Parameter;
  case InputKind::Buffer: return ir::InputKind::Buffer;
  case InputKind::Constant: return ir::InputKind::ConstantTensor;
  case InputKind::Object: return ir::InputKind::CustomObj;
  case InputKind::Token: return ir::InputKind::Token;
  case InputKind::User:
  case InputKind::Fixed: break;
  }
  return ir::InputKind::UserInput;
}

ir::OutputKind public_kind(OutputKind kind) {
  switch (kind) {
  case OutputKind::User: break;
  case OutputKind::Loss: return ir::OutputKind::LossOutput;
  case OutputKind::BufferMutation: return ir::OutputKind::BufferMutation;
  case OutputKind::ParameterMutation: return ir::OutputKind::ParameterMutation;
  case OutputKind::InputMutation: return ir::OutputKind::UserInputMutation;
  case OutputKind::GradientToParameter: return ir::OutputKind::GradientToParameter;
  case OutputKind::GradientToInput: return ir::OutputKind::GradientToUserInput;
  case OutputKind::Token: return ir::OutputKind::Token;
  }
  return ir::OutputKind::UserOutput;
}

// Constants of a signature are plain: no values, no sizes.
ir::Arg public_constant(const Arg& a) { return ir::GraphImpl(Graph(), Dialect::Any).out(a); }

// What the state dict leaves out: constants, and buffers that are not persistent.
std::set<std::string> constant_names(const LoadedProgram& p) {
  std::set<std::string> names;
  for (const ProgramInput& in : p.inputs)
    if (in.kind == InputKind::Constant || (in.kind == InputKind::Buffer && !in.persistent)) names.insert(in.target);
  return names;
}

std::vector<NamedTensor> weights(const LoadedProgram& p, bool constants) {
  std::set<std::string> others = constant_names(p);
  std::vector<NamedTensor> list;
  for (auto& [name, tensor] : p.weights)
    if (others.contains(name) == constants) list.push_back({name, tensor});
  return list;
}

std::string sizes_text(const Tensor& t) {
  std::vector<ir::Size> sizes(t.sizes().begin(), t.sizes().end());
  return ir::Type::tensor(t.dtype(), std::move(sizes)).str();
}

LoadedProgram with_weights(LoadedProgram program, std::span<const NamedTensor> given) {
  if (program.is_edge) unsupported("other weights in an Edge graph, which has them as constants");
  std::set<std::string> seen;
  for (const NamedTensor& w : given) {
    auto at = program.weights.find(w.name);
    require_input(at != program.weights.end(), "the program has no weight {}", w.name);
    require_input(seen.insert(w.name).second, "weight {} is given twice", w.name);
    require_input(w.tensor.defined(), "weight {} has no value", w.name);
    require_input(at->second.dtype() == w.tensor.dtype() && at->second.sizes() == w.tensor.sizes(), "weight {} is {}, {} is given", w.name,
                  sizes_text(at->second), sizes_text(w.tensor));
    at->second = w.tensor;
    if (!program.fingerprint.empty()) program.fingerprint += fmt::format("{} = {:08x}\n", w.name, checksum(w.tensor));
  }
  return program;
}

std::optional<int64_t> bound(int64_t v) { return v == INT64_MIN || v == INT64_MAX ? std::nullopt : std::optional(v); }

} // namespace

uint32_t checksum(const Tensor& tensor) {
  Tensor t = tensor.contiguous();
  auto size = static_cast<size_t>(t.numel()) * size_of(t.dtype());
  return static_cast<uint32_t>(size == 0 ? 0 : crc32_z(0, static_cast<const Bytef*>(t.data()), size));
}

Result<Program> Program::transform(const ir::PassManager& passes) const {
  return guarded([&] {
    LoadedProgram program = impl_->loaded;
    require_input(passes.dialect() != "script", "the program is no TorchScript: its passes are for aten or edge");
    if (passes.dialect() != "aten") lower(program, passes.dialect());
    require_input(passes.dialect() == "edge" || !program.is_edge,
                  "the program's graph is Edge already: passes for the {} dialect come too late", passes.dialect());
    size_t constants = program.graph.num_tensors();
    ir::Graph graph = ir::public_graph(program.graph, program.is_edge ? Dialect::Edge : Dialect::Aten);
    passes.run(graph);
    const Graph& now = graph.impl().graph;
    for (size_t i = constants; i < now.num_tensors() && !program.fingerprint.empty(); i++) // the graph's text has only small ones
      program.fingerprint += fmt::format("constant {:08x}\n", checksum(now.tensor(TensorId{static_cast<uint32_t>(i)})));
    return Program(describe(with_graph(std::move(program), std::move(graph.impl().graph))));
  });
}

Result<ir::Graph> Program::graph(std::string_view stage) const {
  return guarded([&] {
    LoadedProgram program = impl_->loaded;
    lower(program, stage);
    Dialect dialect = stage == "backend" ? Dialect::Backend : program.is_edge ? Dialect::Edge : Dialect::Aten;
    return ir::public_graph(std::move(program.graph), dialect);
  });
}

ir::GraphSignature Program::signature() const {
  const LoadedProgram& p = impl_->loaded;
  ir::GraphSignature s;
  for (const ProgramInput& in : p.inputs) {
    ir::InputSpec& spec = s.input_specs.emplace_back(ir::InputSpec{.kind = public_kind(in.kind), .name = in.name, .target = in.target});
    spec.persistent = in.kind == InputKind::Buffer && in.persistent;
    if (in.kind == InputKind::Fixed) spec.fixed = public_constant(in.fixed);
  }
  auto& returns = p.graph.block(p.graph.top()).returns;
  for (size_t i = 0; i < returns.size(); i++) {
    std::string name = returns[i].is<ValueId>() ? p.graph.value(returns[i].get<ValueId>()).name
                       : returns[i].is<Expr>()  ? to_string(returns[i].get<Expr>())
                                                : "";
    s.output_specs.push_back({public_kind(p.outputs.at(i).kind), name, p.outputs[i].target});
  }
  return s;
}

std::vector<NamedTensor> Program::state_dict() const { return weights(impl_->loaded, false); }
std::vector<NamedTensor> Program::constants() const { return weights(impl_->loaded, true); }

Result<Program> Program::with_state_dict(std::span<const NamedTensor> given) const {
  return guarded([&] { return Program(describe(with_weights(impl_->loaded, given))); });
}

std::vector<ir::RangeConstraint> Program::range_constraints() const {
  std::vector<ir::RangeConstraint> list;
  for (Expr symbol : symbols_of(impl_->loaded.graph)) list.push_back({symbol->name, bound(symbol->lo), bound(symbol->hi)});
  return list;
}

std::vector<ir::EqualityConstraint> Program::equality_constraints() const {
  std::vector<ir::EqualityConstraint> list;
  std::map<const ExprNode*, ir::InputDim> first;
  const LoadedProgram& p = impl_->loaded;
  for (const ProgramInput& in : p.inputs) {
    if (!in.value.valid()) continue;
    const Type& t = p.graph.type(in.value);
    for (size_t d = 0; d < t.rank(); d++) {
      if (t.sizes[d]->is_const()) continue;
      auto [at, is_new] = first.try_emplace(t.sizes[d].get(), ir::InputDim{in.name, d});
      if (!is_new) list.emplace_back(at->second, ir::InputDim{in.name, d});
    }
  }
  return list;
}

const std::vector<ir::ModuleCall>& Program::module_call_graph() const { return impl_->loaded.module_calls; }
const std::string& Program::torch_version() const { return impl_->loaded.torch_version; }

} // namespace tenon
