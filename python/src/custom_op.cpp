// register_op: operators as Python functions, as numba's compiled functions, as addresses of C functions, or as formulas.
#include <cstring>
#include <optional>

#include <nanobind/stl/optional.h>

#include "exchange.h"

namespace tenon::python {

namespace {

std::atomic<bool> python_operators = false;

Tensor tensor_of(const tenon_tensor& t) {
  std::vector<int64_t> sizes(t.sizes, t.sizes + t.rank), strides(t.strides, t.strides + t.rank);
  static char owner; // the call's memory: nobody's to free
  return Tensor(static_cast<DType>(t.dtype), std::move(sizes), std::move(strides), std::shared_ptr<void>(std::shared_ptr<void>(), &owner),
                t.data);
}

nb::object view_of(const tenon_tensor& t, bool is_readonly) {
  if (t.rank < 0) return nb::none();
  return to_python(tensor_of(t), {}, is_readonly);
}

nb::object argument(const tenon_value& v, bool is_list) {
  nb::list items;
  for (size_t i = 0; i < v.count; i++) {
    if (v.tensors) items.append(view_of(v.tensors[i], true));
    else if (v.ints) items.append(v.ints[i]);
    else if (v.numbers) items.append(v.numbers[i]);
    else if (v.texts) items.append(v.texts[i]);
  }
  if (is_list && (v.tensors || v.ints || v.numbers || v.texts)) return items;
  return items.size() == 1 ? nb::object(items[0]) : nb::none();
}

// A Python function. It, and this, live as long as the process.
struct Function {
  PyObject* function;
  bool writes; // it gets its outputs behind its arguments
  std::vector<bool> is_list;
};

// Copies what the function returned for output i.
void put(const tenon_tensor& to, nb::handle value, size_t i) {
  nb::object target = nb::module_::import_("numpy").attr("asarray")(nb::cast(PyTensor{tensor_of(to)}));
  nb::object source = nb::module_::import_("numpy").attr("asarray")(value);
  if (!nb::object(source.attr("shape")).equal(target.attr("shape")))
    bad_input("result " + std::to_string(i) + " has the shape " + nb::repr(source.attr("shape")).c_str() + ", the rule says " +
              nb::repr(target.attr("shape")).c_str());
  if (!nb::object(source.attr("dtype")).equal(target.attr("dtype")))
    bad_input("result " + std::to_string(i) + " is " + nb::str(source.attr("dtype")).c_str() + ", the rule says " +
              nb::str(target.attr("dtype")).c_str());
  nb::module_::import_("numpy").attr("copyto")(target, source);
}

void call_function(const Function& f, const tenon_op_call& call) {
  nb::list args;
  for (size_t i = 0; i < call.num_args; i++) args.append(argument(call.args[i], f.is_list[i]));
  if (f.writes)
    for (size_t i = 0; i < call.num_outputs; i++) args.append(view_of(call.outputs[i], false));
  nb::object result = nb::handle(f.function)(*args);
  if (f.writes) return;
  bool is_many = PyTuple_Check(result.ptr()) || PyList_Check(result.ptr());
  nb::object results = is_many ? result : nb::object(nb::make_tuple(result));
  if (nb::len(results) != call.num_outputs)
    bad_input(std::to_string(nb::len(results)) + " results are returned, the operator has " + std::to_string(call.num_outputs));
  for (size_t i = 0; i < call.num_outputs; i++) put(call.outputs[i], results[i], i);
}

const char* trampoline(const tenon_op_call* call) {
  thread_local std::string why;
  nb::gil_scoped_acquire gil;
  try {
    call_function(*static_cast<Function*>(call->data), *call);
    return nullptr;
  } catch (const std::exception& e) {
    why = e.what();
    return why.c_str();
  }
}

// A function that numba compiled: int64(void** data, int64** sizes). Tensors and numbers of the arguments come first, then outputs.
using Compiled = int64_t (*)(void** data, const int64_t** sizes);

const char* call_compiled(const tenon_op_call* call) {
  thread_local std::string why;
  std::vector<void*> data;
  std::vector<const int64_t*> sizes;
  auto add = [&](const void* p, const int64_t* s) { data.push_back(const_cast<void*>(p)), sizes.push_back(s); };
  for (size_t i = 0; i < call->num_args; i++) {
    const tenon_value& v = call->args[i];
    for (size_t k = 0; v.tensors && k < v.count; k++) add(v.tensors[k].data, v.tensors[k].sizes);
    if (v.ints) add(v.ints, nullptr);
    if (v.numbers) add(v.numbers, nullptr);
  }
  for (size_t i = 0; i < call->num_outputs; i++) add(call->outputs[i].data, call->outputs[i].sizes);
  int64_t code = reinterpret_cast<Compiled>(call->data)(data.data(), sizes.data());
  if (code == 0) return nullptr;
  why = "the function returned " + std::to_string(code);
  return why.c_str();
}

// Which arguments of a schema are lists: "Tensor[] xs", "int[2] sizes".
std::vector<bool> lists_in(const std::string& schema) {
  std::vector<bool> out;
  size_t begin = schema.find('('), end = schema.rfind("->");
  int depth = 0;
  std::string one;
  for (size_t i = begin == schema.npos ? schema.size() : begin + 1; i < std::min(end, schema.size()); i++) {
    char c = schema[i];
    if ((c == ',' && depth == 0) || (c == ')' && depth == 0)) {
      std::string type = one.substr(0, one.rfind(' '));
      if (one.find_first_not_of(" *") != one.npos) out.push_back(one.substr(0, one.find('=')).find('[') != one.npos);
      one.clear();
      if (c == ')') break;
      continue;
    }
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    one += c;
  }
  return out;
}

nb::object register_python(const std::string& schema, nb::object function, std::optional<std::string> results,
                           std::optional<std::string> expression, bool writes) {
  tenon_op op{
      .schema = schema.c_str(), .results = results ? results->c_str() : nullptr, .expression = expression ? expression->c_str() : nullptr};
  if (PyLong_Check(function.ptr())) op.function = reinterpret_cast<tenon_op_function>(nb::cast<uintptr_t>(function));
  else if (PyObject_HasAttrString(function.ptr(), "address") && PyObject_HasAttrString(function.ptr(), "native_name")) {
    op.function = call_compiled, op.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(function.attr("address")));
    Py_INCREF(function.ptr()); // its code
  } else if (!function.is_none()) {
    if (!PyCallable_Check(function.ptr())) bad_input("the function is neither callable, nor the address of a C function");
    op.function = trampoline;
    op.data = new Function{function.inc_ref().ptr(), writes, lists_in(schema)};
    python_operators = true;
  }
  register_op(op).check();
  return function;
}

} // namespace

bool has_python_operators() { return python_operators.load(std::memory_order_relaxed); }

void bind_custom_op(nb::module_& m) {
  m.def("register_op", register_python, nb::arg("schema"), nb::arg("function") = nb::none(), nb::kw_only(), nb::arg("results") = nb::none(),
        nb::arg("expression") = nb::none(), nb::arg("writes") = false,
        "Makes an operator known to programs loaded from now on. `schema`: 'mine::gate(Tensor x, float s) -> Tensor'; `results`: the shape "
        "rule, 'x' or "
        "'x[x.size(0), 2]; i64[3]' (custom_op.h). `function` is a Python function, called with the GIL on read-only numpy views, that "
        "returns "
        "the results, or with writes=True gets writable views of them behind its arguments; a cfunc of numba, int64(void** data, "
        "int64** sizes), called without the GIL on the arguments, then the outputs; or the address of a C function. Without one, "
        "`expression` gives each element: 'x * sigmoid(s*y)'. Errors: BadInput.");
  m.def(
      "load_op_library", [](const std::string& path) { load_op_library(path).check(); }, nb::arg("path"),
      "Registers what a shared library exports (custom_op.h). The library stays loaded.");
}

} // namespace tenon::python
