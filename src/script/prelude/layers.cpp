// torch.nn: activations, pooling, resampling.
#include "script/prelude/prelude.h"

namespace tenon::script::prelude {

const char layers[] = R"py(
class ReLU(Module):
    def __init__(self, inplace=False):
        self.inplace = inplace
    def forward(self, input):
        return F.relu(input, self.inplace)

class ReLU6(Module):
    def __init__(self, inplace=False):
        self.inplace = inplace
    def forward(self, input):
        return F.relu6(input, self.inplace)

class SELU(Module):
    def __init__(self, inplace=False):
        self.inplace = inplace
    def forward(self, input):
        return F.selu(input, self.inplace)

class SiLU(Module):
    def __init__(self, inplace=False):
        self.inplace = inplace
    def forward(self, input):
        return F.silu(input, self.inplace)

class Mish(Module):
    def __init__(self, inplace=False):
        self.inplace = inplace
    def forward(self, input):
        return F.mish(input, self.inplace)

class Hardswish(Module):
    def __init__(self, inplace=False):
        self.inplace = inplace
    def forward(self, input):
        return F.hardswish(input, self.inplace)

class Hardsigmoid(Module):
    def __init__(self, inplace=False):
        self.inplace = inplace
    def forward(self, input):
        return F.hardsigmoid(input, self.inplace)

class Sigmoid(Module):
    def __init__(self):
        pass
    def forward(self, input):
        return torch.sigmoid(input)

class Tanh(Module):
    def __init__(self):
        pass
    def forward(self, input):
        return torch.tanh(input)

class LogSigmoid(Module):
    def __init__(self):
        pass
    def forward(self, input):
        return F.logsigmoid(input)

class Softsign(Module):
    def __init__(self):
        pass
    def forward(self, input):
        return F.softsign(input)

class Tanhshrink(Module):
    def __init__(self):
        pass
    def forward(self, input):
        return F.tanhshrink(input)

class LeakyReLU(Module):
    def __init__(self, negative_slope=0.01, inplace=False):
        self.negative_slope = negative_slope
        self.inplace = inplace
    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)

class ELU(Module):
    def __init__(self, alpha=1.0, inplace=False):
        self.alpha = alpha
        self.inplace = inplace
    def forward(self, input):
        return F.elu(input, self.alpha, self.inplace)

class CELU(Module):
    def __init__(self, alpha=1.0, inplace=False):
        self.alpha = alpha
        self.inplace = inplace
    def forward(self, input):
        return F.celu(input, self.alpha, self.inplace)

class GELU(Module):
    def __init__(self, approximate='none'):
        self.approximate = approximate
    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

class GLU(Module):
    def __init__(self, dim=-1):
        self.dim = dim
    def forward(self, input):
        return F.glu(input, self.dim)

class Hardtanh(Module):
    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False):
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

class Hardshrink(Module):
    def __init__(self, lambd=0.5):
        self.lambd = lambd
    def forward(self, input):
        return F.hardshrink(input, self.lambd)

class Softshrink(Module):
    def __init__(self, lambd=0.5):
        self.lambd = lambd
    def forward(self, input):
        return F.softshrink(input, self.lambd)

class Softplus(Module):
    def __init__(self, beta=1.0, threshold=20.0):
        self.beta = beta
        self.threshold = threshold
    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

class Threshold(Module):
    def __init__(self, threshold, value, inplace=False):
        self.threshold = threshold
        self.value = value
        self.inplace = inplace
    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

class RReLU(Module):
    def __init__(self, lower=0.125, upper=0.3333333333333333, inplace=False):
        self.lower = lower
        self.upper = upper
        self.inplace = inplace
    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, False)

class Softmax(Module):
    def __init__(self, dim=None):
        self.dim = dim
    def forward(self, input):
        return F.softmax(input, self.dim)

class LogSoftmax(Module):
    def __init__(self, dim=None):
        self.dim = dim
    def forward(self, input):
        return F.log_softmax(input, self.dim)

class Softmin(Module):
    def __init__(self, dim=None):
        self.dim = dim
    def forward(self, input):
        return F.softmin(input, self.dim)

class Softmax2d(Module):
    def __init__(self):
        pass
    def forward(self, input):
        return F.softmax(input, -3)

class Dropout(Module):
    def __init__(self, p=0.5, inplace=False):
        self.p = p
        self.inplace = inplace
    def forward(self, input):
        return input

class Dropout1d(Module):
    def __init__(self, p=0.5, inplace=False):
        self.p = p
        self.inplace = inplace
    def forward(self, input):
        return input

class Dropout2d(Module):
    def __init__(self, p=0.5, inplace=False):
        self.p = p
        self.inplace = inplace
    def forward(self, input):
        return input

class Dropout3d(Module):
    def __init__(self, p=0.5, inplace=False):
        self.p = p
        self.inplace = inplace
    def forward(self, input):
        return input

class AlphaDropout(Module):
    def __init__(self, p=0.5, inplace=False):
        self.p = p
        self.inplace = inplace
    def forward(self, input):
        return input

class FeatureAlphaDropout(Module):
    def __init__(self, p=0.5, inplace=False):
        self.p = p
        self.inplace = inplace
    def forward(self, input):
        return input

class Flatten(Module):
    def __init__(self, start_dim=1, end_dim=-1):
        self.start_dim = start_dim
        self.end_dim = end_dim
    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

class Unflatten(Module):
    def __init__(self, dim, unflattened_size):
        self.dim = dim
        self.unflattened_size = unflattened_size
    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

class PixelShuffle(Module):
    def __init__(self, upscale_factor):
        self.upscale_factor = upscale_factor
    def forward(self, input):
        return F.pixel_shuffle(input, self.upscale_factor)

class PixelUnshuffle(Module):
    def __init__(self, downscale_factor):
        self.downscale_factor = downscale_factor
    def forward(self, input):
        return F.pixel_unshuffle(input, self.downscale_factor)

class ChannelShuffle(Module):
    def __init__(self, groups):
        self.groups = groups
    def forward(self, input):
        return F.channel_shuffle(input, self.groups)

class Upsample(Module):
    def __init__(self, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None):
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor
    def forward(self, input):
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)

class UpsamplingNearest2d(Module):
    def __init__(self, size=None, scale_factor=None):
        self.size = size
        self.scale_factor = scale_factor
    def forward(self, input):
        return F.interpolate(input, self.size, self.scale_factor, 'nearest')

class UpsamplingBilinear2d(Module):
    def __init__(self, size=None, scale_factor=None):
        self.size = size
        self.scale_factor = scale_factor
    def forward(self, input):
        return F.interpolate(input, self.size, self.scale_factor, 'bilinear', True)

class MaxPool1d(Module):
    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode
    def forward(self, input):
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)

class MaxPool2d(Module):
    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode
    def forward(self, input):
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)

class MaxPool3d(Module):
    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False):
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode
    def forward(self, input):
        return F.max_pool3d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)

class AvgPool1d(Module):
    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
    def forward(self, input):
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

class AvgPool2d(Module):
    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override
    def forward(self, input):
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override)

class AvgPool3d(Module):
    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override
    def forward(self, input):
        return F.avg_pool3d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override)

class LPPool1d(Module):
    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode
    def forward(self, input):
        return F.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)

class LPPool2d(Module):
    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode
    def forward(self, input):
        return F.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)

class AdaptiveAvgPool1d(Module):
    def __init__(self, output_size):
        self.output_size = output_size
    def forward(self, input):
        return F.adaptive_avg_pool1d(input, self.output_size)

class AdaptiveMaxPool1d(Module):
    def __init__(self, output_size, return_indices=False):
        self.output_size = output_size
        self.return_indices = return_indices
    def forward(self, input):
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)

class AdaptiveAvgPool2d(Module):
    def __init__(self, output_size):
        self.output_size = output_size
    def forward(self, input):
        return F.adaptive_avg_pool2d(input, self.output_size)

class AdaptiveMaxPool2d(Module):
    def __init__(self, output_size, return_indices=False):
        self.output_size = output_size
        self.return_indices = return_indices
    def forward(self, input):
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)

class AdaptiveAvgPool3d(Module):
    def __init__(self, output_size):
        self.output_size = output_size
    def forward(self, input):
        return F.adaptive_avg_pool3d(input, self.output_size)

class AdaptiveMaxPool3d(Module):
    def __init__(self, output_size, return_indices=False):
        self.output_size = output_size
        self.return_indices = return_indices
    def forward(self, input):
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)

class Fold(Module):
    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride
    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

class Unfold(Module):
    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride
    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

class PReLU(Module):
    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        self.weight = Parameter(None)
    def forward(self, input):
        return torch.prelu(input, self.weight)
)py";

} // namespace tenon::script::prelude
