// Results: tenon's memory, wrapped as numpy's arrays, torch's tensors, or tenon.Tensor. Nothing is copied.
#include <nanobind/ndarray.h>

#include <tenon/tenon.c.h>

#include "exchange.h"

namespace tenon::python {

namespace {

struct Handed {
  DLManagedTensorVersioned managed;
  Tensor tensor;
};

} // namespace

DLDataType type_of(DType t) {
  DLDataType type{};
  tenon_dtype_to_dlpack(static_cast<int32_t>(t), &type, nullptr); // every one has a type
  return type;
}

DLManagedTensorVersioned* to_managed(const Tensor& t, bool is_readonly) {
  auto* made = new Handed{{}, t};
  Tensor& held = made->tensor;
  made->managed = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                   .manager_ctx = made,
                   .deleter = [](DLManagedTensorVersioned* m) { delete static_cast<Handed*>(m->manager_ctx); },
                   .flags = is_readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
                   .dl_tensor = {.data = held.data(),
                                 .device = {kDLCPU, 0},
                                 .ndim = static_cast<int32_t>(held.rank()),
                                 .dtype = type_of(held.dtype()),
                                 .shape = const_cast<int64_t*>(held.sizes().data()),
                                 .strides = const_cast<int64_t*>(held.strides().data()),
                                 .byte_offset = 0}};
  return &made->managed;
}

nb::object to_numpy(const Tensor& t, bool is_readonly) {
  DLDataType type = type_of(t.dtype());
  if (type.code == kDLBfloat || type.code > kDLBool) return nb::cast(PyTensor{t, is_readonly});
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
    DLManagedTensorVersioned* managed = to_managed(t, is_readonly);
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
