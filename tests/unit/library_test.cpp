// Library steps on plain memory: order and ties, odd sizes, indices out of range, random numbers.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "library_call.h"
#include "runtime/library/common.h"

namespace tenon::library_test {

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
using Ints = std::vector<int64_t>;

} // namespace

TEST_CASE("sort is stable, NaN is greatest, both zeros are equal") {
  for (int64_t n : {0, 1, 2, 17, 255, 257, 1031}) {
    for (bool descending : {false, true}) {
      std::vector<float> x(static_cast<size_t>(n));
      for (size_t i = 0; i < x.size(); i++)
        x[i] = i % 7 == 3 ? not_a_number : i % 5 == 0 ? -0.f : static_cast<float>(static_cast<int>(i * 37 % 11) - 5);
      Bench b;
      b.input<float>({n}, x);
      b.output<float>({n}), b.output<int64_t>({n});
      b.ints = {0, descending, 1};
      REQUIRE(b.run(library::sort) == "");
      Ints want(x.size());
      std::iota(want.begin(), want.end(), 0);
      auto before = [&](int64_t i, int64_t j) {
        float p = x[static_cast<size_t>(descending ? j : i)], q = x[static_cast<size_t>(descending ? i : j)];
        return p < q || (!std::isnan(p) && std::isnan(q));
      };
      std::sort(want.begin(), want.end(), [&](int64_t i, int64_t j) { return before(i, j) || (!before(j, i) && i < j); });
      CHECK(b.out<int64_t>(1) == want);
    }
  }
}

TEST_CASE("sort, topk and kthvalue agree on 64-bit integers along the first dim") {
  Ints x(101 * 3);
  for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<int64_t>(i * 7919 % 503) * (i % 2 ? INT64_C(10000000000) : -1);
  Bench s, t, k;
  for (Bench* b : {&s, &t, &k}) b->input<int64_t>({101, 3}, x);
  s.output<int64_t>({101, 3}), s.output<int64_t>({101, 3});
  t.output<int64_t>({4, 3}), t.output<int64_t>({4, 3});
  k.output<int64_t>({3}), k.output<int64_t>({3});
  s.ints = {0, 1, 1}, t.ints = {0, 4, 1, 1}, k.ints = {0, 98};
  REQUIRE((s.run(library::sort) + t.run(library::topk) + k.run(library::kthvalue)) == "");
  Ints sorted = s.out<int64_t>(0), kth = k.out<int64_t>(0);
  CHECK(t.out<int64_t>(0) == Ints(sorted.begin(), sorted.begin() + 12));
  CHECK(kth == Ints(sorted.begin() + 9, sorted.begin() + 12)); // the 98th smallest of 101 is the 4th greatest
  k.ints[1] = 102;
  CHECK(k.run(library::kthvalue) != "");
}

TEST_CASE("scatter reduces with and without self and refuses what is out of range") {
  Bench b;
  b.input<float>({3}, {10, 20, 30});
  b.input<int64_t>({4}, {0, 0, 2, 0});
  b.input<float>({4}, {1, 2, 3, 6});
  b.output<float>({3});
  b.ints = {0, static_cast<int64_t>(library::Update::Mean), 0, 0, 0};
  b.numbers = {0};
  REQUIRE(b.run(library::scatter) == "");
  CHECK(b.out<float>(0) == std::vector<float>{3, 20, 3});
  b.ints[2] = 1;
  REQUIRE(b.run(library::scatter) == "");
  CHECK(b.out<float>(0) == std::vector<float>{4.75, 20, 16.5});
  b.inputs[1].data_as<int64_t>()[2] = 3;
  CHECK(b.run(library::scatter) == "index 3 is out of range for size 3");
}

TEST_CASE("index_put broadcasts indices apart from each other and wraps negative ones") {
  Bench b; // x[[-1, 0], :, [[0], [1]]] = 100, 101, ...
  b.input<int64_t>({2, 3, 2}, Ints(12, 0));
  Ints values(12);
  std::iota(values.begin(), values.end(), 100);
  b.input<int64_t>({2, 2, 3}, values);
  b.input<int64_t>({2}, {-1, 0});
  b.input<int64_t>({2, 1}, {0, 1});
  b.output<int64_t>({2, 3, 2});
  b.ints = {0, 1, 0, 1};
  REQUIRE(b.run(library::index_put) == "");
  CHECK(b.out<int64_t>(0) == Ints{103, 109, 104, 110, 105, 111, 100, 106, 101, 107, 102, 108});
  b.inputs[2].data_as<int64_t>()[0] = -3;
  CHECK(b.run(library::index_put) != "");
}

TEST_CASE("nonzero and unique give outputs of the size they find") {
  Bench b;
  b.input<uint8_t>({2, 3}, {0, 5, 0, 1, 0, 2});
  b.output<int64_t>({0, 0});
  REQUIRE(b.run(library::nonzero) == "");
  CHECK(b.outputs[0].sizes() == Ints{3, 2});
  CHECK(b.out<int64_t>(0) == Ints{0, 1, 1, 0, 1, 2});
  Bench u;
  u.input<float>({5}, {3, not_a_number, 1, 3, not_a_number});
  u.output<float>({0}), u.output<int64_t>({0}), u.output<int64_t>({0});
  u.ints = {0, 1, 1};
  REQUIRE(u.run(library::unique) == "");
  CHECK(u.outputs[0].numel() == 4); // each NaN is one of its own
  CHECK(u.out<int64_t>(1) == Ints{1, 2, 0, 1, 3});
  CHECK(u.out<int64_t>(2) == Ints{1, 2, 1, 1});
}

TEST_CASE("embedding_bag: empty bags, padding, weights") {
  Bench b;
  b.input<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  b.input<int64_t>({5}, {2, 0, 1, 2, 1});
  b.input<int64_t>({3}, {0, 3, 3});
  b.output<float>({3, 2}), b.output<int64_t>({5}), b.output<int64_t>({3}), b.output<int64_t>({3});
  b.ints = {1, 0, 0}; // mean, row 0 is padding
  REQUIRE(b.run(library::embedding_bag) == "");
  CHECK(b.out<float>(0) == std::vector<float>{4, 5, 0, 0, 4, 5});
  CHECK(b.out<int64_t>(1) == Ints{0, 0, 0, 2, 2});
  CHECK(b.out<int64_t>(2) == Ints{2, 0, 2});
  b.input<float>({5}, {1, 1, 1, 2, -1});
  b.ints = {0, 0, -1};
  REQUIRE(b.run(library::embedding_bag) == "");
  CHECK(b.out<float>(0) == std::vector<float>{9, 12, 0, 0, 7, 8});
  b.inputs[1].data_as<int64_t>()[4] = 3;
  CHECK(b.run(library::embedding_bag) == "index 3 is out of range for size 3");
}

// As torch's _embedding_bag for weight = arange(20.).reshape(5, 4)[:, :1] and indices [1, 2, 3, 4, 0, 1].
TEST_CASE("embedding_bag: offsets that do not grow") {
  auto bags = [](auto zero, Ints offsets, Ints ints) {
    using T = decltype(zero);
    Bench b;
    b.input<T>({5, 1}, {0, 4, 8, 12, 16});
    b.input<int64_t>({6}, {1, 2, 3, 4, 0, 1});
    auto listed = static_cast<int64_t>(offsets.size()), count = listed - ints[1];
    b.input<int64_t>({listed}, offsets);
    b.output<T>({count, 1}), b.output<int64_t>({6}), b.output<int64_t>({count}), b.output<int64_t>({count});
    b.ints = ints;
    std::string error = b.run(library::embedding_bag);
    return std::tuple(error, std::vector<double>(b.outputs[0].data_as<T>(), b.outputs[0].data_as<T>() + count), b.out<int64_t>(1),
                      b.out<int64_t>(2));
  };
  using Numbers = std::vector<double>;
  CHECK(bags(0.0, {0, 5, 1, 1, 4, 3}, {0, 0, -1}) ==
        std::tuple(std::string(), Numbers{4, 0, 20, 16, 0, 4}, Ints{0, 2, 2, 3, 4, 5}, Ints{5, -4, 0, 3, -1, 3}));
  CHECK(bags(0.0, {0, 4, 2, 5}, {1, 0, -1}) == std::tuple(std::string(), Numbers{3, 28, 0, 4}, Ints{0, 0, 1, 1, 2, 3}, Ints{4, -2, 3, 1}));
  CHECK(bags(0.0, {0, 3}, {1, 1, -1}) == std::tuple(std::string(), Numbers{44.0 / 6}, Ints{0, 0, 0, 0, 0, 0}, Ints{6}));
  CHECK(std::get<1>(bags(0.0f, {0, 4, 2}, {2, 0, -1})) == Numbers{8, 16, 4});
  CHECK(std::get<1>(bags(0.0f, {0, 4, 2}, {0, 1, 2})) == Numbers{32, 4});
  CHECK(std::get<1>(bags(0.0f, {0, 3}, {0, 1, -1})) == Numbers{24}); // the quick sum ends where the last offset says
  CHECK(std::get<0>(bags(0.0f, {0, 4, 2}, {0, 0, -1})) == "offset 2 of bag 2 is below the one before");
  for (auto offsets : {Ints{1, 3}, {0, 7}, {0, -1}, {0, 7, 3}}) {
    CHECK(std::get<0>(bags(0.0f, offsets, {0, 0, -1})) != "");
    CHECK(std::get<0>(bags(0.0, offsets, {2, 0, 1})) != "");
  }
  CHECK(std::get<0>(bags(0.0, {}, {0, 0, -1})) == "");
}

TEST_CASE("random numbers: the same for a seed, others for another, spread as they should be") {
  constexpr int64_t n = 100001;
  Bench u, v, z, p;
  u.numbers = v.numbers = z.numbers = {0, 1};
  v.seed = 8;
  for (Bench* b : {&u, &v, &z}) b->output<float>({n});
  p.output<int64_t>({n});
  REQUIRE((u.run(library::random_uniform) + v.run(library::random_uniform) + z.run(library::random_normal) +
           p.run(library::random_permutation)) == "");
  std::vector<float> x = u.out<float>(0), y = z.out<float>(0);
  CHECK(x != v.out<float>(0));
  u.run(library::random_uniform);
  CHECK(x == u.out<float>(0));
  auto moments = [](const std::vector<float>& a) {
    double mean = std::accumulate(a.begin(), a.end(), 0.0) / n, square = 0;
    for (float f : a) square += (f - mean) * (f - mean) / n;
    return std::pair(mean, square);
  };
  CHECK(*std::min_element(x.begin(), x.end()) >= 0);
  CHECK(*std::max_element(x.begin(), x.end()) < 1);
  CHECK(moments(x).first == doctest::Approx(0.5).epsilon(0.01));
  CHECK(moments(x).second == doctest::Approx(1. / 12).epsilon(0.02));
  CHECK(std::abs(moments(y).first) < 0.015);
  CHECK(moments(y).second == doctest::Approx(1).epsilon(0.02));
  Ints order = p.out<int64_t>(0), sorted = order;
  std::sort(sorted.begin(), sorted.end());
  Ints all(n);
  std::iota(all.begin(), all.end(), 0);
  CHECK(order != all);
  CHECK(sorted == all);
}

TEST_CASE("multinomial draws by weight, without repeats where asked") {
  Bench b;
  b.input<double>({2, 4}, {0, 1, 3, 0, 1, 1, 1, 1});
  b.output<int64_t>({2, 20000});
  b.ints = {1};
  REQUIRE(b.run(library::multinomial) == "");
  Ints draws = b.out<int64_t>(0);
  auto share = [&](int64_t row, int64_t k) {
    return static_cast<double>(std::count(draws.begin() + row * 20000, draws.begin() + (row + 1) * 20000, k)) / 20000;
  };
  CHECK(share(0, 0) == 0);
  CHECK(share(0, 3) == 0);
  CHECK(share(0, 2) == doctest::Approx(0.75).epsilon(0.02));
  CHECK(share(1, 3) == doctest::Approx(0.25).epsilon(0.05));
  b.outputs[0] = Tensor(DType::I64, {2, 2});
  b.ints = {0};
  REQUIRE(b.run(library::multinomial) == "");
  Ints two = b.out<int64_t>(0);
  CHECK(two[0] + two[1] == 3);
  CHECK(two[2] != two[3]);
  b.outputs[0] = Tensor(DType::I64, {2, 3});
  CHECK(b.run(library::multinomial) != "");
}

TEST_CASE("library steps convert 16-bit floats as everything else does") {
  size_t wrong = 0;
  auto same = [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); };
  for (uint32_t i = 0; i < 65536; i++) {
    F16 h;
    h.bits = static_cast<uint16_t>(i);
    wrong += !same(library::widen(h), static_cast<float>(h));
  }
  for (uint64_t i = 0; i < uint64_t{1} << 32; i += 997) {
    auto x = std::bit_cast<float>(static_cast<uint32_t>(i));
    wrong += library::narrow<F16>(x).bits != F16(x).bits;
  }
  for (uint32_t i = 0; i < 65536; i++) // halfway between two, and beside it
    for (uint32_t low : {0xfffu, 0x1000u, 0x1001u}) {
      auto x = std::bit_cast<float>(0x33000000u + (i << 13) + low);
      wrong += library::narrow<F16>(x).bits != F16(x).bits;
    }
  CHECK(wrong == 0);
}

} // namespace tenon::library_test
