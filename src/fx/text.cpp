// Parser and printer of FX text.
#include "fx/text.h"

#include <algorithm>
#include <cmath>
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

// Of operators whose last positional argument is free text, which may hold commas: its place. -1 for others.
int place_of_text(std::string_view target) {
  if (target == "torch.ops.aten._assert_scalar.default" || target == "torch.ops.aten._assert_async.msg") return 1;
  return target == "torch.ops.higher_order.print" ? 0 : -1;
}

class FxParser {
public:
  explicit FxParser(std::string_view text) : lex_(text) {}

  FxGraph parse() {
    FxGraph top = parse_graph(std::make_shared<ExprPool>());
    while (!lex_.at_end()) { // graphs that nodes run: "true_graph_0 = graph(): ...", inner ones as "true_graph_0.body = graph(): ..."
      std::string path(lex_.word("."));
      lex_.expect("=");
      FxGraph* outer = &top;
      for (size_t dot; (dot = path.find('.')) != path.npos; path.erase(0, dot + 1)) {
        auto at = std::find_if(outer->modules.begin(), outer->modules.end(), [&](auto& m) { return m.name == path.substr(0, dot); });
        if (at == outer->modules.end()) lex_.fail(fmt::format("there is no graph {}", path.substr(0, dot)));
        outer = &*at;
      }
      if (std::any_of(outer->modules.begin(), outer->modules.end(), [&](auto& m) { return m.name == path; }))
        lex_.fail(fmt::format("graph {} is defined twice", path));
      FxGraph inner = parse_graph(top.pool);
      inner.name = path;
      outer->modules.push_back(std::move(inner));
    }
    return top;
  }

private:
  FxGraph parse_graph(std::shared_ptr<ExprPool> pool) {
    g_ = FxGraph{.pool = std::move(pool), .exact_types = false};
    names_.clear(), has_result_ = false;
    for (std::string_view part : {"graph", "(", ")", ":"}) lex_.expect(part);
    while (!has_result_) {
      if (lex_.at_end()) lex_.fail("a graph without 'return'");
      if (lex_.accept_word("return")) parse_return();
      else if (lex_.accept_word("output")) parse_output();
      else parse_node();
    }
    return std::move(g_);
  }

  void parse_return() {
    in_return_ = true;
    g_.result = parse_arg();
    in_return_ = false, has_result_ = true;
  }

  // [target=output](args = (%a,), kwargs = {}): what a return is in torch's list of nodes.
  void parse_output() {
    FxNode n{.name = "output"};
    parse_target(n);
    parse_call(n);
    if (n.args.size() == 1) g_.result = n.args[0];
    else {
      n.args.insert(n.args.begin(), fx_tuple);
      g_.result = std::move(n.args);
    }
    has_result_ = true;
  }

  void parse_target(FxNode& n) {
    lex_.expect("[");
    if (lex_.accept("]")) return;
    for (std::string_view part : {"target", "="}) lex_.expect(part);
    n.target = std::string(lex_.word(".*:"));
    if (n.target.starts_with("torch.op.")) n.target.replace(0, 9, "torch.ops."); // as the documents have it
    lex_.expect("]");
  }

  // "%x : Float(2, 3) [num_users=1] = placeholder[target=x]"; users are counted anew, whatever is said of them.
  void parse_node() {
    FxNode n;
    lex_.expect("%");
    n.name = std::string(lex_.word());
    if (lex_.accept(":")) {
      if (!lex_.at("[")) n.val = FxVal::one(parse_type(*g_.pool, lex_));
      lex_.expect("[");
      lex_.take_to("]");
      lex_.expect("]");
    }
    lex_.expect("=");
    if (lex_.accept_word("output")) return parse_output();
    n.kind = parse_kind();
    parse_target(n);
    if (n.kind == FxKind::Placeholder) parse_default(n);
    else if (n.kind == FxKind::GetAttr) parse_empty_call(n);
    else parse_call(n);
    if (n.kind == FxKind::Placeholder && !g_.nodes.empty() && g_.nodes.back().kind != FxKind::Placeholder)
      lex_.fail("placeholder %" + n.name + " stands behind another node");
    if (!names_.emplace(n.name, static_cast<uint32_t>(g_.nodes.size())).second) lex_.fail("%" + n.name + " is defined twice");
    g_.nodes.push_back(std::move(n));
  }

  FxKind parse_kind() {
    auto name = lex_.word();
    for (size_t k = 0; k < std::size(kind_names); k++)
      if (kind_names[k] == name) return static_cast<FxKind>(k);
    lex_.fail(fmt::format("no such kind of node: {}", name));
  }

  // "(default=None)", or "(args = (None,))" as other nodes have it.
  void parse_default(FxNode& n) {
    if (!lex_.at("(")) return;
    size_t before = lex_.position();
    lex_.expect("(");
    if (!lex_.accept_word("default")) {
      lex_.go_back(before);
      parse_call(n);
      if (n.args.size() > 1 || !n.kwargs.empty()) lex_.fail("a placeholder has one default");
      return;
    }
    lex_.expect("=");
    n.args.push_back(parse_arg());
    lex_.expect(")");
  }

  void parse_empty_call(FxNode& n) {
    if (!lex_.at("(")) return;
    parse_call(n);
    if (!n.args.empty() || !n.kwargs.empty()) lex_.fail("get_attr has no arguments");
  }

  void parse_call(FxNode& n) {
    for (std::string_view part : {"(", "args", "=", "("}) lex_.expect(part);
    n.args = parse_list(")", place_of_text(n.target));
    if (lex_.accept(",")) {
      for (std::string_view part : {"kwargs", "=", "{"}) lex_.expect(part);
      while (!lex_.accept("}")) {
        if (!n.kwargs.empty()) lex_.expect(",");
        std::string name = parse_keyword();
        lex_.expect(":");
        n.kwargs.push_back({std::move(name), parse_arg()});
      }
    }
    lex_.expect(")");
  }

  // alpha, or "alpha" as the documents have it.
  std::string parse_keyword() {
    if (!lex_.at("'") && !lex_.at("\"")) return std::string(lex_.word());
    std::string name = lex_.quoted();
    bool is_word = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (!is_word) lex_.fail("a keyword that is no name");
    return name;
  }

  // `text_at`: the element that is free text.
  ArgList parse_list(std::string_view end, int text_at = -1) {
    ArgList list;
    while (!lex_.accept(end)) {
      list.push_back(static_cast<int>(list.size()) == text_at ? parse_free_text() : parse_arg());
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
      if (auto number = parse_complex()) return *number;
      ArgList list = parse_list(")");
      list.insert(list.begin(), fx_tuple);
      return list;
    }
    if (lex_.accept_word("-inf")) return -INFINITY;
    if (lex_.at_number() || lex_.at("-")) {
      auto n = lex_.signed_number();
      if (lex_.accept_word("j")) return std::complex<double>(0, n.f);
      return n.is_float ? Arg(n.f) : Arg(n.i);
    }
    if (lex_.at("'") || lex_.at("\"")) return lex_.quoted();
    lex_.peek();
    size_t begin = lex_.position();
    std::string word(lex_.word(".:/*+-"));
    if (in_return_ || lex_.next_is(",)]}")) return parse_word(word);
    lex_.go_back(begin);
    return std::string(lex_.take_argument()); // a string as torch writes it, without quotes
  }

  // "(1+2j)" as Python writes it, its parenthesis being read.
  std::optional<Arg> parse_complex() {
    size_t before = lex_.position();
    if (lex_.at_number() || lex_.at("-")) {
      double real = lex_.signed_number().f;
      bool minus = lex_.at("-");
      if (minus || lex_.accept("+")) {
        double imaginary = lex_.signed_number().f;
        if (lex_.accept_word("j") && lex_.accept(")")) return Arg(std::complex<double>(real, imaginary));
      }
    }
    lex_.go_back(before);
    return std::nullopt;
  }

  // Free text goes to the end of the arguments, but for those that a format's "{}" wait for.
  Arg parse_free_text() {
    if (lex_.at("'") || lex_.at("\"")) return lex_.quoted();
    lex_.peek();
    size_t begin = lex_.position();
    std::string_view whole = lex_.take_to("), kwargs = {");
    if (whole.ends_with(",")) whole.remove_suffix(1);
    for (size_t end = 0; (end = whole.find(", ", end)) != whole.npos; end++)
      if (count(whole.substr(0, end), "{}") > 0 && count(whole.substr(0, end), "{}") == count(whole.substr(end), ", ")) {
        lex_.go_back(begin + end);
        return std::string(whole.substr(0, end));
      }
    return std::string(whole);
  }
  static size_t count(std::string_view text, std::string_view what) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) n++;
    return n;
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
  bool in_return_ = false, has_result_ = false;
};

// Whether brackets are closed in the order they are opened.
bool is_balanced(std::string_view s) {
  std::string open;
  for (char c : s) {
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

// A string that is read back without quotes.
bool is_bare(std::string_view s) {
  static constexpr std::string_view others[] = {"None", "True", "False", "inf", "nan"};
  bool word = !s.empty() && (std::isalpha(static_cast<unsigned char>(s[0])) || s[0] == '_') &&
              std::find(std::begin(others), std::end(others), s) == std::end(others) && !s.starts_with("torch.");
  return word && s.find(", ") == s.npos && s.back() != ',' && s.back() != ' ' && s.find('\n') == s.npos && is_balanced(s);
}

// Whether free text is read back as it is.
bool is_free_text(const Arg& a) {
  if (!a.is<std::string>()) return false;
  const std::string& s = a.get<std::string>();
  bool plain =
      !s.empty() && s[0] != '\'' && s[0] != '"' && s[0] != '#' && !std::isspace(static_cast<unsigned char>(s[0])) && s.back() != ',';
  return plain && s.find("), kwargs = {") == s.npos;
}

// Python's repr: (1+2j), 2j.
std::string python_complex(std::complex<double> z) {
  auto part = [](double x) {
    std::string s = fmt::format("{}", x);
    return s.ends_with(".0") ? s.substr(0, s.size() - 2) : s;
  };
  if (z.real() == 0 && !std::signbit(z.real())) return part(z.imag()) + "j";
  std::string imaginary = part(z.imag());
  return "(" + part(z.real()) + (imaginary.starts_with("-") ? "" : "+") + imaginary + "j)";
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
  if (a.is<std::complex<double>>()) return python_complex(a.get<std::complex<double>>());
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

FxGraph parse_fx(std::string_view text) {
  std::string plain(text); // "[#users=1]", as it was once printed: '#' begins a comment otherwise
  for (size_t at = 0; (at = plain.find("[#users=", at)) != plain.npos;) plain.replace(at, 8, "[users=");
  return FxParser(plain).parse();
}

namespace {

std::string text_of_call(const FxGraph& g, const FxNode& n) {
  std::string args, kwargs;
  int text_at = place_of_text(n.target);
  for (size_t i = 0; i < n.args.size(); i++) {
    bool free_text = static_cast<int>(i) == text_at && is_free_text(n.args[i]);
    args += (i > 0 ? ", " : "") + (free_text ? n.args[i].get<std::string>() : text_of(g, n.args[i], "%"));
  }
  if (n.args.size() == 1) args += ",";
  for (const Attribute& k : n.kwargs) kwargs += (kwargs.empty() ? "" : ", ") + k.name + ": " + text_of(g, k.value, "%");
  return fmt::format("(args = ({}), kwargs = {{{}}})", args, kwargs);
}

void print(const FxGraph& g, const std::string& path, std::string& s) {
  std::vector<int> users(g.nodes.size(), 0);
  count_users(g, users);
  s += path.empty() ? "graph():\n" : fmt::format("\n\n{} = graph():\n", path);
  for (size_t i = 0; i < g.nodes.size(); i++) {
    const FxNode& n = g.nodes[i];
    std::string type = n.val && !n.val->is_list && n.val->types.size() == 1 ? to_string(n.val->types[0]) + " " : "";
    s += fmt::format("    %{} : {}[num_users={}] = {}[target={}]", n.name, type, users[i], kind_names[static_cast<size_t>(n.kind)],
                     n.target);
    if (n.kind == FxKind::Placeholder) s += n.args.empty() ? "" : fmt::format("(default={})", text_of(g, n.args[0], "%"));
    else if (n.kind != FxKind::GetAttr) s += text_of_call(g, n);
    s += "\n";
  }
  s += "    return " + text_of(g, g.result, "");
  for (const FxGraph& m : g.modules) print(m, path.empty() ? m.name : path + "." + m.name, s);
}

} // namespace

std::string to_string(const FxGraph& g) {
  std::string s;
  print(g, "", s);
  return s;
}

} // namespace tenon
