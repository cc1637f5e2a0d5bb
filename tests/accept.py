#!/usr/bin/env python3
"""accept.py NAME TOOL COMMAND...: runs an acceptance set and compares what does not pass with tests/expected/NAME.txt.

The list may only shrink: a program that does not pass and is not listed fails the suite, and so does a listed one that
passes. `--bless` rewrites the list."""
import os, re, subprocess, sys

name, tool, *command = [a for a in sys.argv[1:] if a != "--bless"]
listed_path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected", name + ".txt")
out = subprocess.run(command, env=dict(os.environ, TENON=os.path.abspath(tool)), capture_output=True, text=True).stdout
print(out)
log = re.search(r"full log: (\S+)", out)
if not log:
    sys.exit("the acceptance script printed no log")
verdicts = {}
with open(log[1], errors="replace") as f:
    for line in f:
        m = re.match(r"(PASS|FAIL|UNSUPPORTED) (\S+) ?(.*)", line)
        if m:
            verdicts[m[2]] = (m[1], m[3])
lost = re.search(r"(\d+) lost", out)
bad = {n for n, (v, _) in verdicts.items() if v != "PASS"}
if "--bless" in sys.argv:
    with open(listed_path, "w") as f:
        f.writelines(n + "\n" for n in sorted(bad))
with open(listed_path) as f:
    listed = set(f.read().split())
for n in sorted(bad - listed):
    print(f"new failure: {n}: {' '.join(verdicts[n])[:300]}")
for n in sorted(listed - bad):
    print(f"{n} passes now: remove it from tests/expected/{name}.txt" if n in verdicts else f"{n} is listed and does not exist")
crashed = [n for n in bad if "crashed" in verdicts[n][1]]
print(f"{len(verdicts)} programs, {len(bad)} do not pass, {len(listed)} listed, {len(crashed)} crashed, {lost[1] if lost else '?'} lost")
sys.exit(0 if verdicts and bad == listed and lost and lost[1] == "0" else 1)
