"""flex_attention as operators: torch's compiled kernel for it computes a score at a time from functions of the user's; here they are applied to all scores at once."""
import math

import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import _vmap_for_bhqkv
from torch.nn.functional import scaled_dot_product_attention

FLEX = torch.ops.higher_order.flex_attention
ARGUMENTS = "query key value score_mod block_mask scale kernel_options score_buffers mask_buffers".split()


def is_identity(score_mod):
    """Whether a graph gives its first input."""
    first = next(iter(score_mod.graph.nodes))
    return next(n for n in reversed(score_mod.graph.nodes) if n.op == "output").args[0] in (first, (first,), [first])


def attention(score_mod, mask_mod, scale, wants_sums):
    """What computes the three results of the operator: the last two, of base-2 logarithms, where they are wanted."""
    def made(query, key, value, score_buffers, mask_buffers):
        groups = query.shape[1] // key.shape[1]
        key, value = ((t.repeat_interleave(groups, 1) if groups > 1 else t).expand(query.shape[0], -1, -1, -1) for t in (key, value))
        places = [torch.arange(n) for n in (*query.shape[:3], key.shape[2])]
        with TransformGetItemToIndex():
            mask = _vmap_for_bhqkv(mask_mod, prefix=(), suffix=(None,) * len(mask_buffers))(*places, *mask_buffers)
            if is_identity(score_mod) and not wants_sums:
                return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale), None, None
            precision = torch.float64 if query.dtype == torch.float64 else torch.float32
            scores = query.to(precision) @ key.to(precision).mT * scale
            scores = _vmap_for_bhqkv(score_mod, prefix=(0,), suffix=(None,) * len(score_buffers))(scores, *places, *score_buffers)
        scores = scores.to(precision).masked_fill(~mask, -torch.inf)
        result = torch.ops.aten._safe_softmax(scores, -1).to(query.dtype) @ value
        sums = (scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)) if wants_sums else (None, None)
        return result, *sums

    return made


def has_flex(module):
    return any(n.target is FLEX for n in module.graph.nodes)


def expand_flex(module, decompositions):
    """Puts operators in the place of flex_attention, for any sizes."""
    for node in [n for n in module.graph.nodes if n.target is FLEX]:
        given = {**dict(zip(ARGUMENTS, node.args)), **node.kwargs}
        operands = [given["query"], given["key"], given["value"], given["score_buffers"], given["mask_buffers"]]
        values = torch.fx.map_arg(operands, lambda n: n.meta["val"])
        score_mod, mask_mod = (getattr(module, g.target) for g in (given["score_mod"], given["block_mask"][-1]))
        made = attention(score_mod, mask_mod, given["scale"], any(u.args[1] for u in node.users))
        with node.meta["val"][0].fake_mode:
            traced = make_fx(made, decomposition_table=decompositions)(*values)
        traced.graph.eliminate_dead_code()
        put_in(module, node, traced, torch.utils._pytree.tree_leaves(operands))
        module.recompile()


def put_in(module, node, traced, operands):
    """The traced graph's nodes in place of a node whose users each take one of its results."""
    inputs = [n for n in traced.graph.nodes if n.op == "placeholder"]
    with module.graph.inserting_before(node):
        results = module.graph.graph_copy(traced.graph, dict(zip(inputs, operands)))
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        module.graph.erase_node(user)
    module.graph.erase_node(node)
