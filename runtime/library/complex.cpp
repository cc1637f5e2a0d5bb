// Complex tensors put together of their parts and taken apart.
#include "runtime/library/common.h"

namespace tenon::library {

namespace {

/// f(T{}) with the dtype of the parts.
template <class F> const char* for_parts(DType t, F&& f) {
  if (part_type(t) == DType::F64) return f(double{});
  return f(float{});
}

template <class T> TENON_WIDE void join_parts(const T* re, const T* im, int64_t n, T* out) {
  for (int64_t i = 0; i < n; i++) out[2 * i] = re[i], out[2 * i + 1] = im[i];
}
template <class T> TENON_WIDE void take_part(const T* in, int64_t n, T* out) {
  for (int64_t i = 0; i < n; i++) out[i] = in[2 * i];
}

} // namespace

const char* complex_of_parts(const LibraryCall& c) {
  return for_parts(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    const T *re = c.inputs[0].as<const T>(), *im = c.inputs[1].as<const T>();
    T* out = c.outputs[0].as<T>();
    parallel(c, c.outputs[0].numel(), 16384,
             [&](int64_t begin, int64_t end) { join_parts(re + begin, im + begin, end - begin, out + 2 * begin); });
    return nullptr;
  });
}

const char* complex_part(const LibraryCall& c) {
  return for_parts(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    const T* in = c.inputs[0].as<const T>() + c.ints[0];
    T* out = c.outputs[0].as<T>();
    parallel(c, c.outputs[0].numel(), 16384, [&](int64_t begin, int64_t end) { take_part(in + 2 * begin, end - begin, out + begin); });
    return nullptr;
  });
}

const char* view_as_real(const LibraryCall& c) {
  auto* to = static_cast<char*>(c.outputs[0].data);
  const auto* from = static_cast<const char*>(c.inputs[0].data);
  parallel(c, c.outputs[0].numel() * static_cast<int64_t>(size_of(c.outputs[0].dtype)), 1 << 16,
           [&](int64_t begin, int64_t end) { std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin)); });
  return nullptr;
}

} // namespace tenon::library
