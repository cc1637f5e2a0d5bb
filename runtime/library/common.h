// What library steps share: failure messages, dispatch without complex, loops over lanes of a dim, ordered keys, index checks.
#pragma once
#include <algorithm>
#include <atomic>
#include <new>
#include <type_traits>
#include <vector>

#include "base/numeric.h"
#include "runtime/library_steps.h"
#include "runtime/parallel.h"
#include "runtime/wide.h"

namespace tenon::library {

/// A formatted message; lives until the calling thread's next one.
template <class... A> const char* message(fmt::format_string<A...> f, A&&... a) {
  thread_local char buffer[256];
  auto end = fmt::format_to_n(buffer, sizeof buffer - 1, f, std::forward<A>(a)...).out;
  *end = 0;
  return buffer;
}

/// Runs f, which returns null or a message; a failed allocation becomes a message too.
template <class F> const char* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::exception& e) {
    return message("{}", e.what());
  }
}

constexpr const char* no_complex = "complex numbers are not supported here";

/// f(T{}) for every dtype but complex; f returns a message or null.
template <class F> const char* for_real(DType t, F&& f) {
  return guarded([&]() -> const char* {
    return dispatch(t, [&](auto zero) -> const char* {
      if constexpr (is_complex_v<decltype(zero)>) return no_complex;
      else return f(zero);
    });
  });
}
/// f(T{}) for the float dtypes.
template <class F> const char* for_float(DType t, F&& f) {
  return for_real(t, [&](auto zero) -> const char* {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) return "a floating point tensor is needed here";
    else return f(zero);
  });
}
/// f(U{}) with an unsigned integer of the element's size: for steps that only move elements.
template <class F> const char* for_size(DType t, F&& f) {
  return guarded([&]() -> const char* {
    if (is_complex(t)) return no_complex;
    switch (size_of(t)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
    }
  });
}

/// The type in which elements of T are computed with.
template <class T> using Wide = std::conditional_t<std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float, T>;
/// The type in which torch's CPU scans and sums accumulate.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, F16> || std::is_same_v<T, BF16>, float,
                               std::conditional_t<std::is_integral_v<T>, int64_t, double>>;
template <class T> Wide<T> widen(T x) { return static_cast<Wide<T>>(x); }
/// These two by operations that vectors have, without branches, unlike the compiler's conversions. A product moves the exponent to where
/// that of f32 is, of subnormal numbers too; that of infinities and NaN becomes the greatest.
[[gnu::always_inline]] inline float widen(F16 x) {
  uint32_t magnitude = x.bits & 0x7fffu, sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  uint32_t endless = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  float moved = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(moved) | sign | endless);
}
/// As F16's constructor.
[[gnu::always_inline]] inline F16 narrow_to_f16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
  bool subnormal = magnitude < 0x38800000u;
  float rounded = std::bit_cast<float>(subnormal ? magnitude : 0u) + 0.5f;
  uint32_t low = std::bit_cast<uint32_t>(rounded) - 0x3f000000u, normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13,
           endless = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  F16 out;
  out.bits = static_cast<uint16_t>((magnitude >= 0x477ff000u ? endless : subnormal ? low : normal) | sign);
  return out;
}
template <class T, class W> [[gnu::always_inline]] inline T narrow(W x) {
  if constexpr (std::is_same_v<T, bool>) return x != W(0);
  else if constexpr (std::is_same_v<T, F16>) return narrow_to_f16(static_cast<float>(x));
  else if constexpr (std::is_same_v<T, BF16>) return T(static_cast<float>(x));
  else return static_cast<T>(x);
}
template <class W> bool nan(W x) {
  if constexpr (std::is_floating_point_v<W>) return std::isnan(x);
  else return false;
}

/// Unsigned keys that order as torch sorts: NaN greatest, -0 equal to +0.
template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 1, uint8_t,
                                 std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
template <class T> KeyOf<T> order_key(T x) {
  using U = KeyOf<T>;
  constexpr U sign = static_cast<U>(U{1} << (sizeof(U) * 8 - 1));
  if constexpr (std::is_unsigned_v<T>) return static_cast<U>(x);
  else if constexpr (std::is_integral_v<T>) return static_cast<U>(static_cast<U>(x) ^ sign);
  else {
    Wide<T> w = widen(x);
    if (nan(w)) return static_cast<U>(~U{0});
    if (w == 0) return sign;
    U bits = std::bit_cast<U>(x);
    return static_cast<U>(bits & sign ? ~bits : bits | sign);
  }
}

/// A tensor seen as [outer, n, inner] around one dim; a 0-d tensor has one lane of one element.
struct Lanes {
  int64_t outer = 1, n = 1, inner = 1;
  Lanes(std::span<const int64_t> sizes, int64_t dim) {
    for (size_t d = 0; d < sizes.size(); d++) {
      auto at = static_cast<int64_t>(d);
      (at < dim ? outer : at == dim ? n : inner) *= sizes[d];
    }
  }
  int64_t count() const { return outer * inner; }
  /// Offset of element 0 of lane l; the next ones are `inner` apart.
  int64_t start(int64_t l) const { return l / inner * n * inner + l % inner; }
};

/// Row-major strides, zero where the size is 1: what broadcasting reads with.
inline std::vector<int64_t> broadcast_strides(std::span<const int64_t> sizes, size_t rank) {
  std::vector<int64_t> strides(rank, 0);
  int64_t step = 1;
  for (size_t k = 0; k < sizes.size(); k++) {
    size_t from = sizes.size() - 1 - k, to = rank - 1 - k;
    strides[to] = sizes[from] == 1 ? 0 : step;
    step *= sizes[from];
  }
  return strides;
}

/// The common size of two broadcast together; false where they do not fit.
inline bool broadcast_into(std::vector<int64_t>& sizes, std::span<const int64_t> other) {
  if (other.size() > sizes.size()) sizes.insert(sizes.begin(), other.size() - sizes.size(), 1);
  for (size_t k = 0; k < other.size(); k++) {
    int64_t& a = sizes[sizes.size() - 1 - k];
    int64_t b = other[other.size() - 1 - k];
    if (a == 1) a = b;
    else if (b != 1 && a != b) return false;
  }
  return true;
}

/// Wraps a negative index; false where it is out of range.
inline bool wrap(int64_t& i, int64_t size) {
  if (i < 0) i += size;
  return static_cast<uint64_t>(i) < static_cast<uint64_t>(size);
}
inline const char* out_of_range(int64_t i, int64_t size) { return message("index {} is out of range for size {}", i, size); }

/// Element i of an integer tensor.
inline int64_t integer_at(const LibraryTensor& t, int64_t i) {
  switch (t.dtype) {
  case DType::I64: return t.as<const int64_t>()[i];
  case DType::I32: return t.as<const int32_t>()[i];
  case DType::I16: return t.as<const int16_t>()[i];
  case DType::I8: return t.as<const int8_t>()[i];
  default: return t.as<const uint8_t>()[i];
  }
}

inline int64_t product(std::span<const int64_t> sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

/// Sizes and memory for a data-dependent output; null where memory is refused.
template <class T> T* allocate(const LibraryCall& c, int output, std::initializer_list<int64_t> sizes) {
  return static_cast<T*>(c.allocate(c.context, output, std::span(sizes.begin(), sizes.size())));
}
template <class T> T* allocate(const LibraryCall& c, int output, std::span<const int64_t> sizes) {
  return static_cast<T*>(c.allocate(c.context, output, sizes));
}
inline constexpr const char* no_memory = "out of memory";

inline int64_t threads_of(const LibraryCall& c) { return c.workers ? c.workers->threads() : 1; }

/// f(begin, end) over [0, n), in chunks of at least `grain` on the workers. Bodies may allocate: std::bad_alloc comes
/// out here.
template <class F> void parallel(const Workers* workers, int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  if (!workers || n <= grain) return f(int64_t{0}, n);
  std::atomic<bool> refused = false;
  workers->run(n, grain, [&](int64_t begin, int64_t end, int) {
    try {
      f(begin, end);
    } catch (const std::bad_alloc&) {
      refused = true;
    }
  });
  if (refused) throw std::bad_alloc();
}
template <class F> void parallel(const LibraryCall& c, int64_t n, int64_t grain, F&& f) {
  parallel(c.workers, n, grain, std::forward<F>(f));
}

/// An output starts as a copy of an input of its type.
inline void copy_input(const LibraryCall& c, size_t input, size_t output) {
  const LibraryTensor &from = c.inputs[input], &to = c.outputs[output];
  int64_t bytes = to.numel() * static_cast<int64_t>(size_of(to.dtype));
  if (from.data == to.data) return;
  parallel(c, bytes, 1 << 16, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to.data) + begin, static_cast<const char*>(from.data) + begin, static_cast<size_t>(end - begin));
  });
}

/// Memory for vectors, with nothing in it; of 0 elements none.
template <class T> class Memory {
public:
  explicit Memory(int64_t count)
      : data_(count > 0 ? static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), alignment)) : nullptr) {}
  ~Memory() {
    if (data_) ::operator delete(data_, alignment);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  T* data() const { return data_; }

private:
  static constexpr std::align_val_t alignment{64};
  T* data_;
};

} // namespace tenon::library
