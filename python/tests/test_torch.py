"""backend="tenon" of torch.compile, and from_torch; passed over where there is no torch."""
import copy
import importlib
import os
import warnings

import pytest

torch = pytest.importorskip("torch")
import tenon.torch  # noqa: E402
from torch import nn  # noqa: E402


def tenon_backend(module, inputs, **kwargs):
    return tenon.torch.backend(module, inputs, **kwargs)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tenon.torch.InTorch)
        yield


def compiled(f, dynamic=None, **options):
    return torch.compile(f, backend=tenon_backend, fullgraph=True, dynamic=dynamic, options=options or None)


def close(got, want):
    torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5)
    for g, w in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want)):
        if isinstance(w, torch.Tensor):
            assert g.stride() == w.stride() and g.dtype == w.dtype


def same(f, *args, **options):
    with torch.no_grad():
        want = f(*copy.deepcopy(args))
        close(compiled(f, **options)(*args), want)


def small_net():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))


def test_inference():
    same(small_net().eval(), torch.randn(4, 3, 8, 8))


def test_entry_point():
    tomllib = pytest.importorskip("tomllib")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../pyproject.toml"), "rb") as f:
        module, name = tomllib.load(f)["project"]["entry-points"]["torch_dynamo_backends"]["tenon"].split(":")
    assert getattr(importlib.import_module(module), name) is tenon.torch.backend


def test_sizes_compile_once():
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8)).eval()
    f = compiled(net, dynamic=True)
    with torch.no_grad():
        f(torch.randn(3, 16))
        count = tenon.torch.stats()["compiled"]
        with torch.compiler.set_stance("fail_on_recompile"):
            for n in torch.randint(2, 4000, (300,)).tolist():
                x = torch.randn(n, 16)
                close(f(x), net(x))
    assert tenon.torch.stats()["compiled"] == count


def test_sizes_as_results():
    def f(x, n):
        return x.new_ones(x.shape[0] * 2, n).cumsum(0), x.shape[1] + n, x.view(-1)
    same(f, torch.randn(5, 6), 7, dynamic=True)


def test_writes():
    def f(x, cache, i):
        cache[i] = x
        x.mul_(2)
        return cache.sum(0) + x
    x, cache = torch.randn(4), torch.zeros(3, 4)
    x2, cache2 = x.clone(), cache.clone()
    g = compiled(f)
    for i in (torch.tensor(0), torch.tensor(2)):
        close(g(x, cache, i), f(x2, cache2, i))
        close((x, cache), (x2, cache2))


def test_buffers():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen += x.sum(0)
            return x * self.seen
    a = Counter()
    b = copy.deepcopy(a)
    f = compiled(a)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, 3)
            close(f(x), b(x))
    close(a.seen, b.seen)


@pytest.mark.parametrize("make", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: (x + 1).t(), lambda x: (x + 1).expand(3, *x.shape), lambda x: (x * 2)[:, 1:3],
                                  lambda x: x, lambda x: (x.sum(), None, 3), lambda x: {"a": x.cos(), "b": [x.sin()]}, lambda x: torch.empty_strided((2, 3), (1, 5)).copy_(x[:2, :3])])
def test_results(make):
    same(make, torch.randn(4, 6))


def test_channels_last():
    net = nn.Conv2d(4, 8, 3, padding=1).eval().to(memory_format=torch.channels_last)
    same(net, torch.randn(2, 4, 9, 9).to(memory_format=torch.channels_last))
    same(net, torch.randn(2, 4, 9, 9))


def test_weights_that_change():
    net = nn.Linear(16, 4)
    f = compiled(net)
    x = torch.randn(3, 16)
    with torch.no_grad():
        for change in (lambda: None, lambda: net.weight.add_(1), lambda: net.weight.data.mul_(0.5), lambda: setattr(net, "bias", nn.Parameter(torch.randn(4))),
                       lambda: net.load_state_dict(nn.Linear(16, 4).state_dict()), lambda: setattr(net.weight, "data", torch.randn(4, 16))):
            change()
            for _ in range(3):
                close(f(x), net(x))


def test_refresh():
    net = nn.Linear(64, 64)
    f = compiled(net, freeze=True)
    x = torch.randn(3, 64)
    with torch.no_grad():
        before = f(x)
        net.weight.add_(1)
        close(f(x), before)  # frozen: as asked
        tenon.torch.refresh()
        close(f(x), net(x))


def train(net, steps, x):
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training():
    a = small_net()
    b = copy.deepcopy(a)
    x = torch.randn(6, 3, 8, 8)
    want = train(a, 6, x)
    assert train(compiled(b), 6, x) == pytest.approx(want, rel=1e-4)
    for p, q in zip(a.state_dict().values(), b.state_dict().values()):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


def test_training_with_sizes_that_vary():
    a = nn.Sequential(nn.Embedding(20, 16), nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), nn.Linear(16, 3))
    b = copy.deepcopy(a)
    f = torch.compile(b, backend=tenon_backend, dynamic=True)
    for n in (5, 7, 9):
        x = torch.randint(0, 20, (2, n))
        a(x).square().mean().backward()
        f(x).square().mean().backward()
    for p, q in zip(a.parameters(), b.parameters()):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)


def test_dropout_is_torchs():
    f = compiled(nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5), nn.Linear(64, 64)).train())
    x = torch.randn(4, 8)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(f(x).detach())
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
    h = compiled(lambda x: torch.nn.functional.dropout(x, 0.3, True))(torch.ones(100000))
    assert 0.68 < (h != 0).float().mean() < 0.72


@pytest.mark.parametrize("dynamic", [False, True])
def test_dropout_leaves_one_part(dynamic):
    layers = [nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.25), nn.ReLU()) for _ in range(4)]
    f = compiled(nn.Sequential(*layers).train(), dynamic=dynamic)
    before = tenon.torch.stats()["compiled"]
    f(torch.randn(5, 16)).sum().backward()
    assert tenon.torch.stats()["compiled"] - before == 2


def test_gradients_that_are_not_asked_for():
    net = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1))
    other = copy.deepcopy(net)
    x = torch.randn(2, 8, 3, 5)
    net(x).square().sum().backward()
    compiled(other, dynamic=True)(x).square().sum().backward()
    for p, q in zip(net.parameters(), other.parameters()):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-4)


def test_cond():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.cos() + 1, lambda x: x.sin(), (x,))
    for x in (torch.ones(4), -torch.ones(4)):
        same(f, x)


def test_autocast():
    net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    x = torch.randn(4, 32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        got, want = compiled(net)(x), net(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


@pytest.fixture(scope="module")
def mine():
    @torch.library.custom_op("tenon_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    return twice


def test_what_tenon_has_not(mine):
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LayerNorm(16))
    tail = nn.Sequential(nn.Linear(16, 8), nn.GELU(), nn.Softmax(-1))
    x = torch.randn(3, 16)
    with torch.no_grad():
        f = compiled(lambda x: tail(mine(net(x))))
        with pytest.warns(tenon.torch.InTorch, match=r"torch runs 1 operators.*ms.*tenon_test.twice.default: there is no such operator"):
            close(f(x), tail(2 * net(x)))
        close(f(x), tail(2 * net(x)))
        with pytest.raises(Exception, match="tenon_test.twice.default: there is no such operator"):
            compiled(lambda x: tail(mine(net(x))), strict=True)(x)
    assert any("tenon_test.twice" in text for text in tenon.torch.report())


def test_lstm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.plain = nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True), nn.LSTM(16, 5, bias=False)

        def forward(self, x, h, c):
            y, state = self.rnn(x, (h, c))
            return *state, *self.plain(y)[1], y

    with torch._dynamo.config.patch(allow_rnn=True):
        same(Net().eval(), torch.randn(3, 7, 6), torch.randn(4, 3, 8), torch.randn(4, 3, 8))


def test_random_operators_that_compute_are_told_of():
    with pytest.warns(tenon.torch.InTorch, match="it draws random numbers"):
        assert compiled(lambda p: torch.multinomial(p.softmax(-1), 3) + 1)(torch.randn(4, 9)).shape == (4, 3)


def test_options():
    for kwargs, text in (({"mode": "max-autotune"}, "no mode"), ({"options": {"freez": True}}, "freez"), ({"options": {"threads": -3}}, "threads")):
        with pytest.raises(Exception, match=text):
            torch.compile(lambda x: x + 1, backend=tenon_backend, **kwargs)(torch.ones(2))


def test_errors_are_raised():
    f = compiled(lambda x, i: x[i] + 1)
    x = torch.randn(4)
    close(f(x, torch.tensor([1, 3])), x[[1, 3]] + 1)
    with pytest.raises((tenon.BadInput, IndexError)):
        f(x, torch.tensor([1, 4]))


def test_from_torch():
    net = small_net().eval()
    x = torch.randn(2, 3, 8, 8)
    exe = tenon.from_torch(net, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},))
    with torch.no_grad():
        close(exe(x), net(x))
        y = torch.randn(7, 3, 8, 8)
        close(exe(y), net(y))


def test_from_torch_takes_flex_attention():
    from torch.nn.attention.flex_attention import flex_attention

    class Relative(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias, self.scale = torch.nn.Parameter(torch.randn(2, 17)), torch.nn.Parameter(torch.ones(4))

        def forward(self, q, k, v):
            return flex_attention(q * self.scale, k, v, score_mod=lambda score, b, h, i, j: torch.where(i >= j, score + self.bias[h, i - j + 8], -float("inf")))

    net, args = Relative(), [torch.randn(3, 2, 9, 4) for _ in range(3)]
    with torch.no_grad():
        exported, expected = torch.export.export(net, tuple(args)), net(*args)
    before = str(exported)
    close(tenon.torch.to_program(exported).compile()(*args), expected)
    assert str(exported) == before


def test_program_is_that_of_the_archive(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.scale = nn.Linear(4, 4), torch.tensor(3.0)

        def forward(self, x, *, flag=True, extra=None):
            return {"y": self.a(x) * self.scale, "n": x.shape[0]} if flag else x
    exported = torch.export.export(Net(), (torch.randn(3, 4),), {"flag": True}, dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}, "flag": None})
    torch.export.save(exported, tmp_path / "net.pt2")
    a, b = tenon.load(tmp_path / "net.pt2"), tenon.torch.to_program(exported)
    assert a.in_spec == b.in_spec and a.out_spec == b.out_spec
    assert a.dump("edge") == b.dump("edge")
