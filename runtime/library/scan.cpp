// Scans along a dim: running sums, products, extremes with their positions, log-sum-exp. Lanes beside each other
// advance together, so that memory is read in order; a lane of neighbouring elements is scanned by vectors. Where lanes
// are few and long, they are cut into parts: first the totals of the parts, then the parts, each from where those
// before it end.
#include <limits>

#include "runtime/library/common.h"
#include "runtime/library/halves.h"

namespace tenon::library {

namespace {

// log(exp(a) + exp(b)) without overflow.
template <class A> A log_add_exp(A a, A b) {
  if (nan(a) || nan(b)) return std::numeric_limits<A>::quiet_NaN();
  A low = std::min(a, b), high = std::max(a, b);
  if (low == high && std::isinf(high)) return high;
  return high + std::log1p(std::exp(low - high));
}

// What a scan joins elements with, in the type A. Integers wrap. `by_vectors`: vectors may be joined apart from what is
// before them.
template <class T> struct Adding {
  using A = std::conditional_t<std::is_integral_v<T>, uint64_t, Sum<T>>;
  static constexpr A first = 0;
  static constexpr bool by_vectors = true;
  template <class V> [[gnu::always_inline]] static V join(V a, V b) { return a + b; }
};
template <class T> struct Multiplying {
  using A = typename Adding<T>::A;
  static constexpr A first = 1;
  static constexpr bool by_vectors =
      std::is_integral_v<T> || sizeof(T) < sizeof(A); // products in T's own range could overflow beside a zero
  template <class V> [[gnu::always_inline]] static V join(V a, V b) { return a * b; }
};
template <class T> struct AddingLogs {
  using A = Sum<T>;
  static constexpr A first = -std::numeric_limits<A>::infinity();
  static constexpr bool by_vectors = false;
  static A join(A a, A b) { return log_add_exp(a, b); }
};

// x moved up by 1, 2 or 4 elements; what is below comes from `first`.
template <int By, class V> [[gnu::always_inline]] inline V moved_up(V x, V first) {
  if constexpr (sizeof(V) / sizeof(x[0]) == 4)
    return By == 1 ? __builtin_shufflevector(first, x, 0, 4, 5, 6) : __builtin_shufflevector(first, x, 0, 1, 4, 5);
  else
    return By == 1   ? __builtin_shufflevector(first, x, 0, 8, 9, 10, 11, 12, 13, 14)
           : By == 2 ? __builtin_shufflevector(first, x, 0, 1, 8, 9, 10, 11, 12, 13)
                     : __builtin_shufflevector(first, x, 0, 1, 2, 3, 8, 9, 10, 11);
}

// Scans n elements in place, n a multiple of the vector's; returns the last. The chain from vector to vector is one
// join.
template <class Op, class A> [[gnu::always_inline]] inline A scan_vectors(A* x, int64_t n, A start) {
  typedef A V __attribute__((vector_size(32)));
  constexpr int lanes = sizeof(V) / sizeof(A);
  V first = V{} + Op::first, before = V{} + start;
  for (int64_t i = 0; i < n; i += lanes) {
    V v;
    std::memcpy(&v, x + i, sizeof v);
    v = Op::join(v, moved_up<1>(v, first));
    v = Op::join(v, moved_up<2>(v, first));
    if constexpr (lanes == 8) v = Op::join(v, moved_up<4>(v, first));
    V out = Op::join(before, v);
    std::memcpy(x + i, &out, sizeof out);
    before = Op::join(before, V{} + v[lanes - 1]);
  }
  return before[0];
}

template <class Op, class T> TENON_WIDE void scan_row(const T* from, T* to, int64_t n, typename Op::A start) {
  using A = typename Op::A;
  constexpr int64_t block = 256;
  int64_t i = 0;
  if constexpr (Op::by_vectors) {
    alignas(64) A x[block];
    for (int64_t width; (width = std::min(block, (n - i) / 8 * 8)) > 8; i += width) {
      if constexpr (is_half_v<T>) widen_row(from + i, x, width);
      else
        for (int64_t k = 0; k < width; k++) x[k] = static_cast<A>(from[i + k]);
      start = scan_vectors<Op>(x, width, start);
      if constexpr (is_half_v<T>) narrow_row(x, to + i, width);
      else
        for (int64_t k = 0; k < width; k++) to[i + k] = narrow<T>(x[k]);
    }
  }
  for (; i < n; i++) {
    start = Op::join(start, static_cast<A>(widen(from[i])));
    to[i] = narrow<T>(start);
  }
}

// Rows that are short, or whose joins take long: some advance together, so that their chains overlap.
template <class Op, class T> void scan_rows_together(const T* from, T* to, int64_t rows, int64_t n) {
  using A = typename Op::A;
  constexpr int64_t together = 8;
  for (; rows > 0; rows -= together, from += together * n, to += together * n) {
    int64_t count = std::min(together, rows);
    A running[together];
    std::fill_n(running, together, Op::first);
    for (int64_t i = 0; i < n; i++)
      for (int64_t r = 0; r < count; r++) {
        running[r] = Op::join(running[r], static_cast<A>(widen(from[r * n + i])));
        to[r * n + i] = narrow<T>(running[r]);
      }
  }
}

// The elements of a row joined.
template <class Op, class T> TENON_WIDE typename Op::A row_total(const T* from, int64_t n) {
  using A = typename Op::A;
  constexpr int64_t chains = 16;
  A total[chains];
  std::fill_n(total, chains, Op::first);
  int64_t i = 0;
  for (; i + chains <= n; i += chains)
    for (int64_t k = 0; k < chains; k++) total[k] = Op::join(total[k], static_cast<A>(widen(from[i + k])));
  for (; i < n; i++) total[0] = Op::join(total[0], static_cast<A>(widen(from[i])));
  for (int64_t k = 1; k < chains; k++) total[0] = Op::join(total[0], total[k]);
  return total[0];
}

constexpr int64_t most_lanes = 256; // beside each other, in one piece of work

// n rows of `width` lanes, `step` apart; `running` holds the values to start from, and in the end the last ones.
// Without `to`, only these.
template <class Op, class T>
TENON_WIDE void scan_lanes(const T* from, T* to, int64_t n, int64_t step, int64_t width, typename Op::A* running) {
  using A = typename Op::A;
  constexpr int64_t block = 256;
  for (int64_t i = 0; i < n; i++, from += step) {
    if constexpr (is_half_v<T>)
      for (int64_t at = 0; at < width; at += block) {
        float row[block];
        int64_t count = std::min(block, width - at);
        widen_row(from + at, row, count);
        for (int64_t k = 0; k < count; k++) running[at + k] = Op::join(running[at + k], row[k]);
      }
    else
      for (int64_t k = 0; k < width; k++) running[k] = Op::join(running[k], static_cast<A>(from[k]));
    if (!to) continue;
    if constexpr (is_half_v<T>) narrow_row(running, to, width);
    else
      for (int64_t k = 0; k < width; k++) to[k] = narrow<T>(running[k]);
    to += step;
  }
}

// Few long lanes: in as many parts as there are threads.
template <class Op, class T> void scan_parts(const LibraryCall& c, const T* in, T* out, Lanes l) {
  using A = typename Op::A;
  int64_t parts = threads_of(c);
  std::vector<A> totals(static_cast<size_t>(l.outer * parts * l.inner), Op::first);
  auto begin_of = [&](int64_t part) { return l.n * part / parts; };
  auto total = [&](int64_t o, int64_t part) { return totals.data() + (o * parts + part) * l.inner; };
  auto each_part = [&](int64_t last, auto f) {
    parallel(c, l.outer * last, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; t++) {
        int64_t o = t / last, part = t % last, first = begin_of(part);
        f(o, part, (o * l.n + first) * l.inner, begin_of(part + 1) - first);
      }
    });
  };
  each_part(parts - 1, [&](int64_t o, int64_t part, int64_t at, int64_t n) { // part p's total goes where part p + 1 starts from
    if (l.inner == 1) *total(o, part + 1) = row_total<Op>(in + at, n);
    else scan_lanes<Op, T>(in + at, nullptr, n, l.inner, l.inner, total(o, part + 1));
  });
  for (int64_t o = 0; o < l.outer; o++)
    for (int64_t part = 1; part < parts; part++)
      for (int64_t k = 0; k < l.inner; k++) total(o, part)[k] = Op::join(total(o, part - 1)[k], total(o, part)[k]);
  each_part(parts, [&](int64_t o, int64_t part, int64_t at, int64_t n) {
    if (l.inner == 1) scan_row<Op>(in + at, out + at, n, *total(o, part));
    else scan_lanes<Op>(in + at, out + at, n, l.inner, l.inner, total(o, part));
  });
}

// f(first element, lanes) for pieces of lanes beside each other: small enough that each thread gets some.
template <class F> void each_block(const LibraryCall& c, Lanes l, F f) {
  int64_t block = most_lanes;
  while (block > 16 && l.outer * ((l.inner + block - 1) / block) < 4 * threads_of(c)) block /= 2;
  int64_t blocks = (l.inner + block - 1) / block;
  parallel(c, l.outer * blocks, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, l.n * std::min(l.inner, block))),
           [&](int64_t begin, int64_t end) {
             for (int64_t b = begin; b < end; b++) {
               int64_t lane = b % blocks * block;
               f(b / blocks * l.n * l.inner + lane, std::min(block, l.inner - lane));
             }
           });
}
// f(first element, rows)
template <class F> void each_row(const LibraryCall& c, Lanes l, F f) {
  parallel(c, l.outer, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, l.n)),
           [&](int64_t begin, int64_t end) { f(begin * l.n, end - begin); });
}

template <class Op, class T> const char* scan(const LibraryCall& c, const T* in, T* out, Lanes l) {
  if (l.n == 0 || l.count() == 0) return nullptr;
  if (l.outer * ((l.inner + 15) / 16) < threads_of(c) && l.n * l.inner >= 65536) scan_parts<Op>(c, in, out, l);
  else if (l.inner == 1)
    each_row(c, l, [&](int64_t at, int64_t rows) {
      if (l.n < 16 || !Op::by_vectors) return scan_rows_together<Op>(in + at, out + at, rows, l.n);
      for (int64_t r = 0; r < rows; r++) scan_row<Op>(in + at + r * l.n, out + at + r * l.n, l.n, Op::first);
    });
  else
    each_block(c, l, [&](int64_t at, int64_t width) {
      typename Op::A running[most_lanes];
      std::fill_n(running, width, Op::first);
      scan_lanes<Op>(in + at, out + at, l.n, l.inner, width, running);
    });
  return nullptr;
}

// Whether x takes the place of the extreme so far: the last of equals does, as in torch, and a NaN for good.
template <bool Max, class W> bool takes(W x, W best) { return nan(x) || (Max ? x >= best : x <= best); }

template <bool Max, class T> TENON_WIDE void extreme_row(const T* in, T* out, int64_t* indices, int64_t n) {
  using W = Wide<T>;
  constexpr int64_t block = 32;
  int64_t at = 0;
  W best = widen(in[0]);
  for (int64_t i = 0; i < n;) {
    int64_t end = std::min(i + block, n);
    int found = end - i < block; // most blocks hold nothing that counts
    for (int64_t k = 0; k < block && i + block <= n; k++) found |= takes<Max>(widen(in[i + k]), best);
    if (!found) {
      T value = in[at];
      for (int64_t k = 0; k < block; k++) out[i + k] = value;
      for (int64_t k = 0; k < block; k++) indices[i + k] = at;
      i = end;
    } else
      for (; i < end; i++) {
        if (W x = widen(in[i]); takes<Max>(x, best)) best = x, at = i;
        out[i] = in[at], indices[i] = at;
      }
  }
}

template <bool Max, class T> TENON_WIDE void extreme_lanes(const T* in, T* out, int64_t* indices, int64_t n, int64_t step, int64_t width) {
  using W = Wide<T>;
  W best[most_lanes];
  int64_t at[most_lanes];
  for (int64_t k = 0; k < width; k++) best[k] = widen(in[k]), at[k] = 0;
  for (int64_t i = 0; i < n; i++, in += step, out += step, indices += step) {
    for (int64_t k = 0; k < width; k++) {
      W x = widen(in[k]);
      bool take = takes<Max>(x, best[k]);
      best[k] = take ? x : best[k];
      at[k] = take ? i : at[k];
    }
    for (int64_t k = 0; k < width; k++) out[k] = narrow<T>(best[k]);
    for (int64_t k = 0; k < width; k++) indices[k] = at[k];
  }
}

template <bool Max> const char* running_extreme(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    const T* from = in.as<const T>();
    T* to = c.outputs[0].as<T>();
    auto* indices = c.outputs[1].as<int64_t>();
    if (l.n == 0 || l.count() == 0) return nullptr;
    if (l.inner == 1)
      each_row(c, l, [&](int64_t at, int64_t rows) {
        for (int64_t end = at + rows * l.n; at < end; at += l.n) extreme_row<Max>(from + at, to + at, indices + at, l.n);
      });
    else each_block(c, l, [&](int64_t at, int64_t width) { extreme_lanes<Max>(from + at, to + at, indices + at, l.n, l.inner, width); });
    return nullptr;
  });
}

} // namespace

const char* cumulate(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  bool product = c.ints[1] != 0;
  if (in.dtype != c.outputs[0].dtype) return "input and output differ in dtype";
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using E = decltype(zero);
    // of integers the bits alone: a sum of unsigned ones has those of signed ones
    using T = typename std::conditional_t<std::is_integral_v<E> && !std::is_same_v<E, bool>, std::make_signed<KeyOf<E>>,
                                          std::type_identity<E>>::type;
    const T* from = in.as<const T>();
    T* to = c.outputs[0].as<T>();
    return product ? scan<Multiplying<T>>(c, from, to, l) : scan<Adding<T>>(c, from, to, l);
  });
}

const char* logcumsumexp(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  return for_float(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    return scan<AddingLogs<T>>(c, in.as<const T>(), c.outputs[0].as<T>(), l);
  });
}

const char* cummax(const LibraryCall& c) { return running_extreme<true>(c); }
const char* cummin(const LibraryCall& c) { return running_extreme<false>(c); }

} // namespace tenon::library
