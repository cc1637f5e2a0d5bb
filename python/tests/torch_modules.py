"""Modules that backend="tenon" of torch.compile is tested with, with their inputs: of torch.nn, torchvision, timm and transformers, all small and with random weights.

CASES holds a Case for each name. Nothing but torch is imported before a case is made, so that a missing package costs only its own cases."""
import dataclasses
import importlib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass(frozen=True)
class Case:
    make: Callable  # gives the module
    inputs: Callable  # of a batch size: a tuple of arguments, or a dict of them by name
    package: str
    train: bool = True  # whether it is tried in training too
    batches: bool = True  # whether another batch size must run without another compile


CASES = {}


def case(name, make, inputs, **flags):
    assert name not in CASES, name
    CASES[name] = Case(make, inputs, name.split(".")[0], **flags)


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def call(f):
    return lambda: Call(f)


class Lazy:
    """A package that is imported when something of it is asked for."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, attribute):
        return getattr(importlib.import_module(self.name), attribute)


def rand(*sizes):
    return torch.randn(*sizes)


def ints(high, *sizes):
    return torch.randint(0, high, sizes)


def of(*sizes):
    """A random tensor with the batch size in front."""
    return lambda n: (rand(n, *sizes),)


class MaxUnpool(nn.Module):
    def forward(self, x):
        y, i = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y * 2, i, 2)


class FractionalPool(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("samples", torch.rand(16, 3, 2))

    def forward(self, x):
        return F.fractional_max_pool2d(x, 3, output_size=(5, 6), _random_samples=self.samples[:x.shape[0]])


class Tagger(nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.rnn, self.embed, self.out = rnn, nn.Linear(10, 10), nn.Linear(14, 5)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x).relu())[0])


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(10, 12), nn.GRUCell(12, 12), nn.RNNCell(12, 12)

    def forward(self, x):
        h, c, g, r = [x.new_zeros(x.shape[0], 12) for _ in range(4)]
        for t in range(x.shape[1]):
            h, c = self.lstm(x[:, t], (h, c))
            g = self.gru(h, g)
            r = self.rnn(g, r)
        return {"hidden": r, "cell": c, "none": None}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x, padding):
        return self.attention(x, x, x, key_padding_mask=padding, need_weights=True, average_attn_weights=False)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, norm_first=True), 2, enable_nested_tensor=False)

    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding).masked_fill(padding[..., None], 0.0)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 48, batch_first=True, activation="gelu"), 2)

    def forward(self, x, memory):
        return self.decoder(x, memory, tgt_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]), tgt_is_causal=True)


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.all = nn.ModuleList([nn.ELU(), nn.CELU(0.7), nn.SELU(), nn.Hardtanh(), nn.Hardswish(), nn.Hardsigmoid(), nn.LeakyReLU(0.1), nn.LogSigmoid(), nn.ReLU6(), nn.Softshrink(), nn.Hardshrink(),
                                  nn.Tanhshrink(), nn.Threshold(0.1, 0.2), nn.Softmin(-1), nn.LogSoftmax(-1), nn.GELU(), nn.SiLU(inplace=True)])

    def forward(self, x):
        return [f(x * 1.5) for f in self.all]


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(rand(8, 8)) for _ in range(3)])
        self.gates = nn.ParameterDict({"a": nn.Parameter(rand(8, 3))})

    def forward(self, x):
        gate = (x @ self.gates["a"]).softmax(-1)
        return sum(gate[:, i:i + 1] * F.silu(x @ w) for i, w in enumerate(self.weights))


# torch.nn: layers.
case("nn.Linear", lambda: nn.Linear(24, 17), of(24))
case("nn.Bilinear", lambda: nn.Bilinear(9, 7, 5), lambda n: (rand(n, 9), rand(n, 7)))
case("nn.Conv1d", lambda: nn.Conv1d(6, 10, 5, stride=2, padding=2, padding_mode="circular"), of(6, 33))
case("nn.Conv2d", lambda: nn.Conv2d(8, 12, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=4), of(8, 15, 18))
case("nn.Conv2d.same", lambda: nn.Sequential(nn.Conv2d(3, 8, 4, padding="same"), nn.Conv2d(8, 8, 3, padding="valid", padding_mode="reflect")), of(3, 13, 14))
case("nn.Conv3d", lambda: nn.Conv3d(4, 6, 3, stride=(1, 2, 2), padding=1), of(4, 6, 9, 10))
case("nn.ConvTranspose1d", lambda: nn.ConvTranspose1d(6, 4, 4, stride=3, padding=1), of(6, 11))
case("nn.ConvTranspose2d", lambda: nn.ConvTranspose2d(6, 8, 3, stride=2, padding=1, output_padding=1, groups=2), of(6, 7, 9))
case("nn.ConvTranspose3d", lambda: nn.ConvTranspose3d(3, 5, 3, stride=2), of(3, 4, 5, 4))
case("nn.BatchNorm1d", lambda: nn.Sequential(nn.Linear(12, 12), nn.BatchNorm1d(12), nn.ReLU()), of(12))
case("nn.BatchNorm2d", lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=None), nn.SiLU()), of(3, 9, 9))
case("nn.BatchNorm3d", lambda: nn.BatchNorm3d(4, affine=False), of(4, 3, 5, 4))
case("nn.LayerNorm", lambda: nn.Sequential(nn.LayerNorm((7, 16)), nn.LayerNorm(16, elementwise_affine=False), nn.GELU("tanh")), of(7, 16))
case("nn.GroupNorm", lambda: nn.Sequential(nn.GroupNorm(4, 12), nn.Mish(), nn.InstanceNorm2d(12, affine=True)), of(12, 6, 7))
case("nn.InstanceNorm1d", lambda: nn.InstanceNorm1d(6, affine=True, track_running_stats=True), of(6, 21))
case("nn.RMSNorm", lambda: nn.Sequential(nn.RMSNorm(20), nn.Softplus(), nn.RMSNorm((5, 20))), of(5, 20))
case("nn.LocalResponseNorm", lambda: nn.Sequential(nn.LocalResponseNorm(3), nn.Softsign()), of(8, 6, 6))
case("nn.MaxPool", lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.Flatten(2), nn.MaxPool1d(2)), of(5, 13, 12))
case("nn.MaxPool3d", lambda: nn.MaxPool3d(2, dilation=2), of(3, 7, 8, 9))
case("nn.MaxUnpool2d", MaxUnpool, of(3, 8, 8))
case("nn.AvgPool", lambda: nn.Sequential(nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.LPPool2d(2, 2)), of(4, 13, 14))
case("nn.AvgPool3d", lambda: nn.Sequential(nn.AvgPool3d(2, ceil_mode=True), nn.AdaptiveAvgPool3d((1, 2, None))), of(3, 5, 7, 6))
case("nn.AdaptivePool", lambda: nn.Sequential(nn.AdaptiveAvgPool2d((7, 5)), nn.AdaptiveMaxPool2d((3, 2))), of(4, 11, 13))
case("nn.FractionalMaxPool2d", FractionalPool, of(3, 12, 12))
case("nn.Embedding", lambda: nn.Embedding(50, 12, padding_idx=3), lambda n: (ints(50, n, 7),))
case("nn.Embedding.max_norm", lambda: nn.Embedding(50, 12, max_norm=1.0), lambda n: (ints(50, n, 7),), train=False)
case("nn.EmbeddingBag", lambda: nn.EmbeddingBag(40, 8, mode="mean"), lambda n: (ints(40, n, 5),))
case("nn.EmbeddingBag.offsets", lambda: nn.EmbeddingBag(40, 8, mode="sum"), lambda n: (ints(40, 4 * n), torch.arange(n) * 4, rand(4 * n)))
case("nn.LSTM", lambda: nn.LSTM(10, 14, num_layers=2, bidirectional=True, batch_first=True), of(6, 10))
case("nn.GRU", lambda: Tagger(nn.GRU(10, 14, batch_first=True)), of(6, 10))
case("nn.LSTMCell", Cells, of(5, 10))
case("nn.MultiheadAttention", Attention, lambda n: (rand(n, 9, 32), torch.arange(9)[None] >= torch.arange(5, 5 + n)[:, None]))
case("nn.TransformerEncoder", Encoder, lambda n: (rand(n, 8, 32), torch.arange(8)[None] >= torch.arange(4, 4 + n)[:, None]))
case("nn.TransformerDecoder", Decoder, lambda n: (rand(n, 6, 32), rand(n, 9, 32)))
case("nn.Transformer", lambda: nn.Transformer(32, 4, 1, 1, 48, batch_first=True), lambda n: (rand(n, 7, 32), rand(n, 5, 32)))
case("nn.Upsample", lambda: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Upsample(scale_factor=1.5, mode="nearest"), nn.UpsamplingBilinear2d((9, 10))), of(3, 5, 6))
case("nn.Upsample.3d", lambda: nn.Upsample(scale_factor=2, mode="trilinear"), of(2, 3, 4, 5))
case("nn.PixelShuffle", lambda: nn.Sequential(nn.PixelShuffle(2), nn.ChannelShuffle(3), nn.PixelUnshuffle(4)), of(12, 4, 6))
case("nn.Fold", lambda: nn.Sequential(nn.Unfold(3, padding=1, stride=2), nn.Tanh(), nn.Fold((9, 8), 3, padding=1, stride=2)), of(4, 9, 8))
case("nn.Pad", lambda: nn.Sequential(nn.ReflectionPad2d((1, 2, 2, 1)), nn.ReplicationPad2d(2), nn.CircularPad2d((1, 0, 2, 3)), nn.ConstantPad2d((1, -1, 0, 2), 0.5)), of(3, 7, 6))
case("nn.Activations", Activations, of(6, 11))
case("nn.PReLU", lambda: nn.Sequential(nn.PReLU(6), nn.GLU(1), nn.Softmax2d()), of(6, 5, 4))
case("nn.AdaptiveLogSoftmax", lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 40, [10, 20]), lambda n: (rand(n, 16), ints(40, n)), batches=False)
case("nn.ParameterList", Mixture, of(8))
case("nn.utils.weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3), dim=2), of(4, 10))
case("nn.utils.parametrize", lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3)), nn.utils.parametrizations.orthogonal(nn.Linear(8, 8))), of(4, 10), train=False)

# torch.nn.functional: losses, and what has no module.
case("loss.classes", call(lambda x, t: (F.cross_entropy(x, t, label_smoothing=0.1), F.nll_loss(F.log_softmax(x, 1), t, ignore_index=2), F.multi_margin_loss(x, t))),
     lambda n: (rand(n, 9), ints(9, n)))
case("loss.segments", call(lambda x, t, w: F.cross_entropy(x, t, weight=w.detach(), reduction="none")), lambda n: (rand(n, 5, 6, 7), ints(5, n, 6, 7), torch.rand(5)))
case("loss.regression", call(lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y, beta=0.5), F.huber_loss(x, y, delta=0.7), F.gaussian_nll_loss(x, y, y.exp()))),
     lambda n: (rand(n, 6), rand(n, 6)))
case("loss.binary", call(lambda x, t: (F.binary_cross_entropy_with_logits(x, t, pos_weight=torch.tensor(2.0)), F.binary_cross_entropy(x.sigmoid(), t), F.soft_margin_loss(x, 2 * t.detach() - 1),
                                       F.multilabel_soft_margin_loss(x, t.detach()))), lambda n: (rand(n, 6), ints(2, n, 6).float()))
case("loss.distances", call(lambda a, b, c: (F.triplet_margin_loss(a, b, c), F.cosine_embedding_loss(a, b, c.sum(1).sign()), F.margin_ranking_loss(a, b, c.sign()), F.hinge_embedding_loss(a, c.sign()),
                                             F.pairwise_distance(a, b), F.cosine_similarity(a, b))), lambda n: (rand(n, 8), rand(n, 8), rand(n, 8)))
case("loss.kl", call(lambda x, y: (F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean"), F.poisson_nll_loss(x, y.exp(), full=True))), lambda n: (rand(n, 7), rand(n, 7)))
case("loss.ctc", call(lambda x, t: F.ctc_loss(F.log_softmax(x, -1).transpose(0, 1), t, torch.full((x.shape[0],), 12), torch.full((x.shape[0],), 4))),
     lambda n: (rand(n, 12, 8), ints(7, n, 4) + 1), batches=False)
case("fn.attention", call(lambda q, k, v, m: (F.scaled_dot_product_attention(q, k, v, is_causal=True), F.scaled_dot_product_attention(q, k, v, attn_mask=m),
                                              F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True))),
     lambda n: (rand(n, 4, 10, 8), rand(n, 4, 10, 8), rand(n, 4, 10, 8), rand(n, 1, 10, 10)))
case("fn.attention.bool", call(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3)), lambda n: (rand(n, 2, 7, 8), rand(n, 2, 9, 8), rand(n, 2, 9, 8), torch.rand(n, 1, 7, 9) > 0.3))
case("fn.grid_sample", call(lambda x, g: (F.grid_sample(x, g.tanh(), align_corners=False), F.grid_sample(x, F.affine_grid(g[:, :2, :3, 0], x.shape, align_corners=True), mode="bicubic", padding_mode="reflection", align_corners=True))),
     lambda n: (rand(n, 3, 8, 9), rand(n, 5, 6, 2)))
case("fn.interpolate", call(lambda x: (F.interpolate(x, size=(5, 13), mode="bicubic"), F.interpolate(x, scale_factor=0.6, mode="bilinear", antialias=True), F.interpolate(x, size=(4, 4), mode="area"),
                                       F.interpolate(x, (11, 9), mode="nearest-exact"))), of(3, 9, 8))
case("fn.fft", call(lambda x: (torch.fft.irfft(torch.fft.rfft(x, norm="ortho")), torch.fft.fft2(x).abs(), torch.view_as_real(torch.fft.fft(x)))), of(6, 12))
case("fn.stft", call(lambda x: torch.stft(x, 16, 8, window=torch.hann_window(16), return_complex=True).abs()), of(64))
case("fn.einsum", call(lambda a, b: (torch.einsum("bij,bjk->bik", a, b), torch.einsum("bij,bkj->bikj", a, b.mT).logsumexp(-1), torch.tensordot(a, b[0].mT, ([2], [1])))), lambda n: (rand(n, 4, 5), rand(n, 5, 6)))
case("fn.sort", call(lambda x: (x.sort(-1, descending=True), x.topk(3, dim=1), x.kthvalue(2, 1), x.median(1), x.mode(1), x.cumsum(1), x.cummax(1), x.argsort(0))), of(9))
case("fn.scatter", call(lambda x, i: (torch.zeros_like(x).scatter_add(1, i, x), x.gather(1, i), x.index_select(1, i[0]), x.scatter_reduce(1, i, x * 2, "amax"), x.masked_fill(i > 3, 0.0), F.one_hot(i, 8))),
     lambda n: (rand(n, 8), ints(8, n, 8)))
case("fn.linalg", call(lambda x: (torch.linalg.det(x), torch.linalg.slogdet(x), torch.linalg.norm(x, dim=(1, 2)), torch.cdist(x, x + 1), torch.cdist(x, x * 2, p=1))), of(5, 5))
case("fn.linalg.solve", call(lambda x: (torch.linalg.inv(x @ x.mT + 3 * torch.eye(5)), torch.linalg.solve(x + 5 * torch.eye(5), x))), of(5, 5))


# What models do beside computing: state, aliases, odd inputs and outputs.
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x):
        self.calls += 1
        self.mean.lerp_(x.detach().mean(0), 0.1)
        return x - self.mean


class Cache(nn.Module):
    """Keys and values of a decoder's layer, written at a position that is a tensor."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(16, 48)
        self.register_buffer("keys", torch.zeros(8, 12, 16))
        self.register_buffer("position", torch.tensor([3]))

    def forward(self, x):
        q, k, v = self.q(x).chunk(3, -1)
        self.keys[:x.shape[0]].index_copy_(1, self.position, k.detach())
        self.position.add_(1)
        keys = self.keys[:x.shape[0]]
        mask = torch.arange(12) < self.position
        return F.scaled_dot_product_attention(q, keys, keys + v, attn_mask=mask[None, None].expand(x.shape[0], 1, 12))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x, way, deep):
        def positive(x):
            return torch.cond(deep, lambda x: self.a(x).relu(), lambda x: self.b(x) * 2, (x,))

        return torch.cond(way, positive, lambda x: self.b(x).tanh(), (x,))


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = self.norm(self.conv(x)).relu()
            return self.out(h.mean((2, 3))).softmax(-1)


def written(x, y):
    x.mul_(2)
    y[:, 1:3] = 1
    return x + y, x


def aliased(x):
    return x, x[1:], x.t(), x.view(-1, 2), x.detach(), (x + 1).mT, (x * 2)[:, ::2], x.expand(3, *x.shape), (x - 1)[None].expand(4, -1, -1), None, 3, {"a": x.sum(), "b": "text"}


def kinds(x, i, b, flag, factor, k):
    return {"sum": x.sum(1, dtype=torch.float64), "int": i * k + b, "flag": torch.where(b, x[:, 0] * factor, 0.0) if flag else x, "any": b.any(), "half": x.half(), "div": i // 3, "true": i / 3,
            "byte": (i % 200).to(torch.uint8), "shift": (i << 2) ^ 5, "none": None, "size": x.shape[0]}


case("habit.buffers", Counter, of(6))
case("habit.cache", Cache, lambda n: (rand(n, 1, 16),), train=False)
case("habit.writes_inputs", call(written), lambda n: (rand(n, 5), rand(n, 5)), train=False)
case("habit.aliases", call(aliased), of(6))
case("habit.kinds", call(kinds), lambda n: (rand(n, 3), ints(100, n), torch.rand(n) > 0.5, True, 0.25, 3))
case("habit.branches", Branches, lambda n: (rand(n, 6), torch.tensor(True), torch.tensor(False)), train=False)
case("habit.autocast", Autocast, of(3, 8, 8))
case("habit.bf16", lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).bfloat16(), lambda n: (rand(n, 16).bfloat16(),))
case("habit.channels_last", lambda: nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)).to(memory_format=torch.channels_last),
     lambda n: (rand(n, 4, 8, 8).to(memory_format=torch.channels_last),))
case("habit.no_tensors", call(lambda k: (torch.arange(12).view(3, 4) * k, torch.ones(3, dtype=torch.bfloat16))), lambda n: (3,), train=False)
case("habit.shapes", call(lambda x: (x.reshape(x.shape[0], -1).sum(1) / x.shape[0], torch.arange(x.shape[0]) + x.shape[0], x.new_ones(x.shape[0] + 1, 2), torch.cat([x, x[:1]]).flatten(0, 1))), of(4, 3))


# torchvision.
def vision(module):
    return Lazy(f"torchvision.models.{module}")


tv, detection = Lazy("torchvision.models"), Lazy("torchvision.models.detection")
case("torchvision.resnet", lambda: vision("resnet").ResNet(vision("resnet").BasicBlock, [1, 1, 1, 1], num_classes=10), of(3, 32, 32))
case("torchvision.resnext", lambda: vision("resnet").ResNet(vision("resnet").Bottleneck, [1, 1, 1, 1], num_classes=10, groups=8, width_per_group=4,
                                                            replace_stride_with_dilation=[False, False, True]), of(3, 32, 32))
case("torchvision.mobilenet_v2", lambda: vision("mobilenetv2").MobileNetV2(10, 0.35, [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 2, 2]]), of(3, 32, 32))
case("torchvision.mobilenet_v3_small", lambda: tv.mobilenet_v3_small(num_classes=10, width_mult=0.5), of(3, 64, 64))
case("torchvision.efficientnet_b0", lambda: tv.efficientnet_b0(num_classes=10), of(3, 64, 64))
case("torchvision.regnet_y_400mf", lambda: tv.regnet_y_400mf(num_classes=10), of(3, 64, 64))
case("torchvision.vit", lambda: vision("vision_transformer").VisionTransformer(32, 8, 2, 4, 48, 96, num_classes=10), of(3, 32, 32))
case("torchvision.swin", lambda: vision("swin_transformer").SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10), of(3, 32, 32))
case("torchvision.swin_v2", lambda: vision("swin_transformer").SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10, block=vision("swin_transformer").SwinTransformerBlockV2,
                                                                               downsample_layer=vision("swin_transformer").PatchMergingV2), of(3, 40, 32))
case("torchvision.convnext", lambda: vision("convnext").ConvNeXt([vision("convnext").CNBlockConfig(16, 32, 2), vision("convnext").CNBlockConfig(32, None, 1)], num_classes=10), of(3, 32, 32))
case("torchvision.densenet", lambda: vision("densenet").DenseNet(8, (2, 2, 2), 16, num_classes=10), of(3, 32, 32))
case("torchvision.squeezenet1_1", lambda: tv.squeezenet1_1(num_classes=10), of(3, 64, 64))
case("torchvision.shufflenet_v2", lambda: vision("shufflenetv2").ShuffleNetV2([2, 2, 2], [8, 16, 32, 64, 128], 10), of(3, 32, 32))
case("torchvision.mnasnet", lambda: tv.mnasnet0_5(num_classes=10), of(3, 64, 64))
case("torchvision.googlenet", lambda: tv.googlenet(num_classes=10, aux_logits=False, init_weights=False), of(3, 64, 64))
case("torchvision.inception_v3", lambda: tv.inception_v3(num_classes=10, aux_logits=False, init_weights=False), of(3, 96, 96))
case("torchvision.alexnet", lambda: tv.alexnet(num_classes=10), of(3, 64, 64))
case("torchvision.maxvit", lambda: vision("maxvit").MaxVit((32, 32), 16, 4, [16, 32], [1, 1], 8, 0.0, num_classes=10), of(3, 32, 32))
case("torchvision.fcn", lambda: vision("segmentation").fcn_resnet50(weights=None, weights_backbone=None, num_classes=4), of(3, 48, 48))
case("torchvision.lraspp", lambda: vision("segmentation").lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4), of(3, 64, 64))
case("torchvision.deeplabv3", lambda: vision("segmentation").deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4), of(3, 64, 64))
case("torchvision.video", lambda: vision("video.resnet").r3d_18(num_classes=5).layer1, of(64, 4, 10, 10))
case("torchvision.ssdlite", lambda: Heads(detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)), of(3, 96, 96))
case("torchvision.roi_align", lambda: RoI(), lambda n: (rand(n, 8, 16, 16), torch.rand(5, 4).cumsum(1) * 5, torch.rand(5)), train=False)


class Heads(nn.Module):
    """The part of a detection model before boxes are chosen, which is Python on lists."""

    def __init__(self, model):
        super().__init__()
        self.backbone, self.head = model.backbone, model.head

    def forward(self, x):
        return self.head(list(self.backbone(x).values()))


class RoI(nn.Module):
    def forward(self, x, boxes, scores):
        ops = Lazy("torchvision.ops")
        return ops.roi_align(x, [boxes] * x.shape[0], 3, sampling_ratio=2), ops.nms(boxes, scores, 0.5)


# timm: the smallest of many families.
def timm(name, size=64, **kwargs):
    case(f"timm.{name}", lambda: Lazy("timm").create_model(name, num_classes=10, **kwargs), of(3, size, size))


timm("test_vit", 160)
timm("test_resnet")
timm("test_efficientnet")
timm("test_efficientnet_evos")
timm("test_byobnet")
timm("test_nfnet")
timm("test_convnext")
timm("test_mambaout")
timm("test_vit_relpos", 160)
timm("test_coatnet", 160)
timm("test_maxvit", 160)
timm("beit_base_patch16_224", img_size=64, embed_dim=48, depth=2, num_heads=4)
timm("cait_xxs24_224", img_size=64, embed_dim=48, depth=2, num_heads=4)
timm("edgenext_xx_small")
timm("efficientvit_b0")
timm("eva02_tiny_patch14_224", 56, img_size=56, depth=2, embed_dim=48, num_heads=4)
timm("fastvit_t8")
timm("ghostnetv2_100")
timm("hgnetv2_b0")
timm("levit_128s", 224)
timm("mobileone_s0")
timm("mobilevitv2_050")
timm("pvt_v2_b0")
timm("repvit_m1")
timm("resnest14d")
timm("swinv2_tiny_window8_256", img_size=64, window_size=4, depths=(2, 2), num_heads=(2, 4), embed_dim=32)
timm("mixer_s32_224", img_size=64)
timm("poolformerv2_s12")
timm("xcit_nano_12_p16_224", depth=2)


# transformers: by the name of the model's class, with a small configuration.
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 99, "max_position_embeddings": 64,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IMAGE = {"image_size": 32, "patch_size": 8}


def small(config, **changes):
    """A configuration with few and narrow layers: SMALL where the class has such a field, then `changes`."""
    kind = getattr(Lazy("transformers"), config + "Config")
    known = kind()
    return kind(**{**{k: v for k, v in SMALL.items() if k in known.to_dict()}, "use_cache": False, "attn_implementation": "sdpa", **changes})


def transformers(name, inputs, config=None, train=True, **changes):
    base = next(name[:-len(end)] for end in ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForSequenceClassification", "ForImageClassification", "ForSemanticSegmentation", "ForConditionalGeneration",
                                             "ForCTC", "ForObjectDetection", "EncoderModel", "TextModel", "VisionModel", "Model") if name.endswith(end))
    case(f"transformers.{name}", lambda: getattr(Lazy("transformers"), name)(small(config or base, **changes)), inputs, train=train)


def words(n):
    return {"input_ids": ints(90, n, 9) + 3}


def masked(n):
    return {**words(n), "attention_mask": (torch.arange(9)[None] < torch.arange(5, 5 + n)[:, None]).long()}


def translated(n):
    return {**words(n), "decoder_input_ids": ints(90, n, 6) + 3}


def pixels(size=32):
    return lambda n: {"pixel_values": rand(n, 3, size, size)}


transformers("BertModel", masked)
transformers("BertForSequenceClassification", masked)
transformers("RobertaForMaskedLM", words)
transformers("DistilBertModel", masked, dim=32, n_layers=2, n_heads=4, hidden_dim=48)
transformers("AlbertModel", masked, embedding_size=16)
transformers("ElectraModel", masked, embedding_size=16)
transformers("DebertaV2Model", masked, relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8, attn_implementation="eager")
transformers("DebertaModel", masked, relative_attention=True, pos_att_type=["c2p", "p2c"], attn_implementation="eager")
transformers("FunnelModel", masked, d_model=32, n_head=4, d_head=8, d_inner=48, block_sizes=[1, 1], num_decoder_layers=1, attn_implementation="eager")
transformers("MPNetModel", masked, attn_implementation="eager")
transformers("ModernBertModel", masked, global_attn_every_n_layers=2)
transformers("FNetModel", words, attn_implementation="eager")
transformers("XLNetModel", words, d_model=32, n_layer=2, n_head=4, d_inner=48, attn_implementation="eager")
transformers("ConvBertModel", masked, embedding_size=16, attn_implementation="eager")
transformers("GPT2LMHeadModel", masked, n_embd=32, n_layer=2, n_head=4, n_positions=64)
transformers("GPTNeoModel", masked, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], attn_implementation="eager")
transformers("GPTNeoXModel", masked)
transformers("GPTJModel", masked, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64, attn_implementation="eager")
transformers("LlamaForCausalLM", masked, num_key_value_heads=2)
transformers("MistralModel", masked, num_key_value_heads=2, sliding_window=4)
transformers("MixtralModel", words, num_key_value_heads=2, num_local_experts=4)
transformers("Qwen2ForCausalLM", masked, num_key_value_heads=2)
transformers("Qwen3Model", masked, num_key_value_heads=2, head_dim=8)
transformers("GemmaModel", masked, num_key_value_heads=2, head_dim=8)
transformers("Gemma2Model", masked, num_key_value_heads=2, head_dim=8, attn_implementation="eager")
transformers("PhiModel", masked)
transformers("OPTModel", masked, ffn_dim=48, word_embed_proj_dim=32)
transformers("BloomModel", masked, n_layer=2, n_head=4, attn_implementation="eager")
transformers("FalconModel", masked, alibi=True)
transformers("MambaModel", words, state_size=4, time_step_rank=4, attn_implementation="eager")
transformers("RwkvModel", words, attention_hidden_size=32, attn_implementation="eager")
transformers("T5Model", translated, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4, attn_implementation="eager")
transformers("BartForConditionalGeneration", translated, d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=48, decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4)
transformers("MarianModel", translated, d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=48, decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4)
transformers("WhisperModel", lambda n: {"input_features": rand(n, 16, 40), "decoder_input_ids": ints(90, n, 5) + 3}, d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=48,
             decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4, num_mel_bins=16, max_source_positions=20, max_target_positions=20)
transformers("Wav2Vec2Model", lambda n: {"input_values": rand(n, 800)}, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2,
             mask_time_prob=0.0, mask_feature_prob=0.0)
transformers("ViTForImageClassification", pixels(), **IMAGE)
transformers("DeiTModel", pixels(), **IMAGE)
transformers("Dinov2Model", pixels(), **IMAGE)
transformers("SwinModel", pixels(), image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
transformers("SegformerForSemanticSegmentation", pixels(64), depths=[1, 1, 1, 1], hidden_sizes=[16, 16, 32, 32], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16, attn_implementation="eager")
transformers("MobileViTModel", pixels(64), attn_implementation="eager")
transformers("CLIPModel", lambda n: {**words(n), **pixels()(n)}, text_config={**SMALL}, vision_config={**SMALL, **IMAGE}, projection_dim=16)
transformers("SiglipVisionModel", pixels(), "SiglipVision", **IMAGE)
transformers("BeitModel", pixels(), use_relative_position_bias=True, **IMAGE)
