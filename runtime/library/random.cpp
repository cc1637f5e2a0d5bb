// Random numbers by counter: Philox 4x32-10 (Salmon et al., SC 2011) keyed by the call's seed, so that element i does not depend
// on how the work is shared out.
#include <emmintrin.h>

#include <limits>
#include <mutex>
#include <numbers>
#include <numeric>
#include <random>
#include <string>

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

/// One philox block: two words.
struct Block {
  uint64_t words[2];
};

// `Count` blocks at successive counters, side by side as vectors have it.
template <int Count> [[gnu::always_inline]] inline void philox(uint64_t seed, uint64_t counter, uint64_t stream, Block* out) {
  uint32_t x0[Count], x1[Count], x2[Count], x3[Count];
  for (int k = 0; k < Count; k++) {
    uint64_t at = counter + static_cast<uint64_t>(k);
    x0[k] = static_cast<uint32_t>(at), x1[k] = static_cast<uint32_t>(at >> 32);
    x2[k] = static_cast<uint32_t>(stream), x3[k] = static_cast<uint32_t>(stream >> 32);
  }
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; round++, key0 += 0x9E3779B9, key1 += 0xBB67AE85)
    for (int k = 0; k < Count; k++) {
      uint64_t a = uint64_t{0xD2511F53} * x0[k], b = uint64_t{0xCD9E8D57} * x2[k];
      x0[k] = static_cast<uint32_t>(b >> 32) ^ x1[k] ^ key0, x1[k] = static_cast<uint32_t>(b);
      x2[k] = static_cast<uint32_t>(a >> 32) ^ x3[k] ^ key1, x3[k] = static_cast<uint32_t>(a);
    }
  for (int k = 0; k < Count; k++) out[k] = {{x0[k] | static_cast<uint64_t>(x1[k]) << 32, x2[k] | static_cast<uint64_t>(x3[k]) << 32}};
}
Block philox(uint64_t seed, uint64_t counter, uint64_t stream = 0) {
  Block b;
  philox<1>(seed, counter, stream, &b);
  return b;
}

constexpr int at_once = 64; // blocks: so many that the compiler makes vectors of them rather than unrolling

// f(k, block) for the blocks [begin, end) of a stream.
template <class F> TENON_WIDE void blocks_in(uint64_t seed, uint64_t stream, int64_t begin, int64_t end, F f) {
  Block b[at_once];
  for (int64_t k = begin; k < end; k += at_once) {
    philox<at_once>(seed, static_cast<uint64_t>(k), stream, b);
    if (k + at_once <= end)
      for (int j = 0; j < at_once; j++) f(k + j, b[j]);
    else
      for (int j = 0; j < end - k; j++) f(k + j, b[j]);
  }
}

// f(i, word) for every element, one 64-bit word each.
template <class F> void each_word(const LibraryCall& c, int64_t n, F f) {
  parallel(c, n / 2, 4096, [&](int64_t begin, int64_t end) {
    blocks_in(c.seed, 0, begin, end, [f](int64_t k, const Block& b) { f(2 * k, b.words[0]), f(2 * k + 1, b.words[1]); });
  });
  if (n % 2) f(n - 1, philox(c.seed, static_cast<uint64_t>(n / 2)).words[0]);
}

/// In [0, 1), with as many bits as T holds, so that the conversion to T is exact.
template <class T> double unit(uint64_t word) {
  constexpr int bits = std::is_same_v<T, double> ? 53 : std::is_same_v<T, float> ? 24 : std::is_same_v<T, F16> ? 11 : 8;
  constexpr double step = 1. / static_cast<double>(uint64_t{1} << bits);
  using Whole = std::conditional_t<(bits < 32), int32_t, int64_t>; // vectors convert i32
  return static_cast<double>(static_cast<Whole>(word >> (64 - bits))) * step;
}

/// In [0, n), by the high half of a product.
uint64_t below(uint64_t word, uint64_t n) {
  __extension__ typedef unsigned __int128 Product;
  return static_cast<uint64_t>((static_cast<Product>(word) * n) >> 64);
}

// Sums a[0] + a[1] x + ... by Horner's rule.
template <class W, size_t N> [[gnu::always_inline]] inline W polynomial(W x, const W (&a)[N]) {
  W sum = a[N - 1];
  for (size_t k = N - 1; k-- > 0;) sum = sum * x + a[k];
  return sum;
}

// log(x) for normal x > 0, of operations that vectors have: x = 2^e m with m around 1, log m = 2 atanh((m - 1) / (m +
// 1)).
template <class W> [[gnu::always_inline]] inline W vector_log(W x) {
  constexpr bool wide = sizeof(W) == 8;
  using U = std::conditional_t<wide, uint64_t, uint32_t>;
  constexpr int mantissa = wide ? 52 : 23;
  constexpr U root_half = std::bit_cast<U>(W(0.70710678118654752440)), one = std::bit_cast<U>(W(1));
  U bits = std::bit_cast<U>(x) - root_half;
  W e = static_cast<W>(static_cast<int32_t>(static_cast<std::make_signed_t<U>>(bits) >> mantissa));
  W m = std::bit_cast<W>(static_cast<U>((bits & ((U{1} << mantissa) - 1)) + root_half));
  static_assert(one > root_half);
  W f = (m - 1) / (m + 1), s = f * f;
  constexpr W series[] = {W(1), W(1) / 3, W(1) / 5, W(1) / 7, W(1) / 9, W(1) / 11, W(1) / 13, W(1) / 15, W(1) / 17, W(1) / 19};
  constexpr W few[] = {series[0], series[1], series[2], series[3], series[4]};
  W sum;
  if constexpr (wide) sum = polynomial(s, series);
  else sum = polynomial(s, few);
  return e * std::numbers::ln2_v<W> + 2 * f * sum;
}

// cos and sin of a turn's part, v in [0, 1): of the distance to the nearest quarter.
template <class W> [[gnu::always_inline]] inline void vector_turn(W v, W& cosine, W& sine) {
  auto quarter = static_cast<int32_t>(v * 4 + W(0.5));
  W t = (v - static_cast<W>(quarter) * W(0.25)) * (2 * std::numbers::pi_v<W>), s = t * t;
  constexpr W odd[] = {W(1),           W(-1. / 6),        W(1. / 120),        W(-1. / 5040),
                       W(1. / 362880), W(-1. / 39916800), W(1. / 6227020800), W(-1. / 1307674368000)};
  constexpr W even[] = {W(1),
                        W(-1. / 2),
                        W(1. / 24),
                        W(-1. / 720),
                        W(1. / 40320),
                        W(-1. / 3628800),
                        W(1. / 479001600),
                        W(-1. / 87178291200),
                        W(1. / 20922789888000)};
  W a = polynomial(s, even), b = t * polynomial(s, odd);
  W x = quarter & 1 ? b : a, y = quarter & 1 ? a : b;
  cosine = (quarter + 1) & 2 ? -x : x;
  sine = quarter & 2 ? -y : y;
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

// Roots by vectors, which the compiler takes none of: std::sqrt may set errno.
[[gnu::always_inline]] inline void take_roots(float (&x)[at_once]) {
  for (int k = 0; k < at_once; k += 4) _mm_storeu_ps(x + k, _mm_sqrt_ps(_mm_loadu_ps(x + k)));
}
[[gnu::always_inline]] inline void take_roots(double (&x)[at_once]) {
  for (int k = 0; k < at_once; k += 2) _mm_storeu_pd(x + k, _mm_sqrt_pd(_mm_loadu_pd(x + k)));
}

// Normal numbers of the blocks [begin, end), of n in all, by Box and Muller: two uniform numbers make two normal ones.
template <class T>
TENON_WIDE void normal_pairs(uint64_t seed, int64_t begin, int64_t end, int64_t n, double mean, double deviation, T* out) {
  using W = Wide<T>;
  for (int64_t k = begin; k < end; k += at_once) {
    Block b[at_once];
    W radius[at_once], x[at_once], y[at_once];
    philox<at_once>(seed, static_cast<uint64_t>(k), 0, b);
    for (int j = 0; j < at_once; j++) {
      radius[j] = W(-2) * vector_log(1 - static_cast<W>(unit<W>(b[j].words[0])));
      vector_turn(static_cast<W>(unit<W>(b[j].words[1])), x[j], y[j]);
    }
    take_roots(radius);
    T pairs[2 * at_once];
    for (int j = 0; j < at_once; j++) {
      W scale = static_cast<W>(deviation) * radius[j];
      pairs[2 * j] = narrow<T>(static_cast<W>(mean) + scale * x[j]), pairs[2 * j + 1] = narrow<T>(static_cast<W>(mean) + scale * y[j]);
    }
    std::copy_n(pairs, std::min({int64_t{2} * at_once, 2 * (end - k), n - 2 * k}), out + 2 * k);
  }
}

// Picks by weight, one after the other, with replacement.
template <class W> void draw_again(Stream random, const std::vector<W>& weights, int64_t* out, int64_t picks) {
  std::vector<double> sums(weights.begin(), weights.end());
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  for (int64_t k = 0; k < picks; k++) {
    double x = unit<double>(random()) * sums.back();
    auto at = std::upper_bound(sums.begin(), sums.end(), x) - sums.begin();
    while (weights[static_cast<size_t>(std::min<int64_t>(at, std::ssize(weights) - 1))] == 0 || at == std::ssize(weights)) at--;
    out[k] = at;
  }
}

// A race of exponential clocks: when each category arrives.
template <class W> TENON_WIDE void draw_arrivals(uint64_t seed, uint64_t stream, const W* weights, int64_t n, double* arrivals) {
  blocks_in(seed, stream, 0, (n + 1) / 2,
            [=](int64_t k, const Block& b) { arrivals[2 * k] = unit<double>(b.words[0]), arrivals[2 * k + 1] = unit<double>(b.words[1]); });
  for (int64_t i = 0; i < n; i++) {
    double wait = -vector_log(1 - arrivals[i]);
    arrivals[i] = weights[i] > 0 ? wait / static_cast<double>(weights[i]) : std::numeric_limits<double>::infinity();
  }
}

// One row of multinomial: `picks` positions by weight.
template <class W>
const char* draw_row(const LibraryCall& c, const std::vector<W>& weights, int64_t row, int64_t* out, int64_t picks, bool replacement) {
  int64_t positive = 0;
  bool valid = true;
  for (W w : weights) valid &= (w >= 0) & (w < std::numeric_limits<W>::infinity()), positive += w > 0;
  if (!valid) return "a probability is negative, infinite or NaN";
  if (positive == 0) return "the probabilities add up to zero";
  auto stream = static_cast<uint64_t>(row);
  if (replacement) return draw_again(Stream(c.seed, stream), weights, out, picks), nullptr;
  if (positive < picks) return message("{} picks without replacement from {} categories", picks, positive);
  auto n = std::ssize(weights);
  std::vector<double> arrivals(weights.size() + 1);
  draw_arrivals(c.seed, stream + 1, weights.data(), n, arrivals.data());
  if (picks == 1) return *out = std::min_element(arrivals.begin(), arrivals.end() - 1) - arrivals.begin(), nullptr;
  std::vector<int64_t> order(weights.size()); // the first arrivals are a draw without replacement
  std::iota(order.begin(), order.end(), int64_t{0});
  std::partial_sort_copy(order.begin(), order.end(), out, out + picks, [&](int64_t a, int64_t b) {
    double x = arrivals[static_cast<size_t>(a)], y = arrivals[static_cast<size_t>(b)];
    return x != y ? x < y : a < b;
  });
  return nullptr;
}

// f(begin, end) on all threads, which may return a message; one of these is returned.
template <class F> const char* parallel_or_error(const LibraryCall& c, int64_t n, int64_t grain, F f) {
  std::mutex mutex;
  std::string error;
  parallel(c, n, grain, [&](int64_t begin, int64_t end) {
    if (const char* e = guarded([&] { return f(begin, end); })) {
      std::scoped_lock lock(mutex);
      error = e;
    }
  });
  return error.empty() ? nullptr : message("{}", error);
}

// A Poisson number. For small rates the probabilities are summed up until they exceed a uniform number.
double draw_poisson(Stream& random, double rate) {
  if (rate >= 12) return static_cast<double>(std::poisson_distribution<int64_t>(rate)(random));
  double u = unit<double>(random()), p = std::exp(-rate), sum = p, k = 0;
  while (u >= sum && p > 0) k++, p *= rate / k, sum += p;
  return k;
}

} // namespace

uint64_t step_seed(uint64_t run_seed, uint64_t step) { return philox(run_seed, step, UINT64_MAX).words[0]; }

const char* random_uniform(const LibraryCall& c) {
  double low = c.numbers[0], width = c.numbers[1] - low;
  return for_float(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    T* out = c.outputs[0].as<T>();
    each_word(c, c.outputs[0].numel(),
              [=](int64_t i, uint64_t word) { out[i] = narrow<T>(static_cast<Wide<T>>(low + width * unit<T>(word))); });
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
    parallel(c, (n + 1) / 2, 1024, [&](int64_t begin, int64_t end) { normal_pairs<T>(c.seed, begin, end, n, mean, deviation, out); });
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
    each_word(c, c.outputs[0].numel(),
              [=](int64_t i, uint64_t word) { out[i] = narrow<T>(static_cast<int64_t>(static_cast<uint64_t>(low) + below(word, width))); });
    return nullptr;
  });
}

const char* random_permutation(const LibraryCall& c) {
  int64_t n = c.outputs[0].numel();
  return for_real(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    T* out = c.outputs[0].as<T>();
    for (int64_t i = 0; i < n; i++) out[i] = narrow<T>(i);
    if (n < 2) return nullptr;
    auto exchange = [=](int64_t i, uint64_t word) {
      if (i > 0) std::swap(out[i], out[static_cast<int64_t>(below(word, static_cast<uint64_t>(i + 1)))]);
    };
    blocks_in(c.seed, 1, 0, n / 2,
              [=](int64_t k, const Block& b) { exchange(n - 1 - 2 * k, b.words[0]), exchange(n - 2 - 2 * k, b.words[1]); });
    return nullptr;
  });
}

const char* random_poisson(const LibraryCall& c) {
  const LibraryTensor& rates = c.inputs[0];
  return for_float(rates.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    return parallel_or_error(c, rates.numel(), 256, [&](int64_t begin, int64_t end) -> const char* {
      for (int64_t i = begin; i < end; i++) {
        auto rate = static_cast<double>(widen(rates.as<const T>()[i]));
        if (!(rate >= 0)) return message("a Poisson rate is {}, but cannot be negative", rate);
        Stream random(c.seed, static_cast<uint64_t>(i));
        c.outputs[0].as<T>()[i] = narrow<T>(static_cast<Wide<T>>(draw_poisson(random, rate)));
      }
      return nullptr;
    });
  });
}

const char* random_binomial(const LibraryCall& c) {
  const LibraryTensor &counts = c.inputs[0], &probabilities = c.inputs[1];
  return for_float(counts.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    return parallel_or_error(c, counts.numel(), 64, [&](int64_t begin, int64_t end) -> const char* {
      for (int64_t i = begin; i < end; i++) {
        auto count = static_cast<double>(widen(counts.as<const T>()[i])), p = static_cast<double>(widen(probabilities.as<const T>()[i]));
        if (!(count >= 0) || !(p >= 0 && p <= 1)) return message("no binomial distribution of {} trials with probability {}", count, p);
        Stream random(c.seed, static_cast<uint64_t>(i));
        c.outputs[0].as<T>()[i] =
            narrow<T>(static_cast<Wide<T>>(std::binomial_distribution<int64_t>(static_cast<int64_t>(count), p)(random)));
      }
      return nullptr;
    });
  });
}

const char* multinomial(const LibraryCall& c) {
  const LibraryTensor &in = c.inputs[0], &out = c.outputs[0];
  int64_t categories = in.sizes.back(), picks = out.sizes.back(), rows = in.rank() > 1 ? in.size(0) : 1;
  return for_float(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    return parallel_or_error(c, rows, std::max<int64_t>(1, 2048 / std::max<int64_t>(1, categories)),
                             [&](int64_t begin, int64_t end) -> const char* {
                               std::vector<Wide<T>> weights(static_cast<size_t>(categories));
                               for (int64_t r = begin; r < end; r++) {
                                 for (int64_t i = 0; i < categories; i++)
                                   weights[static_cast<size_t>(i)] = widen(in.as<const T>()[r * categories + i]);
                                 if (const char* error = draw_row(c, weights, r, out.as<int64_t>() + r * picks, picks, c.ints[0] != 0))
                                   return error;
                               }
                               return nullptr;
                             });
  });
}

bool is_random(LibraryFn step) {
  for (LibraryFn f : {random_uniform, random_normal, random_integers, random_permutation, random_poisson, random_binomial, multinomial})
    if (f == step) return true;
  return false;
}

} // namespace tenon::library
