#include "script/source.h"

#include <algorithm>

namespace tenon::script {

namespace {

struct Line {
  size_t begin, end;
};

Line line_at(std::string_view text, size_t at) {
  at = std::min(at, text.size());
  size_t begin = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  return {begin, std::min(text.find('\n', at), text.size())};
}

} // namespace

size_t line_of(Range at) {
  auto& text = at.source->text;
  return 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + std::min<size_t>(at.begin, text.size()), '\n'));
}

size_t column_of(Range at) { return at.begin - line_at(at.source->text, at.begin).begin; }

std::string show(Range at) {
  if (!at.source) return {};
  std::string_view text = at.source->text;
  Line line = line_at(text, at.begin);
  std::string out = fmt::format("  File \"{}\", line {}\n", at.source->file, line_of(at));
  constexpr int before = 3;
  size_t from = line.begin;
  for (int i = 0; i < before && from > 0; i++) from = line_at(text, from - 1).begin;
  out += text.substr(from, line.end - from);
  size_t length = std::clamp<size_t>(std::min<size_t>(at.end, line.end) - std::min<size_t>(at.begin, line.end), 1, 200);
  return out + "\n" + std::string(std::min<size_t>(at.begin - line.begin, 400), ' ') + std::string(length, '~') + " <--- HERE\n";
}

void fail_text(Range at, const std::string& message) {
  if (!at.source) bad_input("{}", message);
  throw Error(ErrorKind::BadInput, message + ":\n" + show(at), fmt::format("{}:{}:{}", at.source->file, line_of(at), column_of(at)));
}

} // namespace tenon::script
