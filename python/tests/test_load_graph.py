"""Programs from the text that archives hold, in memory."""
import os, zipfile

import numpy as np
import pytest

import tenon

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/fixtures")
MLP = os.path.join(FIXTURES, "programs/mlp.pt2")


def text_of(path):
    with zipfile.ZipFile(path) as archive:
        return archive.read(next(n for n in archive.namelist() if n.endswith("models/model.json"))).decode()


def test_is_the_archives_program():
    program = tenon.load(MLP)
    again = tenon.load_graph(text_of(MLP), program.state_dict())
    x = np.random.default_rng(0).random((8, 16), dtype=np.float32)
    for name, value in program.compile()(x).items():
        np.testing.assert_array_equal(again.compile()(x)[name], value)


def test_weights_are_shared():
    weights = {name: np.array(t) for name, t in tenon.load(MLP).state_dict().items()}
    again = tenon.load_graph(text_of(MLP), weights)
    name, array = next(iter(weights.items()))
    array += 1
    np.testing.assert_array_equal(np.asarray(again.state_dict()[name]), array)


def test_errors():
    weights = tenon.load(MLP).state_dict()
    for json, given, text in (("{", weights, "the graph: "), (text_of(MLP), {}, "there is no weight layers"),
                              (text_of(MLP), {**weights, "layers.0.bias": np.zeros(3, np.float32)}, "weight layers.0.bias: .* another dtype or size"),
                              (text_of(MLP).replace("aten.relu", "aten.absent"), weights, None)):
        if text:
            with pytest.raises(tenon.BadInput, match=text):
                tenon.load_graph(json, given)
        else:
            assert tenon.load_graph(json, given).unsupported == ["aten::absent.default"]


def test_is_supported():
    assert tenon.is_supported("aten::add.Tensor") and not tenon.is_supported("aten::absent") and not tenon.is_supported("")


def test_gradients_that_are_not_asked_for():
    """The gradient of BatchNorm and ReLU for the weights alone, sizes open: torch records a tensor for the input's gradient, too."""
    with open(os.path.join(FIXTURES, "graphs/masked_gradient.json")) as f:
        exe = tenon.load_graph(f.read()).compile()
    rng = np.random.default_rng(1)
    arrays = {a.name: rng.standard_normal([64 if s == "64" else 3 for s in a.sizes]).astype(np.float32) for a in exe.inputs if not a.is_number}
    x, out, tangent = arrays["primals_3"], arrays["detach_1"], arrays["tangents_1"]
    mean, invstd = x.mean((0, 2, 3)), 1 / np.sqrt(x.var((0, 2, 3)) + 1e-5)
    arrays.update(getitem_1=mean, getitem_2=invstd)
    weight, bias = exe.run([arrays.get(a.name, 3) for a in exe.inputs])
    masked = tangent * (out > 0)
    np.testing.assert_allclose(bias, masked.sum((0, 2, 3)), rtol=1e-4, atol=1e-4)
    normed = (x - mean[:, None, None]) * invstd[:, None, None]
    np.testing.assert_allclose(weight, (masked * normed).sum((0, 2, 3)), rtol=1e-4, atol=1e-4)
