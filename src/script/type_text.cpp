// Types in the text of script graphs.
#include "ir/parse.h"
#include "script/text.h"

namespace tenon::script {

namespace {

class TypeReader {
public:
  TypeReader(ExprPool& pool, Lexer& lexer, TensorMeta& meta) : pool_(pool), lex_(lexer), meta_(meta) {}

  Type parse() {
    Lexer::Depth depth(lex_);
    Type t = lex_.at("(") ? Type::tuple(parse_list("(", ")")) : parse_named();
    while (true) {
      if (lex_.accept("?")) t = Type::optional(std::move(t));
      else if (lex_.accept("[]")) t = Type::list(std::move(t));
      else return t;
    }
  }

private:
  std::vector<Type> parse_list(std::string_view open, std::string_view close) {
    std::vector<Type> out;
    lex_.expect(open);
    while (!lex_.accept(close)) {
      if (!out.empty()) lex_.expect(",");
      out.push_back(parse());
    }
    return out;
  }

  // What has parameters, in either kind of brackets: Dict(str, int), Dict[str, int].
  std::optional<Type> parse_generic(std::string_view name) {
    static constexpr std::string_view names[] = {"Dict", "List", "Optional", "Tuple", "Union", "Future", "NamedTuple"};
    bool square = lex_.at("[") && !lex_.at("[]");
    if ((!square && !lex_.at("(")) || std::find(std::begin(names), std::end(names), name) == std::end(names)) return std::nullopt;
    if (name == "NamedTuple") return parse_named_tuple();
    std::vector<Type> of = parse_list(square ? "[" : "(", square ? "]" : ")");
    size_t wanted = name == "Dict" ? 2 : name == "Tuple" || name == "Union" ? of.size() : 1;
    if (of.size() != wanted) lex_.fail(fmt::format("{} has {} parameters", name, wanted));
    if (name == "Dict") return Type::dict(of[0], of[1]);
    if (name == "List") return Type::list(of[0]);
    if (name == "Optional") return Type::optional(of[0]);
    if (name == "Tuple") return Type::tuple(std::move(of));
    if (name == "Union") return Type::any_of(std::move(of));
    return Type::object("Future");
  }

  // NamedTuple(x : int, y : Tensor)
  Type parse_named_tuple() {
    std::vector<Type> types;
    std::vector<std::string> fields;
    lex_.expect("(");
    while (!lex_.accept(")")) {
      if (!types.empty()) lex_.expect(",");
      fields.emplace_back(lex_.word());
      lex_.expect(":");
      types.push_back(parse());
    }
    return Type::tuple(std::move(types), {}, std::move(fields));
  }

  Type parse_named() {
    size_t start = lex_.position();
    std::string name(lex_.word("."));
    if (auto t = parse_generic(name)) return *t;
    struct Named {
      std::string_view name;
      TypeKind kind;
    };
    static constexpr Named simple[] = {
        {"Tensor", TypeKind::Dynamic}, {"Dynamic", TypeKind::Dynamic},     {"int", TypeKind::Int},           {"float", TypeKind::Float},
        {"bool", TypeKind::Bool},      {"str", TypeKind::String},          {"NoneType", TypeKind::None},     {"None", TypeKind::None},
        {"Scalar", TypeKind::Number},  {"number", TypeKind::Number},       {"complex", TypeKind::Complex},   {"Device", TypeKind::Device},
        {"Any", TypeKind::Any},        {"Generator", TypeKind::Generator}, {"Function", TypeKind::Function}, {"World", TypeKind::World},
    };
    for (const Named& n : simple)
      if (n.name == name) return Type::simple(n.kind);
    if (name == "Tuple") return Type::tuple({}, "Tuple");
    if (name.starts_with("__torch__")) return Type::object(std::move(name));
    if (lex_.at("(")) {
      lex_.go_back(start);
      return parse_type(pool_, lex_, &meta_, true);
    }
    for (int i = 0; i < num_dtypes; i++) // a tensor of which the dtype alone is known
      if (torch_name(static_cast<DType>(i)) == name) return Type::simple(TypeKind::Dynamic);
    lex_.go_back(start);
    lex_.fail("no such type: " + name);
  }

  ExprPool& pool_;
  Lexer& lex_;
  TensorMeta& meta_;
};

} // namespace

Type parse_script_type(ExprPool& pool, Lexer& lexer, TensorMeta* meta) {
  TensorMeta own;
  return TypeReader(pool, lexer, meta ? *meta : own).parse();
}

} // namespace tenon::script
