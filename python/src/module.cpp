// The extension module tenon._tenon.
#include "common.h"

NB_MODULE(_tenon, m) {
  using namespace tenon::python;
  nb::set_leak_warnings(false); // registered operators and classes live as long as the process
  m.doc() = "tenon's C++ API for Python.";
  bind_errors(m);
  bind_tensor(m);
  bind_threads(m);
  bind_weights(m);
  bind_program(m);
  bind_executable(m);
  bind_custom_op(m);
  bind_script(m);
}
