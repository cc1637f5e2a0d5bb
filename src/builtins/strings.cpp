// Methods of strings. They see bytes, as torch's do: indices count bytes, and only ASCII letters have a case.
#include <algorithm>
#include <cctype>

#include "builtins/rows.h"
#include "builtins/slices.h"

namespace tenon::builtins {

namespace {

using Int = int64_t;
using Str = std::string;
using Strs = std::vector<std::string>;
constexpr size_t none = Str::npos;

bool is_alpha(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alnum(char c) { return is_alpha(c) || is_digit(c); }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
char upper(char c) { return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

template <class F> Str mapped(const Str& s, F f) {
  Str out = s;
  std::ranges::transform(out, out.begin(), f);
  return out;
}
template <class F> bool all_and_some(const Str& s, F f) { return !s.empty() && std::ranges::all_of(s, f); }
/// Whether there are letters, and all of them are of one case.
template <class F> bool all_letters(const Str& s, F of_case) {
  return std::ranges::any_of(s, is_alpha) && std::ranges::all_of(s, [&](char c) { return !is_alpha(c) || of_case(c); });
}

/// The part of s from start to end; negative numbers count from the end, where -1 is the end itself.
struct Range {
  Int start, end;
};
Range range_of(const Str& s, Int start, Int end) {
  Int size = std::ssize(s);
  if (start < 0) start = std::max<Int>(0, size + start);
  if (end < 0) end = std::max<Int>(0, size + end + 1);
  return {start, end};
}
/// What startswith and endswith look at; the start must lie in the string.
Str part(const Str& s, Int start, Int end) {
  Range r = range_of(s, start, end);
  if (r.start > std::ssize(s))
    raise("", fmt::format("basic_string::substr: __pos (which is {}) > this->size() (which is {})", r.start, s.size()));
  return s.substr(static_cast<size_t>(r.start), static_cast<size_t>(r.end - r.start));
}

Int find(const Str& s, const Str& wanted, Int start, Int end, bool last) {
  Range r = range_of(s, start, end);
  Str text = r.end > r.start ? part(s, start, end) : "";
  if (text.size() < wanted.size()) return -1;
  size_t place = last ? text.rfind(wanted) : text.find(wanted);
  return place == none ? -1 : static_cast<Int>(place) + r.start;
}
Int index(const Str& s, const Str& wanted, Int start, Int end, bool last) {
  Int place = find(s, wanted, start, end, last);
  if (place < 0) raise("ValueError", "substring not found");
  return place;
}

Int occurrences(const Str& s, const Str& wanted, Int start, Int end) {
  if (start > std::ssize(s)) return 0;
  Range r = range_of(s, start, end);
  Int found = 0;
  for (size_t place = static_cast<size_t>(r.start); (place = s.find(wanted, place)) != none && static_cast<Int>(place) < r.end; found++)
    place += std::max<size_t>(wanted.size(), 1);
  return found;
}

/// Of replacements and cuts; negative: none.
Int limit(Int most) { return most < 0 ? INT64_MAX : most; }

Str repeated(const Str& s, Int count) {
  if (count > most_elements || std::ssize(s) * count > most_elements)
    raise("MemoryError", fmt::format("a string of {} times {} bytes", count, s.size()));
  Str out;
  for (Int i = 0; i < count; i++) out += s;
  return out;
}

/// Of an empty `old` a limited number is put before the string, as torch does; without limit it is Python's answer, where torch never ends.
Str replace(const Str& s, const Str& old, const Str& with, Int most) {
  if (old.empty() && most >= 0) return repeated(with, with.empty() ? 0 : most) + s;
  Str out = s;
  size_t place = 0;
  for (Int left = limit(most); left > 0 && (place = out.find(old, place)) != none; left--) {
    out.replace(place, old.size(), with);
    place += with.size() + old.empty();
  }
  return out;
}

// The bytes of torch's list of blanks; the last five are those of U+2028, U+2029 and of U+0085.
constexpr std::string_view line_ends = "\n\r\v\f\x1c\x1d\x1e\x85\xe2\x80\xa8\xa9";

Strs split_at_blanks(const Str& s) {
  Strs parts(1);
  for (char c : s) {
    if (c != ' ' && c != '\t' && line_ends.find(c) == line_ends.npos) parts.back() += c;
    else if (!parts.back().empty()) parts.emplace_back();
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

Strs split(const Str& s, const std::optional<Str>& separator, Int most) {
  if (!separator) return split_at_blanks(s);
  if (separator->empty()) raise("ValueError", "empty separator");
  Strs parts;
  size_t from = 0;
  size_t to = 0;
  for (Int left = limit(most); left > 0 && (to = s.find(*separator, from)) != none; left--) {
    parts.push_back(s.substr(from, to - from));
    from = to + separator->size();
  }
  parts.push_back(s.substr(from));
  return parts;
}

Strs rsplit(const Str& s, const Str& separator, Int most) {
  Str text(s.rbegin(), s.rend());
  Strs parts = split(text, Str(separator.rbegin(), separator.rend()), most);
  std::ranges::reverse(parts);
  for (Str& p : parts) std::ranges::reverse(p);
  return parts;
}

/// Line ends are elements of their own where they are kept.
Strs splitlines(const Str& s, bool keep_ends) {
  Strs lines;
  size_t from = 0;
  for (size_t to; (to = s.find_first_of(line_ends, from)) != none; from = to + 1) {
    lines.push_back(s.substr(from, to - from));
    if (keep_ends) lines.push_back(s.substr(to, 1));
  }
  if (from < s.size()) lines.push_back(s.substr(from));
  return lines;
}

Str join(const Str& between, const List& parts) {
  Str out;
  for (size_t i = 0; i < parts.size(); i++) out += (i ? between : "") + parts[i].to_string();
  return out;
}

Str strip(const Str& s, const Str& chars, bool left, bool right) {
  size_t from = left ? s.find_first_not_of(chars) : 0, to = right ? s.find_last_not_of(chars) : s.size();
  return from == none || to == none ? "" : s.substr(from, to - from + right);
}

Str filled(Int count, const Str& fill) {
  if (fill.size() != 1) raise("TypeError", "The fill character must be exactly one character long");
  return repeated(fill, count);
}
/// Widths count bytes; what is longer stays as it is.
Int padding(const Str& s, Int width) { return std::max<Int>(width - std::min<Int>(std::ssize(s), width), 0); }
Str center(const Str& s, Int width, const Str& fill) {
  Int all = padding(s, width), less = all / 2, more = all - less;
  return width % 2 ? filled(more, fill) + s + filled(less, fill) : filled(less, fill) + s + filled(more, fill);
}

std::tuple<Str, Str, Str> partition(const Str& s, const Str& separator) {
  size_t place = s.find(separator);
  if (place == none) return {s, "", ""};
  return {s.substr(0, place), separator, s.substr(place + separator.size())};
}
std::tuple<Str, Str, Str> rpartition(const Str& s, const Str& separator) {
  size_t place = s.rfind(separator);
  if (place == none) return {"", "", s};
  return {s.substr(0, place), separator, s.substr(place + separator.size())};
}

Str expandtabs(const Str& s, Int tab) {
  Str out;
  Int column = 0;
  for (char c : s) {
    Int blanks = c != '\t' ? 0 : tab <= 0 ? 0 : tab - column % tab;
    if (c == '\t') out += filled(blanks, " ");
    else out += c;
    column += c == '\t' ? blanks : 1;
  }
  return out;
}

/// Each word begins with a large letter, and has small ones after it.
bool is_title(const Str& s) {
  bool some = false, inside = false;
  for (char c : s) {
    if (inside ? is_upper(c) : is_lower(c)) return false;
    some |= is_alpha(c);
    inside = is_alpha(c);
  }
  return some;
}
Str title(const Str& s) {
  Str out;
  for (char c : s) out += out.empty() || !is_alpha(out.back()) ? upper(c) : lower(c);
  return out;
}
Str capitalize(const Str& s) {
  Str out = mapped(s, lower);
  if (!out.empty()) out[0] = upper(out[0]);
  return out;
}

Str character(const Str& s, Int index) {
  Int size = std::ssize(s), place = index < 0 ? index + size : index;
  if (place < 0 || place >= size)
    raise("", fmt::format("basic_string::at: __n (which is {}) >= this->size() (which is {})", static_cast<size_t>(place), size));
  return s.substr(static_cast<size_t>(place), 1);
}

Str substring(const Str& s, std::optional<Int> start, std::optional<Int> end, Int step) {
  Str out;
  for (Int i : slice_of(std::ssize(s), start, end, step)) out += s[static_cast<size_t>(i)];
  return out;
}

constexpr auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };

Rows make_string_rows() {
  return {
      {"aten::len.str(str s) -> int", op([](const Str& s) { return std::ssize(s); })},
      {"aten::add.str(str a, str b) -> str", op([](const Str& a, const Str& b) { return a + b; })},
      {"aten::__getitem__.str(str s, int index) -> str", of<character>},
      {"prim::StringIndex(str string, int index) -> str", of<character>},
      {"aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str", of<substring>},
      {"aten::isdigit(str self) -> bool", op([](const Str& s) { return all_and_some(s, is_digit); })},
      {"aten::isdecimal(str self) -> bool", op([](const Str& s) { return all_and_some(s, is_digit); })},
      {"aten::isnumeric(str self) -> bool", op([](const Str& s) { return all_and_some(s, is_digit); })},
      {"aten::isalnum(str self) -> bool", op([](const Str& s) { return all_and_some(s, is_alnum); })},
      {"aten::isalpha(str self) -> bool", op([](const Str& s) { return all_and_some(s, is_alpha); })},
      {"aten::isspace(str self) -> bool", op([](const Str& s) { return all_and_some(s, is_space); })},
      {"aten::isprintable(str self) -> bool", op([](const Str& s) { return std::ranges::all_of(s, is_printable); })},
      {"aten::isidentifier(str self) -> bool", op([](const Str& s) { return all_and_some(s, is_alnum) && !is_digit(s[0]); })},
      {"aten::isupper(str self) -> bool", op([](const Str& s) { return all_letters(s, is_upper); })},
      {"aten::islower(str self) -> bool", op([](const Str& s) { return all_letters(s, is_lower); })},
      {"aten::istitle(str self) -> bool", of<is_title>},
      {"aten::upper(str self) -> str", op([](const Str& s) { return mapped(s, upper); })},
      {"aten::lower(str self) -> str", op([](const Str& s) { return mapped(s, lower); })},
      {"aten::swapcase(str self) -> str",
       op([](const Str& s) { return mapped(s, [](char c) { return is_upper(c) ? lower(c) : upper(c); }); })},
      {"aten::capitalize(str self) -> str", of<capitalize>},
      {"aten::title(str self) -> str", of<title>},
      {"aten::center(str self, int width, str fillchar=\" \") -> str", of<center>},
      {"aten::ljust(str self, int width, str fillchar=\" \") -> str",
       op([](const Str& s, Int width, const Str& fill) { return s + filled(padding(s, width), fill); })},
      {"aten::rjust(str self, int width, str fillchar=\" \") -> str",
       op([](const Str& s, Int width, const Str& fill) { return filled(padding(s, width), fill) + s; })},
      {"aten::zfill(str self, int width) -> str", op([](const Str& s, Int width) { return filled(padding(s, width), "0") + s; })},
      {"aten::expandtabs(str self, int tabsize=8) -> str", of<expandtabs>},
      {"aten::count(str self, str substr, int start=0, int end=-1) -> int", of<occurrences>},
      {"aten::endswith(str self, str substr, int start=0, int end=-1) -> bool",
       op([](const Str& s, const Str& t, Int a, Int b) { return part(s, a, b).ends_with(t); })},
      {"aten::startswith(str self, str substr, int start=0, int end=-1) -> bool",
       op([](const Str& s, const Str& t, Int a, Int b) { return part(s, a, b).starts_with(t); })},
      {"aten::find(str self, str substr, int start=0, int end=-1) -> int",
       op([](const Str& s, const Str& t, Int a, Int b) { return find(s, t, a, b, false); })},
      {"aten::rfind(str self, str substr, int start=0, int end=-1) -> int",
       op([](const Str& s, const Str& t, Int a, Int b) { return find(s, t, a, b, true); })},
      {"aten::index.str(str self, str substr, int start=0, int end=-1) -> int",
       op([](const Str& s, const Str& t, Int a, Int b) { return index(s, t, a, b, false); })},
      {"aten::rindex(str self, str substr, int start=0, int end=-1) -> int",
       op([](const Str& s, const Str& t, Int a, Int b) { return index(s, t, a, b, true); })},
      {"aten::strip(str self, str chars=\" \\n\\t\\f\\v\") -> str",
       op([](const Str& s, const Str& chars) { return strip(s, chars, true, true); })},
      {"aten::lstrip(str self, str chars=\" \\n\\t\\f\\v\") -> str",
       op([](const Str& s, const Str& chars) { return strip(s, chars, true, false); })},
      {"aten::rstrip(str self, str chars=\" \\n\\t\\f\\v\") -> str",
       op([](const Str& s, const Str& chars) { return strip(s, chars, false, true); })},
      {"aten::replace(str self, str old, str new, int max=-1) -> str", of<replace>},
      {"aten::partition(str self, str separator) -> (str, str, str)", of<partition>},
      {"aten::rpartition(str self, str separator) -> (str, str, str)", of<rpartition>},
      {"aten::split.str(str self, str? separator=None, int max=-1) -> str[]", of<split>},
      {"aten::rsplit(str self, str separator=\" \", int max=-1) -> str[]", of<rsplit>},
      {"aten::splitlines(str self, bool keepends=False) -> str[]", of<splitlines>},
      {"aten::join(str self, str[] values) -> str", of<join>},
  };
}

} // namespace

std::span<const BuiltinRow> string_rows() {
  static const Rows rows = make_string_rows();
  return rows;
}

} // namespace tenon::builtins
