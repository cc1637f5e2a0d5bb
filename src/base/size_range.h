// What an integer that a program was simplified for may be.
#pragma once
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace tenon {

struct SizeRange {
  std::string name;
  int64_t lo = INT64_MIN, hi = INT64_MAX;

  bool contains(int64_t v) const noexcept { return v >= lo && v <= hi; }
  bool is_everything() const noexcept { return lo == INT64_MIN && hi == INT64_MAX; }
};

/// "0 to 9", "0 to unbounded".
inline std::string text_of(const SizeRange& r) {
  auto bound = [](int64_t v) { return v == INT64_MIN || v == INT64_MAX ? std::string("unbounded") : std::to_string(v); };
  return fmt::format("{} to {}", bound(r.lo), bound(r.hi));
}

inline std::string outside_message(const SizeRange& r, int64_t value) {
  return fmt::format("{} is {}, outside its range {}", r.name, value, text_of(r));
}

} // namespace tenon
