// Library steps on several threads, at sizes around those of their blocks, beside plain loops.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "library_call.h"

namespace tenon::library_threads_test {

namespace {

const Workers& threads() {
  static Workers workers(3);
  return workers;
}

using Ints = std::vector<int64_t>;
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

template <class T> std::vector<T> numbers(int64_t n, uint64_t kinds, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<T> x(static_cast<size_t>(n));
  for (T& v : x) {
    auto k = static_cast<int64_t>(random() % kinds) - static_cast<int64_t>(kinds / 3);
    if constexpr (std::is_floating_point_v<T>) v = static_cast<T>(k) / 8;
    else v = static_cast<T>(k);
  }
  return x;
}

Bench on_threads(Ints ints = {}) {
  Bench b;
  b.workers = &threads();
  b.ints = std::move(ints);
  return b;
}

// f(position of element 0, stride) for each lane of [outer, n, inner].
template <class F> void each_lane(int64_t outer, int64_t n, int64_t inner, F f) {
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < inner; k++) f(o * n * inner + k, inner);
}

struct Shape {
  int64_t outer, n, inner;
};
const Shape shapes[] = {{1, 0, 1},  {3, 1, 1},     {9, 7, 1},   {5, 16, 1},     {2, 257, 1},  {17, 1000, 1},
                        {2, 33, 5}, {1, 100, 300}, {3, 5, 257}, {1, 200003, 1}, {2, 70001, 3}};

template <class T> void check_sums(Shape s) {
  std::vector<T> x = numbers<T>(s.outer * s.n * s.inner, 50);
  Bench b = on_threads({1, 0});
  b.input<T>({s.outer, s.n, s.inner}, x), b.output<T>({s.outer, s.n, s.inner});
  REQUIRE(b.run(library::cumulate) == "");
  std::vector<T> got = b.out<T>(0);
  bool same = true;
  each_lane(s.outer, s.n, s.inner, [&](int64_t at, int64_t step) {
    double sum = 0; // eighths: exact
    for (int64_t i = 0; i < s.n; i++, at += step)
      sum += static_cast<double>(x[static_cast<size_t>(at)]),
          same &= got[static_cast<size_t>(at)] == (std::is_integral_v<T> ? static_cast<T>(static_cast<int64_t>(sum)) : static_cast<T>(sum));
  });
  CHECK(same);
}

// Positions of a lane's elements in stable order; NaN greatest.
template <class T> Ints stable_order(const std::vector<T>& x, int64_t at, int64_t step, int64_t n, bool descending) {
  Ints order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  auto value = [&](int64_t i) { return x[static_cast<size_t>(at + i * step)]; };
  auto before = [&](T a, T b) { return a < b || (a == a && b != b); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return descending ? before(value(j), value(i)) : before(value(i), value(j)); });
  return order;
}

template <class T> void check_order(Shape s, uint64_t kinds, bool with_nan) {
  std::vector<T> x = numbers<T>(s.outer * s.n * s.inner, kinds);
  if constexpr (std::is_same_v<T, float>)
    for (size_t i = 3; with_nan && i < x.size(); i += 11) x[i] = not_a_number;
  for (bool descending : {false, true}) {
    Bench b = on_threads({1, descending, 1});
    b.input<T>({s.outer, s.n, s.inner}, x), b.output<T>({s.outer, s.n, s.inner}), b.output<int64_t>({s.outer, s.n, s.inner});
    REQUIRE(b.run(library::sort) == "");
    Ints got = b.out<int64_t>(1);
    bool same = true;
    each_lane(s.outer, s.n, s.inner, [&](int64_t at, int64_t step) {
      Ints want = stable_order(x, at, step, s.n, descending);
      for (int64_t i = 0; i < s.n; i++) same &= got[static_cast<size_t>(at + i * step)] == want[static_cast<size_t>(i)];
    });
    CHECK(same);
  }
}

} // namespace

TEST_CASE("running sums of any shape") {
  for (Shape s : shapes) check_sums<float>(s), check_sums<double>(s), check_sums<int64_t>(s), check_sums<uint8_t>(s);
}

TEST_CASE("running maxima: the last of equals, a NaN for good") {
  for (Shape s : shapes) {
    std::vector<float> x = numbers<float>(s.outer * s.n * s.inner, 1000);
    if (x.size() > 300) x[300] = not_a_number;
    Bench b = on_threads({1});
    b.input<float>({s.outer, s.n, s.inner}, x), b.output<float>({s.outer, s.n, s.inner}), b.output<int64_t>({s.outer, s.n, s.inner});
    REQUIRE(b.run(library::cummax) == "");
    Ints got = b.out<int64_t>(1);
    bool same = true;
    each_lane(s.outer, s.n, s.inner, [&](int64_t at, int64_t step) {
      int64_t best = 0;
      for (int64_t i = 0; i < s.n; i++) {
        float v = x[static_cast<size_t>(at + i * step)], r = x[static_cast<size_t>(at + best * step)];
        if (std::isnan(v) || v >= r) best = i;
        same &= got[static_cast<size_t>(at + i * step)] == best;
      }
    });
    CHECK(same);
  }
}

TEST_CASE("stable order of lanes of any length, of few and of many values") {
  for (Shape s :
       {Shape{3, 2, 1}, Shape{5, 95, 1}, Shape{2, 97, 3}, Shape{1, 5999, 2}, Shape{2, 7000, 1}, Shape{1, 70000, 1}, Shape{1, 65536, 1}}) {
    check_order<float>(s, 1000000, true), check_order<float>(s, 5, true);
    check_order<int64_t>(s, 7, false), check_order<int64_t>(s, uint64_t{1} << 62, false), check_order<double>(s, uint64_t{1} << 62, false);
    check_order<uint8_t>(s, 256, false);
  }
  Shape s{1, 1000, 1};
  std::vector<int64_t> x(1000);
  for (size_t i = 0; i < x.size(); i++)
    x[i] = (i % 2 ? INT64_MAX - 5 : INT64_MIN) + static_cast<int64_t>(i * 7 % 6); // apart in the highest and the lowest bits
  Bench b = on_threads({1, 0, 1});
  b.input<int64_t>({1, 1000, 1}, x), b.output<int64_t>({1, 1000, 1}), b.output<int64_t>({1, 1000, 1});
  REQUIRE(b.run(library::sort) == "");
  CHECK(b.out<int64_t>(1) == stable_order(x, 0, 1, s.n, false));
}

TEST_CASE("topk, kthvalue and median agree with the order") {
  for (int64_t n : {1, 8, 16, 17, 128, 129, 1000, 9000}) {
    std::vector<float> x(static_cast<size_t>(n * 3));
    std::iota(x.begin(), x.end(), -5.f); // no two alike: the order of equal ones is left open
    std::shuffle(x.begin(), x.end(), std::mt19937(5));
    for (int64_t k : {int64_t{1}, n / 3 + 1, n}) {
      Bench t = on_threads({0, k, 1, 1}), q = on_threads({0, k});
      for (Bench* b : {&t, &q}) b->input<float>({n, 3}, x);
      t.output<float>({k, 3}), t.output<int64_t>({k, 3}), q.output<float>({3}), q.output<int64_t>({3});
      REQUIRE((t.run(library::topk) + q.run(library::kthvalue)) == "");
      for (int64_t lane = 0; lane < 3; lane++) {
        Ints down = stable_order(x, lane, 3, n, true), up = stable_order(x, lane, 3, n, false);
        bool same = true;
        for (int64_t i = 0; i < k; i++) same &= t.out<int64_t>(1)[static_cast<size_t>(i * 3 + lane)] == down[static_cast<size_t>(i)];
        CHECK(same);
        CHECK(q.out<int64_t>(1)[static_cast<size_t>(lane)] == up[static_cast<size_t>(k - 1)]);
      }
    }
    std::vector<float> few = numbers<float>(n, 4);
    Bench m = on_threads({0, 0});
    m.input<float>({n}, few), m.output<float>({1}), m.output<int64_t>({1});
    REQUIRE(m.run(library::median) == "");
    CHECK(m.out<int64_t>(1)[0] == stable_order(few, 0, 1, n, false)[static_cast<size_t>((n - 1) / 2)]);
  }
}

TEST_CASE("what a mask selects, and where it is set") {
  for (int64_t n : {0, 1, 63, 64, 65, 16384, 16385, 50001}) {
    for (uint64_t kinds : {1, 2, 50}) {
      std::vector<uint8_t> raw = numbers<uint8_t>(n, kinds);
      std::vector<bool> set;
      for (uint8_t v : raw) set.push_back(v == 0);
      Bench s = on_threads(), p = on_threads(), z = on_threads();
      std::vector<float> x(raw.size()), source(raw.size());
      std::iota(x.begin(), x.end(), 0.f), std::iota(source.begin(), source.end(), 1e6f);
      for (Bench* b : {&s, &p}) b->input<float>({n}, x), b->input<bool>({n}, set);
      p.input<float>({n}, source), p.output<float>({n});
      z.input<bool>({n}, set), z.output<int64_t>({0, 1}), s.output<float>({0});
      REQUIRE((s.run(library::masked_select) + p.run(library::masked_scatter) + z.run(library::nonzero)) == "");
      std::vector<float> want, put = x;
      Ints at;
      for (size_t i = 0; i < set.size(); i++)
        if (set[i]) put[i] = source[at.size()], want.push_back(x[i]), at.push_back(static_cast<int64_t>(i));
      CHECK(s.out<float>(0) == want);
      CHECK(p.out<float>(0) == put);
      CHECK(z.out<int64_t>(0) == at);
    }
  }
}

TEST_CASE("unique elements with inverse and counts, by table and by sorting") {
  for (uint64_t kinds : {1ull, 100ull, 1000000ull, 1ull << 60}) {
    Ints x = numbers<int64_t>(70001, kinds);
    Bench b = on_threads({0, 1, 1});
    b.input<int64_t>({70001}, x), b.output<int64_t>({0}), b.output<int64_t>({0}), b.output<int64_t>({0});
    REQUIRE(b.run(library::unique) == "");
    std::map<int64_t, int64_t> want;
    for (int64_t v : x) want[v]++;
    Ints values, counts;
    for (auto& [value, count] : want) values.push_back(value), counts.push_back(count);
    CHECK(b.out<int64_t>(0) == values);
    CHECK(b.out<int64_t>(2) == counts);
    Ints inverse = b.out<int64_t>(1), back;
    for (int64_t k : inverse) back.push_back(values[static_cast<size_t>(k)]);
    CHECK(back == x);
  }
}

TEST_CASE("more bins than there is memory for") {
  for (int64_t most : {INT64_MAX, INT64_MAX - 1, INT64_MAX / 8}) {
    Bench b = on_threads({0});
    b.input<int64_t>({3}, {1, most, 0}), b.output<int64_t>({0});
    CHECK(b.run(library::bincount) == "out of memory");
  }
}

TEST_CASE("counts, bins and places in sorted sequences") {
  for (int64_t n : {0, 1, 100, 200001}) {
    Ints x = numbers<int64_t>(n, 3000);
    for (int64_t& v : x) v = std::abs(v);
    Bench b = on_threads({7});
    b.input<int64_t>({n}, x), b.output<int64_t>({0});
    REQUIRE(b.run(library::bincount) == "");
    Ints want(static_cast<size_t>(std::max<int64_t>(7, n ? *std::max_element(x.begin(), x.end()) + 1 : 0)), 0);
    for (int64_t v : x) want[static_cast<size_t>(v)]++;
    CHECK(b.out<int64_t>(0) == want);
    for (int64_t length : {0, 1, 2, 31, 1000}) {
      Ints edges = numbers<int64_t>(length, 3000, 2);
      std::sort(edges.begin(), edges.end());
      for (bool right : {false, true}) {
        Bench s = on_threads({right});
        s.input<int64_t>({length}, edges), s.input<int64_t>({n}, x), s.output<int64_t>({n});
        REQUIRE(s.run(library::searchsorted) == "");
        Ints places;
        for (int64_t v : x)
          places.push_back((right ? std::upper_bound(edges.begin(), edges.end(), v) : std::lower_bound(edges.begin(), edges.end(), v)) -
                           edges.begin());
        CHECK(s.out<int64_t>(0) == places);
      }
      Bench i = on_threads({0});
      i.input<int64_t>({n}, x), i.input<int64_t>({length}, edges), i.output<bool>({n});
      REQUIRE(i.run(library::isin) == "");
      std::set<int64_t> tests(edges.begin(), edges.end());
      bool same = true;
      for (int64_t k = 0; k < n; k++) same &= i.outputs[0].data_as<bool>()[k] == tests.contains(x[static_cast<size_t>(k)]);
      CHECK(same);
    }
  }
}

TEST_CASE("scatters along each dim, on all threads") {
  for (int64_t dim : {0, 1, 2}) {
    Ints sizes{40, 50, 70}, index_sizes{40, 50, 70};
    index_sizes[static_cast<size_t>(dim)] = 90;
    for (bool whole : {true, false}) {
      if (!whole) index_sizes[static_cast<size_t>((dim + 1) % 3)] = 33; // the index is smaller than self
      int64_t count = index_sizes[0] * index_sizes[1] * index_sizes[2];
      Ints index = numbers<int64_t>(count, 30);
      for (int64_t& v : index) v = std::abs(v);
      std::vector<double> source = numbers<double>(count, 100), want(40 * 50 * 70, 1);
      Bench b = on_threads({dim, static_cast<int64_t>(library::Update::Add), 1, 0, 0});
      b.numbers = {0};
      b.input<double>(sizes, want), b.input<int64_t>(index_sizes, index), b.input<double>(index_sizes, source), b.output<double>(sizes);
      REQUIRE(b.run(library::scatter) == "");
      for (int64_t e = 0; e < count; e++) {
        int64_t at[] = {e / index_sizes[2] / index_sizes[1], e / index_sizes[2] % index_sizes[1], e % index_sizes[2]};
        at[dim] = index[static_cast<size_t>(e)];
        want[static_cast<size_t>((at[0] * 50 + at[1]) * 70 + at[2])] += source[static_cast<size_t>(e)];
      }
      CHECK(b.out<double>(0) == want);
    }
  }
  Ints index = numbers<int64_t>(100003, 90);
  for (int64_t& v : index) v = std::abs(v);
  std::vector<double> source = numbers<double>(100003, 100), want(100, 0.5);
  Bench b = on_threads({0, static_cast<int64_t>(library::Update::Add), 1, 1, 0}); // one long column
  b.numbers = {0};
  b.input<double>({100}, want), b.input<int64_t>({100003}, index), b.input<double>({100003}, source), b.output<double>({100});
  REQUIRE(b.run(library::scatter) == "");
  for (size_t k = 0; k < index.size(); k++) want[static_cast<size_t>(index[k])] += source[k];
  CHECK(b.out<double>(0) == want);
  b.inputs[1].data_as<int64_t>()[77777] = -1;
  CHECK(b.run(library::scatter) == "index -1 is out of range for size 100");
}

TEST_CASE("scatters of one long column to more places") {
  for (int64_t places : {32768, 40001, 1 << 20})
    for (auto update : {library::Update::Add, library::Update::Assign, library::Update::Max}) {
      constexpr int64_t n = 70021;
      Ints index = numbers<int64_t>(n, places - 1);
      for (int64_t& v : index) v = std::abs(v);
      index[n / 3] = places - 1;
      std::vector<double> source = numbers<double>(n, 100), want(static_cast<size_t>(places), 0.5);
      Bench b = on_threads({0, static_cast<int64_t>(update), 1, 0, 0});
      b.numbers = {0};
      b.input<double>({places}, want), b.input<int64_t>({n}, index), b.input<double>({n}, source), b.output<double>({places});
      REQUIRE(b.run(library::scatter) == "");
      for (size_t k = 0; k < index.size(); k++) {
        double& to = want[static_cast<size_t>(index[k])];
        to = update == library::Update::Add ? to + source[k] : update == library::Update::Max ? std::max(to, source[k]) : source[k];
      }
      CHECK(b.out<double>(0) == want);
      b.inputs[1].data_as<int64_t>()[n - 1] = places;
      CHECK(b.run(library::scatter).starts_with("index "));
    }
}

TEST_CASE("scatters of rows, shared out by their places") {
  constexpr int64_t n = 1000;
  for (int64_t places : {1, 7, 1024, 3001})
    for (int64_t columns : {2, 5, 130})
      for (auto update : {library::Update::Add, library::Update::Assign, library::Update::Max})
        for (int64_t crowd : {1, 2, 50}) { // of so many rows one goes elsewhere than to the first place
          Ints index = numbers<int64_t>(n, 6007);
          for (int64_t k = 0; k < n; k++) {
            int64_t& v = index[static_cast<size_t>(k)];
            v = k % crowd == 0 ? std::abs(v) % places : 0;
          }
          std::vector<double> source = numbers<double>(n * columns, 100), want(static_cast<size_t>(places * columns), 0.5);
          Bench b = on_threads({0, static_cast<int64_t>(update), 1, 1, 0});
          b.numbers = {0};
          b.input<double>({places, columns}, want), b.input<int64_t>({n}, index), b.input<double>({n, columns}, source);
          b.output<double>({places, columns});
          REQUIRE(b.run(library::scatter) == "");
          for (int64_t e = 0; e < n * columns; e++) {
            double &to = want[static_cast<size_t>(index[static_cast<size_t>(e / columns)] * columns + e % columns)],
                   x = source[static_cast<size_t>(e)];
            to = update == library::Update::Add ? to + x : update == library::Update::Max ? std::max(to, x) : x;
          }
          CHECK(b.out<double>(0) == want);
        }
}

TEST_CASE("bags of rows of any width") {
  for (int64_t dim : {1, 8, 16, 17, 32, 48, 64, 100, 113, 200}) {
    std::vector<double> table = numbers<double>(50 * dim, 1000);
    Ints indices = numbers<int64_t>(300, 40), offsets{0, 5, 5, 6, 100, 299};
    for (int64_t& v : indices) v = std::abs(v);
    Bench b = on_threads({0, 0, 3});
    b.input<double>({50, dim}, table), b.input<int64_t>({300}, indices), b.input<int64_t>({6}, offsets);
    b.output<double>({6, dim}), b.output<int64_t>({300}), b.output<int64_t>({6}), b.output<int64_t>({6});
    REQUIRE(b.run(library::embedding_bag) == "");
    std::vector<double> want(static_cast<size_t>(6 * dim), 0);
    for (int64_t bag = 0; bag < 6; bag++)
      for (int64_t i = offsets[static_cast<size_t>(bag)]; i < (bag < 5 ? offsets[static_cast<size_t>(bag + 1)] : 300); i++)
        for (int64_t k = 0; k < dim && indices[static_cast<size_t>(i)] != 3; k++)
          want[static_cast<size_t>(bag * dim + k)] += table[static_cast<size_t>(indices[static_cast<size_t>(i)] * dim + k)];
    CHECK(b.out<double>(0) == want);
  }
}

} // namespace tenon::library_threads_test
