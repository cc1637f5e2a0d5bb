"""The package on committed programs: tensors in and out without copies, trees, errors, operators, threads and processes."""
import multiprocessing, os, subprocess, sys, threading

import numpy as np
import pytest

import tenon

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/fixtures")
PROGRAMS = os.path.join(FIXTURES, "programs")


def program(name, folder="programs"):
    return tenon.load(os.path.join(FIXTURES, folder, name + ".pt2"))


def mlp_inputs(rows=8):
    return np.random.default_rng(0).random((rows, 16), dtype=np.float32)


@pytest.mark.parametrize("name", sorted(n for n in os.listdir(PROGRAMS) if n.endswith(".pt2")))
def test_stored_results(name):
    report = tenon.check(os.path.join(PROGRAMS, name))
    assert report, str(report)


def test_import_needs_nothing():
    code = "import sys, tenon; assert 'numpy' not in sys.modules and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_results_without_numpy():
    code = f"""
import sys, array, tenon
exe = tenon.load({os.path.join(FIXTURES, 'calls/one_tensor.pt2')!r}).compile()
x = tenon.empty([2, 3])
memoryview(x).cast('B')[:] = array.array('f', range(6)).tobytes()
y = exe(x)
assert isinstance(y, tenon.Tensor) and memoryview(y).tolist() == [[0, 2, 4], [6, 8, 10]] and 'numpy' not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_zero_copy_out():
    exe = program("one_tensor", "calls").compile()
    x, y = np.ones((2, 3), "f4"), np.zeros((2, 3), "f4")
    assert exe(x, out=y) is y and (y == 2).all()
    z = exe(x)
    assert type(z) is np.ndarray and z.flags.writeable
    bound = exe.bind([x], y)
    x[:] = 4
    assert bound() is y and (y == 8).all()
    strided = np.zeros((3, 2), "f4").T
    assert exe(x, out=strided) is strided and (strided == 8).all()
    assert exe.run([x], out=[y])[0] is y


def test_dlpack():
    x = tenon.Tensor(np.arange(6, dtype="f4").reshape(2, 3))
    assert x.shape == (2, 3) and x.dtype == "f32" and x.__dlpack_device__() == (1, 0)
    shared = np.from_dlpack(x)
    assert shared.ctypes.data == x.numpy().ctypes.data
    bits = tenon.Tensor(np.array([0x3F80], "u2"), dtype="bf16")
    assert bits.dtype == "bf16" and bits.bits()[0] == 0x3F80


def test_trees():
    exe = program("dict_nested", "calls").compile()
    a, b, c = np.ones(2, "f4"), np.ones(1, "f4"), np.full(1, 2, "f4")
    result = exe({"a": {"b": {"c": a, 0: b}}, "d": c})
    assert list(result["out"]["in"]) == [3, 3] and isinstance(result["out"][5], list)
    named = program("named", "calls").compile()
    Point = __import__("collections").namedtuple("Point", "x y")
    p = named(Point(a, a * 3))
    assert p._fields == ("x", "y") and list(p.x) == [3, 3]
    tenon.register_class("shapes.Point", Point)
    assert type(named(Point(a, a))) is Point
    assert program("int_free", "calls").compile()(a, 7)[1:] == (15, 7, 3)
    assert list(program("keyword", "calls").compile()(np.zeros((2, 3), "f4"), y=np.ones(3, "f4"))[1]) == [1, 1, 1]


def test_errors():
    p = program("mlp")
    with pytest.raises(tenon.BadInput, match=r"there is no option thread; did you mean threads\? There are .*threads") as e:
        p.compile(thread=1)
    assert isinstance(e.value, ValueError) and isinstance(e.value, tenon.Error) and e.value.kind == "BadInput"
    exe = p.compile()
    for wrong in (np.zeros((8, 16)), np.zeros((8, 15), "f4"), "text", object()):
        with pytest.raises(tenon.BadInput):
            exe(wrong)
    with pytest.raises(tenon.BadInput):
        tenon.load("/nowhere.pt2")
    with pytest.raises(tenon.BadInput):
        tenon.load(b"nothing")


def test_read_only():
    exe = program("changed_input", "calls").compile()
    x, y = np.ones(3, "f4"), np.ones(3, "f4")
    exe({"x": x, "y": y})
    assert (x == 3).all()
    x.flags.writeable = False
    with pytest.raises(tenon.BadInput, match="read-only"):
        exe({"x": x, "y": y})
    fixed = mlp_inputs()
    fixed.flags.writeable = False
    program("mlp").compile()(fixed)


def test_bytes_weights_and_files(tmp_path):
    with open(os.path.join(PROGRAMS, "mlp.pt2"), "rb") as f:
        p = tenon.load(f.read())
    x = mlp_inputs()
    want = p.compile()(x)["probs"]
    name, weight = next(iter(p.state_dict().items()))
    with pytest.raises(ValueError):
        weight.numpy()[...] = 0
    assert not np.allclose(p.with_state_dict({name: np.zeros(weight.shape, "f4")}).compile()(x)["probs"], want)
    p.save(tmp_path / "copy.pt2")
    assert np.array_equal(tenon.load(tmp_path / "copy.pt2").compile()(x)["probs"], want)
    p.save_compiled(tmp_path / "mlp.tenon")
    assert np.allclose(tenon.load_compiled(tmp_path / "mlp.tenon")(x)["probs"], want)
    assert "graph" in p.dump("aten") and p.unsupported == []


def test_state():
    exe = program("state", "calls").compile()
    call = lambda e: int(e({"x": np.ones(2, "f4")}, scale={"by": np.ones(1, "f4")})["calls"][0])
    assert call(exe) == 1
    other = exe.copy()
    assert call(exe) == 2 and call(other) == 2
    assert set(exe.state()) == {"total", "calls"}
    exe.set_state({"calls": np.array(7)})
    assert call(exe) == 8
    exe.reset_state()
    assert call(exe) == 1


def test_explain():
    text = program("mlp").compile(profile=True).explain()
    assert "matmul" in text and "<table>" in text._repr_html_() and text.stats["steps"] > 0


def test_explain_as_data(tmp_path):
    exe = program("mlp").compile(profile=True)
    exe(mlp_inputs())
    explained = exe.explain()
    steps = explained.data["steps"]
    assert len(steps) == explained.stats["steps"] and abs(sum(s["share"] for s in steps) - 1) < 1e-3
    assert steps[0]["source"][0]["module"] == "layers.0" and "export.py" in explained._repr_html_()
    explained.save(tmp_path / "page.html")
    assert '<script type="application/json"' in (tmp_path / "page.html").read_text()


def test_threads():
    exe = program("mlp").compile()
    x = mlp_inputs()
    want, wrong = exe(x)["probs"], []

    def work():
        for _ in range(200):
            if not np.allclose(exe(x)["probs"], want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong
    with tenon.thread_budget(1):
        exe(x)


def forked(exe, x, queue):
    queue.put(exe(x)["probs"])


def test_fork():
    exe, x = program("mlp").compile(), mlp_inputs(256)
    want = exe(x)["probs"]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=forked, args=(exe, x, queue))
    child.start()
    assert np.allclose(queue.get(timeout=60), want, atol=1e-6)
    child.join(60)
    assert child.exitcode == 0


def test_register_op():
    schema = "python_test::gate(Tensor x, Tensor y, float s) -> Tensor"
    tenon.register_op(schema, lambda x, y, s: x * y * np.float32(s), results="x")
    tenon.register_op("python_test::twice(Tensor x) -> Tensor", expression="x * 2")
    with pytest.raises(tenon.BadInput):
        tenon.register_op("no schema", lambda x: x, results="x")


def test_version():
    import importlib.metadata
    assert tenon.__version__ == importlib.metadata.version("tenon")
    with pytest.raises(AttributeError, match="no attribute 'versio'"):
        tenon.versio
