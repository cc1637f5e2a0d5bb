// The program of a .pt2 archive: signature, calling convention, weights that fit.
#include <algorithm>
#include <charconv>

#include "base/stage.h"
#include "base/strided.h"
#include "fx/check.h"
#include "fx/to_graph.h"
#include "load/pickle.h"
#include "load/pt2_archive.h"
#include "load/pt2_graph.h"
#include "load/pt2_modules.h"
#include "load/pt2_subclass.h"
#include "load/pt2_tree.h"

namespace tenon {

using json::Element;

namespace {

// Written by a torch before 2.15; the first writers did not say which they were.
bool is_older(std::string_view torch) {
  int major = 0, minor = 0;
  auto [end, error] = std::from_chars(torch.data(), torch.data() + torch.size(), major);
  if (error != std::errc() || end == torch.data() + torch.size() || *end != '.') return torch.empty();
  std::from_chars(end + 1, torch.data() + torch.size(), minor);
  return std::pair(major, minor) < std::pair(2, 15);
}

// What the schema calls the kinds of outputs, and the name that they have beside the value's.
struct NamedKind {
  std::string_view name, target;
  OutputKind kind;
};
constexpr NamedKind output_kinds[] = {
    {"user_output", "", OutputKind::User},
    {"loss_output", "", OutputKind::Loss},
    {"buffer_mutation", "buffer_name", OutputKind::BufferMutation},
    {"parameter_mutation", "parameter_name", OutputKind::ParameterMutation},
    {"user_input_mutation", "user_input_name", OutputKind::InputMutation},
    {"gradient_to_parameter", "parameter_name", OutputKind::GradientToParameter},
    {"gradient_to_user_input", "user_input_name", OutputKind::GradientToInput},
    {"token", "", OutputKind::Token},
};

struct Reader {
  explicit Reader(LoadedProgram& program) : program(program) {}
  LoadedProgram& program;

  // A bound beyond 64 bits is none.
  static int64_t bound(Element e) {
    uint64_t v;
    return e.get(v) == simdjson::SUCCESS && v > INT64_MAX ? INT64_MAX : json::integer(e);
  }

  void read_ranges(Element root) {
    for (auto [name, range] : json::object(json::get(root, "range_constraints"))) {
      if (is_real_symbol(name)) continue; // a float: its range is that of all floats
      auto min = json::find(range, "min_val"), max = json::find(range, "max_val");
      int64_t lo = min ? bound(*min) : INT64_MIN, hi = max ? bound(*max) : INT64_MAX;
      require_input(lo <= hi, "model.json: the range of {} is empty: {} to {}", name, lo, hi);
      program.graph.pool().symbol(std::string(name), DType::I64, lo, hi);
    }
  }

  // Inputs that only order effects.
  static std::unordered_set<std::string> tokens_of(Element signature) {
    std::unordered_set<std::string> names;
    for (Element spec : json::array(json::get(signature, "input_specs"))) {
      auto [kind, value] = json::single(spec);
      if (kind == "token") names.emplace(json::text(json::get(value, "arg"), "name"));
    }
    return names;
  }

  static Arg fixed_value(GraphReader& reader, Element value) {
    Arg fixed = reader.read_argument(value);
    require_input(!fixed.is<ValueId>() && !fixed.is<Expr>() && !fixed.is<ArgList>(), "model.json: a fixed input that is no constant");
    return fixed;
  }

  static void read_buffer(Element spec, ProgramInput& in) {
    in.kind = InputKind::Buffer, in.target = json::text(spec, "buffer_name");
    if (auto persistent = json::find(spec, "persistent")) in.persistent = json::boolean(*persistent);
  }

  // The kind of an input, its target or value; its place in the graph is that of the placeholder.
  static ProgramInput input_of(GraphReader& reader, Element spec) {
    static constexpr std::string_view constants[] = {"as_none", "as_string", "as_int", "as_float", "as_bool"};
    auto [kind, value] = json::single(spec);
    ProgramInput in;
    if (kind == "constant_input") {
      in.kind = InputKind::Fixed, in.name = json::text(value, "name");
      in.fixed = fixed_value(reader, json::get(value, "value"));
    } else if (kind == "parameter") in.kind = InputKind::Parameter, in.target = json::text(value, "parameter_name");
    else if (kind == "buffer") read_buffer(value, in);
    else if (kind == "tensor_constant") in.kind = InputKind::Constant, in.target = json::text(value, "tensor_constant_name");
    else if (kind == "custom_obj") in.kind = InputKind::Object, in.target = json::text(value, "custom_obj_name");
    else if (kind == "token") in.kind = InputKind::Token, in.name = json::text(json::get(value, "arg"), "name");
    else if (kind != "user_input") unsupported("an input of kind {}", kind);
    else if (Element arg = json::get(value, "arg");
             std::find(std::begin(constants), std::end(constants), json::single(arg).first) != std::end(constants))
      in.kind = InputKind::Fixed, in.fixed = fixed_value(reader, arg);
    return in;
  }

  // A spec says which input it is about by its name.
  static void check_name(Element spec, const FxNode& input) {
    auto arg = json::find(json::single(spec).second, "arg");
    if (!arg) return;
    auto named = json::find(*arg, "name");
    Element inner = *arg; // of a user's input, which may be a number: {"as_tensor": {"name": "x"}}
    if (!named && json::object(*arg).size() == 1) inner = json::single(*arg).second;
    if (!named && inner.is_object()) named = json::find(inner, "name");
    if (named)
      require_input(json::text(*named) == input.name, "model.json: input %{} is called {} in the signature", input.name,
                    json::text(*named));
  }

  void read_inputs(GraphReader& reader, ToGraph& to, const FxGraph& fx, Element signature) {
    auto specs = json::array(json::get(signature, "input_specs"));
    std::vector<uint32_t> placeholders = to.placeholders();
    require_input(specs.size() == placeholders.size(), "model.json: {} input specs for {} inputs", specs.size(), placeholders.size());
    size_t next = 0;
    for (Element spec : specs) {
      ProgramInput in = input_of(reader, spec);
      uint32_t at = placeholders[next++];
      check_name(spec, fx.nodes[at]);
      if (in.kind == InputKind::Fixed || in.kind == InputKind::Token) to.bind(at, in.fixed);
      else in.value = to.add_param(program.graph.top(), at), in.name = program.graph.value(in.value).name;
      program.inputs.push_back(std::move(in));
    }
  }

  void read_outputs(Element signature) {
    for (Element spec : json::array(json::get(signature, "output_specs"))) {
      auto [kind, value] = json::single(spec);
      auto known = std::ranges::find(output_kinds, kind, &NamedKind::name);
      if (known == std::end(output_kinds)) unsupported("an output of kind {}", kind);
      program.outputs.push_back({known->kind, known->target.empty() ? "" : std::string(json::text(value, known->target))});
    }
    require_input(program.outputs.size() == program.graph.block(program.graph.top()).returns.size(),
                  "model.json: {} output specs for {} outputs", program.outputs.size(),
                  program.graph.block(program.graph.top()).returns.size());
  }

  void read_calling_convention(Element module) {
    FieldNames fields = read_field_names(module);
    for (Element entry : json::array(json::get(module, "module_call_graph"))) {
      auto signature = json::find(entry, "signature");
      if (!json::text(entry, "fqn").empty() || !signature) continue;
      program.in_spec = read_tree(json::text(*signature, "in_spec"), fields);
      program.out_spec = read_tree(json::text(*signature, "out_spec"), fields);
      if (auto names = json::find(*signature, "forward_arg_names"))
        for (Element n : json::array(*names)) program.forward_arg_names.emplace_back(json::text(n));
      return;
    }
  }

  void read(Element root) {
    Element version = json::get(root, "schema_version");
    int64_t major = json::integer(json::get(version, "major"));
    if (major != 8) unsupported("schema version {}.x; tenon reads 8.x", major);
    if (auto v = json::find(root, "torch_version")) program.torch_version = json::text(*v);
    read_ranges(root);
    if (auto guards = json::find(root, "guards_code"))
      for (Element g : json::array(*guards)) program.guards.emplace_back(json::text(g));
    Element module = json::get(root, "graph_module"), signature = json::get(module, "signature");
    GraphReader reader(program.graph.shared_pool(), json::get(module, "graph"), !is_older(program.torch_version), tokens_of(signature));
    FxGraph fx = reader.read();
    program.hints = reader.hints();
    ToGraph to(program.graph, fx);
    read_inputs(reader, to, fx, signature);
    read_calling_convention(module);
    program.module_calls = read_module_calls(module);
    if (auto fields = json::find(module, "treespec_namedtuple_fields")) program.named_tuples = simdjson::minify(*fields);
    add_guards(program);
    to.add_nodes(program.graph.top());
    program.graph.block(program.graph.top()).returns = to.results();
    read_outputs(signature);
    check_graph(program.graph);
  }

  void check_weights() {
    for (auto& in : program.inputs) {
      bool stored = in.kind == InputKind::Parameter || in.kind == InputKind::Buffer || in.kind == InputKind::Constant;
      if (!stored) continue;
      auto w = program.weights.find(in.target);
      require_input(w != program.weights.end(), "there is no weight {}", in.target);
      check_weight(in, w->second);
    }
  }

  void check_weight(const ProgramInput& in, const Tensor& t) {
    const Type& type = program.graph.type(in.value);
    bool same = type.dtype == t.dtype() && type.rank() == t.rank();
    for (size_t d = 0; same && d < t.rank(); d++) same = is_const_int(type.sizes[d], t.sizes()[d]);
    require_input(same, "weight {}: the graph wants {}, the weight has another dtype or size", in.target, to_string(type));
  }
};

LoadedProgram load(Archive archive, const std::string& name, const std::string& method) {
  Stage stage("reading");
  LoadedProgram program;
  program.name = name;
  program.mapping = archive.owner(), program.file = archive.file();
  if (auto order = archive.find("byteorder")) require_input(as_text(*order) == "little", "a big-endian archive");
  Pt2Files files = find_files(archive, method);
  simdjson::dom::parser parser;
  Reader reader(program);
  reader.read(parse_json(parser, archive, files.program));
  Subclasses subclasses; // weights that are of a tensor subclass
  read_payloads(archive, files.weights, program, subclasses);
  read_payloads(archive, files.constants, program, subclasses);
  unwrap_subclasses(program, subclasses);
  reader.check_weights();
  keep_example_inputs(archive, files.example_inputs, program);
  if (!method.empty()) program.fingerprint = method + "\n";
  for (std::string_view file : archive.names()) {
    const Archive::Entry& e = *archive.entry(file);
    program.fingerprint += fmt::format("{} {} {:08x}\n", file, e.size, e.crc);
  }
  return program;
}

} // namespace

LoadedProgram load_pt2(const std::string& path, const std::string& method) { return load(Archive::map(path), path, method); }
LoadedProgram load_pt2(std::span<const std::byte> bytes, const std::string& name, const std::string& method) {
  return load(Archive::view(bytes, name), name, method);
}
LoadedProgram load_pt2_graph(std::string_view json, std::span<const NamedTensor> weights) {
  LoadedProgram program;
  program.name = "graph";
  simdjson::dom::parser parser;
  Reader reader(program);
  reader.read(parse_json(parser, json, "the graph"));
  for (const NamedTensor& w : weights) require_input(program.weights.emplace(w.name, w.tensor).second, "weight {} is given twice", w.name);
  reader.check_weights();
  if (weights.empty()) program.fingerprint = json; // weights are not looked through
  return program;
}
std::vector<std::string> pt2_methods(const std::string& path) { return methods_of(Archive::map(path)); }

namespace {

// A leaf as a tensor: numbers become 0-d; None and strings give nothing.
std::optional<Tensor> leaf_tensor(const PickleValue& leaf) {
  if (auto* t = leaf.as<Tensor>()) return *t;
  if (auto* b = leaf.as<bool>()) return number_tensor(*b);
  if (auto* i = leaf.as<int64_t>()) return number_tensor(*i);
  if (auto* d = leaf.as<double>()) return number_tensor(*d);
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
