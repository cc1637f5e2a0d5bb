// The text that a step has of its sources (ir/origin.h: to_string) as data again.
#pragma once
#include <string_view>
#include <vector>

#include "tenon/explain.h"

namespace tenon {

struct Sources {
  std::vector<SourceLine> lines;
  int more = 0; // that the text leaves out
};
Sources parse_sources(std::string_view text);

} // namespace tenon
