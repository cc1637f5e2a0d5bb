"""backend="tenon" of torch.compile beside Inductor: the time to the first result, with empty caches, and of later calls.

    python torch_compile.py WORKLOADS.py [NAME...] [--backends tenon,inductor,inductor_freeze,dynamo,aot_eager,eager] [--threads 2] [--seconds 2] [--train] [--imports-before]

WORKLOADS.py has a dict HEADLINE of functions that give (module, args, dynamic shapes). Each pair of workload and backend gets a process of its
own; backends follow each other, since machines drift. Prints a line for each, and the geometric means of Inductor's times over tenon's. `eager` is
torch without torch.compile, `dynamo` what it traces, run by torch: no backend has its first result earlier. With
--imports-before what torch.compile imports when it is first called does not count, of torch and of the backend.
"""
import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time


def load(path):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("workloads", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["workloads"] = module
    spec.loader.exec_module(module)
    return module.HEADLINE


def flat(x):
    return [x] if hasattr(x, "shape") else [t for item in (x.values() if isinstance(x, dict) else x) for t in flat(item)]


def compiled(module, backend):
    import torch
    if backend == "eager":
        return module
    if backend.startswith("inductor"):
        import torch._inductor.config as config
        config.freezing = backend.endswith("freeze")
        return torch.compile(module)
    return torch.compile(module, backend="eager" if backend == "dynamo" else backend)


def step_of(module, args, train):
    import torch
    if not train:
        return lambda: module(*args)

    def step():
        for p in module.parameters():
            p.grad = None
        loss = sum(t.float().square().mean() for t in flat(module(*args)) if t.is_floating_point())
        loss.backward()
        return [loss.detach()] + [p.grad for p in module.parameters() if p.grad is not None]

    return step


def import_all(backend):
    names = {"tenon": ["tenon.torch"], "inductor": ["torch._inductor.compile_fx", "torch._inductor.codecache", "torch._inductor.codegen.cpp"]}
    for name in ["torch._dynamo", "torch._functorch.aot_autograd", *names.get(backend.split("_")[0], [])]:
        importlib.import_module(name)


def run_one(path, name, backend, threads, seconds, train, imports_before):
    import torch
    if imports_before:
        import_all(backend)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    torch.set_grad_enabled(train)
    module, args, _ = load(path)[name]()
    if train:
        module.requires_grad_(True)
    expected = flat(step_of(module, args, train)())
    start = time.perf_counter()
    step = step_of(compiled(module, backend), args, train)
    got = flat(step())
    first = time.perf_counter() - start
    error = max((float((g.double() - e.double()).abs().max() / e.double().abs().max().clamp_min(1e-30)) for g, e in zip(got, expected) if e.numel()), default=0)
    for _ in range(12):  # tenon packs stored weights in its second to ninth call
        step()
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    import torch._dynamo.utils as utils
    breaks = sum(utils.counters["graph_break"].values())
    print("RESULT " + json.dumps({"first_ms": first * 1e3, "median_ms": statistics.median(times) * 1e3, "min_ms": min(times) * 1e3, "error": error, "breaks": breaks}))


def measure(options, name, backend):
    command = [sys.executable, __file__, options.workloads, name, "--one", backend, "--threads", str(options.threads), "--seconds", str(options.seconds)]
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
        done = subprocess.run(command + ["--train"] * options.train + ["--imports-before"] * options.imports_before, capture_output=True, text=True, env=env)
    found = [line[7:] for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    for line in done.stderr.splitlines():
        if "InTorch" in line:
            print(f"  {line.split('InTorch: ')[1]}")
    return json.loads(found[0]) if found else {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backends", default="tenon,inductor")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--imports-before", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return run_one(options.workloads, options.names[0], options.one, options.threads, options.seconds, options.train, options.imports_before)
    backends, ratios = options.backends.split(","), {}
    for name in options.names or load(options.workloads):
        rows = {b: measure(options, name, b) for b in backends}
        for b, r in rows.items():
            print(f"{name:20} {b:16} " + (r.get("failed") or f"first {r['first_ms']:9.1f} ms   call {r['median_ms']:9.3f} ms   least {r['min_ms']:9.3f}   error {r['error']:.1e}   breaks {r['breaks']}"), flush=True)
        for b, r in rows.items():
            if b != "tenon" and "median_ms" in r and "median_ms" in rows.get("tenon", {}):
                ratios.setdefault(b, []).append((r["first_ms"] / rows["tenon"]["first_ms"], r["median_ms"] / rows["tenon"]["median_ms"]))
    for b, pairs in ratios.items():
        first, call = (math.exp(statistics.mean(math.log(p[i]) for p in pairs)) for i in (0, 1))
        print(f"{b} / tenon, geometric mean of {len(pairs)}: first result {first:.1f}, call {call:.2f}, least {min(p[1] for p in pairs):.2f}")


if __name__ == "__main__":
    main()
