// What a caller passes, held to the types that the program asks for.
#pragma once
#include <span>

#include "script/program.h"

namespace tenon::script {

/// The value as one of the type: an int for a float, a tuple for a list. Throws Error(BadInput) that begins with `what` where it is none.
IValue convert(IValue v, const Type& type, std::string_view what);
/// A value for each parameter, defaults filled in. Throws Error(BadInput) that names the parameter.
std::vector<IValue> bind_arguments(std::span<const ScriptParam> params, std::vector<IValue> positional,
                                   std::span<const std::pair<std::string, IValue>> keywords);

} // namespace tenon::script
