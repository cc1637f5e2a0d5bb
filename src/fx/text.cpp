// Parser and printer of FX text.
#include "fx/text.h"

#include <algorithm>
#include <unordered_map>

#include "base/lexer.h"
#include "ir/op.h"
#include "ir/parse.h"

namespace tenon {

namespace {

constexpr std::string_view kind_names[] = {"placeholder", "get_attr", "call_function", "call_method", "call_module"};

struct DTypeName {
  std::string_view torch;
  DType type;
};
constexpr DTypeName dtype_names[] = {{"bool", DType::Bool},
                                     {"uint8", DType::U8},
                                     {"int8", DType::I8},
                                     {"int16", DType::I16},
                                     {"int32", DType::I32},
                                     {"int64", DType::I64},
                                     {"float16", DType::F16},
                                     {"bfloat16", DType::BF16},
                                     {"float32", DType::F32},
                                     {"float64", DType::F64},
                                     {"complex64", DType::C64},
                                     {"complex128", DType::C128},
                                     {"uint64", DType::U64},
                                     {"float8_e4m3fn", DType::F8E4M3FN},
                                     {"float8_e5m2", DType::F8E5M2},
                                     {"float8_e4m3fnuz", DType::F8E4M3FNUZ},
                                     {"float8_e5m2fnuz", DType::F8E5M2FNUZ}};

class FxParser {
public:
  explicit FxParser(std::string_view text) : lex_(text) {}

  FxGraph parse() {
    g_.exact_types = false;
    for (std::string_view part : {"graph", "(", ")", ":"}) lex_.expect(part);
    while (!lex_.accept_word("return")) {
      if (lex_.at_end()) lex_.fail("a graph without 'return'");
      parse_node();
    }
    in_return_ = true;
    g_.result = parse_arg();
    if (!lex_.at_end()) lex_.fail("more text after the graph");
    return std::move(g_);
  }

private:
  void parse_node() {
    FxNode n;
    lex_.expect("%");
    n.name = std::string(lex_.word());
    lex_.expect(":");
    if (!lex_.at("[")) n.val = FxVal::one(parse_type(*g_.pool, lex_));
    for (std::string_view part : {"[", "num_users", "="}) lex_.expect(part);
    lex_.number(); // printed anew from the uses
    for (std::string_view part : {"]", "="}) lex_.expect(part);
    n.kind = parse_kind();
    for (std::string_view part : {"[", "target", "="}) lex_.expect(part);
    n.target = std::string(lex_.word(".*:"));
    lex_.expect("]");
    if (n.kind == FxKind::Placeholder) parse_default(n);
    else if (n.kind != FxKind::GetAttr) parse_call(n);
    if (!names_.emplace(n.name, static_cast<uint32_t>(g_.nodes.size())).second) lex_.fail("%" + n.name + " is defined twice");
    g_.nodes.push_back(std::move(n));
  }

  FxKind parse_kind() {
    auto name = lex_.word();
    for (size_t k = 0; k < std::size(kind_names); k++)
      if (kind_names[k] == name) return static_cast<FxKind>(k);
    lex_.fail(fmt::format("no such kind of node: {}", name));
  }

  void parse_default(FxNode& n) {
    if (!lex_.accept("(")) return;
    for (std::string_view part : {"default", "="}) lex_.expect(part);
    n.args.push_back(parse_arg());
    lex_.expect(")");
  }

  void parse_call(FxNode& n) {
    for (std::string_view part : {"(", "args", "=", "("}) lex_.expect(part);
    n.args = parse_list(")");
    for (std::string_view part : {",", "kwargs", "=", "{"}) lex_.expect(part);
    while (!lex_.accept("}")) {
      if (!n.kwargs.empty()) lex_.expect(",");
      std::string name(lex_.word());
      lex_.expect(":");
      n.kwargs.push_back({std::move(name), parse_arg()});
    }
    lex_.expect(")");
  }

  ArgList parse_list(std::string_view end) {
    ArgList list;
    while (!lex_.accept(end)) {
      list.push_back(parse_arg());
      if (!lex_.accept(",") && !lex_.at(end)) lex_.fail(fmt::format("expected ',' or '{}'", end));
    }
    return list;
  }

  Arg node_named(std::string_view name) {
    auto it = names_.find(std::string(name));
    if (it == names_.end()) lex_.fail(fmt::format("%{} is not defined here", name));
    return ValueId{it->second};
  }

  Arg parse_arg() {
    Lexer::Depth depth(lex_);
    if (lex_.accept("%")) return node_named(lex_.word());
    if (lex_.accept("[")) return parse_list("]");
    if (lex_.accept("{")) {
      Expr e = parse_expr(*g_.pool, lex_);
      lex_.expect("}");
      return e;
    }
    if (lex_.accept("(")) {
      ArgList list = parse_list(")");
      list.insert(list.begin(), fx_tuple);
      return list;
    }
    if (lex_.accept_word("-inf")) return -INFINITY;
    if (lex_.at_number() || lex_.at("-")) {
      auto n = lex_.signed_number();
      return n.is_float ? Arg(n.f) : Arg(n.i);
    }
    if (lex_.at("'") || lex_.at("\"")) return lex_.quoted();
    return parse_word(std::string(lex_.word(".:/*+-")));
  }

  Arg parse_word(const std::string& word) {
    if (word == "None") return {};
    if (word == "True") return true;
    if (word == "False") return false;
    if (word == "inf") return INFINITY;
    if (word == "nan") return NAN;
    if (word.starts_with("torch.")) {
      for (auto& d : dtype_names)
        if (d.torch == std::string_view(word).substr(6)) return d.type;
      return Word{word.substr(6)};
    }
    return in_return_ ? node_named(word) : Arg(word);
  }

  FxGraph g_;
  Lexer lex_;
  std::unordered_map<std::string, uint32_t> names_;
  bool in_return_ = false;
};

// A string that is read back without quotes.
bool is_bare(std::string_view s) {
  static constexpr std::string_view others[] = {"None", "True", "False", "inf", "nan"};
  bool word = !s.empty() && std::isalpha(static_cast<unsigned char>(s[0])) &&
              std::find(std::begin(others), std::end(others), s) == std::end(others) && !s.starts_with("torch.");
  return word && std::all_of(s.begin(), s.end(), [](unsigned char c) {
           return std::isalnum(c) || std::string_view("_.:/*+-").find(static_cast<char>(c)) != std::string_view::npos;
         });
}

std::string text_of(const FxGraph& g, const Arg& a, std::string_view mark);

std::string join(const FxGraph& g, const ArgList& list, size_t begin, std::string_view mark) {
  std::string s;
  for (size_t i = begin; i < list.size(); i++) s += (s.empty() ? "" : ", ") + text_of(g, list[i], mark);
  return s;
}

std::string text_of_tuple(const FxGraph& g, const ArgList& list, size_t begin, std::string_view mark) {
  return "(" + join(g, list, begin, mark) + (list.size() - begin == 1 ? ",)" : ")");
}

std::string text_of(const FxGraph& g, const Arg& a, std::string_view mark) {
  if (a.is<ValueId>()) return std::string(mark) + g.nodes[a.get<ValueId>().index].name;
  if (a.is<std::string>() && is_bare(a.get<std::string>())) return a.get<std::string>(); // as torch writes strings; others are quoted
  if (a.is<Word>()) return "torch." + a.get<Word>().text;
  if (a.is<Expr>()) return "{" + to_string(a.get<Expr>()) + "}";
  if (a.is<DType>()) {
    for (auto& d : dtype_names)
      if (d.type == a.get<DType>()) return "torch." + std::string(d.torch);
  }
  if (a.is<ArgList>()) {
    auto& list = a.get<ArgList>();
    if (!list.empty() && list[0] == Arg(fx_tuple)) return text_of_tuple(g, list, 1, mark);
    return "[" + join(g, list, 0, mark) + "]";
  }
  return to_string(Graph(g.pool), a); // numbers, None, True
}

void count_users(const FxGraph& g, std::vector<int>& users) {
  auto add = [&](std::vector<uint32_t> used) {
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (uint32_t u : used) users[u]++;
  };
  for (const FxNode& n : g.nodes) {
    std::vector<uint32_t> used;
    auto see = [&](ValueId v) { used.push_back(v.index); };
    for (const Arg& a : n.args) for_each_value(a, see);
    for (const Attribute& k : n.kwargs) for_each_value(k.value, see);
    add(std::move(used));
  }
  std::vector<uint32_t> used;
  for_each_value(g.result, [&](ValueId v) { used.push_back(v.index); });
  add(std::move(used));
}

} // namespace

FxGraph parse_fx(std::string_view text) { return FxParser(text).parse(); }

std::string to_string(const FxGraph& g) {
  std::vector<int> users(g.nodes.size(), 0);
  count_users(g, users);
  std::string s = "graph():\n";
  for (size_t i = 0; i < g.nodes.size(); i++) {
    const FxNode& n = g.nodes[i];
    std::string type = n.val && !n.val->is_list && n.val->types.size() == 1 ? to_string(n.val->types[0]) + " " : "";
    s += fmt::format("    %{} : {}[num_users={}] = {}[target={}]", n.name, type, users[i], kind_names[static_cast<size_t>(n.kind)],
                     n.target);
    if (n.kind == FxKind::Placeholder) s += n.args.empty() ? "" : fmt::format("(default={})", text_of(g, n.args[0], "%"));
    else if (n.kind != FxKind::GetAttr) {
      std::string kwargs;
      for (const Attribute& k : n.kwargs) kwargs += (kwargs.empty() ? "" : ", ") + k.name + ": " + text_of(g, k.value, "%");
      s += fmt::format("(args = {}, kwargs = {{{}}})", text_of_tuple(g, n.args, 0, "%"), kwargs);
    }
    s += "\n";
  }
  return s + "    return " + text_of(g, g.result, "");
}

} // namespace tenon
