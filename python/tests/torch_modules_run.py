#!/usr/bin/env python3
"""Runs the modules of torch_modules.py through torch.compile(backend="tenon") and compares with eager. torch_modules_run.py [--all] [--jobs N] [--phases P,...] [NAME...]

Each module runs in a process of its own, three times compiled: for inference; with the batch size as a symbol, which must serve another batch size
without another compile; and one step of training, whose gradients and buffers are compared. What differs from
tests/expected/torch_modules.txt fails: a new failure, and a line that is no longer needed. Without --all or names it takes QUICK.
A failure is a wrong number, an error, a stride unlike eager's, a recompile, or a node that runs in torch, other than random numbers and what dynamo
keeps for itself (graph breaks are counted only)."""
import argparse
import copy
import math
import os
import re
import sys
import time
import traceback
import warnings
from multiprocessing import connection, get_context

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXPECTED = os.path.join(ROOT, "tests/expected/torch_modules.txt")
QUICK = ["nn.Conv2d", "habit.no_tensors", "nn.EmbeddingBag", "nn.BatchNorm2d", "nn.TransformerEncoder", "loss.classes", "fn.attention", "fn.sort", "habit.buffers", "habit.cache",
         "habit.writes_inputs", "habit.aliases", "habit.kinds", "habit.autocast", "habit.branches"]
ERROR = re.compile(r"\w+(Error|Exception): ")
TOOK = re.compile(", which took .*? in this call")
SECONDS = 240  # for one module

try:
    import torch
    import torch.utils._pytree as pytree
except ImportError:
    print("SKIPPED torch: there is no torch for this Python")
    sys.exit(77)

import tenon.torch
from tenon.torch.runner import InTorch

import torch_networks  # noqa: F401: adds its cases
from torch_modules import CASES


def arguments(case, n, seed=0):
    torch.manual_seed(100 * seed + n)
    made = case.inputs(n)
    return ((), made) if isinstance(made, dict) else (made, {})


def leaves(value):
    """Tensors and numbers of a result, those of caches too."""
    made = []
    for v in pytree.tree_leaves(value):
        if hasattr(v, "layers") and not isinstance(v, torch.nn.Module):
            made += [t for layer in v.layers for t in (layer.keys, layer.values)]
        else:
            made.append(v)
    return made


def make(case):
    """The module, without dropout, which eager and the code would draw otherwise."""
    torch.manual_seed(0)
    module = case.make()
    for m in module.modules():
        for owner in (m, getattr(m, "config", None)):
            for name, value in list(getattr(owner, "__dict__", {}).items()):
                if "drop" in name and type(value) is float:
                    setattr(owner, name, 0.0)
        if isinstance(m, torch.nn.modules.dropout._DropoutNd) or type(m).__name__ == "StochasticDepth":
            m.p = 0.0
    return module


def error_of(a, b):
    """The largest difference by the largest magnitude; infinity for what does not compare."""
    a, b = a.detach(), b.detach()
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    a, b = a.double(), b.double()
    if not torch.equal(a.isfinite(), b.isfinite()) or not torch.equal(a.nan_to_num()[~a.isfinite()], b.nan_to_num()[~b.isfinite()]):
        return float("inf")
    a, b = a[a.isfinite()], b[b.isfinite()]
    return ((a - b).abs().max() / a.abs().max().clamp_min(1e-30)).item() if a.numel() else 0.0


def tolerance(dtype):
    return {torch.float32: 1e-4, torch.complex64: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float64: 1e-9}.get(dtype, 0.0)


def compare(what, expected, got, exact):
    """What differs. `exact`: gives the same in f64, for numbers that eager itself has inexactly."""
    if len(expected) != len(got):
        return [f"{what}: {len(got)} results for {len(expected)}"]
    problems, reference = [], None
    largest = max((t.detach().abs().max().item() for t in expected if isinstance(t, torch.Tensor) and t.numel() and t.is_floating_point()), default=0.0)
    for i, (a, b) in enumerate(zip(expected, got)):
        at = f"{what} {i}"
        if not isinstance(a, torch.Tensor):
            if type(a) is not type(b) or (a != b and not isinstance(a, float)) or (isinstance(a, float) and abs(a - b) > 1e-5 * abs(a)):
                problems.append(f"{at}: {b!r} for {a!r}")
            continue
        if not isinstance(b, torch.Tensor) or a.dtype != b.dtype or a.shape != b.shape:
            problems.append(f"{at}: {getattr(b, 'dtype', type(b))}{list(getattr(b, 'shape', []))} for {a.dtype}{list(a.shape)}")
            continue
        if a.numel() and not torch._prims_common.check_all_strides(a, b)[0]:
            problems.append(f"{at}: strides {b.stride()} for {a.stride()}, sizes {list(a.shape)}")
        error = error_of(a, b)
        if error > tolerance(a.dtype):
            if a.dtype in (torch.float32, torch.float64) and error * a.detach().abs().max().item() < 8 * torch.finfo(a.dtype).eps * largest:
                continue  # what rounding left of a zero
            reference = exact() if reference is None else reference
            if not (a.dtype.is_floating_point and len(reference) == len(expected) and isinstance(reference[i], torch.Tensor) and error_of(reference[i], b) < 4 * error_of(reference[i], a) + 1e-5):
                problems.append(f"{at}: wrong by {error:.2g} of the largest")
    return problems


def in_f64(tree):
    return pytree.tree_map(lambda v: v.double() if isinstance(v, torch.Tensor) and v.dtype in (torch.float32, torch.bfloat16, torch.float16) else v, tree)


def mark(small, large):
    """Marks the dims in which two sets of arguments differ."""
    for a, b in zip(pytree.tree_leaves(small), pytree.tree_leaves(large)):
        if isinstance(a, torch.Tensor):
            for d in range(a.dim()):
                if a.shape[d] != b.shape[d]:
                    torch._dynamo.mark_dynamic(a, d)


BACKEND = {"backend": tenon.torch.backend, "options": {"strict": False}}


def compiled(module):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return torch.compile(module, **BACKEND)


def run(module, call, n, case, dynamic=False):
    """Results, then arguments as they are afterwards, and buffers."""
    args, kwargs = arguments(case, n)
    if dynamic:
        mark((args, kwargs), arguments(case, n + 2))
    with torch.no_grad():
        out = call(*args, **kwargs)
    return leaves(out) + [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)] + list(module.buffers())


def eager(case, n):
    module = make(case).eval()
    return run(module, module, n, case)


def eager_in_f64(case, sizes):
    def made():
        try:
            module, results = make(case).eval().double(), None
            for n in sizes:
                args, kwargs = in_f64(arguments(case, n))
                with torch.no_grad():
                    results = leaves(module(*args, **kwargs))
            return results + [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)] + list(module.buffers())
        except Exception:  # some modules have their dtype in their code
            return []

    return made


def test_inference(case):
    module = make(case).eval()
    expected = eager(case, 2)
    return compare("result", expected, run(module, compiled(module), 2, case), eager_in_f64(case, [2]))


def test_batches(case):
    module, plain = make(case).eval(), make(case).eval()
    call = compiled(module)
    problems = []
    for k, n in enumerate((3, 5)):
        expected = run(plain, plain, n, case)
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        problems += compare(f"batch {n}", expected, run(module, call, n, case, dynamic=k == 0), eager_in_f64(case, (3, 5)[:k + 1]))
        if k and torch._dynamo.utils.counters["stats"]["unique_graphs"] != graphs:
            problems.append("batch 5: compiled again")
    return problems


STEP = ("training", "gradient", "buffer")


def step(module, call, case, convert=lambda v: v, seed=0):
    """Results of a step of training, gradients of parameters and inputs, and buffers."""
    args, kwargs = convert(arguments(case, 2, seed))
    given = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor) and v.is_floating_point() and case.package != "transformers"]
    for v in given:
        v.requires_grad_()
    out = leaves(call(*args, **kwargs))
    terms = [v for v in out if isinstance(v, torch.Tensor) and v.requires_grad]
    if terms:
        sum((v.abs() if v.is_complex() else v).to(torch.float64).mul(torch.arange(v.numel(), dtype=torch.float64).cos().view(v.shape)).sum() for v in terms).backward()
    grads = [p.grad for p in [*module.parameters(), *given]]
    return out, grads, [b.clone() for b in module.buffers()]


def distance(exact, got):
    """How far gradients or buffers are from those in f64, each by its own norm: the root of the mean square. Those that are zero but for rounding do not count."""
    pairs = [(e, g.double()) for e, g in zip(exact, got) if e is not None and g is not None and e.is_floating_point()]
    largest = max(e.norm().item() for e, _ in pairs)
    errors = [((g - e).norm() / e.norm()).item() for e, g in pairs if e.norm().item() > 1e-6 * largest]
    return max((sum(error * error for error in errors) / len(errors)) ** 0.5, 1e-12)


def excused(case, what):
    """A note where gradients or buffers differ in f32 for a cause that eager has too, such as ReLUs at zero or a batch of two being normalized. Then the same step agrees in f64 to
    1e-8 of the largest; and in f32, where one ReLU more or less at zero makes all of the difference, the distance from f64 is at most three times eager's as the geometric mean of
    five inputs. Else None."""
    def made(compile_it, convert=lambda v: v):
        module = make(case).train()
        module = module.double() if convert is in_f64 else module
        call, state = compiled(module) if compile_it else module, copy.deepcopy(module.state_dict())

        def values(seed):
            module.load_state_dict(state)
            module.zero_grad()
            return step(module, call, case, convert, seed)[STEP.index(what)]

        return values

    in_full = made(False, in_f64)
    exact = in_full(0)
    pairs = [(e, o) for e, o in zip(exact, made(True, in_f64)(0)) if e is not None and e.numel() and e.is_floating_point()]
    worst = max((e - o).abs().max().item() for e, o in pairs) / max(e.abs().max().item() for e, _ in pairs)
    if worst >= 1e-8:
        return None
    eager, here, logs = made(False), made(True), []
    for seed in range(5):
        exact = in_full(seed)
        logs.append(math.log(distance(exact, here(seed)) / distance(exact, eager(seed))))
    ratio = math.exp(sum(logs) / len(logs))
    if ratio > 3:
        return None
    return f"note: {what}s in f32 are {ratio:.2g} times as far from those in f64 as eager's, over five inputs; in f64 they agree to {worst:.1g}"


def test_training(case):
    module, plain = make(case).train(), make(case).train()
    expected = step(plain, plain, case)

    def exact(which):
        def made():
            try:
                module = make(case).train().double()
                return step(module, module, case, in_f64)[which]
            except Exception:
                return []

        return made

    got = step(module, compiled(module), case)
    problems = {what: compare(what, expected[which], got[which], exact(which)) for which, what in enumerate(STEP)}
    for what in STEP[1:]:
        if problems[what] and all("wrong by" in p for p in problems[what]) and (note := excused(case, what)):
            problems[what] = [note]
    return [p for found in problems.values() for p in found]


PHASES = {"inference": (test_inference, lambda case: True), "batches": (test_batches, lambda case: case.batches), "training": (test_training, lambda case: case.train)}


def attempt(phase, case):
    """The problems of a phase, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            problems = phase(case)
        except Exception as e:
            last = traceback.extract_tb(e.__traceback__)[-1]
            text = " ".join(str(e).strip().split("\n")[:4])[:400]
            problems = [f"{type(e).__name__}: {text} ({os.path.basename(last.filename)}:{last.lineno})"]
    return problems + [TOOK.sub("", str(w.message)) for w in caught if issubclass(w.category, InTorch)]


def test(name, phases):
    """Problems, notes and seconds of one module. A difference that torch's own "aot_eager" has too is a note; an error never is."""
    case, problems, notes, start = CASES[name], [], [], time.time()
    torch.set_num_threads(1)
    for phase in phases:
        function, is_tried = PHASES[phase]
        if not is_tried(case):
            continue
        found = attempt(function, case)
        notes += [f"{phase}: {p[6:]}" for p in found if p.startswith("note: ")]
        found = [p for p in found if not p.startswith("note: ")]
        breaks = torch._dynamo.utils.counters["graph_break"]
        notes += [f"{phase}: {sum(breaks.values())} graph breaks: {'; '.join(sorted({r.strip().splitlines()[0][:60] for r in breaks}))}"] if breaks else []
        if found:
            ours = dict(BACKEND)
            BACKEND.clear()
            BACKEND["backend"] = "aot_eager"
            without = {p.split(": ")[0] for p in attempt(function, case)}
            BACKEND.clear()
            BACKEND.update(ours)
            same = [p for p in found if p.split(": ")[0] in without and not ERROR.match(p)]
            notes += [f"{phase}: without tenon too: {p}" for p in same]
            problems += [f"{phase}: {p}" for p in found if p not in same]
    return problems, notes, time.time() - start


def work(name, phases, pipe):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    pipe.send(test(name, phases))
    pipe.close()


def test_all(names, phases, jobs):
    """Gives (name, (problems, notes, seconds)) as they end."""
    context, waiting, running = get_context("fork"), list(names), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            receive, send = context.Pipe(False)
            process = context.Process(target=work, args=(name, phases, send))
            process.start()
            send.close()
            running[receive] = name, process, time.time() + SECONDS
        for pipe in connection.wait(list(running), 1):
            name, process, _ = running.pop(pipe)
            try:
                yield name, pipe.recv()
            except EOFError:
                process.join()
                yield name, ([f"the process ended with {process.exitcode}"], [], 0.0)
            process.join()
        for pipe, (name, process, end) in list(running.items()):
            if time.time() > end:
                process.kill()
                process.join()
                del running[pipe]
                yield name, ([f"no end after {SECONDS} s"], [], SECONDS)


def read_expected():
    return dict(line.rstrip("\n").split("  ", 1) for line in open(EXPECTED)) if os.path.exists(EXPECTED) else {}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="modules, or the beginnings of their names")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--phases", type=lambda text: text.split(","), default=list(PHASES), help="some of inference,batches,training")
    options = parser.parse_args()
    names = [n for n in CASES if any(n.startswith(s) for s in options.names)] if options.names else list(CASES) if options.all else [n for n in CASES if n in QUICK]
    for package in {CASES[n].package for n in names} & {"torchvision", "timm", "transformers"}:
        __import__(package)  # once, before the processes are made
    known, failed, unexpected = read_expected(), [], []
    for name, (problems, notes, seconds) in test_all(names, options.phases, options.jobs):
        print(f"{'ok' if not problems else 'FAILED':6} {seconds:5.1f} s  {name}", flush=True)
        for line in [*problems, *notes]:
            print(f"         {line[:1000]}", flush=True)
        failed += [name] if problems else []
        if bool(problems) != (name in known):
            unexpected.append(name)
    print(f"{len(names) - len(failed)} of {len(names)} modules run and match, {100 * (1 - len(failed) / max(1, len(names))):.1f}%")
    for name in unexpected:
        print(f"{name}: {'runs and matches: take it out of' if name in known else 'a failure that is not in'} tests/expected/torch_modules.txt")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
