"""against.py: `tenon bench --against`: tenon and other engines on the same inputs, taking turns, one process each. See --help.

Rounds: each engine runs for some seconds, then the next one, and so again: what the machine does to one, it does to all. tenon is a new process
of the tool in each round; the others stay loaded and sleep meanwhile. An engine's figure is the median of its rounds."""
import argparse, importlib.util, json, os, select, signal, subprocess, sys, time

import page, rivals

OTHERS = 0.15  # cores that other processes may use before a round counts as disturbed


class Child:
    """A process of rivals.py; its answers come on a pipe of their own, what it prints goes to a file."""

    def __init__(self, mode, name, job, environment):
        self.log = os.path.join(job["folder"], f"{os.path.basename(name)}.{mode}.log")
        read, write = os.pipe()
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([sys.executable, rivals.__file__, mode, name, os.path.join(job["folder"], "job.json"), str(write), str(time.monotonic())],
                                            stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[write], env=environment, text=True, start_new_session=True)
        os.close(write)
        self.answers = os.fdopen(read)

    def answer(self, timeout):
        """Its next answer, {"error": why} where there is none."""
        if not select.select([self.answers], [], [], timeout)[0]:
            self.stop()
            return {"error": f"no answer for {timeout:.0f} seconds"}
        line = self.answers.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        with open(self.log, errors="replace") as log:
            last = ([""] + [text.strip() for text in log if text.strip()])[-1]
        return {"error": f"it ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}: {last}"[:300]}

    def ask(self, seconds, timeout):
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended, which answer() tells
        return self.answer(timeout)

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Rival:
    """An engine beside tenon: converted, loaded once, then asked in each round."""

    def __init__(self, name, job, timeout, environment):
        self.row = {"engine": os.path.basename(name).removesuffix(".py"), "status": "ok", "what": "", "version": "", "rounds": []}
        self.name, self.job, self.timeout, self.environment, self.child = name, job, timeout, environment, None
        try:
            rival = rivals.find(name)
        except Exception as e:
            self.fail(f"{type(e).__name__}: {e}")
            return
        self.row["what"], self.needs_conversion = rival.what, rival.convert is not None
        if missing := [n for n in rival.needs if importlib.util.find_spec(n) is None]:
            self.row.update(status="not installed", note=f"{sys.executable} has no {', '.join(missing)}")
            return
        self.row["version"] = version_of(rival.needs)

    def convert(self):
        if self.row["status"] != "ok" or not self.needs_conversion:
            return
        start = time.monotonic()
        child = Child("convert", self.name, self.job, self.environment)
        answer = child.answer(self.timeout)
        child.stop()
        if "error" in answer:
            return self.fail("converting: " + answer["error"])
        self.row["convert_s"] = time.monotonic() - start

    def load(self):
        if self.row["status"] != "ok":
            return
        self.child = Child("serve", self.name, self.job, self.environment)
        answer = self.child.answer(self.timeout)
        if "error" in answer:
            return self.fail(answer["error"])
        self.row.update(answer)
        if isinstance(answer["difference"], str) or answer["difference"] > 1e-2:
            self.row.update(status="differs", note=answer["difference"] if isinstance(answer["difference"], str) else "")

    def fail(self, why):
        self.row.update(status="failed", note=why.split("\n")[0])
        if self.child:
            self.child.stop()
            self.child = None

    def round(self, seconds):
        if not self.child:
            return
        answer = self.child.ask(seconds, self.timeout)
        if "error" in answer:
            return self.fail(answer["error"])
        self.row["rounds"].append(answer)


def version_of(needs):
    """Of the first module that tells one: the engine itself."""
    import importlib.metadata
    for name in needs[:1]:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return ""


class Tenon:
    """The tool itself, a new process in each round."""

    def __init__(self, command, inputs):
        self.command, self.inputs = command, inputs
        self.row = {"engine": "tenon", "status": "ok", "what": "this tool, strict f32 unless asked otherwise", "version": "", "rounds": []}

    def outputs(self, path):
        self.tool("run", "-o", path)

    def tool(self, command, *more):
        done = subprocess.run([self.command[0], command, *self.command[1:], "--inputs", self.inputs, *more], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr.strip() or f"tenon: error: {command} ended with {done.returncode}")
        return done.stdout

    def round(self, seconds):
        cpu, start = rivals.cpu_seconds(), time.monotonic()
        figures = json.loads(self.tool("bench", "--seconds", str(seconds), "--json"))
        figures["other_cores"] = rivals.others(cpu, rivals.cpu_seconds(), time.monotonic() - start)
        self.row["rounds"].append(figures)
        if figures["fallback_steps"]:
            self.row["note"] = f"{figures['fallback_steps']} steps run in the interpreter"


def middle(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def summarize(rows):
    """Figures over the rounds: medians, the spread of the rounds' medians, and times of tenon's median in the same round."""
    tenon = rows[0]["rounds"]
    for row in rows:
        rounds = row["rounds"]
        if row["status"] not in ("ok", "differs") or not rounds:
            continue
        for key in ("median_ms", "p90_ms", "peak_rss_mb"):
            row[key] = middle([r[key] for r in rounds])
        row["low_ms"], row["high_ms"] = min(r["median_ms"] for r in rounds), max(r["median_ms"] for r in rounds)
        row["min_ms"] = min(r["min_ms"] for r in rounds)
        row["times_tenon"] = middle([r["median_ms"] / t["median_ms"] for r, t in zip(rounds, tenon)])
        if "first_result_ms" in rounds[0]:
            row["first_result_ms"] = middle([r["first_result_ms"] for r in rounds])
        if disturbed := sum(r["other_cores"] > OTHERS for r in rounds):
            row["disturbed_rounds"] = disturbed


def machine():
    name = "an unknown CPU"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def options():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("--against", required=True, help=f"{','.join(rivals.RIVALS)}, or Python files that say how an engine is loaded")
    a.add_argument("--folder", required=True, help="for what is made of the program")
    a.add_argument("--model", required=True)
    a.add_argument("--inputs", required=True)
    a.add_argument("--seconds", type=float, default=1)
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--threads", type=int, default=0)
    a.add_argument("--timeout", type=float, default=900)
    a.add_argument("--json", action="store_true")
    a.add_argument("--html", default="")
    a.add_argument("tool", nargs="+", help="the tool, the program, its options")
    return a.parse_args()


def environment_of(o):
    threads = str(o.threads)
    return {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "TORCHINDUCTOR_CACHE_DIR": os.path.join(o.folder, "inductor"),
            "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}


def run(o):
    """The rows of the table, tenon's first."""
    job = {"model": o.model, "inputs": o.inputs, "outputs": os.path.join(o.folder, "outputs.npz"), "threads": o.threads, "folder": o.folder}
    with open(os.path.join(o.folder, "job.json"), "w") as file:
        json.dump(job, file)
    tenon = Tenon(o.tool, o.inputs)
    tenon.outputs(job["outputs"])
    others = [Rival(name, job, o.timeout, environment_of(o)) for name in o.against.split(",")]
    engines = [tenon, *others]
    try:
        for what, step in (("converting for", Rival.convert), ("loading", Rival.load)):  # first results come when nothing is converted any more
            for other in others:
                if other.row["status"] == "ok":
                    print(f"{what} {other.name}", file=sys.stderr, flush=True)
                    step(other)
        for number in range(o.rounds):
            print(f"round {number + 1} of {o.rounds}", file=sys.stderr)
            for engine in engines if number % 2 == 0 else reversed(engines):
                engine.round(o.seconds)
    finally:
        for other in others:
            if other.child:
                other.child.stop()
    rows = [e.row for e in engines]
    summarize(rows)
    return rows


def main():
    o = options()
    o.threads = o.threads or len(os.sched_getaffinity(0))
    for name in o.against.split(","):
        if name.endswith(".py") and not os.path.exists(name) or not name.endswith(".py") and name not in rivals.RIVALS:
            sys.exit(f"tenon: error: there is no rival {name}; there are {', '.join(rivals.RIVALS)}, and files of Python, FILE.py")
    report = {"model": o.model, "machine": machine(), "threads": o.threads, "seconds": o.seconds, "when": time.strftime("%Y-%m-%d %H:%M"), "engines": run(o)}
    if o.html:
        with open(o.html, "w") as file:
            file.write(page.html_of(report))
    print(json.dumps(report) if o.json else page.table_of(report))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
