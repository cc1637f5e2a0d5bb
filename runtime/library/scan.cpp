// Scans along a dim: running sums, products, extremes with their positions, log-sum-exp.
#include <limits>

#include "runtime/library/common.h"

namespace tenon::library {

namespace {

// out[i] = step(out[i - 1], in[i]) along each lane; neighbouring lanes side by side, so that memory is read in order.
template <class A, class I, class O, class F> void scan(const LibraryCall& c, const I* in, O* out, Lanes l, A first, F step) {
  constexpr int64_t block = 256;
  int64_t blocks = (l.inner + block - 1) / block;
  parallel(c, l.outer * blocks, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, l.n * std::min(l.inner, block))), [&](int64_t begin, int64_t end) {
    A running[block];
    for (int64_t b = begin; b < end; b++) {
      int64_t lane = b % blocks * block, start = b / blocks * l.n * l.inner + lane, width = std::min(block, l.inner - lane);
      std::fill_n(running, width, first);
      for (int64_t i = 0; i < l.n; i++) {
        const I* from = in + start + i * l.inner;
        O* to = out + start + i * l.inner;
        for (int64_t k = 0; k < width; k++) {
          running[k] = step(running[k], static_cast<A>(widen(from[k])));
          to[k] = narrow<O>(running[k]);
        }
      }
    }
  });
}

// log(exp(a) + exp(b)) without overflow.
template <class A> A log_add_exp(A a, A b) {
  if (nan(a) || nan(b)) return std::numeric_limits<A>::quiet_NaN();
  A low = std::min(a, b), high = std::max(a, b);
  if (low == high && std::isinf(high)) return high;
  return high + std::log1p(std::exp(low - high));
}

template <bool Max> const char* running_extreme(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  return for_real(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    parallel(c, l.count(), std::max<int64_t>(1, 8192 / std::max<int64_t>(1, l.n)), [&](int64_t begin, int64_t end) {
      for (int64_t lane = begin; lane < end; lane++) {
        int64_t start = l.start(lane), best = 0;
        const T* data = in.as<const T>() + start;
        for (int64_t i = 0; i < l.n; i++) {
          auto x = widen(data[i * l.inner]), r = widen(data[best * l.inner]);
          if (nan(x) || (!nan(r) && (Max ? x >= r : x <= r))) best = i; // the last of equals, as torch
          c.outputs[0].as<T>()[start + i * l.inner] = data[best * l.inner];
          c.outputs[1].as<int64_t>()[start + i * l.inner] = best;
        }
      }
    });
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
    using T = decltype(zero);
    using A = std::conditional_t<std::is_integral_v<T>, uint64_t, Sum<T>>; // integers wrap
    const T* from = in.as<const T>();
    T* to = c.outputs[0].as<T>();
    if (product) scan<A>(c, from, to, l, A(1), [](A a, A b) { return a * b; });
    else scan<A>(c, from, to, l, A(0), [](A a, A b) { return a + b; });
    return nullptr;
  });
}

const char* logcumsumexp(const LibraryCall& c) {
  const LibraryTensor& in = c.inputs[0];
  Lanes l(in.sizes, c.ints[0]);
  return for_float(in.dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    using A = Sum<T>;
    scan<A>(c, in.as<const T>(), c.outputs[0].as<T>(), l, -std::numeric_limits<A>::infinity(), [](A a, A b) { return log_add_exp(a, b); });
    return nullptr;
  });
}

const char* cummax(const LibraryCall& c) { return running_extreme<true>(c); }
const char* cummin(const LibraryCall& c) { return running_extreme<false>(c); }

} // namespace tenon::library
