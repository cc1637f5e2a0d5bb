// torch.nn: losses and distances.
#include "script/prelude/prelude.h"

namespace tenon::script::prelude {

const char loss_modules[] = R"py(
class MSELoss(Module):
    def __init__(self, size_average=None, reduce=None, reduction='mean'):
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, input, target):
        return F.mse_loss(input, target, reduction=self.reduction)

class L1Loss(Module):
    def __init__(self, size_average=None, reduce=None, reduction='mean'):
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, input, target):
        return F.l1_loss(input, target, reduction=self.reduction)

class SmoothL1Loss(Module):
    def __init__(self, size_average=None, reduce=None, reduction='mean', beta=1.0):
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
        self.beta = beta
    def forward(self, input, target):
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)

class HuberLoss(Module):
    def __init__(self, reduction='mean', delta=1.0):
        self.reduction = reduction
        self.delta = delta
    def forward(self, input, target):
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)

class NLLLoss(Module):
    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'):
        if weight is not None:
            self.register_buffer('weight', weight)
        else:
            self.weight = None
        self.size_average = size_average
        self.ignore_index = ignore_index
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, input, target):
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)

class CrossEntropyLoss(Module):
    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0):
        if weight is not None:
            self.register_buffer('weight', weight)
        else:
            self.weight = None
        self.size_average = size_average
        self.ignore_index = ignore_index
        self.reduce = reduce
        self.reduction = reduction
        self.label_smoothing = label_smoothing
    def forward(self, input, target):
        return F.cross_entropy(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction, label_smoothing=self.label_smoothing)

class BCELoss(Module):
    def __init__(self, weight=None, size_average=None, reduce=None, reduction='mean'):
        if weight is not None:
            self.register_buffer('weight', weight)
        else:
            self.weight = None
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, input, target):
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)

class BCEWithLogitsLoss(Module):
    def __init__(self, weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None):
        if weight is not None:
            self.register_buffer('weight', weight)
        else:
            self.weight = None
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
        if pos_weight is not None:
            self.register_buffer('pos_weight', pos_weight)
        else:
            self.pos_weight = None
    def forward(self, input, target):
        return F.binary_cross_entropy_with_logits(input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction)

class KLDivLoss(Module):
    def __init__(self, size_average=None, reduce=None, reduction='mean', log_target=False):
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
        self.log_target = log_target
    def forward(self, input, target):
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)

class PoissonNLLLoss(Module):
    def __init__(self, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction='mean'):
        self.log_input = log_input
        self.full = full
        self.size_average = size_average
        self.eps = eps
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, input, target):
        return F.poisson_nll_loss(input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction)

class SoftMarginLoss(Module):
    def __init__(self, size_average=None, reduce=None, reduction='mean'):
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, input, target):
        return F.soft_margin_loss(input, target, reduction=self.reduction)

class MarginRankingLoss(Module):
    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction='mean'):
        self.margin = margin
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, input1, input2, target):
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)

class HingeEmbeddingLoss(Module):
    def __init__(self, margin=1.0, size_average=None, reduce=None, reduction='mean'):
        self.margin = margin
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, input, target):
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)

class CosineEmbeddingLoss(Module):
    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction='mean'):
        self.margin = margin
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, input1, input2, target):
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)

class TripletMarginLoss(Module):
    def __init__(self, margin=1.0, p=2.0, eps=1e-06, swap=False, size_average=None, reduce=None, reduction='mean'):
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap
        self.size_average = size_average
        self.reduce = reduce
        self.reduction = reduction
    def forward(self, anchor, positive, negative):
        return F.triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction)

class GaussianNLLLoss(Module):
    def __init__(self, full=False, eps=1e-06, reduction='mean'):
        self.full = full
        self.eps = eps
        self.reduction = reduction
    def forward(self, input, target, var):
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)

class CosineSimilarity(Module):
    def __init__(self, dim=1, eps=1e-08):
        self.dim = dim
        self.eps = eps
    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)

class PairwiseDistance(Module):
    def __init__(self, p=2.0, eps=1e-06, keepdim=False):
        self.p = p
        self.eps = eps
        self.keepdim = keepdim
    def forward(self, x1, x2):
        return torch.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)

)py";

} // namespace tenon::script::prelude
