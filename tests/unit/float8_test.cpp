// Floats of 8 bits: every byte, and what lies between two neighbours.
#include <algorithm>
#include <vector>

#include "base/numeric.h"
#include <doctest/doctest.h>

namespace tenon::float8_test {

namespace {

constexpr DType types[] = {DType::F8E4M3FN, DType::F8E5M2, DType::F8E4M3FNUZ, DType::F8E5M2FNUZ};

struct Known {
  uint8_t byte;
  float value;
};

std::vector<Known> finite(DType t) {
  std::vector<Known> out;
  for (int i = 0; i < 256; i++) {
    auto byte = static_cast<uint8_t>(i);
    if (float v = from_float8(byte, t); std::isfinite(v) && (v != 0 || byte == 0)) out.push_back({byte, v});
  }
  std::sort(out.begin(), out.end(), [](Known a, Known b) { return a.value < b.value; });
  return out;
}

} // namespace

TEST_CASE("each byte is the number nearest to itself") {
  for (DType t : types)
    for (Known k : finite(t)) CHECK(to_float8(k.value, t) == k.byte);
}

TEST_CASE("halfway numbers go to the even neighbour, others to the nearer one") {
  for (DType t : types) {
    std::vector<Known> all = finite(t);
    for (size_t i = 0; i + 1 < all.size(); i++) {
      Known lo = all[i], hi = all[i + 1];
      float half = (lo.value + hi.value) / 2;
      CHECK(from_float8(to_float8(half, t), t) == ((lo.byte & 1) == 0 ? lo.value : hi.value));
      CHECK(from_float8(to_float8(std::nextafter(half, hi.value), t), t) == hi.value);
      CHECK(from_float8(to_float8(std::nextafter(half, lo.value), t), t) == lo.value);
    }
  }
}

TEST_CASE("what is too large, infinite or no number") {
  CHECK(to_float8(1e9f, DType::F8E4M3FN) == 0x7e);
  CHECK(to_float8(-INFINITY, DType::F8E4M3FN) == 0xfe);
  CHECK(to_float8(61439, DType::F8E5M2) == 0x7b);
  CHECK(to_float8(61440, DType::F8E5M2) == 0x7c);
  CHECK(from_float8(0xfc, DType::F8E5M2) == -INFINITY);
  CHECK(to_float8(-0.0f, DType::F8E5M2) == 0x80);
  CHECK(to_float8(-1e-12f, DType::F8E4M3FNUZ) == 0);
  CHECK(to_float8(248, DType::F8E4M3FNUZ) == 0x80);
  for (DType t : types) CHECK(std::isnan(from_float8(to_float8(NAN, t), t)));
}

} // namespace tenon::float8_test
