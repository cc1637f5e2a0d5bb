// Writing a program as torch.export.save does: the graph as JSON, each storage once, in a zip of stored entries.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/json_text.h"
#include "fx/from_graph.h"
#include "ir/pass.h"
#include "ir/symbols.h"
#include "load/load.h"
#include "load/pt2_write_graph.h"
#include "load/zip_write.h"
#include "ops/names.h"

namespace tenon {

namespace {

// Constants that passes put into the graph are inputs of the file's: constant tensors, before what users give.
LoadedProgram lifted(LoadedProgram program) {
  const Graph& from = program.graph;
  std::vector<NodeId> constants;
  for (NodeId n : from.block(from.top()).nodes)
    if (from.node(n).op == prim::Constant) constants.push_back(n);
  Rewriter r(from, false);
  std::vector<ProgramInput> inputs;
  size_t next = 0;
  auto add_constants = [&] {
    for (NodeId n : std::exchange(constants, {})) {
      std::string name;
      do name = fmt::format("lifted_tensor_{}", next++);
      while (program.weights.contains(name));
      ValueId v = from.node(n).outputs[0];
      ValueId now = r.to.add_param(r.to.top(), from.type(v), "c_" + name);
      r.set(v, now);
      program.weights[name] = *from.constant(v);
      inputs.push_back({.kind = InputKind::Constant, .name = "c_" + name, .target = name, .value = now});
    }
  };
  for (ProgramInput in : program.inputs) {
    if (in.kind == InputKind::User || in.kind == InputKind::Fixed) add_constants();
    if (in.value.valid()) {
      ValueId now = r.to.add_param(r.to.top(), from.type(in.value), from.value(in.value).name);
      r.to.value(now).meta = from.value(in.value).meta;
      r.set(in.value, now);
      in.value = now;
    }
    inputs.push_back(std::move(in));
  }
  add_constants();
  r.node = [&](NodeId id) {
    const Node& n = from.node(id);
    bool guard = n.op == prim::Assert && n.args[1].is<std::string>() && n.args[1].get<std::string>().starts_with(guard_message);
    if (n.op != prim::Constant && !guard) r.copy_node(id); // guards_code has those
  };
  r.copy_block(from.top(), r.to.top());
  program.inputs = std::move(inputs), program.graph = std::move(r.to);
  return program;
}

// Where the bytes of weights go: tensors of one dtype that overlap in memory share a file.
class WrittenStorages {
public:
  explicit WrittenStorages(std::string prefix) : prefix_(std::move(prefix)) {}

  void add(const Tensor& t) {
    auto [begin, end] = span(t);
    tensors_.push_back({begin, end, t});
  }
  void join() {
    std::ranges::sort(tensors_, {}, [](const Piece& p) { return std::pair(p.tensor.dtype(), p.begin); });
    for (const Piece& p : tensors_) {
      Piece* last = files_.empty() ? nullptr : &files_.back();
      if (last && last->tensor.dtype() == p.tensor.dtype() && p.begin < last->end) last->end = std::max(last->end, p.end);
      else files_.push_back(p);
    }
  }
  /// The file and the offset in it, in elements.
  std::pair<std::string, int64_t> place(const Tensor& t) const {
    auto [begin, end] = span(t);
    size_t i = 0;
    for (; i < files_.size(); i++)
      if (files_[i].tensor.dtype() == t.dtype() && files_[i].begin <= begin && end <= files_[i].end) break;
    return {fmt::format("{}{}", prefix_, i), (begin - files_.at(i).begin) / static_cast<std::ptrdiff_t>(size_of(t.dtype()))};
  }
  void write(ZipWriter& zip, const std::string& folder) const {
    for (size_t i = 0; i < files_.size(); i++) zip.add(fmt::format("{}{}{}", folder, prefix_, i), Bytes(files_[i].begin, files_[i].end));
  }

private:
  struct Piece {
    const std::byte *begin, *end;
    Tensor tensor;
  };
  static std::pair<const std::byte*, const std::byte*> span(const Tensor& t) {
    auto* begin = static_cast<const std::byte*>(t.data());
    int64_t last = t.numel() > 0 ? 1 : 0;
    for (size_t d = 0; d < t.rank() && last > 0; d++) last += (t.sizes()[d] - 1) * t.strides()[d];
    return {begin, begin + last * static_cast<int64_t>(size_of(t.dtype()))};
  }

  std::string prefix_;
  std::vector<Piece> tensors_, files_;
};

bool has_negative_stride(const Tensor& t) {
  return std::ranges::any_of(t.strides(), [](int64_t s) { return s < 0; });
}

class Writer {
public:
  Writer(LoadedProgram program, std::string top)
      : p_(lifted(std::move(program))), top_(std::move(top)), fx_(fx_of(p_.graph)), graph_(fx_, p_.hints) {
    for (const ProgramInput& in : p_.inputs) {
      if (in.kind == InputKind::Token) unsupported("{}: a token of effects in a file", in.name);
      if (in.value.valid() && p_.graph.type(in.value).kind == TypeKind::Custom) unsupported("{}: an object in a file", in.name);
      if (in.kind == InputKind::Constant || (in.kind == InputKind::Buffer && !in.persistent)) constants_.insert(in.target);
      if (in.kind == InputKind::Parameter) parameters_.insert(in.target);
    }
    for (auto& [name, t] : p_.weights)
      if (has_negative_stride(t)) t = t.contiguous();
  }

  void write(ZipWriter& zip) {
    std::string program = program_json();
    add(zip, "models/model.json", program);
    write_weights(zip, "weights", "weight_", false);
    write_weights(zip, "constants", "tensor_", true);
    if (!p_.example_inputs.empty()) zip.add(top_ + "data/sample_inputs/model.pt", p_.example_inputs);
    add(zip, "archive_format", "pt2"), add(zip, "archive_version", "0"), add(zip, "byteorder", "little");
    add(zip, ".data/version", "3\n");
  }

private:
  void add(ZipWriter& zip, const std::string& name, std::string_view text) { zip.add(top_ + name, as_byte_span(text)); }

  void write_weights(ZipWriter& zip, const std::string& folder, const std::string& prefix, bool constants) {
    WrittenStorages storages(prefix);
    for (auto& [name, t] : p_.weights)
      if (constants_.contains(name) == constants) storages.add(t);
    storages.join();
    std::string config;
    for (auto& [name, t] : p_.weights) {
      if (constants_.contains(name) != constants) continue;
      auto [file, offset] = storages.place(t);
      auto sizes = [](const std::vector<int64_t>& list) {
        return json_array(list, [](int64_t s) { return fmt::format(R"({{"as_int": {}}})", s); });
      };
      bool parameter = parameters_.contains(name);
      config += fmt::format(
          R"({}{}: {{"path_name": "{}", "is_param": {}, "use_pickle": false, "tensor_meta": {}}})", config.empty() ? "" : ", ",
          json_quote(name), file, parameter,
          tensor_meta(t.dtype(), sizes(t.sizes()), sizes(t.strides()), offset, {.requires_grad = parameter && is_float(t.dtype())}));
    }
    std::string path = "data/" + folder + "/";
    add(zip, path + "model_" + folder + "_config.json", "{\"config\": {" + config + "}}");
    storages.write(zip, top_ + path);
  }

  std::string input_argument(const ProgramInput& in) const {
    return in.kind == InputKind::Fixed ? graph_.argument(in.fixed) : graph_.argument_named(placeholder(in));
  }
  // The name of the input's node.
  const std::string& placeholder(const ProgramInput& in) const { return fx_.nodes[p_.graph.value(in.value).index].name; }

  std::string input_spec(const ProgramInput& in) const {
    std::string target = json_quote(in.target), name = in.value.valid() ? json_quote(placeholder(in)) : "";
    switch (in.kind) {
    case InputKind::Parameter: return fmt::format(R"({{"parameter": {{"arg": {{"name": {}}}, "parameter_name": {}}}}})", name, target);
    case InputKind::Buffer:
      return fmt::format(R"({{"buffer": {{"arg": {{"name": {}}}, "buffer_name": {}, "persistent": {}}}}})", name, target, in.persistent);
    case InputKind::Constant:
      return fmt::format(R"({{"tensor_constant": {{"arg": {{"name": {}}}, "tensor_constant_name": {}}}}})", name, target);
    case InputKind::Fixed:
      return fmt::format(R"({{"constant_input": {{"name": {}, "value": {}}}}})", json_quote(in.name), graph_.argument(in.fixed));
    default: return fmt::format(R"({{"user_input": {{"arg": {}}}}})", input_argument(in));
    }
  }

  std::string output_spec(const ProgramOutput& out, const Arg& value) const {
    std::string target = json_quote(out.target), arg = graph_.argument(value);
    auto name = [&] {
      require_input(value.is<ValueId>(), "the output for {} is no value", out.target);
      return json_quote(graph_.node(value).name);
    };
    auto spec = [&](std::string_view kind, std::string_view field) {
      return fmt::format(R"({{"{}": {{"arg": {{"name": {}}}, "{}": {}}}}})", kind, name(), field, target);
    };
    switch (out.kind) {
    case OutputKind::User: break;
    case OutputKind::Loss: return fmt::format(R"({{"loss_output": {{"arg": {{"name": {}}}}}}})", name());
    case OutputKind::BufferMutation: return spec("buffer_mutation", "buffer_name");
    case OutputKind::ParameterMutation: return spec("parameter_mutation", "parameter_name");
    case OutputKind::InputMutation: return spec("user_input_mutation", "user_input_name");
    case OutputKind::GradientToParameter: return spec("gradient_to_parameter", "parameter_name");
    case OutputKind::GradientToInput: return spec("gradient_to_user_input", "user_input_name");
    case OutputKind::Token: unsupported("a token of effects in a file");
    }
    return fmt::format(R"({{"user_output": {{"arg": {}}}}})", arg);
  }

  std::string module_call(const ir::ModuleCall& call) const {
    auto arguments = [&](const std::vector<std::string>& names) {
      return json_array(names, [&](auto& n) { return n.starts_with('{') ? n : graph_.argument_named(n); });
    };
    auto is_there = [&](auto& n) { return n.starts_with('{') || !graph_.argument_named(n).empty(); };
    std::string signature = "null";
    if (call.has_signature && std::ranges::all_of(call.inputs, is_there) && std::ranges::all_of(call.outputs, is_there))
      signature = fmt::format(R"({{"inputs": {}, "outputs": {}, "in_spec": {}, "out_spec": {}, "forward_arg_names": {}}})",
                              arguments(call.inputs), arguments(call.outputs), json_quote(call.in_spec), json_quote(call.out_spec),
                              json_array(call.forward_arg_names, [](auto& n) { return json_quote(n); }));
    return fmt::format(R"({{"fqn": {}, "signature": {}}})", json_quote(call.fqn), signature);
  }

  std::string range(Expr s) const {
    auto bound = [](int64_t v) { return v == INT64_MIN || v == INT64_MAX ? "null" : std::to_string(v); };
    return fmt::format(R"({}: {{"min_val": {}, "max_val": {}}})", json_quote(s->name), bound(s->lo), bound(s->hi));
  }

  std::string program_json() const {
    require_input(!p_.module_calls.empty(), "a program that no torch.export made says nothing of its calls: it has no form in a file");
    auto input = [&](const ProgramInput& in) { return input_argument(in); };
    size_t i = 0;
    auto results = fx_elements(fx_.result.get<ArgList>());
    auto output = [&](const ProgramOutput& out) { return output_spec(out, results[i++]); };
    std::string signature = fmt::format(R"({{"input_specs": {}, "output_specs": {}}})",
                                        json_array(p_.inputs, [&](auto& in) { return input_spec(in); }), json_array(p_.outputs, output));
    // The dialect of torch.export's own result, which may write in place, has no other outputs.
    bool training = std::ranges::all_of(p_.outputs, [](auto& o) { return o.kind == OutputKind::User; });
    return fmt::format(
        R"({{"graph_module": {{"graph": {}, "signature": {}, "module_call_graph": {}, "metadata": {{}}, "treespec_namedtuple_fields": {}}}, )"
        R"("opset_version": {{"aten": 10}}, "range_constraints": {{{}}}, "schema_version": {{"major": 8, "minor": 20}}, "verifiers": {}, )"
        R"("torch_version": {}, "guards_code": {}}})",
        graph_.graph(json_array(p_.inputs, input)), signature, json_array(p_.module_calls, [&](auto& c) { return module_call(c); }),
        p_.named_tuples.empty() ? "{}" : p_.named_tuples, json_join(symbols_of(p_.graph), [&](Expr s) { return range(s); }),
        training ? R"(["TRAINING"])" : "[]", json_quote(p_.torch_version), json_array(p_.guards, [](auto& g) { return json_quote(g); }));
  }

  LoadedProgram p_;
  std::string top_; // the folder of all files
  FxGraph fx_;
  GraphWriter graph_;
  std::set<std::string> constants_, parameters_;
};

} // namespace

void save_pt2(LoadedProgram program, const std::string& path) {
  if (program.is_edge) unsupported("an Edge graph has no form in a .pt2");
  Writer writer(std::move(program), std::filesystem::path(path).stem().string() + "/");
  std::string unfinished = path + ".unfinished";
  std::error_code failed;
  try {
    write_zip(unfinished, [&](ZipWriter& zip) { writer.write(zip); });
    std::filesystem::rename(unfinished, path, failed);
    require_input(!failed, "cannot write {}: {}", path, failed.message());
  } catch (...) {
    std::filesystem::remove(unfinished, failed);
    throw;
  }
}

} // namespace tenon
