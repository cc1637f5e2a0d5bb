// Complex tensors put together of their parts and taken apart.
#include "runtime/library/common.h"

namespace tenon::library {

namespace {

/// f(T{}) with the dtype of the parts.
template <class F> const char* for_parts(DType t, F&& f) {
  if (part_type(t) == DType::F64) return f(double{});
  return f(float{});
}

constexpr int64_t grain = 1 << 15; // elements that are worth a thread's while

} // namespace

const char* complex_of_parts(const LibraryCall& c) {
  return for_parts(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    const T *re = c.inputs[0].as<const T>(), *im = c.inputs[1].as<const T>();
    T* out = c.outputs[0].as<T>();
    parallel(c, c.outputs[0].numel(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) out[2 * i] = re[i], out[2 * i + 1] = im[i];
    });
    return nullptr;
  });
}

const char* complex_part(const LibraryCall& c) {
  return for_parts(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    const T* in = c.inputs[0].as<const T>() + c.ints[0];
    T* out = c.outputs[0].as<T>();
    parallel(c, c.outputs[0].numel(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) out[i] = in[2 * i];
    });
    return nullptr;
  });
}

const char* view_as_real(const LibraryCall& c) {
  size_t size = size_of(c.outputs[0].dtype);
  parallel(c, c.outputs[0].numel(), grain, [&](int64_t begin, int64_t end) {
    auto at = static_cast<size_t>(begin) * size;
    std::memcpy(static_cast<char*>(c.outputs[0].data) + at, static_cast<const char*>(c.inputs[0].data) + at, static_cast<size_t>(end - begin) * size);
  });
  return nullptr;
}

} // namespace tenon::library
