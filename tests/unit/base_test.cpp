// base: half-precision rounding, strided copies.
#include <doctest/doctest.h>

#include <limits>
#include <numeric>

#include "base/numeric.h"
#include "base/strided.h"

namespace tenon::base_test {

TEST_CASE("f16 round trip is exact over all bit patterns") {
  for (uint32_t b = 0; b < 65536; b++) {
    F16 h;
    h.bits = static_cast<uint16_t>(b);
    float f = static_cast<float>(h);
    if (std::isnan(f)) CHECK(std::isnan(static_cast<float>(F16(f))));
    else CHECK(F16(f).bits == b);
  }
}

TEST_CASE("f16 and bf16 round to nearest even") {
  CHECK(F16(65519.f).bits == 0x7bff);
  CHECK(F16(65520.f).bits == 0x7c00);
  CHECK(F16(2049.f).bits == F16(2048.f).bits);
  CHECK(F16(2051.f).bits == F16(2052.f).bits);
  CHECK(BF16(1.00390625f).bits == 0x3f80);
  CHECK(BF16(1.01171875f).bits == 0x3f82);
  CHECK(BF16(std::numeric_limits<float>::max()).bits == 0x7f80);
}

TEST_CASE("strided copies of every dtype invert each other") {
  for (int type = 0; type < num_dtypes; type++) {
    auto dtype = static_cast<DType>(type);
    CAPTURE(name_of(dtype));
    const size_t size = size_of(dtype);
    Tensor t(dtype, {3, 5});
    auto* bytes = static_cast<uint8_t*>(t.data());
    std::iota(bytes, bytes + 15 * size, 0);
    Tensor tr(dtype, {5, 3}, {1, 5}, t.storage(), t.data());
    CHECK(!tr.is_contiguous());
    Tensor c = tr.contiguous();
    for (size_t i = 0; i < 5; i++)
      for (size_t j = 0; j < 3; j++)
        CHECK(std::equal(bytes + (j * 5 + i) * size, bytes + (j * 5 + i + 1) * size, static_cast<uint8_t*>(c.data()) + (i * 3 + j) * size));
    Tensor back(dtype, {3, 5});
    Tensor view(dtype, {5, 3}, {1, 5}, back.storage(), back.data());
    copy_to_strided(c.data(), view.view());
    CHECK(std::equal(bytes, bytes + 15 * size, static_cast<uint8_t*>(back.data())));
  }
}

} // namespace tenon::base_test
