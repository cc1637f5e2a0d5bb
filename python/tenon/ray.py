"""tenon on Ray: ``map_batches`` over a dataset, with actors that map one file, and ``deployment`` for Ray Serve. Needs ray[data] or ray[serve],
and numpy. The same class without Ray is tenon.batches.Model."""
import asyncio, fcntl, hashlib, os, tempfile

from . import BadInput
from .batches import Model

try:
    import ray
except ImportError as e:
    raise ImportError("tenon.ray needs Ray: pip install 'ray[data]', or 'ray[serve]' for deployment()") from e


class _Actor(Model):
    """A Model that is opened where the actor starts, so that a file that is missing or does not fit is an error before the first batch."""

    def __init__(self, source, **options):
        super().__init__(source.path() if isinstance(source, Shipped) else source, **options)
        self.open()


class Shipped:
    """A file that goes to the nodes through Ray's object store, once to each, and lies there in a folder of this user's, where all actors of
    the node map it: their weights share memory. Files stay there for later jobs; their names are hashes of what they hold."""

    def __init__(self, path):
        import numpy as np
        self.suffix = os.path.splitext(path)[1]
        content = np.fromfile(path, dtype=np.uint8)
        self.digest = hashlib.sha256(content).hexdigest()
        self._ref = ray.put(content)

    def path(self):
        """Where it lies on this node; it is written now where it is not there."""
        folder = os.path.join(tempfile.gettempdir(), f"tenon-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise BadInput(f"{folder} belongs to somebody else, or others may write to it")
        path = os.path.join(folder, self.digest + self.suffix)
        with open(path + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one of the node's actors writes
            if not os.path.exists(path):
                ray.get(self._ref).tofile(path + ".part")
                os.rename(path + ".part", path)
        return path


def map_batches(dataset, source, *, inputs=None, constants=None, outputs=None, keep=(), batch_size=256, num_cpus=1, actors=None, ship=False,
                ray_options=None, **options):
    """A ray.data.Dataset of what the program gives for the rows of `dataset`: each row once, also where actors or nodes die in between.

    source: the path of a .pt2 or a compiled file, which every node has; with ship=True only this one, and it is sent to each node once.
    inputs, constants, outputs, keep: which columns the program reads and makes, as of tenon.batches.Model.
    batch_size: rows of a call; a block's last batch is smaller.
    num_cpus: of an actor, and the threads that a call uses.
    actors: how many, or (least, most), between which Ray decides by the load; None: as many as there is room for.
    ray_options: for Dataset.map_batches, such as {"memory": 1 << 30, "runtime_env": {...}}.
    options: those of Program.compile, such as cache="/var/cache/tenon" for a .pt2 that each node is to compile only once.

    Lazy, as datasets are; Ray streams blocks through, with its back-pressure and progress bars, starts actors that died again and repeats
    what they had not finished. Blocks may come in another order (`keep` an id, or set ray.data.DataContext's preserve_order)."""
    from ray.data import ActorPoolStrategy
    least, most = (actors, actors) if isinstance(actors, int) else actors or (1, None)
    options = {"threads": max(1, int(num_cpus)), **options}
    settings = dict(inputs=inputs, constants=constants, outputs=outputs, keep=keep, **options)
    return dataset.map_batches(_Actor, fn_constructor_args=(Shipped(source) if ship else os.path.abspath(source),), fn_constructor_kwargs=settings,
                               compute=ActorPoolStrategy(min_size=least, max_size=most), num_cpus=num_cpus, batch_size=batch_size,
                               batch_format="numpy", zero_copy_batch=True, udf_modifying_row_count=False, **(ray_options or {}))


def deployment(source, *, inputs=None, constants=None, outputs=None, name="tenon", max_batch_size=32, batch_wait_s=0.002, num_cpus=1, replicas=1,
               serve_options=None, **options):
    """A Ray Serve application for ``serve.run``: requests that wait at the same time run as one batch.

    A request has some rows of each input. Over HTTP, POST: JSON, {"x": [[1.0, 2.0]]}, or .npy of a program of one input
    (application/x-npy), or .npz (application/x-npz); the reply is of the same kind. Wrong requests get 400 with the reason, and do not disturb
    others. Of a handle: ``handle.predict.remote({"x": array})`` gives {output: array}.

    max_batch_size: rows of a batch, at most; batch_wait_s: seconds that the first request of a batch waits for others.
    num_cpus, replicas: of each replica, and how many; serve_options: others of serve.deployment, such as {"autoscaling_config": {...}}.
    source and the rest as of map_batches."""
    from ray import serve
    settings = dict(inputs=inputs, constants=constants, outputs=outputs, **{"threads": max(1, int(num_cpus)), **options})
    chosen = dict(name=name, num_replicas=replicas, ray_actor_options={"num_cpus": num_cpus}, max_ongoing_requests=4 * max_batch_size)
    chosen.update(serve_options or {})
    if "autoscaling_config" in chosen:
        del chosen["num_replicas"]
    return serve.deployment(**chosen)(_replica_class(max_batch_size, batch_wait_s)).bind(os.path.abspath(source), settings)


def _replica_class(max_batch_size, batch_wait_s):
    from ray import serve
    from ._serving import Batcher, decode, encode, rows_of

    class Replica:
        def __init__(self, source, settings):
            self.batcher = Batcher(_Actor(source, **settings), max_batch_size)

        @serve.batch(max_batch_size=max_batch_size, batch_wait_timeout_s=batch_wait_s, batch_size_fn=lambda items: sum(map(rows_of, items)))
        async def _run(self, requests):
            # In a thread, so that the next batch is gathered meanwhile.
            results = await asyncio.get_running_loop().run_in_executor(None, self.batcher.run, requests)
            return [(r,) for r in results]  # a tuple: Serve is not to look into them

        async def predict(self, request):
            """{column: array} to {column: array}."""
            (result,) = await self._run(self.batcher.accept(request))
            if isinstance(result, Exception):
                raise result
            return result

        async def __call__(self, request):
            from starlette.responses import PlainTextResponse, Response
            kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
            try:
                arrays = decode(await request.body(), kind, list(self.batcher.infos))
                body, kind = encode(await self.predict(arrays), kind)
            except BadInput as e:
                return PlainTextResponse(f"{e}\n", status_code=400)
            return Response(body, media_type=kind)

    return Replica
