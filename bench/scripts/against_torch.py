#!/usr/bin/env python3
"""against_torch.py TENON FILE.py [NAME...] [--threads N]: the functions of FILE in tenon and in torch.jit.script, one after the other.

FILE has arguments(): {name: what it is called with}. torch runs them optimized, without gradients, and warmed up; both sides are timed from
within, call by call. Times are medians in microseconds. Needs torch and numpy."""
import argparse, importlib.util, json, math, os, statistics, subprocess, tempfile, time, warnings

import numpy as np
import torch

warnings.filterwarnings("ignore")


def entry(v, key, arrays):
    if isinstance(v, torch.Tensor):
        arrays[key] = v.numpy()
        return {"t": "npz"} if "." not in key else {"t": "tensor", "key": key}
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "str")):
        if isinstance(v, kind):
            return {"t": name, "v": v}
    if v is None:
        return {"t": "none"}
    form = "list" if isinstance(v, list) else "tuple"
    return {"t": form, "v": [entry(e, f"{key}.{i}", arrays) for i, e in enumerate(v)]}


def time_torch(f, args, seconds):
    with torch.no_grad():
        for _ in range(30):
            f(*args)
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 5:
            start = time.perf_counter()
            f(*args)
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def time_tenon(tool, path, name, args, threads, seconds):
    with tempfile.TemporaryDirectory() as tmp:
        arrays = {}
        entries = [entry(a, f"arg{i}", arrays) for i, a in enumerate(args)]
        np.savez(os.path.join(tmp, "in.npz"), **arrays)
        json.dump({"args": entries}, open(os.path.join(tmp, "in.json"), "w"))
        command = [tool, "bench", f"{path}:{name}", "--json", "--seconds", str(seconds), "--threads", str(threads)]
        command += ["--inputs", os.path.join(tmp, "in.npz"), "--args", os.path.join(tmp, "in.json")]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("tool")
    a.add_argument("file")
    a.add_argument("names", nargs="*")
    a.add_argument("--threads", type=int, default=torch.get_num_threads())
    a.add_argument("--seconds", type=float, default=0.5)
    o = a.parse_args()
    torch.set_num_threads(o.threads)
    spec = importlib.util.spec_from_file_location("functions", o.file)
    functions = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(functions)
    ratios = []
    print(f"{'':20} {'tenon us':>10} {'torch us':>10} {'times':>7}   how")
    for name, args in functions.arguments().items():
        if o.names and name not in o.names:
            continue
        ours = time_tenon(o.tool, o.file, name, args, o.threads, o.seconds)
        theirs = time_torch(torch.jit.script(getattr(functions, name)), args, o.seconds)
        ratios.append(theirs / ours["median_us"])
        print(f"{name:20} {ours['median_us']:10.3f} {theirs:10.2f} {ratios[-1]:7.2f}   {'plan' if ours['plan'] else 'interpreter'}, matched in {ours['match_ns']:.0f} ns", flush=True)
    print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
