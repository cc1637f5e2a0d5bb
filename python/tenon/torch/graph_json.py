"""Graphs of torch.fx as the text that torch.export's archives hold (models/NAME.json), for tenon.Program.load_graph: no file, no serde."""
import json
import math
from operator import getitem

import sympy
import torch
from torch.fx import GraphModule, Node

# torch.export's schema numbers types in an order of its own.
SCALAR_TYPES = {torch.uint8: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4, torch.int64: 5, torch.float16: 6, torch.float32: 7, torch.float64: 8,
                torch.complex64: 10, torch.complex128: 11, torch.bool: 12, torch.bfloat16: 13, torch.float8_e4m3fn: 29, torch.float8_e5m2: 30,
                torch.float8_e4m3fnuz: 31, torch.float8_e5m2fnuz: 32, torch.uint64: 35}
MEMORY_FORMATS = {torch.contiguous_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3, torch.preserve_format: 4}
SYM_KINDS = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool", int: "int", float: "float", bool: "bool"}
POSITIONAL, KEYWORD = 1, 2
NO_NUMBERS = torch.empty(0)


def origin(node):
    """Where a node comes from, as archives say it."""
    made = {}
    if stack := node.meta.get("stack_trace"):
        made["stack_trace"] = stack
    if modules := node.meta.get("nn_module_stack"):
        made["nn_module_stack"] = ";".join(f"{key},{path},{kind if isinstance(kind, str) else kind.__module__ + '.' + kind.__qualname__}"
                                           for key, (path, kind) in modules.items())
    return made


class NoForm(Exception):
    """A node, type or value that the schema, or tenon, has no form for; the message says which."""


def number(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def is_sym(value):
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def convert_element_type(node):
    """prims.convert_element_type, which torch's conversions of numbers leave behind, in ATen."""
    return torch.ops.aten._to_copy.default, node.args[:1], {"dtype": node.args[1] if len(node.args) > 1 else node.kwargs["dtype"]}


def with_stride(node):
    """Backward operators of pools, whose stride of no numbers is the kernel's size."""
    args = list(node.args)
    args[3] = args[3] or args[2]
    return node.target, tuple(args), node.kwargs


# Operators that stand for others of ATen: as their target, arguments and keywords.
SYNONYMS = {torch.ops.prims.convert_element_type.default: convert_element_type,
            torch.ops.aten._local_scalar_dense.default: lambda node: (torch.ops.aten.item.default, node.args, node.kwargs),
            **dict.fromkeys([torch.ops.aten.avg_pool2d_backward.default, torch.ops.aten.avg_pool3d_backward.default, torch.ops.aten.max_pool2d_with_indices_backward.default,
                             torch.ops.aten.max_pool3d_with_indices_backward.default], with_stride)}


class Writer:
    """Writes one graph. `symbols` collects those that occur, for the ranges; inner graphs share it."""

    def __init__(self, module: GraphModule, symbols=None, texts=None):
        self.module, self.graph = module, module.graph
        self.symbols = {} if symbols is None else symbols
        self.texts = {} if texts is None else texts  # srepr by expression
        self.values = {"tensor_values": {}, "sym_int_values": {}, "sym_float_values": {}, "sym_bool_values": {}}
        self.names = {}      # of results: by getitem node, or (node, index)
        self.constants = {}  # get_attr target -> tensor

    # Sizes.
    def expression(self, value):
        expr = value.node.expr
        if expr not in self.texts:
            self.texts[expr] = sympy.srepr(expr)
            for s in expr.free_symbols:
                self.symbols.setdefault(s, value.node.shape_env)
        hint = value.node.hint if expr.is_Symbol and value.node.has_hint() else None
        return {"as_expr": {"expr_str": self.texts[expr], "hint": {"as_int": hint} if type(hint) is int else None}}

    def size(self, value):
        return self.expression(value) if is_sym(value) and not value.node.expr.is_number else {"as_int": int(value)}

    def meta(self, t):
        if t.device.type != "cpu":
            raise NoForm(f"a tensor on {t.device}")
        if t.layout != torch.strided:
            raise NoForm(f"a tensor of layout {t.layout}")
        if t.dtype not in SCALAR_TYPES:
            raise NoForm(f"elements of {t.dtype}")
        return {"dtype": SCALAR_TYPES[t.dtype], "sizes": [self.size(s) for s in t.shape], "strides": [self.size(s) for s in t.stride()],
                "storage_offset": {"as_int": 0}, "requires_grad": t.requires_grad, "device": {"type": "cpu", "index": None}, "layout": 7}

    # Values: their names, and what they are.
    def tensor(self, name, t):
        self.values["tensor_values"][name] = self.meta(t)
        return {"as_tensor": {"name": name}}

    def sym(self, name, value):
        kind = SYM_KINDS[type(value)]
        self.values[f"sym_{kind}_values"][name] = self.expression(value) if is_sym(value) and not value.node.expr.is_number else {
            f"as_{kind}": number(value if not is_sym(value) else {"int": int, "float": float, "bool": bool}[kind](value))}
        return {f"as_sym_{kind}": {"as_name": name}}

    def define(self, name, value):
        if isinstance(value, torch.Tensor):
            return self.tensor(name, value)
        if value is None:
            return {"as_none": True}
        if type(value) in SYM_KINDS:
            return self.sym(name, value)
        raise NoForm(f"a value of {type(value).__name__}")

    def names_of(self, node, value):
        """Names of the results of a node that has several; those that nobody takes get one."""
        taken = {}
        for user in node.users:
            if user.target is getitem:
                self.names[user] = taken.setdefault(user.args[1], user).name
        names = [taken[i].name if i in taken else f"{node.name}_unused_{i}" for i in range(len(value))]
        self.names[node] = names
        return names

    def outputs(self, node, is_list):
        value = node.meta.get("val")  # conditions have none
        if not isinstance(value, (list, tuple)):
            return [] if value is None else [self.define(node.name, value)]
        made = [self.define(name, v) for name, v in zip(self.names_of(node, value), value)]
        return [{"as_tensors": [m["as_tensor"] for m in made]}] if is_list else made

    # Arguments.
    def reference(self, node):
        if node.op == "get_attr":
            self.constants[node.target] = get_attr(self.module, node.target)
        if is_write(node):
            return self.argument(node.args[1])
        name = self.names.get(node, node.name)
        value = node.meta.get("val")
        if isinstance(name, list):
            return {"as_tensors": [{"name": n} for n in name]}
        if node.op == "get_attr" or isinstance(value, torch.Tensor):
            return {"as_tensor": {"name": name}}
        if type(value) in SYM_KINDS:
            return {f"as_sym_{SYM_KINDS[type(value)]}": {"as_name": name}}
        if value is None:
            return {"as_none": True}
        raise NoForm(f"an argument of {type(value).__name__}")

    def argument(self, value, type_text=""):
        if isinstance(value, Node):
            inner = get_attr(self.module, value.target) if value.op == "get_attr" else None
            return self.subgraph(value.target, inner) if isinstance(inner, GraphModule) else self.reference(value)
        if isinstance(value, (list, tuple)):
            return self.list_argument(value, type_text)
        if value is None:
            return {"as_none": True}
        if type(value) in (bool, int, float):
            return {f"as_{type(value).__name__}": number(value)}
        if isinstance(value, str):
            return {"as_string": value}
        if isinstance(value, complex):
            return {"as_complex": {"real": number(value.real), "imag": number(value.imag)}}
        if isinstance(value, torch.dtype):
            if value not in SCALAR_TYPES:
                raise NoForm(f"elements of {value}")
            return {"as_scalar_type": SCALAR_TYPES[value]}
        if isinstance(value, torch.device):
            return {"as_device": {"type": value.type, "index": value.index}}
        if isinstance(value, torch.memory_format):
            return {"as_memory_format": MEMORY_FORMATS[value]}
        if value is torch.strided:
            return {"as_layout": 7}
        raise NoForm(f"an argument of {type(value).__name__}")

    def list_argument(self, values, type_text):
        if not values:
            kind = "tensors" if "Tensor" in type_text else "floats" if "float" in type_text else "bools" if "bool" in type_text else "ints"
            return {f"as_{kind}": []}
        items = [self.argument(v) for v in values]
        kinds = {next(iter(i)) for i in items}
        if "as_tensor" in kinds:
            if kinds == {"as_tensor"} and "Tensor?" not in type_text and "Optional" not in type_text:
                return {"as_tensors": [i["as_tensor"] for i in items]}
            return {"as_optional_tensors": items}
        for kind in ("int", "float", "bool"):
            if kinds == {f"as_{kind}"}:
                return {f"as_{kind}s": [i[f"as_{kind}"] for i in items]}
        if kinds <= {"as_int", "as_sym_int"}:
            return {"as_sym_ints": [i.get("as_sym_int", i) for i in items]}
        if kinds <= {"as_int", "as_float"}:
            return {"as_floats": [number(float(v)) for v in values]}
        if kinds == {"as_string"}:
            return {"as_strings": list(values)}
        raise NoForm(f"a list of {sorted(kinds)}")

    def subgraph(self, name, module):
        inner = Writer(module, self.symbols, self.texts)
        graph, results = inner.write(), results_of(module)
        if inner.constants:
            raise NoForm(f"constants in the inner graph {name}")
        graph["outputs"] = [inner.argument(r) for r in results]
        return {"as_graph": {"name": name, "graph": graph}}

    # Nodes.
    def inputs(self, target, args, kwargs):
        if isinstance(target, torch._ops.OpOverload):
            schema = target._schema.arguments
            made = [(a.name, v, POSITIONAL, str(a.type)) for a, v in zip(schema, args)]
            types = {a.name: str(a.type) for a in schema}
            made += [(name, v, KEYWORD, types[name]) for name, v in kwargs.items()]
        else:
            letters = "ab" if not isinstance(target, torch._ops.HigherOrderOperator) else ""
            made = [(letters[i] if i < len(letters) else "", v, POSITIONAL, "") for i, v in enumerate(args)]
            made += [(name, v, KEYWORD, "") for name, v in kwargs.items()]
        return [{"name": name, "arg": self.argument(v, text), "kind": kind} for name, v, kind, text in made]

    def call(self, node):
        target, args, kwargs = node.target, node.args, node.kwargs
        if target in SYNONYMS:
            target, args, kwargs = SYNONYMS[target](node)
        is_hop = isinstance(target, torch._ops.HigherOrderOperator)
        if isinstance(target, torch._ops.OpOverload):
            text, returns = f"torch.ops.{target}", target._schema.returns
            is_list = len(returns) == 1 and str(returns[0].type).startswith("List")
        elif is_hop:
            text, is_list = f"torch.ops.higher_order.{target.name()}", False
        else:
            text, is_list = f"{target.__module__}.{target.__name__}", False
        return {"target": text, "inputs": self.inputs(target, args, kwargs), "outputs": self.outputs(node, is_list), "name": node.name,
                "metadata": origin(node), "is_hop_single_tensor_return": isinstance(node.meta.get("val"), torch.Tensor) if is_hop else None}

    def write(self, kept=None):
        """The graph without its outputs. `kept`: the placeholders that become inputs; all of them where it is None."""
        inputs, nodes = [], []
        for node in self.graph.nodes:
            try:
                if node.op == "placeholder" and (kept is None or node in kept):
                    inputs.append(self.define(node.name, node.meta["val"]))
                elif node.op == "call_function" and node.target is not getitem and not is_write(node):
                    nodes.append(self.call(node))
            except NoForm as e:
                raise NoForm(f"{node.format_node()}: {e}" if not str(e).startswith("%") else str(e)) from None
        return {"inputs": inputs, "nodes": nodes, **self.values, "custom_obj_values": {}, "is_single_tensor_return": False}


def get_attr(module, target):
    for part in target.split("."):
        module = getattr(module, part)
    return module


def results_of(module):
    """What the graph returns: nodes and constants."""
    made = next(n for n in reversed(module.graph.nodes) if n.op == "output").args[0]
    return list(made) if isinstance(made, (list, tuple)) else [made]


def is_write(node):
    """A write to an input that AOTAutograd left in the graph, behind all else."""
    return node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder"


def ranges_of(symbols):
    made = {}
    for s, env in symbols.items():
        r = env.var_to_range.get(s)
        if r is None or r.is_float:
            continue
        bound = [int(b) if b.is_Integer and abs(int(b)) < 2**62 else None for b in (r.lower, r.upper)]
        made[str(s)] = {"min_val": bound[0], "max_val": bound[1]}
    return made


def to_json(module: GraphModule, results, parameters):
    """The text for `module`, and its constants by name. `results`: the nodes that are outputs; `parameters`: placeholders that are weights.
    Placeholders that nobody reads are left out, but for numbers, which sizes may need. Gives the placeholders that are inputs, too; None
    is NO_NUMBERS, which tells that results are torch's where no other input does. Throws NoForm."""
    writer = Writer(module)
    kept = {n for n in module.graph.nodes if n.op == "placeholder" and (n.users or not isinstance(n.meta.get("val"), torch.Tensor)) or n in results}
    graph = writer.write(kept)
    order = [n for n in module.graph.nodes if n in kept and n.op == "placeholder"]
    specs = [{"parameter": {"arg": {"name": n.name}, "parameter_name": n.name}} if n in parameters else {"user_input": {"arg": value}}
             for n, value in zip(order, graph["inputs"])]
    writes = [n for n in module.graph.nodes if is_write(n)]
    graph["outputs"] = [writer.argument(n.args[1]) for n in writes] + [writer.argument(n) for n in results]
    outputs = [{"user_input_mutation": {"arg": o["as_tensor"], "user_input_name": n.args[0].name}} for n, o in zip(writes, graph["outputs"])]
    outputs += [{"user_output": {"arg": o}} for o in graph["outputs"][len(writes):]]
    for name, t in writer.constants.items():
        graph["inputs"].append(writer.tensor(name, t))
        specs.append({"tensor_constant": {"arg": {"name": name}, "tensor_constant_name": name}})
    if not any("user_input" in s and "as_tensor" in s["user_input"]["arg"] for s in specs):
        graph["inputs"].append(writer.tensor("tenon_kind", NO_NUMBERS))
        specs.append({"user_input": {"arg": graph["inputs"][-1]}})
        order.append(None)
    program = {"graph_module": {"graph": graph, "signature": {"input_specs": specs, "output_specs": outputs}, "module_call_graph": []},
               "opset_version": {"aten": 10}, "range_constraints": ranges_of(writer.symbols), "schema_version": {"major": 8, "minor": 20},
               "torch_version": torch.__version__}
    return json.dumps(program), writer.constants, order


def input_spec(spec, argument):
    kind = spec.kind.name
    if kind == "PARAMETER":
        return {"parameter": {"arg": {"name": spec.arg.name}, "parameter_name": spec.target}}
    if kind == "BUFFER":
        return {"buffer": {"arg": {"name": spec.arg.name}, "buffer_name": spec.target, "persistent": spec.persistent}}
    if kind == "CONSTANT_TENSOR":
        return {"tensor_constant": {"arg": {"name": spec.arg.name}, "tensor_constant_name": spec.target}}
    if kind == "USER_INPUT":
        return {"user_input": {"arg": argument}}
    raise NoForm(f"an input of the kind {kind}")


OUTPUT_KINDS = {"BUFFER_MUTATION": ("buffer_mutation", "buffer_name"), "PARAMETER_MUTATION": ("parameter_mutation", "parameter_name"),
                "USER_INPUT_MUTATION": ("user_input_mutation", "user_input_name")}


def output_spec(spec, argument):
    if spec.kind.name == "USER_OUTPUT":
        return {"user_output": {"arg": argument}}
    if spec.kind.name not in OUTPUT_KINDS:
        raise NoForm(f"an output of the kind {spec.kind.name}")
    kind, name = OUTPUT_KINDS[spec.kind.name]
    return {kind: {"arg": argument["as_tensor"], name: spec.target}}


def exported_json(exported):
    """The text of a torch.export.ExportedProgram, and the names of the weights and constants that it takes. Throws NoForm."""
    from torch.utils._pytree import treespec_dumps

    writer = Writer(exported.graph_module)
    graph, signature = writer.write(), exported.graph_signature
    placeholders = [n for n in exported.graph.nodes if n.op == "placeholder"]
    inputs, specs = [], []
    for node, spec in zip(placeholders, signature.input_specs):
        value = node.meta.get("val")
        inputs.append(writer.define(node.name, value) if isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat)) else writer.argument(value))
        specs.append(input_spec(spec, inputs[-1]) if spec.kind.name != "USER_INPUT" or isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat)) else
                     {"constant_input": {"name": node.name, "value": inputs[-1]}})
    graph["inputs"] = inputs
    graph["outputs"] = [writer.argument(r) for r in results_of(exported.graph_module)]
    call = exported.module_call_graph[0].signature
    convention = {"inputs": [], "outputs": [], "in_spec": treespec_dumps(call.in_spec), "out_spec": treespec_dumps(call.out_spec),
                  "forward_arg_names": call.forward_arg_names}
    module = {"graph": graph, "module_call_graph": [{"fqn": "", "signature": convention}],
              "signature": {"input_specs": specs, "output_specs": [output_spec(s, o) for s, o in zip(signature.output_specs, graph["outputs"])]}}
    program = {"graph_module": module, "opset_version": {"aten": 10}, "range_constraints": ranges_of(writer.symbols),
               "schema_version": {"major": 8, "minor": 20}, "torch_version": torch.__version__, "guards_code": list(exported._guards_code)}
    names = [s.target for s in signature.input_specs if s.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")]
    return json.dumps(program), names
