// What all files of the extension share: nanobind, the library's types as Python holds them, and who binds what.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tenon/tenon.h>

namespace nb = nanobind;

namespace tenon::python {

/// tenon.Tensor.
struct PyTensor {
  Tensor tensor;
  bool is_readonly = false;
};

/// A Python object that lives as long as something of the library's; let go in any thread.
std::shared_ptr<void> keep_alive(nb::handle object);

/// tenon.Program.
struct PyProgram {
  Program program;
  std::shared_ptr<void> bytes;    // that it was loaded from
  nb::object source, method = {}; // the path or bytes, and what was chosen of it; no source where the program has been changed since
};

/// tenon.Executable, with what a call asks of it.
struct PyExecutable {
  explicit PyExecutable(Executable exe, std::shared_ptr<void> bytes = {});
  /// Whether the program may write to its inputs; of one from a file nobody tells. Needs the GIL.
  bool writes_inputs();

  Executable exe;
  std::shared_ptr<void> bytes;
  std::optional<Program> program = {}; // that it was compiled from
  std::optional<bool> writes = {};     // asked already
  nb::object origin = {};              // (source, method, options) that it can be made of again; none for some
  bool has_plain_inputs = false;       // positional tensors, and nothing else
  bool has_plain_outputs = false;      // a tensor, or a tuple or list of tensors
  /// Elements of inputs up to which calls were seen to be quick; -1 where one was not after all.
  std::atomic<int64_t> quick_elements = 0;
};

/// tenon.BoundCall.
struct PyBoundCall {
  BoundCall call;
  nb::object inputs, outputs; // as given: outputs is what a call returns
  std::vector<Tensor> memory; // keeps theirs
  bool is_quick = false;
};

[[noreturn]] void bad_input(const std::string& message, const std::string& where = {});
/// Sets the Python exception for the C++ one that is being handled.
void set_python_error() noexcept;
/// Options by their names in tenon::Options. Errors: BadInput lists the names for one that is none.
Options options_of(const nb::kwargs& kwargs);
/// The type of that name, "f32", or of torch's or numpy's name for it, "float32". Errors: BadInput.
DType dtype_named(std::string name);
/// Whether operators in Python are registered: then no call may keep the GIL.
bool has_python_operators();

void bind_errors(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_program(nb::module_& m);
void bind_executable(nb::module_& m);
void bind_custom_op(nb::module_& m);
void bind_script(nb::module_& m);
void bind_threads(nb::module_& m);
void bind_weights(nb::module_& m);

} // namespace tenon::python
