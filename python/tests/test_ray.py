"""tenon.ray on a Ray of this machine: a job that loses an actor in the middle, and a deployment behind HTTP and a handle."""
import collections, io, json, os, signal, sys, tempfile, urllib.error, urllib.request

import numpy as np
import pytest

import tenon

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
import tenon.ray

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not find this file

MLP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/fixtures/programs/mlp.pt2")
BATCHES, BATCH, BLOCKS = 10_000, 8, 100


@pytest.fixture(scope="module")
def cluster():
    # More CPUs than cores: producers of rows are to run beside two actors.
    ray.init(num_cpus=4, include_dashboard=False, object_store_memory=300 << 20, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "mlp.tenon"
    tenon.load(MLP).save_compiled(path, threads=1)
    return str(path)


def features(ids):
    return (ids[:, None] * 16 + np.arange(16)).astype(np.float32) % 97 / 97


def add_features(batch):
    return {"id": batch["id"], "x": features(batch["id"])}


def parents():
    """{process: (parent, command line)} of this machine."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as line:
                found[int(pid)] = (int(stat.read().rpartition(")")[2].split()[1]), line.read())
        except OSError:
            pass
    return found


def actors():
    """Processes of the actors of this test's own Ray."""
    processes = parents()

    def is_ours(pid):
        while pid in processes and pid != os.getpid():
            pid = processes[pid][0]
        return pid == os.getpid()
    return [p for p, (_, line) in processes.items() if line.startswith("ray::") and "MapWorker" in line and is_ours(p)]


def test_killed_actor(cluster, compiled):
    data = ray.data.range(BATCHES * BATCH, override_num_blocks=BLOCKS).map_batches(add_features, batch_size=None, num_cpus=0.25)
    made = tenon.ray.map_batches(data, compiled, inputs={tenon.load(MLP).inputs[0].name: "x"}, outputs=["logits", "probs"], keep="id", batch_size=BATCH, actors=2)
    ids, probs, killed = [], [], []
    for batch in made.iter_batches(batch_size=None, batch_format="numpy"):
        ids.append(batch["id"])
        probs.append(batch["probs"])
        if not killed and sum(map(len, ids)) > BATCHES * BATCH // 4:
            killed = actors()[:1]
            os.kill(killed[0], signal.SIGKILL)
    assert killed and killed[0] not in actors()
    ids, probs = np.concatenate(ids), np.concatenate(probs)
    counts = collections.Counter(np.bincount(ids, minlength=BATCHES * BATCH).tolist())
    assert counts == {1: BATCHES * BATCH}, counts
    want = tenon.load(MLP).compile(threads=1)(features(ids))["probs"]
    assert np.allclose(probs, want, atol=1e-6)


def test_last_batch_and_shipped(cluster, compiled):
    data = ray.data.range(21, override_num_blocks=1).map_batches(add_features, batch_size=None)
    made = tenon.ray.map_batches(data, compiled, inputs="x", outputs=["logits", "probs"], keep="id", batch_size=BATCH, actors=(1, 2), ship=True).to_pandas()
    want = tenon.load(MLP).compile(threads=1)(features(np.arange(21)))["probs"]
    assert np.allclose(np.stack(made.sort_values("id")["probs"]), want, atol=1e-6)
    assert os.stat(os.path.join(tempfile.gettempdir(), f"tenon-{os.getuid()}")).st_mode & 0o077 == 0


def test_errors(cluster):
    data = ray.data.range(8).map_batches(add_features, batch_size=None)
    with pytest.raises(Exception, match="it has id, x"):
        tenon.ray.map_batches(data, MLP, inputs="y", actors=1).materialize()
    with pytest.raises(Exception, match="there is no option thread"):
        tenon.ray.map_batches(data, MLP, inputs="x", actors=1, thread=1).materialize()


def post(body, kind):
    request = urllib.request.Request("http://127.0.0.1:8123/mlp", data=body, headers={"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.headers["Content-Type"], reply.read()


def test_deployment(cluster, compiled):
    serve = pytest.importorskip("ray.serve")
    serve.start(http_options={"host": "127.0.0.1", "port": 8123})
    app = tenon.ray.deployment(compiled, inputs="x", outputs={tenon.load(MLP).outputs[1].name: "probs"}, max_batch_size=16, batch_wait_s=0.05)
    handle = serve.run(app, route_prefix="/mlp")
    try:
        exe = tenon.load(MLP).compile(threads=1)
        xs = [features(np.arange(i, i + 1 + i % 3)) for i in range(40)]
        for x, result in zip(xs, [r.result() for r in [handle.predict.remote({"x": x}) for x in xs]]):
            assert np.allclose(result["probs"], exe(x)["probs"], atol=1e-6)
        kind, body = post(json.dumps({"x": xs[2].tolist()}).encode(), "application/json")
        assert kind == "application/json" and np.allclose(json.loads(body)["probs"], exe(xs[2])["probs"], atol=1e-6)
        file = io.BytesIO()
        np.save(file, xs[4])
        kind, body = post(file.getvalue(), "application/x-npy")
        assert kind == "application/x-npy" and np.allclose(np.load(io.BytesIO(body)), exe(xs[4])["probs"], atol=1e-6)
        with pytest.raises(urllib.error.HTTPError) as e:
            post(b'{"x": [[1, 2]]}', "application/json")
        assert e.value.code == 400 and b"expected [" in e.value.read()
    finally:
        serve.shutdown()
