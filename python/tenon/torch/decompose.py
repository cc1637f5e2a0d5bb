"""What AOTAutograd takes apart for tenon: operators that it has no row for and torch has a decomposition of; and random ones."""
import functools
import math
import operator

import torch
import torch.fx
from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

import tenon

from .gradients import ATTENTION_BACKWARD, GRADIENTS, attention_backward, roi_align_backward

aten = torch.ops.aten
# Random numbers come from torch's generator, so that torch.manual_seed holds: these become such of a size, and arithmetic.
RANDOM = [aten.native_dropout.default, aten.bernoulli.default, aten.bernoulli.p, aten.rrelu_with_noise_functional.default]


def arguments_of(node):
    """What an operator's node is called with, by name, defaults too."""
    known = node.target._schema.arguments
    return {**{a.name: a.default_value for a in known}, **dict(zip((a.name for a in known), node.args)), **node.kwargs}


def is_random(node):
    """Whether a node draws numbers: one of an operator that may, other than attention that drops nothing."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    return arguments_of(node).get("dropout_p") != 0


def native_attention(query, key, value, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None, need_weights=True, average_attn_weights=True, mask_type=None):
    """torch.nn.MultiheadAttention's fast path. A mask is true where nothing is looked at: 0 of two places, 1 of keys, 2 of all."""
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3))
    q, k, v = (linear(x, w, b).unflatten(-1, (num_heads, -1)).transpose(1, 2) for x, w, b in parts)
    if mask is not None:
        mask = mask.to(torch.bool)
        mask = mask[:, None, None] if mask_type == 1 else mask[None, None] if mask.dim() == 2 else mask
    weights = None
    if need_weights:
        scores = q @ k.mT * q.shape[-1] ** -0.5
        weights = (scores if mask is None else scores.masked_fill(mask, -math.inf)).softmax(-1)
        made = weights @ v
    else:
        made = scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else ~mask)
    made = linear(made.transpose(1, 2).flatten(2), proj_weight, proj_bias)
    return made, weights.mean(1) if need_weights and average_attn_weights else weights


def encoder_layer(x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2,
                  ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None):
    """torch.nn.TransformerEncoderLayer's fast path."""
    def norm(x, weight, bias, is_here):
        return layer_norm(x, (embed_dim,), weight, bias, eps) if is_here else x

    y = norm(x, norm_weight_1, norm_bias_1, norm_first)
    y = native_attention(y, y, y, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)[0] + x
    y = norm(y, norm_weight_1, norm_bias_1, not norm_first)
    z = linear(norm(y, norm_weight_2, norm_bias_2, norm_first), ffn_weight_1, ffn_bias_1)
    z = linear(gelu(z) if use_gelu else z.relu(), ffn_weight_2, ffn_bias_2) + y
    return norm(z, norm_weight_2, norm_bias_2, not norm_first)


def determinant(op):
    """Of a row-major matrix torch factors the transpose, which the gradient relies on."""
    def made(a):
        return NotImplemented if a.is_complex() or not a.is_contiguous() or a.mT.is_contiguous() else op(a.mT)

    return made


# Of those that torch has no decomposition of.
OWN = {**GRADIENTS, aten._native_multi_head_attention.default: native_attention, aten._transformer_encoder_layer_fwd.default: encoder_layer}


def decompositions():
    return decompositions_beside(hasattr(torch.ops.torchvision, "_roi_align_backward"))


@functools.cache
def decompositions_beside(torchvision):
    made = {op: f for op, f in _core_aten_decompositions_post_autograd().items() if isinstance(op, torch._ops.OpOverload) and not tenon.is_supported(op.name())}
    made.update({op: decomposition_table[op] for op in RANDOM if op in decomposition_table})
    made.update({op: f for op, f in OWN.items() if not tenon.is_supported(op.name())})
    made.update({op: determinant(op) for op in (aten._linalg_det.default, aten._linalg_slogdet.default)})
    made[ATTENTION_BACKWARD] = attention_backward
    if torchvision:
        made[torch.ops.torchvision._roi_align_backward.default] = roi_align_backward
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
    found = [n for n in graph.nodes if is_random(n)]
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


def plain_checks(module):
    """Puts assertions in the place of torch's checks of what LAPACK says, which come wrapped so that they keep their order."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.target is not torch.ops.higher_order.with_effects or node.args[1] is not aten._linalg_check_errors.default:
            continue
        token, _, info, name = node.args[:4]
        with graph.inserting_before(node):
            zero = graph.call_function(aten.eq.Scalar, (info, 0))
            zero.meta["val"] = info.meta["val"] == 0
            good = graph.call_function(aten.all.default, (zero,))
            good.meta["val"] = zero.meta["val"].all()
            graph.call_function(aten._assert_async.msg, (good, f"{name}: the matrix is singular")).meta["val"] = None
        for user in list(node.users):  # the token that follows
            user.replace_all_uses_with(token)
            graph.erase_node(user)
        graph.erase_node(node)
        end = next(n for n in reversed(graph.nodes) if n.op == "output")
        if token.op == "placeholder" and list(token.users) == [end]:  # no tensor: torch passes None, and takes None
            end.args = torch.fx.map_arg(end.args, lambda n, token=token: None if n is token else n)
        module.recompile()


def fold_numbers(module):
    """Operators that take a number where a tensor is due, such as the conjugate of a factor in a gradient, become what they give: a number."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and not node.all_input_nodes and node.args \
                and isinstance(node.target._schema.arguments[0].type, torch.TensorType) and isinstance(node.args[0], (int, float, complex)):
            wide = {complex: torch.complex128, float: torch.float64}.get(type(node.args[0]))
            number = node.target(torch.tensor(node.args[0], dtype=wide), *node.args[1:], **node.kwargs).item()
            for user in list(node.users):
                user.args = torch.fx.map_arg(user.args, lambda n, node=node, number=number: number if n is node else n)
            graph.erase_node(node)
            module.recompile()
