// Rows of f16 and bf16 as f32 and back, beside the conversions of single numbers; library steps on halves, beside the same on f32.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/library/halves.h"
#include "tests/unit/graph_harness.h"
#include "tests/unit/library_call.h"

namespace tenon::halves_test {
using namespace tenon::library;

namespace {

bool same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b)); }

template <class T> std::vector<T> every_pattern() {
  std::vector<T> all(65536);
  for (size_t i = 0; i < all.size(); i++) all[i].bits = static_cast<uint16_t>(i);
  return all;
}

// Halves, the middles between them, and what lies beside either; infinities and what rounds to them.
template <class T> std::vector<float> around_halves() {
  std::vector<float> all;
  for (T h : every_pattern<T>()) {
    float x = static_cast<float>(h), next = std::nextafter(x, INFINITY);
    all.insert(all.end(), {x, next, std::nextafter(x, -INFINITY)});
    T above = h;
    above.bits = static_cast<uint16_t>(h.bits + 1);
    float y = static_cast<float>(above);
    if (std::isfinite(x) && std::isfinite(y) && (x < 0) == (y < 0)) {
      float middle = x / 2 + y / 2;
      all.insert(all.end(), {middle, std::nextafter(middle, INFINITY), std::nextafter(middle, -INFINITY)});
    }
  }
  all.insert(all.end(), {65504.f, 65519.99f, 65520.f, 65536.f, -65520.f, 3e38f, 1e-45f, -1e-45f, 2.98e-8f, 2.9802322e-8f, 2.99e-8f});
  return all;
}

template <class T> void check_rows() {
  std::vector<T> halves = every_pattern<T>();
  std::vector<float> wide(halves.size());
  widen_row(halves.data(), wide.data(), std::ssize(halves));
  size_t wrong = 0;
  for (size_t i = 0; i < halves.size(); i++) wrong += !same(wide[i], static_cast<float>(halves[i]));
  CHECK(wrong == 0);

  std::vector<float> numbers = around_halves<T>();
  std::vector<T> narrow(numbers.size());
  narrow_row(numbers.data(), narrow.data(), std::ssize(numbers));
  for (size_t i = 0; i < numbers.size(); i++) wrong += !same(static_cast<float>(narrow[i]), static_cast<float>(T(numbers[i])));
  CHECK(wrong == 0);
}

template <class T> void check_lengths() {
  for (int64_t n : {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 64, 67, 129}) {
    auto size = static_cast<size_t>(n);
    std::vector<T> from(size), back(size + 1);
    std::vector<float> to(size + 1, 77), sum(size + 1, 0.5f);
    for (size_t i = 0; i < size; i++) from[i] = T(static_cast<float>(i) - 3.25f);
    back[size] = T(77.f);
    widen_row(from.data(), to.data(), n);
    narrow_row(to.data(), back.data(), n);
    add_row(from.data(), -2, sum.data(), n);
    for (size_t i = 0; i < size; i++) {
      CHECK(to[i] == static_cast<float>(from[i]));
      CHECK(back[i].bits == from[i].bits);
      CHECK(sum[i] == 0.5f - 2 * to[i]);
    }
    CHECK(to[size] == 77); // nothing behind the row
    CHECK(sum[size] == 0.5f);
    CHECK(static_cast<float>(back[size]) == 77);
  }
}

} // namespace

TEST_CASE("rows of halves") {
  check_rows<F16>();
  check_rows<BF16>();
  check_lengths<F16>();
  check_lengths<BF16>();
}

namespace {

// The same step on halves and on the f32 that they are: numbers whose sums are exact in both.
struct Pair {
  Bench half, wide;
  DType type;

  explicit Pair(DType t, std::vector<int64_t> ints) : type(t) {
    half.ints = wide.ints = std::move(ints);
    half.numbers = wide.numbers = {0};
  }
  void input(std::vector<int64_t> sizes, uint32_t seed) {
    Tensor a(DType::F32, sizes), b(type, sizes);
    std::minstd_rand random(seed);
    for (int64_t i = 0; i < a.numel(); i++) {
      float x = static_cast<float>(random() % 9) / 4 - 1;
      a.data_as<float>()[i] = x;
      if (type == DType::F16) b.data_as<F16>()[i] = F16(x);
      else b.data_as<BF16>()[i] = BF16(x);
    }
    wide.inputs.push_back(a), half.inputs.push_back(b);
  }
  void integers(std::vector<int64_t> sizes, int64_t below, uint32_t seed) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    std::vector<int64_t> values(static_cast<size_t>(n));
    std::minstd_rand random(seed);
    for (int64_t& v : values) v = static_cast<int64_t>(random()) % below;
    for (Bench* b : {&half, &wide}) b->input<int64_t>(sizes, values);
  }
  void output(std::vector<int64_t> sizes) { half.outputs.emplace_back(type, sizes), wide.outputs.emplace_back(DType::F32, sizes); }
  void check(LibraryFn step) {
    REQUIRE(half.run(step) == "");
    REQUIRE(wide.run(step) == "");
    size_t wrong = 0;
    for (int64_t i = 0; i < wide.outputs[0].numel(); i++) {
      float x = wide.outputs[0].data_as<float>()[i];
      wrong += type == DType::F16 ? half.outputs[0].data_as<F16>()[i].bits != F16(x).bits
                                  : half.outputs[0].data_as<BF16>()[i].bits != BF16(x).bits;
    }
    CHECK(wrong == 0);
  }
};

} // namespace

TEST_CASE("scatters of halves") {
  for (DType t : {DType::F16, DType::BF16})
    for (int64_t columns : {1, 3, 8, 17, 300})
      for (auto update : {Update::Add, Update::Max, Update::Mul, Update::Mean}) {
        for (bool self : {false, true}) {
          Pair rows(t, {0, static_cast<int64_t>(update), self, 1, 0}), own(t, {0, static_cast<int64_t>(update), self, 0, 0});
          rows.input({40, columns}, 1), rows.integers({60}, 40, 2), rows.input({60, columns}, 3), rows.output({40, columns});
          rows.check(scatter);
          own.input({40, columns}, 4), own.integers({60, columns}, 40, 5), own.input({60, columns}, 6), own.output({40, columns});
          own.check(scatter);
        }
      }
  for (DType t : {DType::F16, DType::BF16}) { // along the last dim, more than a block
    Pair along(t, {1, static_cast<int64_t>(Update::Add), 1, 0, 0});
    along.input({3, 700}, 1), along.integers({3, 1500}, 700, 2), along.input({3, 1500}, 3), along.output({3, 700});
    along.check(scatter);
  }
}

TEST_CASE("values added at indices, running sums and bags of halves") {
  for (DType t : {DType::F16, DType::BF16})
    for (int64_t columns : {1, 8, 17, 32, 64, 113, 300}) {
      Pair put(t, {1, 1, 0}); // accumulates, indexes the first dim
      put.input({30, columns}, 1), put.input({50, columns}, 2), put.integers({50}, 30, 3), put.output({30, columns});
      put.check(index_put);
      for (int64_t dim : {0, 1}) {
        Pair sums(t, {dim, 0});
        sums.input({20, columns}, 4), sums.output({20, columns});
        sums.check(cumulate);
      }
      for (int64_t mode : {0, 1})
        for (bool scaled : {false, true}) {
          Pair bags(t, {mode, 0, columns % 2 ? 7 : -1});
          bags.input({50, columns}, 5), bags.integers({40}, 50, 6);
          for (Bench* b : {&bags.half, &bags.wide}) b->input<int64_t>({4}, {0, 3, 3, 21});
          if (scaled) bags.input({40}, 7);
          bags.output({4, columns});
          for (Bench* b : {&bags.half, &bags.wide}) b->output<int64_t>({40}), b->output<int64_t>({4}), b->output<int64_t>({4});
          bags.check(embedding_bag);
        }
    }
}

TEST_CASE("many rows of halves by few columns") { // which become the rows
  for (DType t : {DType::F16, DType::BF16})
    for (int64_t columns : {1, 2, 5, 13, 14})
      for (bool turned : {false, true}) {
        test::TestGraph g;
        Expr rows = g.symbol("s0", 1);
        V a = g.input({rows, g.b.integer(131)}, t), b = turned ? g.input({columns, 131}, t) : g.input({131, columns}, t);
        g.returns(g.b.call1("aten::mm.default", {a, turned ? g.b.transpose(b, 0, 1) : b}));
        auto value = [](int64_t i) { return static_cast<double>(i * 7 % 13) / 8 - 0.75; };
        Tensor few = test::filled(t, turned ? std::vector{columns, int64_t{131}} : std::vector{int64_t{131}, columns}, value);
        std::vector<std::vector<Tensor>> calls;
        for (int64_t m : {1, 4, 53, 200}) calls.push_back({test::filled(t, {m, 131}, value), few});
        test::compare_each(g, calls, {{.threads = 1}, {.threads = 2}, {.threads = 2, .isa = Isa::Avx2}});
      }
}

} // namespace tenon::halves_test
