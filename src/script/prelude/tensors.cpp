// Functions of torch that are no operators.
#include "script/prelude/prelude.h"

namespace tenon::script::prelude {

const char tensors[] = R"py(import torch
from typing import List, Optional, Tuple

def norm(input, p=2.0, dim=None, keepdim=False, out=None, dtype: Optional[int] = None):
    if dim is None:
        return torch.linalg.vector_norm(input, 2.0 if isinstance(p, str) else p, None, keepdim, dtype=dtype)
    else:
        return torch.linalg.vector_norm(input, 2.0 if isinstance(p, str) else p, [dim] if isinstance(dim, int) else dim, keepdim, dtype=dtype)

def unique(input, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None):
    if dim is not None:
        out, inverse, counts = torch.unique_dim(input, dim, sorted, return_inverse, return_counts)
    else:
        out, inverse, counts = torch._unique2(input, sorted, return_inverse, return_counts)
    if return_inverse:
        if return_counts:
            return out, inverse, counts
        else:
            return out, inverse
    else:
        if return_counts:
            return out, counts
        else:
            return out

def is_tensor(obj):
    return isinstance(obj, torch.Tensor)

def equal(input, other) -> bool:
    if input.size() != other.size():
        return False
    return bool((input == other).all())

def allclose(input, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(torch.isclose(input, other, rtol, atol, equal_nan).all())

def _int(input):
    return input.to(torch.int32)

def _long(input):
    return input.to(torch.int64)

def _short(input):
    return input.to(torch.int16)

def _char(input):
    return input.to(torch.int8)

def _byte(input):
    return input.to(torch.uint8)

def _half(input):
    return input.to(torch.float16)

def _float(input):
    return input.to(torch.float32)

def _double(input):
    return input.to(torch.float64)

def _bool(input):
    return input.to(torch.bool)

def _bfloat16(input):
    return input.to(torch.bfloat16)

def _cfloat(input):
    return input.to(torch.complex64)

def _cdouble(input):
    return input.to(torch.complex128)

)py";

} // namespace tenon::script::prelude
