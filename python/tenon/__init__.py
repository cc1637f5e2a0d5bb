"""Runs programs that torch.export wrote as native code: ``tenon.load("model.pt2").compile()(x)``. Needs neither torch nor numpy."""
import io

from ._tenon import (ArgInfo, BadInput, BoundCall, Error, Executable, Internal, Program, Script, Tensor, ThreadPool, Unsupported, empty, is_supported, load_compiled,
                     load_op_library, register_class, register_op, thread_budget)

load = Program.load
load_graph = Program.load_graph
methods = Program.methods


def open(source, method=None, **options):
    """An Executable of a .pt2 (a path, or its bytes; `method` chooses one of several programs), or of what `Program.save_compiled` wrote,
    which is told by how the file begins. Options as those of `Program.compile`. Errors: BadInput, Unsupported."""
    if not isinstance(source, (bytes, bytearray)):
        with io.open(source, "rb") as file:
            is_compiled = file.read(5) == b"TENON"
        if is_compiled:
            return load_compiled(source, **options)
    return load(source, method).compile(**options)


def _reopen(source, method, options):  # what a pickled Executable is made of
    return open(source, method, **options)


def check(program, expected=None, args=None, kwargs=None, *, rtol=None, atol=None, **options):
    """Compares a compiled program with what it should give; see tenon._check.check."""
    from ._check import check
    return check(program, expected, args, kwargs, rtol=rtol, atol=atol, **options)


def from_torch(module, args, kwargs=None, **options):
    """A module of torch, exported and compiled; see tenon.torch.from_torch."""
    from .torch import from_torch
    return from_torch(module, args, kwargs, **options)


def script(function):
    """A Python function or module class as a program of TorchScript; see tenon._script.script."""
    from ._script import script
    return script(function)


def __getattr__(name):
    if name != "__version__":
        raise AttributeError(f"module 'tenon' has no attribute {name!r}")
    from importlib.metadata import version
    return version("tenon")


__all__ = ["ArgInfo", "BadInput", "BoundCall", "Error", "Executable", "Internal", "Program", "Script", "Tensor", "ThreadPool", "Unsupported", "check", "empty", "from_torch", "is_supported", "load",
           "load_compiled", "load_graph", "load_op_library", "methods", "open", "register_class", "register_op", "script", "thread_budget"]
