"""Modules that backend="tenon" of torch.compile is tested with, with their inputs: of torch.nn, and habits of models; networks are in torch_networks.py.

CASES holds a Case for each name. Nothing but torch is imported before a case is made, so that a missing package costs only its own cases."""
import dataclasses
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


class MaxUnpools(nn.Module):
    def forward(self, x, y):
        a, i = F.max_pool1d(x, 2, return_indices=True)
        b, k = F.max_pool3d(y, 2, return_indices=True)
        return F.max_unpool1d(a, i, 2), F.max_unpool3d(b, k, 2)


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(5, 6, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


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
case("nn.Conv1d.depthwise", lambda: nn.Conv1d(8, 8, 3, groups=8, padding="same", dilation=2), of(8, 17))
case("nn.Pool1d", lambda: nn.Sequential(nn.AvgPool1d(3, 2), nn.AdaptiveAvgPool1d(7), nn.LPPool1d(2, 2), nn.AdaptiveMaxPool1d(2)), of(4, 21))
case("nn.Pool3d", lambda: nn.Sequential(nn.LPPool3d(2, 2), nn.AdaptiveMaxPool3d((2, 3, 2))), of(4, 9, 8, 7))
case("nn.FractionalMaxPool3d", lambda: nn.FractionalMaxPool3d(2, output_size=3, _random_samples=torch.rand(2, 3, 3)), lambda n: (rand(2, 3, 7, 7, 7),), batches=False)
case("nn.MaxUnpool", MaxUnpools, lambda n: (rand(n, 4, 12), rand(n, 4, 4, 6, 4)))
case("nn.Pad1d", lambda: nn.Sequential(nn.CircularPad1d(2), nn.ReflectionPad1d(1), nn.ReplicationPad1d(3), nn.ZeroPad1d(1), nn.ConstantPad1d(1, 2.0)), of(4, 13))
case("nn.Pad3d", lambda: nn.Sequential(nn.CircularPad3d(1), nn.ReflectionPad3d(1), nn.ReplicationPad3d(1), nn.ConstantPad3d(1, 2.0)), of(3, 4, 5, 4))
case("nn.CrossMapLRN2d", lambda: nn.Sequential(nn.LocalResponseNorm(3, 0.1), nn.InstanceNorm2d(6)), of(6, 5, 5))
case("nn.InstanceNorm3d", lambda: nn.InstanceNorm3d(4), of(4, 5, 6, 7))
case("nn.RNN", lambda: nn.RNN(7, 9, 2, nonlinearity="relu", batch_first=True, bidirectional=True), of(5, 7))
case("nn.LSTM.proj", lambda: nn.LSTM(7, 9, 2, proj_size=4), lambda n: (rand(6, n, 7),))
case("nn.LSTM.packed", Packed, lambda n: (rand(n, 7, 5), torch.tensor([7] + [3] * (n - 1))), batches=False)
case("nn.GRU.state", lambda: nn.GRU(7, 9, 2, bidirectional=True), lambda n: (rand(6, n, 7), rand(4, n, 9)))
case("nn.Unflatten", lambda: nn.Sequential(nn.Sigmoid(), nn.Softmax(1), nn.Unflatten(1, (3, 4)), nn.Identity()), of(12))
case("nn.Upsample.1d", lambda: nn.Upsample(scale_factor=2.5, mode="linear"), of(3, 7))
case("nn.Upsample.bicubic", lambda: nn.Upsample(size=(7, 9), mode="bicubic", align_corners=True), of(3, 5, 7))
case("nn.MultiheadAttention.cross", lambda: nn.MultiheadAttention(16, 4, kdim=12, vdim=10, add_bias_kv=True, add_zero_attn=True), lambda n: (rand(6, n, 16), rand(9, n, 12), rand(9, n, 10)))
case("nn.TransformerEncoderLayer", lambda: nn.TransformerEncoderLayer(16, 4, 32, activation="gelu"), lambda n: (rand(6, n, 16),))
case("nn.utils.spectral_norm", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8)), of(6))

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
case("loss.margins", call(lambda x, t, k: (F.multilabel_margin_loss(x, k), F.multi_margin_loss(x, t, p=2))),
     lambda n: (rand(n, 5), ints(5, n), torch.cat([ints(5, n, 2), -torch.ones(n, 3, dtype=torch.int64)], 1)))
case("fn.pdist", call(F.pdist), lambda n: (rand(7, n),))
case("fn.conv_tbc", call(lambda x, w, b: F.conv_tbc(x, w, b, 1)), lambda n: (rand(9, n, 4), rand(3, 4, 5), rand(5)), batches=False)
case("fn.antialias", call(lambda x: (F.interpolate(x, scale_factor=(1.5, 2), mode="bilinear", antialias=True), F.interpolate(x, size=(5, 4), mode="bicubic", antialias=True))), of(3, 9, 9))
case("fn.grid_sample.3d", call(lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False)), lambda n: (rand(n, 2, 4, 5, 6), rand(n, 3, 3, 3, 3)))
case("fn.istft", call(lambda x: torch.istft(torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True), 16, 4, window=torch.hann_window(16))), of(80))
case("fn.fftn", call(lambda x: (torch.fft.fftn(x, dim=(1, 2)).real, torch.fft.fftshift(x), torch.fft.hfft(x + 0j), torch.fft.rfft2(x).abs())), of(6, 8))
case("fn.special", call(lambda x: (torch.erfinv(x.tanh() * 0.9), torch.special.i0(x), torch.special.bessel_j0(x), torch.lgamma(x.abs() + 0.1), torch.digamma(x.abs() + 0.1), torch.polygamma(1, x.abs() + 0.1))),
     of(6), train=False)
case("fn.pointwise", call(lambda x: (torch.asinh(x), torch.atan2(x, x + 1), torch.expm1(x), torch.logaddexp(x, x + 1), torch.sinc(x), torch.hypot(x, x + 1), torch.special.ndtri(x.sigmoid() * 0.9),
                                     torch.special.entr(x.abs()), torch.special.xlog1py(x, x.abs()), torch.fmod(x, 0.3), torch.copysign(x, x - 1), torch.lerp(x, x + 1, 0.3), torch.addcdiv(x, x, x + 9))), of(6))
case("fn.statistics", call(lambda x: (x.var(1, correction=0), torch.std_mean(x), x.norm(p=1, dim=1), x.quantile(0.3, dim=1), x.nanmean(1), x.aminmax(dim=1), x.logcumsumexp(1), x.cumprod(1), x.prod(1),
                                      x.diff(dim=1), torch.cov(x), torch.corrcoef(x))), of(6))
case("fn.counts", call(lambda x: (torch.histc(x, 8, -2, 2), torch.bucketize(x, torch.tensor([-1.0, 0, 1.0])), torch.bincount((x.flatten() * 3).abs().long(), minlength=20))), of(6), train=False)
case("fn.indexing", call(lambda x, i: (x[i], x[:, [0, 2]], x.index_add(0, i, x), x.take(i), torch.take_along_dim(x, i[:, None], 1), x.index_put((i,), x, accumulate=True), x.roll(2, 1), x.rot90(), x.triu(1),
                                       torch.diag_embed(x), x.unfold(1, 3, 2), x.repeat_interleave(2, 0), torch.block_diag(x, x), torch.kron(x, x))), lambda n: (rand(n, 6), ints(2, n)), batches=False)
case("fn.views", call(lambda x: (x.unbind(1), x.split([2, 4], 1), torch.stack([x, x], 1), torch.cartesian_prod(x[0], x[1]), torch.meshgrid(x[0], x[1], indexing="ij"), torch.broadcast_to(x, (2, *x.shape)),
                                 torch.tensor_split(x, 4, 1), x.as_strided((2, 2), (1, 2)), torch.combinations(x[0]))), of(6), train=False)
case("fn.linalg.factors", call(lambda x: (torch.linalg.cholesky(x @ x.mT + torch.eye(4)), torch.linalg.eigvalsh(x @ x.mT), torch.matrix_exp(x), torch.linalg.svdvals(x),
                                          torch.linalg.solve_triangular(x.tril() + 2 * torch.eye(4), x, upper=False))), of(4, 4))
case("fn.linalg.more", call(lambda x: (torch.linalg.qr(x)[1].abs(), torch.linalg.matrix_power(x, 3), torch.linalg.multi_dot([x[0], x[0], x[0]]), torch.linalg.pinv(x), torch.linalg.matrix_rank(x),
                                       torch.linalg.lstsq(x, x)[0])), of(4, 4), train=False)
case("fn.complex", call(lambda x: (torch.view_as_complex(x).angle(), torch.polar(x[..., 0].abs(), x[..., 1]).real, (torch.view_as_complex(x) * (1 + 2j)).imag, torch.view_as_complex(x) @ torch.view_as_complex(x).mH)), of(5, 2))
case("fn.integers", call(lambda i: (i & 3, i ^ 5, ~i, i << 1, i % 7, i // 3, torch.gcd(i, i + 6), torch.lcm(i, i + 1), torch.isin(i, torch.tensor([1, 5])))), lambda n: (ints(50, n, 5),), train=False)
case("fn.selected", call(lambda x: (x.nonzero(), x[x > 0], torch.unique((x * 2).round()), torch.masked_select(x, x < 0))), of(6), train=False, batches=False)
case("fn.vmap", call(lambda x: torch.func.vmap(lambda a: a @ a.t())(x)), of(3, 4))
case("fn.grad", call(lambda x: torch.func.grad(lambda a: (a**3).sum())(x)), of(3, 4), train=False)


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


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        return torch.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, self.linear(y).tanh()), (torch.tensor(0), x))


class Checkpoint(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(lambda y: self.b(F.gelu(self.a(y))), x, use_reentrant=False)


class Normalized(nn.Module):
    """Weights that are computed from parameters, and a buffer that follows the results."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(rand(6, 6))
        self.register_buffer("scale", torch.zeros(6))

    def forward(self, x):
        y = F.linear(x, self.w / self.w.norm())
        self.scale.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        return y / (self.scale.abs() + 1).sqrt()


class Broken(nn.Module):
    """Two graphs."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        y = self.linear(x)
        torch._dynamo.graph_break()
        return y.relu() + (1 if y.sum().item() > 0 else 2)


def written(x, y):
    x.mul_(2)
    y[:, 1:3] = 1
    return x + y, x


def aliased(x):
    return x, x[1:], x.t(), x.view(-1, 2), x.detach(), (x + 1).mT, (x * 2)[:, ::2], x.expand(3, *x.shape), (x - 1)[None].expand(4, -1, -1), None, 3, {"a": x.sum(), "b": "text"}


def kinds(x, i, b, flag, factor, k):
    return {"sum": x.sum(1, dtype=torch.float64), "int": i * k + b, "flag": torch.where(b, x[:, 0] * factor, 0.0) if flag else x, "any": b.any(), "half": x.half(), "div": i // 3, "true": i / 3,
            "byte": (i % 200).to(torch.uint8), "shift": (i << 2) ^ 5, "none": None, "size": x.shape[0]}


class Flexible(nn.Module):
    """flex_attention with a mask, with scores that are changed, with what both capture, and with the sums of rows."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(4, 19))
        self.register_buffer("part", torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2]))

    def forward(self, q, k, v):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        def mask(mod):
            return create_block_mask(mod, None, None, q.shape[2], k.shape[2], device="cpu")

        return (flex_attention(q, k[:, :2], v[:, :2], block_mask=mask(lambda b, h, i, j: i >= j), enable_gqa=True),
                flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.tanh(s / 5) * 5 + self.bias[h, i - j + 9], block_mask=mask(lambda b, h, i, j: self.part[i] == self.part[j])),
                flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")), scale=0.3, return_lse=True))


case("habit.buffers", Counter, of(6))
case("habit.flex_attention", Flexible, lambda n: (rand(n, 4, 10, 8), rand(n, 4, 10, 8), rand(n, 4, 10, 8)), train=False)
case("habit.cache", Cache, lambda n: (rand(n, 1, 16),), train=False)
case("habit.writes_inputs", call(written), lambda n: (rand(n, 5), rand(n, 5)), train=False)
case("habit.aliases", call(aliased), of(6))
case("habit.kinds", call(kinds), lambda n: (rand(n, 3), ints(100, n), torch.rand(n) > 0.5, True, 0.25, 3))
case("habit.branches", Branches, lambda n: (rand(n, 6), torch.tensor(True), torch.tensor(False)), train=False)
case("habit.autocast", Autocast, of(3, 8, 8))
case("habit.bf16", lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).bfloat16(), lambda n: (rand(n, 16).bfloat16(),))
case("habit.while", Loop, of(6), train=False)
case("habit.checkpoint", Checkpoint, of(6))
case("habit.normalized", Normalized, of(6))
case("habit.broken", Broken, of(6))
case("habit.f16", lambda: nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.LayerNorm(32), nn.Linear(32, 4)).half(), lambda n: (rand(n, 16).half(),))
case("habit.f64", lambda: nn.Sequential(nn.Conv1d(3, 5, 3), nn.BatchNorm1d(5), nn.ReLU(), nn.Flatten(), nn.Linear(40, 3)).double(), lambda n: (rand(n, 3, 10).double(),))
case("habit.channels_last", lambda: nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)).to(memory_format=torch.channels_last),
     lambda n: (rand(n, 4, 8, 8).to(memory_format=torch.channels_last),))
case("habit.no_tensors", call(lambda k: (torch.arange(12).view(3, 4) * k, torch.ones(3, dtype=torch.bfloat16))), lambda n: (3,), train=False)
case("habit.shapes", call(lambda x: (x.reshape(x.shape[0], -1).sum(1) / x.shape[0], torch.arange(x.shape[0]) + x.shape[0], x.new_ones(x.shape[0] + 1, 2), torch.cat([x, x[:1]]).flatten(0, 1))), of(4, 3))
