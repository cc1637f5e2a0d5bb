"""The gradients of tenon.torch.gradients beside torch's operators, in f64; and compiled."""
import itertools

import pytest

torch = pytest.importorskip("torch")
import tenon.torch  # noqa: E402
from test_torch import fresh  # noqa: E402, F401: resets torch._dynamo, and makes the warning InTorch an error
from tenon.torch.gradients import GRADIENTS  # noqa: E402
from torch.nn import functional as F  # noqa: E402

aten = torch.ops.aten


def same(op, *args):
    torch.testing.assert_close(GRADIENTS[op](*args), op(*args), rtol=1e-9, atol=1e-9)


def same_gradients(f, *args):
    """Of the sum of squares of all results, in f32."""
    def gradients(call):
        given = [a.clone().requires_grad_(a.is_floating_point()) for a in args]
        sum(t.abs().square().sum() for t in torch.utils._pytree.tree_leaves(call(*given))).backward()
        return [a.grad for a in given]

    expected = gradients(f)
    torch.testing.assert_close(gradients(torch.compile(f, backend=tenon.torch.backend, fullgraph=True)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("interpolation,padding,align", list(itertools.product((0, 1, 2), (0, 1, 2), (False, True))))
@pytest.mark.parametrize("sizes", [(7, 5), (1, 4), (4, 3, 5)])
def test_grid_sampler(sizes, interpolation, padding, align):
    if len(sizes) == 3 and interpolation == 2:
        pytest.skip("torch has no cubic one of three dims")
    x, grid = torch.randn(2, 3, *sizes, dtype=torch.float64), torch.randn(2, *(n + 1 for n in sizes), len(sizes), dtype=torch.float64) * 1.3
    op = aten.grid_sampler_2d_backward.default if len(sizes) == 2 else aten.grid_sampler_3d_backward.default
    grad = torch.randn(2, 3, *grid.shape[1:-1], dtype=torch.float64)
    same(op, grad, x, grid, interpolation, padding, align, [True, True])
    made = GRADIENTS[op](grad, x, grid, interpolation, padding, align, [False, True])
    assert made[0] is None and made[1].shape == grid.shape


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, float("inf")])
def test_distances(p):
    x, y = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(2, 4, 3, dtype=torch.float64)
    y[0, 1] = x[0, 2]
    distances = torch.cdist(x, y, p)
    same(aten._cdist_backward.default, torch.randn_like(distances), x, y, p, distances)
    distances = aten._pdist_forward(x[0], p)
    same(aten._pdist_backward.default, torch.randn_like(distances), x[0], p, distances)


def test_compiled():
    same_gradients(lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), torch.randn(2, 3, 8, 9), torch.randn(2, 5, 6, 2))
    same_gradients(F.pdist, torch.randn(6, 4))


def test_complex():
    same_gradients(lambda x: (torch.view_as_complex(x) * (0.1 + 2j)).imag + torch.view_as_complex(x).mH.abs().mT, torch.randn(5, 2).reshape(1, 5, 2))


def test_signals():
    window = torch.hann_window(16)
    same_gradients(lambda x: torch.istft(torch.stft(x, 16, 4, window=window, return_complex=True), 16, 4, window=window), torch.randn(3, 80))


def test_attention_is_no_random_operator():
    tenon.torch.backend.reset()  # what other tests compiled is not told of
    q, k, v = torch.randn(3, 2, 4, 6, 8)
    same_gradients(lambda q, k, v: F.scaled_dot_product_attention(F.relu(q), k, v).sin(), q, k, v)
    assert not any("in torch" in text for text in tenon.torch.report())


def test_attention_with_rows_that_see_nothing():
    mask = torch.ones(1, 1, 6, 6).tril() > 0
    mask[..., 2, :] = False
    q, k, v = torch.randn(3, 2, 4, 6, 8)
    for m in (mask, torch.zeros(1, 1, 6, 6).masked_fill(~mask, -torch.inf)):
        same_gradients(lambda q, k, v, m=m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), q, k, v)
