"""tenon.check: whether a program gives what it should, with the tolerances of the tool's `tenon check`. Needs numpy."""
import dataclasses, os

TOLERANCES = {"f32": (1e-4, 5e-5), "c64": (1e-4, 5e-5), "f64": (1e-7, 1e-8), "c128": (1e-7, 1e-8), "f16": (2e-3, 2e-3), "bf16": (1.6e-2, 1.6e-2)}
HUGE = 1e30  # beyond this, as masks are, an element says nothing of the others' scale


@dataclasses.dataclass
class Report:
    """What check() found. `problems` has a line for each output that differs; `unsupported` the operators that tenon has not."""
    outputs: int = 0
    problems: list = dataclasses.field(default_factory=list)
    unsupported: list = dataclasses.field(default_factory=list)

    def __bool__(self):
        return not self.problems and not self.unsupported

    def __str__(self):
        if self:
            return f"{self.outputs} outputs agree"
        return "\n".join(self.problems + [f"unsupported: {name}" for name in self.unsupported])


def as_array(value, dtype):
    import numpy as np
    if type(value).__module__.startswith("torch"):
        value = value.detach().contiguous()
        value = value.view(__import__("torch").uint16).numpy() if str(value.dtype) == "torch.bfloat16" else value.resolve_conj().resolve_neg().numpy()
    array = value.bits() if hasattr(value, "bits") else np.asarray(value)
    if dtype == "bf16" and array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array


def difference(got, want, dtype, rtol, atol):
    """What differs between two arrays; empty where they agree."""
    import numpy as np
    got, want = as_array(got, dtype), as_array(want, dtype)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    default = TOLERANCES.get(dtype, (0, 0))
    rtol, atol = default[0] if rtol is None else rtol, default[1] if atol is None else atol
    if dtype not in TOLERANCES:
        bad = got != want
    else:
        parts = [x.reshape(-1).view(x.real.dtype).astype(np.float64) for x in (np.ascontiguousarray(got), np.ascontiguousarray(want))]
        got, want = parts
        size = np.abs(want)
        largest = max(0.01, size[size <= HUGE].max(initial=0))
        with np.errstate(invalid="ignore"):
            allowed = np.where(size > HUGE, (rtol + atol) * size, rtol * size + atol * largest)
            near = np.isfinite(got) & (np.abs(got - want) <= allowed)
        bad = ~np.where(np.isnan(want), np.isnan(got), np.where(np.isinf(want), got == want, near))
    if not bad.any():
        return ""
    at = int(np.flatnonzero(bad)[0])
    return f"{int(bad.sum())} of {bad.size} elements differ, first at {at}: {got.reshape(-1)[at]} instead of {want.reshape(-1)[at]}"


def stored(path, infos):
    """The stored inputs and outputs beside a .pt2, of each size: (inputs, outputs)."""
    import numpy as np
    from . import Tensor
    stem, k = path[:-4], 1
    while os.path.exists(name := stem + (f".{k}" if k > 1 else "") + ".inputs.npz"):
        pairs = []
        for file in (name, name.replace(".inputs.", ".expected.")):
            with np.load(file) as arrays:
                pairs.append([arrays[n] for n in arrays.files])
        # numpy has no bf16 and no floats of 8 bits: their bits are stored
        yield [Tensor(a, i.dtype) if i.dtype.startswith(("bf16", "f8")) else a for a, i in zip(pairs[0], infos)], pairs[1]
        k += 1


def flatten(tree):
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in flatten(value)]
    if isinstance(tree, (list, tuple)):
        return [leaf for value in tree for leaf in flatten(value)]
    if dataclasses.is_dataclass(tree):
        return [leaf for f in dataclasses.fields(tree) for leaf in flatten(getattr(tree, f.name))]
    return [] if tree is None or isinstance(tree, str) else [tree]


def check(program, expected=None, args=None, kwargs=None, *, rtol=None, atol=None, **options):
    """Compiles `program`, a path or a Program, and compares its results.

    With `args` (and `kwargs`): with `expected`, a callable such as the torch module, called with the same, or its results; without it, with the
    reference interpreter. Without `args`, of a path: with the NAME.inputs.npz and NAME.expected.npz beside NAME.pt2. Elements may differ by rtol of
    their size plus atol of the largest; the defaults depend on the dtype. Returns a Report, which is true where all agree."""
    from . import BadInput, Program
    path = None
    if not isinstance(program, Program):
        path, program = os.fspath(program), Program.load(program)
    report = Report(unsupported=program.unsupported)
    if report.unsupported:
        return report
    if args is not None or kwargs:
        args, kwargs = tuple(args or ()), kwargs or {}
        got = program.compile(**options)(*args, **kwargs)
        if expected is None:
            expected = program.compile(interpret=True)
        want = expected(*args, **kwargs) if callable(expected) else expected
        pairs = [(flatten(got), flatten(want))]
    else:
        if path is None:
            raise BadInput("check() of a Program needs args; of a path, stored inputs do")
        pairs = ((program.compile(**options).run(inputs), outputs) for inputs, outputs in stored(path, program.inputs))
    for got, want in pairs:
        if len(got) != len(want):
            report.problems.append(f"{len(got)} outputs instead of {len(want)}")
            continue
        for i, (g, w) in enumerate(zip(got, want)):
            dtype = program.outputs[i].dtype if len(got) == len(program.outputs) else None
            if why := difference(g, w, dtype or "f32", rtol, atol):
                report.problems.append(f"out{i}: {why}")
        report.outputs += len(got)
    if not report.outputs and not report.problems:
        raise BadInput(f"there is no {path[:-4]}.inputs.npz" if path else "there is nothing to compare")
    return report
