"""reference.py STUB: the page docs/python-api.md, from the typed stubs of the extension (tenon/_tenon.pyi) and the package's modules."""
import ast, glob, os, re, sys

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tenon")
HEAD = """# Python API

Written by `python/reference.py` from the docstrings of the package, which `help(tenon)` shows too. How they go together: [tenon from Python](python.md).
"""
CLASSES = ["Program", "Executable", "BoundCall", "Tensor", "ArgInfo"]  # first, in this order


def parse(path):
    with open(path) as f:
        return ast.parse(f.read())


def definitions(tree):
    return {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}


def resolve(folder, module, name):
    """What a module of the package defines, or imports from another of them."""
    tree = parse(os.path.join(folder, module + ".py"))
    for n in tree.body:
        if isinstance(n, ast.ImportFrom) and n.level == 1 and n.module and name in [a.name for a in n.names]:
            return resolve(folder, n.module, name)
    return definitions(tree).get(name)


def signature(node):
    args = re.sub(r"^(self|cls)(, )?", "", ast.unparse(node.args))
    return f"({args})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def doc(node):
    return re.sub(r"\s*\n\s*", " ", ast.get_docstring(node) or "").strip()


def row(name, text):
    return f"- `{name}`" + (f": {text}" if text else "")


def members(node):
    for item in node.body:
        if not isinstance(item, ast.FunctionDef) or (item.name.startswith("_") and item.name not in ("__init__", "__call__")):
            continue
        if item.name == "__init__":
            yield row(f"{node.name}{signature(item).replace(' -> None', '')}", doc(item))
        elif item.name == "__call__":
            yield row(f"{'executable' if node.name == 'Executable' else 'bound' if node.name == 'BoundCall' else 'object'}{signature(item)}", doc(item))
        elif any(ast.unparse(d) == "property" for d in item.decorator_list):
            yield row(f".{item.name}" + (f" -> {ast.unparse(item.returns)}" if item.returns else ""), doc(item))
        else:
            yield row(f".{item.name}{signature(item)}", doc(item))


def section(module, nodes):
    """Functions first, then a section for each class."""
    functions = [(name, n) for name, n in nodes if isinstance(n, ast.FunctionDef)]
    out = [row(f"{module}.{name}{signature(n)}", doc(n)) for name, n in functions] + [""] * bool(functions)
    for name, n in nodes:
        if isinstance(n, ast.ClassDef):
            out += [f"### {module}.{name}", "", doc(n), "", *members(n), ""]
    return out


def main_module(stub):
    """What `import tenon` gives: of the extension, of its own, and static methods of Program as functions."""
    package, known = parse(os.path.join(PACKAGE, "__init__.py")), definitions(stub)
    imported = [a.name for n in package.body if isinstance(n, ast.ImportFrom) for a in n.names]
    nodes = [(name, known[name]) for name in imported if name in known]
    for n in package.body:
        if isinstance(n, ast.Assign) and ast.unparse(n.value).startswith("Program."):
            nodes.append((n.targets[0].id, definitions(known["Program"])[n.value.attr]))
    for name, n in definitions(package).items():
        if name in ("check", "script"):  # deferred to modules that are imported when they are called
            n = definitions(parse(os.path.join(PACKAGE, f"_{name}.py")))[name]
        if not name.startswith("_"):
            nodes.append((name, n))
    nodes.sort(key=lambda pair: (CLASSES.index(pair[0]) if pair[0] in CLASSES else len(CLASSES), pair[0]))
    return ["## tenon", ""] + section("tenon", nodes)


def submodules():
    """tenon/NAME.py and tenon/NAME/__init__.py: their public functions and classes."""
    for path in sorted(glob.glob(f"{PACKAGE}/[a-z]*.py") + glob.glob(f"{PACKAGE}/*/__init__.py")):
        tree, folder = parse(path), os.path.dirname(path)
        name = os.path.basename(folder) if path.endswith("__init__.py") else os.path.basename(path)[:-3]
        nodes = [(k, n) for k, n in definitions(tree).items() if not k.startswith("_")]
        for n in tree.body:
            if isinstance(n, ast.ImportFrom) and n.level == 1 and n.module and path.endswith("__init__.py"):
                nodes += [(a.name, found) for a in n.names if (found := resolve(folder, n.module, a.name))]
        if nodes:
            yield from [f"## tenon.{name}", "", doc(tree), ""] + section(f"tenon.{name}", nodes)


sys.stdout.write("\n".join([HEAD, *main_module(parse(sys.argv[1])), *submodules()]).rstrip() + "\n")
