#!/usr/bin/env python3
"""clang_test.py BUILD: every file of the build passes clang 19 with all warnings as errors: those that `clang_build.sh` builds, which the suite
`asan` runs, and the rest, tests and benchmarks, parsed. Deprecations are left out: libstdc++ 12 itself uses what it deprecates in stable_sort."""
import concurrent.futures, json, os, re, shlex, subprocess, sys

build = os.path.abspath(sys.argv[1])
targets = subprocess.run([os.path.join(os.path.dirname(__file__), "clang_build.sh"), build], check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def built(folder):  # what the targets are built from, objects too
    inputs = subprocess.run(["ninja", "-C", folder, "-t", "inputs", *targets], check=True, capture_output=True, text=True).stdout
    return set(inputs.splitlines())


folder = build + "-asan-quick"  # which compiles file by file
with open(os.path.join(folder, "compile_commands.json")) as f:
    # bench/*rivals.cpp and the example over oneDNN take the OpenMP of gcc.
    wanted = [e for e in json.load(f) if not re.search(r"(bench/\w*rivals|examples/onednn_backend)\.cpp$", e["file"])]
done = built(folder)
entries = [e for e in wanted if e["output"] not in done]


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
print(f"{len(wanted)} files, of which {len(wanted) - len(entries)} were built; {bad} of the others with warnings")
sys.exit(1 if bad or not entries or len(entries) == len(wanted) else 0)
