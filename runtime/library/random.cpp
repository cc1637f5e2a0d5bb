// Random numbers by counter: Philox 4x32-10 (Salmon et al., SC 2011) keyed by the call's seed, so that element i does not depend
// on how the work is shared out.
#include <numbers>
#include <numeric>
#include <random>

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

struct Block {
  uint64_t words[2];
};

Block philox(uint64_t seed, uint64_t counter, uint64_t stream = 0) {
  uint32_t x[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t a = uint64_t{0xD2511F53} * x[0], b = uint64_t{0xCD9E8D57} * x[2];
    uint32_t y[4] = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(b), static_cast<uint32_t>(a >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(a)};
    std::copy(y, y + 4, x);
    key0 += 0x9E3779B9, key1 += 0xBB67AE85;
  }
  return {{x[0] | static_cast<uint64_t>(x[1]) << 32, x[2] | static_cast<uint64_t>(x[3]) << 32}};
}

// f(i, word) for every element, one 64-bit word each.
template <class F> void each_word(const LibraryCall& c, int64_t n, F f) {
  parallel(c, (n + 1) / 2, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++) {
      Block b = philox(c.seed, static_cast<uint64_t>(k));
      f(2 * k, b.words[0]);
      if (2 * k + 1 < n) f(2 * k + 1, b.words[1]);
    }
  });
}

/// In [0, 1), with as many bits as T holds, so that the conversion to T is exact.
template <class T> double unit(uint64_t word) {
  constexpr int bits = std::is_same_v<T, double> ? 53 : std::is_same_v<T, float> ? 24 : std::is_same_v<T, F16> ? 11 : 8;
  constexpr double step = 1. / static_cast<double>(uint64_t{1} << bits);
  return static_cast<double>(static_cast<int64_t>(word >> (64 - bits))) * step;
}

// A generator of its own for each element, for rejection methods.
class Stream {
public:
  using result_type = uint64_t;
  Stream(uint64_t seed, uint64_t element) : seed_(seed), element_(element) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }
  uint64_t operator()() {
    if (drawn_ % 2 == 0) block_ = philox(seed_, drawn_ / 2, element_ + 1);
    return block_.words[drawn_++ % 2];
  }

private:
  uint64_t seed_, element_, drawn_ = 0;
  Block block_{};
};

// One row of multinomial: `picks` positions by weight.
template <class W> const char* draw_row(const LibraryCall& c, const std::vector<W>& weights, int64_t row, int64_t* out, int64_t picks, bool replacement) {
  double total = 0;
  int64_t positive = 0;
  for (W w : weights) {
    if (!(w >= 0) || std::isinf(w)) return "a probability is negative, infinite or NaN";
    total += static_cast<double>(w);
    positive += w > 0;
  }
  if (!(total > 0)) return "the probabilities add up to zero";
  Stream random(c.seed, static_cast<uint64_t>(row));
  if (replacement) {
    std::vector<double> sums(weights.begin(), weights.end());
    std::partial_sum(sums.begin(), sums.end(), sums.begin());
    for (int64_t k = 0; k < picks; k++) {
      double x = unit<double>(random()) * sums.back();
      auto at = std::upper_bound(sums.begin(), sums.end(), x) - sums.begin();
      while (weights[static_cast<size_t>(std::min<int64_t>(at, std::ssize(weights) - 1))] == 0 || at == std::ssize(weights)) at--;
      out[k] = at;
    }
    return nullptr;
  }
  if (positive < picks) return message("{} picks without replacement from {} categories", picks, positive);
  // A race of exponential clocks: the first arrivals are a draw without replacement.
  std::vector<std::pair<double, int64_t>> arrivals;
  for (size_t i = 0; i < weights.size(); i++) {
    double wait = -std::log1p(-unit<double>(random()));
    if (weights[i] > 0) arrivals.emplace_back(wait / static_cast<double>(weights[i]), static_cast<int64_t>(i));
  }
  std::partial_sort(arrivals.begin(), arrivals.begin() + picks, arrivals.end());
  for (int64_t k = 0; k < picks; k++) out[k] = arrivals[static_cast<size_t>(k)].second;
  return nullptr;
}

} // namespace

uint64_t step_seed(uint64_t run_seed, uint64_t step) { return philox(run_seed, step, UINT64_MAX).words[0]; }

const char* random_uniform(const LibraryCall& c) {
  double low = c.numbers[0], width = c.numbers[1] - low;
  return for_float(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    T* out = c.outputs[0].as<T>();
    each_word(c, c.outputs[0].numel(), [=](int64_t i, uint64_t word) { out[i] = narrow<T>(static_cast<Wide<T>>(low + width * unit<T>(word))); });
    return nullptr;
  });
}

const char* random_normal(const LibraryCall& c) {
  double mean = c.numbers[0], deviation = c.numbers[1];
  if (!(deviation >= 0)) return message("the standard deviation is {}, but cannot be negative", deviation);
  return for_float(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    T* out = c.outputs[0].as<T>();
    int64_t n = c.outputs[0].numel();
    parallel(c, (n + 1) / 2, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; k++) { // Box and Muller: two uniform numbers make two normal ones
        using W = Wide<T>;
        Block b = philox(c.seed, static_cast<uint64_t>(k));
        W radius = static_cast<W>(deviation) * std::sqrt(W(-2) * std::log1p(-static_cast<W>(unit<W>(b.words[0]))));
        W angle = 2 * std::numbers::pi_v<W> * static_cast<W>(unit<W>(b.words[1]));
        out[2 * k] = narrow<T>(static_cast<W>(mean) + radius * std::cos(angle));
        if (2 * k + 1 < n) out[2 * k + 1] = narrow<T>(static_cast<W>(mean) + radius * std::sin(angle));
      }
    });
    return nullptr;
  });
}

const char* random_integers(const LibraryCall& c) {
  int64_t low = c.ints[0], high = c.ints[1];
  if (low >= high && c.outputs[0].numel() > 0) return message("there is no integer from {} up to, but not including, {}", low, high);
  uint64_t width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return for_real(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    T* out = c.outputs[0].as<T>();
    each_word(c, c.outputs[0].numel(), [=](int64_t i, uint64_t word) { out[i] = narrow<T>(low + static_cast<int64_t>(word % width)); });
    return nullptr;
  });
}

const char* random_permutation(const LibraryCall& c) {
  int64_t n = c.outputs[0].numel();
  return for_real(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    T* out = c.outputs[0].as<T>();
    for (int64_t i = 0; i < n; i++) out[i] = narrow<T>(i);
    Stream random(c.seed, 0);
    for (int64_t i = n - 1; i > 0; i--) std::swap(out[i], out[static_cast<int64_t>(random() % static_cast<uint64_t>(i + 1))]);
    return nullptr;
  });
}

const char* random_poisson(const LibraryCall& c) {
  const LibraryTensor& rates = c.inputs[0];
  return for_float(rates.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    for (int64_t i = 0; i < rates.numel(); i++) {
      auto rate = static_cast<double>(widen(rates.as<const T>()[i]));
      if (!(rate >= 0)) return message("a Poisson rate is {}, but cannot be negative", rate);
      Stream random(c.seed, static_cast<uint64_t>(i));
      c.outputs[0].as<T>()[i] = narrow<T>(static_cast<Wide<T>>(rate == 0 ? 0 : std::poisson_distribution<int64_t>(rate)(random)));
    }
    return nullptr;
  });
}

const char* random_binomial(const LibraryCall& c) {
  const LibraryTensor &counts = c.inputs[0], &probabilities = c.inputs[1];
  return for_float(counts.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    for (int64_t i = 0; i < counts.numel(); i++) {
      auto count = static_cast<double>(widen(counts.as<const T>()[i])), p = static_cast<double>(widen(probabilities.as<const T>()[i]));
      if (!(count >= 0) || !(p >= 0 && p <= 1)) return message("no binomial distribution of {} trials with probability {}", count, p);
      Stream random(c.seed, static_cast<uint64_t>(i));
      c.outputs[0].as<T>()[i] = narrow<T>(static_cast<Wide<T>>(std::binomial_distribution<int64_t>(static_cast<int64_t>(count), p)(random)));
    }
    return nullptr;
  });
}

const char* multinomial(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &out = c.outputs[0];
  int64_t categories = in.sizes.back(), picks = out.sizes.back(), rows = in.rank() > 1 ? in.size(0) : 1;
  return for_float(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    std::vector<Wide<T>> weights(static_cast<size_t>(categories));
    for (int64_t r = 0; r < rows; r++) {
      for (int64_t i = 0; i < categories; i++) weights[static_cast<size_t>(i)] = widen(in.as<const T>()[r * categories + i]);
      if (const char* error = draw_row(c, weights, r, out.as<int64_t>() + r * picks, picks, c.ints[0] != 0)) return error;
    }
    return nullptr;
  });
}

bool is_random(LibraryFn step) {
  for (LibraryFn f : {random_uniform, random_normal, random_integers, random_permutation, random_poisson, random_binomial, multinomial})
    if (f == step) return true;
  return false;
}

} // namespace tenon::library
