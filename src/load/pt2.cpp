// The .pt2 archive: which file is what, signature, weights, calling convention.
#include <algorithm>

#include "base/strided.h"
#include "load/archive.h"
#include "load/npz.h"
#include "load/pickle.h"
#include "load/pt2_check.h"
#include "load/pt2_graph.h"
#include "load/pt2_subclass.h"

namespace tenon {

using json::Element;

namespace {

std::string_view as_chars(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// The one program of the archive: models/M.json.
std::string find_model(const Archive& archive) {
  std::string model;
  bool aot = false;
  for (std::string_view name : archive.names()) {
    aot |= name.starts_with("data/aotinductor/");
    if (!name.starts_with("models/") || !name.ends_with(".json")) continue;
    if (!model.empty()) unsupported("an archive of several models ({} and {})", model, name.substr(7, name.size() - 12));
    model = std::string(name.substr(7, name.size() - 12));
  }
  if (!model.empty()) return model;
  if (aot) unsupported("this is an AOTInductor package (compiled code); tenon reads what torch.export.save writes");
  if (archive.find("serialized_exported_program.json")) unsupported("an archive of torch before 2.8 (schema 'serialized_exported_program.json')");
  bad_input("not a torch.export archive: it holds no models/*.json");
}

struct Reader {
  Reader(const Archive& archive, LoadedProgram& program) : archive(archive), program(program) {}
  const Archive& archive;
  LoadedProgram& program;
  simdjson::dom::parser parser{};
  std::map<std::string, PickleValue> subclasses{}; // weights that are of a tensor subclass

  Element parse(std::string_view name) {
    auto bytes = archive.find(name);
    require_input(bytes.has_value(), "the archive holds no {}", name);
    Element root;
    auto error = parser.parse(as_chars(*bytes).data(), bytes->size()).get(root);
    require_input(!error, "{}: {}", name, simdjson::error_message(error));
    return root;
  }

  static int64_t known(Element size) {
    auto [kind, v] = json::single(size);
    require_input(kind == "as_int", "a weight's size is {}", kind);
    return json::integer(v);
  }

  Tensor read_weight(const std::string& fqn, Element meta, std::span<const std::byte> bytes) {
    DType dtype = read_dtype(json::integer(json::get(meta, "dtype")));
    std::vector<int64_t> sizes, strides;
    for (Element s : json::array(json::get(meta, "sizes"))) sizes.push_back(known(s));
    for (Element s : json::array(json::get(meta, "strides"))) strides.push_back(known(s));
    int64_t offset = known(json::get(meta, "storage_offset"));
    require_input(sizes.size() == strides.size() && offset >= 0, "weight {}: bad layout", fqn);
    int64_t last = offset;
    bool empty = false;
    for (size_t d = 0; d < sizes.size(); d++) {
      require_input(sizes[d] >= 0 && strides[d] >= 0, "weight {}: negative size or stride", fqn);
      empty |= sizes[d] == 0;
      int64_t span;
      bool overflow = sizes[d] > 0 && (__builtin_mul_overflow(sizes[d] - 1, strides[d], &span) || __builtin_add_overflow(last, span, &last));
      require_input(!overflow, "weight {}: its layout overflows", fqn);
    }
    int64_t available = static_cast<int64_t>(bytes.size() / size_of(dtype));
    require_input(empty || last < available, "weight {}: needs {} elements, its storage holds {}", fqn, last + 1, available);
    if (empty) return Tensor(dtype, sizes);
    auto* data = const_cast<std::byte*>(bytes.data()) + static_cast<size_t>(offset) * size_of(dtype);
    Tensor t(dtype, std::move(sizes), std::move(strides), program.mapping, data);
    if (reinterpret_cast<uintptr_t>(data) % size_of(dtype) == 0) return t;
    Tensor aligned(dtype, t.sizes());
    copy_strided(t.view(), aligned.data());
    return aligned;
  }

  // data/<folder>/<model>_<folder>_config.json: qualified name -> payload.
  void read_payloads(const std::string& folder, const std::string& model) {
    std::string config = "data/" + folder + "/" + model + "_" + folder + "_config.json";
    if (!archive.find(config)) {
      if (archive.find("data/" + folder + "/" + model + ".pt")) unsupported("an archive with pickled {}", folder);
      return;
    }
    simdjson::dom::parser own;
    auto bytes = *archive.find(config);
    Element root;
    require_input(!own.parse(as_chars(bytes).data(), bytes.size()).get(root), "{} is not JSON", config);
    for (auto [fqn, payload] : json::object(json::get(root, "config"))) {
      auto meta = json::find(payload, "tensor_meta");
      if (!meta) continue; // a custom object: an error only where the graph uses it
      std::string path = "data/" + folder + "/" + std::string(json::text(payload, "path_name"));
      auto data = archive.find(path);
      require_input(data.has_value(), "weight {}: the archive holds no {}", fqn, path);
      if (json::boolean(json::get(payload, "use_pickle"))) subclasses[std::string(fqn)] = load_torch_save(*data, program.mapping);
      else program.weights[std::string(fqn)] = read_weight(std::string(fqn), *meta, *data);
    }
  }

  void read_ranges(Element root) {
    for (auto [name, range] : json::object(json::get(root, "range_constraints"))) {
      if (is_real_symbol(name)) continue; // a float: its range is that of all floats
      auto min = json::find(range, "min_val"), max = json::find(range, "max_val");
      int64_t lo = min ? json::integer(*min) : INT64_MIN, hi = max ? json::integer(*max) : INT64_MAX;
      require_input(lo <= hi, "model.json: the range of {} is empty: {} to {}", name, lo, hi);
      program.graph.pool().symbol(std::string(name), DType::I64, lo, hi);
    }
  }

  void read_inputs(GraphReader& reader, Element signature) {
    BlockId top = program.graph.top();
    for (Element spec : json::array(json::get(signature, "input_specs"))) {
      auto [kind, value] = json::single(spec);
      ProgramInput in;
      if (kind == "constant_input") {
        in.kind = InputKind::Fixed;
        in.name = json::text(value, "name");
        in.fixed = reader.read_argument(json::get(value, "value"));
        program.inputs.push_back(std::move(in));
        continue;
      }
      Element arg = json::get(value, "arg");
      if (kind == "user_input") {
        auto [arg_kind, v] = json::single(arg);
        if (arg_kind == "as_none" || arg_kind == "as_string" || arg_kind == "as_int" || arg_kind == "as_float" || arg_kind == "as_bool") {
          in.kind = InputKind::Fixed;
          in.fixed = reader.read_argument(arg);
          program.inputs.push_back(std::move(in));
          continue;
        }
      } else if (kind == "parameter") in.kind = InputKind::Parameter, in.target = json::text(value, "parameter_name");
      else if (kind == "buffer") in.kind = InputKind::Buffer, in.target = json::text(value, "buffer_name");
      else if (kind == "tensor_constant") in.kind = InputKind::Constant, in.target = json::text(value, "tensor_constant_name");
      else if (kind == "token") {
        in.kind = InputKind::Token;
        in.name = json::text(arg, "name");
        reader.add_token(in.name);
        program.inputs.push_back(std::move(in));
        continue;
      } else unsupported("an input of kind {}", kind);
      // Parameters and buffers give their argument as {"name": ...}, user inputs as a union.
      in.value = kind == "user_input" ? reader.add_param(top, arg) : reader.add_tensor_param(top, json::text(arg, "name"));
      in.name = program.graph.value(in.value).name;
      program.inputs.push_back(std::move(in));
    }
  }

  void read_outputs(Element signature) {
    for (Element spec : json::array(json::get(signature, "output_specs"))) {
      auto [kind, value] = json::single(spec);
      ProgramOutput out;
      if (kind == "buffer_mutation") out = {OutputKind::BufferMutation, std::string(json::text(value, "buffer_name"))};
      else if (kind == "user_input_mutation") out = {OutputKind::InputMutation, std::string(json::text(value, "user_input_name"))};
      else if (kind == "token") out.kind = OutputKind::Token;
      else if (kind != "user_output" && kind != "loss_output") unsupported("an output of kind {}", kind);
      program.outputs.push_back(std::move(out));
    }
    require_input(program.outputs.size() == program.graph.block(program.graph.top()).returns.size(), "model.json: {} output specs for {} outputs",
                  program.outputs.size(), program.graph.block(program.graph.top()).returns.size());
  }

  TreeSpec read_tree(Element e, int depth = 0) {
    require_input(depth < 100, "a pytree is nested too deeply");
    TreeSpec t;
    if (auto type = json::find(e, "type")) t.type = json::text(*type);
    if (auto context = json::find(e, "context")) {
      std::string_view s;
      t.context = context->get(s) == simdjson::SUCCESS ? std::string(s) : simdjson::minify(*context);
    }
    for (Element c : json::array(json::get(e, "children_spec"))) t.children.push_back(read_tree(c, depth + 1));
    return t;
  }

  TreeSpec parse_tree(std::string_view text) {
    simdjson::dom::parser own;
    Element root;
    require_input(!own.parse(text.data(), text.size()).get(root), "a pytree spec is not JSON");
    auto parts = json::array(root); // [version, tree]
    require_input(parts.size() == 2, "a pytree spec must be a pair");
    return read_tree(parts.at(1).value());
  }

  void read_calling_convention(Element module) {
    for (Element entry : json::array(json::get(module, "module_call_graph"))) {
      auto signature = json::find(entry, "signature");
      if (!json::text(entry, "fqn").empty() || !signature) continue;
      program.in_spec = parse_tree(json::text(*signature, "in_spec"));
      program.out_spec = parse_tree(json::text(*signature, "out_spec"));
      if (auto names = json::find(*signature, "forward_arg_names"))
        for (Element n : json::array(*names)) program.forward_arg_names.emplace_back(json::text(n));
      return;
    }
  }

  void read(const std::string& model) {
    Element root = parse("models/" + model + ".json");
    Element version = json::get(root, "schema_version");
    int64_t major = json::integer(json::get(version, "major"));
    if (major != 8) unsupported("schema version {}.x; tenon reads 8.x", major);
    if (auto v = json::find(root, "torch_version")) program.torch_version = json::text(*v);
    read_ranges(root);
    if (auto guards = json::find(root, "guards_code"))
      for (Element g : json::array(*guards)) program.guards.emplace_back(json::text(g));
    Element module = json::get(root, "graph_module"), signature = json::get(module, "signature");
    GraphReader reader(program.graph, json::get(module, "graph"));
    read_inputs(reader, signature);
    read_calling_convention(module);
    add_guards(program);
    reader.read_nodes(program.graph.top());
    program.graph.block(program.graph.top()).returns = reader.read_outputs();
    read_outputs(signature);
    check_graph(program.graph);
    read_payloads("weights", model);
    read_payloads("constants", model);
    unwrap_subclasses(program, subclasses);
    for (auto& in : program.inputs) {
      bool stored = in.kind == InputKind::Parameter || in.kind == InputKind::Buffer || in.kind == InputKind::Constant;
      if (!stored) continue;
      auto w = program.weights.find(in.target);
      require_input(w != program.weights.end(), "the archive holds no weight {}", in.target);
      check_weight(in, w->second);
    }
    if (auto bytes = archive.find("data/sample_inputs/" + model + ".pt")) program.example_inputs = *bytes;
  }

  void check_weight(const ProgramInput& in, const Tensor& t) {
    const Type& type = program.graph.type(in.value);
    bool same = type.dtype == t.dtype() && type.rank() == t.rank();
    for (size_t d = 0; same && d < t.rank(); d++) same = is_const_int(type.sizes[d], t.sizes()[d]);
    require_input(same, "weight {}: the graph wants {}, the archive holds another dtype or size", in.target, to_string(type));
  }
};

LoadedProgram load(Archive archive, const std::string& name) {
  LoadedProgram program;
  program.name = name;
  program.mapping = archive.owner();
  if (auto order = archive.find("byteorder")) require_input(as_chars(*order) == "little", "a big-endian archive");
  Reader(archive, program).read(find_model(archive));
  return program;
}

} // namespace

LoadedProgram load_pt2(const std::string& path) { return load(Archive::map(path), path); }
LoadedProgram load_pt2(std::span<const std::byte> bytes, const std::string& name) { return load(Archive::view(bytes, name), name); }

namespace {

template <class T> Tensor scalar_tensor(DType type, T value) {
  Tensor t(type, {});
  *t.data_as<T>() = value;
  return t;
}

// A leaf as a tensor: numbers become 0-d; None and strings give nothing.
std::optional<Tensor> leaf_tensor(const PickleValue& leaf) {
  if (auto* t = leaf.as<Tensor>()) return *t;
  if (auto* b = leaf.as<bool>()) return scalar_tensor<uint8_t>(DType::Bool, *b);
  if (auto* i = leaf.as<int64_t>()) return scalar_tensor(DType::I64, *i);
  if (auto* d = leaf.as<double>()) return scalar_tensor(DType::F64, *d);
  if (leaf.is_none() || leaf.as<std::string>()) return std::nullopt;
  unsupported("an example input that is neither a tensor nor a number");
}

} // namespace

std::vector<Tensor> load_example_inputs(const LoadedProgram& program) {
  require_input(!program.example_inputs.empty(), "the archive holds no example inputs");
  std::vector<Tensor> out;
  for (const PickleValue& leaf : flatten(load_torch_save(program.example_inputs, program.mapping)))
    if (auto t = leaf_tensor(leaf)) { // copies: a program may write to its inputs, the archive's memory may be read-only
      out.emplace_back(t->dtype(), t->sizes());
      copy_strided(t->view(), out.back().data());
    }
  return out;
}

} // namespace tenon
