// torch.nn.functional: activations, pooling, norms, resampling. What is one operator with the same arguments is not repeated here.
#include "script/prelude/prelude.h"

namespace tenon::script::prelude {

const char functional[] = R"py(import torch
import math
from torch import Tensor
from typing import List, Optional, Tuple

def relu(input, inplace: bool = False):
    return torch.relu_(input) if inplace else torch.relu(input)

def relu6(input, inplace: bool = False):
    return torch.hardtanh_(input, 0.0, 6.0) if inplace else torch.hardtanh(input, 0.0, 6.0)

def leaky_relu(input, negative_slope=0.01, inplace: bool = False):
    return torch._C._nn.leaky_relu_(input, negative_slope) if inplace else torch._C._nn.leaky_relu(input, negative_slope)

def elu(input, alpha=1.0, inplace: bool = False):
    return torch._C._nn.elu_(input, alpha) if inplace else torch._C._nn.elu(input, alpha)

def selu(input, inplace: bool = False):
    return torch.selu_(input) if inplace else torch.selu(input)

def celu(input, alpha=1.0, inplace: bool = False):
    return torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)

def silu(input, inplace: bool = False):
    return torch._C._nn.silu_(input) if inplace else torch._C._nn.silu(input)

def mish(input, inplace: bool = False):
    return torch._C._nn.mish_(input) if inplace else torch._C._nn.mish(input)

def logsigmoid(input):
    return torch._C._nn.log_sigmoid(input)

def hardtanh(input, min_val=-1.0, max_val=1.0, inplace: bool = False):
    return torch.hardtanh_(input, min_val, max_val) if inplace else torch.hardtanh(input, min_val, max_val)

def hardswish(input, inplace: bool = False):
    return torch._C._nn.hardswish_(input) if inplace else torch._C._nn.hardswish(input)

def hardsigmoid(input, inplace: bool = False):
    return torch._C._nn.hardsigmoid_(input) if inplace else torch._C._nn.hardsigmoid(input)

def threshold(input, threshold, value, inplace: bool = False):
    return torch.threshold_(input, threshold, value) if inplace else torch.threshold(input, threshold, value)

def rrelu(input, lower=0.125, upper=0.3333333333333333, training: bool = False, inplace: bool = False):
    return torch.rrelu(input, lower, upper, training)

def tanh(input):
    return torch.tanh(input)

def sigmoid(input):
    return torch.sigmoid(input)

def softsign(input):
    return input / (torch.abs(input) + 1)

def tanhshrink(input):
    return input - torch.tanh(input)

def softmin(input, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None):
    return softmax(torch.neg(input), dim, 3, dtype)

def _softmax_dim(ndim: int) -> int:
    if ndim == 0 or ndim == 1 or ndim == 3:
        return 0
    return 1

def softmax(input, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None):
    if dim is None:
        dim = _softmax_dim(input.dim())
    return torch.softmax(input, dim, dtype)

def log_softmax(input, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None):
    if dim is None:
        dim = _softmax_dim(input.dim())
    return torch.log_softmax(input, dim, dtype)

def normalize(input, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out=None):
    denom = torch.linalg.vector_norm(input, p, [dim], True).clamp_min(eps).expand_as(input)
    return input / denom

def dropout(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    return torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training)

def alpha_dropout(input, p: float = 0.5, training: bool = False, inplace: bool = False):
    return torch.alpha_dropout(input, p, training)

def feature_alpha_dropout(input, p: float = 0.5, training: bool = False, inplace: bool = False):
    return torch.feature_alpha_dropout(input, p, training)

def dropout1d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    return torch.feature_dropout(input, p, training)

def dropout2d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    return torch.feature_dropout(input, p, training)

def dropout3d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    return torch.feature_dropout(input, p, training)

def _stride_of(stride, kernel_size):
    if stride is None:
        return kernel_size
    else:
        return stride

def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    if return_indices:
        return torch.max_pool1d_with_indices(input, kernel_size, _stride_of(stride, kernel_size), padding, dilation, ceil_mode)
    else:
        return torch.max_pool1d(input, kernel_size, _stride_of(stride, kernel_size), padding, dilation, ceil_mode)

def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    if return_indices:
        return torch._C._nn.max_pool2d_with_indices(input, kernel_size, _stride_of(stride, kernel_size), padding, dilation, ceil_mode)
    else:
        return torch.max_pool2d(input, kernel_size, _stride_of(stride, kernel_size), padding, dilation, ceil_mode)

def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    if return_indices:
        return torch._C._nn.max_pool3d_with_indices(input, kernel_size, _stride_of(stride, kernel_size), padding, dilation, ceil_mode)
    else:
        return torch.max_pool3d(input, kernel_size, _stride_of(stride, kernel_size), padding, dilation, ceil_mode)

def max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)

def max_pool2d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)

def max_pool3d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)

def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True):
    return torch.avg_pool1d(input, kernel_size, _stride_of(stride, kernel_size), padding, ceil_mode, count_include_pad)

def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Optional[int] = None):
    return torch._C._nn.avg_pool2d(input, kernel_size, _stride_of(stride, kernel_size), padding, ceil_mode, count_include_pad, divisor_override)

def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Optional[int] = None):
    return torch._C._nn.avg_pool3d(input, kernel_size, _stride_of(stride, kernel_size), padding, ceil_mode, count_include_pad, divisor_override)

def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode: bool = False):
    kw, kh = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
    out = avg_pool2d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (torch.sign(out) * relu(torch.abs(out))).mul(kw * kh).pow(1.0 / norm_type)

def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode: bool = False):
    kd, kw, kh = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size, kernel_size)
    out = avg_pool3d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (torch.sign(out) * relu(torch.abs(out))).mul(kd * kw * kh).pow(1.0 / norm_type)

def lp_pool1d(input, norm_type, kernel_size: int, stride=None, ceil_mode: bool = False):
    out = avg_pool1d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (torch.sign(out) * relu(torch.abs(out))).mul(kernel_size).pow(1.0 / norm_type)

def _sizes_of(input, output_size: List[Optional[int]]) -> List[int]:
    out: List[int] = []
    n = len(output_size)
    for i in range(n):
        s = output_size[i]
        if s is None:
            out.append(input.size(i - n))
        else:
            out.append(s)
    return out

def _adaptive_sizes(input, output_size, dims: int) -> List[int]:
    if isinstance(output_size, int):
        return [output_size] * dims
    else:
        return _sizes_of(input, output_size)

def adaptive_avg_pool1d(input, output_size):
    return torch.adaptive_avg_pool1d(input, output_size)

def adaptive_avg_pool2d(input, output_size):
    return torch._C._nn.adaptive_avg_pool2d(input, _adaptive_sizes(input, output_size, 2))

def adaptive_avg_pool3d(input, output_size):
    return torch._C._nn.adaptive_avg_pool3d(input, _adaptive_sizes(input, output_size, 3))

def adaptive_max_pool1d(input, output_size, return_indices: bool = False):
    both = torch.adaptive_max_pool1d(input, output_size)
    if return_indices:
        return both
    else:
        return both[0]

def adaptive_max_pool2d(input, output_size, return_indices: bool = False):
    both = torch._C._nn.adaptive_max_pool2d(input, _adaptive_sizes(input, output_size, 2))
    if return_indices:
        return both
    else:
        return both[0]

def adaptive_max_pool3d(input, output_size, return_indices: bool = False):
    both = torch._C._nn.adaptive_max_pool3d(input, _adaptive_sizes(input, output_size, 3))
    if return_indices:
        return both
    else:
        return both[0]

def adaptive_max_pool1d_with_indices(input, output_size, return_indices: bool = False):
    return adaptive_max_pool1d(input, output_size, True)

def adaptive_max_pool2d_with_indices(input, output_size, return_indices: bool = False):
    return adaptive_max_pool2d(input, output_size, True)

def adaptive_max_pool3d_with_indices(input, output_size, return_indices: bool = False):
    return adaptive_max_pool3d(input, output_size, True)

def batch_norm(input, running_mean, running_var, weight=None, bias=None, training: bool = False, momentum: float = 0.1, eps: float = 1e-05):
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)

def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-05):
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)

def layer_norm(input, normalized_shape, weight=None, bias=None, eps: float = 1e-05):
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)

def group_norm(input, num_groups: int, weight=None, bias=None, eps: float = 1e-05):
    return torch.group_norm(input, num_groups, weight, bias, eps, True)

def rms_norm(input, normalized_shape, weight=None, eps=None):
    return torch.rms_norm(input, normalized_shape, weight, eps)

def local_response_norm(input, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0):
    div = input.mul(input)
    if input.dim() == 3:
        div = div.unsqueeze(1)
        div = pad(div, (0, 0, size // 2, (size - 1) // 2))
        div = avg_pool2d(div, (size, 1), 1).squeeze(1)
    else:
        sizes = input.size()
        div = div.view([sizes[0], 1, sizes[1], sizes[2], -1])
        div = pad(div, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        div = avg_pool3d(div, (size, 1, 1), 1).squeeze(1)
        div = div.view(sizes)
    return input / div.mul(alpha).add(k).pow(beta)

def embedding(input, weight, padding_idx: Optional[int] = None, max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False):
    index = -1
    if padding_idx is not None:
        index = padding_idx if padding_idx >= 0 else weight.size(0) + padding_idx
    return torch.embedding(weight, input, index, scale_grad_by_freq, sparse)

def embedding_bag(input, weight, offsets=None, max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights=None, include_last_offset: bool = False, padding_idx: Optional[int] = None):
    code = 0 if mode == "sum" else (1 if mode == "mean" else 2)
    if input.dim() == 2:
        starts = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        flat = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
        out, _, _, _ = torch.embedding_bag(weight, flat, starts, scale_grad_by_freq, code, sparse, per_sample_weights, include_last_offset, padding_idx)
        return out
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    else:
        out, _, _, _ = torch.embedding_bag(weight, input, offsets, scale_grad_by_freq, code, sparse, per_sample_weights, include_last_offset, padding_idx)
        return out

def one_hot(tensor, num_classes: int = -1):
    return torch._C._nn.one_hot(tensor, num_classes)

def pad(input, pad: List[int], mode: str = "constant", value: Optional[float] = None):
    return torch._C._nn.pad(input, pad, mode, value)

def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    return torch._C._nn.im2col(input, kernel_size, dilation, padding, stride)

def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    return torch._C._nn.col2im(input, output_size, kernel_size, dilation, padding, stride)

def glu(input, dim: int = -1):
    return torch._C._nn.glu(input, dim)

def cosine_similarity(x1, x2, dim: int = 1, eps: float = 1e-08):
    return torch.cosine_similarity(x1, x2, dim, eps)

def gumbel_softmax(logits, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1):
    gumbels = -torch.empty_like(logits).exponential_().log()
    return ((logits + gumbels) / tau).softmax(dim)

def _to_list(x, n: int):
    if isinstance(x, int) or isinstance(x, float):
        return [x for _ in range(n)]
    else:
        return x

def interpolate(input, size=None, scale_factor=None, mode: str = "nearest", align_corners: Optional[bool] = None, recompute_scale_factor: Optional[bool] = None, antialias: bool = False):
    n = input.dim() - 2
    sizes: Optional[List[int]] = None
    if size is not None:
        sizes = _to_list(size, n)
    scales: Optional[List[float]] = None
    if scale_factor is not None:
        scales = _floats(_to_list(scale_factor, n))
    if recompute_scale_factor is not None and recompute_scale_factor:
        if scales is not None:
            sizes = [int(math.floor(float(input.size(i + 2)) * scales[i])) for i in range(n)]
            scales = None
    corners = align_corners is not None and align_corners
    if mode == "nearest":
        if n == 1:
            return torch._C._nn.upsample_nearest1d(input, sizes, scales)
        if n == 2:
            return torch._C._nn.upsample_nearest2d(input, sizes, scales)
        return torch._C._nn.upsample_nearest3d(input, sizes, scales)
    if mode == "nearest-exact":
        if n == 1:
            return torch._C._nn._upsample_nearest_exact1d(input, sizes, scales)
        if n == 2:
            return torch._C._nn._upsample_nearest_exact2d(input, sizes, scales)
        return torch._C._nn._upsample_nearest_exact3d(input, sizes, scales)
    if mode == "area":
        if sizes is None:
            if scales is not None:
                sizes = [int(math.floor(float(input.size(i + 2)) * scales[i])) for i in range(n)]
        if sizes is None:
            raise ValueError("either size or scale_factor should be defined")
        else:
            if n == 1:
                return torch.adaptive_avg_pool1d(input, sizes)
            if n == 2:
                return torch._C._nn.adaptive_avg_pool2d(input, sizes)
            return torch._C._nn.adaptive_avg_pool3d(input, sizes)
    if mode == "linear":
        return torch._C._nn.upsample_linear1d(input, sizes, corners, scales)
    if mode == "trilinear":
        return torch._C._nn.upsample_trilinear3d(input, sizes, corners, scales)
    if mode == "bilinear":
        if antialias:
            return torch._C._nn._upsample_bilinear2d_aa(input, sizes, corners, scales)
        return torch._C._nn.upsample_bilinear2d(input, sizes, corners, scales)
    if mode == "bicubic":
        if antialias:
            return torch._C._nn._upsample_bicubic2d_aa(input, sizes, corners, scales)
        return torch._C._nn.upsample_bicubic2d(input, sizes, corners, scales)
    raise NotImplementedError("Input Error: Only 3D, 4D and 5D input Tensors supported")

def _floats(x):
    return [float(v) for v in x]

def upsample(input, size=None, scale_factor=None, mode: str = "nearest", align_corners: Optional[bool] = None):
    return interpolate(input, size, scale_factor, mode, align_corners)

def grid_sample(input, grid, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: Optional[bool] = None):
    m = 0 if mode == "bilinear" else (1 if mode == "nearest" else 2)
    p = 0 if padding_mode == "zeros" else (1 if padding_mode == "border" else 2)
    return torch.grid_sampler(input, grid, m, p, align_corners is not None and align_corners)

def affine_grid(theta, size: List[int], align_corners: Optional[bool] = None):
    return torch.affine_grid_generator(theta, size, align_corners is not None and align_corners)

def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False):
    return torch._C._nn.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
)py";

} // namespace tenon::script::prelude
