// tenon._tenon.Weights: tensors of another library that a program was compiled with, and whether they are still what they were then.
#include <array>
#include <cstring>

#include "exchange.h"

namespace tenon::python {

namespace {

// A few bytes here and there: writes that no version counts change nearly always some of them.
constexpr size_t num_samples = 8;
using Samples = std::array<uint64_t, num_samples>;

struct Seen {
  const void* data;
  int64_t elements;
  int64_t version; // -1 where there is none
  Samples samples;
};

// Torch counts the writes to a tensor; those through `.data`, and those to tensors of inference mode, it does not.
int64_t version_of(PyObject* tensor) {
  static PyObject* name = PyUnicode_InternFromString("_version");
  PyObject* version = PyObject_GetAttr(tensor, name);
  if (!version) return PyErr_Clear(), -1;
  int64_t v = PyLong_AsLongLong(version);
  Py_DECREF(version);
  return v;
}

// The first and the last element that the strides reach, and the bytes between.
Seen look_at(PyObject* tensor) {
  Borrowed b;
  b.take(tensor);
  const TensorView& v = b.view;
  int64_t elements = 1, last = 0;
  for (size_t d = 0; d < v.sizes.size(); d++) elements *= v.sizes[d], last += (v.sizes[d] - 1) * (v.strides.empty() ? 1 : v.strides[d]);
  if (v.strides.empty()) last = elements - 1;
  Seen seen{v.data, elements, version_of(tensor), {}};
  if (elements == 0) return seen;
  size_t width = size_of(v.dtype), bytes = static_cast<size_t>(last) * width;
  for (size_t i = 0; i < num_samples; i++) {
    size_t at = bytes / (num_samples - 1) * i / width * width;
    std::memcpy(&seen.samples[i], static_cast<const char*>(v.data) + std::min(at, bytes), std::min(width, sizeof(uint64_t)));
  }
  return seen;
}

class Weights {
public:
  explicit Weights(nb::sequence tensors) {
    for (nb::handle t : tensors) seen_.push_back(look_at(t.ptr()));
  }

  bool are_in(nb::list arguments, const std::vector<size_t>& places) const {
    for (size_t i = 0; i < seen_.size(); i++) {
      if (places.at(i) >= arguments.size()) bad_input("there is no such argument");
      Seen now = look_at(PyList_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(places[i])));
      const Seen& then = seen_[i];
      if (now.data != then.data || now.elements != then.elements || now.version != then.version || now.samples != then.samples)
        return false;
    }
    return true;
  }

private:
  std::vector<Seen> seen_;
};

} // namespace

void bind_weights(nb::module_& m) {
  nb::class_<Weights>(m, "Weights",
                      "What tensors held when they were given: their memory, torch's count of writes to it, and some bytes of it.")
      .def(nb::init<nb::sequence>(), nb::arg("tensors"))
      .def("are_in", &Weights::are_in, nb::arg("arguments"), nb::arg("places"),
           "Whether the arguments at these places are the same tensors, with nothing written since. Errors: BadInput.");
}

} // namespace tenon::python
