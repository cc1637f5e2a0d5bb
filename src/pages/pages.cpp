#include "pages/pages.h"

#include "base/check.h"
#include "pages/assets.h"

namespace tenon::pages {

namespace {

std::string escape_text(std::string_view text) {
  std::string s;
  for (char c : text)
    if (c == '<') s += "&lt;";
    else if (c == '&') s += "&amp;";
    else s += c;
  return s;
}

// Inside of a script element nothing may look like its end, nor like a comment's beginning. JSON has '<' in strings alone.
std::string escape_json(std::string_view json) {
  std::string s;
  for (char c : json)
    if (c == '<') s += "\\u003c";
    else s += c;
  return s;
}

} // namespace

std::string page(std::string_view kind, std::string_view title, std::string_view json) {
  require(kind == "explain" || kind == "bench", "no page {}", kind);
  std::string out;
  std::string_view frame = asset("page.html");
  for (size_t at = 0; at < frame.size();) {
    size_t begin = frame.find("{{", at), end = begin == frame.npos ? begin : frame.find("}}", begin);
    out += frame.substr(at, begin == frame.npos ? begin : begin - at);
    if (begin == frame.npos) break;
    std::string_view name = frame.substr(begin + 2, end - begin - 2);
    if (name == "title") out += escape_text(title);
    else if (name == "data") out += escape_json(json);
    else if (name == "script") out += asset(std::string(kind) + ".js");
    else out += asset(name);
    at = end + 2;
  }
  return out;
}

} // namespace tenon::pages
