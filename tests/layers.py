#!/usr/bin/env python3
"""The shape of the source: which folder may include which, how long files and functions may be, who spells operators' names.

Lengths are a ratchet: tests/expected/long.txt lists what exceeds them today. A new entry fails, and so does one that is
no longer needed. So are the lines that spell an operator's name outside of the folders that define operators:
tests/expected/operator_names.txt has how many there are in a file. `layers.py --bless` rewrites the lists."""
import os, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIST = os.path.join(ROOT, "tests/expected/long.txt")
NAMES = os.path.join(ROOT, "tests/expected/operator_names.txt")
FILE_LINES, FUNCTION_LINES = 500, 60
DEFINE_OPERATORS = ("src/ops/", "src/builtins/", "src/prebuilt/")  # the last writes programs of them

# A folder sees what stands left of it; folders of one group see each other only where SIBLINGS says so.
ORDER = [["include"], ["base"], ["pages"], ["expr"], ["ir"], ["ops"], ["builtins"], ["interp"], ["fx"], ["load", "aten", "edge", "backend"], ["loops"], ["compile"], ["prebuilt"], ["artifact"], ["variants"], ["script"], ["autodiff"], ["executor"], ["api"], ["capi"], ["cli"]]
# Single headers to the right of a folder that it sees all the same, with the reason. src/README.md tells them too.
EXCEPTIONS = {
    ("ir", "runtime/library.h"): "a row names its library step by address",
    ("ir", "ops/names.h"): "the Builder and the verifier know some operators by id",
    ("ops", "runtime/library_steps.h"): "rows name their library steps",
    ("ops", "runtime/collective_steps.h"): "rows name their library steps",
    ("ops", "runtime/communicator.h"): "which reductions there are, and of what",
    ("interp", "runtime/collective_steps.h"): "which library steps communicate",
    ("interp", "runtime/collectives.h"): "it runs them",
    ("backend", "runtime/library_steps.h"): "which library steps are random",
    ("interp", "runtime/library_steps.h"): "which library steps are random",
    ("edge", "runtime/library_steps.h"): "which library steps are random",
    ("loops", "runtime/kernel_abi.h"): "the interpreter of kernels takes the arguments of generated code",
    ("runtime", "expr/eval.h"): "dispatch over dtypes, and the scalar conversions that kernels use too",
}
CODEGEN_SEES = {"include", "base", "expr", "loops", "codegen"}
CODEGEN_HEADERS = {"runtime/kernel_abi.h", "runtime/micro_kernels.h"}


def folder_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" else parts[0]


def target_folder(include):
    first = include.split("/")[0]
    return "include" if first == "tenon" else first


def allowed(folder, include):
    target = target_folder(include)
    if folder == target or (folder, include) in EXCEPTIONS:
        return True
    if folder == "codegen":
        return target in CODEGEN_SEES or include in CODEGEN_HEADERS
    if folder == "runtime":
        return target in ("include", "base")
    if folder == "capi":
        return target == "include"
    rank = {f: i for i, group in enumerate(ORDER) for f in group}
    if target in ("codegen", "runtime"):
        return folder in ("compile", "prebuilt", "artifact", "variants", "executor", "api")
    return rank[target] < rank[folder]


def check_includes(path, lines, problems, used):
    folder = folder_of(path)
    for number, line in enumerate(lines, 1):
        m = re.match(r'\s*#include "([^"]+)"', line)
        if not m or "/" not in m[1]:
            continue
        if not allowed(folder, m[1]):
            problems.append(f"{path}:{number}: {folder} may not include {m[1]}")
        elif (folder, m[1]) in EXCEPTIONS:
            used.add((folder, m[1]))


def long_functions(lines):
    """(name, lines) of function bodies: a line that ends in '{' outside any function, closed by its '}' at the same indent."""
    i = 0
    while i < len(lines):
        line = lines[i]
        head = re.match(r"^(\s*)\S.*\)\s*(const)?\s*(noexcept)?\s*(->[^{]*)?(: .*)?\{$", line)
        indent = len(line) - len(line.lstrip())
        if head and indent <= 2 and not re.match(r"\s*(if|for|while|switch|else|namespace)\b", line):
            end = i
            while end + 1 < len(lines) and not (lines[end].startswith(" " * indent + "}") and end > i):
                end += 1
            if end - i + 1 > FUNCTION_LINES:
                name = re.search(r"([\w:~]+|operator\S+)\s*\(", line)
                yield (name[1] if name else line.strip()), end - i + 1
            i = end + 1
        else:
            i += 1


def spelled_names(lines):
    """How many lines have a text that begins as an operator's name does: "aten::add". Comments may."""
    code = (re.match(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?!//).)*""", line)[0] for line in lines)
    return sum(1 for line in code if re.search(r'"(aten|edge|prim|tenon|higher_order|export)::\w', line))


def ratchet(path, found, bless, long, short):
    """The problems of a list of entries: `long` says of one that it is new, `short` that it is to go."""
    if bless:
        with open(path, "w") as f:
            f.writelines(entry + "\n" for entry in sorted(found))
    with open(path) as f:
        expected = set(f.read().split("\n")) - {""}
    return [long(e) for e in sorted(found - expected)] + [short(e) for e in sorted(expected - found)]


def main():
    files = subprocess.run(["git", "ls-files", "src", "codegen", "runtime", "include", "tests", "bench"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    problems, used, long, names = [], set(), {}, set()
    for path in files:
        if not path.endswith((".cpp", ".h")) or not os.path.exists(os.path.join(ROOT, path)):
            continue
        with open(os.path.join(ROOT, path)) as f:
            lines = f.read().split("\n")
        if not path.startswith(("tests/", "bench/")):
            check_includes(path, lines, problems, used)
            if not path.startswith(DEFINE_OPERATORS) and (n := spelled_names(lines)):
                names.add(f"{path} {n}")
        if len(lines) > FILE_LINES:
            long[path] = len(lines)
        for name, n in long_functions(lines):
            long[f"{path} {name}"] = n
    bless = "--bless" in sys.argv
    problems += ratchet(LIST, set(long), bless, lambda e: f"{e}: {long[e]} lines", lambda e: f"{e}: short enough now, remove it from {LIST}")
    problems += ratchet(NAMES, names, bless, lambda e: f"{e} lines spell operators' names: ops/names.h has ids for them",
                        lambda e: f"{e} lines spelled operators' names, there are others now: they may only become fewer in {NAMES}")
    problems += [f"exception {e} is no longer used" for e in set(EXCEPTIONS) - used]
    print("\n".join(problems + [f"{len(files)} files, {len(problems)} problems"]))
    return 1 if problems else 0


sys.exit(main())
