// Parser and printer of the Python form of FX graphs.
#include "fx/python_text.h"

#include <algorithm>

#include "fx/arg_text.h"
#include "fx/edge_target.h"
#include "ir/parse.h"

namespace tenon {

namespace {

struct InfixOperator {
  std::string_view sign, target;
};
// Longer signs before those that they begin with.
constexpr InfixOperator infix_operators[] = {
    {"**", "operator.pow"}, {"//", "operator.floordiv"}, {"<<", "operator.lshift"}, {">>", "operator.rshift"}, {"==", "operator.eq"},
    {"!=", "operator.ne"},  {"<=", "operator.le"},       {">=", "operator.ge"},     {"<", "operator.lt"},      {">", "operator.gt"},
    {"+", "operator.add"},  {"-", "operator.sub"},       {"*", "operator.mul"},     {"/", "operator.truediv"}, {"%", "operator.mod"},
    {"&", "operator.and_"}, {"|", "operator.or_"},       {"^", "operator.xor"},     {"@", "operator.matmul"},
};
constexpr InfixOperator prefix_operators[] = {{"-", "operator.neg"}, {"+", "operator.pos"}, {"~", "operator.invert"}};

class PythonParser {
public:
  explicit PythonParser(std::string_view text) : lex_(text), pool_(std::make_shared<ExprPool>()) {}

  FxGraph parse() {
    bool in_file = lex_.at("import ") || lex_.at("from ");
    if (in_file) lex_.take_to("\nclass ");
    FxGraph g = lex_.at("class") ? parse_class() : parse_forward();
    if (!in_file && !lex_.at_end()) lex_.fail("more text after the module");
    g.name.clear();
    return g;
  }

private:
  ArgParser args() { return ArgParser(lex_, names_, *pool_); }
  Arg parse_arg() { return args().parse(ArgStyle::Python); }
  void expect(std::initializer_list<std::string_view> parts) {
    for (std::string_view part : parts) lex_.expect(part);
  }

  // Classes of graphs that nodes run stand behind forward, further to the right.
  FxGraph parse_class() {
    Lexer::Depth depth(lex_);
    int column = lex_.column();
    lex_.expect("class");
    std::string name(lex_.word());
    expect({"(", "torch.nn.Module", ")", ":"});
    if (lex_.at("def __init__")) lex_.take_to("def forward");
    FxGraph g = parse_forward();
    g.name = std::move(name);
    while (lex_.at("class") && lex_.column() > column) {
      FxGraph inner = parse_class();
      if (std::any_of(g.modules.begin(), g.modules.end(), [&](auto& m) { return m.name == inner.name; }))
        lex_.fail(fmt::format("graph {} is defined twice", inner.name));
      g.modules.push_back(std::move(inner));
    }
    return g;
  }

  FxGraph parse_forward() {
    g_ = FxGraph{.pool = pool_, .exact_types = false};
    names_.clear(), declared_.clear(), has_result_ = false;
    expect({"def", "forward", "(", "self"});
    while (lex_.accept(",")) parse_parameter();
    expect({")", ":"});
    while (!has_result_) {
      if (lex_.at_end()) lex_.fail("a function without 'return'");
      if (lex_.accept_word("return")) parse_return();
      else parse_statement();
    }
    for (FxNode& n : g_.nodes)
      if (auto type = declared_.find(n.target); n.kind == FxKind::Placeholder && type != declared_.end()) n.val = std::move(type->second);
    return std::move(g_);
  }

  void parse_parameter() {
    std::string name(lex_.word());
    FxNode n{.name = name, .kind = FxKind::Placeholder, .target = name};
    if (lex_.accept(":")) n.val = type_of_annotation(skip_annotation());
    if (lex_.accept("=")) n.args.push_back(parse_arg());
    add(std::move(n));
  }

  FxNode* add(FxNode n) {
    if (!names_.emplace(n.name, static_cast<uint32_t>(g_.nodes.size())).second) lex_.fail("%" + n.name + " is defined twice");
    g_.nodes.push_back(std::move(n));
    return &g_.nodes.back();
  }

  // return (a, b), or return pytree.tree_unflatten((a, b), self._out_spec)
  void parse_return() {
    bool tree = lex_.accept_word("pytree.tree_unflatten");
    if (tree) lex_.expect("(");
    g_.result = parse_arg();
    if (tree) expect({",", "self._out_spec", ")"});
    has_result_ = true;
  }

  void parse_statement() {
    std::string name(lex_.word());
    if (lex_.at(",")) return parse_flattening(name);
    std::optional<size_t> type_at;
    if (lex_.accept(":")) type_at = skip_annotation();
    if (type_at && lex_.accept(";")) { // name: "f32[2]"; of an input
      declared_[name] = type_of_annotation(*type_at);
      return;
    }
    lex_.expect("=");
    FxNode* made = parse_value(std::move(name));
    if (made && made->kind == FxKind::GetAttr && type_at) made->val = type_of_annotation(*type_at);
    parse_deletions();
  }

  // ";  a = b = None": values that are not used any more.
  void parse_deletions() {
    if (!lex_.accept(";")) return;
    do {
      if (lex_.accept_word("None")) return;
      lex_.word();
    } while (lex_.accept("="));
    lex_.fail("expected '= None'");
  }

  // "a, b, = fx_pytree.tree_flatten_spec(([x], {}), self._in_spec)": a and b are the inputs.
  void parse_flattening(std::string first) {
    std::vector<std::string> leaves{std::move(first)};
    while (lex_.accept(",") && !lex_.at("=")) leaves.emplace_back(lex_.word());
    expect({"=", "fx_pytree.tree_flatten_spec", "("});
    lex_.take_argument();
    expect({",", "self._in_spec", ")"});
    FxGraph given = std::exchange(g_, FxGraph{.pool = pool_, .exact_types = false});
    names_.clear();
    for (const FxNode& n : given.nodes)
      if (n.kind != FxKind::Placeholder) lex_.fail("inputs are flattened behind other nodes");
    for (std::string& leaf : leaves) {
      auto known = std::find_if(given.nodes.begin(), given.nodes.end(), [&](const FxNode& n) { return n.name == leaf; });
      if (known != given.nodes.end()) add(std::move(*known));
      else add({.name = leaf, .kind = FxKind::Placeholder, .target = leaf});
    }
  }

  // Where the annotation stands.
  size_t skip_annotation() {
    lex_.peek();
    size_t at = lex_.position();
    if (lex_.at("'") || lex_.at("\"")) lex_.quoted();
    else lex_.word("."); // torch.Tensor
    return at;
  }

  // "f32[s77, 8]", with strides and device where asked for: "f32[4, 8][8, 1]cpu"; "Sym(s77)". Others say nothing of a tensor.
  std::optional<FxVal> type_of_annotation(size_t at) {
    size_t behind = lex_.position();
    lex_.go_back(at);
    if (!lex_.at("'") && !lex_.at("\"")) return lex_.go_back(behind), std::nullopt;
    std::string text = lex_.quoted();
    Lexer type(text);
    try {
      std::optional<FxVal> val = parse_type(type, text);
      lex_.go_back(behind);
      return val;
    } catch (const Error&) {
      lex_.go_back(at);
      lex_.fail("a type that cannot be read");
    }
  }

  std::optional<FxVal> parse_type(Lexer& type, std::string_view text) {
    if (text.starts_with("Sym(")) return parse_number_type(text);
    if (!type.at_word()) return std::nullopt;
    std::string_view name = type.word();
    if (name == "b8") name = name_of(DType::Bool);
    for (int t = 0; t < num_dtypes; t++)
      if (name_of(static_cast<DType>(t)) == name && type.accept("[")) {
        Type tensor = Type::tensor(static_cast<DType>(t), parse_sizes(type));
        if (type.accept("[")) tensor.strides = parse_sizes(type);
        if (!tensor.strides.empty() && tensor.strides.size() != tensor.rank()) type.fail("as many strides as sizes are needed");
        return FxVal::one(std::move(tensor));
      }
    return std::nullopt;
  }

  std::vector<Expr> parse_sizes(Lexer& type) {
    std::vector<Expr> sizes;
    while (!type.accept("]")) {
      if (!sizes.empty()) type.expect(",");
      sizes.push_back(parse_size(*pool_, type));
      if (!is_int(sizes.back()->type)) type.fail("a size that is no integer");
    }
    return sizes;
  }

  // A symbol; other numbers are what their nodes compute.
  std::optional<FxVal> parse_number_type(std::string_view text) {
    std::string name(text.substr(4, text.size() - 5));
    if (!text.ends_with(")") || name.empty() || !std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c); }) ||
        std::isdigit(static_cast<unsigned char>(name[0])))
      return std::nullopt;
    bool real = name.starts_with("zf") || name.starts_with("zuf");
    Expr value = pool_->symbol(name, real ? DType::F64 : DType::I64);
    if (is_float(value->type) != real) lex_.fail(fmt::format("{} is a number of two types", name));
    return FxVal::one(Type::scalar(real ? TypeKind::Float : TypeKind::Int, value));
  }

  // ---- nodes

  // What stands behind "name =": a node, or an input under another name.
  FxNode* parse_value(std::string name) {
    FxNode n{.name = std::move(name)};
    if (lex_.at_word()) {
      size_t begin = lex_.position();
      std::string word(lex_.word("."));
      if (word == "getattr" || word.starts_with("self.")) {
        lex_.go_back(begin);
        parse_attribute(n);
        return add(std::move(n));
      }
      if (lex_.at("(")) {
        set_callee(n, word);
        parse_call(n);
        return add(std::move(n));
      }
      lex_.go_back(begin);
    }
    if (parse_prefix(n) || parse_infix(n)) return add(std::move(n));
    rename_input(n);
    return nullptr;
  }

  // self.layers.weight, getattr(self.layers, "0").weight: what stands behind self.
  std::string parse_path() {
    Lexer::Depth depth(lex_);
    std::string path;
    if (lex_.accept_word("getattr")) {
      lex_.expect("(");
      path = parse_path();
      lex_.expect(",");
      path += (path.empty() ? "" : ".") + lex_.quoted();
      lex_.expect(")");
    } else lex_.expect("self");
    while (lex_.accept(".")) path += (path.empty() ? "" : ".") + std::string(lex_.word());
    return path;
  }

  // A weight, a graph, or the call of a module.
  void parse_attribute(FxNode& n) {
    n.target = parse_path();
    n.kind = lex_.at("(") ? FxKind::CallModule : FxKind::GetAttr;
    if (n.kind == FxKind::CallModule) parse_call(n);
  }

  // torch.ops.aten.add.Tensor, or x.relu where x is a node. Functions from elsewhere have '_' for each '.'.
  void set_callee(FxNode& n, const std::string& word) {
    size_t dot = word.find('.');
    if (auto self = names_.find(word.substr(0, dot)); self != names_.end() && dot != word.npos) {
      n.kind = FxKind::CallMethod;
      n.args.push_back(ValueId{self->second});
      n.target = word.substr(dot + 1);
      return;
    }
    n.target = spelled_target(word);
    if (word.starts_with("math_")) n.target = "math." + word.substr(5);
    if (word.starts_with("operator_")) n.target = "operator." + word.substr(9);
    if (word.starts_with(flat_edge_prefix)) {
      auto op = edge_operator(word);
      if (!op) lex_.fail(fmt::format("there is no operator {}", word.substr(flat_edge_prefix.size())));
      n.target = edge_target(*op);
    }
  }

  // (a, 2, alpha = 3)
  void parse_call(FxNode& n) {
    lex_.expect("(");
    while (!lex_.accept(")")) {
      size_t begin = lex_.position();
      std::string keyword(lex_.at_word() ? lex_.word() : "");
      if (!keyword.empty() && lex_.accept("=")) n.kwargs.push_back({std::move(keyword), parse_arg()});
      else {
        lex_.go_back(begin);
        if (!n.kwargs.empty()) lex_.fail("a positional argument behind a keyword");
        n.args.push_back(parse_arg());
      }
      if (!lex_.accept(",") && !lex_.at(")")) lex_.fail("expected ',' or ')'");
    }
  }

  // -x
  bool parse_prefix(FxNode& n) {
    for (const InfixOperator& op : prefix_operators) {
      size_t begin = lex_.position();
      if (!lex_.accept(op.sign)) continue;
      if (lex_.at_word() && !lex_.at("inf")) {
        n.target = op.target;
        n.args.push_back(parse_arg());
        return true;
      }
      lex_.go_back(begin);
    }
    return false;
  }

  // a + 1, or a[0]. False where a stands alone.
  bool parse_infix(FxNode& n) {
    n.args.push_back(parse_arg());
    if (lex_.accept("[")) {
      n.target = "operator.getitem";
      n.args.push_back(parse_arg());
      lex_.expect("]");
      return true;
    }
    for (const InfixOperator& op : infix_operators)
      if (lex_.accept(op.sign)) {
        n.target = op.target;
        n.args.push_back(parse_arg());
        return true;
      }
    return false;
  }

  void rename_input(const FxNode& n) {
    const Arg& old = n.args[0];
    FxNode* input = old.is<ValueId>() ? &g_.nodes[old.get<ValueId>().index] : nullptr;
    if (!input || input->kind != FxKind::Placeholder || input->name != input->target) lex_.fail("expected an operator or a call");
    if (!names_.emplace(n.name, old.get<ValueId>().index).second) lex_.fail("%" + n.name + " is defined twice");
    names_.erase(input->name);
    input->name = n.name;
  }

  FxGraph g_;
  Lexer lex_;
  std::shared_ptr<ExprPool> pool_;
  NodeNames names_;
  std::map<std::string, std::optional<FxVal>> declared_; // types of inputs that stand before they are flattened
  bool has_result_ = false;
};

} // namespace

FxGraph parse_python(std::string_view text) { return PythonParser(text).parse(); }

std::string python_type(const Type& type) {
  if (type.value) return "Sym(" + to_string(type.value) + ")";
  if (!type.is_tensor()) return "";
  auto list = [](const std::vector<Expr>& sizes) {
    std::string s;
    for (Expr e : sizes) s += (s.empty() ? "" : ", ") + to_string(e);
    return "[" + s + "]";
  };
  std::string dtype(type.dtype == DType::Bool ? "b8" : name_of(type.dtype));
  return dtype + list(type.sizes) + (type.strides.empty() ? "" : list(type.strides));
}

namespace {

std::string annotation(const FxNode& n) {
  std::string type = n.val && !n.val->is_list && n.val->types.size() == 1 ? python_type(n.val->types[0]) : "";
  return type.empty() ? "" : ": \"" + type + "\"";
}

std::string attribute_path(std::string_view target) {
  std::string path = "self";
  while (true) {
    std::string_view part = target.substr(0, target.find('.'));
    bool is_name = !part.empty() && !std::isdigit(static_cast<unsigned char>(part[0]));
    path = is_name ? fmt::format("{}.{}", path, part) : fmt::format("getattr({}, \"{}\")", path, part);
    if (part.size() == target.size()) return path;
    target.remove_prefix(part.size() + 1);
  }
}

std::string text_of_value(const FxGraph& g, const FxNode& n) {
  auto arg = [&](size_t i) { return text_of(g, n.args[i], ArgStyle::Python); };
  if (n.kind == FxKind::GetAttr) return attribute_path(n.target);
  if (n.target == "operator.getitem" && n.args.size() == 2) return fmt::format("{}[{}]", arg(0), arg(1));
  for (const InfixOperator& op : infix_operators)
    if (op.target == n.target && n.args.size() == 2 && n.kwargs.empty()) return fmt::format("{} {} {}", arg(0), op.sign, arg(1));
  for (const InfixOperator& op : prefix_operators)
    if (op.target == n.target && n.args.size() == 1 && n.kwargs.empty()) return std::string(op.sign) + arg(0);
  std::string operands = text_of_list(g, n.args, n.kind == FxKind::CallMethod ? 1 : 0, ArgStyle::Python);
  for (const Attribute& k : n.kwargs) operands += (operands.empty() ? "" : ", ") + k.name + " = " + text_of(g, k.value, ArgStyle::Python);
  std::string callee = n.kind == FxKind::CallMethod   ? arg(0) + "." + n.target
                       : n.kind == FxKind::CallModule ? attribute_path(n.target)
                                                      : n.target;
  return callee + "(" + operands + ")";
}

} // namespace

std::string to_python(const FxGraph& g, std::string_view name, std::string_view body, int depth) {
  std::string indent(static_cast<size_t>(depth) * 4, ' '), parameters, lines;
  for (const FxNode& n : g.nodes) {
    if (n.kind != FxKind::Placeholder) {
      lines += fmt::format("{}        {}{} = {}\n", indent, n.name, annotation(n), text_of_value(g, n));
      continue;
    }
    std::string otherwise = n.args.empty() ? "" : " = " + text_of(g, n.args[0], ArgStyle::Python);
    parameters += ", " + n.name + annotation(n) + otherwise;
  }
  std::string s =
      fmt::format("{}class {}(torch.nn.Module):\n{}{}    def forward(self{}):\n{}", indent, name, body, indent, parameters, lines);
  s += fmt::format("{}        return {}\n", indent, text_of(g, g.result, ArgStyle::Python));
  for (const FxGraph& m : g.modules) s += "\n" + to_python(m, m.name, {}, depth + 1);
  return s;
}

} // namespace tenon
