#!/usr/bin/env python3
"""clang_test.py BUILD: every file of the build passes clang 19 with all warnings as errors: those that `clang_build.sh` builds, 48 at a time, which the
suite `asan` runs, and the rest, tests and benchmarks, parsed; one by one where the last commits changed them, as each has to
include what it uses. Deprecations are left out: libstdc++ 12 itself uses what it deprecates in stable_sort."""
import concurrent.futures, json, os, re, shlex, subprocess, sys

build, root = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMITS = 20  # whose files are parsed


def output(*words, **how):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **how).stdout


targets = output(os.path.join(root, "tests", "clang_build.sh"), build).split()
folder = build + "-clang"  # configured only: how each file would be compiled
if not os.path.exists(os.path.join(folder, "build.ninja")):
    output("meson", "setup", folder, "-Dunity=off", "-Dfuzzers=true", cwd=root, env={**os.environ, "CXX": "clang++-19"})
output("ninja", "-C", folder, "build.ninja")  # files may have come or gone since
with open(os.path.join(folder, "compile_commands.json")) as f:
    # bench/*rivals.cpp and the example over oneDNN take the OpenMP of gcc.
    wanted = [e for e in json.load(f) if not re.search(r"(bench/\w*rivals|examples/onednn_backend)\.cpp$", e["file"])]
built = set(output("ninja", "-C", folder, "-t", "inputs", *targets).splitlines())  # objects too
since = subprocess.run(["git", "diff", "--name-only", f"HEAD~{COMMITS}"], cwd=root, capture_output=True, text=True)  # nothing where there is no history
changed = {os.path.join(root, name) for name in since.stdout.splitlines()}
rest = [e for e in wanted if e["output"] not in built]
entries = [e for e in wanted if e["output"] not in built or os.path.normpath(os.path.join(folder, e["file"])) in changed]


def arguments(entry):
    """Of the compiler, but for the file's."""
    words = shlex.split(entry["command"])
    while words and not words[0].startswith("-"):  # ccache, the compiler
        words.pop(0)
    args, skip = [], False
    for w in words:
        if skip or w in ("-c", "-MD", entry["file"]):
            skip = False
        elif w in ("-o", "-MF", "-MQ"):
            skip = True
        elif not re.match(r"-Wno-|-fno-semantic|-O", w):
            args.append(w)
    return args


def as_units(entries):
    """What is parsed, as names, folders and arguments: unit tests that nobody has changed eight at a time, as they are compiled."""
    units, tests = [], []
    for e in entries:
        path = os.path.normpath(os.path.join(folder, e["file"]))
        if e["output"].startswith("tests/unit_tests.p/") and path not in changed:
            tests.append((path, e))
        else:
            units.append((path, e["directory"], [*arguments(e), e["file"]]))
    for i in range(0, len(tests), 8):
        name = os.path.join(folder, f"unit_tests{i}.cpp")
        with open(name, "w") as f:
            f.writelines(f'#include "{path}"\n' for path, _ in tests[i : i + 8])
        units.append((name, tests[i][1]["directory"], [*arguments(tests[i][1]), name]))
    return units


def check(unit):
    name, directory, args = unit
    r = subprocess.run(["clang++-19", "-fsyntax-only", "-Wno-deprecated-declarations", *args], cwd=directory, capture_output=True, text=True)
    return name, r.returncode, r.stderr


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    bad = 0
    for file, code, text in pool.map(check, as_units(entries)):
        if code:
            bad += 1
            print(file, text, sep="\n")
print(f"{len(wanted)} files, of which {len(wanted) - len(rest)} are built; {len(entries)} parsed, {bad} with warnings")
sys.exit(1 if bad or not rest or len(rest) == len(wanted) else 0)
