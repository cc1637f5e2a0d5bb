// Trees: dicts, lists, tuples, named tuples, dataclasses, classes that torch knows as pytree nodes, and leaves.
#include "trees.h"

#include <map>

namespace tenon::python {

namespace {

using Kind = Tree::Kind;

nb::object import_attr(const char* module, const char* name) { return nb::module_::import_(module).attr(name); }

bool is_instance(nb::handle o, const char* module, const char* name) {
  return PyObject_IsInstance(o.ptr(), import_attr(module, name).ptr()) == 1;
}

nb::object loaded(const char* module) {
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  return found ? nb::borrow(found) : nb::object();
}

std::string class_name(nb::handle o) {
  return nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(o.ptr()))).attr("__qualname__"));
}

std::map<std::string, nb::object>& classes() {
  static auto* known = new std::map<std::string, nb::object>; // never destroyed: Python may be gone by then
  return *known;
}

// By the name that a program has for the class, where it was registered under one.
std::string type_name_of(nb::handle o) {
  nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(o.ptr())));
  for (auto& [name, cls] : classes())
    if (cls.is(type)) return name;
  if (nb::object pytree = loaded("torch.utils._pytree"); pytree.is_valid()) {
    nb::object node = pytree.attr("SERIALIZED_TYPE_TO_PYTHON_TYPE");
    for (auto [name, cls] : nb::cast<nb::dict>(node))
      if (cls.is(type)) return nb::cast<std::string>(name);
  }
  return class_name(o);
}

Tree key_of(nb::handle key) {
  Wish none;
  if (is_instance(key, "enum", "Enum")) return Tree::Word{class_name(key) + "." + nb::cast<std::string>(key.attr("name"))};
  if (PyTuple_Check(key.ptr())) return Tree::Word{nb::repr(key).c_str()};
  return to_tree(key, none);
}

std::vector<Tree> children_of(nb::handle sequence, Wish& wish) {
  std::vector<Tree> out;
  for (nb::handle child : sequence) out.push_back(to_tree(child, wish));
  return out;
}

Tree dict_of(nb::handle dict, Wish& wish) {
  std::vector<Tree::Entry> entries;
  for (auto [key, value] : nb::borrow<nb::dict>(dict)) entries.emplace_back(key_of(key), to_tree(value, wish));
  return Tree::dict(std::move(entries)); // dicts of all kinds stand for each other
}

Tree fields_of(nb::handle o, nb::handle names, bool is_tuple, Wish& wish) {
  std::vector<Tree::Entry> entries;
  for (nb::handle name : names) entries.emplace_back(Tree(nb::cast<std::string>(name)), to_tree(o.attr(name), wish));
  return is_tuple ? Tree::named_tuple(type_name_of(o), std::move(entries)) : Tree::dataclass(type_name_of(o), std::move(entries));
}

// Of a class that the user registered with torch.
bool torch_node(nb::handle o, Wish& wish, Tree& out) {
  nb::object pytree = loaded("torch.utils._pytree");
  if (!pytree.is_valid()) return false;
  nb::object node = pytree.attr("SUPPORTED_NODES").attr("get")(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(o.ptr()))));
  if (node.is_none()) return false;
  nb::object parts = node.attr("flatten_fn")(o);
  out = Tree::object(type_name_of(o), children_of(parts[0], wish));
  return true;
}

bool leaf_of(nb::handle o, Tree& out) {
  PyObject* p = o.ptr();
  if (o.is_none()) out = nullptr;
  else if (PyBool_Check(p)) out = p == Py_True;
  else if (PyLong_Check(p)) out = nb::cast<int64_t>(o);
  else if (PyFloat_CheckExact(p)) out = PyFloat_AS_DOUBLE(p);
  else if (PyUnicode_Check(p)) out = nb::cast<std::string>(o);
  else if (PyComplex_CheckExact(p)) out = std::complex<double>(PyComplex_RealAsDouble(p), PyComplex_ImagAsDouble(p));
  else return false;
  return true;
}

// torch.float32, torch.device("cpu"), torch.strided.
bool torch_word(nb::handle o, Tree& out) {
  nb::object torch = loaded("torch");
  if (!torch.is_valid()) return false;
  std::string text = nb::str(o).c_str();
  if (PyObject_IsInstance(o.ptr(), torch.attr("dtype").ptr()) == 1) return out = dtype_named(text), true;
  for (const char* kind : {"device", "layout", "memory_format"})
    if (PyObject_IsInstance(o.ptr(), torch.attr(kind).ptr()) == 1) return out = Tree::Word{text.substr(text.rfind('.') + 1)}, true;
  return false;
}

// ---- results

// The class of that name: registered, torch's, or where the name says that it is.
nb::object class_named(const std::string& name) {
  if (auto at = classes().find(name); at != classes().end()) return at->second;
  if (nb::object pytree = loaded("torch.utils._pytree"); pytree.is_valid()) {
    nb::object found = pytree.attr("SERIALIZED_TYPE_TO_PYTHON_TYPE").attr("get")(name);
    if (!found.is_none()) return found;
  }
  size_t dot = name.rfind('.');
  if (dot == name.npos) return {};
  nb::object module = loaded(name.substr(0, dot).c_str());
  if (!module.is_valid()) return {};
  nb::object found = nb::getattr(module, name.substr(dot + 1).c_str(), nb::none());
  return PyType_Check(found.ptr()) ? found : nb::object();
}

nb::object generic_class(const Tree& tree, const nb::list& names) {
  static auto* made = new std::map<std::string, nb::object>;
  std::string key = tree.type() + nb::repr(names).c_str();
  nb::object& cls = (*made)[key];
  if (!cls.is_valid())
    cls = import_attr("collections", "namedtuple")(tree.type().substr(tree.type().find_last_of(".:") + 1), names, nb::arg("rename") = true);
  return cls;
}

nb::object object_from(const Tree& tree, const Wish& wish) {
  nb::list values, names;
  for (auto& c : tree.children()) values.append(from_tree(c, wish));
  for (size_t i = 0; i < tree.size(); i++)
    names.append(tree.keys().empty() ? nb::str(("_" + std::to_string(i)).c_str()) : nb::str(tree.keys()[i].get<std::string>().c_str()));
  nb::object cls = class_named(tree.type());
  if (cls.is_valid() && PyObject_HasAttrString(cls.ptr(), "_fields")) return cls(*values);
  if (cls.is_valid() && PyObject_HasAttrString(cls.ptr(), "__dataclass_fields__")) {
    nb::dict fields;
    for (size_t i = 0; i < tree.size(); i++) fields[names[i]] = values[i];
    return cls(**fields);
  }
  if (nb::object pytree = loaded("torch.utils._pytree"); cls.is_valid() && pytree.is_valid()) {
    nb::object node = pytree.attr("SUPPORTED_NODES").attr("get")(cls);
    nb::object context = tree.context().empty() ? nb::none() : import_attr("json", "loads")(tree.context());
    if (!node.is_none()) return node.attr("unflatten_fn")(values, context);
  }
  return generic_class(tree, names)(*values);
}

nb::object leaf_from(const Tree& tree, const Wish& wish) {
  if (auto* v = tree.as<Tensor>()) return to_python(*v, wish);
  if (auto* v = tree.as<bool>()) return nb::bool_(*v);
  if (auto* v = tree.as<int64_t>()) return nb::int_(*v);
  if (auto* v = tree.as<double>()) return nb::float_(*v);
  if (auto* v = tree.as<std::complex<double>>()) return nb::steal(PyComplex_FromDoubles(v->real(), v->imag()));
  if (auto* v = tree.as<std::string>()) return nb::str(v->data(), v->size());
  if (auto* v = tree.as<Tree::Word>()) return nb::str(v->text.data(), v->text.size());
  if (auto* v = tree.as<DType>()) return nb::str(name_of(*v).data(), name_of(*v).size());
  return nb::none();
}

} // namespace

Tree to_tree(nb::handle o, Wish& wish) {
  PyObject* p = o.ptr();
  Tree out;
  if (leaf_of(o, out)) return out;
  if (PyDict_Check(p)) return dict_of(o, wish);
  if (PyTuple_Check(p)) {
    nb::object names = nb::getattr(o, "_fields", nb::none());
    return names.is_none() ? Tree::tuple(children_of(o, wish)) : fields_of(o, names, true, wish);
  }
  if (PyList_Check(p)) return Tree::list(children_of(o, wish));
  if (PyObject_HasAttrString(p, "__dlpack__") || PyObject_CheckBuffer(p)) return shared_tensor(o, nullptr, &wish).tensor;
  if (is_instance(o, "collections", "deque")) return Tree::deque(children_of(o, wish));
  if (nb::object fields = nb::getattr(o, "__dataclass_fields__", nb::none()); !fields.is_none()) return fields_of(o, fields, false, wish);
  if (torch_word(o, out) || torch_node(o, wish, out)) return out;
  bad_input("an object of the type " + class_name(o) + " is no tensor, number, text, dict, list, tuple or dataclass");
}

nb::object from_tree(const Tree& tree, const Wish& wish) {
  if (tree.is_leaf()) return leaf_from(tree, wish);
  if (tree.is_dict()) {
    nb::dict d;
    for (size_t i = 0; i < tree.size(); i++) d[leaf_from(tree.keys()[i], wish)] = from_tree(tree.children()[i], wish);
    if (tree.kind() == Kind::OrderedDict) return import_attr("collections", "OrderedDict")(d);
    return tree.kind() == Kind::DefaultDict ? import_attr("collections", "defaultdict")(nb::none(), d) : nb::object(d);
  }
  if (tree.kind() == Kind::NamedTuple || tree.kind() == Kind::Object) return object_from(tree, wish);
  nb::list values;
  for (auto& c : tree.children()) values.append(from_tree(c, wish));
  if (tree.kind() == Kind::Tuple) return nb::tuple(values);
  return tree.kind() == Kind::Deque ? import_attr("collections", "deque")(values) : nb::object(values);
}

void register_class(const std::string& name, nb::object cls) { classes()[name] = std::move(cls); }

} // namespace tenon::python
