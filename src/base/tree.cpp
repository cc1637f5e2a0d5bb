// Tree: made, read and printed.
#include "tenon/tree.h"

#include <cmath>

#include <fmt/ranges.h>

#include "base/check.h"

namespace tenon {

namespace {

bool is_key(const Tree& t) { return t.is_leaf() && !t.as<Tensor>() && !t.as<ArgInfo>(); }

void check_keys(const std::string& type, const std::vector<Tree>& keys, bool are_names) {
  for (size_t i = 0; i < keys.size(); i++) {
    require_input(is_key(keys[i]), "{}: {} is no key", type, keys[i].to_string());
    require_input(!are_names || keys[i].as<std::string>(), "{}: {} is no name of a field", type, keys[i].to_string());
    for (size_t j = 0; j < i; j++) require_input(!keys[i].is_same_leaf(keys[j]), "{}: {} is there twice", type, keys[i].to_string());
  }
}

Tree with_keys(Tree::Kind kind, std::string type, std::vector<Tree::Entry> entries) {
  std::vector<Tree> keys, children;
  for (auto& [key, value] : entries) keys.push_back(std::move(key)), children.push_back(std::move(value));
  return Tree::branch(kind, std::move(type), std::move(keys), std::move(children));
}

std::string quoted(const std::string& text) {
  bool has_single = text.find('\'') != text.npos && text.find('"') == text.npos;
  std::string out(1, has_single ? '"' : '\'');
  for (char c : text) {
    if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '\r') out += "\\r";
    else if (static_cast<unsigned char>(c) < ' ' || c == 127) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else {
      if (c == '\\' || (c == '\'' && !has_single)) out += '\\';
      out += c;
    }
  }
  return out + out[0];
}

std::string number_text(double v) {
  std::string text = fmt::format("{}", v);
  return std::isfinite(v) && text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

std::string number_type(DType t) { return t == DType::Bool ? "bool" : t == DType::F64 ? "float" : "int"; }

struct LeafText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool v) const { return v ? "True" : "False"; }
  std::string operator()(int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return number_text(v); }
  std::string operator()(std::complex<double> v) const { return fmt::format("({}{:+}j)", v.real(), v.imag()); }
  std::string operator()(const std::string& v) const { return quoted(v); }
  std::string operator()(DType v) const { return std::string(name_of(v)); }
  std::string operator()(const Tree::Word& v) const { return v.text; }
  std::string operator()(const Tensor& v) const { return fmt::format("{}[{}]", name_of(v.dtype()), fmt::join(v.sizes(), ", ")); }
  std::string operator()(const ArgInfo& v) const {
    return v.is_number ? number_type(v.dtype) : fmt::format("{}[{}]", name_of(v.dtype), fmt::join(v.sizes, ", "));
  }
};

} // namespace

Tree Tree::branch(Kind kind, std::string type, std::vector<Tree> keys, std::vector<Tree> children, std::string context) {
  Tree t;
  t.kind_ = kind, t.type_ = std::move(type), t.context_ = std::move(context);
  t.keys_ = std::move(keys), t.children_ = std::move(children);
  bool has_names = kind == Kind::NamedTuple || kind == Kind::Object;
  require_input(kind != Kind::Leaf, "a leaf is no container");
  require_input(t.keys_.size() == t.children_.size() || (t.keys_.empty() && !t.is_dict()), "{}: {} keys of {} children", t.type_,
                t.keys_.size(), t.children_.size());
  require_input(t.keys_.empty() || t.is_dict() || has_names, "{}: a sequence has no keys", t.type_);
  check_keys(t.type_, t.keys_, has_names);
  return t;
}

Tree Tree::tuple(std::vector<Tree> children) { return branch(Kind::Tuple, "tuple", {}, std::move(children)); }
Tree Tree::list(std::vector<Tree> children) { return branch(Kind::List, "list", {}, std::move(children)); }
Tree Tree::deque(std::vector<Tree> children) { return branch(Kind::Deque, "collections.deque", {}, std::move(children)); }
Tree Tree::dict(std::vector<Entry> entries) { return with_keys(Kind::Dict, "dict", std::move(entries)); }
Tree Tree::ordered_dict(std::vector<Entry> entries) { return with_keys(Kind::OrderedDict, "collections.OrderedDict", std::move(entries)); }
Tree Tree::default_dict(std::vector<Entry> entries) { return with_keys(Kind::DefaultDict, "collections.defaultdict", std::move(entries)); }
Tree Tree::named_tuple(std::string type, std::vector<Entry> fields) {
  return with_keys(Kind::NamedTuple, std::move(type), std::move(fields));
}
Tree Tree::dataclass(std::string type, std::vector<Entry> fields) { return with_keys(Kind::Object, std::move(type), std::move(fields)); }
Tree Tree::object(std::string type, std::vector<Tree> children) { return branch(Kind::Object, std::move(type), {}, std::move(children)); }

bool Tree::is_same_leaf(const Tree& other) const {
  if (auto *a = as<double>(), *b = other.as<double>(); a && b && std::isnan(*a)) return std::isnan(*b);
  if (!is_leaf()) return false;
  return std::visit(
      [&]<class T>(const T& v) {
        if constexpr (requires { v == v; }) return other.as<T>() && *other.as<T>() == v;
        else return false;
      },
      leaf_);
}

const Tree* Tree::find(const Tree& key) const {
  for (size_t i = 0; i < keys_.size(); i++)
    if (keys_[i].is_same_leaf(key)) return &children_[i];
  auto* at = key.as<int64_t>();
  return !is_dict() && at && *at >= 0 && static_cast<size_t>(*at) < children_.size() ? &children_[static_cast<size_t>(*at)] : nullptr;
}

const Tree& Tree::operator[](const Tree& key) const {
  const Tree* found = find(key);
  require_input(found != nullptr, "there is no {} in {}", key.to_string(), to_string());
  return *found;
}

std::string Tree::to_string() const {
  if (is_leaf()) return std::visit(LeafText(), leaf_);
  std::vector<std::string> parts;
  for (size_t i = 0; i < children_.size(); i++) {
    std::string child = children_[i].to_string();
    if (keys_.empty()) parts.push_back(std::move(child));
    else if (is_dict()) parts.push_back(keys_[i].to_string() + ": " + child);
    else parts.push_back(keys_[i].get<std::string>() + "=" + child);
  }
  std::string inner = fmt::format("{}", fmt::join(parts, ", ")), name = type_.substr(type_.rfind('.') + 1);
  switch (kind_) {
  case Kind::Tuple: return parts.size() == 1 ? "(" + inner + ",)" : "(" + inner + ")";
  case Kind::List: return "[" + inner + "]";
  case Kind::Dict: return "{" + inner + "}";
  case Kind::Deque: return name + "([" + inner + "])";
  case Kind::OrderedDict:
  case Kind::DefaultDict: return name + "({" + inner + "})";
  default: return name + "(" + inner + ")";
  }
}

void Tree::wrong_leaf() const { bad_input("the tree holds something else: {}", to_string()); }

} // namespace tenon
