// tenon.Program: load, look, change weights, compile, save.
#include <nanobind/stl/optional.h>

#include "exchange.h"

namespace tenon::python {

namespace {

std::string path_of(nb::handle path) {
  nb::object text = nb::steal(PyOS_FSPath(path.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return PyBytes_Check(text.ptr()) ? nb::cast<nb::bytes>(text).c_str() : nb::cast<std::string>(text);
}

// What `f` gives, without the GIL.
template <class F> auto unlocked(F&& f) {
  nb::gil_scoped_release release;
  return f();
}

PyProgram load(nb::object source, std::optional<std::string> method) {
  if (PyBytes_Check(source.ptr())) {
    if (method) bad_input("a method is chosen from a file, not from bytes");
    auto bytes = nb::borrow<nb::bytes>(source);
    std::span<const std::byte> span(static_cast<const std::byte*>(bytes.data()), bytes.size());
    return {unlocked([&] { return Program::load(span, "bytes").value(); }), keep_alive(source), source, nb::none()};
  }
  std::string path = path_of(source);
  Program program = unlocked([&] { return method ? Program::load(path, *method).value() : Program::load(path).value(); });
  return {std::move(program), {}, nb::cast(path), nb::cast(method)};
}

PyProgram load_graph(const std::string& json, nb::dict weights) {
  std::vector<NamedTensor> list = tensors_of(weights);
  nb::gil_scoped_release release;
  return {Program::load_graph(json, list).value(), {}};
}

PyExecutable* compile(const PyProgram& p, nb::kwargs kwargs) {
  Options options = options_of(kwargs);
  auto made = unlocked([&] { return std::make_unique<PyExecutable>(p.program.compile(options).value(), p.bytes); });
  made->program = p.program;
  if (p.source.is_valid()) made->origin = nb::make_tuple(p.source, p.method, kwargs);
  return made.release();
}

PyExecutable* load_compiled(nb::object path, nb::kwargs kwargs) {
  Options options = options_of(kwargs);
  std::string from = path_of(path);
  auto made = unlocked([&] { return std::make_unique<PyExecutable>(Executable::load(from, options).value()); });
  made->origin = nb::make_tuple(from, nb::none(), kwargs);
  return made.release();
}

// Views of the file, or of the bytes that were loaded.
nb::dict named(const PyProgram& p, const std::vector<NamedTensor>& tensors) {
  nb::dict out;
  for (auto& [name, t] : tensors) {
    auto both = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(t.storage(), p.bytes);
    out[name.c_str()] = PyTensor{Tensor(t.dtype(), t.sizes(), t.strides(), both, t.data()), true};
  }
  return out;
}

PyProgram with_state_dict(const PyProgram& p, nb::dict weights) {
  std::vector<NamedTensor> list = tensors_of(weights);
  return {unlocked([&] { return p.program.with_state_dict(list).value(); }), p.bytes, {}, {}};
}

nb::list examples(const PyProgram& p) {
  nb::list out;
  for (auto& t : p.program.example_inputs().value()) out.append(to_python(t, {}));
  return out;
}

double error_of(const PyProgram& p, nb::sequence inputs, nb::kwargs kwargs) {
  Options options = options_of(kwargs);
  std::vector<Tensor> held;
  std::vector<TensorView> views;
  for (nb::handle i : inputs) held.push_back(is_number(i) ? number_tensor(i) : shared_tensor(i).tensor);
  for (auto& t : held) views.push_back(t.view());
  nb::gil_scoped_release release;
  return p.program.error_of(options, views).value();
}

std::string program_repr(const PyProgram& p) {
  return "tenon.Program(" + p.program.in_spec().to_string() + " -> " + p.program.out_spec().to_string() + ")";
}

void bind_info(nb::module_& m) {
  nb::class_<ArgInfo>(m, "ArgInfo", "An input or output of a program, flattened.")
      .def_ro("name", &ArgInfo::name)
      .def_prop_ro("dtype", [](const ArgInfo& a) { return std::string(name_of(a.dtype)); })
      .def_ro("sizes", &ArgInfo::sizes, "As text: '4', or an expression over symbols such as 's77*2'.")
      .def_ro("is_number", &ArgInfo::is_number)
      .def_ro("dim_order", &ArgInfo::dim_order, "Dims in the order of memory, outermost first; empty: row-major.")
      .def_ro("requires_grad", &ArgInfo::requires_grad)
      .def_ro("device", &ArgInfo::device, "As exported; tenon runs on the CPU.")
      .def("__repr__", [](const ArgInfo& a) { return a.name + ": " + Tree(a).to_string(); });
}

} // namespace

std::vector<NamedTensor> tensors_of(nb::dict weights, bool are_written) {
  std::vector<NamedTensor> list;
  for (auto [name, value] : weights) {
    PyTensor t = shared_tensor(value);
    if (t.is_readonly && are_written)
      bad_input("weight " + nb::cast<std::string>(name) + " is read-only, and the program may write to it: give a copy");
    list.push_back({nb::cast<std::string>(name), std::move(t.tensor)});
  }
  return list;
}

void bind_program(nb::module_& m) {
  bind_info(m);
  nb::class_<PyProgram>(m, "Program", "A program as loaded: graph, weights, calling convention. Immutable; safe to share between threads.")
      .def_static("load", load, nb::arg("source"), nb::arg("method") = nb::none(),
                  nb::sig("def load(source: str | os.PathLike[str] | bytes, method: str | None = None) -> Program"),
                  "Loads a .pt2 that torch.export.save wrote, from a file, which is mapped and must not change, or from bytes. `method` "
                  "names one of "
                  "several programs of an archive. Errors: BadInput, Unsupported.")
      .def_static("load_graph", load_graph, nb::arg("json"), nb::arg("weights") = nb::dict(),
                  nb::sig("def load_graph(json: str, weights: dict[str, object] = {}) -> Program"),
                  "A program from its graph in the schema of torch.export's archives (models/NAME.json there). `weights` are its "
                  "parameters, buffers and constants, whose memory is shared and must not change. Errors: BadInput, Unsupported.")
      .def_static(
          "methods", [](nb::object path) { return Program::methods(path_of(path)).value(); }, nb::arg("path"),
          nb::sig("def methods(path: str | os.PathLike[str]) -> list[str]"), "The names of the programs in an archive.")
      .def_prop_ro(
          "inputs", [](const PyProgram& p) { return p.program.inputs(); }, "Flattened inputs; None and strings left out.")
      .def_prop_ro(
          "outputs", [](const PyProgram& p) { return p.program.outputs(); }, "Flattened outputs.")
      .def_prop_ro(
          "in_spec", [](const PyProgram& p) { return p.program.in_spec().to_string(); }, "How arguments nest, as text.")
      .def_prop_ro(
          "out_spec", [](const PyProgram& p) { return p.program.out_spec().to_string(); }, "How results nest, as text.")
      .def_prop_ro(
          "unsupported", [](const PyProgram& p) { return p.program.unsupported(); }, "Operators that nothing here can run.")
      .def_prop_ro("torch_version", [](const PyProgram& p) { return p.program.torch_version(); })
      .def("example_inputs", examples, "The example inputs of the archive, flattened. Errors: BadInput where it holds none.")
      .def(
          "dump",
          [](const PyProgram& p, const std::string& stage, nb::kwargs options) {
            Options o = options_of(options);
            nb::gil_scoped_release release;
            return p.program.dump(stage, o).value();
          },
          nb::arg("stage"), nb::arg("options"),
          "The program as text after a stage: aten, core, edge, backend, regions, kernels, loops, plan, llvm, asm.")
      .def(
          "state_dict", [](const PyProgram& p) { return named(p, p.program.state_dict()); },
          nb::sig("def state_dict(self) -> dict[str, Tensor]"), "Parameters and persistent buffers: read-only views of the file.")
      .def(
          "constants", [](const PyProgram& p) { return named(p, p.program.constants()); },
          nb::sig("def constants(self) -> dict[str, Tensor]"))
      .def("with_state_dict", with_state_dict, nb::arg("weights"),
           "The program with other weights in the place of those named. Their memory is shared: it must not change afterwards. Errors: "
           "BadInput.")
      .def("compile", compile, nb::arg("options"),
           "Native code for the program; options are those of tenon::Options by name. Releases the GIL. Errors: Unsupported lists "
           "operators that "
           "are missing; BadInput an option that there is not.")
      .def("error_of", error_of, nb::arg("inputs"), nb::arg("options"),
           "The largest difference that the options make, over the largest magnitude of an output.")
      .def(
          "save",
          [](const PyProgram& p, nb::object path) {
            std::string to = path_of(path);
            nb::gil_scoped_release release;
            p.program.save(to).check();
          },
          nb::arg("path"), "Writes a .pt2 that torch.export.load reads.")
      .def(
          "save_compiled",
          [](const PyProgram& p, nb::object path, nb::kwargs options) {
            Options o = options_of(options);
            std::string to = path_of(path);
            nb::gil_scoped_release release;
            p.program.save_compiled(to, o).check();
          },
          nb::arg("path"), nb::arg("options"),
          "Writes plan, machine code and packed weights, for load_compiled on machines of the same kind.")
      .def("__repr__", program_repr);
  m.def(
      "is_supported", [](const std::string& overload) { return is_supported(overload); }, nb::arg("overload"),
      "Whether programs may call the operator, by its overload's name: 'aten::add.Tensor', 'aten::relu'.");
  m.def("load_compiled", load_compiled, nb::arg("path"), nb::arg("options"),
        "What Program.save_compiled wrote. It holds machine code: load it only from where you would load a library. Errors: BadInput, "
        "Unsupported.");
}

} // namespace tenon::python
