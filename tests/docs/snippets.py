"""Runs blocks of C, C++ and Python, and compares outputs."""
import collections, json, os, re, subprocess

Function = collections.namedtuple("Function", "before blocks has_arguments")

DRIVER = r"""
import contextlib, io, json, sys, traceback
answers, names = sys.stdout, {"__name__": "__main__"}
for line in sys.stdin:
    block, out, error = json.loads(line), io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * block["line"] + block["code"], block["page"], "exec"), names)
    except BaseException:
        error = traceback.format_exc()
    print(json.dumps({"out": out.getvalue(), "error": error}), file=answers, flush=True)
"""


class Python:
    """A process that runs one block after the other."""

    def __init__(self, python, folder, env):
        self.process = subprocess.Popen([python, "-c", DRIVER], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, block):
        code = block.marks.get("setup", "")
        for code, line in ((code, 0), (block.text, block.line)):
            self.process.stdin.write(json.dumps({"code": code, "page": block.page, "line": line}) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            if not answer:
                raise RuntimeError(f"Python ended: {self.process.wait()}")
            answer = json.loads(answer)
            if answer["error"]:
                raise RuntimeError(answer["error"] + answer["out"])
        return answer["out"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Compiled:
    """The blocks of C and C++ of all pages, each language in one file: compiling the headers is what takes time. A page is a function (in C++ a
    namespace), a block in it the inner scope of those before; a block with main() is a function of its own."""

    def __init__(self, work, env):
        self.work, self.env = work, env
        self.includes = {"c": [], "cpp": []}
        self.functions = {"c": {}, "cpp": {}}  # name: Function

    def add(self, block):
        language, functions = block.language, self.functions[block.language]
        setup, code = self.split(block, block.marks.get("setup", "").split("\n"), 0), self.split(block, block.lines, block.line + 1)
        page = re.sub(r"\W", "_", block.page)
        if "int main(" in block.text:
            name = f"{page}_{block.line}"
            program = [re.sub(r"\bint main\(", f"int run_{name}(", line) for line in code[:-1]] + ["return 0; }"]  # only main may end without
            functions[name] = Function(setup + program, [], "int argc" in block.text)
            return
        function = functions.setdefault(page, Function([], [], False))
        function.before.extend(setup)
        if "declarations" in block.marks:
            function.before.extend(code)
        else:
            function.blocks.append(code)

    def split(self, block, lines, number):
        """The lines without includes, which go to the top of the file."""
        rest = [f'#line {number} "{block.page}"'] if number else []
        for line in lines:
            if line.startswith("#include"):
                self.includes[block.language].append(line)
                rest.append("")
            else:
                rest.append(line)
        return rest

    def source(self, language):
        is_cpp = language == "cpp"
        out = ["#include <tenon/tenon.h>" if is_cpp else "#include <tenon/tenon.c.h>", "#include <stdio.h>", "#include <string.h>"]
        out = list(dict.fromkeys(out + self.includes[language]))
        for name, f in self.functions[language].items():
            out += [f"namespace page_{name} {{"] * is_cpp + f.before
            if f.blocks:
                out += [f"static int run_{name}({'' if is_cpp else 'void'}) {{"]
                out += [line for block in f.blocks for line in ["{"] + block] + ["}" * len(f.blocks), "return 0;", "}"]
            out += ["}"] * is_cpp
        out.append("int main(int argc, char** argv) { (void)argc;")
        for name, f in self.functions[language].items():
            call = f"page_{name}::" * is_cpp + f"run_{name}({'argc - 1, argv + 1' if f.has_arguments else ''})"
            out.append(f'if (strcmp(argv[1], "{name}") == 0) return {call};')
        return "\n".join(out + ["return 9; }"]) + "\n", list(self.functions[language])

    def run(self):
        problems, compilers = [], {}
        for language, compiler in (("cpp", ["g++", "-std=c++20"]), ("c", ["cc", "-std=c99", "-pedantic"])):
            text, names = self.source(language)
            if not names:
                continue
            path = os.path.join(self.work, f"snippets.{language}")
            with open(path, "w") as f:
                f.write(text)
            command = compiler + ["-Wall", "-Wextra", "-Wno-unused", "-o", path + ".out", path, "-ltenon"]
            compilers[language] = names, subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for language, (names, process) in compilers.items():
            text = process.communicate()[0]
            if process.returncode or text:
                problems.append(f"the blocks of {language} do not compile without warnings:\n{text}")
                continue
            for name in names:
                done = subprocess.run([os.path.join(self.work, f"snippets.{language}.out"), name, os.path.join(self.folder(name), "model.pt2")],
                                      cwd=self.folder(name), env=self.env, capture_output=True, text=True, timeout=120)
                if done.returncode:
                    problems.append(f"{name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return problems

    def folder(self, name):
        return os.path.join(self.work, re.sub(r"_\d+$", "", name))


NUMBER = r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?"
UNIT = r"(?= ?(?:ms|us|ns|s|GB/s|GFLOP/s|MB)\b)"


def line_matches(want, got):
    """Whether a line is as a page has it."""
    pattern, floats, at = "", [], 0
    for match in re.finditer(rf"\.\.\.|{NUMBER}", want):
        pattern += re.escape(want[at:match.start()])
        at = match.end()
        if match[0] == "...":
            pattern += ".*"
        elif re.match(UNIT, want[at:]):
            pattern += r"-?[\d.e+-]+"
        elif "." in match[0] or "e" in match[0]:
            pattern += r"(-?[\d.]+(?:e[+-]?\d+)?)"
            floats.append(float(match[0]))
        else:
            pattern += re.escape(match[0])
    found = re.fullmatch(pattern + re.escape(want[at:]) + r"\s*", got)
    return bool(found) and all(abs(float(g) - w) <= 1e-3 * abs(w) + 1e-6 for g, w in zip(found.groups(), floats))


def differs(want, got):
    """What differs between an output and that of a page; a line '...' stands for any lines."""
    want = [line.rstrip() for line in want]
    while got and not got[-1].strip():
        got = got[:-1]
    at = 0
    for i, line in enumerate(want):
        if line == "...":
            rest = next((w for w in want[i + 1:] if w != "..."), None)
            if rest is None:
                return ""
            while at < len(got) and not line_matches(rest, got[at]):
                at += 1
        elif at == len(got):
            return f"the output lacks '{line}'"
        elif line_matches(line, got[at]):
            at += 1
        else:
            return f"'{line}' expected, '{got[at]}' found"
    return "" if at == len(got) else f"the output has more: '{got[at]}'"
