#include "compile/parse_sources.h"

#include <cstdlib>

namespace tenon {

constexpr std::string_view frame_start = "File \"";

static SourceLine parse_source(std::string_view text) {
  SourceLine p;
  size_t frame = text.find(frame_start);
  p.module = text.substr(0, std::min(frame, text.size()));
  if (p.module.ends_with(", ")) p.module.resize(p.module.size() - 2);
  if (frame == text.npos) return p;
  std::string_view rest = text.substr(frame + frame_start.size());
  size_t end = rest.find('"');
  p.file = rest.substr(0, end);
  rest.remove_prefix(std::min(end, rest.size()));
  auto after = [&](std::string_view mark) {
    size_t at = rest.find(mark);
    return at == rest.npos ? std::string_view() : rest.substr(at + mark.size());
  };
  p.line = std::atoi(std::string(after("line ")).c_str());
  p.function = after(", in ");
  return p;
}

Sources parse_sources(std::string_view text) {
  Sources out;
  while (!text.empty()) {
    size_t end = text.find("; ");
    std::string_view one = text.substr(0, end);
    if (one.starts_with("and ") && one.ends_with(" more")) out.more = std::atoi(std::string(one.substr(4)).c_str());
    else out.lines.push_back(parse_source(one));
    text.remove_prefix(end == text.npos ? text.size() : end + 2);
  }
  return out;
}

} // namespace tenon
