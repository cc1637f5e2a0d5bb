#!/usr/bin/env python3
"""The rows of docs/specification.md: each has a statement, what tenon has, and tests that exist.

A row's last cell is a list, by semicolons, of `file.cpp: "test case", "another"` (of tests/unit, built by
tests/meson.build) and `suite NAME` (of tests/run.sh)."""
import os, re, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = "docs/specification.md"
NAME = r'"(?:[^"\\]|\\.)*"'
CASES = rf"(?P<file>\w+\.cpp): (?P<names>{NAME}(?:, {NAME})*)"
ITEM = rf"(?:{CASES}|suite (?P<suite>\w+))"
HEADER = ["statement", "tenon", "test"]


def read(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def cells(line):
    return [c.strip() for c in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def rows(lines):
    """Number and cells of each row of a table, its header and the line below left out."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith("|") and not re.fullmatch(r"[|\s:-]+", line) and cells(line) != HEADER:
            yield i + 1, cells(line)


def check_tests(text, cases, suites):
    """What is wrong with a row's last cell; the number of tests in it."""
    problems, at, tests = [], 0, 0
    while at < len(text):
        item = re.compile(ITEM).match(text, at)
        if not item:
            return problems + [f"no test can be read at '{text[at:]}'"], tests
        if item["suite"]:
            tests += 1
            if item["suite"] not in suites:
                problems.append(f"no suite {item['suite']} in tests/run.sh")
        elif item["file"] not in cases:
            return problems + [f"no file unit/{item['file']} in tests/meson.build"], tests
        else:
            for name in re.findall(NAME, item["names"]):
                tests += 1
                if name not in cases[item["file"]]:
                    problems.append(f"no test case {name} in tests/unit/{item['file']}")
        at = item.end()
        if text.startswith("; ", at):
            at += 2
    return problems, tests


def main():
    built = re.findall(r"'unit/(\w+\.cpp)'", read("tests/meson.build"))
    cases = {f: set(re.findall(rf"TEST_CASE\(({NAME})\)", read(f"tests/unit/{f}"))) for f in built}
    suites = set(re.findall(r"\bsuite (\w+) ", read("tests/run.sh")))
    problems, statements, tests = [], set(), 0
    for number, row in rows(read(PAGE).split("\n")):
        if len(row) != 3 or not all(row):
            problems.append(f"{PAGE}:{number}: a row has a statement, what tenon has, and a test")
            continue
        wrong, found = check_tests(row[2], cases, suites)
        problems += [f"{PAGE}:{number}: {w}" for w in wrong + ["a statement that is there twice"] * (row[0] in statements)]
        statements.add(row[0])
        tests += found
    if not statements:
        problems.append(f"{PAGE}: no rows")
    print("\n".join(problems + [f"{len(statements)} statements, {tests} tests named, {len(problems)} problems"]))
    return 1 if problems else 0


sys.exit(main())
