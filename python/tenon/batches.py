"""A program over batches of rows, for whatever calls it: Ray, Spark, Dask or a loop. Needs numpy.

A Model is small: it is pickled as its file's path and its options, and opens the program in the process where it is called,
once for all Models of that file and those options."""
import os, threading

import numpy as np

from . import BadInput, _tenon, open as open_program

_opened, _lock = {}, threading.Lock()


def _shared(source, options):
    """An Executable of a file, with machine code and weights shared in this process, and a state of its own."""
    if isinstance(source, bytes):
        return open_program(source, **options)
    status = os.stat(source)
    key = (os.path.realpath(source), status.st_mtime_ns, status.st_size, tuple(sorted((k, repr(v)) for k, v in options.items())))
    with _lock:
        if key not in _opened:
            _opened[key] = open_program(source, **options)
        return _opened[key].copy()


def _array(value, info):
    """A result as numpy has it: bf16 becomes f32, a number an array without dims."""
    if isinstance(value, _tenon.Tensor):
        value = value.bits()
        if info.dtype == "bf16":
            value = (value.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(value)


def _columns(given, infos, what):
    """(index of the input or output, column) pairs, from a dict by name, or from names in the order of the program, or its own names."""
    names = [i.name for i in infos]
    if given is None:
        return list(enumerate(names))
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, dict):
        if len(given) > len(names):
            raise BadInput(f"{len(given)} columns for {len(names)} {what}s: {', '.join(names)}")
        return list(enumerate(given))
    if unknown := [n for n in given if n not in names]:
        raise BadInput(f"there is no {what} {unknown[0]}; there are {', '.join(names)}")
    return [(names.index(n), column) for n, column in given.items()]


class Model:
    """A program whose inputs are columns of a batch, rows first, and whose outputs become columns.

    source: the path of a .pt2 or of what ``Program.save_compiled`` (``tenon compile``) wrote, which must be there in every process; or a
      .pt2's bytes, which go along with each copy.
    inputs: {input: column}, or the columns in the order of the inputs, flattened; None: the inputs' own names (``Executable.inputs``).
    constants: {input: value} for inputs that are no columns, such as numbers.
    outputs: {output: column}, others are dropped; or columns in the order of the outputs; None: the outputs' own names.
    keep: columns of the batch that are passed on, as copies.
    options: those of ``Program.compile``; threads=1 where several processes share the cores.

    A program that was exported for n rows gets them: longer batches in parts, the last one filled up with its last row. Safe to call from
    several threads at once. Errors: BadInput for columns that are missing or do not fit."""

    def __init__(self, source, *, inputs=None, constants=None, outputs=None, keep=(), **options):
        self.source = bytes(source) if isinstance(source, (bytes, bytearray)) else os.fspath(source)
        self.inputs, self.constants, self.outputs = inputs, dict(constants or {}), outputs
        self.keep, self.options = [keep] if isinstance(keep, str) else list(keep), options
        self._exe, self.input_columns = None, None  # (index of the input, column), once it is open

    def __getstate__(self):
        return {**self.__dict__, "_exe": None}

    def open(self):
        """The Executable, opened now if it was not yet."""
        if self._exe is None:
            exe = _shared(self.source, self.options)
            self.input_columns = _columns(self.inputs, exe.inputs, "input") if self.inputs is not None else \
                [(i, a.name) for i, a in enumerate(exe.inputs) if a.name not in self.constants]
            self._out = _columns(self.outputs, exe.outputs, "output")
            self._fixed = dict(_columns(self.constants, exe.inputs, "input"))
            taken = {i for i, _ in self.input_columns} | set(self._fixed)
            if missing := [a.name for i, a in enumerate(exe.inputs) if i not in taken]:
                raise BadInput(f"nothing is given for the inputs {', '.join(missing)}: name their columns in inputs=, or their values in constants=")
            sizes = {exe.inputs[i].sizes[0] if exe.inputs[i].sizes else "" for i, _ in self.input_columns}
            self._rows = int(sizes.pop()) if len(sizes) == 1 and next(iter(sizes)).isdigit() else None
            self._exe = exe
        return self._exe

    def __call__(self, batch):
        """{column: array} of n rows to the outputs' columns, of n rows, in memory of their own."""
        exe = self.open()
        arrays = [(i, self._column(batch, name)) for i, name in self.input_columns]
        counts = {len(a) for _, a in arrays}
        if len(counts) > 1:
            raise BadInput("the columns have different numbers of rows: " + ", ".join(f"{n}: {len(a)}" for (_, n), (_, a) in zip(self.input_columns, arrays)))
        rows = counts.pop() if counts else 0
        results = self._run(exe, arrays, rows) if self._rows in (None, rows) else self._run_in_parts(exe, arrays, rows)
        made = {name: np.array(batch[name]) for name in self.keep}
        return made | {name: results[i] for i, name in self._out}

    def _column(self, batch, name):
        if name not in batch:
            raise BadInput(f"the batch has no column {name}; it has {', '.join(batch)}")
        array = np.asarray(batch[name])
        if array.dtype.kind not in "biufc":
            raise BadInput(f"column {name}: its rows have different shapes, or are no numbers ({array.dtype})")
        return array

    def _run(self, exe, arrays, rows):
        flat = [self._fixed.get(i) for i in range(len(exe.inputs))]
        for i, array in arrays:
            # Batches of Ray's object store are read-only, and tenon may only read them where it knows the program.
            flat[i] = array if array.flags.writeable or not exe.writes_inputs else array.copy()
        results = [_array(r, info) for r, info in zip(exe.run(flat), exe.outputs)]
        for i, name in self._out:
            if results[i].ndim == 0 or len(results[i]) != rows:
                raise BadInput(f"output {exe.outputs[i].name} has no row for each of the {rows} rows of the batch: {list(results[i].shape)}; outputs= chooses others")
        return results

    def _run_in_parts(self, exe, arrays, rows):
        parts = []
        for start in range(0, max(rows, 1), self._rows):
            part = [(i, a[start:start + self._rows]) for i, a in arrays]
            count = min(self._rows, rows - start)
            if count == 0:
                raise BadInput(f"an empty batch for a program of {self._rows} rows")
            if count < self._rows:
                part = [(i, np.concatenate([a, np.repeat(a[-1:], self._rows - count, axis=0)])) for i, a in part]
            parts.append([r[:count] if r.ndim else r for r in self._run(exe, part, self._rows)])
        return [np.concatenate(rs) if rs[0].ndim else rs[0] for rs in zip(*parts)]

    def frame(self, frame):
        """The same of a pandas DataFrame, whose cells hold numbers or arrays: ``ddf.map_partitions(model.frame)`` of Dask."""
        import pandas as pd
        self.open()
        batch = {}
        for name in {n for _, n in self.input_columns} | set(self.keep):
            if name not in frame:
                raise BadInput(f"the frame has no column {name}; it has {', '.join(map(str, frame.columns))}")
            column = frame[name].to_numpy()
            batch[name] = np.stack(column) if column.dtype == object and len(column) and name not in self.keep else column
        return pd.DataFrame({n: a if a.ndim == 1 else list(a) for n, a in self(batch).items()}, index=frame.index)

    def frames(self, frames):
        """The same of an iterator of DataFrames: ``df.mapInPandas(model.frames, schema)`` of Spark."""
        for frame in frames:
            if len(frame):
                yield self.frame(frame)
