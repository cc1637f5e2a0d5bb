"""Gradients that torch has no decomposition of, and tenon no row for, in terms of other operators. Arguments are those of the operator whose name each has."""
import itertools
import math

import torch

aten = torch.ops.aten
ATTENTION_BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
NEAREST, BICUBIC = 1, 2  # of grid_sampler's interpolations; bilinear is 0
BORDER, REFLECTION = 1, 2  # of its paddings; zeros are 0


def bags_of(indices, offsets):
    """The bag of each index."""
    return torch.searchsorted(offsets, torch.arange(indices.shape[0], dtype=offsets.dtype), right=True) - 1


def embedding_bag_backward(grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse, weights, padding_idx=-1):
    if mode == 2:
        made = grad.new_zeros(num_weights + 1, grad.shape[1]).scatter_add(0, torch.where(maximum_indices < 0, num_weights, maximum_indices).to(torch.int64), grad)
        return made[:num_weights]
    bags = bags_of(indices, offsets)
    rows = grad[bags]
    if mode == 1:
        rows = rows / bag_size[bags].clamp(min=1)[:, None]
    if weights is not None:
        rows = rows * weights[:, None]
    if scale_grad_by_freq:
        ones = torch.ones_like(indices, dtype=grad.dtype)
        rows = rows / ones.new_zeros(num_weights).index_add(0, indices, ones)[indices][:, None]
    if padding_idx >= 0:
        rows = rows.masked_fill((indices == padding_idx)[:, None], 0.0)
    return grad.new_zeros(num_weights, grad.shape[1]).index_add(0, indices, rows)


def embedding_bag_weights_backward(grad, weight, indices, offsets, offset2bag, mode, padding_idx=-1):
    made = (grad[bags_of(indices, offsets)] * weight[indices]).sum(1)
    return made.masked_fill(indices == padding_idx, 0.0) if padding_idx >= 0 else made


def attention_backward(grad, q, k, v, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
    """Of attention whose keys and values have fewer heads, as that with the heads repeated."""
    groups = q.shape[1] // k.shape[1]
    if groups == 1:
        return NotImplemented
    k, v = (t.repeat_interleave(groups, 1) for t in (k, v))
    of_q, *others = ATTENTION_BACKWARD(grad, q, k, v, out, logsumexp, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
    return of_q, *(t.unflatten(1, (-1, groups)).sum(2) for t in others)


def distance_slope(difference, distance, p):
    """Of the p-norm of differences (their last axis) by these; 0 where there is none."""
    distance = distance[..., None]
    if p == 1:
        return difference.sign()
    if p == math.inf:
        return torch.where(difference.abs() == distance, difference.sign(), 0.0)
    if p == 2:
        return torch.where(distance == 0, 0.0, difference / distance)
    return torch.where((distance == 0) | (difference == 0), 0.0, difference.sign() * difference.abs() ** (p - 1) / distance ** (p - 1))


def cdist_backward(grad, x, y, p, distances):
    return (distance_slope(x[..., :, None, :] - y[..., None, :, :], distances, p) * grad[..., None]).sum(-2)


def pdist_backward(grad, x, p, distances):
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1)
    made = distance_slope(x[i] - x[j], distances, p) * grad[:, None]
    return torch.zeros_like(x).index_add(0, i, made).index_add(0, j, -made)


def weight_norm_backward(grad, v, g, norms, dim):
    sums = (grad * v).sum([d for d in range(v.dim()) if d != dim % v.dim()], keepdim=True)
    return g / norms * (grad - v * (sums / (norms * norms))), sums / norms


def padded(x, size, padding, align_corners):
    """Coordinates brought into [0, size) as the padding asks, and their slope."""
    slope = torch.ones_like(x)
    if padding == REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        away = x - low
        slope = torch.where(away < 0, -1.0, slope)
        away = away.abs()
        turns = (away / torch.sym_max(span, 1)).floor()  # of one pixel, all is clamped below
        rest = away - turns * span
        is_odd = turns.remainder(2) == 1
        x, slope = torch.where(is_odd, span - rest, rest) + low, torch.where(is_odd, -slope, slope)
    if padding in (BORDER, REFLECTION):
        slope = torch.where((x > 0) & (x < size - 1), slope, 0.0)
        x = x.clamp(0, size - 1)
    return x, slope


def cubic(t):
    """Weights of the four pixels around a place, and their slopes by it, for t in [0, 1) between the middle ones."""
    def near(d):
        return (1.25 * d - 2.25) * d * d + 1, (3.75 * d - 4.5) * d

    def far(d):
        return ((-0.75 * d + 3.75) * d - 6) * d + 3, (-2.25 * d + 7.5) * d - 6

    left, right = (far(1 + t), near(t)), (near(1 - t), far(2 - t))
    return [*left, *((w, -slope) for w, slope in right)]


def taps(g, size, interpolation, padding, align_corners):
    """The pixels of one axis that a coordinate in [-1, 1] reads: (place, weight, slope of the weight by the coordinate)."""
    scale = (size - 1 if align_corners else size)
    x = (g + 1) * scale * 0.5 - (0.0 if align_corners else 0.5)
    slope = 1.0
    if interpolation != BICUBIC:
        x, slope = padded(x, size, padding, align_corners)
    slope = slope * torch.full_like(x, 0.5) * scale
    if interpolation == NEAREST:
        return [(x.round(), torch.ones_like(x), torch.zeros_like(x))]
    low = x.floor()
    t = x - low
    if interpolation == BICUBIC:
        return [(padded(low + k - 1, size, padding, align_corners)[0], w, d * slope) for k, (w, d) in enumerate(cubic(t))]
    return [(low, 1 - t, -slope), (low + 1, t, slope)]


def grid_sampler_backward(grad, x, grid, interpolation, padding, align_corners, output_mask):
    """Of two dims, and of three. x: n, c, sizes; grid: n, sizes of the result, dims (the last axis first); grad: n, c, sizes of the result."""
    sizes = x.shape[2:]
    axes = [taps(grid[..., -1 - a].flatten(1), size, interpolation, padding, align_corners) for a, size in enumerate(sizes)]
    flat, grad = x.flatten(2), grad.flatten(2)
    of_x, of_grid = torch.zeros_like(flat), [0.0] * len(axes)
    for corner in itertools.product(*axes):
        index, is_inside = 0, True
        for size, (place, _, _) in zip(sizes, corner):
            inside = (place >= 0) & (place <= size - 1)
            index = index * size + torch.where(inside, place, 0.0).to(torch.int64)
            is_inside = inside & is_inside
        index = index[:, None].expand_as(grad)
        if output_mask[0]:
            weight = torch.where(is_inside, math.prod(w for _, w, _ in corner), 0.0)
            of_x = of_x.scatter_add(2, index, grad * weight[:, None])
        if output_mask[1]:
            value = torch.where(is_inside, (grad * flat.gather(2, index)).sum(1), 0.0)
            of_grid = [g + value * math.prod(slope if b == a else w for b, (_, w, slope) in enumerate(corner)) for a, g in enumerate(of_grid)]
    return of_x.view_as(x) if output_mask[0] else None, torch.stack(of_grid[::-1], -1).view_as(grid) if output_mask[1] else None


def roi_taps(start, length, pooled, samples, size):
    """The pixels of one axis that samples of regions read: two of (place, weight), each regions x (pooled * samples)."""
    steps = (torch.arange(pooled * samples, dtype=start.dtype) + 0.5) / samples
    x = start[:, None] + steps * (length / pooled)[:, None]
    is_inside = (x >= -1) & (x <= size)
    x = x.clamp(0, size - 1)
    low = x.floor()
    t = x - low
    return [(low.to(torch.int64), torch.where(is_inside, 1 - t, 0.0)), ((low + 1).clamp(max=size - 1).to(torch.int64), torch.where(is_inside, t, 0.0))]


def roi_align_backward(grad, rois, scale, pooled_height, pooled_width, batch, channels, height, width, samples, aligned):
    """Of torchvision's roi_align. grad: regions, channels, pooled sizes; rois: regions x (image, x and y of two corners)."""
    if samples <= 0:  # as many as the region is large
        return NotImplemented
    corners = rois[:, 1:] * scale - (0.5 if aligned else 0.0)
    x, y, w, h = corners[:, 0], corners[:, 1], corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
    if not aligned:
        w, h = w.clamp(min=1), h.clamp(min=1)
    grad = (grad / samples**2).repeat_interleave(samples, 2).repeat_interleave(samples, 3).permute(0, 2, 3, 1)
    image = rois[:, 0].to(torch.int64)[:, None, None] * (height * width)
    made = grad.new_zeros(batch * height * width, channels)
    for (row, of_row), (column, of_column) in itertools.product(roi_taps(y, h, pooled_height, samples, height), roi_taps(x, w, pooled_width, samples, width)):
        weight = of_row[:, :, None] * of_column[:, None]
        place = image + row[:, :, None] * width + column[:, None]
        made = made.index_add(0, place.flatten(), (grad * weight[..., None]).flatten(0, 2))
    return made.view(batch, height, width, channels).permute(0, 3, 1, 2).contiguous()


GRADIENTS = {aten._embedding_bag_backward.default: embedding_bag_backward, aten._embedding_bag_per_sample_weights_backward.default: embedding_bag_weights_backward,
             aten._cdist_backward.default: cdist_backward, aten._pdist_backward.default: pdist_backward,
             aten._weight_norm_interface_backward.default: weight_norm_backward,
             aten.grid_sampler_2d_backward.default: grid_sampler_backward, aten.grid_sampler_3d_backward.default: grid_sampler_backward}
