// The schema parser and printer.
#include "ir/schema.h"

#include "base/lexer.h"

namespace tenon {

namespace {

struct TypeName {
  std::string_view text;
  ArgType type;
};
constexpr TypeName type_names[] = {
    {"Tensor", ArgType::Tensor},
    {"Scalar", ArgType::Scalar},
    {"number", ArgType::Scalar},
    {"int", ArgType::Int},
    {"SymInt", ArgType::Int},
    {"float", ArgType::Float},
    {"SymFloat", ArgType::Float},
    {"bool", ArgType::Bool},
    {"SymBool", ArgType::Bool},
    {"str", ArgType::String},
    {"ScalarType", ArgType::DType},
    {"Layout", ArgType::Layout},
    {"MemoryFormat", ArgType::MemoryFormat},
    {"Device", ArgType::Device},
    {"Generator", ArgType::Generator},
    {"complex", ArgType::Complex},
    {"Any", ArgType::Any},
    {"int64_t", ArgType::Int},
    {"Stream", ArgType::Custom},
};

class SchemaParser {
public:
  explicit SchemaParser(std::string_view text) : lex_(text) {}

  Schema parse() {
    Schema s;
    s.name = std::string(lex_.word(":."));
    if (s.name.find('.') == std::string::npos) s.name += ".default";
    lex_.expect("(");
    bool keyword_only = false;
    while (!lex_.accept(")")) {
      if (!s.args.empty() || keyword_only) lex_.accept(",");
      if (lex_.accept("...")) {
        s.any_args = true;
        continue;
      }
      if (lex_.accept("*")) {
        keyword_only = true;
        continue;
      }
      s.args.push_back(parse_arg());
      s.args.back().keyword_only = keyword_only;
    }
    lex_.expect("->");
    parse_returns(s);
    if (!lex_.at_end()) lex_.fail("more text after the schema");
    return s;
  }

private:
  // "(A, B b)" are several results, "(A, B)[]" is one.
  void parse_returns(Schema& s) {
    if (lex_.accept("...")) {
      s.any_returns = true;
      return;
    }
    size_t start = lex_.position();
    if (lex_.accept("(")) {
      while (!lex_.accept(")")) {
        if (!s.returns.empty()) lex_.expect(",");
        if (lex_.accept("...")) {
          s.any_returns = true;
          continue;
        }
        s.returns.push_back(parse_type());
        if (lex_.at_word()) s.returns.back().name = std::string(lex_.word());
      }
    }
    if (lex_.position() == start || lex_.at("[") || lex_.at("?")) {
      lex_.go_back(start);
      s.returns = {parse_type()};
      if (lex_.at_word()) s.returns.back().name = std::string(lex_.word());
    }
    s.variadic_result = s.returns.size() == 1 && s.returns[0].list && s.returns[0].type == ArgType::Tensor;
  }

  // ---- types

  SchemaArg parse_type() {
    Lexer::Depth depth(lex_);
    SchemaArg a;
    Type full;
    bool is_plain = true; // the fields say it all
    if (lex_.at("(")) full = Type::tuple(parse_types("(")), is_plain = false;
    else {
      std::string name(lex_.word("._"));
      if (name == "Dict") {
        std::vector<Type> of = parse_types("(");
        if (of.size() != 2) lex_.fail("a Dict has a key and a value");
        full = Type::dict(of[0], of[1]), is_plain = false;
      } else if ((name == "Future" || name == "Await" || name == "RRef" || name == "Union" || name == "Optional") && lex_.at("(")) {
        std::vector<Type> of = parse_types("(");
        full = name == "Union" ? Type::any_of(std::move(of)) : name == "Optional" ? Type::optional(of.at(0)) : Type::object(name);
        is_plain = false;
      } else if (name == "tVal" || (name.size() <= 2 && name[0] >= 't' && name[0] <= 'v')) full = Type::variable(name), is_plain = false;
      else if (name == "NoneType") full = Type::simple(TypeKind::None), is_plain = false;
      else a.type = kind_named(name);
    }
    parse_alias(a);
    parse_suffix(a, full, is_plain);
    if (!is_plain) a.type = ArgType::Any, a.full = std::make_shared<Type>(std::move(full));
    return a;
  }

  std::vector<Type> parse_types(std::string_view open) {
    std::vector<Type> out;
    lex_.expect(open);
    while (!lex_.accept(")")) {
      if (!out.empty()) lex_.expect(",");
      out.push_back(type_of(parse_type()));
      if (lex_.at_word()) lex_.word(); // names of a tuple's elements
    }
    return out;
  }

  static ArgType kind_named(std::string_view name) {
    for (auto& t : type_names)
      if (t.text == name) return t.type;
    return ArgType::Custom;
  }

  // (a), (a!), (a -> *), (a|b), (*)
  void parse_alias(SchemaArg& a) {
    if (!lex_.accept("(")) return;
    a.alias = lex_.accept("*") ? "*" : std::string(lex_.word("|"));
    a.written = lex_.accept("!") || a.written;
    if (lex_.accept("->") && !lex_.accept("*")) lex_.word("|");
    lex_.expect(")");
  }

  // One list of optional elements, which may be optional, is said by the fields of the argument; what nests deeper by its full type.
  void parse_suffix(SchemaArg& a, Type& full, bool& is_plain) {
    while (true) {
      if (lex_.accept("?")) {
        a.optional = true;
        if (!is_plain) full = Type::optional(std::move(full));
      } else if (lex_.accept("[")) {
        if (is_plain && a.list) full = type_of(a), is_plain = false;
        if (!is_plain) full = Type::list(std::move(full));
        a.list = true;
        a.optional_elements = std::exchange(a.optional, false);
        if (lex_.at_number()) a.fixed_length = static_cast<int>(lex_.number().i);
        lex_.expect("]");
      } else if (lex_.at("(")) parse_alias(a);
      else return;
    }
  }

  SchemaArg parse_arg() {
    SchemaArg a = parse_type();
    a.name = std::string(lex_.word());
    if (lex_.accept("=")) {
      a.has_default = true;
      a.fallback = parse_default(a);
    }
    return a;
  }

  Arg parse_default(const SchemaArg& a) {
    if (lex_.accept_word("None")) return {};
    if (lex_.accept_word("True")) return true;
    if (lex_.accept_word("False")) return false;
    if (lex_.accept("[")) {
      ArgList list;
      while (!lex_.accept("]")) {
        if (!list.empty()) lex_.expect(",");
        list.push_back(parse_default(a));
      }
      return list;
    }
    if (lex_.at("'") || lex_.at("\"")) return lex_.quoted();
    bool negative = lex_.accept("-");
    if (lex_.accept_word("inf")) return negative ? -INFINITY : INFINITY;
    if (lex_.at_number()) {
      auto n = lex_.number();
      if (n.is_float || a.type == ArgType::Float) return negative ? -n.f : n.f;
      return negative ? -n.i : n.i;
    }
    return Word{std::string(lex_.word())}; // Mean, long, contiguous_format, strided ...
  }

  Lexer lex_;
};

std::string text_of_type(const SchemaArg& a) {
  std::string s;
  if (a.full) {
    s = to_string(*a.full);
    return a.alias.empty() ? s : s + "(" + a.alias + (a.written ? "!)" : ")");
  }
  for (auto& t : type_names)
    if (t.type == a.type) {
      s = t.text;
      break;
    }
  if (s.empty()) s = "Custom";
  if (!a.alias.empty()) s += "(" + a.alias + (a.written ? "!)" : ")");
  if (a.list) s += (a.optional_elements ? "?[" : "[") + (a.fixed_length ? std::to_string(a.fixed_length) : "") + "]";
  return a.optional ? s + "?" : s;
}

std::string text_of_default(const Arg& a) {
  if (a.is<bool>()) return a.get<bool>() ? "True" : "False";
  if (a.is<int64_t>()) return std::to_string(a.get<int64_t>());
  if (a.is<std::string>()) return "\"" + a.get<std::string>() + "\"";
  if (a.is<Word>()) return a.get<Word>().text;
  if (a.is<double>()) {
    double d = a.get<double>();
    return d == std::floor(d) && std::isfinite(d) ? fmt::format("{:.1f}", d) : fmt::format("{}", d);
  }
  if (!a.is<ArgList>()) return "None";
  std::string s;
  for (auto& e : a.get<ArgList>()) s += (s.empty() ? "" : ", ") + text_of_default(e);
  return "[" + s + "]";
}

} // namespace

int Schema::find(std::string_view arg) const {
  for (size_t i = 0; i < args.size(); i++)
    if (args[i].name == arg) return static_cast<int>(i);
  return -1;
}

bool Schema::mutates() const {
  for (auto& a : args)
    if (a.written) return true;
  return false;
}

Type type_of(const SchemaArg& a) {
  if (a.full) return *a.full;
  static constexpr TypeKind kinds[] = {TypeKind::Dynamic,   TypeKind::Number,  TypeKind::Int,    TypeKind::Float, TypeKind::Bool,
                                       TypeKind::String,    TypeKind::Int,     TypeKind::Int,    TypeKind::Int,   TypeKind::Device,
                                       TypeKind::Generator, TypeKind::Complex, TypeKind::Custom, TypeKind::Any};
  Type t = Type::simple(kinds[static_cast<size_t>(a.type)]);
  if (a.list) t = Type::list(a.optional_elements ? Type::optional(std::move(t)) : std::move(t));
  return a.optional ? Type::optional(std::move(t)) : t;
}

Schema parse_schema(std::string_view text) { return SchemaParser(text).parse(); }

std::string to_string(const Schema& s) {
  std::string args;
  bool keyword_only = false;
  for (auto& a : s.args) {
    if (!args.empty()) args += ", ";
    if (a.keyword_only && !std::exchange(keyword_only, a.keyword_only)) args += "*, ";
    args += text_of_type(a) + " " + a.name;
    if (a.has_default) args += "=" + text_of_default(a.fallback);
  }
  if (s.any_args) args += args.empty() ? "..." : ", ...";
  std::string returns;
  if (s.any_returns) returns = "...";
  for (auto& r : s.returns) returns += (returns.empty() ? "" : ", ") + text_of_type(r) + (r.name.empty() ? "" : " " + r.name);
  if (s.returns.size() != 1 && !s.any_returns) returns = "(" + returns + ")";
  return fmt::format("{}({}) -> {}", s.name, args, returns);
}

} // namespace tenon
