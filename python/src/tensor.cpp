// tenon.Tensor: memory of the library's that numpy, torch and others take by the buffer protocol and DLPack.
#include <algorithm>

#include "exchange.h"

namespace tenon::python {

namespace {

constexpr const char* long_names[num_dtypes] = {
    "bool",    "uint8",     "int8",       "int16",  "int32",         "int64",       "float16",         "bfloat16",       "float32",
    "float64", "complex64", "complex128", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"};
constexpr const char* formats[num_dtypes] = {"?", "B", "b", "h", "i", "q", "e", "H", "f", "d", "Zf", "Zd", "Q", "B", "B", "B", "B"};

nb::tuple tuple_of(const std::vector<int64_t>& list) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(list.size())));
  for (size_t i = 0; i < list.size(); i++) PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(list[i]));
  return nb::borrow<nb::tuple>(made);
}

PyTensor make(nb::object object, nb::object dtype) {
  if (dtype.is_none()) return shared_tensor(object);
  DType type = dtype_named(nb::str(dtype).c_str());
  return shared_tensor(object, &type);
}

PyTensor empty(const std::vector<int64_t>& sizes, const std::string& dtype) { return {Tensor(dtype_named(dtype), sizes)}; }

std::string tensor_repr(const PyTensor& t) { return "tenon.Tensor(" + Tree(t.tensor).to_string() + ")"; }

nb::object bits(const PyTensor& t) {
  size_t width = size_of(t.tensor.dtype());
  if (width > 2) bad_input("bits() is of elements of one or two bytes");
  nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array = numpy.attr("asarray")(nb::cast(t));
  return array.attr("view")(width == 1 ? "uint8" : "uint16");
}

// The buffer protocol: elements that have no format there (bf16, floats of 8 bits) are refused, except as bits.
int get_buffer(PyObject* self, Py_buffer* out, int flags) {
  auto* t = nb::inst_ptr<PyTensor>(self);
  if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && t->is_readonly)
    return PyErr_SetString(PyExc_BufferError, "the tensor is read-only"), -1;
  if (!(flags & PyBUF_STRIDES) && !t->tensor.is_contiguous()) return PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous"), -1;
  size_t rank = t->tensor.rank(), width = size_of(t->tensor.dtype());
  auto* numbers = new Py_ssize_t[2 * rank + 1];
  for (size_t d = 0; d < rank; d++) {
    numbers[d] = t->tensor.sizes()[d];
    numbers[rank + d] = t->tensor.strides()[d] * static_cast<Py_ssize_t>(width);
  }
  *out = {.buf = t->tensor.data(),
          .obj = Py_NewRef(self),
          .len = t->tensor.numel() * static_cast<Py_ssize_t>(width),
          .itemsize = static_cast<Py_ssize_t>(width),
          .readonly = t->is_readonly,
          .ndim = static_cast<int>(rank),
          .format = flags & PyBUF_FORMAT ? const_cast<char*>(formats[static_cast<int>(t->tensor.dtype())]) : nullptr,
          .shape = flags & PyBUF_ND ? numbers : nullptr,
          .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? numbers + rank : nullptr,
          .suboffsets = nullptr,
          .internal = numbers};
  return 0;
}

void release_buffer(PyObject*, Py_buffer* b) { delete[] static_cast<Py_ssize_t*>(b->internal); }

PyType_Slot slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)}, {0, nullptr}};

struct HandedOld {
  DLManagedTensor managed;
  DLManagedTensorVersioned* versioned;
};

nb::object old_capsule(const PyTensor& t) {
  if (t.is_readonly) throw nb::buffer_error("the tensor is read-only, which needs DLPack 1.0: ask with max_version");
  auto* made = new HandedOld{{}, to_managed(t.tensor, false)};
  made->managed = {made->versioned->dl_tensor, made, [](DLManagedTensor* m) {
                     auto* h = static_cast<HandedOld*>(m->manager_ctx);
                     h->versioned->deleter(h->versioned);
                     delete h;
                   }};
  return nb::steal(PyCapsule_New(&made->managed, "dltensor", [](PyObject* c) {
    if (!PyCapsule_IsValid(c, "dltensor")) return;
    auto* m = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(c, "dltensor"));
    m->deleter(m);
  }));
}

nb::object to_dlpack(const PyTensor& t, nb::object, nb::object max_version, nb::object device, nb::object copy) {
  if (!device.is_none() && nb::cast<std::pair<int, int>>(device).first != kDLCPU) throw nb::buffer_error("tenon's tensors are on the CPU");
  PyTensor given = t;
  if (!copy.is_none() && nb::cast<bool>(copy)) { // contiguous() shares what is contiguous already
    std::vector<int64_t> sizes = t.tensor.sizes(), strides = t.tensor.strides();
    given = {Tensor(t.tensor.dtype(), sizes)};
    Tensor dense = t.tensor.contiguous();
    std::copy_n(dense.data_as<char>(), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()), given.tensor.data_as<char>());
  }
  if (max_version.is_none() || nb::cast<int>(max_version[0]) < 1) return old_capsule(given);
  return nb::steal(PyCapsule_New(to_managed(given.tensor, given.is_readonly), "dltensor_versioned", [](PyObject* c) {
    if (!PyCapsule_IsValid(c, "dltensor_versioned")) return;
    auto* m = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(c, "dltensor_versioned"));
    m->deleter(m);
  }));
}

} // namespace

DType dtype_named(std::string name) {
  if (size_t dot = name.rfind('.'); dot != name.npos) name = name.substr(dot + 1);
  for (int i = 0; i < num_dtypes; i++)
    if (name == name_of(static_cast<DType>(i)) || name == long_names[i]) return static_cast<DType>(i);
  std::string all;
  for (int i = 0; i < num_dtypes; i++) all += (i ? ", " : "") + std::string(name_of(static_cast<DType>(i)));
  bad_input("there is no dtype " + name + "; there are " + all);
}

void bind_tensor(nb::module_& m) {
  nb::class_<PyTensor>(m, "Tensor", nb::type_slots(slots),
                       "A tensor in memory that numpy, torch and others share without copies, by the buffer protocol and DLPack. Distinct "
                       "tensors may be used from distinct threads.")
      .def(
          "__init__", [](PyTensor* self, nb::object object, nb::object dtype) { new (self) PyTensor(make(object, dtype)); },
          nb::arg("object"), nb::arg("dtype") = nb::none(),
          "The memory of another tensor, shared. With a dtype, elements are of that type, whatever the object calls them, if these are as "
          "wide: Tensor(x, 'bf16') of numpy's uint16.")
      .def_prop_ro(
          "dtype", [](const PyTensor& t) { return std::string(name_of(t.tensor.dtype())); },
          "The type of elements: 'f32', 'bf16', 'i64' ...")
      .def_prop_ro(
          "shape", [](const PyTensor& t) { return tuple_of(t.tensor.sizes()); }, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const PyTensor& t) { return tuple_of(t.tensor.strides()); }, nb::sig("def strides(self) -> tuple[int, ...]"),
          "In elements.")
      .def_prop_ro("ndim", [](const PyTensor& t) { return t.tensor.rank(); })
      .def_ro("readonly", &PyTensor::is_readonly, "Whether it may not be written to: weights of a program.")
      .def("__repr__", tensor_repr)
      .def(
          "numpy", [](const PyTensor& t) { return nb::module_::import_("numpy").attr("asarray")(nb::cast(t)); },
          nb::sig("def numpy(self) -> numpy.ndarray"),
          "As numpy's array on the same memory; imports numpy. Elements that numpy has no type for come as bits.")
      .def("bits", bits, nb::sig("def bits(self) -> numpy.ndarray"),
           "Elements of one or two bytes as numpy's uint8 or uint16, on the same memory.")
      .def("__dlpack__", to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const PyTensor&) { return std::pair<int, int>(kDLCPU, 0); });
  m.def("empty", empty, nb::arg("shape"), nb::arg("dtype") = "f32", "A contiguous tensor, uninitialised, aligned to 64 bytes.");
}

} // namespace tenon::python
