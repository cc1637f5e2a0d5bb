// tenon.Script: programs of TorchScript. Lists, dicts and tensors that are passed keep their identity, as in C++ (ivalue.h).
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include <nanobind/stl/optional.h>

#include "exchange.h"

namespace tenon::python {

namespace {

using Tag = IValue::Tag;

const void* box_of(const IValue& v) {
  switch (v.tag()) {
  case Tag::Tensor: return &v.tensor_box();
  case Tag::List: return &v.list_box();
  case Tag::Dict: return &v.to_dict();
  default: return nullptr;
  }
}

// The values of a call. Python's lists and dicts become copies, whose changes are written back when the call is over.
class Values {
public:
  IValue from(nb::handle o);
  nb::object to(const IValue& v);
  void write_back();

private:
  struct Passed {
    IValue value;
    std::vector<IValue> before; // items, or keys and values
    nb::object object;
  };

  IValue remember(IValue v, nb::handle object);
  IValue list_from(nb::handle o);
  IValue dict_from(nb::handle o);
  IValue tensor_from(nb::handle o);
  nb::object list_to(const IValue& v);
  nb::object dict_to(const IValue& v);
  static std::vector<IValue> parts_of(const IValue& v);

  Wish wish_;
  std::vector<Passed> passed_;
  std::map<PyObject*, IValue> by_object_;
  std::map<const void*, nb::object> by_box_;
};

std::vector<IValue> Values::parts_of(const IValue& v) {
  if (v.is(Tag::List)) return v.to_list();
  std::vector<IValue> parts;
  if (v.is(Tag::Dict))
    for (auto& [key, value] : v.items()) parts.push_back(key), parts.push_back(value);
  return parts;
}

IValue Values::remember(IValue v, nb::handle object) {
  by_object_.emplace(object.ptr(), v);
  by_box_.emplace(box_of(v), nb::borrow(object));
  passed_.push_back({v, parts_of(v), nb::borrow(object)});
  return v;
}

IValue Values::list_from(nb::handle o) {
  std::vector<IValue> items;
  for (nb::handle item : nb::borrow<nb::list>(o)) items.push_back(from(item));
  return remember(IValue::list(std::move(items)), o);
}

IValue Values::dict_from(nb::handle o) {
  std::vector<IValue::Pair> pairs;
  for (auto [key, value] : nb::borrow<nb::dict>(o)) pairs.emplace_back(from(key), from(value));
  return remember(IValue::dict(pairs), o);
}

// What may not be written to is copied: the program might.
IValue Values::tensor_from(nb::handle o) {
  PyTensor t = shared_tensor(o, nullptr, &wish_);
  if (!t.is_readonly) return remember(IValue(std::move(t.tensor)), o);
  Tensor copy = t.tensor.contiguous();
  if (copy.data() != t.tensor.data()) return copy;
  Tensor made(copy.dtype(), std::vector<int64_t>(copy.sizes().begin(), copy.sizes().end()));
  std::memcpy(made.data(), copy.data(), static_cast<size_t>(copy.numel()) * size_of(copy.dtype()));
  return made;
}

int64_t int_from(PyObject* p) {
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(p, &overflow);
  if (overflow) bad_input("an int of a script has 64 bits: " + std::string(nb::str(nb::handle(p)).c_str()) + " has more");
  return value;
}

std::string text_from(PyObject* p) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(p, &size);
  if (!text) throw nb::python_error();
  return {text, static_cast<size_t>(size)};
}

// Of lists in lists; one that holds itself is an error.
struct Nested {
  Nested() {
    if (Py_EnterRecursiveCall(" in an argument of a script")) throw nb::python_error();
  }
  ~Nested() { Py_LeaveRecursiveCall(); }
};

IValue Values::from(nb::handle o) {
  PyObject* p = o.ptr();
  Nested nested;
  if (o.is_none()) return {};
  if (PyBool_Check(p)) return p == Py_True;
  if (PyLong_Check(p)) return int_from(p);
  if (PyFloat_Check(p)) return PyFloat_AS_DOUBLE(p);
  if (PyUnicode_Check(p)) return text_from(p);
  if (PyComplex_Check(p)) return std::complex<double>(PyComplex_RealAsDouble(p), PyComplex_ImagAsDouble(p));
  if (auto known = by_object_.find(p); known != by_object_.end()) return known->second;
  if (PyList_Check(p)) return list_from(o);
  if (PyDict_Check(p)) return dict_from(o);
  if (!PyTuple_Check(p)) return tensor_from(o);
  std::vector<IValue> items;
  for (nb::handle item : nb::borrow<nb::tuple>(o)) items.push_back(from(item));
  return IValue::tuple(std::move(items));
}

nb::object Values::list_to(const IValue& v) {
  nb::list made;
  by_box_.emplace(box_of(v), made);
  for (const IValue& item : v.to_list()) made.append(to(item));
  return made;
}

nb::object Values::dict_to(const IValue& v) {
  nb::dict made;
  by_box_.emplace(box_of(v), made);
  for (auto& [key, value] : v.items()) made[to(key)] = to(value);
  return made;
}

nb::object Values::to(const IValue& v) {
  if (const void* box = box_of(v))
    if (auto known = by_box_.find(box); known != by_box_.end()) return known->second;
  switch (v.tag()) {
  case Tag::None: return nb::none();
  case Tag::Bool: return nb::bool_(v.to_bool());
  case Tag::Int: return nb::int_(v.to_int());
  case Tag::Double: return nb::float_(v.to_double());
  case Tag::Complex: return nb::steal(PyComplex_FromDoubles(v.to_complex().real(), v.to_complex().imag()));
  case Tag::String: return nb::str(v.to_string().data(), v.to_string().size());
  case Tag::Device: return nb::str(v.to_device().data(), v.to_device().size());
  case Tag::Tensor: return by_box_.emplace(box_of(v), to_python(v.to_tensor(), wish_)).first->second;
  case Tag::List: return list_to(v);
  case Tag::Dict: return dict_to(v);
  case Tag::Tuple: break;
  case Tag::Object: throw Error(ErrorKind::Unsupported, "a result is an instance of the class " + v.to_object().class_name);
  }
  nb::list items;
  for (const IValue& item : v.to_tuple()) items.append(to(item));
  return nb::tuple(items);
}

void Values::write_back() {
  for (Passed& p : passed_) {
    std::vector<IValue> now = parts_of(p.value);
    if (std::ranges::equal(now, p.before, [](const IValue& a, const IValue& b) { return a.same(b); })) continue;
    if (p.value.is(Tag::List)) {
      nb::list items;
      for (const IValue& item : now) items.append(to(item));
      if (PyList_SetSlice(p.object.ptr(), 0, PyList_GET_SIZE(p.object.ptr()), items.ptr()) < 0) throw nb::python_error();
    } else {
      PyDict_Clear(p.object.ptr());
      for (size_t i = 0; i < now.size(); i += 2) nb::borrow<nb::dict>(p.object)[to(now[i])] = to(now[i + 1]);
    }
  }
}

// To sys.stdout, as print does in Python.
void print_line(std::string_view line) {
  nb::gil_scoped_acquire acquired;
  try {
    nb::module_::import_("sys").attr("stdout").attr("write")(nb::str(line.data(), line.size()));
  } catch (nb::python_error& e) {
    e.discard_as_unraisable("tenon.Script: print");
  }
}

nb::object call_script(const Script& script, nb::args args, nb::kwargs kwargs) {
  Values values;
  std::vector<IValue> positional;
  std::vector<Script::Named> named;
  for (nb::handle a : args) positional.push_back(values.from(a));
  for (auto [name, value] : kwargs) named.emplace_back(nb::cast<std::string>(name), values.from(value));
  auto run = [&] {
    nb::gil_scoped_release release;
    return script.call(std::move(positional), named, {.print = print_line});
  };
  Result<IValue> result = run();
  values.write_back();
  return values.to(result.value());
}

nb::dict script_state(const Script& script) {
  nb::dict out;
  for (auto& [name, t] : script.state_dict()) out[name.c_str()] = to_python(t, {});
  return out;
}

Script with_weights(const Script& script, nb::dict weights) {
  std::vector<NamedTensor> list = tensors_of(weights, true);
  nb::gil_scoped_release release;
  return script.with_state_dict(list).value();
}

Script load_script(nb::object path, const std::optional<std::string>& entry) {
  std::string from = nb::cast<std::string>(nb::module_::import_("os").attr("fsdecode")(path));
  nb::gil_scoped_release release;
  return Script::load(from, entry.value_or("")).value();
}

std::string param_text(const Script::Param& p) { return p.name + ": " + p.type.str() + (p.fallback ? " = " + repr(*p.fallback) : ""); }

std::string signature(const Script& script) {
  std::string text = "tenon.Script(";
  for (size_t i = 0; i < script.params().size(); i++) text += (i ? ", " : "") + param_text(script.params()[i]);
  return text + ")";
}

} // namespace

void bind_script(nb::module_& m) {
  nb::class_<Script::Param>(m, "ScriptParam", "A parameter of a script.")
      .def_ro("name", &Script::Param::name)
      .def_prop_ro(
          "type", [](const Script::Param& p) { return p.type.str(); }, "In TorchScript's words: 'Tensor', 'int[]', 'Dict(str, Tensor)'.")
      .def_prop_ro("has_default", [](const Script::Param& p) { return p.fallback.has_value(); })
      .def("__repr__", param_text);
  nb::class_<Script>(m, "Script",
                     "A program of TorchScript: interpreted at first, then by plans of native code for the kinds of arguments that it is "
                     "called with. Immutable; safe to share between threads, where they do not pass it what it changes in place.")
      .def_static(
          "compile",
          [](const std::string& source, const std::string& entry, const std::string& file) {
            nb::gil_scoped_release release;
            return Script::compile(source, entry, file).value();
          },
          nb::arg("source"), nb::arg("entry"), nb::arg("file") = "script.py",
          "The function `entry` of a source in TorchScript's language with all that it calls, or the forward of the module class `entry`. "
          "`file` is what errors call the source. Errors: BadInput in torch's words, with `where` as file:line:column.")
      .def_static("load", load_script, nb::arg("path"), nb::arg("entry") = nb::none(),
                  nb::sig("def load(path: str | os.PathLike[str], entry: str | None = None) -> Script"),
                  "The same from a file; without `entry`, the file's text is IR as torch prints it. Errors: BadInput.")
      .def_static(
          "parse",
          [](const std::string& text, std::vector<std::string> weights) { return Script::parse(text, std::move(weights)).value(); },
          nb::arg("text"), nb::arg("weights") = std::vector<std::string>(),
          "From the text of a graph, as torch prints it. `weights` names the last inputs. Errors: BadInput with line and column.")
      .def("__call__", call_script, nb::sig("def __call__(self, *args: object, **kwargs: object) -> Any"),
           "Runs it. Tensors are passed without copies, but for read-only ones; what it does to lists, dicts and tensors, the caller sees. "
           "Several results are a tuple. Releases the GIL. Errors: BadInput for arguments, and for what the program raises.")
      .def_prop_ro(
          "params", [](const Script& s) { return s.params(); }, "What a caller passes, in order.")
      .def_prop_ro(
          "weights", [](const Script& s) { return s.weights(); }, "Parameters and buffers of a module, by their names in its state dict.")
      .def("state_dict", script_state, nb::sig("def state_dict(self) -> dict[str, Any]"), "Weights that have values.")
      .def("with_state_dict", with_weights, nb::arg("weights"),
           "The program with values for weights. Their memory is shared: what it writes to a buffer is written there. Names that it does "
           "not "
           "use are passed over. Errors: BadInput.")
      .def(
          "gradient",
          [](const Script& s, std::vector<std::string> wrt) {
            nb::gil_scoped_release release;
            return s.gradient(wrt).value();
          },
          nb::arg("wrt"),
          "The program that gives gradients behind its results: one for each name of a parameter or weight in `wrt`, of the sum of all "
          "floating elements of the results. Errors: BadInput, Unsupported.")
      .def(
          "with_options", [](const Script& s, nb::kwargs options) { return s.with_options(options_of(options)); }, nb::arg("options"),
          "The same program under other options, of which interpret, forbid_fallback and threads count.")
      .def("explain", &Script::explain, "The plans that calls so far have got, and why calls go to the interpreter where they do.")
      .def("text", &Script::text, "Its graph as text.")
      .def("__repr__", signature);
}

} // namespace tenon::python
