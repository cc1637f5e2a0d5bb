// Types as Python writes them: "Optional[List[int]]", "int | None", torch.Tensor, named tuples of the script.
#pragma once
#include "script/values.h"

namespace tenon::script {

/// Throws Error(BadInput) for what is no type that scripts know.
Type type_of_annotation(const Exp& annotation, const Scope& scope);
/// A class that is a named tuple: its type. Defaults are in the class.
std::optional<Type> named_tuple_of(const ClassRef& cls);
/// The name with the folders it was imported from: "torch.nn.Module", "typing.List". Empty where it is no name.
std::string qualified_name(const Exp& e, const Scope& scope);

} // namespace tenon::script
