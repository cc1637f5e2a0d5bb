// Functions of backward passes in the script language: how gradients are put together.
#include "autodiff/derivatives.h"

namespace tenon::autodiff::prelude {

const char gradients[] = R"py(import torch
import math
from typing import Any, Dict, List, Optional, Tuple

def both(a, b):
    return a + b

def add_to(a: Optional[Tensor], b: Tensor) -> Tensor:
    return b if a is None else a + b

def either(a: Optional[Tensor], b: Optional[Tensor]) -> Optional[Tensor]:
    return b if a is None else a if b is None else a + b

def or_zeros(grad: Optional[Tensor], of: Tensor) -> Tensor:
    return torch.zeros_like(of) if grad is None else grad

def final(grad: Optional[Tensor], of: Tensor) -> Tensor:
    assert not of.is_complex() and (grad is None or grad.dtype == of.dtype), "gradients of complex numbers are not supported"
    return torch.zeros_like(of) if grad is None else grad

def zeros(of: Tensor) -> Tensor:
    return torch.zeros_like(of)

def size_if_any(of: Optional[Tensor]) -> List[int]:
    size: List[int] = []
    return size if of is None else of.size()

def dtype_if_any(of: Optional[Tensor]) -> int:
    return torch.float32 if of is None else of.dtype

def reduced(grad: Tensor, size: List[int], dtype: int) -> Tensor:
    return grad.sum_to_size(size).to(dtype)

# ---- tensors that lists, tuples and dicts hold

def take(grads: Any, of: Optional[Tensor]) -> Optional[Tensor]:
    return torch._gradient_take(grads, of)

def put(grads: Any, of: Optional[Tensor], grad: Optional[Tensor]):
    if of is not None and grad is not None:
        before = torch._gradient_take(grads, of)
        torch._gradient_put(grads, of, grad if before is None else before + grad)

def take_all(grads: Any, of: List[Tensor]) -> List[Tensor]:
    return [or_zeros(torch._gradient_take(grads, t), t) for t in of]

def take_one(grads: Any, of: Tensor) -> Tensor:
    return or_zeros(torch._gradient_take(grads, of), of)

def take_one_if_any(grads: Any, of: Optional[Tensor]) -> Optional[Tensor]:
    return None if of is None else take_one(grads, of)

def take_one_of_each(grads: Any, of):
    return {key: take_one(grads, t) for key, t in of.items()}

def put_all(grads: Any, of: List[Tensor], all: List[Tensor]):
    for i in range(len(of)):
        put(grads, of[i], all[i])

def copied(of: List[Tensor]) -> List[Tensor]:
    return [t.clone() for t in of]

# ---- memory that is written

def memory_gradient(grads: Any, of: Tensor) -> Tensor:
    return torch._gradient_memory(grads, of).expand(of.size()).clone()

def take_memory(grads: Any, of: Tensor) -> Tensor:
    memory = torch._gradient_memory(grads, of)
    grad = memory.expand(of.size()).clone()
    memory.zero_()
    return grad

def add_to_memory(grads: Any, of: Optional[Tensor], grad: Optional[Tensor]):
    if of is not None and grad is not None:
        memory = torch._gradient_memory(grads, of)
        memory.add_(grad.sum_to_size(memory.size()))

def memory_gradients(grads: Any, of: List[Tensor]) -> List[Tensor]:
    return [memory_gradient(grads, t) for t in of]

def memory_gradient_if_any(grads: Any, of: Optional[Tensor]) -> Optional[Tensor]:
    return None if of is None else memory_gradient(grads, of)

def memory_gradient_of_each(grads: Any, of):
    return {key: memory_gradient(grads, t) for key, t in of.items()}

def add_all_to_memory(grads: Any, of: List[Tensor], all: List[Tensor]):
    for i in range(len(of)):
        add_to_memory(grads, of[i], all[i])

# ---- what is differentiated where a program has several results

def ones(of: Tensor) -> Tensor:
    assert not of.is_complex(), "gradients of complex numbers are not supported"
    return torch.ones_like(of)

def nothing() -> Tensor:
    size: List[int] = []
    return torch.zeros(size)

def total_of_optional(of: Optional[Tensor]) -> Tensor:
    return nothing() if of is None else of.sum()

def total_of_list(of: List[Tensor]) -> Tensor:
    total = nothing()
    for t in of:
        if t.is_floating_point():
            total = total + t.sum()
    return total

def total_of_dict(of) -> Tensor:
    total = nothing()
    for t in of.values():
        if t.is_floating_point():
            total = total + t.sum()
    return total

)py";

} // namespace tenon::autodiff::prelude
