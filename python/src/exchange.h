// Arguments: the memory of tensors of any library, without copies.
#pragma once
#include "common.h"
#include "dlpack.h"

namespace tenon::python {

/// Whose a tensor is.
enum class Origin : uint8_t { None, Tenon, Numpy, Exchange, Other };

/// Whose tensors results become.
struct Wish {
  Origin origin = Origin::None;
  const ExchangeApi* api = nullptr; // of Origin::Exchange
  bool has_readonly = false;        // one of the arguments is
  /// After an argument of this origin: torch's before numpy's, and these before tenon's.
  void add(Origin other, const ExchangeApi* its) {
    if (other == Origin::Exchange || (origin != Origin::Exchange && (origin == Origin::None || origin == Origin::Tenon)))
      origin = other, api = its;
  }
};

/// The memory of a Python object, borrowed while both live. Needs the GIL, to be destroyed too.
class Borrowed {
public:
  Borrowed() = default;
  ~Borrowed() { release(); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  /// Throws Error(BadInput) for what is no tensor, lies on another device, or has elements of a type that tenon has not. `bits`: elements
  /// are of this type, whatever the object calls them. `hold`: its memory stays also where the object gives it up.
  void take(PyObject* object, const DType* bits = nullptr, bool hold = false);

  TensorView view;
  Origin origin = Origin::None;
  const ExchangeApi* api = nullptr;
  bool is_readonly = false;

private:
  void take_tenon(PyObject* object);
  bool take_array(PyObject* object);
  void take_exchange(PyObject* object, bool hold);
  void take_buffer(PyObject* object, const DType* bits);
  void take_dlpack(PyObject* object);
  void set(const DLTensor& t);
  void release();

  static constexpr int inline_rank = 6;
  int64_t numbers_[2 * inline_rank];
  std::vector<int64_t> more_;
  Py_buffer buffer_;
  bool has_buffer_ = false;
  DLManagedTensor* managed_ = nullptr;
  DLManagedTensorVersioned* versioned_ = nullptr;
  PyObject* capsule_ = nullptr;
};

/// A Tensor that shares the object's memory, and keeps it.
PyTensor shared_tensor(nb::handle object, const DType* bits = nullptr, Wish* wish = nullptr);
/// The same of a number: a copy, as I64, F64 or Bool.
bool is_number(nb::handle object);
Tensor number_tensor(nb::handle object);
/// Tensors by their names. Throws Error(BadInput) where one is read-only and `are_written`.
std::vector<NamedTensor> tensors_of(nb::dict weights, bool are_written = false);

DLDataType type_of(DType t);
/// numpy's module, or nothing where nobody has imported it.
nb::object numpy_if_loaded();

/// A result as the wish says; takes part in its memory.
nb::object to_python(const Tensor& t, const Wish& wish, bool is_readonly = false);
/// As numpy's array; tenon's own where numpy has no such type of elements. Imports numpy.
nb::object to_numpy(const Tensor& t, bool is_readonly);
/// For other libraries; the receiver calls the deleter.
DLManagedTensorVersioned* to_managed(const Tensor& t, bool is_readonly);

} // namespace tenon::python
