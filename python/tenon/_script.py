"""Functions and modules of Python as programs of TorchScript."""
import dis
import inspect
import textwrap
import types

from ._tenon import Script


def called_by(function, known):
    """Fills `known` with a function or class, and behind it with the functions that it calls by name."""
    if function in known:
        return
    known.append(function)
    for body in [function] if inspect.isfunction(function) else [v for v in vars(function).values() if inspect.isfunction(v)]:
        for name in [i.argval for i in dis.get_instructions(body) if i.opname == "LOAD_GLOBAL"]:
            called = body.__globals__.get(name)
            if isinstance(called, types.FunctionType) and called.__name__ == name:
                called_by(called, known)


def source_of(functions):
    """Their sources as one, each at its place where the file is that of the first, the others behind these."""
    file, lines, others = inspect.getsourcefile(functions[0]), [""], []
    for function in functions:
        found, start = inspect.getsourcelines(function)
        found = textwrap.dedent("".join(found)).splitlines()
        head = next(i for i, line in enumerate(found) if line.startswith(("def ", "class ")))
        found[:head] = [""] * head  # decorators
        if inspect.getsourcefile(function) != file:
            others += found
            continue
        lines += [""] * (start - 1 + len(found) - len(lines))
        lines[max(start, 1) - 1:max(start, 1) - 1 + len(found)] = found
    if lines[0]:
        lines.insert(0, "")
    lines[0] = "import torch"
    return "\n".join(lines + others) + "\n"


def script(function):
    """A Script of a Python function, or of a module class whose __init__ takes no arguments, with the functions that it calls by name; also
    as a decorator. It is read as source, not run: numbers and other globals that it uses must be arguments. Errors: BadInput in torch's
    words; OSError where there is no source, as in a shell."""
    functions = []
    called_by(function, functions)
    return Script.compile(source_of(functions), function.__name__, inspect.getsourcefile(function) or "script.py")
