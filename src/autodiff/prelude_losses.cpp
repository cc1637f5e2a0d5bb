// What rows' derivatives call, in the script language: losses and distances.
#include "autodiff/derivatives.h"

namespace tenon::autodiff::prelude {

const char losses[] = R"py(
# ---- losses: a reduction is 0 for none, 1 for the mean, 2 for the sum

def reduced_loss(loss, reduction: int):
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss

def loss_share(grad, loss, reduction: int):
    return grad / loss.numel() if reduction == 1 else grad

def bce_target(grad, self, target, weight: Optional[Tensor], reduction: int):
    share = loss_share(grad, target, reduction) * ((1 - self).log().clamp_min(-100) - self.log().clamp_min(-100))
    return share if weight is None else share * weight

def logits_share(grad, self, target, weight: Optional[Tensor], pos_weight: Optional[Tensor], reduction: int):
    share = loss_share(grad, target, reduction)
    if weight is not None:
        share = share * weight
    if pos_weight is None:
        return (torch.sigmoid(self) - target) * share
    t = pos_weight * target
    return ((t + 1 - target) * torch.sigmoid(self) - t) * share

def logits_target(grad, self, target, weight: Optional[Tensor], pos_weight: Optional[Tensor], reduction: int):
    share = loss_share(grad, target, reduction)
    if weight is not None:
        share = share * weight
    if pos_weight is None:
        return -self * share
    return (torch.log_sigmoid(-self) - pos_weight * torch.log_sigmoid(self)) * share

def kl_self(grad, self, target, reduction: int, log_target: bool):
    share = loss_share(grad, self * target, reduction)
    return -(target.exp() if log_target else target) * share

def kl_target(grad, self, target, reduction: int, log_target: bool):
    share = loss_share(grad, self * target, reduction)
    if log_target:
        return share * target.exp() * (target - self + 1)
    return torch.where(target == 0, 0.0, share * (target.log() + 1 - self))

def of_classes(grad, size: List[int], target, weight: Optional[Tensor], reduction: int, ignore_index: int):
    dim = 0 if len(size) == 1 else 1
    counts = target != ignore_index
    index = torch.where(counts, target, 0)
    w = counts.to(grad.dtype)
    if weight is not None:
        w = w * torch.index_select(weight, 0, index.reshape(-1)).reshape(index.size())
    share = -(grad * w) if reduction != 1 else -(grad * w / w.sum())
    return grad.new_zeros(size).scatter(dim, index.unsqueeze(dim), share.unsqueeze(dim))

def class_weights(self, weight: Optional[Tensor], dim: int):
    if weight is None:
        return torch.ones_like(self)
    size = [1] * self.dim()
    size[dim] = weight.numel()
    return weight.reshape(size).expand(self.size())

def cross_entropy_input(grad, self, target, weight: Optional[Tensor], reduction: int, ignore_index: int, label_smoothing: float):
    dim = 0 if self.dim() == 1 else 1
    n = self.size(dim)
    logs = torch.log_softmax(self, dim)
    if target.is_floating_point():
        g = grad.unsqueeze(dim) if reduction == 0 else grad / (self.numel() // n) if reduction == 1 else grad
        smooth = target * (1 - label_smoothing) + label_smoothing / n
        share = -(g * smooth * class_weights(self, weight, dim))
    else:
        share = of_classes(grad, self.size(), target, weight, reduction, ignore_index) * (1 - label_smoothing)
        if label_smoothing > 0.0:
            counts = (target != ignore_index).to(grad.dtype)
            w = counts
            if weight is not None:
                w = counts * torch.index_select(weight, 0, torch.where(target != ignore_index, target, 0).reshape(-1)).reshape(target.size())
            g = grad / w.sum() if reduction == 1 else grad
            share = share - (g * counts).unsqueeze(dim) * class_weights(self, weight, dim) * (label_smoothing / n)
    return torch._log_softmax_backward_data(share, logs, dim, self.dtype)

def cross_entropy_target(grad, self, weight: Optional[Tensor], reduction: int, label_smoothing: float):
    dim = 0 if self.dim() == 1 else 1
    g = grad.unsqueeze(dim) if reduction == 0 else grad / (self.numel() // self.size(dim)) if reduction == 1 else grad
    return -(g * torch.log_softmax(self, dim) * class_weights(self, weight, dim)) * (1 - label_smoothing)

def poisson_nll(input, target, log_input: bool, full: bool, eps: float, reduction: int):
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + torch.where(target > 1, stirling, 0.0)
    return reduced_loss(loss, reduction)

def cosine_embedding(input1, input2, target, margin: float, reduction: int):
    eps = 1e-12
    product = (input1 * input2).sum(-1)
    cosine = product / (((input1 * input1).sum(-1) + eps) * ((input2 * input2).sum(-1) + eps)).sqrt()
    loss = torch.where(target == 1, 1 - cosine, 0.0) + torch.where(target == -1, torch.clamp_min(cosine - margin, 0.0), 0.0)
    return reduced_loss(loss, reduction)

def triplet_margin(anchor, positive, negative, margin: float, p: float, eps: float, swap: bool, reduction: int):
    near = torch.linalg_vector_norm(anchor - positive + eps, p, [-1])
    far = torch.linalg_vector_norm(anchor - negative + eps, p, [-1])
    if swap:
        far = torch.minimum(far, torch.linalg_vector_norm(positive - negative + eps, p, [-1]))
    return reduced_loss(torch.clamp_min(margin + near - far, 0.0), reduction)

def multi_margin(self, target, p, margin, weight: Optional[Tensor], reduction: int):
    x = self if self.dim() == 2 else self.unsqueeze(0)
    t = target.reshape([-1, 1])
    z = torch.clamp_min(margin - x.gather(1, t) + x, 0.0)
    if float(p) == 2.0:
        z = z * z
    if weight is not None:
        z = z * torch.index_select(weight, 0, target.reshape(-1)).unsqueeze(1)
    z = z.scatter(1, t, 0)
    loss = z.sum(1) / x.size(1)
    return reduced_loss(loss if target.dim() == 1 else loss.squeeze(0), reduction)

def multilabel_margin(self, target, reduction: int):
    x = self if self.dim() == 2 else self.unsqueeze(0)
    t = target.reshape(x.size())
    counts = (t >= 0).long().cumprod(1)
    index = t.clamp_min(0)
    is_target = torch.zeros_like(x).scatter_add(1, index, counts.to(x.dtype)).clamp_max(1)
    z = torch.clamp_min(1 - x.gather(1, index).unsqueeze(2) + x.unsqueeze(1), 0.0)
    z = z * counts.unsqueeze(2) * (1 - is_target).unsqueeze(1)
    loss = z.sum([1, 2]) / x.size(1)
    return reduced_loss(loss if self.dim() == 2 else loss.squeeze(0), reduction)

def cosine_of(x1, x2, dim: int, eps: float):
    a = torch.linalg_vector_norm(x1, 2.0, [dim], True).clamp_min(eps)
    b = torch.linalg_vector_norm(x2, 2.0, [dim], True).clamp_min(eps)
    return ((x1 / a) * (x2 / b)).sum(dim)

def pair_distances(self, p: float):
    n = self.size(0)
    rows = torch.triu_indices(n, n, 1)
    return torch.linalg_vector_norm(self.index_select(0, rows[0]) - self.index_select(0, rows[1]), p, [-1])

def ctc_moved(x, n: int, value):
    return torch.constant_pad_nd(x, [n, 0], value)[:, :x.size(1)]

def ctc_of(log_probs, targets, input_lengths, target_lengths, blank: int, reduction: int, zero_infinity: bool):
    x = log_probs if log_probs.dim() == 3 else log_probs.unsqueeze(1)
    steps = torch.as_tensor(input_lengths).to(torch.long).reshape([x.size(1)])
    counts = torch.as_tensor(target_lengths).to(torch.long).reshape([x.size(1)])
    labels = targets.to(torch.long)
    if labels.dim() == 1:
        at = (counts.cumsum(0) - counts).unsqueeze(1) + torch.arange(labels.size(0))
        labels = labels[at.clamp_max(labels.size(0) - 1)]
    blanks = torch.full_like(labels, blank)
    pairs = torch.stack([blanks, labels], -1).reshape([x.size(1), 2 * labels.size(1)])
    symbols = torch.cat([pairs, torch.full([x.size(1), 1], blank)], 1)
    emitted = x.gather(2, symbols.unsqueeze(0).expand([x.size(0), -1, -1])).clamp_min(-1e30)
    may_skip = (symbols != blank) & (symbols != ctc_moved(symbols, 2, blank))
    barred = torch.where(may_skip, 0.0, -1e30).to(x.dtype)
    alpha = torch.where(torch.arange(symbols.size(1)) == 0, 0.0, -1e30).to(x.dtype).expand(symbols.size())
    for t in range(x.size(0)):
        ways = torch.stack([alpha, ctc_moved(alpha, 1, -1e30), ctc_moved(alpha, 2, -1e30) + barred])
        alpha = torch.where((steps > t).unsqueeze(1), emitted[t] + torch.logsumexp(ways, [0]), alpha)
    last = (2 * counts).unsqueeze(1)
    on_blank = alpha.gather(1, last).squeeze(1)
    on_label = torch.where(counts > 0, alpha.gather(1, (last - 1).clamp_min(0)).squeeze(1), -1e30)
    loss = -torch.logaddexp(on_blank, on_label)
    # torch's derivative is that of log_probs as they come from log_softmax: it sums to 0 over the classes.
    share = torch.where((torch.arange(x.size(0)).unsqueeze(1) < steps).unsqueeze(2), x.exp() - x.exp().detach(), 0.0)
    loss = torch.where(loss > 1e29, 0.0 if zero_infinity else float("inf"), loss + share.sum([0, 2]))
    if reduction == 1:
        loss = loss / counts.clamp_min(1)
    if reduction == 0 and log_probs.dim() == 2:
        loss = loss.squeeze(0)
    return reduced_loss(loss, reduction)

)py";

} // namespace tenon::autodiff::prelude
