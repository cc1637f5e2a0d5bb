#!/usr/bin/env python3
"""python_first.py FOLDER: MobileNetV3 from Python: from the start of the process to the first result, importing included.

Writes the exported program (random weights) to FOLDER, as .pt2 and compiled for tenon, and as .onnx for ONNX Runtime; then starts a process
for each a number of times, in turns. Needs torch, torchvision, onnxruntime and onnxscript for the writing, tenon and onnxruntime for the rest."""
import argparse, os, subprocess, sys, time

START = "import sys, time; t0 = float(sys.argv[2])\n"
SHOW = "print(*(round((t - t0) * 1e3, 1) for t in (t1, t2, t3)), float(abs(y).max()))\n"
NUMPY = "import numpy as np\n"
INPUT = "x = (np.arange(3 * 224 * 224, dtype=np.float32) % 255 / 255).reshape(1, 3, 224, 224)\n"
TENON = START + NUMPY + "import tenon; t1 = time.monotonic()\nexe = tenon.open(sys.argv[1], threads=int(sys.argv[3])); t2 = time.monotonic()\n" + INPUT + \
    "y = exe(x); t3 = time.monotonic()\n" + SHOW
ORT = START + NUMPY + "import onnxruntime as ort; t1 = time.monotonic()\no = ort.SessionOptions(); o.intra_op_num_threads = int(sys.argv[3])\n" \
    "s = ort.InferenceSession(sys.argv[1], o, providers=['CPUExecutionProvider']); t2 = time.monotonic()\n" + INPUT + \
    "y = s.run(None, {s.get_inputs()[0].name: x})[0]; t3 = time.monotonic()\n" + SHOW


def write(folder, model, threads):
    """The files that are not there yet."""
    base = os.path.join(folder, model)
    if not os.path.exists(base + ".onnx"):
        import torch, torchvision
        torch.manual_seed(0)
        module = torchvision.models.get_model(model, weights=None).eval()
        program = torch.export.export(module, (torch.zeros(1, 3, 224, 224),))
        torch.export.save(program, base + ".pt2")
        torch.onnx.export(program, dynamo=True, verbose=False).save(base + ".onnx")
    import tenon
    tenon.load(base + ".pt2").save_compiled(base + ".tenon", threads=threads)
    return base


def main():
    a = argparse.ArgumentParser()
    a.add_argument("folder")
    a.add_argument("--model", default="mobilenet_v3_large")
    a.add_argument("--rounds", type=int, default=9)
    a.add_argument("--threads", type=int, default=2)
    o = a.parse_args()
    base = write(o.folder, o.model, o.threads)
    kinds = {"tenon, .pt2": (TENON, ".pt2"), "tenon, compiled file": (TENON, ".tenon"), "ONNX Runtime": (ORT, ".onnx")}
    times = {k: [] for k in kinds}
    for _ in range(o.rounds + 1):
        for kind, (code, end) in kinds.items():
            done = subprocess.run([sys.executable, "-c", code, base + end, str(time.monotonic()), str(o.threads)], capture_output=True, text=True, check=True)
            times[kind].append([float(w) for w in done.stdout.split()])
    print(f"{o.model}, {o.threads} threads, load average {os.getloadavg()[0]:.2f}; ms since the start of the process, median of {o.rounds} (least)")
    for kind, rows in times.items():
        columns = [sorted(c) for c in list(zip(*rows[1:]))[:3]]  # the first round reads files for the first time
        print(f"{kind:22}" + "".join(f"  {what} {c[len(c) // 2]:.1f} ({c[0]:.1f})" for what, c in zip(("imported", "loaded", "first result"), columns)) + f"  largest result {rows[0][3]:.4g}")


if __name__ == "__main__":
    main()
