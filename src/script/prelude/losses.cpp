// torch.nn.functional: losses.
#include "script/prelude/prelude.h"

namespace tenon::script::prelude {

const char losses[] = R"py(
def _reduction(size_average: Optional[bool], reduce: Optional[bool], reduction: str) -> int:
    if reduction == "none":
        return 0
    if reduction == "mean":
        return 1
    if reduction == "sum":
        return 2
    raise ValueError(f"{reduction} is not a valid value for reduction")

def mse_loss(input, target, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", weight=None):
    a, b = torch.broadcast_tensors([input, target])
    return torch._C._nn.mse_loss(a, b, _reduction(size_average, reduce, reduction))

def l1_loss(input, target, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", weight=None):
    a, b = torch.broadcast_tensors([input, target])
    return torch._C._nn.l1_loss(a, b, _reduction(size_average, reduce, reduction))

def smooth_l1_loss(input, target, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", beta: float = 1.0):
    a, b = torch.broadcast_tensors([input, target])
    if beta == 0.0:
        return torch._C._nn.l1_loss(a, b, _reduction(size_average, reduce, reduction))
    return torch._C._nn.smooth_l1_loss(a, b, _reduction(size_average, reduce, reduction), beta)

def huber_loss(input, target, reduction: str = "mean", delta: float = 1.0, weight=None):
    a, b = torch.broadcast_tensors([input, target])
    return torch._C._nn.huber_loss(a, b, _reduction(None, None, reduction), delta)

def nll_loss(input, target, weight=None, size_average: Optional[bool] = None, ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch._C._nn.nll_loss_nd(input, target, weight, _reduction(size_average, reduce, reduction), ignore_index)

def cross_entropy(input, target, weight=None, size_average: Optional[bool] = None, ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean", label_smoothing: float = 0.0):
    return torch._C._nn.cross_entropy_loss(input, target, weight, _reduction(size_average, reduce, reduction), ignore_index, label_smoothing)

def binary_cross_entropy(input, target, weight=None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch._C._nn.binary_cross_entropy(input, target, weight, _reduction(size_average, reduce, reduction))

def binary_cross_entropy_with_logits(input, target, weight=None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", pos_weight=None):
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, _reduction(size_average, reduce, reduction))

def kl_div(input, target, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean", log_target: bool = False):
    if reduction == "batchmean":
        out = torch.kl_div(input, target, 2, log_target=log_target)
        if input.dim() != 0:
            out = out / input.size(0)
        return out
    return torch.kl_div(input, target, _reduction(size_average, reduce, reduction), log_target=log_target)

def poisson_nll_loss(input, target, log_input: bool = True, full: bool = False, size_average: Optional[bool] = None, eps: float = 1e-08, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch.poisson_nll_loss(input, target, log_input, full, eps, _reduction(size_average, reduce, reduction))

def soft_margin_loss(input, target, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch._C._nn.soft_margin_loss(input, target, _reduction(size_average, reduce, reduction))

def multilabel_margin_loss(input, target, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch._C._nn.multilabel_margin_loss(input, target, _reduction(size_average, reduce, reduction))

def multi_margin_loss(input, target, p: int = 1, margin: float = 1.0, weight: Optional[Tensor] = None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch._C._nn.multi_margin_loss(input, target, p, margin, weight, _reduction(size_average, reduce, reduction))

def margin_ranking_loss(input1, input2, target, margin: float = 0.0, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch.margin_ranking_loss(input1, input2, target, margin, _reduction(size_average, reduce, reduction))

def hinge_embedding_loss(input, target, margin: float = 1.0, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch.hinge_embedding_loss(input, target, margin, _reduction(size_average, reduce, reduction))

def cosine_embedding_loss(input1, input2, target, margin: float = 0.0, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch.cosine_embedding_loss(input1, input2, target, margin, _reduction(size_average, reduce, reduction))

def triplet_margin_loss(anchor, positive, negative, margin: float = 1.0, p: float = 2.0, eps: float = 1e-06, swap: bool = False, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean"):
    return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, _reduction(size_average, reduce, reduction))

def multilabel_soft_margin_loss(input, target, weight=None, size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean"):
    loss = -(target * torch._C._nn.log_sigmoid(input) + (1 - target) * torch._C._nn.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1)
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    return loss

def gaussian_nll_loss(input, target, var, full: bool = False, eps: float = 1e-06, reduction: str = "mean"):
    v = var.clone().clamp_(eps)
    loss = 0.5 * (torch.log(v) + (input - target) ** 2 / v)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    return loss

def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction(None, None, reduction), zero_infinity)
)py";

} // namespace tenon::script::prelude
