// What `tenon check` takes for equal.
#include "cli/compare.h"

#include <limits>

#include "tests/unit/graph_harness.h"

namespace tenon::compare_test {
using namespace tenon::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();

Tensor tensor(DType t, const std::vector<double>& values) {
  return filled(t, {static_cast<int64_t>(values.size())}, [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}
bool equal(DType t, const std::vector<double>& got, const std::vector<double>& expected, const cli::Tolerance& tolerance = {}) {
  return cli::compare(tensor(t, got), tensor(t, expected), tolerance).empty();
}

} // namespace

TEST_CASE("compare: errors are held to the element and to the largest one") {
  CHECK(equal(DType::F32, {1, 100}, {1.0005, 100}));
  CHECK(!equal(DType::F32, {1, 100}, {1.02, 100}));
  CHECK(!equal(DType::F32, {1, 2}, {1.0005, 2}));
  CHECK(equal(DType::F32, {0, 0}, {0, 1e-7}));
  CHECK(!equal(DType::F32, {0, 0}, {0, 1e-5}));
  CHECK(equal(DType::BF16, {1, 2}, {1.0078125, 2}));
  CHECK(!equal(DType::BF16, {1, 2}, {1.0625, 2}));
  CHECK(!equal(DType::F64, {1, 2}, {1.000001, 2}));
  CHECK(equal(DType::F32, {1, 2}, {1.05, 2}, {0.1, 0}));
  CHECK(equal(DType::F32, {}, {}));
}

TEST_CASE("compare: a mask's huge number hides nothing beside it") {
  for (DType t : {DType::F32, DType::F64, DType::BF16})
    for (double mask : {-3.38e38, 3.38e38, 1.1e30}) {
      CHECK(equal(t, {1, mask, -2}, {1, mask, -2}));
      CHECK(!equal(t, {1.5, mask, -2}, {1, mask, -2}));
      CHECK(!equal(t, {1, mask, 1e20}, {1, mask, -2}));
      CHECK(!equal(t, {1, mask * 0.9, -2}, {1, mask, -2}));
      CHECK(!equal(t, {1, 0, -2}, {1, mask, -2}));
      CHECK(!equal(t, {1, -mask, -2}, {1, mask, -2}));
      CHECK(!equal(t, {1, mask < 0 ? -inf : inf, -2}, {1, mask, -2}));
      CHECK(!equal(t, {1, mask, mask}, {1, mask, -2}));
    }
  CHECK(equal(DType::F32, {3.4e38, 1}, {3.4001e38, 1}));
  CHECK(equal(DType::F32, {1e29, 0}, {1e29, 1e24})); // up to 1e30, numbers count for the scale
}

TEST_CASE("compare: infinities, NaN, integers, dtypes and shapes") {
  CHECK(equal(DType::F32, {inf, -inf, none, 1}, {inf, -inf, none, 1}));
  for (double wrong : {-inf, none, 3e38, 0.0}) CHECK(!equal(DType::F32, {wrong, 1}, {inf, 1}));
  for (double wrong : {inf, -inf, 0.0}) CHECK(!equal(DType::F32, {wrong, 1}, {none, 1}));
  for (double wrong : {inf, -inf, none}) CHECK(!equal(DType::F32, {wrong, 1}, {5, 1}));
  CHECK(equal(DType::I64, {1, -2}, {1, -2}));
  CHECK(!equal(DType::I64, {1, -2}, {1, -3}));
  CHECK(!equal(DType::Bool, {1}, {0}));
  CHECK(!cli::compare(tensor(DType::F32, {1}), tensor(DType::F64, {1}), {}).empty());
  CHECK(!cli::compare(tensor(DType::F32, {1}), filled(DType::F32, {1, 1}, [](int64_t) { return 1; }), {}).empty());
}

} // namespace tenon::compare_test
