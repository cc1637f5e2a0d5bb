"""Which nodes of a graph tenon takes. The others run in torch, between the parts."""
import collections
import operator

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import create_op_support

import tenon

from .decompose import OF_SIZE, arguments_of, is_random
from .graph_json import SYNONYMS, SCALAR_TYPES, SYM_KINDS, is_write

# Rows that the loader has beside the table: conditions on numbers.
CONDITIONS = {"aten::_assert_scalar", "aten::_assert_async", "aten::_assert_async.msg", "aten::_assert_tensor_metadata", "aten::sym_constrain_range",
              "aten::sym_constrain_range_for_size"}
RANDOM = "random numbers are torch's"
HOPS = {"cond", "while_loop", "scan", "map_impl"}
# Fewer operators than these that compute are not worth a part of their own.
LEAST_NODES = 3
VIEWS = {"view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "squeeze", "unsqueeze", "slice", "select", "alias", "detach", "as_strided"}


def values_of(value):
    return [v for item in value for v in values_of(item)] if isinstance(value, (list, tuple)) else [value]


def refusal(node):
    """Why tenon does not take the node; None where it does."""
    target = node.target
    if node.meta.get("tenon_outside"):
        return RANDOM
    if is_random(node):  # what only draws is expected to be torch's; what computes with tensors beside is told of
        draws = node.target in OF_SIZE or not any(isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)
        return RANDOM if draws else "it draws random numbers, which are torch's, and computes with them"
    if isinstance(target, torch._ops.OpOverload):
        name = target.name()
        is_number = name.startswith("aten::sym_") and type(node.meta.get("val")) in SYM_KINDS  # its expression is known
        if not (is_number or name in CONDITIONS or target in SYNONYMS or tenon.is_supported(name)):
            return "there is no such operator"
        if target is torch.ops.aten.mkldnn_rnn_layer.default and (arguments_of(node)["train"] or arguments_of(node)["batch_sizes"]):
            return "its gradient needs what oneDNN keeps, or sequences are packed"
    elif isinstance(target, torch._ops.HigherOrderOperator):
        if target.name() not in HOPS:
            return "there is no such operator"
    elif getattr(target, "__module__", "") not in ("_operator", "math", "torch"):
        return "it is a function of Python"
    for value in values_of([node.meta.get("val"), [n.meta.get("val") for n in node.all_input_nodes]]):
        if isinstance(value, torch.Tensor):
            if value.device.type != "cpu":
                return f"a tensor is on {value.device}"
            if value.layout != torch.strided:
                return f"a tensor is of layout {value.layout}"
            if value.dtype not in SCALAR_TYPES:
                return f"elements are of {value.dtype}"
        elif value is not None and type(value) not in SYM_KINDS:
            return f"a value is a {type(value).__name__}"
    return None


def refused(module):
    """The nodes that tenon does not take, with the reason."""
    made = {}
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem and not is_write(node):
            if reason := refusal(node):
                made[node] = reason
    return made


def computes(node):
    return node.op == "call_function" and node.target is not operator.getitem and not (
        isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name.split("::")[-1] in VIEWS) and isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))


def split(module, refusals):
    """The module with its parts for tenon as submodules `fused_N`; too small ones stay. Gives their names."""
    support = create_op_support(lambda _, node: node.op == "call_function" and node not in refusals and not is_write(node))
    partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
    parts = [p for p in partitioner.propose_partitions() if sum(map(computes, p.nodes)) >= LEAST_NODES]
    divided = partitioner.fuse_partitions(parts)
    return divided, [n.target for n in divided.graph.nodes if n.op == "call_module" and n.target.startswith("fused_")]


def count(nodes):
    """"aten.foo.default x2, ..." """
    names = collections.Counter(str(n.target) for n in nodes)
    return ", ".join(f"{name} x{k}" if k > 1 else name for name, k in names.most_common())
