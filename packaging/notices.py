#!/usr/bin/env python3
"""Writes NOTICES: the licences of what is linked into tenon, from the packages that it is built with.

notices.py [NANOBIND]: the folder of the Python package nanobind, for the Python extension; without it those parts stay as they are.
notices.py --check: fails where the licence of an installed package is not in NOTICES, or a library is linked that it does not name (--check BUILD)."""
import glob, os, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOTICES = os.path.join(ROOT, "NOTICES")
RULE = "=" * 100
# What is linked, the Debian packages whose licence it is under, how it is linked, and the libraries' names where they are shared.
LINKED = [
    ("LLVM", ["llvm-19-dev"], "linked statically into the library and the tool", []),
    ("Xbyak", ["libxbyak-dev"], "headers, in the library and the tool", []),
    ("LAPACK and BLAS, the reference implementations", ["liblapack-dev", "libblas-dev"], "linked statically into the library and the tool", []),
    ("CLI11", ["libcli11-dev"], "headers, in the tool", []),
    ("oneTBB", ["libtbb-dev"], "a shared library that is linked", ["libtbb"]),
    ("fmt", ["libfmt-dev"], "a shared library that is linked", ["libfmt"]),
    ("simdjson", ["libsimdjson-dev"], "a shared library that is linked, and headers", ["libsimdjson"]),
    ("Zstandard", ["libzstd-dev"], "a shared library that is linked", ["libzstd"]),
    ("zlib", ["zlib1g-dev"], "a shared library that is linked", ["libz"]),
]
# The runtime of the compiler and the system's own.
SYSTEM = {"libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64", "libpthread", "libdl", "librt"}
PYTHON = [("nanobind", "linked statically into the Python extension"), ("robin-map", "headers, in the Python extension")]


def copyright_of(package):
    with open(f"/usr/share/doc/{package}/copyright", encoding="utf-8") as f:
        return f.read().strip()


def section(name, how, text):
    return f"{RULE}\n{name} ({how})\n{RULE}\n\n{text}\n\n"


def from_packages():
    for name, packages, how, _ in LINKED:
        texts = dict.fromkeys(copyright_of(p) for p in packages)
        yield section(name, how, "\n\n".join(texts))


def from_nanobind(folder):
    licence = glob.glob(os.path.join(folder, "../nanobind-*.dist-info/licenses/LICENSE"))[0]
    with open(licence, encoding="utf-8") as f:
        yield section(*PYTHON[0], f.read().strip())
    with open(os.path.join(folder, "ext/robin_map/include/tsl/robin_map.h"), encoding="utf-8") as f:
        head = re.match(r"/\*\*(.*?)\*/", f.read(), re.S)[1]
    yield section(*PYTHON[1], re.sub(r"^ \* ?", "", head, flags=re.M).strip())


def kept():
    """The parts on Python as they stand."""
    with open(NOTICES, encoding="utf-8") as f:
        text = f.read()
    return [text[text.index(f"{RULE}\n{PYTHON[0][0]} ("):]]


HEAD = """Notices of tenon

tenon is under the Apache License 2.0 (LICENSE). It is linked with the following, whose licences and notices are given in full, as the packages of
Debian that it is built with have them. The text of the Apache License 2.0, where one of them refers to it, is that of LICENSE.

"""


def check(build):
    with open(NOTICES, encoding="utf-8") as f:
        text = f.read()
    problems = [f"NOTICES lacks {s.split(chr(10))[1]} as its package has it: run packaging/notices.py" for s in from_packages() if s not in text]
    problems += [f"NOTICES lacks {name}" for name, _ in PYTHON if f"\n{name} (" not in text]
    known = SYSTEM | {library for *_, libraries in LINKED for library in libraries}
    for path in [os.path.join(build, "libtenon.so"), os.path.join(build, "src/cli/tenon")] if build else []:
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout):
            if needed.split(".so")[0] not in known:
                problems.append(f"{path} is linked with {needed}, which NOTICES does not name")
    print("\n".join(problems + [f"notices: {len(problems)} problems"]))
    return 1 if problems else 0


def main(args):
    if args[:1] == ["--check"]:
        return check(args[1] if len(args) > 1 else "")
    parts = list(from_packages()) + (list(from_nanobind(args[0])) if args else kept())
    with open(NOTICES, "w", encoding="utf-8") as f:
        f.write(HEAD + "".join(parts).rstrip() + "\n")
    return 0


sys.exit(main(sys.argv[1:]))
