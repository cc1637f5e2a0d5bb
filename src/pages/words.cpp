#include "pages/words.h"

#include <fmt/core.h>

namespace tenon {

const char* name_of(ExplainedStep::Kind kind) {
  constexpr const char* names[] = {"loops", "matmul", "conv", "attention", "library", "backend", "interpreter", "control", "plan"};
  return names[static_cast<int>(kind)];
}

const char* name_of(ExplainedBuffer::Place place) {
  constexpr const char* names[] = {"temporary", "input", "output", "constant", "state"};
  return names[static_cast<int>(place)];
}

int depth_of(const Explanation& e, const ExplainedStep& step) {
  int depth = 0;
  for (int o = step.owner; o >= 0; o = e.steps[static_cast<size_t>(o)].owner) depth++;
  return depth;
}

bool is_far(const ExplainedStep& s) { return s.times_bound() >= 2 && s.share >= 0.02; }

const char* bound_name(const ExplainedStep& s) { return s.arithmetic_us > s.memory_us ? "arithmetic" : "memory"; }

std::string to_string(const SourceLine& l) {
  std::string frame;
  if (!l.file.empty()) frame = fmt::format("File \"{}\", line {}", l.file, l.line);
  if (!l.function.empty()) frame += ", in " + l.function;
  return l.module + (l.module.empty() || frame.empty() ? "" : ", ") + frame;
}

std::string sources(const ExplainedStep& step) {
  std::string s;
  for (const SourceLine& l : step.source) s += (s.empty() ? "" : "; ") + to_string(l);
  return step.more_sources > 0 ? fmt::format("{}; and {} more", s, step.more_sources) : s;
}

std::string short_source(const ExplainedStep& step) {
  if (step.source.empty()) return {};
  const SourceLine& l = step.source[0];
  std::string s = l.file.substr(l.file.rfind('/') + 1); // npos + 1 is 0
  if (l.line > 0) s += fmt::format(":{}", l.line);
  return s + (s.empty() || l.module.empty() ? "" : " ") + l.module;
}

} // namespace tenon
