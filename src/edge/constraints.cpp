// The dtype constraints of Edge operators: made from the rows, written, read, and checked.
#include "edge/constraints.h"

#include <algorithm>
#include <map>

#include "base/lexer.h"
#include "ir/promote.h"

namespace tenon {

namespace {

constexpr DTypes every_type = static_cast<DTypes>((1u << num_dtypes) - 1);
DTypes one(DType t) { return set_of({t}); }

// Collects entries, one alias for each distinct set.
class Maker {
public:
  explicit Maker(const OpDef& def) : def_(def) {
    const std::string& name = def.signature.name;
    size_t at = name.find("::");
    bool aten = name.starts_with("aten::");
    op_ = {
        .func = name.substr(at + 2), .name_space = aten ? "edge" : name.substr(0, at), .inherits = name, .aliases = {}, .constraints = {}};
  }

  EdgeOp make() {
    bool mixed = def_.signature.find("out_dtype") >= 0; // products of operands that are widened
    bool homogeneous = def_.kind == Kind::Pointwise || ((def_.kind == Kind::Matmul || def_.kind == Kind::Conv) && !mixed);
    if (!homogeneous) add(std::nullopt);
    else
      for (int t = 0; t < num_dtypes; t++)
        if (compute_types() >> t & 1) add(static_cast<DType>(t));
    return std::move(op_);
  }

private:
  // What operands are after promotion.
  DTypes compute_types() const {
    if (def_.kind != Kind::Pointwise) return def_.dtypes;
    if (def_.promote == Promote::Logical) return bool_type;
    return def_.promote == Promote::Float ? static_cast<DTypes>(def_.dtypes & (float_types | complex_types)) : def_.dtypes;
  }

  DTypes result(std::optional<DType> compute) const {
    if (def_.kind != Kind::Pointwise) return every_type;
    bool truth = def_.promote == Promote::Compare || def_.promote == Promote::Logical;
    return one(truth ? DType::Bool : *compute);
  }

  // The entry in which the operands that go together are `compute`.
  void add(std::optional<DType> compute) {
    auto& entry = op_.constraints.emplace_back();
    bool first = true;
    for (size_t i = 0; i < def_.signature.args.size(); i++) {
      auto& s = def_.signature.args[i];
      bool scalar = s.type == ArgType::Scalar && def_.kind == Kind::Pointwise; // a 0-d tensor in Edge
      if (s.type != ArgType::Tensor && !scalar) continue;
      DTypes types = every_type;
      if (compute && !is_kept(def_, i)) types = one(*compute);
      else if (scalar) types = one(DType::F64);
      else if (!compute && first) types = def_.dtypes;
      first = false;
      entry.emplace_back(s.name, alias(types));
    }
    for (size_t i = 0; i < def_.signature.returns.size(); i++) entry.emplace_back(fmt::format("__ret_{}", i), alias(result(compute)));
  }

  std::string alias(DTypes types) {
    for (auto& [name, have] : op_.aliases)
      if (have == types) return name;
    op_.aliases.emplace_back(fmt::format("T{}", op_.aliases.size()), types);
    return op_.aliases.back().first;
  }

  const OpDef& def_;
  EdgeOp op_;
};

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
    op.constraints.back().emplace_back(key, value);
  }

  DTypes read_set(std::string_view text) const {
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') fail("expected [types]");
    text = text.substr(1, text.size() - 2);
    DTypes set = 0;
    while (!trim(text).empty()) {
      std::string_view name = text.substr(0, text.find(','));
      text.remove_prefix(std::min(name.size() + 1, text.size()));
      set = static_cast<DTypes>(set | one(dtype_named(trim(name))));
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

const EdgeOp* find_edge_op(std::string_view name) {
  static const auto index = [] {
    std::map<std::string, const EdgeOp*, std::less<>> out;
    for (const EdgeOp& op : edge_ops()) out[op.name()] = &op;
    return out;
  }();
  auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

// Whether every tensor of an argument or result is in the set.
bool holds(const Graph& g, const Node& n, const std::string& what, DTypes types) {
  auto fits = [&](ValueId v) { return !g.type(v).is_tensor() || (types >> static_cast<int>(g.type(v).dtype) & 1); };
  if (what.starts_with("__ret_")) {
    size_t i = std::stoul(what.substr(6));
    return i >= n.outputs.size() || fits(n.outputs[i]);
  }
  int i = n.def->signature.find(what);
  bool ok = true;
  if (i >= 0) for_each_value(n.args[static_cast<size_t>(i)], [&](ValueId v) { ok &= fits(v); });
  return ok;
}

bool is_allowed(const Graph& g, const Node& n, const EdgeOp& op) {
  return std::any_of(op.constraints.begin(), op.constraints.end(), [&](auto& entry) {
    return std::all_of(entry.begin(), entry.end(), [&](auto& c) { return holds(g, n, c.first, *op.alias(c.second)); });
  });
}

} // namespace

const DTypes* EdgeOp::alias(std::string_view name) const {
  for (auto& [have, types] : aliases)
    if (have == name) return &types;
  return nullptr;
}

const std::vector<EdgeOp>& edge_ops() {
  static const auto made = [] {
    std::vector<EdgeOp> out;
    for (const OpDef* def : all_ops())
      if (def->stays_in_edge() && def->kind != Kind::Prim && !def->signature.mutates()) out.push_back(Maker(*def).make());
    return out;
  }();
  return made;
}

std::string to_yaml(const std::vector<EdgeOp>& ops) {
  std::string s;
  for (const EdgeOp& op : ops) {
    s += fmt::format("- func: {}\n  namespace: {}\n  inherits: {}\n  type_alias:\n", op.func, op.name_space, op.inherits);
    for (auto& [name, types] : op.aliases) {
      std::string list;
      for (int t = 0; t < num_dtypes; t++)
        if (types >> t & 1) list += (list.empty() ? "" : ", ") + std::string(torch_name(static_cast<DType>(t)));
      s += fmt::format("    {}: [{}]\n", name, list);
    }
    s += "  type_constraint:\n";
    for (auto& entry : op.constraints)
      for (size_t i = 0; i < entry.size(); i++) s += fmt::format("  {} {}: {}\n", i ? " " : "-", entry[i].first, entry[i].second);
  }
  return s;
}

std::vector<EdgeOp> parse_edge_yaml(std::string_view text) { return YamlReader(text).read(); }

std::optional<DTypes> allowed_types(std::string_view name, std::string_view argument) {
  const EdgeOp* op = find_edge_op(name);
  if (!op) return std::nullopt;
  DTypes types = 0;
  for (auto& entry : op->constraints)
    for (auto& [what, alias] : entry)
      if (what == argument) types = static_cast<DTypes>(types | *op->alias(alias));
  return types;
}

void check_edge_types(const Graph& g) {
  for (uint32_t i = 0; i < g.num_nodes(); i++) {
    const Node& n = g.node(NodeId{i});
    if (!n.op.starts_with("edge::") || !n.def) continue;
    const EdgeOp* op = find_edge_op("edge::" + n.def->signature.name.substr(n.def->signature.name.find("::") + 2));
    if (op && !is_allowed(g, n, *op)) {
      std::string text = to_string(g, NodeId{i});
      internal_error("the constraints of {} do not allow these dtypes in `{}`", n.op, text.substr(0, text.find('\n')));
    }
  }
}

} // namespace tenon
