// Options by their names, and threads.
#include <algorithm>

#include <tenon/option_names.h>

#include "common.h"

namespace tenon::python {

namespace {

std::string text_of(nb::handle value) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True ? "true" : "false";
  return nb::str(value).c_str();
}

bool is_list(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  for (const OptionInfo& info : option_infos())
    if (info.name == name) return info.kind == OptionInfo::Kind::List;
  return false;
}

/// with tenon.thread_budget(2): ...
struct Budget {
  int threads;
  std::unique_ptr<ThreadBudget> held = {};
};

} // namespace

// Those of the library by its own names, and `pool`, which has no text.
Options options_of(const nb::kwargs& kwargs) {
  Options options;
  for (auto [key, value] : kwargs) {
    auto name = nb::cast<std::string>(key);
    if (name == "pool") {
      if (!nb::try_cast(value, options.pool)) bad_input("option pool: it is a tenon.ThreadPool");
    } else if (name == "communicator" && nb::hasattr(value, "py2f")) { // one of mpi4py
      set_option(options, name, "mpi:comm=" + text_of(value.attr("py2f")())).check();
    } else if (is_list(name) && (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value))) {
      for (nb::handle v : value) set_option(options, name, text_of(v)).check();
    } else set_option(options, name, text_of(value)).check();
  }
  return options;
}

void bind_threads(nb::module_& m) {
  m.def(
      "check_options", [](nb::kwargs options) { options_of(options); }, nb::arg("options"),
      "Whether these are options of Program.compile. Errors: BadInput.");
  nb::class_<ThreadPool>(m, "ThreadPool", "A pool of so many threads, those that call included; 0: a thread for each core.")
      .def(nb::init<int>(), nb::arg("threads") = 0)
      .def_prop_ro("threads", &ThreadPool::threads);
  nb::class_<Budget>(m, "thread_budget", "A context in which the calls of its thread use at most so many threads.")
      .def(
          "__init__", [](Budget* self, int threads) { new (self) Budget{threads}; }, nb::arg("threads"))
      .def("__enter__", [](Budget& b) { b.held = std::make_unique<ThreadBudget>(b.threads); })
      .def("__exit__", [](Budget& b, nb::args) { b.held.reset(); });
}

} // namespace tenon::python
