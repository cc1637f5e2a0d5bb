// Operators of the user's own: torch.library operators that a program calls, given as a C function, or as a scalar
// expression, which fuses like a built-in operator; and kernels, C functions that compute an operator that tenon has. The structs are
// plain C (custom_op.c.h), so that shared libraries can hold both; C reads this header too.
#pragma once
#include "tenon/custom_op.c.h" // IWYU pragma: export

#ifdef __cplusplus
#include <string>

#include "tenon/error.h"

namespace tenon {

/// Makes an operator known to programs loaded from now on, in the whole process. Errors: BadInput for a schema, rule or expression
/// that is wrong, and for a name that has another meaning already. Thread-safe.
TENON_API Status register_op(const tenon_op& op);

/// Makes a kernel known, in the whole process; Options::kernels says which programs it is for. Errors: BadInput for an operator, dtype or
/// layout that there is not, for operators that write their arguments, and for a name that has another meaning already. Thread-safe.
TENON_API Status register_kernel(const tenon_kernel& kernel);

/// Registers what the shared library at `path` exports: also operators of TorchScript (operator.h: tenon_operators). The library stays
/// loaded. Errors: BadInput. Thread-safe.
TENON_API Status load_op_library(const std::string& path);

} // namespace tenon

#endif
