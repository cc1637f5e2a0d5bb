// Arguments: torch by DLPack's C table, numpy and others by the buffer protocol, the rest by __dlpack__.
#include "exchange.h"

#include <tenon/tenon.c.h>

#include <cstring>
#include <optional>

namespace tenon::python {

namespace {

struct Source {
  PyTypeObject* type = nullptr;
  Origin origin = Origin::None;
  const ExchangeApi* api = nullptr;
  bool is_array = false; // numpy's ndarray
};

// How numpy's arrays lie in memory: its C API reads the same in macros, so that it is part of its ABI, in versions 1 and 2. The buffer
// protocol takes some 200 ns longer.
struct NumpyArray {
  PyObject_HEAD char* data;
  int rank;
  Py_ssize_t *sizes, *strides; // in bytes
  PyObject *base, *descr;
  int flags;
  static constexpr int writeable = 0x400;
};
struct NumpyType {
  PyObject_HEAD PyTypeObject* type;
  char kind, letter, byte_order, flags;
  int number;
};

std::optional<DType> dtype_of(const NumpyType& t) {
  constexpr std::optional<DType> no;
  constexpr std::optional<DType> types[] = {DType::Bool, DType::I8,  DType::U8,  DType::I16, no,         DType::I32,
                                            no,          DType::I64, DType::U64, DType::I64, DType::U64, DType::F32,
                                            DType::F64,  no,         DType::C64, DType::C128};
  static_assert(sizeof(long) == 8);
  if (t.byte_order == '>') return no;
  if (t.number == 23) return DType::F16;
  return t.number >= 0 && t.number < static_cast<int>(std::size(types)) ? types[t.number] : no;
}

std::string type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }

const ExchangeApi* exchange_of(PyTypeObject* type) {
  nb::object capsule = nb::getattr(nb::handle(reinterpret_cast<PyObject*>(type)), "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (api && api->version.major != 1) api = api->previous;
  return api && api->tensor_from_object ? api : nullptr;
}

Source find_source(PyTypeObject* type) {
  nb::handle t(reinterpret_cast<PyObject*>(type));
  if (t.is(nb::type<PyTensor>())) return {type, Origin::Tenon, nullptr};
  if (auto* api = exchange_of(type)) return {type, Origin::Exchange, api};
  nb::object numpy = numpy_if_loaded();
  if (numpy.is_valid() && PyObject_IsSubclass(t.ptr(), numpy.attr("generic").ptr()) == 1) return {type, Origin::Numpy, nullptr};
  if (numpy.is_valid() && PyObject_IsSubclass(t.ptr(), numpy.attr("ndarray").ptr()) == 1) return {type, Origin::Numpy, nullptr, true};
  return {type, Origin::Other, nullptr};
}

// Of the types seen last; guarded by the GIL. They are kept, so that their addresses stay theirs.
const Source& source_of(PyTypeObject* type) {
  static Source seen[8];
  static size_t next = 0;
  for (Source& s : seen)
    if (s.type == type) return s;
  Source found = find_source(type);
  Source& s = seen[next++ % 8];
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  PyTypeObject* before = std::exchange(s, found).type;
  Py_XDECREF(reinterpret_cast<PyObject*>(before));
  return s;
}

DType dtype_of(const DLDataType& type) {
  int32_t dtype = 0;
  if (tenon_dtype_from_dlpack(&type, &dtype, nullptr) == TENON_OK) return static_cast<DType>(dtype);
  bad_input("elements of DLPack's type (code " + std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits) have no type here");
}

// The type that a format of the buffer protocol means.
std::optional<DType> dtype_of_format(const char* f) {
  if (!f) return DType::U8;
  if (*f == '@' || *f == '=' || *f == '<') f++;
  bool is_complex = *f == 'Z';
  if (is_complex) f++;
  if (!f[0] || f[1]) return std::nullopt;
  if (is_complex) return *f == 'f' ? std::optional(DType::C64) : *f == 'd' ? std::optional(DType::C128) : std::nullopt;
  switch (*f) {
  case 'f': return DType::F32;
  case 'd': return DType::F64;
  case 'q':
  case 'l': return DType::I64;
  case 'i': return DType::I32;
  case 'h': return DType::I16;
  case 'b': return DType::I8;
  case 'B': return DType::U8;
  case '?': return DType::Bool;
  case 'e': return DType::F16;
  case 'Q':
  case 'L': return DType::U64;
  default: return std::nullopt;
  }
}

[[noreturn]] void refuse_device(int type) {
  constexpr const char* names[] = {"", "cpu", "cuda", "cuda (pinned)", "opencl", "", "", "vulkan", "metal", "vpi", "rocm"};
  std::string name = type > 0 && type < 11 && *names[type] ? names[type] : "DLPack's device type " + std::to_string(type);
  bad_input("the tensor is on " + name + "; tenon runs on the CPU: move it there first");
}

bool answers_yes(PyObject* object, const char* question) {
  nb::object answer = nb::steal(PyObject_CallMethod(object, question, nullptr));
  if (!answer.is_valid()) return PyErr_Clear(), false;
  return answer.ptr() == Py_True;
}

// The table knows nothing of lazy conjugates and negatives. Conjugates are complex; negatives are their imaginary parts, which have gaps.
void refuse_lazy(PyObject* object, const DLTensor& t) {
  bool has_gaps = t.ndim == 0 || !t.strides || t.strides[t.ndim - 1] != 1;
  for (int d = t.ndim - 1, dense = 1; d >= 0 && !has_gaps && dense; d--) has_gaps = t.shape[d] <= 1;
  if (t.dtype.code == kDLComplex && answers_yes(object, "is_conj")) bad_input("the tensor is a lazy conjugate: give x.resolve_conj()");
  if (has_gaps && answers_yes(object, "is_neg")) bad_input("the tensor is a lazy negative: give x.resolve_neg()");
}

} // namespace

nb::object numpy_if_loaded() {
  PyObject* modules = PyImport_GetModuleDict(); // borrowed
  PyObject* found = PyDict_GetItemString(modules, "numpy");
  return found && found != Py_None && PyObject_HasAttrString(found, "ndarray") ? nb::borrow(found) : nb::object();
}

std::shared_ptr<void> keep_alive(nb::handle object) {
  Py_INCREF(object.ptr());
  return std::shared_ptr<void>(object.ptr(), [](PyObject* o) {
    if (!Py_IsInitialized()) return;
    nb::gil_scoped_acquire gil;
    Py_DECREF(o);
  });
}

void Borrowed::release() {
  if (has_buffer_) PyBuffer_Release(&buffer_), has_buffer_ = false;
  if (versioned_ && versioned_->deleter) versioned_->deleter(versioned_);
  if (managed_ && managed_->deleter) managed_->deleter(managed_);
  versioned_ = nullptr, managed_ = nullptr;
  if (capsule_) Py_CLEAR(capsule_);
}

void Borrowed::take(PyObject* object, const DType* bits, bool hold) {
  const Source& source = source_of(Py_TYPE(object));
  origin = source.origin, api = source.api;
  if (origin == Origin::Tenon) take_tenon(object);
  else if (origin == Origin::Exchange) take_exchange(object, hold);
  else if (source.is_array && !bits && !hold && take_array(object)) return;
  else if (PyObject_CheckBuffer(object)) take_buffer(object, bits);
  else if (PyObject_HasAttrString(object, "__dlpack__")) take_dlpack(object);
  else bad_input("an object of the type " + type_name(object) + " is no tensor: it has neither DLPack nor a buffer");
  if (!bits) return;
  if (size_of(*bits) != size_of(view.dtype))
    bad_input("elements of another width than " + std::string(name_of(*bits)) + " cannot be read as it");
  view.dtype = *bits;
}

void Borrowed::take_tenon(PyObject* object) {
  auto* t = nb::inst_ptr<PyTensor>(object);
  view = t->tensor.view();
  is_readonly = t->is_readonly;
}

void Borrowed::set(const DLTensor& t) {
  if (t.device.device_type != kDLCPU && t.device.device_type != kDLCUDAHost) refuse_device(t.device.device_type);
  auto rank = static_cast<size_t>(t.ndim);
  view.dtype = dtype_of(t.dtype);
  view.data = static_cast<char*>(t.data) + t.byte_offset;
  view.sizes = {t.shape, rank};
  view.strides = t.strides ? std::span<const int64_t>(t.strides, rank) : std::span<const int64_t>();
}

void Borrowed::take_exchange(PyObject* object, bool hold) {
  DLTensor t;
  if (hold) {
    if (api->managed_from_object(object, &versioned_) != 0) throw nb::python_error();
    t = versioned_->dl_tensor;
    is_readonly = versioned_->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
  } else if (api->tensor_from_object(object, &t) != 0) {
    nb::python_error e;
    bad_input(std::string("the tensor cannot be read: ") + e.what());
  }
  set(t);
  refuse_lazy(object, t);
}

// False where the buffer protocol is to say more, or why not.
bool Borrowed::take_array(PyObject* object) {
  auto& a = *reinterpret_cast<const NumpyArray*>(object);
  std::optional<DType> type = dtype_of(*reinterpret_cast<const NumpyType*>(a.descr));
  if (!type || a.rank < 0 || a.rank > inline_rank) return false;
  auto width = static_cast<int64_t>(size_of(*type));
  auto rank = static_cast<size_t>(a.rank);
  for (size_t d = 0; d < rank; d++) {
    if (a.strides[d] % width != 0) return false;
    numbers_[d] = a.sizes[d], numbers_[inline_rank + d] = a.strides[d] / width;
  }
  view.dtype = *type, view.data = a.data;
  view.sizes = {numbers_, rank}, view.strides = {numbers_ + inline_rank, rank};
  is_readonly = !(a.flags & NumpyArray::writeable);
  return true;
}

void Borrowed::take_buffer(PyObject* object, const DType* bits) {
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    nb::object name = nb::getattr(nb::getattr(nb::handle(object), "dtype", nb::none()), "name", nb::none());
    bad_input("a " + type_name(object) + " of the type " + std::string(nb::str(name).c_str()) +
              " gives no buffer; of 16 or 8 bits, tenon.Tensor(x.view('uint16'), dtype='bf16') takes its bits");
  }
  has_buffer_ = true;
  std::optional<DType> type = dtype_of_format(buffer_.format);
  bool is_u16 = buffer_.format && std::strcmp(buffer_.format, "H") == 0;
  if (!type && is_u16 && bits) type = DType::BF16;
  if (!type) bad_input(std::string("elements of the format '") + buffer_.format + "' have no type here");
  view.dtype = *type;
  auto width = static_cast<int64_t>(size_of(*type));
  if (buffer_.itemsize != width) bad_input("elements have another size than their format says");
  auto rank = static_cast<size_t>(buffer_.ndim);
  int64_t *sizes = numbers_, *strides = numbers_ + inline_rank;
  if (rank > inline_rank) more_.resize(2 * rank), sizes = more_.data(), strides = sizes + rank;
  for (size_t d = 0; d < rank; d++) {
    sizes[d] = buffer_.shape[d];
    if (buffer_.strides[d] % width != 0 && sizes[d] > 1) bad_input("strides are no multiples of an element: copy the array first");
    strides[d] = buffer_.strides[d] / width;
  }
  view.data = buffer_.buf;
  view.sizes = {sizes, rank}, view.strides = {strides, rank};
  is_readonly = buffer_.readonly;
}

void Borrowed::take_dlpack(PyObject* object) {
  auto device = nb::cast<std::pair<int, int>>(nb::object(nb::handle(object).attr("__dlpack_device__")()));
  if (device.first != kDLCPU && device.first != kDLCUDAHost) refuse_device(device.first);
  nb::handle method = nb::handle(object).attr("__dlpack__");
  nb::object made;
  try {
    made = nb::object(method(nb::arg("max_version") = nb::make_tuple(1, 1)));
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
    made = nb::object(method());
  }
  capsule_ = made.release().ptr();
  if (PyCapsule_IsValid(capsule_, "dltensor_versioned")) {
    versioned_ = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule_, "dltensor_versioned"));
    PyCapsule_SetName(capsule_, "used_dltensor_versioned");
    if (versioned_->version.major != 1) bad_input("the tensor comes in a DLPack version that is not known here");
    is_readonly = versioned_->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    set(versioned_->dl_tensor);
  } else if (PyCapsule_IsValid(capsule_, "dltensor")) {
    managed_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule_, "dltensor"));
    PyCapsule_SetName(capsule_, "used_dltensor");
    set(managed_->dl_tensor);
  } else bad_input("__dlpack__ gave no DLPack capsule");
}

PyTensor shared_tensor(nb::handle object, const DType* bits, Wish* wish) {
  struct Kept {
    Borrowed borrowed;
    std::shared_ptr<void> object;
  };
  std::shared_ptr<Kept> kept(new Kept, [](Kept* k) {
    if (!Py_IsInitialized()) return;
    nb::gil_scoped_acquire gil;
    delete k;
  });
  kept->borrowed.take(object.ptr(), bits, true);
  kept->object = keep_alive(object);
  const TensorView& v = kept->borrowed.view;
  if (wish) wish->add(kept->borrowed.origin, kept->borrowed.api), wish->has_readonly |= kept->borrowed.is_readonly;
  std::vector<int64_t> sizes(v.sizes.begin(), v.sizes.end());
  std::vector<int64_t> strides = v.strides.empty() ? contiguous_strides(sizes) : std::vector<int64_t>(v.strides.begin(), v.strides.end());
  return {Tensor(v.dtype, std::move(sizes), std::move(strides), kept, v.data), kept->borrowed.is_readonly};
}

bool is_number(nb::handle o) { return PyBool_Check(o.ptr()) || PyLong_CheckExact(o.ptr()) || PyFloat_CheckExact(o.ptr()); }

Tensor number_tensor(nb::handle o) {
  if (PyBool_Check(o.ptr())) {
    Tensor t(DType::Bool, {});
    return *t.data_as<bool>() = o.ptr() == Py_True, t;
  }
  if (PyFloat_Check(o.ptr())) {
    Tensor t(DType::F64, {});
    return *t.data_as<double>() = PyFloat_AsDouble(o.ptr()), t;
  }
  Tensor t(DType::I64, {});
  return *t.data_as<int64_t>() = nb::cast<int64_t>(o), t;
}

} // namespace tenon::python
