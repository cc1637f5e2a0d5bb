"""Programs of TorchScript from Python. Nothing here needs torch: sources name it, and nobody imports it."""
import contextlib
import gc
import io
import threading
import weakref

import numpy as np
import pytest

import tenon

POWER = """
import torch

def power(x: torch.Tensor, n: int = 3) -> torch.Tensor:
    y = torch.ones_like(x)
    for _ in range(n):
        y = y * x
    return y
"""
COUNT = """
def count(words: List[str], found: Dict[str, int]) -> int:
    for w in words:
        found[w] = found.get(w, 0) + 1
    words.append("end")
    return len(found)
"""


def compiled(body, head="def f(x):", file="script.py"):
    return tenon.Script.compile("import torch\n" + head + "\n" + "".join(f"    {line}\n" for line in body.split("\n")), "f", file)


def test_numbers_and_tensors():
    power = tenon.Script.compile(POWER, "power")
    x = np.linspace(-2, 2, 7, dtype=np.float32)
    for n in (0, 1, 4):
        for _ in range(3):  # interpreted, then by a plan
            np.testing.assert_allclose(power(x, n), x**n, rtol=1e-6)
            np.testing.assert_allclose(power(x, n=n), x**n, rtol=1e-6)
    np.testing.assert_allclose(power(x), x**3, rtol=1e-6)
    assert [repr(p) for p in power.params] == ["x: Tensor", "n: int = 3"] and repr(power) == "tenon.Script(x: Tensor, n: int = 3)"
    assert [p.has_default for p in power.params] == [False, True] and power.params[1].type == "int"
    assert "graph(" in power.text() and power.explain()


def test_lists_and_dicts_are_the_callers():
    count = tenon.Script.compile(COUNT, "count")
    words, found = ["a", "bb", "a"], {"bb": 5}
    assert count(words, found) == 2
    assert words == ["a", "bb", "a", "end"] and found == {"bb": 6, "a": 2}


def test_identity():
    x, kept = np.zeros(3, np.float32), [1, 2]
    same = compiled("return x, y, [x, x], {'k': y}", "def f(x, y: List[int]):")
    a, b, c, d = same(x, kept)
    assert a is x and b is kept and c[0] is x and c[1] is x and d == {"k": kept} and d["k"] is kept
    made = compiled("y = [x + 1]\nreturn y, y")(x)
    assert made[0] is made[1]
    both = compiled("x.append(1)\nreturn len(y)", "def f(x: List[int], y: List[int]):")
    assert both(kept, kept) == 3 and kept == [1, 2, 1]


def test_writes_in_place():
    add = compiled("x.add_(1)\nreturn x.sum()")
    x = np.zeros((3, 4), np.float32)
    assert float(add(x)) == 12 and (x == 1).all()
    view = x.T[1:, ::2]
    add(view)
    assert x.sum() == 12 + view.size
    x.flags.writeable = False
    before = x.copy()
    assert float(add(x)) == before.sum() + 12 and (x == before).all()
    strided = x[::2, ::-1]
    assert float(add(strided)) == strided.sum() + strided.size and (x == before).all()


def test_values_of_every_kind():
    echo = compiled("return x", "def f(x: Any):")
    for value in (None, True, False, 7, -(1 << 60), 1.5, float("inf"), 2 + 3j, "Grüße", "", [], [1, 2], ["a"], (1, "b", [2.0]), {"a": 1}, {1: [2]}, {}, ()):
        got = echo(value)
        assert got == value and type(got) is type(value), value
    number = echo(np.float32(1.5))
    assert float(number) == 1.5


def test_results_are_of_the_arguments_library():
    assert type(compiled("return x + 1")(np.zeros(2, np.float32))) is np.ndarray
    assert type(compiled("return x + 1")(tenon.empty([2]))) is tenon.Tensor


def test_modules_and_their_weights():
    source = """
import torch
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)
"""
    layer = tenon.Script.compile(source, "Layer")
    assert layer.weights == ["fc.weight", "fc.bias"]
    x, w, b = np.ones((4, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, -1], np.float32)
    with pytest.raises(tenon.BadInput):
        layer(x)
    loaded = layer.with_state_dict({"fc.weight": w, "fc.bias": b, "other": b})
    np.testing.assert_allclose(loaded(x), x @ w.T + b)
    assert set(loaded.state_dict()) == {"fc.weight", "fc.bias"}
    _, of_w, of_b = loaded.gradient(["fc.weight", "fc.bias"])(x)
    np.testing.assert_allclose(of_w, np.full((2, 3), 4.0))
    np.testing.assert_allclose(of_b, [4, 4])
    w.flags.writeable = False
    with pytest.raises(tenon.BadInput, match="fc.weight is read-only"):
        layer.with_state_dict({"fc.weight": w, "fc.bias": b})


def test_graphs_as_text(tmp_path):
    text = compiled("return x * 2").text()
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(tenon.Script.parse(text)(x), x * 2)
    (tmp_path / "double.ir").write_text(text)
    np.testing.assert_array_equal(tenon.Script.load(tmp_path / "double.ir")(x), x * 2)
    (tmp_path / "power.py").write_text(POWER)
    np.testing.assert_allclose(tenon.Script.load(tmp_path / "power.py", "power")(x, 2), x * x)


def helper(x, n: int):
    return x * n


@tenon.script
def decorated(x, n: int = 2):
    y = helper(x, n)
    if n > 2:
        return y + 1
    return y


@tenon.script
def refuses(n: int):
    if n % 2 == 1:
        raise ValueError('odd')
    return n // 2


def test_functions_of_python():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(decorated(x), x * 2)
    np.testing.assert_array_equal(decorated(x, 3), x * 3 + 1)
    with pytest.raises(tenon.BadInput) as e:
        tenon.script(test_graphs_as_text)
    assert e.value.where.split(":")[0].endswith("test_script.py")
    with pytest.raises(tenon.Error, match="odd") as e:
        refuses(3)
    line = next(i for i, text in enumerate(open(__file__), 1) if "raise ValueError('odd')" in text)
    assert e.value.where.split(":")[1] == str(line)


def test_prints():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        compiled("print('x is', x)\nreturn x", "def f(x: int):")(3)
    assert out.getvalue() == "x is 3\n"


def test_errors():
    f = compiled("assert x > 0, 'too small'\nreturn x", "def f(x: int):", "mine.py")
    with pytest.raises(tenon.Error, match="too small") as e:
        f(0)
    assert e.value.where.startswith("mine.py:3")
    for args, kwargs in (((), {}), ((1, 2), {}), (("a",), {}), ((object(),), {}), ((1 << 70,), {}), ((1,), {"y": 2})):
        with pytest.raises(tenon.BadInput):
            f(*args, **kwargs)
    with pytest.raises(UnicodeEncodeError):
        f("\ud800")
    endless = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        compiled("return x", "def f(x: Any):")(endless)
    for source in ("def f(x:\n", "def f(x):\n    return y\n", "", "import torch\ndef f(x):\n    return torch.absent(x)\n"):
        with pytest.raises(tenon.BadInput):
            tenon.Script.compile(source, "f")
    with pytest.raises(tenon.BadInput):
        tenon.Script.load("/nonexistent/script.py", "f")
    grown = [1]
    with pytest.raises(tenon.Error):
        compiled("x.append(2)\nassert False, 'after a write'", "def f(x: List[int]):")(grown)
    assert grown == [1, 2]


def test_threads_and_lifetimes():
    power = tenon.Script.compile(POWER, "power")
    x, wrong = np.linspace(0, 1, 1000, dtype=np.float32), []

    def work(n):
        for _ in range(20):
            if not np.allclose(power(x, n), x**n):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong

    class Array(np.ndarray):
        pass

    array = np.ones(3, np.float32).view(Array)
    gone = weakref.ref(array)
    result = compiled("return x.view(3, 1)")(array)
    del array
    gc.collect()
    np.testing.assert_array_equal(result, np.ones((3, 1), np.float32))
    del result
    gc.collect()
    assert gone() is None
