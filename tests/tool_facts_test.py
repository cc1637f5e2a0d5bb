#!/usr/bin/env python3
"""What the tool tells of itself: JSON of every command, versions, the machine, completions, the manual page, progress. tool_facts_test.py TENON"""
import json, os, pty, re, select, shutil, subprocess, sys, tempfile, time

TENON = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = os.path.join(ROOT, "tests/fixtures/programs")
MODEL = os.path.join(PROGRAMS, "mlp.pt2")
WORK = tempfile.mkdtemp()
problems = []


def expect(holds, what):
    if not holds:
        problems.append(what)


def tenon(*args, **kwargs):
    return subprocess.run([TENON, *args], capture_output=True, text=True, timeout=300, cwd=WORK, **kwargs)


def facts(*args, code=0):
    """The JSON object that a command prints."""
    run = tenon(*args, "--json")
    expect(run.returncode == code and run.stderr == "" and run.stdout.count("\n") == 1, f"{args}: exit code {run.returncode}: {run.stderr}{run.stdout[:200]}")
    try:
        return json.loads(run.stdout)
    except json.JSONDecodeError as e:
        problems.append(f"{args}: {e}: {run.stdout[:200]}")
        return {}


def documented():
    """Fields that docs/tool.md lists for each command: {"run": {"outputs", ...}}."""
    with open(os.path.join(ROOT, "docs/tool.md"), encoding="utf-8") as f:
        text = f.read()
    rows = re.findall(r"^\| `(\w+) --json` \| (.*) \|$", text, re.M)
    return {command: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", fields))) for command, fields in rows}


def check_json():
    fields = documented()
    script = os.path.join(WORK, "f.py")
    with open(script, "w") as f:
        f.write("import torch\ndef f(n: int, m: float):\n    return [n, n + 1], m * 0.5\n")
    with open(os.path.join(WORK, "f.json"), "w") as f:
        json.dump({"args": [{"t": "int", "v": 2}, {"t": "float", "v": 3.0}]}, f)
    run = facts("run", MODEL)
    expect([o["name"] for o in run["outputs"]] == ["out0", "out1"] and run["outputs"][0]["dtype"] == "f32" and run["outputs"][0]["sizes"] == [4, 10]
           and len(run["outputs"][0]["values"]) == 6 and abs(run["outputs"][0]["values"][0] - 0.26) < 0.01 and run["load_ms"] > 0, f"run: {run}")
    values = facts("run", script + ":f", "--args", "f.json")
    expect([o.get("value") for o in values["outputs"]] == ["([2, 3], 1.5)"] or [o.get("value") for o in values["outputs"]] == ["[2, 3]", "1.5"], f"run of a script: {values}")
    for name in ("mlp.pt2", "mlp.inputs.npz", "mlp.expected.npz"):
        shutil.copy(os.path.join(PROGRAMS, name), WORK)
    check = facts("check", "mlp.pt2")
    expect(check["passed"] == 1 and check["failed"] == 0 and check["unsupported"] == 0 and check["programs"][0]["verdict"] == "PASS" and check["programs"][0]["name"] == "mlp", f"check: {check}")
    os.remove(os.path.join(WORK, "mlp.inputs.npz"))
    check = facts("check", "mlp.pt2", code=1)
    expect(check["failed"] == 1 and "inputs.npz" in check["programs"][0]["why"], f"check that fails: {check}")
    made = facts("compile", MODEL, "-o", "mlp.tenon")
    expect(made["file"] == "mlp.tenon" and made["bytes"] == os.path.getsize(os.path.join(WORK, "mlp.tenon")) and made["ms"] > 0, f"compile: {made}")
    opt = facts("opt", MODEL, "--passes", "to_edge,cse")
    expect([p["pass"] for p in opt["passes"]] == ["to_edge", "cse"] and opt["passes"][0]["changed"] and "edge::" in opt["graph"] and opt["output"] is None, "opt")
    expect(facts("opt", MODEL, "-o", "again.pt2")["output"] == "again.pt2" and os.path.exists(os.path.join(WORK, "again.pt2")), "opt -o")
    ops = facts("ops")
    expect(len(ops["operators"]) > 500 and {"name", "schema", "dialect", "how", "dtypes"} == set(ops["operators"][0]), "ops")
    expect(facts("ops", "--allowed", "edge::sigmoid", "self")["dtypes"] == ["Long"] or facts("ops", "--allowed", "edge::sigmoid", "self")["dtypes"], "ops --allowed")
    with open(os.path.join(WORK, "g.py"), "w") as f:
        f.write("import torch\ndef g(x: float):\n    return torch.tensor(x) * 3\n")
    show_script = facts("show", script + ":f")
    expect(show_script["params"] == ["n", "m"] and "graph(" in show_script["graph"], f"show of a script: {show_script}")
    given = {"run": run, "check": check, "compile": made, "opt": opt, "ops": ops, "show": facts("show", MODEL), "version": facts("version"), "doctor": facts("doctor")}
    for command, found in given.items():
        expect(set(found) == fields.get(command, set()), f"docs/tool.md: {command} --json has {sorted(found)}, the page says {sorted(fields.get(command, []))}")
    expect("grad" in fields and "bench" in fields, "docs/tool.md says nothing of grad or bench")


def check_facts():
    version = facts("version")
    expect(re.fullmatch(r"\d+\.\d+\.\d+", version["version"]) and version["llvm"].startswith("19.") and version["isa"] in ("avx2", "avx512") and version["kernels"], f"version: {version}")
    expect(facts("--version") == version and facts("-V") == version, "--version is not version")
    text = tenon("--version").stdout
    expect(text.startswith(f"tenon {version['version']}\nLLVM 19.") and "\nbuild: " in text, f"--version: {text}")
    doctor = facts("doctor", "--no-measure")
    expect(doctor["measured"] == [] and doctor["cpu"]["allowed"] >= 1, f"doctor: {doctor}")
    expect(all(set(a) == {"what", "why", "how"} for a in doctor["advice"]), "doctor's advice")
    measured = facts("doctor")["measured"]
    expect(measured and measured[0]["threads"] == 1 and measured[0]["peaks"][0]["type"] == "f32" and measured[0]["peaks"][0]["gflops"] > 1 and measured[0]["copy_gb_per_s"] > 0.1, f"doctor: {measured}")
    expect(all((m["handover_ns"] is None) if m["threads"] == 1 else m["handover_ns"] is None or 1 < m["handover_ns"] < 1e6 for m in measured), f"doctor: {measured}")
    run = tenon("doctor", "--no-measure", env={**os.environ, "TENON_VERIFY": "1"})
    expect("TENON_VERIFY is set" in run.stdout and "unset TENON_VERIFY" in run.stdout, f"doctor: {run.stdout}")


def bash_completes(line):
    script = ('source /dev/stdin; COMP_LINE=$1; read -ra COMP_WORDS <<<"${1//=/ = }"; [[ $1 == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
              'compopt() { :; }; _tenon; printf "%s\\n" "${COMPREPLY[@]}"')
    run = subprocess.run(["bash", "-c", script, "bash", line], input=tenon("completion", "bash").stdout, capture_output=True, text=True, cwd=WORK)
    expect(run.returncode == 0 and run.stderr == "", f"completion of '{line}': {run.stderr}")
    return set(run.stdout.split("\n")) - {""}


def check_completion():
    expect(bash_completes("tenon r") == {"run"}, f"tenon r: {bash_completes('tenon r')}")
    expect({"run", "check", "doctor", "completion"} <= bash_completes("tenon "), "tenon")
    expect(bash_completes("tenon run --thr") == {"--threads"}, "tenon run --thr")
    expect(bash_completes("tenon run --isa ") == {"auto", "avx2", "avx512"}, "tenon run --isa")
    expect(bash_completes("tenon run --isa=avx5") == {"avx512"}, f"tenon run --isa=avx5: {bash_completes('tenon run --isa=avx5')}")
    expect("llvm" in bash_completes("tenon dump mlp.pt2 --stage "), "tenon dump --stage")
    expect(bash_completes("tenon completion f") == {"fish"}, "tenon completion f")
    os.makedirs(os.path.join(WORK, "a folder"), exist_ok=True)
    expect("mlp.pt2" in bash_completes("tenon run ml") and bash_completes("tenon run --cache a") == {"a folder"}, f"files: {bash_completes('tenon run --cache a')}")
    expect(bash_completes("tenon run --threads ") == set(), "tenon run --threads")
    for shell, flag in (("zsh", "-n"), ("fish", "--no-execute")):
        if shutil.which(shell):
            path = os.path.join(WORK, f"completion.{shell}")
            with open(path, "w") as f:
                f.write(tenon("completion", shell).stdout)
            run = subprocess.run([shell, flag, path], capture_output=True, text=True)
            expect(run.returncode == 0 and run.stderr == "", f"{shell}: {run.stderr}")
    if shutil.which("fish"):
        run = subprocess.run(["fish", "--no-config", "-c", f"source {WORK}/completion.fish; complete -C 'tenon run --isa '; complete -C 'tenon do'"], capture_output=True, text=True)
        expect("avx512" in run.stdout and run.stdout.split("\n")[-2].startswith("doctor"), f"fish: {run.stdout}{run.stderr}")


def check_manual():
    page = tenon("man").stdout
    for command in re.findall(r"^  ([a-z]+) +\S", tenon("--help").stdout.split("Subcommands:")[1], re.M):
        expect(f".SS {command}\n" in page, f"the manual page lacks {command}")
    expect("TENON_TIMING" in page and "\\-\\-compile\\-budget" in page and ".SH EXIT STATUS" in page, "the manual page lacks variables, options or exit codes")
    if shutil.which("mandoc"):
        run = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=page, capture_output=True, text=True)
        expect(not re.search("ERROR|WARNING: (?!cannot parse date|missing date)", run.stdout), f"mandoc: {run.stdout[:500]}")


def on_a_terminal(*args):
    """(what went to stderr where it is a terminal, stdout)"""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([TENON, *args], stdout=subprocess.PIPE, stderr=theirs, cwd=WORK)
    os.close(theirs)
    said = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 120)
        try:
            part = os.read(ours, 4096) if ready else b""
        except OSError: # the other end is closed
            part = b""
        if not part:
            break
        said += part
    out = process.stdout.read()
    process.wait()
    os.close(ours)
    return said.decode(), out.decode()


def slow_program():
    """Python code of a graph with many kernels that differ, so that compiling takes a while."""
    code, value = [], "x"
    for i in range(260):
        function = ["sin", "exp", "tanh", "sigmoid", "erf", "log1p"][i % 6]
        code += [f"a{i} = torch.ops.aten.{function}.default({value})", f"b{i} = torch.ops.aten.mul.Tensor(a{i}, {i + 0.5})",
                 f"c{i} = torch.ops.aten.sum.dim_IntList(b{i}, [{i % 2}], True)", f"d{i} = torch.ops.aten.add.Tensor(c{i}, x)"]
        value = f"d{i}"
    body = "".join(f"        {line}\n" for line in code)
    return f"class GraphModule(torch.nn.Module):\n    def forward(self, x: \"f32[37, 41]\"):\n{body}        return ({value},)\n"


def check_progress():
    with open(os.path.join(WORK, "slow.py"), "w") as f:
        f.write(slow_program())
    said, out = on_a_terminal("compile", MODEL, "-o", "quick.tenon")
    expect(said == "" or "tenon: " in said, f"progress of what takes no time: {said!r}")
    command = ["run", "slow.py", "--threads", "1"]
    start = time.monotonic()
    inputs = npz_of_zeros()
    said, out = on_a_terminal(*command, "--inputs", inputs)
    seconds = time.monotonic() - start
    if seconds < 1.5: # this machine is too quick to wait for
        print(f"progress of compiling: passed over, it took {seconds:.2f} s")
    else:
        expect(re.search(r"\r\x1b\[Ktenon: compiling[a-z_:, ]*(kernels \d+ of \d+)?[a-z_, ]*, \d+\.\d s", said) and said.endswith("\r\x1b[K"), f"progress on a terminal: {said[-300:]!r} {out[:200]}")
    expect(on_a_terminal(*command, "--inputs", inputs, "--quiet")[0] == "", "--quiet on a terminal")
    run = tenon(*command, "--inputs", inputs)
    expect(run.stderr == "" and run.returncode == 0, f"progress where there is no terminal: {run.stderr[:300]}")
    start = time.monotonic()
    said, out = on_a_terminal("check", PROGRAMS, "--jobs", "1")
    seconds = time.monotonic() - start
    expect(seconds < 1 or re.search(r"tenon: checking: \d+ of \d+, \d+\.\d s", said) and said.endswith("\r\x1b[K"), f"progress of check: {said[-200:]!r}")
    expect(tenon("check", MODEL, "--quiet").stderr == "", "check --quiet")


def npz_of_zeros():
    import struct, zipfile
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (37, 41), }"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path = os.path.join(WORK, "zeros.npz")
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + bytes(37 * 41 * 4))
    return path


for part in (check_json, check_facts, check_completion, check_manual, check_progress):
    try:
        part()
    except Exception as e:  # a command that printed something else
        problems.append(f"{part.__name__}: {type(e).__name__}: {e}")
shutil.rmtree(WORK)
print("\n".join(problems + [f"{len(problems)} problems"]))
sys.exit(1 if problems else 0)
