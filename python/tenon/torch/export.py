"""A module of torch as a program of tenon, without a file: torch.export, and its graph handed over."""
import torch

import tenon

from .decompose import decompositions
from .flex import expand_flex, has_flex
from .graph_json import exported_json


def from_torch(module, args, kwargs=None, *, dynamic_shapes=None, **options):
    """``tenon.torch.from_torch(model, (x,))``: exports the module and compiles it; weights are shared with torch, and must not change.
    `dynamic_shapes` is torch.export's; options are those of `tenon.Program.compile`. Gives a tenon.Executable. Errors: those of torch.export and of
    compile."""
    with torch.no_grad():
        program = torch.export.export(module, tuple(args), kwargs, dynamic_shapes=dynamic_shapes)
    return to_program(program).compile(**options)


def to_program(exported):
    """A tenon.Program of a torch.export.ExportedProgram, which shares its weights."""
    if has_flex(exported.graph_module):
        exported = exported.run_decompositions({})  # a copy
        expand_flex(exported.graph_module, decompositions())
    text, names = exported_json(exported)
    tensors = {}
    for name in names:
        value = exported.state_dict[name] if name in exported.state_dict else exported.constants[name]
        tensors[name] = value.detach()
    return tenon.load_graph(text, tensors)
