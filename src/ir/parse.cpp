// The parser of the canonical graph text. It trusts nothing: every name must be defined where it is used, nesting is bounded,
// and a tensor that is only named takes no memory.
#include "ir/parse.h"

#include <limits>
#include <unordered_map>

#include "base/lexer.h"
#include "expr/names.h"
#include "ir/op.h"
#include "ir/verify.h"

namespace tenon {

namespace {

constexpr uint32_t inline_tensor = 1u << 31; // TensorIds of tensors in the text, until all numbered ones are known
constexpr int64_t max_numbered_tensor = 1 << 20;

class TypeParser {
public:
  TypeParser(ExprPool& pool, Lexer& lexer, TensorMeta& meta, bool sizes_alone = false, bool partial = false)
      : pool_(pool), lex_(lexer), meta_(meta), sizes_alone_(sizes_alone), partial_(partial) {}

  Type parse() {
    std::string name(lex_.word());
    for (int i = 0; i < num_dtypes; i++)
      if (torch_name(static_cast<DType>(i)) == name) return parse_tensor_type(static_cast<DType>(i));
    struct Scalar {
      std::string_view name;
      TypeKind kind;
    };
    for (Scalar s : {Scalar{"int", TypeKind::Int},
                     {"float", TypeKind::Float},
                     {"bool", TypeKind::Bool},
                     {"str", TypeKind::String},
                     {"NoneType", TypeKind::None},
                     {"custom", TypeKind::Custom}})
      if (s.name == name) return Type::scalar(s.kind, parse_type_value(s.kind));
    lex_.fail("no such type: " + name);
  }

private:
  std::vector<Expr> parse_exprs(std::string_view end) {
    std::vector<Expr> out;
    while (!lex_.at(end) && !lex_.at("strides=") && !lex_.at("requires_grad=") && !lex_.at("device=")) {
      out.push_back(partial_ && lex_.accept("*") ? Expr() : parse_integer());
      if (!lex_.accept(",")) break;
    }
    return out;
  }

  Expr parse_integer() {
    Expr e = sizes_alone_ ? parse_size(pool_, lex_) : parse_expr(pool_, lex_);
    if (!is_int(e->type)) lex_.fail("expected an integer");
    return e;
  }

  Expr parse_type_value(TypeKind kind) {
    bool number = kind == TypeKind::Int || kind == TypeKind::Float || kind == TypeKind::Bool;
    if (!number || !lex_.accept("{")) return {};
    Expr e = parse_expr(pool_, lex_);
    lex_.expect("}");
    return e;
  }

  Type parse_tensor_type(DType dtype) {
    lex_.expect("(");
    Type t = Type::tensor(dtype, parse_exprs(")"));
    if (lex_.accept("strides=")) {
      lex_.expect("[");
      t.strides = parse_exprs("]");
      lex_.expect("]");
      if (t.strides.size() != t.sizes.size()) lex_.fail("as many strides as sizes are needed");
      lex_.accept(",");
    }
    parse_meta();
    lex_.expect(")");
    return t;
  }

  void parse_meta() {
    if (lex_.accept("requires_grad=")) {
      meta_.requires_grad = lex_.accept("1");
      if (!meta_.requires_grad) lex_.expect("0");
      lex_.accept(",");
    }
    if (!lex_.accept("device=")) return;
    std::string_view name = lex_.word(":");
    if (!set_device(meta_, name)) lex_.fail(fmt::format("no such device: {}", name));
  }

  ExprPool& pool_;
  Lexer& lex_;
  TensorMeta& meta_;
  bool sizes_alone_; // nothing else says what range symbols have
  bool partial_;     // sizes may be "*"
};

class GraphParser {
public:
  GraphParser(std::string_view text, std::span<const Tensor> tensors) : lex_(text), given_(tensors) {}

  ParsedGraph parse() {
    while (lex_.accept_word("symbol")) parse_symbol();
    lex_.expect("graph");
    parse_params(g_.top());
    parse_nodes(g_.top(), "return");
    if (!lex_.at_end()) lex_.fail("more text after the graph");
    place_tensors();
    return {std::move(g_), missing_};
  }

private:
  void parse_symbol() {
    std::string name(lex_.word());
    if (g_.pool().find_symbol(name)) lex_.fail("a symbol is declared twice");
    lex_.expect("in");
    lex_.expect("[");
    int64_t lo = lex_.accept("-inf") ? INT64_MIN : lex_.signed_number().i;
    lex_.expect(",");
    int64_t hi = lex_.accept("inf") ? INT64_MAX : lex_.signed_number().i;
    lex_.expect("]");
    if (lo > hi) lex_.fail("an empty range");
    g_.pool().symbol(name, DType::I64, lo, hi);
  }

  // ---- values

  struct Name {
    std::string text; // as written
    std::string own;  // what the value is called; empty for numbers
  };
  Name parse_name() {
    lex_.expect("%");
    std::string text(lex_.word("."));
    return {text, text[0] >= '0' && text[0] <= '9' ? std::string() : text};
  }
  void define(const std::string& name, ValueId v) {
    if (!values_.emplace(name, v).second) lex_.fail("%" + name + " is defined twice");
    scope_.push_back(name);
  }
  ValueId parse_value() {
    std::string name = parse_name().text;
    auto it = values_.find(name);
    if (it == values_.end()) lex_.fail("%" + name + " is not defined here");
    return it->second;
  }

  // ---- arguments

  double parse_double() {
    bool negative = lex_.accept("-");
    double d = lex_.accept_word("inf") ? INFINITY : lex_.accept_word("nan") ? NAN : lex_.number().f;
    return negative ? -d : d;
  }

  Arg parse_number() {
    if (lex_.accept_word("-inf")) return -INFINITY;
    auto n = lex_.signed_number();
    return n.is_float ? Arg(n.f) : Arg(n.i);
  }

  DType parse_dtype() {
    auto name = lex_.word();
    for (int i = 0; i < num_dtypes; i++)
      if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    lex_.fail("no such dtype");
  }

  Arg parse_arg() {
    Lexer::Depth depth(lex_);
    switch (lex_.peek()) {
    case '%': return parse_value();
    case '"': return lex_.quoted();
    case '\'': return Word{lex_.quoted()};
    case '[': return parse_list();
    case '{': return parse_braces();
    default: break;
    }
    if (!lex_.at_word()) return parse_number();
    return parse_literal(lex_.word());
  }

  Arg parse_list() {
    lex_.expect("[");
    ArgList list;
    while (!lex_.accept("]")) {
      if (!list.empty()) lex_.expect(",");
      list.push_back(parse_arg());
    }
    return list;
  }

  Arg parse_braces() {
    lex_.expect("{");
    Expr e = parse_expr(g_.pool(), lex_);
    lex_.expect("}");
    return e;
  }

  Arg parse_literal(std::string_view word) {
    if (word == "None") return {};
    if (word == "True") return true;
    if (word == "False") return false;
    if (word == "inf") return INFINITY;
    if (word == "nan") return NAN;
    if (word == "tensor") return parse_tensor();
    if (word == "dtype") {
      lex_.expect("<");
      DType t = parse_dtype();
      lex_.expect(">");
      return t;
    }
    if (word == "complex") {
      lex_.expect("(");
      double re = parse_double();
      lex_.expect(",");
      double im = parse_double();
      lex_.expect(")");
      return std::complex<double>(re, im);
    }
    lex_.fail(fmt::format("'{}' is not an argument", word));
  }

  // ---- tensors

  Arg parse_tensor() {
    lex_.expect("<");
    DType dtype = parse_dtype();
    std::vector<int64_t> sizes;
    lex_.expect("[");
    while (!lex_.accept("]")) {
      if (!sizes.empty()) lex_.expect(",");
      sizes.push_back(lex_.signed_number().i);
    }
    int64_t numel = zeros_of(dtype, sizes).numel(); // checks the sizes
    if (lex_.accept("@")) return parse_numbered(dtype, std::move(sizes));
    // As many elements as the text holds; a lie about the size costs no memory.
    if (numel > static_cast<int64_t>(lex_.text().size())) lex_.fail("fewer elements than the sizes say");
    Tensor t(dtype, sizes);
    dispatch(dtype, [&]<class T>(T) {
      for (int64_t i = 0; i < numel; i++) t.data_as<T>()[i] = parse_element<T>();
    });
    lex_.expect(">");
    inline_.push_back(std::move(t));
    return TensorId{inline_tensor | static_cast<uint32_t>(inline_.size() - 1)};
  }

  template <class T> T parse_element() {
    if constexpr (std::is_same_v<T, bool>) {
      if (lex_.accept_word("True")) return true;
      if (!lex_.accept_word("False")) lex_.fail("expected True or False");
      return false;
    } else if constexpr (std::is_integral_v<T>) {
      auto n = lex_.signed_number();
      if (n.is_float || !std::in_range<T>(n.i)) lex_.fail("an element out of range");
      return static_cast<T>(n.i);
    } else if constexpr (is_complex_v<T>) {
      lex_.fail("complex tensors are only named, as @0");
    } else return T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(parse_double()));
  }

  // A tensor that is not among those given is one zero, read with strides of zero.
  Arg parse_numbered(DType dtype, std::vector<int64_t> sizes) {
    int64_t number = lex_.signed_number().i;
    lex_.expect(">");
    if (number < 0 || number > max_numbered_tensor) lex_.fail("no such tensor");
    auto at = static_cast<size_t>(number);
    if (numbered_.size() <= at) numbered_.resize(at + 1);
    Tensor& t = numbered_[at];
    if (!t.defined() && at < given_.size() && given_[at].defined()) t = given_[at];
    if (!t.defined()) {
      missing_++;
      t = zeros_of(dtype, sizes);
    }
    if (t.dtype() != dtype || t.sizes() != sizes) lex_.fail(fmt::format("tensor @{} has another dtype or other sizes", number));
    return TensorId{static_cast<uint32_t>(number)};
  }

  void place_tensors() {
    if (numbered_.size() < given_.size()) numbered_.resize(given_.size());
    for (size_t i = 0; i < numbered_.size(); i++) g_.add_tensor(numbered_[i].defined() || i >= given_.size() ? numbered_[i] : given_[i]);
    std::vector<TensorId> placed;
    for (Tensor& t : inline_) placed.push_back(g_.add_tensor(std::move(t)));
    for (uint32_t i = 0; i < g_.num_nodes(); i++) {
      Node& n = g_.node(NodeId{i});
      for (Arg& a : n.args) place(a, placed);
      for (Attribute& a : n.attributes) place(a.value, placed);
    }
    for (BlockId b : blocks_)
      for (Arg& a : g_.block(b).returns) place(a, placed);
  }
  void place(Arg& a, const std::vector<TensorId>& placed) {
    if (auto* id = std::get_if<TensorId>(&a.v); id && id->index >= inline_tensor) *id = placed[id->index - inline_tensor];
    else if (auto* list = std::get_if<ArgList>(&a.v))
      for (Arg& e : *list) place(e, placed);
  }

  // ---- nodes and blocks

  void parse_params(BlockId block) {
    lex_.expect("(");
    bool first = true;
    while (!lex_.accept(")")) {
      if (!std::exchange(first, false)) lex_.expect(",");
      Name name = parse_name();
      lex_.expect(":");
      TensorMeta meta;
      Type type = TypeParser(g_.pool(), lex_, meta).parse();
      ValueId param = g_.add_param(block, std::move(type), name.own);
      g_.value(param).meta = meta;
      define(name.text, param);
    }
    lex_.expect(":");
  }

  void parse_nodes(BlockId block, std::string_view end) {
    while (!lex_.accept(end)) {
      if (lex_.at_end()) lex_.fail(fmt::format("a block without '{}'", end));
      parse_node(block);
    }
    lex_.expect("(");
    ArgList returns;
    while (!lex_.accept(")")) {
      if (!returns.empty()) lex_.expect(",");
      returns.push_back(parse_arg());
    }
    g_.block(block).returns = std::move(returns);
    blocks_.push_back(block);
  }

  void parse_node(BlockId block) {
    std::vector<Name> names;
    std::vector<Type> types;
    std::vector<TensorMeta> metas;
    if (lex_.at("%")) {
      do {
        names.push_back(parse_name());
        if (!lex_.accept(":")) lex_.fail(fmt::format("%{} has no type", names.back().text));
        types.push_back(TypeParser(g_.pool(), lex_, metas.emplace_back()).parse());
      } while (lex_.accept(","));
      lex_.expect("=");
    }
    if (names.empty()) return parse_call(block, names, std::move(types), metas);
    within_node("%" + names[0].text, nullptr, [&] { parse_call(block, names, std::move(types), metas); });
  }

  void parse_call(BlockId block, const std::vector<Name>& names, std::vector<Type> types, const std::vector<TensorMeta>& metas) {
    Node n{.op = lex_.word(":.")};
    n.def = find_op(n.op);
    if (!n.def) n.def = find_op(functional_name(n.op));
    parse_attributes(n);
    parse_args(n);
    n.origin = parse_origin();
    std::vector<std::string> own;
    for (const Name& name : names) own.push_back(name.own);
    NodeId id = g_.append(block, std::move(n), std::move(types), std::move(own));
    for (size_t i = 0; i < metas.size(); i++) g_.value(g_.node(id).outputs[i]).meta = metas[i];
    parse_blocks(id);
    for (size_t i = 0; i < names.size(); i++) define(names[i].text, g_.node(id).outputs[i]);
  }

  void parse_blocks(NodeId id) {
    Lexer::Depth depth(lex_);
    for (size_t k = 0; lex_.accept_word(fmt::format("block{}", k)); k++) {
      size_t outer = scope_.size();
      BlockId block = g_.add_block(id);
      parse_params(block);
      parse_nodes(block, "->");
      for (; scope_.size() > outer; scope_.pop_back()) values_.erase(scope_.back());
    }
  }

  void parse_attributes(Node& n) {
    if (!lex_.accept("[")) return;
    while (!lex_.accept("]")) {
      if (!n.attributes.empty()) lex_.expect(",");
      std::string name(lex_.word());
      lex_.expect("=");
      n.attributes.push_back({std::move(name), parse_arg()});
    }
  }

  void parse_args(Node& n) {
    std::vector<bool> given;
    bool keywords = false;
    lex_.expect("(");
    for (bool first = true; !lex_.accept(")"); first = false) {
      if (!first) lex_.expect(",");
      size_t at = n.args.size();
      Arg value;
      std::string_view word = lex_.at_word() ? lex_.word() : std::string_view();
      if (!word.empty() && lex_.accept("=")) {
        int found = n.def ? n.def->signature.find(word) : -1;
        if (found < 0) lex_.fail(fmt::format("{} has no argument {}", n.op, word));
        at = static_cast<size_t>(found);
        keywords = true;
        value = parse_arg();
      } else {
        if (keywords) lex_.fail("a positional argument behind a keyword");
        value = word.empty() ? parse_arg() : parse_literal(word);
      }
      if (n.def && at >= n.def->signature.args.size()) lex_.fail(n.op.name() + ": too many arguments");
      if (n.args.size() <= at) n.args.resize(at + 1), given.resize(at + 1, false);
      if (given[at]) lex_.fail("an argument is given twice");
      n.args[at] = std::move(value);
      given[at] = true;
    }
    if (n.def) fill_defaults(n, given);
  }

  void fill_defaults(Node& n, std::vector<bool>& given) {
    auto& schema = n.def->signature.args;
    n.args.resize(schema.size());
    given.resize(schema.size(), false);
    for (size_t i = 0; i < schema.size(); i++) {
      if (given[i]) continue;
      if (!schema[i].has_default) lex_.fail(fmt::format("{}: argument {} is missing", n.op, schema[i].name));
      n.args[i] = schema[i].fallback;
    }
  }

  // The comment behind a node, where it says a source line.
  std::shared_ptr<const Origin> parse_origin() {
    if (!lex_.at_new_line()) return nullptr;
    std::string_view rest = lex_.rest_of_line();
    size_t at = rest.find("# File \"");
    if (at == rest.npos) return nullptr;
    std::string_view frame = rest.substr(at + 2), path;
    constexpr std::string_view mark = ", module ";
    if (size_t module = frame.rfind(mark); module != frame.npos) path = frame.substr(module + mark.size()), frame = frame.substr(0, module);
    return std::make_shared<const Origin>(
        Origin{.stack_trace = std::string(frame), .module_stack = path.empty() ? "" : fmt::format("{0},{0},", path)});
  }

  Graph g_;
  Lexer lex_;
  std::span<const Tensor> given_;
  std::vector<Tensor> numbered_, inline_;
  std::vector<BlockId> blocks_;
  std::unordered_map<std::string, ValueId> values_;
  std::vector<std::string> scope_; // names in order of definition
  int missing_ = 0;
};

} // namespace

ParsedGraph parse_graph(std::string_view text, std::span<const Tensor> tensors) { return GraphParser(text, tensors).parse(); }

Type parse_type(ExprPool& pool, Lexer& lexer, TensorMeta* meta, bool partial) {
  TensorMeta own;
  return TypeParser(pool, lexer, meta ? *meta : own, true, partial).parse();
}

Expr parse_size(ExprPool& pool, Lexer& lexer) {
  return parse_expr(pool, lexer, {.value = [&](std::string_view name) { return pool.symbol(std::string(name), DType::I64, 0); }});
}

Tensor zeros_of(DType dtype, std::vector<int64_t> sizes) {
  int64_t bytes = 16;
  for (int64_t s : sizes)
    require_input(s >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(s, 1), &bytes), "impossible sizes of a tensor");
  Tensor zero(dtype, {});
  std::memset(zero.data(), 0, size_of(dtype));
  std::vector<int64_t> strides(sizes.size(), 0);
  return Tensor(dtype, std::move(sizes), std::move(strides), zero.storage(), zero.data());
}

LoadedProgram program_of(Graph graph) {
  LoadedProgram p;
  p.name = "text";
  for (ValueId v : graph.block(graph.top()).params)
    p.inputs.push_back({.kind = InputKind::User,
                        .name = graph.value(v).name.empty() ? fmt::format("arg{}", p.inputs.size()) : graph.value(v).name,
                        .target = {},
                        .value = v});
  p.outputs.resize(graph.block(graph.top()).returns.size());
  p.graph = std::move(graph);
  p.is_edge = is_edge(p.graph);
  return p;
}

} // namespace tenon
