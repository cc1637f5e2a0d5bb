#include "cli/script_values.h"

#include <fstream>
#include <map>

#include <simdjson.h>

#include "base/json_text.h"
#include "builtins/dict.h"
#include "builtins/elements.h"
#include "load/npz.h"

namespace tenon::cli {

namespace {

using Json = simdjson::dom::element;
using Tag = IValue::Tag;

std::map<std::string, Tensor> arrays_of(const std::string& path) {
  std::map<std::string, Tensor> out;
  if (path.empty()) return out;
  for (NpyArray& a : read_npz(path, NpyU2::AsBF16)) out.emplace(a.name, std::move(a.tensor));
  return out;
}

Json parse_json(simdjson::dom::parser& parser, const std::string& path) {
  Json root;
  if (auto error = parser.load(path).get(root)) bad_input("{}: {}", path, simdjson::error_message(error));
  return root;
}

/// Values from an .npz, by the types they are to have, and from entries of JSON.
class Reader {
public:
  explicit Reader(std::map<std::string, Tensor> arrays) : arrays_(std::move(arrays)) {}

  /// The array, or the parts of a list or tuple: arg0.1, arg0.1.0.
  bool has(const std::string& key) const {
    auto part = arrays_.lower_bound(key + ".");
    return arrays_.contains(key) || (part != arrays_.end() && part->first.starts_with(key + "."));
  }

  // Tensors are copied: a program may write to them, and files are mapped read-only.
  IValue typed(const std::string& key, const Type& type) const {
    if (type.is(TypeKind::Optional)) return typed(key, type.element());
    if (!arrays_.contains(key) && has(key)) {
      std::vector<IValue> items;
      for (size_t i = 0; has(fmt::format("{}.{}", key, i)); i++) {
        bool is_known = !type.elements().empty();
        const Type any = Type::simple(TypeKind::Any);
        size_t at = type.is(TypeKind::Tuple) ? i : 0;
        items.push_back(typed(fmt::format("{}.{}", key, i), is_known && at < type.elements().size() ? type.element(at) : any));
      }
      return type.is(TypeKind::List) ? IValue::list(std::move(items)) : IValue::tuple(std::move(items));
    }
    const Tensor& t = array(key);
    if (t.rank() == 0 && (type.is(TypeKind::Int) || type.is(TypeKind::Float) || type.is(TypeKind::Bool) || type.is(TypeKind::Number) ||
                          type.is(TypeKind::Complex) || type.is(TypeKind::Union)))
      return number(builtins::item(t), type);
    require_input(type.is_any_tensor() || type.is(TypeKind::Any), "{}: an array of rank {} is no {}", key, t.rank(), to_string(type));
    return copy(t);
  }

  IValue entry(const Json& e, const std::string& key, const Type& type) const {
    std::string_view t = text(e["t"]);
    if (t == "npz") return typed(key, type);
    if (t == "none") return {};
    if (t == "tensor") return copy(array(std::string(text(e["key"]))));
    if (t == "list" || t == "tuple" || t == "dict") return container(e, t, key);
    return scalar(e["v"], t);
  }

private:
  static std::string_view text(const simdjson::simdjson_result<Json>& e) {
    std::string_view s;
    require_input(e.get(s) == simdjson::SUCCESS, "a text is missing among the arguments");
    return s;
  }
  static simdjson::dom::array items(const simdjson::simdjson_result<Json>& e) {
    simdjson::dom::array a;
    require_input(e.get(a) == simdjson::SUCCESS, "a list is missing among the arguments");
    return a;
  }
  const Tensor& array(const std::string& key) const {
    auto it = arrays_.find(key);
    require_input(it != arrays_.end(), "there is no array {}", key);
    return it->second;
  }
  static Tensor copy(const Tensor& t) {
    Tensor c(t.dtype(), t.sizes()), from = t.contiguous();
    std::memcpy(c.data(), from.data(), static_cast<size_t>(t.numel()) * size_of(t.dtype()));
    return c;
  }
  static IValue number(IValue v, const Type& type) {
    if (type.is(TypeKind::Float) && v.is(Tag::Int)) return static_cast<double>(v.to_int());
    if (type.is(TypeKind::Bool) && v.is(Tag::Int)) return v.to_int() != 0;
    return v;
  }

  static IValue scalar(simdjson::simdjson_result<Json> v, std::string_view t) {
    if (t == "str") return std::string(text(v));
    if (t == "bool") {
      bool b = false;
      require_input(v.get(b) == simdjson::SUCCESS, "true or false is missing among the arguments");
      return b;
    }
    if (t == "int") {
      int64_t i = 0;
      require_input(v.get(i) == simdjson::SUCCESS, "an integer is missing among the arguments");
      return i;
    }
    require_input(t == "float", "no such kind of argument: {}", t);
    double d = 0;
    if (v.get(d) == simdjson::SUCCESS) return d;
    std::string_view s = text(v);
    require_input(s == "nan" || s == "inf" || s == "-inf", "'{}' is no number", s);
    return s == "nan" ? NAN : s == "inf" ? INFINITY : -INFINITY;
  }

  IValue container(const Json& e, std::string_view t, const std::string& key) const {
    Type any = Type::simple(TypeKind::Any);
    if (t == "dict") {
      IValue dict = IValue::dict();
      for (Json pair : items(e["v"])) {
        Json k, v;
        simdjson::dom::array both = items(simdjson::simdjson_result<Json>(Json(pair)));
        require_input(both.at(0).get(k) == simdjson::SUCCESS && both.at(1).get(v) == simdjson::SUCCESS, "a dict is of pairs");
        dict.to_dict().set(entry(k, key, any), entry(v, key, any));
      }
      return dict;
    }
    std::vector<IValue> out;
    std::string_view of;
    bool plain = e["of"].get(of) == simdjson::SUCCESS;
    for (Json item : items(e["v"]))
      out.push_back(plain ? scalar(simdjson::simdjson_result<Json>(Json(item)), of)
                          : entry(item, fmt::format("{}.{}", key, out.size()), any));
    return t == "list" ? IValue::list(std::move(out)) : IValue::tuple(std::move(out));
  }

  std::map<std::string, Tensor> arrays_;
};

} // namespace

std::vector<IValue> read_script_args(std::span<const script::ScriptParam> params, const std::string& npz, const std::string& json) {
  Reader reader(arrays_of(npz));
  simdjson::dom::parser parser;
  simdjson::dom::array entries;
  bool has_entries = !json.empty() && parse_json(parser, json)["args"].get(entries) == simdjson::SUCCESS;
  std::vector<Json> given;
  if (has_entries)
    for (Json e : entries) given.push_back(e);
  require_input(given.size() <= params.size(), "{} arguments are given, the program takes {}", given.size(), params.size());
  std::vector<IValue> out;
  for (size_t i = 0; i < params.size(); i++) {
    const script::ScriptParam& p = params[i];
    std::string key = fmt::format("arg{}", i);
    if (i < given.size()) out.push_back(reader.entry(given[i], key, p.type));
    else if (!has_entries && reader.has(key)) out.push_back(reader.typed(key, p.type));
    else {
      require_input(p.fallback.has_value(), "no argument is given for {} ({}): there is no {} among the inputs",
                    p.name.empty() ? key : p.name, to_string(p.type), key);
      out.push_back(*p.fallback);
    }
  }
  return out;
}

std::vector<IValue> read_script_weights(std::span<const std::string> names, const std::string& npz) {
  std::map<std::string, Tensor> arrays = arrays_of(npz);
  std::vector<IValue> out;
  for (const std::string& name : names) {
    auto it = arrays.find(name);
    require_input(it != arrays.end(), "the weights have no {}", name);
    Tensor copy(it->second.dtype(), it->second.sizes()), from = it->second.contiguous();
    std::memcpy(copy.data(), from.data(), static_cast<size_t>(copy.numel()) * size_of(copy.dtype()));
    out.push_back(std::move(copy));
  }
  return out;
}

std::vector<std::string> read_weight_names(const std::string& path) {
  std::vector<std::string> out;
  simdjson::dom::parser parser;
  simdjson::dom::array names;
  if (!std::ifstream(path) || parse_json(parser, path)["ir_params"].get(names) != simdjson::SUCCESS) return out;
  for (Json e : names) {
    std::string_view name;
    require_input(e.get(name) == simdjson::SUCCESS, "{}: a name is no text", path);
    out.emplace_back(name);
  }
  return out;
}

namespace {

/// Results as arrays, and as entries of JSON.
class Writer {
public:
  std::vector<std::pair<std::string, Tensor>> arrays;

  // Whether arrays can say it: numbers, tensors, tuples of these, lists of tensors.
  static bool fits_npz(const IValue& v) {
    if (v.is(Tag::List))
      return !v.to_list().empty() && std::all_of(v.to_list().begin(), v.to_list().end(), [](auto& e) { return e.is(Tag::Tensor); });
    if (v.is(Tag::Tuple)) return !v.to_tuple().empty() && std::all_of(v.to_tuple().begin(), v.to_tuple().end(), fits_npz);
    return v.is(Tag::Tensor) || v.is_number();
  }

  void add_arrays(const std::string& key, const IValue& v) {
    if (v.is(Tag::Tensor)) arrays.emplace_back(key, v.to_tensor().contiguous());
    else if (v.is_number()) arrays.emplace_back(key, array_of(v));
    else {
      size_t i = 0;
      for (const IValue& e : v.is(Tag::List) ? v.to_list() : v.to_tuple()) add_arrays(fmt::format("{}.{}", key, i++), e);
    }
  }

  // Tensors inside are arrays KEY.0, KEY.1 ..., counted by `next`.
  std::string entry(const std::string& key, const IValue& v, size_t& next) {
    switch (v.tag()) {
    case Tag::None: return R"({"t": "none"})";
    case Tag::Bool: return fmt::format(R"({{"t": "bool", "v": {}}})", plain(v));
    case Tag::Int: return fmt::format(R"({{"t": "int", "v": {}}})", plain(v));
    case Tag::Double: return fmt::format(R"({{"t": "float", "v": {}}})", plain(v));
    case Tag::String: return fmt::format(R"({{"t": "str", "v": {}}})", plain(v));
    case Tag::Device: return fmt::format(R"({{"t": "str", "v": {}}})", json_quote(v.to_device()));
    case Tag::Tensor: {
      std::string name = fmt::format("{}.{}", key, next++);
      arrays.emplace_back(name, v.to_tensor().contiguous());
      return fmt::format(R"({{"t": "tensor", "key": {}}})", json_quote(name));
    }
    case Tag::List: return list(key, v.to_list(), next);
    case Tag::Tuple:
      return fmt::format(R"({{"t": "tuple", "v": {}}})", json_array(v.to_tuple(), [&](const IValue& e) { return entry(key, e, next); }));
    case Tag::Dict:
      return fmt::format(R"({{"t": "dict", "v": {}}})", json_array(v.to_dict().items(), [&](auto& pair) {
                           std::string k = entry(key, pair.first, next);
                           return fmt::format("[{}, {}]", k, entry(key, pair.second, next));
                         }));
    default: bad_input("a {} has no form in a file", name_of(v.tag()));
    }
  }

private:
  static Tensor array_of(const IValue& v) {
    auto make = [](DType type, auto value) {
      Tensor t(type, {});
      *t.data_as<decltype(value)>() = value;
      return t;
    };
    if (v.is(Tag::Bool)) return make(DType::Bool, v.to_bool());
    if (v.is(Tag::Int)) return make(DType::I64, v.to_int());
    if (v.is(Tag::Complex)) return make(DType::C128, v.to_complex());
    return make(DType::F64, v.to_double());
  }

  static std::string plain(const IValue& v) {
    if (v.is(Tag::Bool)) return v.to_bool() ? "true" : "false";
    if (v.is(Tag::Int)) return std::to_string(v.to_int());
    if (v.is(Tag::String)) return json_quote(v.to_string());
    double d = v.to_double();
    if (std::isnan(d)) return R"("nan")";
    if (std::isinf(d)) return d < 0 ? R"("-inf")" : R"("inf")";
    std::string s = fmt::format("{}", d);
    return s.find_first_of(".e") == s.npos ? s + ".0" : s;
  }

  std::string list(const std::string& key, const std::vector<IValue>& items, size_t& next) {
    static constexpr std::pair<Tag, std::string_view> kinds[] = {
        {Tag::Int, "int"}, {Tag::Double, "float"}, {Tag::Bool, "bool"}, {Tag::String, "str"}};
    for (auto& [tag, name] : kinds)
      if (!items.empty() && std::all_of(items.begin(), items.end(), [&, t = tag](const IValue& e) { return e.is(t); }))
        return fmt::format(R"({{"t": "list", "of": "{}", "v": {}}})", name, json_array(items, plain));
    return fmt::format(R"({{"t": "list", "v": {}}})", json_array(items, [&](const IValue& e) { return entry(key, e, next); }));
  }
};

} // namespace

ScriptResults script_results(std::span<const std::string> names, std::span<const IValue> values) {
  Writer w;
  std::string entries;
  bool needs_json = false;
  for (size_t i = 0; i < values.size(); i++) {
    bool fits = Writer::fits_npz(values[i]);
    needs_json |= !fits;
    size_t next = 0;
    if (fits) w.add_arrays(names[i], values[i]);
    entries += (i ? ", " : "") + (fits ? R"({"t": "npz"})" : w.entry(names[i], values[i], next));
  }
  return {std::move(w.arrays), needs_json ? "[" + entries + "]" : ""};
}

ScriptResults script_results(const std::vector<IValue>& results) {
  std::vector<IValue> outs = results.size() == 1 && results[0].is(Tag::Tuple) ? results[0].to_tuple() : results;
  if (results.size() == 1 && results[0].is(Tag::Tuple) && outs.empty()) outs = results;
  std::vector<std::string> names;
  for (size_t i = 0; i < outs.size(); i++) names.push_back(fmt::format("out{}", i));
  return script_results(names, outs);
}

void write_script_results(const ScriptResults& results, const std::string& npz) {
  write_npz(npz, results.arrays);
  if (results.json.empty()) return;
  std::string path = npz.ends_with(".npz") ? npz.substr(0, npz.size() - 4) + ".json" : npz + ".json";
  std::ofstream out(path);
  out << "{\"expected\": " << results.json << "}\n";
  require_input(out.flush().good(), "{} cannot be written", path);
}

} // namespace tenon::cli
