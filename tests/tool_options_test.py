#!/usr/bin/env python3
"""Bad options of every command of the tool: one line on stderr in plain words, exit code 1. tool_options_test.py TENON

First a table of mistakes with what must be said of each; then, for every option that a command's help lists, values that do not fit, none, too
many, and a misspelt name."""
import os, re, subprocess, sys, tempfile

TENON = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "tests/fixtures/programs/mlp.pt2")
problems = []

# Arguments and what the error says.
MISTAKES = [
    ("", "no command is given; there are run, check"),
    ("rnu M", "there is no command rnu; did you mean run?"),
    ("comple M", "there is no command comple; did you mean compile?"),
    ("elephant M", "there is no command elephant; there are run, check"),
    ("--verison", "tenon has no option --verison; did you mean --version?"),
    ("--verbose run M", "tenon has no option --verbose"),
    ("run", "tenon run needs MODEL"),
    ("run M x", "'x' is an argument too many"),
    ("run M --thraeds 3", "tenon run has no option --thraeds; did you mean --threads?"),
    ("run M --thraeds=3", "tenon run has no option --thraeds; did you mean --threads?"),
    ("run M -q", "tenon run has no option -q"),
    ("run M --threads -3", "option threads cannot be '-3': it is a whole number that is not negative"),
    ("run M --threads=-3", "option threads cannot be '-3': it is a whole number that is not negative"),
    ("run M --threads many", "option threads cannot be 'many': it is a whole number"),
    ("run M --threads 1.5", "option threads cannot be '1.5': it is a whole number"),
    ("run M --threads 99999999999", "it is a whole number that is not larger than 2147483647"),
    ("run M --threads 1 --threads 2", "option --threads is given more than once"),
    ("run M --threads", "option --threads needs a value: COUNT"),
    ("run M --isa sse", "option isa cannot be 'sse': it is one of auto, avx2, avx512"),
    ("run M --isa avx-512", "it is one of auto, avx2, avx512; did you mean avx512?"),
    ("run M --precision fp8", "option precision cannot be 'fp8': it is one of strict, bf16, int8-weights"),
    ("run M --seed -1", "option seed cannot be '-1': it is a whole number that is not negative"),
    ("run M --compile-budget nan", "option compile-budget cannot be 'nan': it is a number that is not negative"),
    ("run M --specialize perhaps", "option specialize cannot be 'perhaps': it is true or false"),
    ("run M --profile=3", "option --profile takes no value"),
    ("run M --kernel no::such", "no::such"),
    ("run M --backend none", "there is no backend none"),
    ("run M --ops none.so", "none.so: cannot open"),
    ("run M --method other", "the archive has no model other; there are model"),
    ("run M --inputs none.npz", "cannot open 'none.npz': No such file or directory"),
    ("run M --weights none.npz", "has its own"),
    ("run M -o /none/x.npz", "cannot write '/none/x.npz': No such file or directory"),
    ("run none.pt2", "cannot open 'none.pt2': No such file or directory"),
    ("run none.fx", "cannot open 'none.fx': No such file or directory"),
    ("run none.py:f", "cannot open 'none.py': No such file or directory"),
    ("run none.ir", "cannot open 'none.ir': No such file or directory"),
    ("run .", "is not a regular file"),
    ("bench M --seconds -1", "option seconds cannot be '-1': it is a number from 0 to 3600"),
    ("bench M --seconds long", "option seconds cannot be 'long': it is a number from 0 to 3600"),
    ("explain M --seconds 1e9", "option seconds cannot be '1e9': it is a number from 0 to 3600"),
    ("check", "tenon check needs PATHS"),
    ("check none", "cannot open 'none': No such file or directory"),
    ("check M --jobs -3", "option jobs cannot be '-3'"),
    ("check M --rtol x", "option rtol cannot be 'x': it is a number that is not negative"),
    ("check R", "is neither a folder nor a .pt2"),
    ("dump M", "tenon dump needs --stage"),
    ("dump M --stage none", "option stage cannot be 'none': it is one of aten, core, edge"),
    ("dump M --stage kernel", "did you mean kernels?"),
    ("dump M --stage edge --edge-types none.yaml", "cannot open 'none.yaml': No such file or directory"),
    ("show M --stage llvm", "option stage cannot be 'llvm': it is one of aten, edge, backend"),
    ("show none.pt2", "cannot open 'none.pt2': No such file or directory"),
    ("compile M", "tenon compile needs --output"),
    ("compile M --ouptut x", "tenon compile has no option --ouptut; did you mean --output?"),
    ("compile M -o", "option --output needs a value: FILE"),
    ("compile M -o /none/x.tenon", "/none/x.tenon"),
    ("opt M --passes=canonicalise", "no pass is called canonicalise; did you mean canonicalize?"),
    ("opt none.txt", "cannot open 'none.txt': No such file or directory"),
    ("ops --allowed edge::sigmoid", "option --allowed needs 2 values"),
    ("grad f.py:f --wrt=a", "option wrt cannot be 'a': it is a whole number that is not negative"),
    ("grad f.py:f --wrt=-1", "option wrt cannot be '-1': it is a whole number that is not negative"),
    ("grad M --wrt 0", "is no script"),
    ("completion", "tenon completion needs SHELL"),
    ("completion ksh", "option shell cannot be 'ksh': it is one of bash, zsh, fish"),
    ("doctor now", "'now' is an argument too many"),
    ("version --jsno", "did you mean --json?"),
]
# Words of parsers and of C++ that say nothing to a user.
JARGON = r"TEXT|UINT|\bINT\b|FLOAT|ENUM|std::|basic_string|not in range|convert|\d\.\d{6}|[Ss]ubcommand|were not expected|required but received|flag override"


def fails(args, pattern):
    run = subprocess.run([TENON, *args], capture_output=True, text=True, timeout=120, cwd=WORK, stdin=subprocess.DEVNULL)
    said = run.stderr
    what = " ".join(args)
    if run.returncode != 1:
        problems.append(f"exit code {run.returncode} instead of 1: {what}: {said}")
    if said.count("\n") != 1 or not said.startswith("tenon: error: "):
        problems.append(f"not one line of an error: {what}: {said}")
    elif not re.search(pattern, said):
        problems.append(f"no '{pattern}' in the error of: {what}: {said}")
    elif re.search(JARGON, said):
        problems.append(f"words of a parser: {what}: {said}")
    if run.stdout:
        problems.append(f"something is printed by: {what}: {run.stdout[:100]}")


def commands():
    text = subprocess.run([TENON, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z]+) +\S", text[text.index("Subcommands:"):], re.M)


def options(command):
    """(name, what its value looks like: "" of a flag), and the positional arguments' names."""
    text = subprocess.run([TENON, command, "--help"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^  (?:-\w,)?(--[a-z0-9-]+)(?: ([A-Za-z0-9|-]+(?: ARGUMENT)?))?(?: (?:x \d|\.\.\.))?(?: REQUIRED)?(?:  .*)?$", text, re.M)
    return [(name, value) for name, value in found if name != "--help"], "Positionals:" in text


def swapped(name):
    return name[:3] + name[4] + name[3] + name[5:] if len(name) > 4 and name[3] != name[4] else name + "x"


WORK = tempfile.mkdtemp()
for line, pattern in MISTAKES:
    fails([{"M": MODEL, "R": os.path.join(ROOT, "README.md")}.get(a, a) for a in line.split()], re.escape(pattern) if "|" not in pattern else pattern)
tried, seen = 0, set()
for command in commands():
    listed, takes_arguments = options(command)
    known = {name for name, _ in listed}
    arguments = (["bash"] if command == "completion" else [MODEL]) if takes_arguments else []
    for name, value in listed:
        if (name, value) in seen: # the same in several commands
            continue
        seen.add((name, value))
        tried += 1
        if not value:
            fails([command, *arguments, name + "=3"], f"option {name} takes no value")
        else:
            fails([command, *arguments, name], f"option {name} needs ")
        if value in ("COUNT", "NUMBER", "SECONDS", "BYTES", "MS", "SHARE") or "|" in value:
            fails([command, *arguments, name, "?!"], rf"option {name[2:]} cannot be '\?!': it is ")
            fails([command, *arguments, name + "="], f"option {name}|option {name[2:]} cannot be ''")
        if (wrong := swapped(name)) not in known:
            fails([command, *arguments, wrong], f"tenon {command} has no option {wrong}; did you mean --")
if tried < 40:
    problems.append(f"only {tried} options were found in the help texts")
os.rmdir(WORK) if not os.listdir(WORK) else problems.append(f"files were written by calls that failed: {os.listdir(WORK)}")
print("\n".join(problems + [f"{len(MISTAKES)} mistakes, {tried} options, {len(problems)} problems"]))
sys.exit(1 if problems else 0)
