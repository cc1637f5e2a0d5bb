// Origins: frames of stack traces, paths of modules.
#include "ir/origin.h"

#include <algorithm>

#include <fmt/core.h>

namespace tenon {

namespace {

constexpr std::string_view frame_start = "File \"";

// Whether a file is torch's own, wherever it is installed.
bool is_torch_file(std::string_view path) {
  if (path.starts_with("torch/")) return true;
  for (std::string_view part : {"-packages/torch/", "/torch/nn/", "/torch/_", "/torch/fx/", "/torch/utils/", "/torch/export/"})
    if (path.find(part) != path.npos) return true;
  return false;
}

// Parts between `mark`s that stand outside of brackets: paths as strict export writes them hold "getattr(L['fn'], '0')".
std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); i++) {
    char c = text[i];
    if (c == '(' || c == '[') depth++;
    else if (c == ')' || c == ']') depth = std::max(depth - 1, 0);
    else if (c == mark && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// L['self'].layers[3] and L['self']._modules['layers'] are layers.3 and layers; getattr(L['fn'], '0') is fn.0.
std::string plain_path(std::string_view path) {
  std::string s;
  auto add = [&](std::string_view part) { s += (s.empty() ? "" : ".") + std::string(part); };
  for (size_t i = 0; i < path.size();) {
    size_t end = i;
    while (end < path.size() && (std::isalnum(static_cast<unsigned char>(path[end])) || path[end] == '_' || path[end] == '-')) end++;
    std::string_view word = path.substr(i, end - i);
    bool is_root = s.empty() && (word == "self" || word == "L__self__");
    if (!word.empty() && !is_root && word != "L" && word != "getattr" && word != "_modules") add(word);
    i = std::max(end, i + 1);
  }
  return s;
}

} // namespace

std::vector<std::pair<std::string, std::string>> metadata_of(const Origin& o) {
  std::vector<std::pair<std::string, std::string>> list;
  for (auto& [key, text] : {std::pair("stack_trace", &o.stack_trace),
                            {"nn_module_stack", &o.module_stack},
                            {"source_fn_stack", &o.source_fn_stack},
                            {"torch_fn", &o.torch_fn}})
    if (!text->empty()) list.emplace_back(key, *text);
  return list;
}

std::string_view user_frame(const Origin& origin) {
  std::string_view trace = origin.stack_trace, innermost;
  for (size_t at = trace.size(); (at = at == 0 ? trace.npos : trace.rfind(frame_start, at - 1)) != trace.npos;) {
    std::string_view frame = trace.substr(at, trace.find('\n', at) - at), path = frame.substr(frame_start.size());
    if (!is_torch_file(path.substr(0, path.find('"')))) return frame;
    if (innermost.empty()) innermost = frame;
  }
  return innermost;
}

std::string module_path(const Origin& origin) {
  std::string_view innermost = split(origin.module_stack, ';').back();
  auto parts = split(innermost, ',');
  return parts.size() < 2 ? std::string() : plain_path(parts[1]);
}

std::string to_string(const Origin& origin) {
  std::string path = module_path(origin);
  std::string_view frame = user_frame(origin);
  return path + (path.empty() || frame.empty() ? "" : ", ") + std::string(frame);
}

std::string to_string(const std::vector<const Origin*>& origins) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < origins.size(); i++) {
    if (!origins[i] || (i > 0 && origins[i] == origins[i - 1])) continue;
    std::string text = to_string(*origins[i]);
    if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  constexpr size_t most = 4;
  std::string s;
  for (size_t k = 0; k < std::min(texts.size(), most); k++) s += (k > 0 ? "; " : "") + texts[k];
  return texts.size() > most ? fmt::format("{}; and {} more", s, texts.size() - most) : s;
}

Error at_node(const Error& e, std::string_view node, const Origin* origin) {
  if (e.kind == ErrorKind::Internal) return e;
  std::string message = e.what(), from = origin ? to_string(*origin) : "";
  if (message.find(node) == message.npos) message = fmt::format("{}: {}", node, message);
  if (!from.empty() && message.find(", from ") == message.npos) message += ", from " + from;
  return Error(e.kind, message, e.where);
}

} // namespace tenon
