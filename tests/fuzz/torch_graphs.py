#!/usr/bin/env python3
"""Runs the graphs that graph_dump wrote in torch, and compares: `torch_graphs.py FOLDER`. Exit code 1 where results differ.

A call that torch refuses is left out, with all that depends on it: random calls may be of dtypes that torch has no kernel for.
"""
import glob, os, re, sys
import numpy as np
import torch

TYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool"}
NAMES = {"Float": "f32", "Double": "f64", "Half": "f16", "BFloat16": "bf16", "Long": "i64", "Int": "i32", "Short": "i16", "Char": "i8", "Byte": "u8", "Bool": "bool"}


def dtype(name):
    return getattr(torch, TYPES[name])


class Refused(Exception):
    pass


class Graph:
    """Executes a graph's text line by line; `values` by name, `symbols` as they are met."""

    def __init__(self, text, arrays):
        self.lines = text.split("\n")
        self.arrays, self.values, self.symbols = arrays, {}, {}

    def array(self, key, kind):
        a = torch.from_numpy(np.array(self.arrays[key]))
        return a.view(torch.bfloat16) if kind == "bf16" else a

    def literal(self, match):
        kind, sizes, rest = match.groups()
        if at := re.fullmatch(r" @(\d+)", rest):
            return f"g.array('c{at[1]}', '{kind}')"
        return f"torch.tensor([{','.join(rest.split())}], dtype=dtype('{kind}')).reshape([{sizes}])"

    def python(self, text):
        text = re.sub(r"tensor<(\w+) \[([^\]]*)\]((?: [^> ]+)*)>", self.literal, text)
        text = re.sub(r"dtype<(\w+)>", r"dtype('\1')", text)
        text = re.sub(r"%(\w+)", r"g.get('\1')", text)
        return text.replace("{", "(").replace("}", ")")

    def get(self, name):
        v = self.values[name]
        if isinstance(v, Refused):
            raise v
        return v

    def bind(self, kind, value):
        sizes = kind[kind.index("(") + 1 : kind.rindex(")")]
        sizes = re.sub(r", strides=.*", "", sizes)
        for d, size in enumerate(s.strip() for s in re.split(r",(?![^(]*\))", sizes) if s.strip()):
            if re.fullmatch(r"[a-z]\w*", size) and d < value.dim():  # a result of another rank will be found to differ
                self.symbols.setdefault(size, value.shape[d])

    def evaluate(self, text, call=None):
        env = {"g": self, "torch": torch, "dtype": dtype, "call": call, "inf": float("inf"), "nan": float("nan"), **self.symbols}
        return eval(self.python(text), env)

    def call(self, op, args):
        name, overload = op.removeprefix("aten::").rsplit(".", 1)
        try:
            return self.evaluate(f"call({args})", getattr(getattr(torch.ops.aten, name), overload))
        except Refused:
            raise
        except (RuntimeError, TypeError, AttributeError, IndexError, ValueError, NotImplementedError) as e:
            raise Refused(str(e))

    def block(self, i, indent, params=()):
        """Executes the block whose header is line i; gives what it returns and the line after it."""
        names = re.findall(r"%(\w+) :", self.lines[i])
        self.values.update(zip(names, params))
        i += 1
        while not self.lines[i].startswith(indent + "-> ("):
            i = self.node(i, indent)
        return self.evaluate("[" + self.lines[i].strip()[4:-1] + "]"), i + 1

    def skip(self, i, indent):
        while not self.lines[i].startswith(indent + "-> ("):
            i += 1
        return i + 1

    def blocks(self, i, indent):
        starts = []
        while re.match(rf"{indent}  block\d", self.lines[i]):
            starts.append(i)
            i = self.skip(i, indent + "    ")
        return starts, i

    def control(self, op, args, i, indent):
        starts, end = self.blocks(i + 1, indent)
        inner = indent + "    "
        if op == "prim::If":
            return self.block(starts[0 if self.evaluate(args) else 1], inner)[0], end
        carried = self.evaluate(args)
        while self.block(starts[0], inner, carried)[0][0]:
            carried = self.block(starts[1], inner, carried)[0]
        return carried, end

    def node(self, i, indent):
        outputs, op, args = re.match(r"\s*(?:(.*?) = )?((?:aten|prim)::[\w.]+)\((.*)\)(?:  #.*)?$", self.lines[i]).groups()
        kinds = re.findall(r"%(\w+) : (\w+(?:\((?:[^()]|\([^()]*\))*\))?)", outputs or "")
        end = i + 1
        try:
            if op in ("prim::If", "prim::While"):
                result, end = self.control(op, args, i, indent)
            elif op == "prim::Constant":
                result = [self.evaluate(args)]
            else:
                result = self.call(op, args)
                result = list(result) if isinstance(result, (tuple, list)) else [result]
        except Refused as e:
            result = [e] * len(kinds)
            end = self.blocks(i + 1, indent)[1] if op in ("prim::If", "prim::While") else end
        for (name, kind), value in zip(kinds, result):
            self.values[name] = value
            if isinstance(value, torch.Tensor) and "(" in kind:
                self.bind(kind, value)
        return end

    def run(self):
        i = next(k for k, line in enumerate(self.lines) if line.startswith("graph("))
        for name, kind in re.findall(r"%(\w+) : (\w+\((?:[^()]|\([^()]*\))*\))", self.lines[i]):
            self.values[name] = self.array(name, NAMES[kind.split("(")[0]])
            self.bind(kind, self.values[name])
        i += 1
        while not self.lines[i].startswith("  return ("):
            i = self.node(i, "  ")
        return [self.values[n] for n in re.findall(r"%(\w+)", self.lines[i])]


def difference(got, want, tolerance):
    if want.layout != torch.strided:
        want = want.to_dense()
    kind = str(want.dtype).removeprefix("torch.")
    got = torch.from_numpy(np.array(got))
    got = got.view(torch.bfloat16) if kind == "bfloat16" and got.dtype == torch.uint16 else got
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.is_complex:
        got, want = torch.view_as_real(got), torch.view_as_real(want.resolve_conj())
    if not want.dtype.is_floating_point:
        return "" if torch.equal(got, want) else f"{int((got != want).sum())} of {want.numel()} elements differ"
    t = max({"bfloat16": 2e-2, "float16": 3e-3}.get(kind, 0), tolerance + 1e-6)
    a, b = got.double(), want.double()
    same = (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= t * b.abs().clamp(min=1))
    if same.all():
        return ""
    at = int((~same).flatten().nonzero()[0])
    return f"{int((~same).sum())} of {want.numel()} elements differ; at {at}: {float(a.flatten()[at])} instead of {float(b.flatten()[at])}"


def main(folder):
    graphs = failed = refused = compared = 0
    torch.set_num_threads(1)
    for path in sorted(glob.glob(os.path.join(folder, "*.txt")), key=lambda p: int(os.path.basename(p)[:-4])):
        text, arrays = open(path).read(), np.load(path[:-4] + ".npz")
        tolerances = [float(t) for t in re.findall(r"^# tolerance (\S+)", text, re.M)]
        graphs += 1
        for k, want in enumerate(Graph(text, arrays).run()):
            if not isinstance(want, torch.Tensor):  # refused, turned off by a mask, or a number
                refused += 1
                continue
            compared += 1
            if why := difference(arrays[f"out{k}"], want, tolerances[k]):
                failed += 1
                print(f"{path}: out{k}: {why}")
    print(f"{graphs} graphs, {compared} results compared, {refused} refused by torch, {failed} differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
