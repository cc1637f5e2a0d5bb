// Executable::call: arguments are laid flat by in_spec, and results nested by out_spec.
#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/ranges.h>

#include "api/impl.h"
#include "expr/eval.h"

namespace tenon {

namespace {

using TreeKind = Tree::Kind;

// Numbers alone are passed to the program; other values are compared.
std::optional<Tensor> passed(const Tree& leaf) {
  if (auto* v = leaf.as<Tensor>()) return *v;
  if (auto* v = leaf.as<bool>()) return number_tensor(*v);
  if (auto* v = leaf.as<int64_t>()) return number_tensor(*v);
  if (auto* v = leaf.as<double>()) return number_tensor(*v);
  return std::nullopt;
}

Tree number_in(const Tensor& t) {
  if (t.dtype() == DType::Bool) return *t.data_as<bool>();
  return t.dtype() == DType::F64 ? Tree(*t.data_as<double>()) : Tree(*t.data_as<int64_t>());
}

// ---- what messages say of a tree

std::string keys_text(const Tree& t) {
  std::vector<std::string> keys;
  for (const Tree& k : t.keys()) keys.push_back(k.to_string());
  return fmt::format("{}", fmt::join(keys, ", "));
}

std::string text_of(const Tree& t) {
  if (t.as<bool>()) return "the bool " + t.to_string();
  if (t.as<int64_t>()) return "the int " + t.to_string();
  if (t.as<double>()) return "the float " + t.to_string();
  if (t.as<std::string>()) return "the string " + t.to_string();
  if (t.is_leaf()) return t.to_string();
  std::string name = t.type().substr(t.type().rfind('.') + 1);
  if (!t.keys().empty()) return fmt::format("{} with {} {}", name, t.is_dict() ? "the keys" : "the fields", keys_text(t));
  return fmt::format("{} of {}", name, t.size());
}

[[noreturn]] void mismatch(const std::string& path, const Tree& spec, const Tree& given) {
  bad_input("{}: expected {}, got {}", path, text_of(spec), text_of(given));
}

// ---- arguments

// Of sizes that vary, the program's guards decide.
bool fits(const ArgInfo& info, const Tensor& t) {
  if (info.is_number || info.dtype != t.dtype() || info.sizes.size() != t.rank()) return false;
  for (size_t d = 0; d < t.rank(); d++) {
    const std::string& text = info.sizes[d];
    int64_t size = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error == std::errc() && end == text.data() + text.size() && size != t.sizes()[d]) return false;
  }
  return true;
}

struct FlatArguments {
  std::vector<Tensor> inputs;
  std::vector<std::string> paths; // of the inputs

  // What run() says of an input, with the path in the place of its name.
  Error with_path(const Error& e, const std::vector<ArgInfo>& infos) const {
    std::string text = e.what();
    for (size_t i = 0; i < infos.size(); i++) {
      std::string start = "input " + infos[i].name + ": ";
      if (text.starts_with(start)) return Error(e.kind, paths[i] + ": " + text.substr(start.size()), e.where);
    }
    return e;
  }
};

class Flattener {
public:
  FlatArguments flat;

  void add(const Tree& spec, const Tree& given, const std::string& path) {
    if (auto* info = spec.as<ArgInfo>()) return add_leaf(spec, *info, given, path);
    if (spec.is_leaf()) return add_fixed(spec, given, path);
    if (spec.is_dict()) return add_dict(spec, given, path);
    if (spec.kind() != given.kind()) mismatch(path, spec, given);
    if (spec.kind() == TreeKind::NamedTuple || spec.kind() == TreeKind::Object) return add_object(spec, given, path);
    if (spec.size() != given.size()) mismatch(path, spec, given);
    for (size_t i = 0; i < spec.size(); i++) add(spec.children()[i], given.children()[i], fmt::format("{}[{}]", path, i));
  }

private:
  void push(Tensor t, const std::string& path) { flat.inputs.push_back(std::move(t)), flat.paths.push_back(path); }

  void add_leaf(const Tree& spec, const ArgInfo& info, const Tree& given, const std::string& path) {
    if (auto* t = given.as<Tensor>()) {
      require_input(t->defined(), "{}: the tensor has no memory", path);
      if (!fits(info, *t)) mismatch(path, spec, given);
      return push(*t, path);
    }
    std::optional<Tensor> number = info.is_number ? passed(given) : std::nullopt;
    if (!number || number->dtype() != info.dtype) mismatch(path, spec, given);
    push(std::move(*number), path);
  }

  void add_fixed(const Tree& spec, const Tree& given, const std::string& path) {
    require_input(spec.is_same_leaf(given), "{}: the program was exported for {}, not {}", path, text_of(spec), text_of(given));
    if (auto number = passed(spec)) push(std::move(*number), path);
  }

  void add_dict(const Tree& spec, const Tree& given, const std::string& path) {
    if (!given.is_dict() || spec.size() != given.size()) mismatch(path, spec, given);
    for (const Tree& key : spec.keys())
      if (!given.find(key)) mismatch(path, spec, given);
    for (const Tree& key : spec.keys()) add(spec[key], given[key], fmt::format("{}[{}]", path, key.to_string()));
  }

  // By name where both have names, else in order. What was None may be left out.
  void add_object(const Tree& spec, const Tree& given, const std::string& path) {
    if (spec.type() != given.type() && !spec.type().ends_with("." + given.type())) mismatch(path, spec, given);
    bool by_name = !spec.keys().empty() && !given.keys().empty();
    size_t taken = 0;
    for (size_t i = 0; i < spec.size(); i++) {
      const Tree *child = given.find(by_name ? spec.keys()[i] : Tree(i)), &wanted = spec.children()[i];
      taken += child != nullptr;
      if (!child && !wanted.is_none()) mismatch(path, spec, given);
      if (child) add(wanted, *child, path + (spec.keys().empty() ? fmt::format("[{}]", i) : "." + spec.keys()[i].get<std::string>()));
    }
    if (taken != given.size()) mismatch(path, spec, given);
  }
};

// forward's arguments, by position or name.
class Arguments {
public:
  Arguments(const Signature& signature, const std::vector<Tree>& args, const std::vector<NamedTree>& kwargs)
      : positional_(signature.in_spec[0]), keywords_(signature.in_spec[1]), names_(signature.arg_names), args_(args), kwargs_(kwargs) {}

  FlatArguments flatten() {
    check_names();
    Flattener to;
    for (size_t i = 0; i < positional_.size(); i++) {
      const Tree* named = i < names_.size() ? find(names_[i]) : nullptr;
      if (i < args_.size()) to.add(positional_.children()[i], args_[i], fmt::format("args[{}]", i));
      else if (named) to.add(positional_.children()[i], *named, path_of(names_[i]));
      else bad_input("args[{}]{} is missing", i, i < names_.size() ? fmt::format(", or kwargs['{}'],", names_[i]) : "");
    }
    for (size_t i = 0; i < keywords_.size(); i++) {
      const std::string& name = keywords_.keys()[i].get<std::string>();
      const Tree* given = find(name);
      require_input(given != nullptr, "{} is missing", path_of(name));
      to.add(keywords_.children()[i], *given, path_of(name));
    }
    return std::move(to.flat);
  }

private:
  static std::string path_of(const std::string& name) { return fmt::format("kwargs['{}']", name); }

  const Tree* find(const std::string& name) const {
    auto at = std::ranges::find(kwargs_, name, &NamedTree::first);
    return at == kwargs_.end() ? nullptr : &at->second;
  }

  void check_names() const {
    require_input(args_.size() <= positional_.size(), "{} positional arguments are given, the program takes {}", args_.size(),
                  positional_.size());
    for (auto& [name, value] : kwargs_) {
      require_input(std::ranges::count(kwargs_, name, &NamedTree::first) == 1, "{} is given twice", path_of(name));
      if (keywords_.find(name)) continue;
      auto at = static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
      require_input(at < positional_.size() && at < names_.size(), "{}: the program has no argument of this name", path_of(name));
      require_input(at >= args_.size(), "{} is given twice: it is args[{}]", path_of(name), at);
    }
  }

  const Tree &positional_, &keywords_;
  const std::vector<std::string>& names_;
  const std::vector<Tree>& args_;
  const std::vector<NamedTree>& kwargs_;
};

// ---- results

// Numbers that are fixed are among the outputs too.
Tree nested(const Tree& spec, const std::vector<Tensor>& outputs, size_t& next) {
  if (auto* info = spec.as<ArgInfo>()) {
    const Tensor& t = outputs.at(next++);
    return info->is_number ? number_in(t) : Tree(t);
  }
  if (spec.is_leaf()) {
    next += spec.as<bool>() || spec.as<int64_t>() || spec.as<double>();
    return spec;
  }
  std::vector<Tree> children;
  for (const Tree& c : spec.children()) children.push_back(nested(c, outputs, next));
  return Tree::branch(spec.kind(), spec.type(), spec.keys(), std::move(children), spec.context());
}

} // namespace

Result<Tree> Executable::call(const std::vector<Tree>& args, const std::vector<NamedTree>& kwargs) const {
  return guarded([&] {
    const Signature& signature = impl_->signature;
    FlatArguments flat = Arguments(signature, args, kwargs).flatten();
    std::vector<Tensor> outputs;
    if (Status s = run(flat.inputs, outputs); !s.ok()) throw flat.with_path(s.error(), signature.inputs);
    size_t next = 0;
    return nested(signature.out_spec, outputs, next);
  });
}

} // namespace tenon
