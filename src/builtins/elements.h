// Single elements of tensors as numbers, and torch's codes of dtypes.
#pragma once
#include "builtins/ivalue.h"

namespace tenon::builtins {

/// torch's numbers of dtypes: 6 is float32, 4 int64. Throws Error(BadInput) for a dtype that tensors here have not.
DType dtype_of_code(int64_t code);
int64_t code_of_dtype(DType dtype);

/// The number at byte address `p`.
IValue load_element(const void* p, DType dtype);
/// The only element of a tensor as an int, float, bool or complex number. Raises where there are more, or none.
IValue item(const Tensor& t);
/// Of a tensor its only element, else the number itself; complex parts must be zero, and floats fit.
double float_of_value(const IValue& v);
int64_t int_of_value(const IValue& v);
/// Whether the only element is not zero, in torch's words where there are more or none.
bool is_true(const Tensor& t);
/// A contiguous copy of `t` in another type, or `t` itself where it has that type.
Tensor converted(const Tensor& t, DType dtype);

} // namespace tenon::builtins
