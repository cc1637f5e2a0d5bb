// Complex tensors put together of their parts and taken apart.
#include "runtime/library/common.h"

namespace tenon::library {

namespace {

/// f(T{}) with the dtype of the parts.
template <class F> const char* for_parts(DType t, F&& f) {
  if (part_type(t) == DType::F64) return f(double{});
  return f(float{});
}

} // namespace

const char* complex_of_parts(const LibraryCall& c) {
  return for_parts(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    const T *re = c.inputs[0].as<const T>(), *im = c.inputs[1].as<const T>();
    T* out = c.outputs[0].as<T>();
    for (int64_t i = 0, n = c.outputs[0].numel(); i < n; i++) out[2 * i] = re[i], out[2 * i + 1] = im[i];
    return nullptr;
  });
}

const char* complex_part(const LibraryCall& c) {
  return for_parts(c.outputs[0].dtype, [&](auto zero) -> const char* {
    using T = decltype(zero);
    const T* in = c.inputs[0].as<const T>() + c.ints[0];
    T* out = c.outputs[0].as<T>();
    for (int64_t i = 0, n = c.outputs[0].numel(); i < n; i++) out[i] = in[2 * i];
    return nullptr;
  });
}

const char* view_as_real(const LibraryCall& c) {
  if (int64_t n = c.outputs[0].numel(); n > 0)
    std::memcpy(c.outputs[0].data, c.inputs[0].data, static_cast<size_t>(n) * size_of(c.outputs[0].dtype));
  return nullptr;
}

} // namespace tenon::library
