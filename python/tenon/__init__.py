"""Runs programs that torch.export wrote as native code: ``tenon.load("model.pt2").compile()(x)``. Needs neither torch nor numpy."""
from ._tenon import (ArgInfo, BadInput, BoundCall, Error, Executable, Internal, Program, Tensor, ThreadPool, Unsupported, empty, is_supported, load_compiled,
                     load_op_library, register_class, register_op, thread_budget)

load = Program.load
load_graph = Program.load_graph
methods = Program.methods


def check(program, expected=None, args=None, kwargs=None, *, rtol=None, atol=None, **options):
    """Compares a compiled program with what it should give; see tenon._check.check."""
    from ._check import check
    return check(program, expected, args, kwargs, rtol=rtol, atol=atol, **options)


def from_torch(module, args, kwargs=None, **options):
    """A module of torch, exported and compiled; see tenon.torch.from_torch."""
    from .torch import from_torch
    return from_torch(module, args, kwargs, **options)


__all__ = ["ArgInfo", "BadInput", "BoundCall", "Error", "Executable", "Internal", "Program", "Tensor", "ThreadPool", "Unsupported", "check", "empty", "from_torch", "is_supported", "load",
           "load_compiled", "load_graph", "load_op_library", "methods", "register_class", "register_op", "thread_budget"]
