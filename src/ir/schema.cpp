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
    {"t", ArgType::Any},
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
  void parse_returns(Schema& s) {
    if (lex_.accept("(")) {
      while (!lex_.accept(")")) {
        if (!s.returns.empty()) lex_.expect(",");
        s.returns.push_back(parse_type());
        if (lex_.at_word()) s.returns.back().name = std::string(lex_.word());
      }
    } else s.returns.push_back(parse_type());
    s.variadic_result = s.returns.size() == 1 && s.returns[0].list && s.returns[0].type == ArgType::Tensor;
  }

  SchemaArg parse_type() {
    SchemaArg a;
    std::string name(lex_.word("."));
    a.type = ArgType::Custom;
    for (auto& t : type_names)
      if (t.text == name) a.type = t.type;
    if (lex_.accept("(")) { // alias annotation: a, a!, a -> *, a|b
      a.alias = std::string(lex_.word("|"));
      a.written = lex_.accept("!");
      if (lex_.accept("->")) lex_.expect("*");
      lex_.expect(")");
    }
    parse_suffix(a);
    return a;
  }

  void parse_suffix(SchemaArg& a) {
    while (true) {
      if (lex_.accept("?")) a.optional = true;
      else if (lex_.accept("[")) {
        a.list = true;
        a.optional_elements = std::exchange(a.optional, false);
        if (lex_.at_number()) a.fixed_length = static_cast<int>(lex_.number().i);
        lex_.expect("]");
      } else return;
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
  std::string returns;
  for (auto& r : s.returns) returns += (returns.empty() ? "" : ", ") + text_of_type(r) + (r.name.empty() ? "" : " " + r.name);
  if (s.returns.size() != 1) returns = "(" + returns + ")";
  return fmt::format("{}({}) -> {}", s.name, args, returns);
}

} // namespace tenon
