"""What AOTAutograd takes apart for tenon: operators that it has no row for and torch has a decomposition of; and random ones."""
import functools
import operator

import torch
import torch.fx
from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

import tenon

aten = torch.ops.aten
# Random numbers come from torch's generator, so that torch.manual_seed holds: these become such of a size, and arithmetic.
RANDOM = [aten.native_dropout.default, aten.bernoulli.default, aten.bernoulli.p, aten.rrelu_with_noise_functional.default]


def is_random(target):
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


@functools.cache
def decompositions():
    made = {op: f for op, f in _core_aten_decompositions_post_autograd().items() if isinstance(op, torch._ops.OpOverload) and not tenon.is_supported(op.name())}
    made.update({op: decomposition_table[op] for op in RANDOM if op in decomposition_table})
    return made


# Random operators that take a tensor only for its size, as those of a size: then they need nothing that the graph computes.
OF_SIZE = {aten.rand_like.default: aten.rand.default, aten.randn_like.default: aten.randn.default,
           aten.randint_like.default: aten.randint.default, aten.randint_like.low_dtype: aten.randint.low}


class Sizes:
    """Nodes for sizes, made of the graph's own numbers and put before all else. They and what is random are torch's."""

    def __init__(self, graph, before):
        self.graph, self.before, self.known = graph, before, {}
        self.symbols = {n.meta["val"].node.expr: n for n in graph.nodes if n.op == "placeholder" and isinstance(n.meta.get("val"), torch.SymInt)}

    def can_make(self, size):
        return type(size) is int or size.node.expr.free_symbols <= self.symbols.keys()

    def node(self, size):
        if type(size) is int or size.node.expr.is_number:
            return int(size)
        expr = size.node.expr
        if expr in self.symbols:
            return self.symbols[expr]
        if expr not in self.known:
            tracer = torch.fx.proxy.GraphAppendingTracer(self.graph)
            last = self.before.prev
            with self.graph.inserting_before(self.before):
                self.known[expr] = sympy_interp(PythonReferenceAnalysis, {s: torch.fx.Proxy(self.symbols[s], tracer) for s in expr.free_symbols}, expr).node
            while (last := last.next) is not self.before:
                last.meta.update(val=size, tenon_outside=True)
        return self.known[expr]


def hoist_random(module):
    """Makes random operators independent of what is computed, and puts them at the graph's beginning where their sizes are known there."""
    graph = module.graph
    found = [n for n in graph.nodes if n.op == "call_function" and is_random(n.target)]
    if not found:
        return
    first = next(n for n in graph.nodes if n.op != "placeholder")
    sizes = Sizes(graph, first)
    for node in found:
        value = node.meta["val"]
        if node.target in OF_SIZE and all(map(sizes.can_make, value.shape)):
            shape = [sizes.node(s) for s in value.shape]
            with graph.inserting_before(first):
                made = graph.call_function(OF_SIZE[node.target], (*node.args[1:], shape), {"dtype": value.dtype, "device": value.device})
            made.meta.update(node.meta)
            node.replace_all_uses_with(made)
            graph.erase_node(node)
        elif not node.all_input_nodes and node is not first:
            first.prepend(node)
    module.recompile()


# Norms whose mean and deviation are f32 where the input has fewer bits, though torch's fake tensors say that they are of the input's type.
NORMS = {aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.default, aten._native_batch_norm_legit.no_stats}


def correct_types(module):
    """Gives nodes of the joint graph the types that torch's kernels, and tenon's, compute."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in NORMS and node.meta["val"][0].dtype in (torch.bfloat16, torch.float16):
            taken = {user: user.args[1] for user in node.users if user.target is operator.getitem}
            if any(isinstance(n, torch.fx.Node) and n.meta["val"].dtype == torch.float32 for n in node.args[1:5]):
                node.meta["val"] = tuple(v.float() if i in (1, 2) else v for i, v in enumerate(node.meta["val"]))
                for user, i in taken.items():
                    user.meta["val"] = node.meta["val"][i]
