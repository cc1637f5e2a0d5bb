// What rows' derivatives call, in the script language: pointwise operators and reductions.
#include "autodiff/derivatives.h"

namespace tenon::autodiff::prelude {

const char operators[] = R"py(
# ---- sizes

def elements(size: List[int]) -> int:
    n = 1
    for s in size:
        n = n * s
    return n

# The size with ones for the dims that were reduced: all, where none are named.
def kept(size: List[int], dim: Optional[List[int]]) -> List[int]:
    out = list(size)
    if dim is None or len(dim) == 0:
        for d in range(len(size)):
            out[d] = 1
    elif len(size) > 0:
        for d in dim:
            out[d] = 1
    return out

def nowhere() -> List[int]:
    size: List[int] = []
    return size

def turned(size: List[int]) -> List[int]:
    return size if len(size) < 2 else [size[1], size[0]]

def or_else(given: List[int], otherwise: List[int]) -> List[int]:
    return given if len(given) > 0 else otherwise

def negated(numbers: List[int]) -> List[int]:
    return [-n for n in numbers]

def backwards(n: int) -> List[int]:
    return [n - 1 - d for d in range(n)]

def inverse_of(dims: List[int]) -> List[int]:
    out = list(dims)
    for i in range(len(dims)):
        out[dims[i]] = i
    return out

def padded_left(dims: List[int], rank: int) -> List[int]:
    return [1] * (rank - len(dims)) + dims

# ---- pointwise

def not_known(grad):
    raise RuntimeError("this argument has no derivative")
    return grad

def scaled(grad, by):
    return grad * by

def cast_back(grad, to: int, was: int):
    return grad.to(to) if is_floating(was) else torch.zeros_like(grad, dtype=to)

def is_floating(dtype: int) -> bool:
    return (dtype >= 5 and dtype <= 10) or dtype == 15

def prelu_slopes(self, weight):
    if weight.dim() == 0 or self.dim() == 0 or weight.numel() == 1:
        return weight.reshape([1] * self.dim())
    size = [1] * self.dim()
    size[0 if self.dim() == 1 else 1] = weight.numel()
    return weight.reshape(size)

def prelu_input(grad, self, weight):
    return torch.where(self >= 0, grad, grad * prelu_slopes(self, weight))

def prelu_weight(grad, self, weight_size: List[int]):
    share = torch.where(self >= 0, 0.0, grad * self)
    if elements(weight_size) == 1:
        return share.sum().reshape(weight_size)
    size = [1] * self.dim()
    size[0 if self.dim() == 1 else 1] = weight_size[0]
    return share.sum_to_size(size).reshape(weight_size)

def logit_input(grad, self, eps: Optional[float]):
    share = grad / (self * (1 - self))
    return share if eps is None else torch.where((self < eps) | (self > 1 - eps), 0.0, share)

def multivariate_lgamma(self, p: int):
    shifts = torch.arange(0, p, dtype=self.dtype) * -0.5
    return torch.lgamma(self.unsqueeze(-1) + shifts).sum(-1) + p * (p - 1) * 0.28618247146235004

def quotient_left(grad, other, rounding_mode: Optional[str]):
    return grad / other if rounding_mode is None else torch.zeros_like(grad)

def quotient_right(grad, self, other, rounding_mode: Optional[str]):
    return -(grad * (self / other) / other) if rounding_mode is None else torch.zeros_like(grad)

def power_of_number(grad, self, exponent):
    return torch.zeros_like(grad) if float(exponent) == 0.0 else grad * (exponent * self.pow(exponent - 1))

def power_base(grad, self, exponent):
    return torch.where(exponent == 0, 0.0, grad * (exponent * self.pow(exponent - 1)))

def power_exponent(grad, self, exponent, result):
    return torch.where((self == 0) & (exponent >= 0), 0.0, grad * (result * self.log()))

def number_power(grad, self, exponent, result):
    base = float(self)
    if base == 0.0:
        return torch.where(exponent >= 0, 0.0, grad * (result * -math.inf))
    return grad * (result * math.log(base))

# Where both are extreme, each has half.
def extreme_share(grad, self, other, wins):
    return torch.where(self == other, grad / 2, torch.where(wins, grad, 0.0))

def clamped(grad, self, min, max):
    out = grad
    if min is not None:
        out = torch.where(self >= min, out, 0.0)
    if max is not None:
        out = torch.where(self <= max, out, 0.0)
    return out

def clamped_to_least(self, min: Optional[Tensor], max: Optional[Tensor]):
    if min is None:
        return torch.zeros_like(self)
    below = self < min
    return below if max is None else below & (min < max)

def clamped_to_most(self, min: Optional[Tensor], max: Optional[Tensor]):
    if max is None:
        return torch.zeros_like(self)
    above = self > max
    return above if min is None else above | (max < min)

# ---- reductions

def of_mean(grad, size: List[int], dim: Optional[List[int]]):
    small = kept(size, dim)
    return (grad.reshape(small) * (elements(small) / elements(size))).expand(size)

def of_variance(grad, self, dim: Optional[List[int]], correction):
    small = kept(self.size(), dim)
    c = 1.0 if correction is None else float(correction)
    n = elements(self.size()) / elements(small)
    return grad.reshape(small) * (2.0 / (n - c)) * (self - self.mean(dim, True))

def of_root(grad, result):
    return (grad / (result * 2)).masked_fill(result == 0, 0)

def shared_extreme(grad, self, result, dim: Optional[List[int]]):
    small = kept(self.size(), dim)
    extreme = result.reshape(small)
    is_extreme = ((self == extreme) | (self.isnan() & extreme.isnan())).to(grad.dtype)
    return grad.reshape(small) * is_extreme / is_extreme.sum(dim, True)

def shared_extremes(grad, grad1, self, least, most, dim: Optional[int]):
    dims: Optional[List[int]] = None if dim is None else [dim]
    return shared_extreme(grad, self, least, dims) + shared_extreme(grad1, self, most, dims)

def picked(grad, size: List[int], indices, dim: int, keepdim: bool):
    if len(size) == 0:
        return grad.reshape(size)
    return torch.value_selecting_reduction_backward(grad, dim, indices, size, keepdim)

# For each element the product of the others along the dim.
def others_product(self, dim: int):
    n = self.size(dim)
    ones = torch.ones_like(self.narrow(dim, 0, 1))
    left = torch.cat([ones, self.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    right = torch.cat([ones, self.flip([dim]).narrow(dim, 0, n - 1)], dim).cumprod(dim).flip([dim])
    return left * right

def product_of_dim(grad, self, dim: int):
    if self.dim() == 0:
        return grad
    if self.numel() == 0:
        return torch.zeros_like(self)
    return grad.reshape(kept(self.size(), [dim])) * others_product(self, dim)

def reversed_cumsum(grad, dim: int):
    return grad if grad.dim() == 0 else grad.flip([dim]).cumsum(dim).flip([dim])

def cumulative_product(grad, self, result, dim: int):
    if self.dim() == 0 or self.numel() == 0:
        return grad
    if not bool((self == 0).any()):
        return reversed_cumsum(grad * result, dim) / self
    n = self.size(dim)
    rest = torch.zeros_like(grad.select(dim, 0))
    sums = [rest]
    for k in range(n):
        i = n - 1 - k
        rest = grad.select(dim, i) + (self.select(dim, i + 1) * rest if k > 0 else rest)
        sums.append(rest)
    before = torch.cat([torch.ones_like(self.narrow(dim, 0, 1)), self.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    return before * torch.stack(sums[1:], dim).flip([dim])

def of_norm(grad, self, p, result, dim: Optional[List[int]]):
    order = 2.0 if p is None else float(p)
    small = kept(self.size(), dim)
    g = grad.reshape(small)
    norm = result.reshape(small)
    if order == 0.0:
        return torch.zeros_like(self)
    if order == 1.0:
        return g * self.sign()
    if order == 2.0:
        return g * (self / norm).masked_fill(norm == 0, 0)
    if order == math.inf or order == -math.inf:
        is_extreme = (self.abs() == norm).to(self.dtype)
        return self.sign() * (g * is_extreme / is_extreme.sum(dim, True))
    if order < 1.0:
        return (self.sign() * self.abs().pow(order - 1)).masked_fill(self == 0, 0) * g * norm.pow(1 - order)
    if order < 2.0:
        return self.sign() * self.abs().pow(order - 1) * (g / norm.pow(order - 1)).masked_fill(norm == 0, 0)
    return self * self.abs().pow(order - 2) * (g / norm.pow(order - 1)).masked_fill(norm == 0, 0)

def renorm_scale(self, p, dim: int, maxnorm):
    dims = [d for d in range(self.dim())]
    dims.pop(dim)
    norm = torch.linalg_vector_norm(self, float(p), dims, True)
    return torch.where(norm > maxnorm, float(maxnorm) / (norm + 1e-7), 1.0)

def quantile_of(self, q, dim: Optional[int], keepdim: bool, interpolation: str):
    flat = self.reshape(-1) if dim is None else self.movedim(dim, -1)
    ordered = torch.sort(flat, -1)[0]
    place = q.detach().reshape(-1) * (ordered.size(-1) - 1)
    if interpolation == "lower":
        place = place.floor()
    elif interpolation == "higher":
        place = place.ceil()
    elif interpolation == "nearest":
        place = place.round()
    below = place.floor()
    a = ordered.index_select(-1, below.long())
    b = ordered.index_select(-1, place.ceil().long())
    share = place - below
    if interpolation == "midpoint":
        share = torch.where(share == 0, 0.0, 0.5).to(self.dtype)
    out = torch.lerp(a, b, share.expand(a.size())).movedim(-1, 0)
    if keepdim:
        out = out.reshape([out.size(0)] + [1] * self.dim()) if dim is None else out.unsqueeze(dim + 1 if dim >= 0 else dim)
    return out.squeeze(0) if q.dim() == 0 else out

)py";

} // namespace tenon::autodiff::prelude
