// edge.yaml: written and read.
#include "edge/constraints.h"

namespace tenon {

namespace {

// The subset of YAML that the language needs: `key: value` lines, lists by `- `, sets in brackets.
class YamlReader {
public:
  explicit YamlReader(std::string_view text) : text_(text) {}

  std::vector<EdgeOp> read() {
    while (!text_.empty()) {
      line_++;
      std::string_view line = text_.substr(0, text_.find('\n'));
      text_.remove_prefix(std::min(line.size() + 1, text_.size()));
      line = trim(line.substr(0, line.find('#')));
      if (!line.empty()) read_line(line);
    }
    return std::move(ops_);
  }

private:
  enum class Section { Op, Alias, Constraint };

  static std::string_view trim(std::string_view s) {
    size_t a = s.find_first_not_of(" \t\r"), b = s.find_last_not_of(" \t\r");
    return a == s.npos ? std::string_view() : s.substr(a, b - a + 1);
  }
  [[noreturn]] void fail(std::string_view what) const { bad_input("edge.yaml line {}: {}", line_, what); }

  void read_line(std::string_view line) {
    bool item = line.starts_with("- ");
    if (item) line = trim(line.substr(2));
    size_t colon = line.find(':');
    if (colon == line.npos) fail("expected `key: value`");
    std::string key(trim(line.substr(0, colon)));
    std::string_view value = trim(line.substr(colon + 1));
    if (item && key == "func") {
      ops_.push_back({.func = std::string(value), .name_space = {}, .inherits = {}, .aliases = {}, .constraints = {}});
      section_ = Section::Op;
      return;
    }
    if (ops_.empty()) fail("expected `- func: NAME`");
    EdgeOp& op = ops_.back();
    if (!item && key == "namespace") op.name_space = value, section_ = Section::Op;
    else if (!item && key == "inherits") op.inherits = value, section_ = Section::Op;
    else if (!item && key == "type_alias" && value.empty()) section_ = Section::Alias;
    else if (!item && key == "type_constraint" && value.empty()) section_ = Section::Constraint;
    else if (!item && section_ == Section::Alias) op.aliases.emplace_back(key, read_set(value));
    else if (section_ == Section::Constraint) read_constraint(op, item, key, value);
    else fail("an unknown key: " + key);
  }

  void read_constraint(EdgeOp& op, bool item, const std::string& key, std::string_view value) {
    if (item) op.constraints.emplace_back();
    if (op.constraints.empty()) fail("expected `- argument: alias`");
    if (!op.alias(value)) fail(fmt::format("no such alias: {}", value));
    if (key.starts_with("__ret_") && (key.size() < 7 || key.size() > 8 || key.find_first_not_of("0123456789", 6) != key.npos))
      fail("no such result: " + key);
    if (op.name_space.empty()) fail("expected `namespace: NAME` before the constraints of " + op.func);
    if (!names_tensors(op, key)) fail(fmt::format("{} has no argument or result {}", op.name(), key));
    op.constraints.back().emplace_back(key, value);
  }

  // Of operators that are not known here anything may be said.
  static bool names_tensors(const EdgeOp& op, const std::string& key) {
    const OpDef* def = op.name_space == "edge" ? find_op("aten::" + op.func) : nullptr;
    if (!def || def->signature.find(key) >= 0) return true;
    return key.starts_with("__ret_") && std::stoul(key.substr(6)) < def->signature.returns.size();
  }

  DTypes read_set(std::string_view text) const {
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') fail("expected [types]");
    text = text.substr(1, text.size() - 2);
    DTypes set = 0;
    while (!trim(text).empty()) {
      std::string_view name = text.substr(0, text.find(','));
      text.remove_prefix(std::min(name.size() + 1, text.size()));
      set |= set_of({dtype_named(trim(name))});
    }
    return set;
  }

  DType dtype_named(std::string_view name) const {
    for (int t = 0; t < num_dtypes; t++)
      if (torch_name(static_cast<DType>(t)) == name) return static_cast<DType>(t);
    fail(fmt::format("no such type: {}", name));
  }

  std::string_view text_;
  int line_ = 0;
  Section section_ = Section::Op;
  std::vector<EdgeOp> ops_;
};

} // namespace

std::string list_of(DTypes types) {
  std::string list;
  for (int t = 0; t < num_dtypes; t++)
    if (types >> t & 1) list += (list.empty() ? "" : ", ") + std::string(torch_name(static_cast<DType>(t)));
  return list;
}

std::string to_yaml(const std::vector<EdgeOp>& ops) {
  std::string s;
  for (const EdgeOp& op : ops) {
    s += fmt::format("- func: {}\n  namespace: {}\n  inherits: {}\n  type_alias:\n", op.func, op.name_space, op.inherits);
    for (auto& [name, types] : op.aliases) s += fmt::format("    {}: [{}]\n", name, list_of(types));
    s += "  type_constraint:\n";
    for (auto& entry : op.constraints)
      for (size_t i = 0; i < entry.size(); i++) s += fmt::format("  {} {}: {}\n", i ? " " : "-", entry[i].first, entry[i].second);
  }
  return s;
}

std::vector<EdgeOp> parse_edge_yaml(std::string_view text) { return YamlReader(text).read(); }

} // namespace tenon
