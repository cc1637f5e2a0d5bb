"""What AOTAutograd takes apart for tenon: operators that it has no row for and torch has a decomposition of; and random ones."""
import functools

import torch
from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table

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


def hoist_random(module):
    """Makes random operators independent of what is computed, and puts them at the graph's beginning where their sizes are known there."""
    graph = module.graph
    first = next(n for n in graph.nodes if n.op != "placeholder")
    changed = False
    for node in list(graph.nodes):
        if node.op != "call_function" or not is_random(node.target):
            continue
        if node.target in OF_SIZE and all(type(s) is int for s in node.meta["val"].shape):
            value = node.meta["val"]
            with graph.inserting_before(first):
                made = graph.call_function(OF_SIZE[node.target], (*node.args[1:], list(value.shape)), {"dtype": value.dtype, "device": value.device})
            made.meta.update(node.meta)
            node.replace_all_uses_with(made)
            graph.erase_node(node)
            changed = True
        elif not node.all_input_nodes:
            first.prepend(node) if node is not first else None
            changed = True
    if changed:
        module.recompile()
