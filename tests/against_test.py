#!/usr/bin/env python3
"""bench --against with rivals of this test's own: taking turns, errors, the table, JSON and the page. against_test.py TENON BUILD

Status 77: it was passed over, as no Python here has numpy, which the rivals' processes need."""
import html.parser, json, os, subprocess, sys, tempfile

tenon, build = (os.path.abspath(a) for a in sys.argv[1:3])
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures/programs/mlp.pt2")

# Stand-ins: they know tenon's results instead of computing.
STORED = "import numpy as np\ndef stored(job):\n    with np.load(job.outputs) as f:\n        return [f[n] for n in f.files]\n"
FILES = {
    "good.py": '"""An engine that is right."""\n' + STORED + "needs = ['numpy']\ndef convert(job):\n    open(job.path('good.model'), 'w').write('converted')\n"
               "def load(job):\n    assert open(job.path('good.model')).read() == 'converted' and job.threads == 1 and len(job.arrays()) == 1\n"
               "    print('noise')\n    r = stored(job)\n    return lambda: {'a': r[0], 'b': (r[1], None)}\n",
    "wrong.py": STORED + "def load(job):\n    r = stored(job)\n    return lambda: [r[0] + 1, r[1]]\n",
    "fewer.py": STORED + "def load(job):\n    r = stored(job)\n    return lambda: r[0]\n",
    "missing.py": "needs = ['json', 'no_such_module']\ndef load(job):\n    pass\n",
    "broken.py": "def load(job):\n    raise ValueError('the first line\\nand more')\n",
    "unconverted.py": "def convert(job):\n    raise KeyError('op')\ndef load(job):\n    pass\n",
    "dies.py": "import os\ndef load(job):\n    os.abort()\n",
    "late.py": "import os\ncalls = []\ndef load(job):\n    def call():\n        calls.append(0)\n        if len(calls) > 3: raise RuntimeError('no more')\n        return []\n    return call\n",
    "syntax.py": "def load(job:\n",
}


def python_with_numpy():
    for python in ("python3", os.path.join(build, "python-package/venv/bin/python")):
        try:
            if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
                return python
        except OSError:
            pass
    print("SKIPPED against: no Python here has numpy")
    sys.exit(77)


def bench(*options, code=0):
    done = subprocess.run([tenon, "bench", MODEL, "--threads", "1", *options], capture_output=True, text=True)
    assert done.returncode == code, done
    return done


def check_rows(rows):
    tenon_row, good, wrong, fewer, missing, broken, unconverted, dies, late, syntax = rows
    for row in (tenon_row, good, wrong):
        assert len(row["rounds"]) == 2 and 0 < row["min_ms"] <= row["low_ms"] <= row["median_ms"] <= row["high_ms"] and row["first_result_ms"] > 0, row
    assert tenon_row["times_tenon"] == 1 and good["difference"] == 0 and good["convert_s"] > 0 and good["what"] == "An engine that is right."
    assert (good["status"], wrong["status"], fewer["status"]) == ("ok", "differs", "differs") and wrong["difference"] > 0.01
    assert fewer["note"] == "1 results instead of 2", fewer
    assert missing["status"] == "not installed" and missing["note"].endswith("has no no_such_module")
    assert broken["status"] == "failed" and broken["note"] == "ValueError: the first line"
    assert unconverted["note"] == "converting: KeyError: 'op'"
    assert dies["status"] == "failed" and "SIGABRT" in dies["note"]
    assert late["status"] == "failed" and late["note"] == "RuntimeError: no more"
    assert syntax["status"] == "failed" and "SyntaxError" in syntax["note"], syntax


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.words = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words.append(data)


def check_page(path):
    with open(path) as file:
        text = file.read()
    page = Page()
    page.feed(text)
    assert "http" not in text and not any(a.get("src") or a.get("href") for _, a in page.tags)
    assert sum(t == "rect" for t, _ in page.tags) == 8 and all(a.get("aria-label") for t, a in page.tags if t == "svg")
    assert any("NOT INSTALLED" in w for w in page.words) and any("RESULTS DIFFER" in w for w in page.words)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = os.path.join(folder, "tmp")
        os.mkdir(os.environ["TMPDIR"])
        python = python_with_numpy()
        for name, text in FILES.items():
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        names = ",".join(os.path.join(folder, n) for n in FILES)
        quick = ("--python", python, "--seconds", "0.02", "--rounds", "2")
        page = os.path.join(folder, "page.html")
        report = json.loads(bench("--against", names, *quick, "--json", "--html=" + page).stdout)
        assert report["threads"] == 1 and os.path.samefile(report["model"], MODEL)
        check_rows(report["engines"])
        check_page(page)
        chosen = ",".join(os.path.join(folder, n) for n in ("good.py", "missing.py", "wrong.py"))
        table = bench("--against=" + chosen, *quick, "--inputs", MODEL.replace(".pt2", ".2.inputs.npz")).stdout
        assert "NOT INSTALLED: " in table and "wrong: RESULTS DIFFER" in table and "x tenon" in table, table
        for options, why in ((("--against", "nothing"), "there is no rival nothing; there are ort, openvino"), (("--against", "none.py"), "there is no rival none.py"),
                             (("--against", "ort", "--rounds", "0"), "option rounds cannot be"), (("--against", "ort", "--python", "/none"), "cannot run /none")):
            done = bench(*options, *(quick[:2] if "--python" not in options else ()), code=1)
            assert why in done.stderr and len(done.stderr.strip().split("\n")) == 1, done
        assert os.listdir(os.environ["TMPDIR"]) == [], "folders are left"


main()
