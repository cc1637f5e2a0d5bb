// Results: tenon's memory, wrapped as numpy's arrays, torch's tensors, or tenon.Tensor. Nothing is copied.
#include <nanobind/ndarray.h>

#include "exchange.h"

namespace tenon::python {

namespace {

struct Handed {
  dl::ManagedVersioned managed;
  Tensor tensor;
};

} // namespace

dl::Type type_of(DType t) {
  auto make = [&](uint8_t code) { return dl::Type{code, static_cast<uint8_t>(8 * size_of(t)), 1}; };
  switch (t) {
  case DType::Bool: return make(dl::Bool);
  case DType::U8:
  case DType::U64: return make(dl::UInt);
  case DType::I8:
  case DType::I16:
  case DType::I32:
  case DType::I64: return make(dl::Int);
  case DType::BF16: return make(dl::Bfloat);
  case DType::C64:
  case DType::C128: return make(dl::Complex);
  case DType::F8E4M3FN: return make(dl::E4M3FN);
  case DType::F8E5M2: return make(dl::E5M2);
  case DType::F8E4M3FNUZ: return make(dl::E4M3FNUZ);
  case DType::F8E5M2FNUZ: return make(dl::E5M2FNUZ);
  default: return make(dl::Float);
  }
}

dl::ManagedVersioned* to_managed(const Tensor& t, bool is_readonly) {
  auto* made = new Handed{{}, t};
  Tensor& held = made->tensor;
  made->managed = {.version = {1, 1},
                   .context = made,
                   .deleter = [](dl::ManagedVersioned* m) { delete static_cast<Handed*>(m->context); },
                   .flags = is_readonly ? dl::read_only : 0,
                   .tensor = {.data = held.data(),
                              .device = {dl::Cpu, 0},
                              .ndim = static_cast<int32_t>(held.rank()),
                              .dtype = type_of(held.dtype()),
                              .shape = const_cast<int64_t*>(held.sizes().data()),
                              .strides = const_cast<int64_t*>(held.strides().data()),
                              .byte_offset = 0}};
  return &made->managed;
}

nb::object to_numpy(const Tensor& t, bool is_readonly) {
  dl::Type type = type_of(t.dtype());
  if (type.code == dl::Bfloat || type.code > dl::Bool) return nb::cast(PyTensor{t, is_readonly});
  auto* held = new Tensor(t);
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  nb::dlpack::dtype dtype{type.code, type.bits, type.lanes};
  static_assert(sizeof(size_t) == sizeof(int64_t));
  auto* sizes = reinterpret_cast<const size_t*>(held->sizes().data());
  if (is_readonly) return nb::cast(nb::ndarray<nb::numpy, nb::ro>(held->data(), held->rank(), sizes, owner, held->strides().data(), dtype));
  return nb::cast(nb::ndarray<nb::numpy>(held->data(), held->rank(), sizes, owner, held->strides().data(), dtype));
}

nb::object to_python(const Tensor& t, const Wish& wish, bool is_readonly) {
  if (wish.origin == Origin::Tenon) return nb::cast(PyTensor{t, is_readonly});
  if (wish.origin == Origin::Exchange) {
    void* made = nullptr;
    dl::ManagedVersioned* managed = to_managed(t, is_readonly);
    if (wish.api->object_from_managed(managed, &made) != 0) {
      managed->deleter(managed);
      throw nb::python_error();
    }
    return nb::steal(static_cast<PyObject*>(made));
  }
  if (wish.origin == Origin::Numpy || numpy_if_loaded().is_valid()) return to_numpy(t, is_readonly);
  return nb::cast(PyTensor{t, is_readonly});
}

} // namespace tenon::python
