// The parser of script graphs' text.
#include <unordered_map>

#include "ir/op.h"
#include "ops/call_names.h"
#include "ops/names.h"
#include "script/text.h"

namespace tenon::script {

namespace {

// Elements of a constant are of its type: a tuple's, floats written without a point.
void settle_constants(Graph& g) {
  for (uint32_t i = 0; i < g.num_nodes(); i++) {
    Node& n = g.node(NodeId{i});
    if (n.op != prim::Constant || n.outputs.size() != 1) continue;
    const Type& t = g.type(n.outputs[0]);
    for (Attribute& a : n.attributes) {
      if (a.name != "value" || !a.value.is<int64_t>()) continue;
      if (t.is(TypeKind::Bool)) a.value = a.value.get<int64_t>() != 0;
      else if (t.is(TypeKind::Float)) a.value = static_cast<double>(a.value.get<int64_t>());
    }
  }
}

class GraphReader {
public:
  explicit GraphReader(Lexer lexer) : lex_(lexer) {}

  ScriptText parse() {
    parse_graph();
    if (!lex_.at_end()) lex_.fail("more text after the graph");
    return {std::move(g_), spelling_};
  }

private:
  void parse_graph() {
    lex_.expect("graph");
    parse_params(g_.top());
    parse_body(g_.top(), "return");
    settle_constants(g_);
  }

  // ---- values

  std::string parse_name() {
    lex_.expect("%");
    return std::string(lex_.word("."));
  }
  void define(const std::string& name, ValueId v) {
    if (!values_.emplace(name, v).second) lex_.fail("%" + name + " is defined twice");
    scope_.push_back(name);
  }
  ValueId parse_value() {
    std::string name = parse_name();
    auto it = values_.find(name);
    if (it == values_.end()) lex_.fail("%" + name + " is not defined here");
    return it->second;
  }

  struct Declared {
    std::string name;
    Type type = Type::simple(TypeKind::Dynamic);
    TensorMeta meta = {};
  };
  Declared parse_declared() {
    Declared d;
    d.name = parse_name();
    if (!lex_.accept(":")) return d;
    if (lex_.at("Dynamic") || lex_.at("World")) spelling_ = Spelling::Of2018;
    d.type = parse_script_type(g_.pool(), lex_, &d.meta);
    return d;
  }

  void parse_params(BlockId block) {
    lex_.expect("(");
    while (!lex_.accept(")")) {
      if (!g_.block(block).params.empty()) lex_.accept(",");
      Declared d = parse_declared();
      ValueId v = g_.add_param(block, std::move(d.type), d.name);
      g_.value(v).meta = d.meta;
      define(d.name, v);
    }
  }

  // `:` or `{`, nodes, `return (...)` or `-> (...)`, and what closes it. Ends where the next block of the node begins, if the brace is
  // missing.
  void parse_body(BlockId block, std::string_view end) {
    Lexer::Depth depth(lex_);
    size_t outer = scope_.size();
    bool braces = lex_.accept("{");
    if (braces) spelling_ = Spelling::Of2018;
    else lex_.expect(":");
    while (!(end == "->" ? lex_.at("->") : lex_.at("return"))) {
      if (lex_.at_end()) lex_.fail(fmt::format("expected '{} (...)'", end));
      parse_node(block);
    }
    lex_.expect(end);
    lex_.expect("(");
    ArgList returns;
    while (!lex_.accept(")")) {
      if (!returns.empty()) lex_.expect(",");
      returns.push_back(parse_value());
    }
    g_.block(block).returns = std::move(returns);
    lex_.accept(";");
    if (braces) lex_.accept("}");
    for (; scope_.size() > outer; scope_.pop_back()) values_.erase(scope_.back());
  }

  // ---- nodes

  void parse_node(BlockId block) {
    std::vector<Declared> outputs;
    while (lex_.at("%")) {
      if (!outputs.empty() && lex_.peek() != '%') break;
      outputs.push_back(parse_declared());
      if (!lex_.accept(",")) break;
    }
    if (!outputs.empty()) lex_.expect("=");
    else lex_.accept("=");
    Node n;
    n.op = lex_.word(":");
    if (n.op.dialect().empty()) lex_.fail(fmt::format("'{}' is no operator: its name has a namespace, as aten::add", n.op));
    if (lex_.accept("[")) parse_attributes(n);
    lex_.expect("(");
    while (!lex_.accept(")")) {
      if (!n.args.empty()) lex_.expect(",");
      n.args.push_back(parse_value());
    }
    n.origin = parse_range();
    std::vector<Type> types;
    std::vector<std::string> names;
    for (Declared& d : outputs) types.push_back(std::move(d.type)), names.push_back(d.name);
    NodeId id = g_.append(block, std::move(n), std::move(types), std::move(names));
    parse_blocks(id);
    for (size_t i = 0; i < outputs.size(); i++) {
      ValueId v = g_.node(id).outputs[i];
      g_.value(v).meta = outputs[i].meta;
      define(outputs[i].name, v);
    }
  }

  void parse_blocks(NodeId id) {
    for (int k = 0; lex_.accept_word(fmt::format("block{}", k)); k++) {
      BlockId inner = g_.add_block(id);
      size_t outer = scope_.size();
      parse_params(inner);
      parse_body(inner, "->");
      for (; scope_.size() > outer; scope_.pop_back()) values_.erase(scope_.back());
      if (g_.node(id).blocks.size() > 64) lex_.fail("too many blocks");
    }
  }

  // "# m.py:3:4" behind a node
  std::shared_ptr<const Origin> parse_range() {
    size_t start = lex_.position();
    std::string_view rest = lex_.rest_of_line();
    size_t mark = rest.find_first_not_of(" \t");
    if (mark == rest.npos || rest[mark] != '#') {
      lex_.go_back(start);
      return nullptr;
    }
    rest.remove_prefix(mark + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    if (rest.find(':') == rest.npos) return nullptr; // a remark
    return std::make_shared<Origin>(Origin{.range = std::string(rest)});
  }

  // ---- attributes

  void parse_attributes(Node& n) {
    while (!lex_.accept("]")) {
      if (!n.attributes.empty()) lex_.expect(",");
      std::string name(lex_.word());
      lex_.expect("=");
      n.attributes.push_back({name, name == "types" ? parse_types() : parse_constant()});
    }
  }

  // Types are kept as their texts.
  Arg parse_types() {
    ArgList list;
    lex_.expect("[");
    while (!lex_.accept("]")) {
      if (!list.empty()) lex_.expect(",");
      list.push_back(Word{to_string(parse_script_type(g_.pool(), lex_))});
    }
    return list;
  }

  Arg parse_constant() {
    Lexer::Depth depth(lex_);
    if (lex_.at("\"") || lex_.at("'")) return lex_.quoted();
    if (lex_.accept("[")) return parse_constants("]");
    if (lex_.accept("(")) return parse_constants(")");
    if (lex_.accept("{")) return parse_scalar_tensor();
    if (lex_.accept("<")) lex_.fail("a tensor without its elements");
    if (lex_.at("graph")) return parse_inner_graph();
    if (lex_.accept_word("True")) return true;
    if (lex_.accept_word("False")) return false;
    if (lex_.accept_word("None")) return {};
    if (lex_.accept_word("annotate")) return parse_annotated();
    if (lex_.accept("torch.device(")) {
      Arg name = lex_.quoted();
      lex_.expect(")");
      return name;
    }
    return parse_number();
  }

  Arg parse_constants(std::string_view close) {
    ArgList list;
    while (!lex_.accept(close)) {
      if (!list.empty()) lex_.expect(",");
      if (lex_.accept(close)) break; // (1,)
      list.push_back(parse_constant());
    }
    return list;
  }

  // An attribute: a graph of its own, as it is written by itself.
  Arg parse_inner_graph() {
    GraphReader inner(lex_);
    inner.parse_graph();
    lex_.go_back(inner.lex_.position());
    return std::make_shared<const Graph>(std::move(inner.g_));
  }

  // annotate(List[int], [])
  Arg parse_annotated() {
    lex_.expect("(");
    parse_script_type(g_.pool(), lex_);
    lex_.expect(",");
    Arg a = parse_constant();
    lex_.expect(")");
    return a;
  }

  // {3}: a tensor without dims
  Arg parse_scalar_tensor() {
    Arg a = parse_number();
    lex_.expect("}");
    if (a.is<int64_t>()) {
      Tensor t(DType::I64, {});
      *t.data_as<int64_t>() = a.get<int64_t>();
      return g_.add_tensor(std::move(t));
    }
    if (!a.is<double>()) lex_.fail("a tensor of complex numbers");
    Tensor t(DType::F64, {});
    *t.data_as<double>() = a.get<double>();
    return g_.add_tensor(std::move(t));
  }

  struct Number {
    bool is_float;
    int64_t i;
    double f;
  };
  Number parse_real() {
    bool negative = lex_.accept("-");
    if (lex_.accept_word("inf")) return {true, 0, negative ? -INFINITY : INFINITY};
    if (lex_.accept_word("nan")) return {true, 0, NAN};
    if (negative) lex_.go_back(lex_.position() - 1); // the smallest integer has no positive one
    auto n = lex_.signed_number();
    return {n.is_float, n.i, n.f};
  }
  // 3, -0.5, inf, 3.+2.j
  Arg parse_number() {
    Number n = parse_real();
    if (lex_.next_is("j")) {
      lex_.accept("j");
      return std::complex<double>(0, n.f);
    }
    if (!n.is_float || !lex_.next_is("+-")) return n.is_float ? Arg(n.f) : Arg(n.i);
    lex_.accept("+");
    Number im = parse_real();
    lex_.expect("j");
    return std::complex<double>(n.f, im.is_float ? im.f : static_cast<double>(im.i));
  }

  Lexer lex_;
  Graph g_;
  Spelling spelling_ = Spelling::Today;
  std::unordered_map<std::string, ValueId> values_;
  std::vector<std::string> scope_;
};

} // namespace

ScriptText parse_script(std::string_view text) { return GraphReader(Lexer(text)).parse(); }

} // namespace tenon::script
