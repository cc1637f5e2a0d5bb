#!/usr/bin/env python3
"""rivals.py ENGINE DIR/NAME: what tenon_shapes measures, of ONNX Runtime, OpenVINO or Inductor with dynamic=True. Writes the same line of JSON."""
import argparse, json, os, random, time


def read_sizes(path):
    names, inputs, sample, tuples = [], [], [], []
    for line in open(path):
        what, *words = line.split()
        if what == "names":
            names = words
        elif what == "input":
            inputs.append((words[0], int(words[1]), int(words[2]), [int(d) if d.isdigit() else d for d in words[3:]]))
        else:
            (sample if what == "static" else tuples).append(tuple(map(int, words)))
    return names, inputs, sample, tuples


class Inputs:
    """Arrays for any of the tuples: views into values that are drawn once."""

    def __init__(self, names, inputs, tuples):
        import numpy as np
        draw = np.random.default_rng(1)
        self.names, self.inputs, self.values = names, inputs, []
        for dtype, low, high, dims in inputs:
            most = max(np.prod(self.shape(dims, t)) for t in tuples)
            self.values.append(draw.uniform(low, high, most).astype(np.float32) if dtype == "f32" else draw.integers(low, high, most))

    def shape(self, dims, sizes):
        return [dict(zip(self.names, sizes)).get(d, d) for d in dims]

    def of(self, sizes):
        shapes = [self.shape(dims, sizes) for *_, dims in self.inputs]
        out = []
        for v, shape in zip(self.values, shapes):
            count = 1
            for s in shape:
                count *= s
            out.append(v[:count].reshape(shape))
        return out


# An engine is a function of the path, the threads and the sizes to fix (None: they vary) that returns a function of the arrays of a call.

def ort(path, threads, inputs, fixed=None):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    if fixed:
        import onnx
        graph = onnx.load(path + ".onnx", load_external_data=False).graph
        for value, shape in zip(graph.input, shapes_of(inputs, fixed)):
            for dim, size in zip(value.type.tensor_type.shape.dim, shape):
                if dim.dim_param:
                    options.add_free_dimension_override_by_name(dim.dim_param, size)
    session = onnxruntime.InferenceSession(path + ".onnx", options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays)))


def openvino(path, threads, inputs, fixed=None):
    import openvino as ov
    from openvino.properties import hint, inference_num_threads
    core = ov.Core()
    model = core.read_model(path + ".onnx")
    if fixed:
        model.reshape({i: shape for i, shape in enumerate(shapes_of(inputs, fixed))})
    settings = {hint.performance_mode(): hint.PerformanceMode.LATENCY, hint.inference_precision(): ov.Type.f32, inference_num_threads(): threads}
    request = core.compile_model(model, "CPU", settings).create_infer_request()

    def call(arrays):
        for i, a in enumerate(arrays):
            request.set_input_tensor(i, ov.Tensor(a, shared_memory=True))
        return request.infer(share_outputs=True)

    return call


def inductor(path, threads, inputs, fixed=None):
    import torch
    from programs import module
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    model = torch.compile(module(os.path.basename(path)), dynamic=not fixed)
    return lambda arrays: model(*map(torch.from_numpy, arrays))


ENGINES = {"ort": ort, "openvino": openvino, "inductor": inductor}


def shapes_of(inputs, sizes):
    return [inputs.shape(dims, sizes) for *_, dims in inputs.inputs]


# ---- measuring

def rss_kb():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def timed(call, arrays):
    start = time.perf_counter()
    call(arrays)
    return (time.perf_counter() - start) * 1e6


def call_tuples(call, inputs, tuples, repeats, group=8):
    """Times and resident memory of `repeats` calls of every tuple, by groups in turns; a tuple's calls stand together."""
    us, kb = [0.0] * len(tuples) * repeats, [0] * len(tuples) * repeats
    for first in range(0, len(tuples), group):
        for k in range(repeats):
            for i in range(first, min(first + group, len(tuples))):
                us[i * repeats + k] = round(timed(call, inputs.of(tuples[i])), 1)
                kb[i * repeats + k] = rss_kb()
    return us, kb


def churn(call, inputs, tuples, calls, seconds):
    """Tuples at random, for so many calls or seconds: their numbers, times and resident memory."""
    draw = random.Random(2)
    which = [draw.randrange(len(tuples)) for _ in range(calls if tuples else 0)]
    us, kb = [0.0] * len(which), [0] * len(which)
    until = time.perf_counter() + seconds
    for i, k in enumerate(which):
        if time.perf_counter() > until:
            return which[:i], us[:i], kb[:i]
        us[i] = round(timed(call, inputs.of(tuples[k])), 1)
        kb[i] = rss_kb()
    return which, us, kb


def steady(call, inputs, tuples, calls, seconds, runs=8):
    """As many calls in runs of one size, for what scatters though no size changes: the tuples' numbers and the times."""
    runs = min(runs, len(tuples))
    which, us = [], []
    for run in range(runs):
        k = (run * len(tuples) + len(tuples) // 2) // runs
        until = time.perf_counter() + seconds / runs
        for _ in range(calls // runs):
            if time.perf_counter() > until:
                break
            which.append(k)
            us.append(round(timed(call, inputs.of(tuples[k])), 1))
    return which, us


def against_static(call, alone, arrays, seconds):
    """The best times of the engine and of its build of one size, called in turns."""
    best = [1e30, 1e30]
    until, rounds = time.perf_counter() + seconds, 0
    while rounds < 3 or time.perf_counter() < until:
        rounds += 1
        for which, f in enumerate((call, alone)):
            times = [timed(f, arrays) for _ in range(4)]
            best[which] = min(best[which], *times[1:])
    return [round(b, 1) for b in best]


def measure(a):
    names, tensors, sample, tuples = read_sizes(a.path + ".sizes")
    tuples, sample = tuples[:a.tuples], sample[:a.static]
    inputs = Inputs(names, tensors, tuples + sample)
    make = ENGINES[a.engine]
    start = time.perf_counter()
    call = make(a.path, a.threads, inputs)
    out = {"engine": a.engine, "program": os.path.basename(a.path), "threads": a.threads, "repeats": a.repeats}
    if tuples:
        call(inputs.of(tuples[0]))
    out["first_ms"] = round((time.perf_counter() - start) * 1e3, 1)
    out["tuple_us"], out["tuple_kb"] = call_tuples(call, inputs, tuples, a.repeats)
    out["churn"], out["churn_us"], out["churn_kb"] = churn(call, inputs, tuples, a.churn, a.churn_seconds)
    out["steady"], out["steady_us"] = steady(call, inputs, tuples, a.churn, a.churn_seconds)
    out["static"] = [[t, *against_static(call, make(a.path, a.threads, inputs, t), inputs.of(t), a.static_seconds)] for t in sample]
    return out


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("engine", choices=ENGINES)
    args.add_argument("path", metavar="DIR/NAME")
    args.add_argument("--threads", type=int, default=2)
    args.add_argument("--tuples", type=int)
    args.add_argument("--repeats", type=int, default=4)
    args.add_argument("--churn", type=int, default=1000, metavar="CALLS")
    args.add_argument("--churn-seconds", type=float, default=1e9)
    args.add_argument("--static", type=int)
    args.add_argument("--static-seconds", type=float, default=1)
    print(json.dumps(measure(args.parse_args())))


if __name__ == "__main__":
    main()
