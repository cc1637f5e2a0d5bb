// torch.nn: containers, linear layers, convolutions, norms.
#include "script/prelude/prelude.h"

namespace tenon::script::prelude {

const char modules[] = R"py(import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter, Buffer
from typing import List, Optional, Tuple

class Identity(Module):
    def __init__(self, a=None, b=None, c=None):
        pass
    def forward(self, input):
        return input

class Sequential(Module):
    def __init__(self, *args):
        pass
    def forward(self, input):
        for module in self:
            input = module(input)
        return input

class ModuleList(Module):
    def __init__(self, modules=None):
        if modules is not None:
            self.extend(modules)

class ModuleDict(Module):
    def __init__(self, modules=None):
        if modules is not None:
            for k, m in modules.items():
                self.add_module(k, m)

class ParameterList(Module):
    def __init__(self, values=None):
        if values is not None:
            self.extend(values)

class ParameterDict(Module):
    def __init__(self, parameters=None):
        if parameters is not None:
            for k, p in parameters.items():
                self.add_module(k, p)

class Linear(Module):
    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(None)
        self.bias = Parameter(None) if bias else None
    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

class Bilinear(Module):
    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        self.weight = Parameter(None)
        self.bias = Parameter(None) if bias else None
    def forward(self, input1, input2):
        return torch.bilinear(input1, input2, self.weight, self.bias)

class _Conv(Module):
    def _set(self, n, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode):
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._many(kernel_size, n)
        self.stride = self._many(stride, n)
        self.padding = padding if padding == "same" or padding == "valid" else self._many(padding, n)
        self.dilation = self._many(dilation, n)
        self.groups = groups
        self.padding_mode = padding_mode
        self._around = []
        self._pads = padding_mode != "zeros"
        if padding_mode != "zeros":
            for i in range(n - 1, -1, -1):
                if padding == "same":
                    total = self.dilation[i] * (self.kernel_size[i] - 1)
                    self._around += [total // 2, total - total // 2]
                elif padding == "valid":
                    self._around += [0, 0]
                else:
                    self._around += [self.padding[i], self.padding[i]]
        self._none = tuple([0] * n)
        self.weight = Parameter(None)
        self.bias = Parameter(None) if bias else None
    def _many(self, x, n):
        if type(x) == "int":
            return tuple([x] * n)
        return tuple(x)

class Conv1d(_Conv):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", device=None, dtype=None):
        self._set(1, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)
    def forward(self, input):
        if self._pads:
            return F.conv1d(F.pad(input, self._around, self.padding_mode), self.weight, self.bias, self.stride, self._none, self.dilation, self.groups)
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

class Conv2d(_Conv):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", device=None, dtype=None):
        self._set(2, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)
    def forward(self, input):
        if self._pads:
            return F.conv2d(F.pad(input, self._around, self.padding_mode), self.weight, self.bias, self.stride, self._none, self.dilation, self.groups)
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

class Conv3d(_Conv):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", device=None, dtype=None):
        self._set(3, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)
    def forward(self, input):
        if self._pads:
            return F.conv3d(F.pad(input, self._around, self.padding_mode), self.weight, self.bias, self.stride, self._none, self.dilation, self.groups)
        return F.conv3d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

class _ConvTranspose(_Conv):
    def _init(self, n, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation):
        self._set(n, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, "zeros")
        self.output_padding = self._many(output_padding, n)
    def _extra(self, input, output_size: Optional[List[int]]) -> List[int]:
        out: List[int] = []
        for i, p in enumerate(self.output_padding):
            if output_size is None:
                out.append(p)
            else:
                n = len(self.output_padding)
                least = (input.size(i - n) - 1) * self.stride[i] - 2 * self.padding[i] + self.dilation[i] * (self.kernel_size[i] - 1) + 1
                out.append(output_size[len(output_size) - n + i] - least)
        return out

class ConvTranspose1d(_ConvTranspose):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        self._init(1, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation)
    def forward(self, input, output_size: Optional[List[int]] = None):
        return F.conv_transpose1d(input, self.weight, self.bias, self.stride, self.padding, self._extra(input, output_size), self.groups, self.dilation)

class ConvTranspose2d(_ConvTranspose):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        self._init(2, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation)
    def forward(self, input, output_size: Optional[List[int]] = None):
        return F.conv_transpose2d(input, self.weight, self.bias, self.stride, self.padding, self._extra(input, output_size), self.groups, self.dilation)

class ConvTranspose3d(_ConvTranspose):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        self._init(3, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation)
    def forward(self, input, output_size: Optional[List[int]] = None):
        return F.conv_transpose3d(input, self.weight, self.bias, self.stride, self.padding, self._extra(input, output_size), self.groups, self.dilation)

class _BatchNorm(Module):
    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None):
        self.num_features = num_features
        self.eps = eps
        self.momentum = 0.0 if momentum is None else momentum
        self.weight = Parameter(None) if affine else None
        self.bias = Parameter(None) if affine else None
        self.running_mean = Buffer(None) if track_running_stats else None
        self.running_var = Buffer(None) if track_running_stats else None
        self.num_batches_tracked = Buffer(None) if track_running_stats else None
    def forward(self, input):
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.running_mean is None, self.momentum, self.eps)

class BatchNorm1d(_BatchNorm):
    pass

class BatchNorm2d(_BatchNorm):
    pass

class BatchNorm3d(_BatchNorm):
    pass

class _InstanceNorm(Module):
    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None):
        self.eps = eps
        self.momentum = momentum
        self.weight = Parameter(None) if affine else None
        self.bias = Parameter(None) if affine else None
        self.running_mean = Buffer(None) if track_running_stats else None
        self.running_var = Buffer(None) if track_running_stats else None
        self.num_batches_tracked = Buffer(None) if track_running_stats else None
    def forward(self, input):
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.running_mean is None, self.momentum, self.eps)

class InstanceNorm1d(_InstanceNorm):
    pass

class InstanceNorm2d(_InstanceNorm):
    pass

class InstanceNorm3d(_InstanceNorm):
    pass

class LayerNorm(Module):
    def __init__(self, normalized_shape, eps=1e-05, elementwise_affine=True, bias=True, device=None, dtype=None):
        self.normalized_shape = (normalized_shape,) if type(normalized_shape) == "int" else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(None) if elementwise_affine else None
        self.bias = Parameter(None) if elementwise_affine and bias else None
    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

class RMSNorm(Module):
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        self.normalized_shape = (normalized_shape,) if type(normalized_shape) == "int" else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(None) if elementwise_affine else None
    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

class GroupNorm(Module):
    def __init__(self, num_groups, num_channels, eps=1e-05, affine=True, device=None, dtype=None):
        self.num_groups = num_groups
        self.eps = eps
        self.weight = Parameter(None) if affine else None
        self.bias = Parameter(None) if affine else None
    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

class LocalResponseNorm(Module):
    def __init__(self, size, alpha=0.0001, beta=0.75, k=1.0):
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k
    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

class Embedding(Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False, _weight=None, _freeze=False, device=None, dtype=None):
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.weight = Parameter(None)
    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx)

class EmbeddingBag(Module):
    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None):
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = padding_idx
        self.weight = Parameter(None)
    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(input, self.weight, offsets, None, 2.0, False, self.mode, False, per_sample_weights, self.include_last_offset, self.padding_idx)
)py";

} // namespace tenon::script::prelude
