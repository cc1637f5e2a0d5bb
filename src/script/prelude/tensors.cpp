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

def is_tensor(obj):
    return isinstance(obj, torch.Tensor)
)py";

} // namespace tenon::script::prelude
