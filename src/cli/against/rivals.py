"""rivals.py convert|serve RIVAL JOB.json FD: one engine beside tenon, in a process of its own.

`convert` writes the program in the engine's own format into the job's folder. `serve` loads that, gives its first result, and then measures
for as many seconds as each line of stdin says. Both answer on the file descriptor FD, a JSON object a line.

A rival is a row of RIVALS, or a Python file of the user's with the same names at its top: `needs`, the modules that it imports; `convert(job)`,
which may be missing; `load(job)`, which gives a function without arguments that runs the program once, on inputs that it has by then."""
import dataclasses, importlib.util, json, os, resource, sys, time, traceback


class Job:
    """What is to be run: the program's file, its inputs, how many threads; and a folder for what is made of it."""

    def __init__(self, path):
        with open(path) as file:
            self.__dict__.update(json.load(file))

    def path(self, name):
        return os.path.join(self.folder, name)

    def arrays(self):
        """The inputs, flattened, as numpy has them: numbers are 0-d arrays, bf16 is its bits in u16."""
        import numpy as np
        with np.load(self.inputs) as file:
            return [file[n] for n in file.files]

    def named(self, names):
        """The inputs for an engine that calls them by `names`, in this order or as the exported program does."""
        arrays = self.arrays()
        try:
            with open(self.path("names.json")) as file:
                by_name = dict(zip(json.load(file), arrays))
        except FileNotFoundError:
            by_name = {}
        if all(n in by_name for n in names):
            return [by_name[n] for n in names]
        if len(names) != len(arrays):
            raise ValueError(f"the converted program has {len(names)} inputs instead of {len(arrays)}")
        return arrays

    def torch(self):
        import torch
        torch.set_num_threads(self.threads)
        torch.set_grad_enabled(False)
        return torch

    def program(self):
        """(ExportedProgram, args, kwargs)"""
        torch = self.torch()
        program = torch.export.load(self.model)
        leaves, rest, names = [], iter(self.arrays()), []
        kinds = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
        for spec in program.graph_signature.input_specs:
            if spec.kind.name != "USER_INPUT":
                continue
            value = getattr(spec.arg, "value", None)
            if type(spec.arg).__name__ == "ConstantArgument" and (value is None or isinstance(value, str)):
                leaves.append(value)
                continue
            array = next(rest)
            names.append(spec.arg.name)
            kind = kinds.get(spec.arg.name)
            if isinstance(kind, torch.Tensor):
                tensor = torch.from_numpy(array.copy())
                leaves.append(tensor if tensor.dtype == kind.dtype else tensor.view(kind.dtype))
            else:
                leaves.append(array.item())
        with open(self.path("names.json"), "w") as file:
            json.dump(names, file)
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, program.call_spec.in_spec)
        return program, args, kwargs


def load_eager(job):
    program, args, kwargs = job.program()
    module = program.module()
    return lambda: module(*args, **kwargs)


def load_inductor(job):
    torch = job.torch()
    import torch._inductor.config
    torch._inductor.config.freezing = True
    program, args, kwargs = job.program()
    module = torch.compile(program.module())
    return lambda: module(*args, **kwargs)


def convert_aoti(job):
    torch = job.torch()
    torch._inductor.aoti_compile_and_package(job.program()[0], package_path=job.path("aoti.pt2"), inductor_configs={"freezing": True})


def load_aoti(job):
    torch = job.torch()
    _, args, kwargs = job.program()
    module = torch._inductor.aoti_load_package(job.path("aoti.pt2"))
    return lambda: module(*args, **kwargs)


def convert_ort(job):
    torch = job.torch()
    torch.onnx.export(job.program()[0], dynamo=True, verbose=False).save(job.path("model.onnx"), external_data=True)


def load_ort(job):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = job.threads, 1, 3
    session = ort.InferenceSession(job.path("model.onnx"), options, providers=["CPUExecutionProvider"])
    bound = session.io_binding()  # quicker than run(): no copies, no look-up of names
    names = [i.name for i in session.get_inputs()]
    for name, array in zip(names, job.named(names)):
        bound.bind_cpu_input(name, array)
    for output in session.get_outputs():
        bound.bind_output(output.name)

    def call():
        session.run_with_iobinding(bound)
        return bound.get_outputs()
    return call


def convert_openvino(job):
    import openvino
    openvino.save_model(openvino.convert_model(job.program()[0]), job.path("model.xml"), compress_to_fp16=False)


def load_openvino(job):
    import openvino as ov, openvino.properties as properties, openvino.properties.hint as hint
    core = ov.Core()
    settings = {hint.performance_mode(): hint.PerformanceMode.LATENCY, hint.inference_precision(): ov.Type.f32, properties.inference_num_threads(): job.threads}
    model = core.compile_model(core.read_model(job.path("model.xml")), "CPU", settings)
    request = model.create_infer_request()
    arrays = job.named([i.any_name if i.names else "" for i in model.inputs])
    for i, array in enumerate(arrays):
        request.set_input_tensor(i, ov.Tensor(array, shared_memory=True))

    def call(held=(arrays, core, model)):
        request.infer()
        return [request.get_output_tensor(i) for i in range(len(model.outputs))]
    return call


def convert_executorch(job):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    made = to_edge_transform_and_lower(job.program()[0], partitioner=[XnnpackPartitioner()]).to_executorch()
    with open(job.path("model.pte"), "wb") as file:
        made.write_to_file(file)


def load_executorch(job):
    torch = job.torch()
    from executorch.runtime import Runtime
    try:
        from executorch.extension.threadpool import _threadpool  # not in every build
        _threadpool.set_num_threads(job.threads)
    except ImportError:
        pass
    _, args, kwargs = job.program()
    leaves = torch.utils._pytree.tree_leaves((args, kwargs))
    program = Runtime.get().load_program(job.path("model.pte"))
    method = program.load_method("forward")
    return lambda held=program: method.execute(leaves)


@dataclasses.dataclass
class Rival:
    needs: list
    load: callable
    convert: callable = None
    what: str = ""


RIVALS = {
    "ort": Rival(["onnxruntime", "onnx", "onnxscript", "torch"], load_ort, convert_ort, "ONNX Runtime, exported by torch.onnx, bound inputs"),
    "openvino": Rival(["openvino", "torch"], load_openvino, convert_openvino, "OpenVINO, f32, latency mode"),
    "eager": Rival(["torch"], load_eager, None, "PyTorch, the exported module operator by operator"),
    "inductor": Rival(["torch"], load_inductor, None, "torch.compile with freezing, compiled in the process"),
    "aoti": Rival(["torch"], load_aoti, convert_aoti, "AOTInductor with freezing, packaged before"),
    "executorch": Rival(["executorch", "torch"], load_executorch, convert_executorch, "ExecuTorch with XNNPACK"),
}


def find(name):
    """A row of RIVALS, or a file as one."""
    if not name.endswith(".py"):
        return RIVALS[name]
    spec = importlib.util.spec_from_file_location("rival", name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Rival(list(getattr(module, "needs", [])), module.load, getattr(module, "convert", None), (module.__doc__ or name).split("\n")[0])


def arrays_of(result):
    """The leaves of a result as numpy's arrays, floats in at least 32 bits."""
    import numpy as np
    if isinstance(result, dict):
        return [a for v in result.values() for a in arrays_of(v)]
    if isinstance(result, (list, tuple)):
        return [a for v in result for a in arrays_of(v)]
    if dataclasses.is_dataclass(result):
        return [a for f in dataclasses.fields(result) for a in arrays_of(getattr(result, f.name))]
    if result is None or isinstance(result, str):
        return []
    if type(result).__module__.startswith("torch"):
        result = result.detach()
        result = (result.float() if result.is_floating_point() and result.itemsize < 4 else result).resolve_conj().resolve_neg().numpy()
    elif not isinstance(result, np.ndarray) and hasattr(result, "numpy"):
        result = result.numpy()
    elif hasattr(result, "data") and not isinstance(result, (np.ndarray, np.generic)):
        result = result.data
    return [np.array(result)]


def difference(got, path):
    """The largest |difference| over the largest magnitude of a result, against what tenon wrote; or a text where they cannot be compared."""
    import numpy as np
    with np.load(path) as file:
        wants = [file[n] for n in file.files]
    if len(got) != len(wants):
        return f"{len(got)} results instead of {len(wants)}"
    worst = 0.0
    for i, (g, w) in enumerate(zip(got, wants)):
        if w.dtype == np.uint16 and g.dtype.kind == "f":
            w = (w.astype(np.uint32) << 16).view(np.float32)  # bf16
        if g.size != w.size or (g.shape != w.shape and g.size != 1):
            return f"result {i} is {list(g.shape)} instead of {list(w.shape)}"
        kind = complex if w.dtype.kind == "c" else float
        g, w = g.reshape(w.shape).astype(kind), w.astype(kind)
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        if np.isfinite(w[~same]).all() and np.isfinite(g[~same]).all():
            largest = np.abs(w[np.isfinite(w)]).max(initial=0)
            worst = max(worst, float(np.abs(g - w)[~same].max(initial=0) / max(largest, 1e-30)))
        else:
            return f"result {i} is infinite or no number in other places"
    return worst


def cpu_seconds():
    """(of all processes of the machine, of this one with its children)"""
    with open("/proc/stat") as file:
        ticks = [int(x) for x in file.readline().split()[1:9]]
    own = sum(r.ru_utime + r.ru_stime for r in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), own


def others(before, after, seconds):
    """Cores that other processes used between two cpu_seconds()."""
    return max(0.0, (after[0] - before[0] - after[1] + before[1]) / seconds)


def measure(call, seconds):
    """Milliseconds of many runs, after some for a tenth of the time."""
    end = time.perf_counter() + seconds / 10
    call()
    while time.perf_counter() < end:
        call()
    times, cpu, start = [], cpu_seconds(), time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    busy = others(cpu, cpu_seconds(), time.perf_counter() - start)
    times.sort()
    return {"median_ms": times[len(times) // 2], "min_ms": times[0], "p90_ms": times[len(times) * 9 // 10], "runs": len(times), "other_cores": busy,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def serve(rival, job, started, say):
    call = rival.load(job)
    result = call()
    first = (time.monotonic() - started) * 1e3
    say({"first_result_ms": first, "difference": difference(arrays_of(result), job.outputs)})
    for line in sys.stdin:
        say(measure(call, float(line)))


def main():
    mode, name, path, fd, started = sys.argv[1:]
    with os.fdopen(int(fd), "w") as out:
        def say(answer):
            out.write(json.dumps(answer) + "\n")
            out.flush()
        try:
            rival, job = find(name), Job(path)
            if mode == "convert":
                rival.convert(job)
                say({})
            else:
                serve(rival, job, float(started), say)
        except BaseException as e:
            traceback.print_exc()
            lines = [line for line in str(e).split("\n") if line.strip()] or [""]
            say({"error": f"{type(e).__name__}: {lines[0].strip()}"[:300]})
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
