"""What a server does besides HTTP: bodies to arrays, requests joined to one batch, and apart again. Needs numpy."""
import io, json

import numpy as np

from . import BadInput, Error

NUMPY_TYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "bool": "?", "c64": "c8", "c128": "c16"}


def decode(body, kind, columns):
    """{column: array or list} from a request: JSON ({"x": [[...]]}, or the value alone of a program of one input), .npy or .npz."""
    kind = (kind or "application/json").split(";")[0].strip().lower()
    try:
        if kind == "application/x-npz":
            with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
                return {n: arrays[n] for n in arrays.files}
        value = np.load(io.BytesIO(body), allow_pickle=False) if kind in ("application/x-npy", "application/octet-stream") else json.loads(body)
    except (ValueError, OSError, EOFError) as e:
        raise BadInput(f"the body is no {kind}: {e}") from None
    if isinstance(value, dict):
        return value
    if len(columns) != 1:
        raise BadInput(f"the program has the inputs {', '.join(columns)}: give a JSON object, or an .npz, with these names")
    return {columns[0]: value}


def encode(result, kind):
    """(body, its kind) of {column: array}, as the request's kind asks for."""
    if kind == "application/x-npy" and len(result) == 1 or kind == "application/x-npz":
        file = io.BytesIO()
        np.save(file, next(iter(result.values()))) if kind == "application/x-npy" else np.savez(file, **result)
        return file.getvalue(), kind
    lists = {n: (a.view(a.real.dtype) if a.dtype.kind == "c" else a).tolist() for n, a in result.items()}
    return json.dumps(lists).encode(), "application/json"


class Batcher:
    """Requests, each some rows of every column, run together by a tenon.batches.Model."""

    def __init__(self, model, max_rows):
        self.model, self.max_rows = model, max_rows
        exe = model.open()
        self.infos = {name: exe.inputs[i] for i, name in model.input_columns}

    def accept(self, request):
        """The request as arrays of the program's types, checked as far as it can be alone. Errors: BadInput."""
        if unknown := set(request) - set(self.infos) - set(self.model.keep):
            raise BadInput(f"there is no input {sorted(unknown)[0]}; there are {', '.join(self.infos)}")
        arrays = {}
        for name, info in self.infos.items():
            if name not in request:
                raise BadInput(f"the input {name} is missing")
            arrays[name] = self._as(request[name], name, info)
        rows = {len(a) for a in arrays.values()}
        if len(rows) > 1:
            raise BadInput("the inputs have different numbers of rows: " + ", ".join(f"{n} {len(a)}" for n, a in arrays.items()))
        if not 0 < max(rows) <= self.max_rows:
            raise BadInput(f"a request has 1 to {self.max_rows} rows, this one {max(rows)}")
        return arrays | {n: request[n] for n in self.model.keep}

    def _as(self, value, name, info):
        want = NUMPY_TYPES.get(info.dtype)
        try:
            array = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=want)
        except (ValueError, TypeError, OverflowError) as e:
            raise BadInput(f"input {name}: {e}") from None
        if want and array.dtype != np.dtype(want):
            raise BadInput(f"input {name}: expected {info.dtype}, got {array.dtype}")
        if array.ndim != len(info.sizes):
            raise BadInput(f"input {name}: expected [{', '.join(info.sizes)}], got {list(array.shape)}")
        for size, got in list(zip(info.sizes, array.shape))[1:]:
            if size.isdigit() and int(size) != got:
                raise BadInput(f"input {name}: expected [{', '.join(info.sizes)}], got {list(array.shape)}")
        return array

    def run(self, requests):
        """A result or an exception for each of the requests that accept() gave. Those of equal sizes behind the rows run as one."""
        groups, results = {}, [None] * len(requests)
        for i, request in enumerate(requests):
            groups.setdefault(tuple((n, np.shape(a)[1:]) for n, a in request.items()), []).append(i)
        for group in groups.values():
            for i, result in zip(group, self._run_group([requests[i] for i in group])):
                results[i] = result
        return results

    def _run_group(self, requests):
        try:
            return self._run_joined(requests)
        except Error as e:
            if len(requests) == 1:
                return [e]
        return [r for request in requests for r in self._run_group([request])]  # one that fails takes no others with it

    def _run_joined(self, requests):
        joined = requests[0] if len(requests) == 1 else {n: np.concatenate([r[n] for r in requests]) for n in requests[0]}
        result = self.model(joined)
        ends = np.cumsum([rows_of(r) for r in requests])[:-1]
        parts = {n: np.split(a, ends) for n, a in result.items()}
        return [{n: p[i] for n, p in parts.items()} for i in range(len(requests))]


def rows_of(request):
    """How many rows a request has."""
    return len(next(iter(request.values())))
