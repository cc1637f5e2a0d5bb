// Parser and printer of FX text.
#include "fx/text.h"

#include <algorithm>

#include "fx/arg_text.h"
#include "fx/python_text.h"
#include "ir/parse.h"

namespace tenon {

namespace {

constexpr std::string_view kind_names[] = {"placeholder", "get_attr", "call_function", "call_method", "call_module"};

class FxParser {
public:
  explicit FxParser(std::string_view text) : lex_(text) {}

  FxGraph parse() {
    FxGraph top = parse_graph(std::make_shared<ExprPool>());
    while (!lex_.at_end()) { // graphs that nodes run: "true_graph_0 = graph(): ...", inner ones as "true_graph_0.body = graph(): ..."
      if (lex_.accept("%")) lex_.fail(fmt::format("%{} stands behind the output", lex_.word()));
      if (lex_.accept_word("return")) lex_.fail("a second output");
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
  ArgParser args() { return ArgParser(lex_, names_, *g_.pool); }

  FxGraph parse_graph(std::shared_ptr<ExprPool> pool) {
    g_ = FxGraph{.pool = std::move(pool), .exact_types = false};
    names_.clear(), has_result_ = false;
    if (!lex_.accept_word("graph")) lex_.fail("expected 'graph', 'class' or 'def'");
    for (std::string_view part : {"(", ")", ":"}) lex_.expect(part);
    while (!has_result_) {
      if (lex_.at_end()) lex_.fail("a graph without 'return'");
      if (lex_.accept_word("return")) parse_return();
      else if (lex_.accept_word("output")) parse_output();
      else parse_node();
    }
    return std::move(g_);
  }

  void parse_return() {
    g_.result = args().parse(ArgStyle::Python);
    has_result_ = true;
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
    n.target = spelled_target(lex_.word(".*:"));
    lex_.expect("]");
  }

  // "%x : Float(2, 3) [num_users=1] = placeholder[target=x]"; users are counted anew, whatever is said of them.
  void parse_node() {
    FxNode n;
    lex_.expect("%");
    n.name = std::string(lex_.word());
    std::string name = n.name;
    within_node("%" + name, nullptr, [&] { parse_rest(std::move(n)); });
  }

  void parse_rest(FxNode n) {
    if (lex_.accept(":")) {
      if (!lex_.at("[")) n.val = parse_val();
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
    if (n.kind == FxKind::Placeholder &&
        std::any_of(g_.nodes.begin(), g_.nodes.end(), [](auto& m) { return m.kind >= FxKind::CallFunction; }))
      lex_.fail("placeholder %" + n.name + " stands behind another node");
    if (!names_.emplace(n.name, static_cast<uint32_t>(g_.nodes.size())).second) lex_.fail("%" + n.name + " is defined twice");
    g_.nodes.push_back(std::move(n));
  }

  // A type, or those of a list in parentheses: (Float(2, 3), Long(2))
  FxVal parse_val() {
    if (!lex_.accept("(")) {
      TensorMeta meta;
      Type type = parse_type(*g_.pool, lex_, &meta);
      return FxVal::one(std::move(type), meta);
    }
    FxVal val{.is_list = true};
    while (!lex_.accept(")")) {
      if (!val.types.empty()) lex_.expect(",");
      val.types.push_back(parse_type(*g_.pool, lex_));
    }
    return val;
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
    n.args.push_back(args().parse(ArgStyle::Graph));
    lex_.expect(")");
  }

  void parse_empty_call(FxNode& n) {
    if (!lex_.at("(")) return;
    parse_call(n);
    if (!n.args.empty() || !n.kwargs.empty()) lex_.fail("get_attr has no arguments");
  }

  void parse_call(FxNode& n) {
    for (std::string_view part : {"(", "args", "=", "("}) lex_.expect(part);
    n.args = args().parse_list(ArgStyle::Graph, ")", place_of_text(n.target));
    if (lex_.accept(",")) {
      for (std::string_view part : {"kwargs", "=", "{"}) lex_.expect(part);
      while (!lex_.accept("}")) {
        if (!n.kwargs.empty()) lex_.expect(",");
        std::string name = parse_keyword();
        lex_.expect(":");
        n.kwargs.push_back({std::move(name), args().parse(ArgStyle::Graph)});
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

  FxGraph g_;
  Lexer lex_;
  NodeNames names_;
  bool has_result_ = false;
};

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
  Lexer start(plain);
  bool is_python = false;
  for (std::string_view word : {"class ", "def ", "import ", "from "}) is_python |= start.at(word);
  return is_python ? parse_python(plain) : FxParser(plain).parse();
}

namespace {

std::string text_of_call(const FxGraph& g, const FxNode& n) {
  std::string args, kwargs;
  int text_at = place_of_text(n.target);
  for (size_t i = 0; i < n.args.size(); i++) {
    bool free_text = static_cast<int>(i) == text_at;
    args += (i > 0 ? ", " : "") + (free_text ? text_of_free_text(g, n.args[i]) : text_of(g, n.args[i], ArgStyle::Graph));
  }
  if (n.args.size() == 1) args += ",";
  for (const Attribute& k : n.kwargs) kwargs += (kwargs.empty() ? "" : ", ") + k.name + ": " + text_of(g, k.value, ArgStyle::Graph);
  return fmt::format("(args = ({}), kwargs = {{{}}})", args, kwargs);
}

std::string text_of_val(const FxVal& val) {
  std::string s;
  for (const Type& t : val.types) s += (s.empty() ? "" : ", ") + (val.is_list ? to_string(t) : to_string(t, val.meta));
  if (val.is_list) return "(" + s + ") ";
  return s.empty() ? s : s + " ";
}

void print(const FxGraph& g, const std::string& path, std::string& s) {
  std::vector<int> users(g.nodes.size(), 0);
  count_users(g, users);
  s += path.empty() ? "graph():\n" : fmt::format("\n\n{} = graph():\n", path);
  for (size_t i = 0; i < g.nodes.size(); i++) {
    const FxNode& n = g.nodes[i];
    std::string type = n.val ? text_of_val(*n.val) : "";
    s += fmt::format("    %{} : {}[num_users={}] = {}[target={}]", n.name, type, users[i], kind_names[static_cast<size_t>(n.kind)],
                     n.target);
    if (n.kind == FxKind::Placeholder) s += n.args.empty() ? "" : fmt::format("(default={})", text_of(g, n.args[0], ArgStyle::Graph));
    else if (n.kind != FxKind::GetAttr) s += text_of_call(g, n);
    s += "\n";
  }
  s += "    return " + text_of(g, g.result, ArgStyle::Python);
  for (const FxGraph& m : g.modules) print(m, path.empty() ? m.name : path + "." + m.name, s);
}

} // namespace

std::string to_string(const FxGraph& g) {
  std::string s;
  print(g, "", s);
  return s;
}

} // namespace tenon
