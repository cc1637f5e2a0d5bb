// Files of a .pt2 archive, old and new; its weights, raw or pickled.
#include "load/pt2_archive.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "load/pickle.h"
#include "load/pt2_graph.h"

namespace tenon {

using json::Element;

namespace {

constexpr std::string_view old_program = "serialized_exported_program.json";
constexpr uint64_t max_json_bytes = uint64_t{1} << 30; // where it is compressed

PayloadFiles payload_files(const std::string& folder, const std::string& model) {
  std::string path = "data/" + folder + "/";
  return {path + model + "_" + folder + "_config.json", path, path + model + ".pt"};
}

// Where the number ends that begins at `at`.
size_t end_of_number(std::string_view text, size_t at) {
  for (std::string_view name : {"-Infinity", "Infinity", "NaN"})
    if (text.substr(at).starts_with(name)) return at + name.size();
  return std::min(text.size(), text.find_first_not_of("+-.0123456789eE", at));
}

// JSON as Python's json writes it, in the form that simdjson reads: Infinity, -Infinity and NaN in quotes, as later writers
// have them, and bounds of ranges that exceed 64 bits at the end of those.
std::string strict_json(std::string_view text) {
  std::string out;
  size_t done = 0;
  auto replace = [&](size_t at, size_t end, std::string_view with) {
    out.append(text.substr(done, at - done)).append(with);
    done = end;
  };
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '"') { // to the string's end
      for (i++; i < text.size() && text[i] != '"'; i++)
        if (text[i] == '\\') i++;
      continue;
    }
    if (std::string_view("-0123456789IN").find(text[i]) == text.npos) continue;
    size_t end = end_of_number(text, i);
    std::string_view number = text.substr(i, end - i);
    if (number.ends_with('y') || number.ends_with('N')) replace(i, end, fmt::format("\"{}\"", number));
    else if (number.size() > 19 && text.substr(0, i).ends_with("_val\": "))
      replace(i, end, number[0] == '-' ? "-9223372036854775808" : "9223372036854775807");
    if (end > i) i = end - 1;
  }
  return out.append(text.substr(done));
}

int64_t known(Element size) {
  auto [kind, v] = json::single(size);
  require_input(kind == "as_int", "a weight's size is {}", kind);
  return json::integer(v);
}

// The tensor that `meta` describes in a storage.
Tensor read_weight(const std::string& fqn, Element meta, DType dtype, const SharedBytes& storage) {
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
  int64_t available = static_cast<int64_t>(storage.bytes.size() / size_of(dtype));
  require_input(empty || last < available, "weight {}: needs {} elements, its storage holds {}", fqn, last + 1, available);
  if (empty) return Tensor(dtype, sizes);
  auto* data = const_cast<std::byte*>(storage.bytes.data()) + static_cast<size_t>(offset) * size_of(dtype);
  return Tensor(dtype, std::move(sizes), std::move(strides), storage.owner, data);
}

// The storages that a config names, each inflated or moved to an aligned place at most once.
class ReadStorages {
public:
  explicit ReadStorages(const Archive& archive) : archive_(archive) {}
  const SharedBytes& get(const std::string& path, DType dtype) {
    auto [at, fresh] = read_.try_emplace(path);
    if (fresh) at->second = archive_.read(path);
    if (!is_aligned(at->second.bytes.data(), dtype)) at->second = copy_bytes(at->second.bytes, path);
    return at->second;
  }

private:
  const Archive& archive_;
  std::map<std::string, SharedBytes> read_;
};

// {"config": {fqn: where and what}}
void read_config(const Archive& archive, const PayloadFiles& files, LoadedProgram& program, Subclasses& subclasses) {
  simdjson::dom::parser parser;
  Element root = parse_json(parser, archive, files.config);
  ReadStorages storages(archive);
  for (auto [fqn, payload] : json::object(json::get(root, "config"))) {
    auto meta = json::find(payload, "tensor_meta");
    if (!meta) continue; // a custom object: an error only where the graph uses it
    std::string path = files.folder + std::string(json::text(payload, "path_name"));
    require_input(archive.contains(path), "weight {}: the archive holds no {}", fqn, path);
    if (json::boolean(json::get(payload, "use_pickle"))) {
      SharedBytes file = archive.read(path);
      subclasses[std::string(fqn)] = load_torch_save(file.bytes, file.owner);
      continue;
    }
    DType dtype = read_dtype(json::integer(json::get(*meta, "dtype")));
    program.weights[std::string(fqn)] = read_weight(std::string(fqn), *meta, dtype, storages.get(path, dtype));
  }
}

// A torch.save'd dict from qualified names.
void read_pickled(const Archive& archive, const std::string& name, LoadedProgram& program, Subclasses& subclasses) {
  SharedBytes file = archive.read(name);
  if (file.bytes.empty()) return; // the old zip's file of constants, where there are none
  PickleValue saved = load_torch_save(file.bytes, file.owner);
  auto* dict = saved.as<PickleDict>();
  require_input(dict != nullptr, "{} holds no dictionary of tensors", name);
  for (auto& [key, value] : dict->items) {
    auto* fqn = key.as<std::string>();
    require_input(fqn != nullptr, "{}: a key of its dictionary is no string", name);
    if (auto* t = value.as<Tensor>()) program.weights[*fqn] = *t;
    else subclasses[*fqn] = value;
  }
}

} // namespace

std::vector<std::string> methods_of(const Archive& archive) {
  std::vector<std::string> names;
  bool aot = false;
  for (std::string_view name : archive.names()) {
    aot |= name.starts_with("data/aotinductor/");
    if (name.starts_with("models/") && name.ends_with(".json")) names.emplace_back(name.substr(7, name.size() - 12));
  }
  if (!names.empty()) return names;
  if (aot) unsupported("this is an AOTInductor package (compiled code); tenon reads what torch.export.save writes");
  require_input(archive.contains(old_program), "not a torch.export archive: it holds neither models/*.json nor {}", old_program);
  return {"model"};
}

Pt2Files find_files(const Archive& archive, const std::string& method) {
  std::vector<std::string> names = methods_of(archive);
  if (method.empty() && names.size() > 1)
    unsupported("an archive of several models: {}; one is loaded by its name", fmt::join(names, ", "));
  std::string model = method.empty() ? names[0] : method;
  require_input(std::ranges::find(names, model) != names.end(), "the archive has no model {}; there are {}", model, fmt::join(names, ", "));
  if (archive.contains("models/" + model + ".json"))
    return {"models/" + model + ".json", "data/sample_inputs/" + model + ".pt", payload_files("weights", model),
            payload_files("constants", model)};
  return {
      std::string(old_program), "serialized_example_inputs.pt", {{}, {}, "serialized_state_dict.pt"}, {{}, {}, "serialized_constants.pt"}};
}

Element parse_json(simdjson::dom::parser& parser, const Archive& archive, const std::string& name) {
  return parse_json(parser, as_text(archive.read(name, max_json_bytes).bytes), name);
}

Element parse_json(simdjson::dom::parser& parser, std::string_view text, const std::string& name) {
  Element root;
  auto error = parser.parse(text.data(), text.size()).get(root);
  if (error) error = parser.parse(strict_json(text)).get(root);
  require_input(!error, "{}: {}", name, simdjson::error_message(error));
  return root;
}

void read_payloads(const Archive& archive, const PayloadFiles& files, LoadedProgram& program, Subclasses& subclasses) {
  if (archive.contains(files.config)) read_config(archive, files, program, subclasses);
  else if (archive.contains(files.pickle)) read_pickled(archive, files.pickle, program, subclasses);
}

void keep_example_inputs(const Archive& archive, const std::string& name, LoadedProgram& program) {
  if (!archive.contains(name)) return;
  SharedBytes file = archive.read(name);
  program.example_inputs = file.bytes;
  if (file.owner != archive.owner())
    program.mapping = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(program.mapping, file.owner);
}

} // namespace tenon
