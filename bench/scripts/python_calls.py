#!/usr/bin/env python3
"""python_calls.py: nanoseconds of a call from Python, of x + y of 16 floats, and how long importing takes.

The program is a .pt2 of it that torch.export wrote. numpy, torch and ONNX Runtime stand beside it, where these are
installed; the .onnx is made from the program. Each figure is the least of the rounds; all kinds take turns in a round."""
import argparse, os, subprocess, sys, tempfile, time

import numpy as np

import tenon


def best(calls, rounds, loops):
    times = {name: float("inf") for name in calls}
    for _ in range(rounds):
        for name, f in calls.items():
            start = time.perf_counter_ns()
            for _ in range(loops):
                f()
            times[name] = min(times[name], (time.perf_counter_ns() - start) / loops)
    return times


def kinds(exe, x, y, out, label):
    bound = exe.bind([x, y], out)
    return {f"{label}: exe(x, y)": lambda: exe(x, y), f"{label}: exe(x, y, out=z)": lambda: exe(x, y, out=out),
            f"{label}: exe.run([x, y], z)": lambda: exe.run([x, y], out), f"{label}: bound()": bound}


def torch_kinds(exe):
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    x, y, z = torch.randn(16), torch.randn(16), torch.empty(16)
    torch.set_grad_enabled(False)
    return {**kinds(exe, x, y, z, "torch"), "torch eager: x + y": lambda: x + y, "torch eager: torch.add(x, y, out=z)": lambda: torch.add(x, y, out=z)}


def ort_kinds(program, x, y, z):
    """Of ONNX Runtime: run(), and with inputs and outputs bound to memory once."""
    try:
        import onnxruntime as ort, torch
        torch.onnx.export(torch.export.load(program), dynamo=True, verbose=False).save(path := os.path.join(tempfile.mkdtemp(), "add.onnx"))
    except ImportError:
        return {}
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names, (result,) = [i.name for i in session.get_inputs()], [o.name for o in session.get_outputs()]
    feed, results, bound = dict(zip(names, (x, y))), [result], session.io_binding()
    for name, array in feed.items():
        bound.bind_cpu_input(name, array)
    bound.bind_ortvalue_output(result, held := ort.OrtValue.ortvalue_from_numpy(z))
    session.run_with_iobinding(bound)
    assert np.array_equal(held.numpy(), x + y)
    return {"ort: session.run([name], feed)": lambda: session.run(results, feed), "ort: run_with_iobinding(bound)": lambda: session.run_with_iobinding(bound)}


def import_ms(rounds=9):
    code = "import time; t = time.perf_counter(); import tenon; print((time.perf_counter() - t) * 1e3)"
    return sorted(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(rounds))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("program", help="the .pt2 of x + y, of 16 floats each")
    a.add_argument("--rounds", type=int, default=40)
    a.add_argument("--loops", type=int, default=5000)
    o = a.parse_args()
    exe = tenon.load(o.program).compile(threads=1)
    x, y, z = np.random.rand(16).astype("f4"), np.random.rand(16).astype("f4"), np.empty(16, "f4")
    assert np.array_equal(exe(x, y, out=z), x + y)
    calls = {"nothing": lambda: None, **kinds(exe, x, y, z, "numpy"), "numpy itself: np.add(x, y, out=z)": lambda: np.add(x, y, out=z)}
    calls |= kinds(exe, tenon.Tensor(x), tenon.Tensor(y), tenon.Tensor(z), "tenon.Tensor") | torch_kinds(exe) | ort_kinds(o.program, x, y, z)
    print(f"load average {os.getloadavg()[0]:.2f}")
    for name, ns in best(calls, o.rounds, o.loops).items():
        print(f"{name:40} {ns:8.0f} ns")
    ms = import_ms()
    print(f"import tenon: median {ms[len(ms) // 2]:.1f} ms, least {ms[0]:.1f} ms")


if __name__ == "__main__":
    main()
