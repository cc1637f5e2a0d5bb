// tenon.Executable and tenon.BoundCall. A call of tensors takes a short way; any other goes through trees.
#include <algorithm>
#include <deque>
#include <optional>

#include <x86intrin.h>

#include "exchange.h"
#include "trees.h"

namespace tenon::python {

namespace {

// Ticks of the time stamp counter, about 2 us: below, giving the GIL up and taking it again costs more than it brings.
constexpr uint64_t quick_ticks = 6000;

bool is_tensor(const Tree& spec) {
  auto* info = spec.as<ArgInfo>();
  return info && !info->is_number;
}

// Runs `f` with the GIL held where such calls were quick, else without.
template <class F> Status run_unlocked(PyExecutable& self, int64_t elements, F&& f) {
  int64_t quick = self.quick_elements.load(std::memory_order_relaxed);
  bool keep = elements < quick && !has_python_operators();
  std::optional<nb::gil_scoped_release> released;
  if (!keep) released.emplace();
  uint64_t start = __rdtsc();
  Status status = f();
  bool was_quick = __rdtsc() - start < quick_ticks;
  if (keep && !was_quick) self.quick_elements.store(quick > 1 ? 0 : -1, std::memory_order_relaxed);
  if (!keep && was_quick && quick >= 0) self.quick_elements.store(elements + 1, std::memory_order_relaxed);
  return status;
}

// The flat inputs or outputs of a call: those of at most `few` lie on the stack.
class Arguments {
public:
  explicit Arguments(size_t count) : count_(count) {
    if (count > few) more_.resize(count), more_views_.resize(count);
  }
  void take(size_t i, PyObject* object, const char* what, PyExecutable& exe, bool is_input) {
    Borrowed& b = count_ > few ? more_[i] : some_[i];
    const std::string& name = (is_input ? exe.exe.inputs() : exe.exe.outputs())[i].name;
    try {
      b.take(object);
    } catch (const Error& e) {
      bad_input(std::string(what) + " " + name + ": " + e.what(), e.where);
    }
    if (b.is_readonly && (!is_input || exe.writes_inputs()))
      bad_input(std::string(what) + " " + name + ": the tensor is read-only, and the program " +
                (!exe.program && is_input ? "may write to it: of one from a file that is not known"
                                          : (is_input ? "writes to its inputs" : "writes to it")));
    TensorView& v = (count_ > few ? more_views_.data() : some_views_)[i] = b.view;
    int64_t n = 1;
    for (int64_t s : v.sizes) n *= s;
    elements += n;
    wish.add(b.origin, b.api);
  }
  std::span<const TensorView> views() const { return {count_ > few ? more_views_.data() : some_views_, count_}; }

  Wish wish;
  int64_t elements = 0;

private:
  static constexpr size_t few = 6;
  size_t count_;
  Borrowed some_[few];
  TensorView some_views_[few];
  std::deque<Borrowed> more_;
  std::vector<TensorView> more_views_;
};

size_t outputs_of(const PyExecutable& self) { return self.exe.outputs().size(); }

// `out` as flat objects: one tensor, or a sequence of them.
void take_outputs(PyExecutable& self, Arguments& to, PyObject* out) {
  size_t n = outputs_of(self);
  if (!PyTuple_Check(out) && !PyList_Check(out)) {
    if (n != 1) bad_input("out: the program has " + std::to_string(n) + " results: give a list of them");
    return to.take(0, out, "output", self, false);
  }
  if (static_cast<size_t>(PySequence_Fast_GET_SIZE(out)) != n)
    bad_input("out: " + std::to_string(PySequence_Fast_GET_SIZE(out)) + " tensors are given, the program has " + std::to_string(n) +
              " results");
  for (size_t i = 0; i < n; i++) to.take(i, PySequence_Fast_GET_ITEM(out, static_cast<Py_ssize_t>(i)), "output", self, false);
}

PyObject* sequence_of(const Tree& spec, const std::vector<Tensor>& results, const Wish& wish) {
  if (spec.is_leaf()) return to_python(results[0], wish).release().ptr();
  bool is_list = spec.kind() == Tree::Kind::List;
  auto n = static_cast<Py_ssize_t>(results.size());
  nb::object made = nb::steal(is_list ? PyList_New(n) : PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* item = to_python(results[static_cast<size_t>(i)], wish).release().ptr();
    if (is_list) PyList_SET_ITEM(made.ptr(), i, item);
    else PyTuple_SET_ITEM(made.ptr(), i, item);
  }
  return made.release().ptr();
}

PyObject* call_plain(PyExecutable& self, PyObject* args, PyObject* out) {
  auto n = static_cast<size_t>(PyTuple_GET_SIZE(args));
  Arguments in(n);
  for (size_t i = 0; i < n; i++) in.take(i, PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i)), "input", self, true);
  if (out) {
    Arguments to(outputs_of(self));
    take_outputs(self, to, out);
    run_unlocked(self, in.elements, [&] { return self.exe.run(in.views(), to.views()); }).check();
    return Py_NewRef(out);
  }
  std::vector<Tensor> results;
  run_unlocked(self, in.elements, [&] { return self.exe.run(in.views(), results); }).check();
  return sequence_of(self.exe.out_spec(), results, in.wish);
}

PyObject* call_tree(PyExecutable& self, PyObject* args, PyObject* kwargs) {
  Wish wish;
  std::vector<Tree> positional;
  std::vector<NamedTree> named;
  for (nb::handle a : nb::borrow<nb::tuple>(args)) positional.push_back(to_tree(a, wish));
  if (kwargs)
    for (auto [key, value] : nb::borrow<nb::dict>(kwargs)) named.emplace_back(nb::cast<std::string>(key), to_tree(value, wish));
  if (wish.has_readonly && self.writes_inputs()) bad_input("a tensor is read-only, and the program may write to its inputs: give a copy");
  std::optional<Tree> result;
  {
    nb::gil_scoped_release release;
    result = self.exe.call(positional, named).value();
    positional.clear(), named.clear();
  }
  return from_tree(*result, wish).release().ptr();
}

// tp_call of tenon.Executable: quicker than a method.
PyObject* call_executable(PyObject* object, PyObject* args, PyObject* kwargs) {
  try {
    PyExecutable& self = *nb::inst_ptr<PyExecutable>(object);
    PyObject* out = kwargs && PyDict_GET_SIZE(kwargs) == 1 ? PyDict_GetItemString(kwargs, "out") : nullptr;
    bool is_plain = self.has_plain_inputs && (!kwargs || PyDict_GET_SIZE(kwargs) == 0 || out) &&
                    static_cast<size_t>(PyTuple_GET_SIZE(args)) == self.exe.inputs().size();
    if (out == Py_None) out = nullptr;
    if (is_plain && (out || self.has_plain_outputs)) return call_plain(self, args, out);
    return call_tree(self, args, out || is_plain ? nullptr : kwargs);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* call_bound(PyObject* object, PyObject* args, PyObject* kwargs) {
  try {
    PyBoundCall& self = *nb::inst_ptr<PyBoundCall>(object);
    if (PyTuple_GET_SIZE(args) || (kwargs && PyDict_GET_SIZE(kwargs))) bad_input("a bound call takes no arguments: its memory is bound");
    bool keep = self.is_quick && !has_python_operators();
    std::optional<nb::gil_scoped_release> released;
    if (!keep) released.emplace();
    uint64_t start = __rdtsc();
    Status status = self.call.run();
    bool is_quick = __rdtsc() - start < quick_ticks;
    released.reset();
    self.is_quick = is_quick;
    status.check();
    return self.outputs.inc_ref().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

nb::object run_flat(PyExecutable& self, nb::list inputs, nb::object out) {
  size_t n = inputs.size();
  if (n != self.exe.inputs().size())
    bad_input(std::to_string(n) + " inputs are given, the program takes " + std::to_string(self.exe.inputs().size()));
  Arguments in(n);
  nb::list numbers;
  for (size_t i = 0; i < n; i++) {
    nb::object object = inputs[i];
    if (is_number(object)) numbers.append(object = nb::cast(PyTensor{number_tensor(object)}));
    in.take(i, object.ptr(), "input", self, true);
  }
  if (!out.is_none()) {
    Arguments to(outputs_of(self));
    take_outputs(self, to, out.ptr());
    run_unlocked(self, in.elements, [&] { return self.exe.run(in.views(), to.views()); }).check();
    return out;
  }
  std::vector<Tensor> results;
  run_unlocked(self, in.elements, [&] { return self.exe.run(in.views(), results); }).check();
  nb::list made;
  for (auto& t : results) made.append(to_python(t, in.wish));
  return made;
}

PyBoundCall* bind(PyExecutable& self, nb::sequence inputs, nb::object outputs) {
  std::vector<Tensor> memory;
  std::vector<TensorView> in, to;
  size_t index = 0, n = self.exe.inputs().size();
  for (nb::handle i : inputs) {
    PyTensor t = is_number(i) ? PyTensor{number_tensor(i)} : shared_tensor(i);
    if (t.is_readonly && index < n && self.writes_inputs())
      bad_input("input " + self.exe.inputs()[index].name + ": the tensor is read-only");
    memory.push_back(std::move(t.tensor)), index++;
  }
  bool is_one = !PyTuple_Check(outputs.ptr()) && !PyList_Check(outputs.ptr());
  nb::object flat = is_one ? nb::object(nb::make_tuple(outputs)) : outputs;
  for (nb::handle o : flat) {
    PyTensor t = shared_tensor(o);
    if (t.is_readonly) bad_input("an output is read-only");
    memory.push_back(std::move(t.tensor));
  }
  for (size_t i = 0; i < memory.size(); i++) (i < index ? in : to).push_back(memory[i].view());
  auto call = [&] {
    nb::gil_scoped_release release;
    return self.exe.bind(in, to).value();
  }();
  return new PyBoundCall{std::move(call), inputs, outputs, std::move(memory)};
}

nb::dict state(const PyExecutable& self) {
  nb::dict out;
  for (auto& [name, t] : self.exe.state()) out[name.c_str()] = to_python(t, {});
  return out;
}

void set_state(PyExecutable& self, nb::dict values) {
  std::vector<NamedTensor> list;
  for (auto [name, value] : values) list.push_back({nb::cast<std::string>(name), shared_tensor(value).tensor});
  nb::gil_scoped_release release;
  self.exe.set_state(list).check();
}

nb::dict stats(const PyExecutable& self) {
  ExecutableStats s = self.exe.stats();
  constexpr const char* uses[] = {"none", "found", "stored", "failed"};
  nb::dict d;
  d["compile_ms"] = s.compile_ms, d["kernels_compiled"] = s.kernels_compiled, d["steps"] = s.steps;
  d["fallback_steps"] = s.fallback_steps, d["delegate_steps"] = s.delegate_steps, d["state_bytes"] = s.state_bytes;
  d["arena_bytes"] = s.arena_bytes, d["cache"] = uses[static_cast<int>(s.cache)], d["is_compiling"] = s.is_compiling;
  return d;
}

nb::object explain(const PyExecutable& self) {
  std::string text, json, page;
  {
    nb::gil_scoped_release release;
    Explanation e = self.exe.explanation().value();
    text = to_text(e), json = to_json(e), page = to_html(e);
  }
  return nb::module_::import_("tenon._explain").attr("Explanation")(text, json, page, stats(self));
}

PyExecutable* copy(const PyExecutable& self) {
  auto made = std::make_unique<PyExecutable>(self.exe.copy(), self.bytes);
  made->program = self.program, made->writes = self.writes, made->origin = self.origin;
  return made.release();
}

// For pickle: made again where it arrives, from the file, or from bytes that go along.
nb::tuple reduce(const PyExecutable& self) {
  if (!self.origin.is_valid())
    bad_input("an executable cannot be pickled whose program is not a file as it is, but a graph or has other weights: save() it");
  return nb::make_tuple(nb::module_::import_("tenon").attr("_reopen"), self.origin);
}

void set_slot(nb::handle type, ternaryfunc call) { reinterpret_cast<PyTypeObject*>(type.ptr())->tp_call = call; }

nb::object declared_only(nb::handle, nb::args, nb::kwargs) { throw nb::type_error("call the object itself"); }

} // namespace

PyExecutable::PyExecutable(Executable e, std::shared_ptr<void> b) : exe(std::move(e)), bytes(std::move(b)) {
  const Tree& in = exe.in_spec();
  if (in.size() == 2) has_plain_inputs = in.children()[1].size() == 0 && std::ranges::all_of(in.children()[0].children(), is_tensor);
  const Tree& out = exe.out_spec();
  bool is_sequence = out.kind() == Tree::Kind::Tuple || out.kind() == Tree::Kind::List;
  has_plain_outputs = is_tensor(out) || (is_sequence && std::ranges::all_of(out.children(), is_tensor));
}

// An Edge graph is functional: behind the results it returns the new values of state and of inputs.
bool PyExecutable::writes_inputs() {
  if (!program) return true;
  if (!writes) writes = program->graph("edge").value().outputs().size() > exe.outputs().size() + exe.state().size();
  return *writes;
}

void bind_executable(nb::module_& m) {
  auto executable =
      nb::class_<PyExecutable>(m, "Executable",
                               "Native code for a Program. It may be called from many threads at once, which then run at once.")
          .def("__call__", declared_only,
               "Calls the program as Python would call the module. Arguments are numpy's arrays, torch's tensors, anything with DLPack or "
               "a buffer, and "
               "dicts, lists, tuples and dataclasses of them; results are torch's where one of them is, else numpy's, else tenon.Tensor. "
               "Nothing is copied. `out`: a tensor for the result, or a list of them, which are then returned. Releases the GIL but for "
               "calls of "
               "under 2 us. Errors: BadInput names the argument.",
               nb::sig("def __call__(self, *args: object, out: object = None, **kwargs: object) -> Any"))
          .def("run", run_flat, nb::arg("inputs"), nb::arg("out") = nb::none(),
               nb::sig("def run(self, inputs: list[object], out: object = None) -> Any"),
               "Runs on the flattened inputs; gives the flattened outputs.")
          .def(
              "bind", bind, nb::arg("inputs"), nb::arg("outputs"), nb::keep_alive<0, 1>(),
              "Checks inputs and outputs once for repeated runs on the same memory. Errors: BadInput, Unsupported where it is interpreted.")
          .def("state", state, "Copies of the buffers that the program changes, by name.")
          .def("set_state", set_state, nb::arg("state"), "Gives buffers new values; others stay.")
          .def("reset_state", [](PyExecutable& e) { e.exe.reset_state(); })
          .def("copy", copy, "The same machine code, with a state of its own that starts as this one's.")
          .def(
              "wait",
              [](const PyExecutable& e) {
                nb::gil_scoped_release r;
                e.exe.wait().check();
              },
              "Waits until nothing is compiled in the background.")
          .def("__reduce__", reduce, "Pickled as its file's path (or the bytes it was loaded from) and its options. State starts anew.")
          .def_prop_ro("writes_inputs", &PyExecutable::writes_inputs,
                       "Whether it may change its inputs; true of one from a compiled file, which does not tell.")
          .def("stats", stats, nb::sig("def stats(self) -> dict[str, Any]"), "What compiling cost and how the program is executed.")
          .def("explain", explain, nb::sig("def explain(self) -> tenon._explain.Explanation"),
               "Regions, kernels, source lines, memory; with profile=True also times. A text, a table in notebooks; `data` is a dict, "
               "`save` writes a page.")
          .def_prop_ro("inputs", [](const PyExecutable& e) { return e.exe.inputs(); })
          .def_prop_ro("outputs", [](const PyExecutable& e) { return e.exe.outputs(); })
          .def_prop_ro("in_spec", [](const PyExecutable& e) { return e.exe.in_spec().to_string(); })
          .def_prop_ro("out_spec", [](const PyExecutable& e) { return e.exe.out_spec().to_string(); })
          .def("__repr__", [](const PyExecutable& e) {
            return "tenon.Executable(" + e.exe.in_spec().to_string() + " -> " + e.exe.out_spec().to_string() + ")";
          });
  auto bound = nb::class_<PyBoundCall>(m, "BoundCall", "Inputs and outputs bound for repeated runs. Not for several threads at once.")
                   .def("__call__", declared_only, nb::sig("def __call__(self) -> Any"),
                        "Runs on what the inputs hold now; returns the outputs as they were given.")
                   .def_ro("inputs", &PyBoundCall::inputs)
                   .def_ro("outputs", &PyBoundCall::outputs);
  set_slot(executable, call_executable);
  set_slot(bound, call_bound);
  m.def("register_class", register_class, nb::arg("name"), nb::arg("cls"),
        "The named tuple or dataclass that a program's `name` means, in arguments and results.");
}

} // namespace tenon::python
