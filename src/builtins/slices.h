// Indices as Python counts them.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "builtins/ivalue.h"

namespace tenon::builtins {

/// The places that [start:end:step] means in a sequence of `size` elements.
inline std::vector<int64_t> slice_of(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  if (step == 0) raise("", "List slice should have non-zero step");
  auto clamp = [&](int64_t i, int64_t low, int64_t high) { return std::clamp(i < 0 ? i + size : i, low, high); };
  std::vector<int64_t> places;
  if (step > 0)
    for (int64_t i = clamp(start.value_or(0), 0, size), stop = clamp(end.value_or(size), 0, size); i < stop; i += std::min(step, size))
      places.push_back(i);
  else
    for (int64_t i = clamp(start.value_or(size - 1), -1, size - 1), stop = end ? clamp(*end, -1, size - 1) : -1; i > stop;
         i += std::max(step, -size))
      places.push_back(i);
  return places;
}

} // namespace tenon::builtins
