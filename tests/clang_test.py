#!/usr/bin/env python3
"""clang_test.py BUILD: every file of the build passes clang 19 with all warnings as errors: those that `clang_build.sh` builds, 48 at a time, which the
suite `asan` runs, and the rest, tests and benchmarks, parsed one by one; so are those of the former that the last commits changed, as each has to
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


def check(entry):
    words = shlex.split(entry["command"])
    while words and not words[0].startswith("-"):  # ccache, the compiler
        words.pop(0)
    args, skip = [], False
    for w in words:
        if skip or w in ("-c", "-MD"):
            skip = False
        elif w in ("-o", "-MF", "-MQ"):
            skip = True
        elif not re.match(r"-Wno-|-fno-semantic|-O", w):
            args.append(w)
    r = subprocess.run(["clang++-19", "-fsyntax-only", "-Wno-deprecated-declarations", *args], cwd=entry["directory"], capture_output=True, text=True)
    return entry["file"], r.returncode, r.stderr


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    bad = 0
    for file, code, text in pool.map(check, entries):
        if code:
            bad += 1
            print(file, text, sep="\n")
print(f"{len(wanted)} files, of which {len(wanted) - len(rest)} are built; {len(entries)} parsed, {bad} with warnings")
sys.exit(1 if bad or not rest or len(rest) == len(wanted) else 0)
