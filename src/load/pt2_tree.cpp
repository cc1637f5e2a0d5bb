// Each node is {"type": a registered name or null, "context": ..., "children_spec": [...]}; the context of most classes is a JSON text in
// the JSON text. torch/utils/_pytree.py has those of Python's own.
#include "load/pt2_tree.h"

#include <algorithm>
#include <set>

namespace tenon {

using json::Element;
using TreeKind = Tree::Kind;

namespace {

// torch has lists, dicts and tuples of its own, which are such to who calls.
TreeKind kind_of(std::string_view type) {
  static constexpr std::pair<std::string_view, TreeKind> kinds[] = {{"builtins.tuple", TreeKind::Tuple},
                                                                    {"torch.Size", TreeKind::Tuple},
                                                                    {"builtins.list", TreeKind::List},
                                                                    {"builtins.dict", TreeKind::Dict},
                                                                    {"collections.deque", TreeKind::Deque},
                                                                    {"collections.namedtuple", TreeKind::NamedTuple},
                                                                    {"collections.OrderedDict", TreeKind::OrderedDict},
                                                                    {"collections.defaultdict", TreeKind::DefaultDict},
                                                                    {"torch.fx.immutable_collections.immutable_list", TreeKind::List},
                                                                    {"torch.fx.immutable_collections.immutable_dict", TreeKind::Dict}};
  auto known = std::ranges::find(kinds, type, &std::pair<std::string_view, TreeKind>::first);
  return known == std::end(kinds) ? TreeKind::Object : known->second;
}

// Enumerators come as {"__enum__": true, "fqn": "module:Class", "name": ...}; tuples as lists, which are kept as their text.
Tree read_key(Element e) {
  if (e.is_null()) return {};
  if (e.is_bool()) return json::boolean(e);
  if (e.is_int64()) return json::integer(e);
  if (e.is_double()) return e.get_double().value();
  if (e.is_string()) return std::string(json::text(e));
  if (e.is_object() && json::find(e, "__enum__")) {
    std::string_view type = json::text(e, "fqn");
    return Tree::Word{fmt::format("{}.{}", type.substr(type.find_last_of(":.") + 1), json::text(e, "name"))};
  }
  return Tree::Word{simdjson::minify(e)};
}

std::vector<Tree> read_keys(Element list) {
  std::vector<Tree> keys;
  for (Element e : json::array(list)) keys.push_back(read_key(e));
  return keys;
}

// The list of strings, all different; of other values nothing.
std::vector<Tree> read_names(Element e) {
  simdjson::dom::array list;
  std::set<std::string_view> names;
  if (e.get(list) != simdjson::SUCCESS) return {};
  for (Element x : list)
    if (!x.is_string() || !names.insert(json::text(x)).second) return {};
  return read_keys(e);
}

class TreeReader {
public:
  explicit TreeReader(const FieldNames& fields) : fields_(fields) {}

  Tree read(Element e, int depth) {
    require_input(depth < 100, "a pytree is nested too deeply");
    auto type = json::find(e, "type");
    std::vector<Tree> children;
    for (Element c : json::array(json::get(e, "children_spec"))) children.push_back(read(c, depth + 1));
    require_input(type || children.empty(), "model.json: a leaf of a pytree has children");
    if (!type) return ArgInfo();
    std::string context;
    if (auto found = json::find(e, "context")) {
      std::string_view text;
      context = found->get(text) == simdjson::SUCCESS ? std::string(text) : simdjson::minify(*found);
    }
    return container(std::string(json::text(*type)), std::move(children), std::move(context));
  }

private:
  Tree container(std::string type, std::vector<Tree> children, std::string context) {
    TreeKind kind = kind_of(type);
    std::vector<Tree> keys;
    if (kind == TreeKind::NamedTuple) {
      type = context; // the class
      auto named = fields_.find(type);
      if (named != fields_.end() && named->second.size() == children.size()) keys.assign(named->second.begin(), named->second.end());
    } else if (kind != TreeKind::Tuple && kind != TreeKind::List && kind != TreeKind::Deque) keys = keys_in(context, kind, children);
    if (type.starts_with("builtins.")) type = type.substr(sizeof "builtins." - 1);
    return Tree::branch(kind, std::move(type), std::move(keys), std::move(children), std::move(context));
  }

  // A dict's context is the list of its keys, a dataclass's [[fields], [fields that are None]], which become children here. Other
  // classes are not known: where the context is a list of names, one for each child, as of transformers' caches, these are their fields.
  static std::vector<Tree> keys_in(const std::string& context, TreeKind kind, std::vector<Tree>& children) {
    simdjson::dom::parser parser;
    Element root;
    bool is_json = parser.parse(context.data(), context.size()).get(root) == simdjson::SUCCESS;
    if (kind != TreeKind::Object) {
      require_input(is_json, "model.json: the keys of a dict in a pytree: {}", context);
      return read_keys(kind == TreeKind::DefaultDict ? json::get(root, "dict_context") : root);
    }
    if (!is_json || !root.is_array()) return {};
    auto list = json::array(root);
    bool is_dataclass = list.size() == 2 && list.at(0).is_array() && list.at(1).is_array();
    std::vector<Tree> keys = read_names(is_dataclass ? list.at(0).value() : root);
    if (keys.size() != children.size()) return {};
    if (!is_dataclass) return keys;
    for (Tree& none : read_names(list.at(1).value())) keys.push_back(std::move(none)), children.emplace_back();
    return keys;
  }

  const FieldNames& fields_;
};

} // namespace

FieldNames read_field_names(Element graph_module) {
  FieldNames out;
  if (auto classes = json::find(graph_module, "treespec_namedtuple_fields"))
    for (auto [type, fields] : json::object(*classes))
      for (Element name : json::array(json::get(fields, "field_names"))) out[std::string(type)].emplace_back(json::text(name));
  return out;
}

Tree read_tree(std::string_view text, const FieldNames& fields) {
  simdjson::dom::parser parser;
  Element root;
  require_input(!parser.parse(text.data(), text.size()).get(root), "a pytree spec is not JSON");
  auto parts = json::array(root); // [version, tree]
  require_input(parts.size() == 2, "a pytree spec must be a pair");
  return TreeReader(fields).read(parts.at(1).value(), 0);
}

} // namespace tenon
