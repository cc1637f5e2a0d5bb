#include "autodiff/derivatives.h"

#include <algorithm>
#include <map>

namespace tenon::autodiff {

const Rule* Derivative::rule_of(std::string_view arg) const {
  for (const Rule& r : rules)
    if (std::find(r.of.begin(), r.of.end(), arg) != r.of.end()) return &r;
  return nullptr;
}

namespace {

std::string_view trimmed(std::string_view s) {
  size_t begin = s.find_first_not_of(" \n"), end = s.find_last_not_of(" \n");
  return begin == s.npos ? std::string_view() : s.substr(begin, end - begin + 1);
}

std::vector<std::string_view> split(std::string_view s, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= s.size();) {
    size_t end = std::min(s.find(at, begin), s.size());
    if (std::string_view part = trimmed(s.substr(begin, end - begin)); !part.empty()) parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

// Whether an expression may speak of it: an argument, a result, a gradient, and what is known of these.
bool is_name(const Schema& s, std::string_view name) {
  for (std::string_view suffix : {"_size", "_dtype"})
    if (name.ends_with(suffix) && s.find(name) < 0) name.remove_suffix(suffix.size());
  auto counted = [&](std::string_view stem) {
    return name.starts_with(stem) && name.size() <= stem.size() + 1 && (name == stem || std::isdigit(name.back()));
  };
  return s.find(name) >= 0 || counted("result") || counted("grad") || name == "needs";
}

std::vector<std::string> names_in(const Schema& s, std::string_view expression) {
  std::vector<std::string> names;
  auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t i = 0; i < expression.size();) {
    size_t end = i;
    while (end < expression.size() && is_letter(expression[end])) end++;
    std::string name(expression.substr(i, end - i));
    bool attribute = i > 0 && expression[i - 1] == '.';
    if (!attribute && is_name(s, name) && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    i = std::max(end, i + 1);
  }
  return names;
}

/// All rows' derivatives, and the source of their functions.
struct Table {
  std::map<const void*, Derivative> of;
  std::string source =
      std::string(prelude::gradients) + prelude::operators + prelude::products + prelude::selections + prelude::losses + prelude::recurrent;

  void add(const void* row, const Schema& s, std::string_view text, bool sums) {
    Derivative d{.rules = {}, .result = {}, .sums_to_operands = sums};
    for (std::string_view entry : split(text, ';')) {
      if (entry == "none") continue;
      if (entry == "broadcasts") {
        d.sums_to_operands = true;
        continue;
      }
      size_t colon = entry.find(':');
      require(colon != entry.npos, "{}: '{}' is no derivative", s.name, entry);
      Rule r = rule(s, entry.substr(0, colon), trimmed(entry.substr(colon + 1)));
      if (r.of[0] == "result") d.result = std::move(r);
      else d.rules.push_back(std::move(r));
    }
    of.emplace(row, std::move(d));
  }

private:
  Rule rule(const Schema& s, std::string_view of_what, std::string_view expression) {
    Rule r;
    for (std::string_view name : split(of_what, ',')) {
      require(name == "result" || s.find(name) >= 0, "{} has no argument {}", s.name, name);
      r.of.emplace_back(name);
    }
    r.function = fmt::format("{}__{}", s.name, r.of[0]);
    for (char& c : r.function)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    r.params = names_in(s, expression);
    source +=
        "def " + r.function + "(" + fmt::format("{}", fmt::join(r.params, ", ")) + "):\n    return " + std::string(expression) + "\n\n";
    return r;
  }
};

const Table& table() {
  static const Table all = [] {
    Table t;
    for (const OpDef* def : all_ops()) {
      const OpDef* of = def->vjp.starts_with("aten::") ? find_op(def->vjp) : def;
      require(of, "{} has the derivatives of {}, which has no row", def->signature.name, def->vjp);
      bool discrete = of->kind == Kind::Pointwise && (of->promote == Promote::Compare || of->promote == Promote::Logical);
      if (!of->vjp.empty()) t.add(def, def->signature, of->vjp, of->kind == Kind::Pointwise);
      else if (discrete) t.add(def, def->signature, "none", false);
    }
    for (const BuiltinOp* op : all_builtins())
      if (!op->vjp.empty()) t.add(op, op->signature, op->vjp, false);
    return t;
  }();
  return all;
}

const Derivative* find(const void* row) {
  auto it = table().of.find(row);
  return it == table().of.end() ? nullptr : &it->second;
}

} // namespace

const Derivative* derivative_of(const OpDef& def) { return find(&def); }
const Derivative* derivative_of(const BuiltinOp& op) { return find(&op); }

const script::Functions& library() {
  static const script::Functions functions("torch/derivatives.py", table().source);
  return functions;
}

} // namespace tenon::autodiff
