#!/usr/bin/env python3
"""The documentation is true: its links lead somewhere, and what its blocks say happens. docs_test.py [BUILD] [PAGE...]

README.md and docs/*.md are read. In a folder of its own for each page, with the library of BUILD installed, in the order of the page:
  sh, bash   is run; must succeed
  console    is a session: what stands behind "$ " is run, and prints the lines below it, whatever its exit code
  python     is run in one process for the page, where the package of BUILD exists; blocks that import torch where there is torch
  cpp, c     is compiled and run: all pages in one file a language. Fragments of a page see each other; a block with main() stands alone
  text       right behind one of these: its output, where "..." stands for anything, times for any times, and numbers are near
Comments right above a block say more: <!-- file: NAME --> puts it into a file, which other blocks use; <!-- setup CODE --> goes before it,
unseen; <!-- exit: 1 --> is the exit code; <!-- not run: REASON --> is counted. In each folder lie model.pt2 and MODEL.pt2, copies of the fixture
mlp.pt2, and the folders of the tree.
TENON_TORCH_PYTHON: a Python with torch and numpy, for the version that the package was built for."""
import collections, glob, os, re, shutil, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "docs"))
from pages import ROOT, Page
from snippets import Compiled, Python, differs

SHELL, OTHER = ("sh", "bash"), ("json", "rust", "yaml", "text", "cmake", "go", "toml")
SYMLINKS = ("tests", "examples", "include", "bench", "docs")


def check_links(pages, problems):
    """Relative links and their anchors, and paths in backticks."""
    count = 0
    known = {p.path: p for p in pages}
    for page in pages:
        for number, target in page.links():
            count += 1
            place = f"{page.path}:{number}"
            if re.match(r"[a-z]+:", target):
                if not target.startswith("https://"):
                    problems.append(f"{place}: {target} is no https link")
                continue
            path, _, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(page.path), path)) if path else page.path
            if not os.path.exists(os.path.join(ROOT, path)):
                problems.append(f"{place}: there is no {path}")
            elif anchor and anchor not in (known.get(path) or Page(path)).anchors():
                problems.append(f"{place}: {path} has no heading #{anchor}")
        for number, path in page.paths():
            count += 1
            names = [path] if "{" not in path else [re.sub(r"\{.*\}", part, path) for part in re.search(r"\{(.*)\}", path)[1].split(",")]
            for name in names:
                if not glob.glob(os.path.join(ROOT, name)) and not glob.glob(os.path.join(ROOT, name + ".*")):  # programs go by the names of their sources
                    problems.append(f"{page.path}:{number}: there is no {name}")
    return count


def check_completeness(problems):
    """Every page is in the site's navigation, every header in the page of the C++ interface."""
    with open(os.path.join(ROOT, "mkdocs.yml")) as f:
        site = f.read()
    for path in glob.glob(os.path.join(ROOT, "docs", "*.md")):
        if f" {os.path.basename(path)}\n" not in site:
            problems.append(f"docs/{os.path.basename(path)} is not in the navigation of mkdocs.yml")
    with open(os.path.join(ROOT, "docs/cpp-api.md")) as f:
        table = f.read()
    for path in glob.glob(os.path.join(ROOT, "include/tenon/*.h")):
        if f"include/tenon/{os.path.basename(path)})" not in table:
            problems.append(f"docs/cpp-api.md does not link {os.path.basename(path)}")


def check_figures(problems):
    """Figures of a table in docs/comparison.md stand in the results that the paragraph above links; the accuracies in docs/numerics.md are those of
    the unit test."""
    results = ""
    for number, line in Page("docs/comparison.md").prose:
        if links := re.findall(r"\((\.\./bench/results/[^)]*)\)", line):
            with open(os.path.join(ROOT, "docs", links[-1])) as f:
                results = f.read()
        elif line.startswith("#"):
            results = ""
        elif line.startswith("|") and results:
            for figure in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", line):
                if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", results):
                    problems.append(f"docs/comparison.md:{number}: {figure} is no figure of the results")
    with open(os.path.join(ROOT, "tests/unit/vector_math_test.cpp")) as f:
        table = re.search(r"const Accuracy table\[\] = \{(.*?)\n\};", f.read(), re.S)[1]
    want = re.findall(r'\{"(\w+)", ([\d.]+), ([\d.]+),', table)
    with open(os.path.join(ROOT, "docs/numerics.md")) as f:
        if re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|$", f.read(), re.M) != want:
            problems.append("docs/numerics.md: the table of functions is not that of tests/unit/vector_math_test.cpp")


def check_python_reference(package, problems):
    """docs/python-api.md is what python/reference.py writes today."""
    stub = os.path.join(package, "tenon/_tenon.pyi")
    if not os.path.exists(stub):
        return
    want = subprocess.run([sys.executable, os.path.join(ROOT, "python/reference.py"), stub], capture_output=True, text=True, check=True).stdout
    with open(os.path.join(ROOT, "docs/python-api.md")) as f:
        if f.read() != want:
            problems.append("docs/python-api.md is not current: python/reference.py STUB > docs/python-api.md")


PASSED_OVER = object()  # in the place of the output of a block that was not run


class Pages:
    """Runs the blocks of pages; counts what became of them."""

    def __init__(self, build, work):
        self.work, self.problems, self.counts, self.passed_over = work, [], collections.Counter(), []
        self.root, self.package = os.path.join(work, "root"), os.path.join(build, "python-package/installed/python")
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], env={**os.environ, "DESTDIR": self.root}, check=True)
        self.env = self.environment(build)
        venv = os.path.join(build, "python-package/venv/bin/python")
        self.python_path = os.environ.get("TENON_TORCH_PYTHON") or venv
        self.has_python = os.path.exists(self.package) and os.path.exists(self.python_path)
        self.has_torch = self.has_python and subprocess.run([self.python_path, "-c", "import torch"], capture_output=True).returncode == 0
        self.compiled = Compiled(work, self.env)

    def environment(self, build):
        prefix = next(path for path in (os.path.join(self.root, "usr/local"), os.path.join(self.root, "usr")) if os.path.exists(path))
        pc = glob.glob(f"{prefix}/lib/**/tenon.pc", recursive=True)[0]
        library = os.path.dirname(os.path.dirname(pc))
        path = f"{prefix}/bin:{build}/python-package/venv/bin:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "PKG_CONFIG_PATH": os.path.dirname(pc), "PKG_CONFIG_SYSROOT_DIR": self.root, "CPATH": f"{prefix}/include",
                "LIBRARY_PATH": library, "LD_LIBRARY_PATH": library, "PYTHONPATH": self.package, "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, page):
        self.folder = os.path.join(self.work, re.sub(r"\W", "_", page.path))
        os.mkdir(self.folder)
        for name in SYMLINKS:
            os.symlink(os.path.join(ROOT, name), os.path.join(self.folder, name))
        for name in ("model.pt2", "MODEL.pt2"):
            shutil.copy(os.path.join(ROOT, "tests/fixtures/programs/mlp.pt2"), os.path.join(self.folder, name))
        self.python, output = None, None
        for block in page.blocks:
            try:
                output = self.run_block(block, output)
            except RuntimeError as e:
                self.problems.append(f"{block.place}: {e}")
                output = None
        if self.python:
            self.python.close()

    def run_block(self, block, output):
        """What the block printed, None where there is nothing to compare with."""
        if "not run" in block.marks:
            self.counts["not run"] += 1
            print(f"not run  {block.place}: {block.marks['not run']}")
            return None
        if block.language == "text" and output is PASSED_OVER:
            return None
        if block.language == "text" and output is not None:
            self.counts["outputs"] += 1
            if why := differs(block.lines, output.splitlines()):
                raise RuntimeError(f"{why}; the whole output:\n{output}")
            return None
        if "file" in block.marks:
            with open(os.path.join(self.folder, block.marks["file"]), "w") as f:
                f.write(block.text)
            self.counts["files"] += 1
            return None
        if block.language in SHELL:
            return self.run_shell(block)
        if block.language == "console" or (not block.language and block.text.startswith("$ ")):
            return self.run_console(block)
        if block.language == "python":
            return self.run_python(block)
        if block.language in ("cpp", "c"):
            self.compiled.add(block)
            self.counts[block.language] += 1
            return None
        if block.language not in OTHER:
            raise RuntimeError(f"a block of '{block.language}': no language that is tested")
        raise RuntimeError("nothing tests this block: it follows none that is run, and has no <!-- not run: REASON -->")

    def run_shell(self, block):
        self.counts["shell"] += 1
        script = block.text
        if "python" in script and not self.has_python:
            return self.pass_over(block, "there is no Python package")
        if "needs" in block.marks and not self.has_torch:
            return self.pass_over(block, "there is no torch")
        env = {**self.env, "PATH": f"{os.path.dirname(self.python_path)}:{self.env['PATH']}"} if "needs" in block.marks else self.env
        done = self.shell(script, env)
        if done.returncode not in (int(block.marks.get("exit", 0)), 141):  # 141: `head` had enough
            raise RuntimeError(f"exit code {done.returncode}:\n{done.stdout}")
        return done.stdout

    def shell(self, script, env):
        return subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300)

    def run_console(self, block):
        if not block.text.startswith("$ "):
            raise RuntimeError("a session begins with '$ '")
        for session in block.text[2:].split("\n$ "):
            command, _, want = session.partition("\n")
            self.counts["shell"] += 1
            self.counts["outputs"] += 1
            got = self.shell(command, self.env).stdout
            if why := differs(want.rstrip("\n").splitlines(), got.splitlines()):
                raise RuntimeError(f"{command}: {why}; the whole output:\n{got}")
        return None

    def run_python(self, block):
        self.counts["python"] += 1
        if not self.has_python:
            return self.pass_over(block, "there is no Python package")
        if not self.has_torch and (re.search(r"^\s*(import|from) torch|, torch\b", block.text, re.M) or "needs" in block.marks):
            return self.pass_over(block, "there is no torch")
        self.python = self.python or Python(self.python_path, self.folder, self.env)
        return self.python.run(block)

    def pass_over(self, block, why):
        self.passed_over.append(f"{block.place}: {why}")
        return PASSED_OVER


def main():
    arguments = sys.argv[1:] or ["build"]
    build, only = os.path.realpath(arguments[0]), arguments[1:]
    pages = [Page(p) for p in ["README.md"] + sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "docs/*.md")))]
    linked = [Page(p) for p in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "src/README.md")]
    problems = []
    links = check_links(pages + linked, problems)
    check_completeness(problems)
    check_figures(problems)
    with tempfile.TemporaryDirectory() as work:
        runner = Pages(build, work)
        check_python_reference(runner.package, problems)
        for page in pages:
            if not only or page.path in only:
                runner.run(page)
        problems += runner.problems + runner.compiled.run()
    for line in runner.passed_over:
        print(f"PASSED OVER  {line}")
    print("\n".join(problems))
    c = runner.counts
    print(f"{links} links; blocks: {c['shell']} shell, {c['python']} Python, {c['cpp']} C++, {c['c']} C, {c['files']} files, {c['outputs']} outputs; "
          f"{c['not run']} not run, {len(runner.passed_over)} passed over; {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
