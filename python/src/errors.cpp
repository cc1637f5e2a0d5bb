// Errors: one exception class for each kind, which is also the built-in one that Python users expect.
#include "common.h"

namespace tenon::python {

namespace {

PyObject *error_class, *kind_classes[3]; // live as long as the module, which is never unloaded

constexpr const char* kind_names[] = {"BadInput", "Unsupported", "Internal"};

void set_error(const Error& e) {
  auto kind = static_cast<size_t>(e.kind);
  std::string text = e.where.empty() ? e.what() : std::string(e.what()) + " (" + e.where + ")";
  nb::object made = nb::steal(PyObject_CallFunction(kind_classes[kind], "s", text.c_str()));
  if (!made.is_valid()) return;
  made.attr("kind") = kind_names[kind];
  made.attr("where") = e.where;
  PyErr_SetObject(kind_classes[kind], made.ptr());
}

PyObject* new_class(nb::module_& m, const char* name, const char* doc, nb::object bases) {
  PyObject* made = PyErr_NewExceptionWithDoc((std::string("tenon.") + name).c_str(), doc, bases.ptr(), nullptr);
  if (!made) throw nb::python_error();
  m.attr(name) = nb::handle(made);
  return made;
}

} // namespace

void bad_input(const std::string& message, const std::string& where) { throw Error(ErrorKind::BadInput, message, where); }

void set_python_error() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    set_error(e);
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    set_error(Error(ErrorKind::Internal, e.what()));
  }
}

void bind_errors(nb::module_& m) {
  error_class =
      new_class(m, "Error", "An error of tenon. `kind` is its class's name; `where` the file, node or source line concerned, or ''.",
                nb::borrow(PyExc_Exception));
  nb::handle base(error_class);
  kind_classes[0] =
      new_class(m, "BadInput", "The bytes, text or tensors given are wrong.", nb::make_tuple(base, nb::handle(PyExc_ValueError)));
  kind_classes[1] = new_class(m, "Unsupported", "The program is valid, but uses something tenon cannot run.",
                              nb::make_tuple(base, nb::handle(PyExc_NotImplementedError)));
  kind_classes[2] = new_class(m, "Internal", "A defect of tenon.", nb::make_tuple(base, nb::handle(PyExc_RuntimeError)));
  nb::register_exception_translator(
      [](const std::exception_ptr& p, void*) {
        try {
          std::rethrow_exception(p);
        } catch (const Error& e) {
          set_error(e);
        }
      },
      nullptr);
}

} // namespace tenon::python
