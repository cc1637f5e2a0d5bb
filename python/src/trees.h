// Python's nested arguments and results as tenon::Trees, and back.
#pragma once
#include "exchange.h"

namespace tenon::python {

/// Tensors share the memory of the caller's; `readonly` gets whether one of them is read-only.
Tree to_tree(nb::handle object, Wish& wish);
/// Classes are those that are registered, or found where their name says, else named tuples made for them.
nb::object from_tree(const Tree& tree, const Wish& wish);
/// `cls` is a named tuple or dataclass that `name` in a program means.
void register_class(const std::string& name, nb::object cls);

} // namespace tenon::python
