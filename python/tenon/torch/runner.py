"""A compiled graph as AOTAutograd calls it: with one list of tensors and numbers, giving a list."""
import logging
import time
import warnings

import torch
from torch.fx import Node

import tenon
from tenon._tenon import Weights

from .graph_json import NO_NUMBERS, NoForm, is_write, results_of, to_json

log = logging.getLogger("tenon")
# Compiling with new values of weights may take this share of the time that calls have taken without them.
REFREEZE_SHARE = 0.1
counts = {"compiled": 0}


class InTorch(UserWarning):
    """Part of a model runs in torch, not in tenon."""


class Strided:
    """A result in memory with gaps or repeats, such as that of expand, where tenon's are dense."""

    def __init__(self, value, names):
        self.exprs = [[s.node.expr if isinstance(s, torch.SymInt) else s for s in part] for part in (value.shape, value.stride())]
        self.names = names  # place of the argument that is the symbol

    def numbers(self, exprs, args):
        return [int(e.subs({s: args[self.names[str(s)]] for s in e.free_symbols})) if hasattr(e, "free_symbols") else e for e in exprs]

    def __call__(self, t, args):
        sizes, strides = (self.numbers(part, args) for part in self.exprs)
        made = torch.empty_strided(sizes, strides, dtype=t.dtype)
        kept = t[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]
        torch.as_strided(made, kept.shape, strides).copy_(kept)
        return made


def is_dense(value):
    """Whether strides are those of some order of the dims, without gaps."""
    if any(s == 0 for s in value.shape if type(s) is int):
        return True
    dims = [(st, s) for s, st in zip(value.shape, value.stride()) if not (type(s) is int and s == 1)]
    if any(type(n) is not int for d in dims for n in d):
        return not any(type(st) is int and st == 0 for st, _ in dims)
    expected = 1
    for stride, size in sorted(dims):
        if stride != expected:
            return False
        expected *= size
    return True


class Graph:
    """One graph of torch.fx, compiled at its first call. `weights`: the places of arguments whose memory torch calls static.

    While these hold what they held, the code has them as constants, packed and folded; once one changes, as in training, calls pass them as
    arguments like any other, until they have stayed for long enough that compiling again pays."""

    def __init__(self, module, weights, options):
        self.module, self.options = module, options
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.place = {n: i for i, n in enumerate(self.placeholders)}
        self.plan_results()
        written = {n.args[0] for n in module.graph.nodes if is_write(n)}
        self.weights = [] if options.freeze is False else [
            i for i in weights if isinstance(self.placeholders[i].meta.get("val"), torch.Tensor) and self.placeholders[i].users and self.placeholders[i] not in written]
        self.live = self.frozen = self.watch = None
        self.live_seconds = self.compile_seconds = 0.0
        self.in_torch = ""  # why
        try:
            self.live_form = to_json(module, self.results, ())
            self.frozen_form = to_json(module, self.results, {self.placeholders[i] for i in self.weights}) if self.weights else None
            self.is_kindless = any(form and None in form[2] for form in (self.live_form, self.frozen_form))
        except NoForm as e:
            self.leave_to_torch(e)

    def leave_to_torch(self, error):
        if self.options.strict:
            raise tenon.Unsupported(str(error)) from error
        self.in_torch = str(error)
        warnings.warn(f"torch runs a graph of {len(self.module.graph.nodes)} nodes: {error}", InTorch, stacklevel=2)

    def plan_results(self):
        """What stands at each place of the list that is returned: an argument, a constant, or a result of the code."""
        names = {str(n.meta["val"].node.expr): i for n, i in self.place.items() if isinstance(n.meta.get("val"), torch.SymInt)}
        self.results, self.returns, self.numbers, self.strided = [], [], {}, {}
        for value in results_of(self.module):
            if isinstance(value, Node) and is_write(value):
                value = value.args[0]
            if not isinstance(value, Node):
                self.returns.append(("constant", value))
            elif value in self.place:
                self.returns.append(("argument", self.place[value]))
            else:
                self.returns.append(("result", len(self.results)))
                meta = value.meta["val"]
                if not isinstance(meta, torch.Tensor):
                    self.numbers[len(self.results)] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}.get(type(meta), type(meta))
                elif not is_dense(meta):
                    self.strided[len(self.results)] = Strided(meta, names)
                self.results.append(value)
        self.is_single = isinstance(next(n for n in self.module.graph.nodes if n.op == "output").args[0], Node)
        self.is_plain = not self.numbers and not self.strided and [r[0] for r in self.returns] == ["result"] * len(self.returns)

    def compile(self, form, args):
        text, constants, order = form
        start = time.perf_counter()
        weights = {self.placeholders[i].name: args[i] for i in self.weights} if form is self.frozen_form else {}
        tensors = {name: t.detach() for name, t in {**weights, **constants}.items()}
        executable = tenon.load_graph(text, tensors).compile(**self.options.tenon)
        self.compile_seconds = time.perf_counter() - start
        counts["compiled"] += 1
        places = [len(args) - 1 if n is None else self.place[n] for n in order if n is None or n.name not in tensors]
        log.debug("compiled %d nodes in %.1f ms", len(self.module.graph.nodes), self.compile_seconds * 1e3)
        return executable, places

    def freeze(self, args):
        self.frozen = self.compile(self.frozen_form, args)
        self.watch = Weights([args[i] for i in self.weights])
        self.live_seconds = 0.0

    def refresh(self):
        """Weights are read anew at the next call."""
        self.frozen = self.watch = None

    def choose(self, args):
        """The code for this call, and the places of its arguments."""
        if self.weights:
            if self.frozen and (self.options.freeze or self.watch.are_in(args, self.weights)):
                return self.frozen
            if self.watch is None or (not self.frozen and self.live_seconds * REFREEZE_SHARE > self.compile_seconds and self.watch.are_in(args, self.weights)):
                self.freeze(args)
                return self.frozen
            if self.frozen or not self.watch.are_in(args, self.weights):
                self.frozen, self.live_seconds = None, 0.0
                self.watch = Weights([args[i] for i in self.weights])
        if self.live is None:
            self.live = self.compile(self.live_form, args)
        return self.live

    def report(self):
        if self.in_torch:
            return f"in torch: {self.in_torch}\n"
        code = self.frozen or self.live
        return ("weights are constants\n" if self.frozen else "") + str(code[0].explain()) if code else "not called yet\n"

    def __call__(self, args):
        if self.in_torch:
            return list(self.module(*args))
        if self.is_kindless:
            args = [*args, NO_NUMBERS]
        try:
            executable, places = self.choose(args)
            start = time.perf_counter()
            results = executable.run([args[i] for i in places])
        except tenon.Error as e:
            results = list(self.module(*args[:len(self.placeholders)]))  # where torch refuses them too, such as where an assertion fails, the error is torch's
            self.leave_to_torch(e)
            return results
        if not self.frozen:
            self.live_seconds += time.perf_counter() - start
        if self.is_plain:
            return results
        for k, kind in self.numbers.items():
            results[k] = kind(results[k].item() if hasattr(results[k], "item") else results[k])
        for k, strided in self.strided.items():
            results[k] = strided(results[k], args)
        return [results[at] if kind == "result" else args[at] if kind == "argument" else at for kind, at in self.returns]
