"""backend="tenon" of torch.compile: AOTAutograd's graphs, those of training too, through tenon.load_graph."""
import dataclasses
import time
import warnings
import weakref

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

import tenon
from tenon._tenon import check_options

from .decompose import correct_types, decompositions, fold_numbers, hoist_random, plain_checks
from .flex import expand_flex
from .partition import RANDOM, count, refused, split
from .export import from_torch
from .runner import Graph, InTorch, counts

_compiled = weakref.WeakSet()


@dataclasses.dataclass(frozen=True)
class BackendOptions:
    freeze: bool | None = None
    strict: bool = False
    tenon: dict = dataclasses.field(default_factory=dict)


def parse_options(mode, options):
    if mode not in (None, "default"):
        raise ValueError(f'backend="tenon" has no mode {mode!r}: leave it out, and see tenon.torch.backend for options')
    given = dict(options or {})
    own = {name: given.pop(name) for name in ("freeze", "strict") if name in given}
    check_options(**given)
    given.setdefault("threads", torch.get_num_threads())
    return BackendOptions(tenon=given, **own)


class Divided:
    """A graph of which torch runs some nodes. The first call measures what these take, and says so once."""

    def __init__(self, module, refusals, weights, options):
        self.in_torch = "".join(f"in torch: {n.target}: {reason}\n" for n, reason in refusals.items())
        self.refusals = {n.name: (n, reason) for n, reason in refusals.items() if reason is not RANDOM}
        self.module, parts = split(module, refusals)
        placeholders = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        weights = {placeholders[i] for i in weights}
        self.parts = []
        for node in [n for n in self.module.graph.nodes if n.op == "call_module"]:
            if node.target in parts:
                part = Graph(getattr(self.module, node.target), [i for i, a in enumerate(node.args) if a in weights], options)
                setattr(self.module, node.target, Part(part))
                self.parts.append(part)
        self.is_told = not self.refusals

    def report(self):
        return self.in_torch + "".join(part.report() for part in self.parts)

    def refresh(self):
        for part in self.parts:
            part.refresh()

    def __call__(self, args):
        if self.is_told:
            return list(self.module(*args))
        self.is_told = True
        timed = Timed(self.module, self.refusals)
        results = timed.run(*args)
        warn(self.refusals, timed.seconds)
        return list(results)


class Part(torch.nn.Module):
    def __init__(self, graph):
        super().__init__()
        self.graph = graph

    def forward(self, *args):
        results = self.graph(list(args))
        return results[0] if self.graph.is_single else results


class Timed(torch.fx.Interpreter):
    """Runs a graph and measures the nodes that are torch's."""

    def __init__(self, module, refusals):
        super().__init__(module)
        self.refusals, self.seconds = refusals, 0.0

    def run_node(self, n):
        start = time.perf_counter()
        result = super().run_node(n)
        if n.name in self.refusals:
            self.seconds += time.perf_counter() - start
        return result


def warn(refusals, seconds):
    reasons = {}
    for node, reason in refusals.values():
        reasons.setdefault(reason, []).append(node)
    what = "; ".join(f"{count(nodes)}: {reason}" for reason, nodes in reasons.items())
    warnings.warn(f"torch runs {len(refusals)} operators of the model, which took {seconds * 1e3:.2f} ms in this call: {what}", InTorch, stacklevel=2)


def compile_graph(module, weights, options):
    """What runs the graph: tenon alone, tenon and torch, or torch where there is nothing for tenon."""
    plain_checks(module)
    expand_flex(module, decompositions())
    fold_numbers(module)
    hoist_random(module)
    refusals = refused(module)
    told = {n: reason for n, reason in refusals.items() if reason is not RANDOM}
    if options.strict and told:
        raise tenon.Unsupported("; ".join(f"{n.target}: {reason}" for n, reason in told.items()))
    made = Divided(module, refusals, weights, options) if refusals else Graph(module, weights, options)
    _compiled.add(made)
    return made


def compiler(options, is_inference):
    def compile_fx(module, example_inputs):
        context = torch._guards.TracingContext.try_get()
        metadata = context.fw_metadata if context and is_inference else None
        graph = compile_graph(module, list(metadata.static_input_indices) if metadata else [], options)

        def run(args):
            return graph(args)

        run._boxed_call = True
        return run

    return compile_fx


def partition(module, *args, **kwargs):
    """The graphs forward and backward of a joint one."""
    correct_types(module)
    return min_cut_rematerialization_partition(module, *args, **kwargs)


def backend(module, example_inputs, *, mode=None, options=None):
    """``torch.compile(model, backend="tenon", options={...})``. Options:

    - ``freeze``: None compiles with weights as constants and notices when they change (below); True does not look again until `refresh`;
      False passes them in every call. Graphs that train always do.
    - ``strict``: operators that tenon has not are an Unsupported error instead of parts that run in torch with a warning.
    - those of `tenon.Program.compile`, such as ``threads`` (torch's number where it is not given) or ``precision``.

    Weights are read where torch has them. A change is noticed by their memory, by torch's count of writes, and by a few of their bytes; a write
    through ``.data``, which torch does not count, might miss these: call `refresh` behind it. Errors: ValueError, BadInput for options that there
    are not."""
    chosen = parse_options(mode, options)
    inference = compiler(chosen, True)
    train = compiler(chosen, False)
    return aot_autograd(fw_compiler=train, bw_compiler=train, inference_compiler=inference, decompositions=decompositions(),
                        partition_fn=partition, keep_inference_input_mutations=True)(module, example_inputs)


def reset():
    """What torch.compiler.reset calls."""
    _compiled.clear()


backend.reset = reset


def refresh():
    """Weights of all compiled models are read anew at their next call: for writes through ``.data``."""
    for graph in list(_compiled):
        graph.refresh()


def report():
    """A text for each graph that was compiled: how it runs."""
    return [graph.report() for graph in list(_compiled)]


def stats():
    """How many graphs there are, and how often one was compiled: {"graphs": 3, "compiled": 4}."""
    return {"graphs": len(_compiled), **counts}
