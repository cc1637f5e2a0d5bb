// What rows' derivatives call, in the script language: products, convolutions, normalization.
#include "autodiff/derivatives.h"

namespace tenon::autodiff::prelude {

const char products[] = R"py(
# ---- products

def matmul_left(grad, size: List[int], right):
    if len(size) == 1 and right.dim() == 1:
        return grad * right
    if right.dim() == 1:
        return (grad.unsqueeze(-1) * right).sum_to_size(size)
    if len(size) == 1:
        return (grad.unsqueeze(-2) @ right.mT).squeeze(-2).sum_to_size(size)
    return (grad @ right.mT).sum_to_size(size)

def matmul_right(grad, left, size: List[int]):
    if left.dim() == 1 and len(size) == 1:
        return grad * left
    if len(size) == 1:
        return (left.mT @ grad.unsqueeze(-1)).squeeze(-1).sum_to_size(size)
    if left.dim() == 1:
        return (left.unsqueeze(-1) * grad.unsqueeze(-2)).sum_to_size(size)
    if len(size) == 2 and left.dim() > 2:
        return left.reshape([-1, size[0]]).t() @ grad.reshape([-1, size[1]])
    return (left.mT @ grad).sum_to_size(size)

def inner_product(self, other):
    if self.dim() == 0 or other.dim() == 0:
        return self * other
    return contracted(self, other, [-1], [-1])

def contracted(self, other, dims_self: List[int], dims_other: List[int]):
    rows: List[int] = []
    columns: List[int] = []
    first: List[int] = []
    second: List[int] = []
    for d in dims_self:
        first.append(d + self.dim() if d < 0 else d)
    for d in dims_other:
        second.append(d + other.dim() if d < 0 else d)
    sizes: List[int] = []
    inner = 1
    for d in first:
        inner = inner * self.size(d)
    for d in range(self.dim()):
        if d not in first:
            rows.append(d)
            sizes.append(self.size(d))
    for d in range(other.dim()):
        if d not in second:
            columns.append(d)
            sizes.append(other.size(d))
    a = self.permute(rows + first).reshape([-1, inner])
    b = other.permute(second + columns).reshape([inner, -1])
    return (a @ b).reshape(sizes)

def product_of(matrices: List[Tensor]):
    out = matrices[0]
    for i in range(1, len(matrices)):
        out = out @ matrices[i]
    return out

def power_of_matrix(self, n: int):
    base = torch.linalg_inv(self) if n < 0 else self
    times = -n if n < 0 else n
    if times == 0:
        return torch.eye(self.size(-1), dtype=self.dtype).expand(self.size()) + self * 0
    out = base
    for _ in range(times - 1):
        out = out @ base
    return out

def kronecker(self, other):
    rank = max(self.dim(), other.dim())
    a: List[int] = []
    b: List[int] = []
    sizes: List[int] = []
    for d in range(rank):
        m = self.size(d - rank + self.dim()) if d >= rank - self.dim() else 1
        n = other.size(d - rank + other.dim()) if d >= rank - other.dim() else 1
        a.extend([m, 1])
        b.extend([1, n])
        sizes.append(m * n)
    return (self.reshape(a) * other.reshape(b)).reshape(sizes)

def first_of_three(self, dim: Optional[int]) -> int:
    if dim is not None:
        return dim
    for d in range(self.dim()):
        if self.size(d) == 3:
            return d
    return -1

def bilinear_of(input1, input2, weight, bias: Optional[Tensor]):
    left = torch.einsum("...i,oij->...oj", [input1, weight])
    out = (left * input2.unsqueeze(-2)).sum(-1)
    return out if bias is None else out + bias

# The letters of each operand, then those of the result.
def einsum_terms(equation: str, count: int) -> List[str]:
    text = equation.replace(" ", "").replace("...", ".")
    if "->" in text:
        sides = text.split("->")
        return sides[0].split(",") + [sides[1]]
    terms = text.split(",")
    out = "." if "." in text else ""
    for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz":
        if text.count(c) == 1:
            out = out + c
    return terms + [out]

def einsum_operand(grad, terms: List[str], tensors: List[Tensor], k: int):
    mine = terms[k]
    others: List[Tensor] = [grad]
    lhs = terms[len(tensors)]
    for i in range(len(tensors)):
        if i != k:
            others.append(tensors[i])
            lhs = lhs + "," + terms[i]
    there = ""
    for c in mine:
        assert mine.count(c) == 1, "the derivative of an einsum that takes a diagonal"
        if c in lhs:
            there = there + c
    part = torch.einsum((lhs + "->" + there).replace(".", "..."), others)
    dots = tensors[k].dim() - (len(mine) - 1 if "." in mine else len(mine))
    more = part.dim() - (len(there) - 1 if "." in there else len(there))
    size: List[int] = []
    full: List[int] = []
    at = 0
    place = 0
    for c in mine:
        n = dots if c == "." else 1
        if c == ".":
            for j in range(more):
                size.append(part.size(at + j))
                full.append(part.size(at + j))
            at += more
        elif c in there:
            size.append(part.size(at))
            full.append(part.size(at))
            at += 1
        else:
            size.append(1)
            full.append(tensors[k].size(place))
        place += n
    return part.reshape(size).expand(full).sum_to_size(tensors[k].size())

def einsum_operands(grad, equation: str, tensors: List[Tensor]) -> List[Tensor]:
    terms = einsum_terms(equation, len(tensors))
    return [einsum_operand(grad, terms, tensors, k) for k in range(len(tensors))]

def attention_of(query, key, value, attn_mask: Optional[Tensor], dropout_p: float, is_causal: bool, scale: Optional[float], enable_gqa: bool):
    factor = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    k = key
    v = value
    if enable_gqa:
        k = torch.repeat_interleave(key, query.size(-3) // key.size(-3), -3)
        v = torch.repeat_interleave(value, query.size(-3) // value.size(-3), -3)
    scores = (query * factor) @ k.transpose(-2, -1)
    if is_causal:
        below = torch.ones([query.size(-2), key.size(-2)], dtype=torch.bool).tril()
        scores = scores.masked_fill(~below, -math.inf)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        else:
            scores = scores + attn_mask
    weights = torch.softmax(scores, -1)
    if dropout_p > 0.0:
        weights = torch.dropout(weights, dropout_p, True)
    return weights @ v

# ---- convolution, pooling, normalization

def convolution_operands(grad, input, weight, stride: List[int], padding: List[int], dilation: List[int], transposed: bool, output_padding: List[int], groups: int, needs: List[bool]):
    single = input.dim() < weight.dim()
    g = grad.unsqueeze(0) if single else grad
    x = input.unsqueeze(0) if single else input
    n = weight.dim() - 2
    more = all_of(output_padding, n) if transposed else [0] * n
    a, b, c = torch.convolution_backward(g, x, weight, [g.size(1)], all_of(stride, n), all_of(padding, n), all_of(dilation, n), transposed, more, groups, needs)
    return a.squeeze(0) if single else a, b, c

def all_of(numbers: List[int], n: int) -> List[int]:
    return numbers * n if len(numbers) == 1 else numbers

def padded_convolution(input, weight, bias: Optional[Tensor], stride: List[int], padding: str, dilation: List[int], groups: int):
    n = weight.dim() - 2
    steps = all_of(dilation, n)
    pads: List[int] = []
    for k in range(n):
        d = n - 1 - k
        total = steps[d] * (weight.size(d + 2) - 1) if padding == "same" else 0
        pads.extend([total // 2, total - total // 2])
    x = torch.constant_pad_nd(input, pads, 0)
    if input.dim() < weight.dim():
        return torch.convolution(x.unsqueeze(0), weight, bias, all_of(stride, n), [0] * n, steps, False, [0] * n, groups).squeeze(0)
    return torch.convolution(x, weight, bias, all_of(stride, n), [0] * n, steps, False, [0] * n, groups)

def squeezed_pair(pair: Tuple[Tensor, Tensor]):
    return pair[0].squeeze(-2), pair[1].squeeze(-2)

def max_pooled(self, kernel_size: List[int], stride: List[int], padding: List[int], dilation: List[int], ceil_mode: bool):
    steps = or_else(stride, kernel_size)
    return squeezed_pair(torch.max_pool2d_with_indices(self.unsqueeze(-2), [1, kernel_size[0]], [1, steps[0]], [0, padding[0]], [1, dilation[0]], ceil_mode))

def batch_norm_operands(grad, input, weight: Optional[Tensor], running_mean: Optional[Tensor], running_var: Optional[Tensor], training: bool, eps: float, needs: List[bool]):
    dims = [0]
    size = [1] * input.dim()
    size[1] = input.size(1)
    for d in range(2, input.dim()):
        dims.append(d)
    if training or running_mean is None or running_var is None:
        mean = input.mean(dims)
        scale = (torch.var(input, dims, False) + eps).rsqrt()
    else:
        mean = running_mean
        scale = (running_var + eps).rsqrt()
    normalized = (input - mean.reshape(size)) * scale.reshape(size)
    g = grad if weight is None else grad * weight.reshape(size)
    if training or running_mean is None or running_var is None:
        g = g - g.mean(dims, True) - normalized * (g * normalized).mean(dims, True)
    return g * scale.reshape(size), (grad * normalized).sum(dims), grad.sum(dims)

def instance_norm_operands(grad, input, weight: Optional[Tensor], running_mean: Optional[Tensor], running_var: Optional[Tensor], use_input_stats: bool, eps: float, needs: List[bool]):
    if not use_input_stats:
        return batch_norm_operands(grad, input, weight, running_mean, running_var, False, eps, needs)
    dims = [d for d in range(2, input.dim())]
    size = [1] * input.dim()
    size[1] = input.size(1)
    scale = (torch.var(input, dims, False, True) + eps).rsqrt()
    normalized = (input - input.mean(dims, True)) * scale
    g = grad if weight is None else grad * weight.reshape(size)
    g = g - g.mean(dims, True) - normalized * (g * normalized).mean(dims, True)
    return g * scale, (grad * normalized).sum([0] + dims), grad.sum([0] + dims)

def rms_normalized(input, normalized_shape: List[int], weight: Optional[Tensor], eps: Optional[float]):
    dims = [-1 - d for d in range(len(normalized_shape))]
    least = eps if eps is not None else 2.220446049250313e-16 if input.dtype == torch.float64 else 1.1920928955078125e-07
    out = input * (input.pow(2).mean(dims, True) + least).rsqrt()
    return out if weight is None else out * weight

def norm_but(v, dim: int):
    if dim == -1:
        return torch.linalg_vector_norm(v, 2.0, None, True)
    dims = [d for d in range(v.dim())]
    dims.pop(dim)
    return torch.linalg_vector_norm(v, 2.0, dims, True)

def factor(scale_factors: Optional[List[float]], i: int) -> Optional[float]:
    return None if scale_factors is None else scale_factors[i]

)py";

} // namespace tenon::autodiff::prelude
