// Arguments of nodes, read and written.
#include "fx/arg_text.h"

#include <algorithm>
#include <cmath>

#include "ir/parse.h"

namespace tenon {

namespace {

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

size_t count(std::string_view text, std::string_view what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) n++;
  return n;
}

} // namespace

int place_of_text(std::string_view target) {
  if (target == "torch.ops.aten._assert_scalar.default" || target == "torch.ops.aten._assert_async.msg") return 1;
  return target == "torch.ops.higher_order.print" ? 0 : -1;
}

std::string spelled_target(std::string_view target) {
  return target.starts_with("torch.op.") ? "torch.ops." + std::string(target.substr(9)) : std::string(target);
}

ArgList ArgParser::parse_list(ArgStyle style, std::string_view end, int text_at) {
  ArgList list;
  while (!lex_.accept(end)) {
    list.push_back(static_cast<int>(list.size()) == text_at ? parse_free_text() : parse(style));
    if (!lex_.accept(",") && !lex_.at(end)) lex_.fail(fmt::format("expected ',' or '{}'", end));
  }
  return list;
}

Arg ArgParser::node_named(std::string_view name) {
  auto it = names_.find(std::string(name));
  if (it == names_.end()) lex_.fail(fmt::format("%{} is not defined here", name));
  return ValueId{it->second};
}

Arg ArgParser::parse(ArgStyle style) {
  Lexer::Depth depth(lex_);
  if (lex_.accept("%")) return node_named(lex_.word());
  if (auto list = parse_bracketed(style)) return *list;
  if (lex_.accept_word("-inf")) return -INFINITY;
  if (lex_.at_number() || lex_.at("-")) return parse_number();
  if (lex_.at("'") || lex_.at("\"")) return lex_.quoted();
  lex_.peek();
  size_t begin = lex_.position();
  std::string word(lex_.word(style == ArgStyle::Python ? "." : ".:/*+-"));
  if (style == ArgStyle::Python) return parse_word(style, word);
  if (lex_.next_is(")]}") || lex_.at(", ") || lex_.at(",)")) return parse_word(style, word); // a comma within "ij,kj->ik" does not end it
  lex_.go_back(begin);
  return std::string(lex_.take_argument()); // a string as torch writes it, without quotes
}

std::optional<Arg> ArgParser::parse_bracketed(ArgStyle style) {
  if (lex_.accept("[")) return parse_list(style, "]");
  if (lex_.accept("{")) {
    Expr e = parse_expr(pool_, lex_);
    lex_.expect("}");
    return e;
  }
  if (!lex_.accept("(")) return std::nullopt;
  if (auto number = parse_complex()) return *number;
  ArgList list = parse_list(style, ")");
  list.insert(list.begin(), fx_tuple);
  return list;
}

Arg ArgParser::parse_number() {
  auto n = lex_.signed_number();
  if (lex_.accept_word("j")) return std::complex<double>(0, n.f);
  return n.is_float ? Arg(n.f) : Arg(n.i);
}

// "(1+2j)" as Python writes it, its parenthesis being read.
std::optional<Arg> ArgParser::parse_complex() {
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
Arg ArgParser::parse_free_text() {
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

Arg ArgParser::parse_word(ArgStyle style, const std::string& word) {
  if (word == "None") return {};
  if (word == "True") return true;
  if (word == "False") return false;
  if (word == "inf") return INFINITY;
  if (word == "nan") return NAN;
  if (word.starts_with("torch.")) {
    for (auto& d : dtype_names)
      if (d.torch == std::string_view(word).substr(6)) return d.type;
    // An operator is an argument by its name alone, as in a graph's print.
    constexpr std::string_view ops = "torch.ops.", higher = "torch.ops.higher_order.";
    if (style == ArgStyle::Python && word.starts_with(ops)) return word.substr(word.starts_with(higher) ? higher.size() : ops.size());
    return Word{word.substr(6)};
  }
  if (style == ArgStyle::Graph) return word;
  return word == "device" && lex_.at("(") ? parse_device() : node_named(word);
}

// device(type='cuda', index=0) is the string cuda:0.
Arg ArgParser::parse_device() {
  for (std::string_view part : {"(", "type", "="}) lex_.expect(part);
  std::string device = lex_.quoted();
  if (lex_.accept(",")) {
    for (std::string_view part : {"index", "="}) lex_.expect(part);
    auto index = lex_.number();
    if (index.is_float) lex_.fail("a device's index is an integer");
    device += ":" + std::to_string(index.i);
  }
  lex_.expect(")");
  return device;
}

namespace {

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

} // namespace

std::string text_of_list(const FxGraph& g, const ArgList& list, size_t begin, ArgStyle style) {
  std::string s;
  for (size_t i = begin; i < list.size(); i++) s += (i == begin ? "" : ", ") + text_of(g, list[i], style);
  return s;
}

std::string text_of_free_text(const FxGraph& g, const Arg& a) {
  return is_free_text(a) ? a.get<std::string>() : text_of(g, a, ArgStyle::Graph);
}

std::string text_of(const FxGraph& g, const Arg& a, ArgStyle style) {
  bool graph = style == ArgStyle::Graph;
  if (a.is<ValueId>()) return (graph ? "%" : "") + g.nodes[a.get<ValueId>().index].name;
  if (graph && a.is<std::string>() && is_bare(a.get<std::string>()))
    return a.get<std::string>(); // as torch writes strings; others are quoted
  if (a.is<Word>()) return "torch." + a.get<Word>().text;
  if (a.is<std::complex<double>>()) return python_complex(a.get<std::complex<double>>());
  if (a.is<Expr>()) return "{" + to_string(a.get<Expr>()) + "}";
  if (a.is<DType>()) {
    for (auto& d : dtype_names)
      if (d.type == a.get<DType>()) return "torch." + std::string(d.torch);
  }
  if (a.is<ArgList>()) {
    auto& list = a.get<ArgList>();
    if (list.empty() || list[0] != Arg(fx_tuple)) return "[" + text_of_list(g, list, 0, style) + "]";
    return "(" + text_of_list(g, list, 1, style) + (list.size() == 2 ? ",)" : ")");
  }
  return to_string(Graph(g.pool), a); // numbers, None, True, quoted strings
}

} // namespace tenon
