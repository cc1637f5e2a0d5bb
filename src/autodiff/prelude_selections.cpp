// What rows' derivatives call, in the script language: selections, joins, rearrangements.
#include "autodiff/derivatives.h"

namespace tenon::autodiff::prelude {

const char selections[] = R"py(
# ---- selecting and joining

def slice_back(grad, size: List[int], dim: int, start: Optional[int], end: Optional[int], step: int):
    return torch.slice_backward(grad, size, dim, 0 if start is None else start, 9223372036854775807 if end is None else end, step)

def gathered(grad, dim: int, index, src_size: List[int]):
    out = grad.gather(dim, index)
    pads: List[int] = []
    for k in range(len(src_size)):
        d = len(src_size) - 1 - k
        pads.extend([0, src_size[d] - out.size(d)])
    return torch.constant_pad_nd(out, pads, 0)

def taken_along(self, indices, dim: Optional[int]):
    if dim is None:
        return self.reshape(-1).gather(0, indices.reshape(-1))
    size = list(self.size())
    wide = list(indices.size())
    for d in range(len(size)):
        n = max(size[d], wide[d])
        size[d] = n
        wide[d] = n
    size[dim] = self.size(dim)
    wide[dim] = indices.size(dim)
    return self.expand(size).gather(dim, indices.expand(wide))

def masked_source(grad, mask, size: List[int]):
    chosen = torch.masked_select(grad, mask)
    missing = elements(size) - chosen.numel()
    return torch.constant_pad_nd(chosen, [0, missing], 0).reshape(size)

def scatter_reduce_operands(grad, self, dim: int, index, src, reduce: str, include_self: bool, result):
    mine = grad if include_self else grad.scatter(dim, index, 0)
    if reduce == "sum":
        return mine, gathered(grad, dim, index, src.size())
    ones = torch.ones_like(src)
    if reduce == "mean":
        count = torch.ones_like(self) if include_self else torch.ones_like(self).scatter(dim, index, 0)
        count = count.scatter_add(dim, index, ones).clamp_min(1)
        return mine / count, gathered(grad / count, dim, index, src.size())
    if reduce == "prod":
        return mine * result / self, gathered(grad * result, dim, index, src.size()) / src
    is_mine = (self == result).to(grad.dtype)
    if not include_self:
        is_mine = is_mine.scatter(dim, index, 0)
    is_theirs = (src == gathered(result, dim, index, src.size())).to(grad.dtype)
    share = grad / is_mine.scatter_add(dim, index, is_theirs).clamp_min(1)
    kept_share = share * is_mine if include_self else torch.where(torch.ones_like(self).scatter(dim, index, 0) == 1, grad, 0.0)
    return kept_share, gathered(share, dim, index, src.size()) * is_theirs

def cat_operands(grad, tensors: List[Tensor], dim: int) -> List[Tensor]:
    out: List[Tensor] = []
    at = 0
    for t in tensors:
        if t.dim() == 1 and t.size(0) == 0:
            out.append(torch.zeros_like(t))
        else:
            out.append(grad.narrow(dim, at, t.size(dim)).to(t.dtype))
            at += t.size(dim)
    return out

def stack_operands(grad, tensors: List[Tensor], dim: int) -> List[Tensor]:
    return [grad.select(dim, i).to(tensors[i].dtype) for i in range(len(tensors))]

# Of tensors that are made to have `least` dims first; 0: of columns.
def stacked_operands(grad, tensors: List[Tensor], dim: int, least: int) -> List[Tensor]:
    out: List[Tensor] = []
    at = 0
    for t in tensors:
        n = 1
        if t.dim() > dim:
            n = t.size(dim)
        if least == 2 and t.dim() < 2:
            n = 1
        if least == 3 and t.dim() < 3:
            n = 1
        if least == 0 and t.dim() < 2:
            n = 1
        out.append(grad.narrow(dim, at, n).reshape(t.size()).to(t.dtype))
        at += n
    return out

def block_operands(grad, tensors: List[Tensor]) -> List[Tensor]:
    out: List[Tensor] = []
    row = 0
    column = 0
    for t in tensors:
        m = t.size(0) if t.dim() == 2 else 1
        n = 1 if t.dim() == 0 else t.size(-1)
        out.append(grad.narrow(0, row, m).narrow(1, column, n).reshape(t.size()))
        row += m
        column += n
    return out

def meshgrid_operands(grads: List[Tensor], tensors: List[Tensor], indexing: str) -> List[Tensor]:
    out: List[Tensor] = []
    for i in range(len(tensors)):
        d = i
        if indexing == "xy" and i < 2 and len(tensors) > 1:
            d = 1 - i
        out.append(grads[i].movedim(d, 0).reshape([max(tensors[i].numel(), 1), -1]).sum(1).reshape(tensors[i].size()))
    return out

def broadcast_operands(grads: List[Tensor], tensors: List[Tensor]) -> List[Tensor]:
    return [grads[i].sum_to_size(tensors[i].size()) for i in range(len(tensors))]

# ---- rearranging

def of_repeated(grad, size: List[int], repeats: List[int]):
    more = len(repeats) - len(size)
    split: List[int] = []
    sums: List[int] = []
    for d in range(len(repeats)):
        sums.append(len(split))
        split.extend([repeats[d], size[d - more] if d >= more else 1])
    if len(split) == 0:
        return grad
    return grad.reshape(split).sum(sums).reshape(size)

def of_interleaved(grad, size: List[int], repeats: int, dim: Optional[int]):
    if dim is None:
        return grad.reshape([elements(size), repeats]).sum(1).reshape(size)
    d = dim + len(size) if dim < 0 else dim
    return grad.reshape(size[:d] + [size[d], repeats] + size[d + 1:]).sum(d + 1)

def of_interleaved_by(grad, size: List[int], repeats, dim: Optional[int]):
    n = elements(size) if dim is None else size[dim]
    index = torch.repeat_interleave(repeats.expand([n]))
    if dim is None:
        return torch.index_add(grad.new_zeros([n]), 0, index, grad).reshape(size)
    return torch.index_add(grad.new_zeros(size), dim, index, grad)

def of_diag(grad, size: List[int], diagonal: int):
    if len(size) == 1:
        return torch.diagonal(grad, diagonal)
    return torch.diagonal_backward(grad, size, diagonal, 0, 1)

def of_padded(grad, self, pad: List[int], mode: str):
    if mode == "constant":
        return torch.constant_pad_nd(grad, negated(pad), 0)
    if mode == "circular":
        return of_circular(grad, self.size(), pad)
    if mode == "reflect":
        if len(pad) == 2:
            return torch.reflection_pad1d_backward(grad, self, pad)
        if len(pad) == 4:
            return torch.reflection_pad2d_backward(grad, self, pad)
        return torch.reflection_pad3d_backward(grad, self, pad)
    if len(pad) == 2:
        return torch.replication_pad1d_backward(grad, self, pad)
    if len(pad) == 4:
        return torch.replication_pad2d_backward(grad, self, pad)
    return torch.replication_pad3d_backward(grad, self, pad)

def of_circular(grad, size: List[int], pad: List[int]):
    out = grad
    for k in range(len(pad) // 2):
        d = len(size) - 1 - k
        index = torch.remainder(torch.arange(out.size(d)) - pad[2 * k], size[d])
        small = list(out.size())
        small[d] = size[d]
        out = torch.index_add(out.new_zeros(small), d, index, out)
    return out

def differences(self, n: int, dim: int, prepend: Optional[Tensor], append: Optional[Tensor]):
    out = self
    if prepend is not None:
        out = torch.cat([prepend, out], dim)
    if append is not None:
        out = torch.cat([out, append], dim)
    for _ in range(n):
        m = out.size(dim)
        out = out.narrow(dim, 1, m - 1) - out.narrow(dim, 0, m - 1)
    return out

)py";

} // namespace tenon::autodiff::prelude
