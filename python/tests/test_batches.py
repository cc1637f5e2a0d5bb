"""tenon.open, pickled executables, tenon.batches.Model, and what servers do with requests."""
import io, json, os, pickle, subprocess, sys

import numpy as np
import pytest

import tenon
from tenon._serving import Batcher, decode, encode
from tenon.batches import Model

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/fixtures")
MLP = os.path.join(FIXTURES, "programs/mlp.pt2")
ADD = os.path.join(FIXTURES, "calls/one_tensor.pt2")  # 2 rows of 3, doubled


def rows(n, seed=0):
    return np.random.default_rng(seed).random((n, 16), dtype=np.float32)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "mlp.tenon"
    tenon.load(MLP).save_compiled(path, threads=1)
    return path


def test_open(compiled):
    x = rows(4)
    want = tenon.load(MLP).compile()(x)["probs"]
    with open(MLP, "rb") as f:
        for source in (MLP, compiled, f.read()):
            assert np.array_equal(tenon.open(source, threads=1)(x)["probs"], want)
    with pytest.raises(OSError):
        tenon.open("/nowhere.pt2")


def test_pickle(compiled):
    x = rows(4)
    with open(MLP, "rb") as f:
        content = f.read()
    for exe in (tenon.load(MLP).compile(threads=1), tenon.load_compiled(compiled, threads=1), tenon.load(content).compile(), tenon.load(MLP).compile().copy()):
        text = pickle.dumps(exe)
        assert len(text) < 400 or content in text
        assert np.array_equal(pickle.loads(text)(x)["probs"], exe(x)["probs"])
    made = pickle.dumps(tenon.load(MLP).compile(threads=1))
    code = "import pickle, sys; exe = pickle.load(sys.stdin.buffer); print(exe.stats()['steps'])"
    assert int(subprocess.run([sys.executable, "-c", code], input=made, capture_output=True, check=True).stdout) > 0
    changed = tenon.load(MLP).with_state_dict({}).compile()
    with pytest.raises(tenon.BadInput, match="other weights"):
        pickle.dumps(changed)


def test_columns(compiled):
    x = rows(10)
    want = tenon.load(MLP).compile()(x)
    name = tenon.load(MLP).inputs[0].name
    for source in (MLP, compiled):
        got = Model(source, inputs=["features"], outputs={tenon.load(MLP).outputs[1].name: "p"}, keep="id", threads=1)({"features": x, "id": np.arange(10)})
        assert list(got) == ["id", "p"] and np.array_equal(got["p"], want["probs"])
    assert len(Model(MLP)({name: x})) == 2
    model = pickle.loads(pickle.dumps(Model(MLP, inputs="x", outputs=["logits", "probs"])))
    fixed = x.copy()
    fixed.flags.writeable = False
    for part in (fixed, x[:3], x[::2], x[:1]):
        assert np.array_equal(model({"x": part})["probs"], tenon.load(MLP).compile()(part)["probs"])
    assert np.array_equal(Model(compiled, inputs="x")({"x": fixed}).popitem()[1], want["probs"])
    for batch, text in (({"y": x}, "no column x; it has y"), ({"x": np.array([[1], [1, 2]], object)}, "different shapes"), ({"x": x.astype("f8")}, "f32")):
        with pytest.raises(tenon.BadInput, match=text):
            model(batch)
    with pytest.raises(tenon.BadInput, match="there is no input z"):
        Model(MLP, inputs={"z": "x"}).open()
    with pytest.raises(tenon.BadInput, match="2 columns for 1 inputs"):
        Model(MLP, inputs=["a", "b"]).open()
    with pytest.raises(tenon.BadInput, match="no option thread"):
        Model(MLP, thread=1).open()


def test_results_are_their_own():
    x = rows(6)
    kept = Model(MLP, inputs="x", outputs=["l", "p"], keep=["x"])({"x": x})
    assert not any(np.shares_memory(a, x) for a in kept.values())


def test_fixed_rows():
    model = Model(ADD, inputs="x", outputs="y")
    for n in (1, 2, 3, 5):
        x = np.arange(n * 3, dtype="f4").reshape(n, 3)
        assert np.array_equal(model({"x": x})["y"], x * 2)
    with pytest.raises(tenon.BadInput, match="empty batch"):
        model({"x": np.empty((0, 3), "f4")})


def test_constants():
    path = os.path.join(FIXTURES, "calls/int_free.pt2")
    infos = tenon.load(path).inputs
    with pytest.raises(tenon.BadInput, match="constants="):
        Model(path, inputs={infos[0].name: "x"}).open()
    number = next(i for i in infos if i.is_number)
    model = Model(path, inputs={infos[0].name: "x"}, constants={number.name: 7}, outputs={tenon.load(path).outputs[0].name: "y"})
    assert np.array_equal(model({"x": np.ones(2, "f4")})["y"], tenon.load(path).compile()(np.ones(2, "f4"), 7)[0])


def test_frames():
    pd = pytest.importorskip("pandas")
    x = rows(7)
    frame = pd.DataFrame({"x": list(x), "id": range(7)}, index=range(10, 17))
    model = Model(MLP, inputs="x", outputs=["l", "p"], keep="id")
    (made,) = model.frames(iter([frame, frame[:0]]))
    assert list(made.index) == list(frame.index) and list(made["id"]) == list(range(7))
    assert np.array_equal(np.stack(made["p"]), tenon.load(MLP).compile()(x)["probs"])
    with pytest.raises(tenon.BadInput, match="no column"):
        model.frame(frame[["id"]])


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_requests():
    x = rows(3)
    assert np.array_equal(decode(npy(x), "application/x-npy", ["x"])["x"], x)
    assert decode(json.dumps({"x": x.tolist()}).encode(), "application/json; charset=utf-8", ["x"]) == {"x": x.tolist()}
    file = io.BytesIO()
    np.savez(file, x=x)
    assert np.array_equal(decode(file.getvalue(), "application/x-npz", ["x"])["x"], x)
    for body, kind in ((b"{", "application/json"), (b"\x93NUMPY", "application/x-npy"), (b"PK", "application/x-npz"), (b"\xff", "")):
        with pytest.raises(tenon.BadInput, match="the body is no"):
            decode(body, kind, ["x"])
    with pytest.raises(tenon.BadInput, match="has the inputs a, b"):
        decode(b"[1]", "", ["a", "b"])
    assert json.loads(encode({"y": x}, "")[0])["y"] == x.tolist()
    assert np.array_equal(np.load(io.BytesIO(encode({"y": x}, "application/x-npy")[0])), x)


def test_batcher():
    batcher = Batcher(Model(MLP, inputs="x", outputs=["l", "p"]), 8)
    parts = [rows(n, n) for n in (1, 3, 2)]
    exe = tenon.load(MLP).compile()
    for part, result in zip(parts, batcher.run([batcher.accept({"x": p}) for p in parts])):
        assert np.allclose(result["p"], exe(part)["probs"], atol=1e-6) and len(result["l"]) == len(part)
    assert batcher.accept({"x": rows(2).tolist()})["x"].dtype == np.float32
    good, bad = {"x": rows(2)}, {"x": rows(2)[:, :5]}  # bad never comes from accept(): it fails alone
    first, second, third = batcher.run([good, bad, good])
    assert isinstance(second, tenon.BadInput) and np.array_equal(first["p"], third["p"])
    for request, text in (({}, "x is missing"), ({"x": rows(9)}, "1 to 8 rows"), ({"x": rows(2)[:, :5]}, r"expected \[.*, 16\], got \[2, 5\]"),
                          ({"x": rows(2).astype("f8")}, "expected f32"), ({"x": "text"}, "input x"), ({"y": 1}, "there is no input y"), ({"x": [[1], [1, 2]]}, "input x")):
        with pytest.raises(tenon.BadInput, match=text):
            batcher.accept(request)
