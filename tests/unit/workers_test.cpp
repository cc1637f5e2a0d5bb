// Workers, which share out ranges.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/parallel.h"

namespace tenon::workers_test {

TEST_CASE("workers that are asked for again and again wake up") {
  CHECK(!Workers(1).awake());
  Workers workers(2);
  bool awake = false;
  for (int i = 0; i < 1'000'000 && !awake; i++) awake = workers.awake();
  CHECK(awake);
}

TEST_CASE("workers run every iteration once, from many callers, nested, with distinct worker numbers") {
  for (int threads : {1, 2, 5}) {
    Workers workers(threads);
    auto one_caller = [&](int rounds) {
      for (int r = 0; r < rounds; r++)
        for (int64_t n : {0, 1, 2, 3, 64, 1000}) {
          std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
          std::vector<std::atomic<int>> busy(static_cast<size_t>(workers.threads()));
          std::atomic<int> clashes{0};
          workers.run(n, 1 + r % 3, [&](int64_t begin, int64_t end, int worker) {
            if (busy[static_cast<size_t>(worker)].fetch_add(1) != 0) clashes++;
            for (int64_t i = begin; i < end; i++) {
              seen[static_cast<size_t>(i)]++;
              if (i % 50 == 7) {
                std::atomic<int64_t> inner{0};
                workers.run(10, 1, [&](int64_t b, int64_t e, int) { inner += e - b; });
                if (inner != 10) clashes++;
              }
            }
            busy[static_cast<size_t>(worker)]--;
          });
          for (auto& s : seen) clashes += s != 1;
          CHECK(clashes == 0);
        }
    };
    one_caller(20);
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; i++) callers.emplace_back(one_caller, 20);
    for (std::thread& t : callers) t.join();
  }
}

} // namespace tenon::workers_test
