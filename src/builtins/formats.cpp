// Texts of values: str, format, the operator % of strings; ord, chr, hex, oct, bin.
#include <cmath>

#include "builtins/arithmetic.h"

namespace tenon::builtins {

namespace {

using Int = int64_t;
using Str = std::string;

void format(BuiltinCall& c) {
  const Str& pattern = c.args[0].to_string();
  Str out;
  size_t from = 0, used = 1;
  for (size_t place; (place = pattern.find("{}", from)) != Str::npos; from = place + 2) {
    if (used >= c.args.size()) raise("", "Too few arguments for format string: " + pattern);
    out += pattern.substr(from, place - from) + str(c.args[used++]);
  }
  c.results[0] = out + pattern.substr(from);
}

void require_number(char key, const IValue& v) {
  if (!v.is_number()) raise("", fmt::format("%{} requires a number for formatting, but got {}", key, name_of(v.tag())));
}
/// Numbers are rounded to 32 bits, as in torch.
float narrow(const IValue& v) { return static_cast<float>(v.is(IValue::Tag::Complex) ? v.to_complex().real() : v.number()); }

Str integer_text(const IValue& v) {
  return v.is(IValue::Tag::Int) ? str(v) : fmt::format("{}", static_cast<int32_t>(arithmetic::to_int(v.number())));
}

/// What stands for one "%d" or the like.
Str formatted(char key, const IValue& v) {
  switch (key) {
  case 'd':
  case 'i': return require_number(key, v), integer_text(v);
  case 'e': return require_number(key, v), fmt::format("{:.6e}", narrow(v));
  case 'E': return require_number(key, v), fmt::format("{:.6E}", narrow(v));
  case 'f':
  case 'F': return require_number(key, v), fmt::format("{:.6f}", narrow(v));
  case 's': return str(v);
  case 'c':
    if (v.is(IValue::Tag::Int)) return Str(1, static_cast<char>(v.to_int()));
    if (v.is(IValue::Tag::String) && v.to_string().size() == 1) return v.to_string();
    raise("", fmt::format("%c requires an int or char for formatting, but got {}", name_of(v.tag())));
  default: raise("", fmt::format("The specifier %{} is not supported in TorchScript format strings", key));
  }
}

void percent_format(BuiltinCall& c) {
  const Str& pattern = c.args[0].to_string();
  const IValue& given = c.args[1];
  size_t count = given.is(IValue::Tag::Tuple) ? given.to_tuple().size() : 1, used = 0, from = 0;
  Str out;
  for (size_t place; (place = pattern.find('%', from)) != Str::npos; from = place + 2) {
    if (place + 1 == pattern.size()) raise("", "Incomplete format specifier");
    out += pattern.substr(from, place - from);
    if (pattern[place + 1] == '%') {
      out += '%';
      continue;
    }
    if (used >= count) raise("", "Too few arguments for format string");
    out += formatted(pattern[place + 1], given.is(IValue::Tag::Tuple) ? given.to_tuple()[used] : given);
    used++;
  }
  if (used != count) raise("", "Too many arguments for format string");
  c.results[0] = out + pattern.substr(from);
}

Int ord(const Str& s) {
  if (s.size() != 1) raise("", fmt::format("String for ord() must be 1 character, found {}", s.size()));
  return static_cast<unsigned char>(s[0]);
}
/// One byte, whatever the number.
Str chr(Int i) {
  if (i < 0 || i >= 1114111) raise("", fmt::format("chr() arg not in range(0x110000), found {}", i));
  return Str(1, static_cast<char>(i));
}
/// "-0x2a": the sign before the prefix.
template <int Base> Str in_base(Int i) {
  uint64_t magnitude = i < 0 ? 0 - arithmetic::bits(i) : arithmetic::bits(i);
  Str digits = Base == 16  ? fmt::format("0x{:x}", magnitude)
               : Base == 8 ? fmt::format("0o{:o}", magnitude)
                           : fmt::format("0b{:b}", magnitude);
  return (i < 0 ? "-" : "") + digits;
}

} // namespace

std::span<const BuiltinRow> format_rows() {
  static const Rows rows = {
      {"aten::str(t elem) -> str", op([](IValue& v) { return str(v); })},
      {"aten::format(str self, ...) -> str", format},
      {"aten::percentFormat(str self, ...) -> str", percent_format},
      {"aten::ord(str string) -> int", of<ord>},
      {"aten::chr(int i) -> str", of<chr>},
      {"aten::hex(int i) -> str", of<in_base<16>>},
      {"aten::oct(int i) -> str", of<in_base<8>>},
      {"aten::bin(int i) -> str", of<in_base<2>>},
  };
  return rows;
}

} // namespace tenon::builtins
