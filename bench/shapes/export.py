#!/usr/bin/env python3
"""Exports the programs: DIR/NAME.pt2 and .onnx with sizes that vary, a .pt2 for each size of the sample, and DIR/NAME.sizes.

NAME.sizes is lines of words: `names` of the sizes, an `input` for each tensor (dtype, least value, bound of values, dimensions), `static` for
the sample of sizes that are exported alone as NAME.A_B.pt2, `sizes` for all that are measured, in order."""
import argparse, os, random
from programs import PROGRAMS, example, module


def parse_range(text):
    name, _, bounds = text.partition("=")
    low, _, high = bounds.partition(":")
    return name, (int(low), int(high))


def export(model, program, sizes, path, dynamic):
    import torch
    shapes = None
    if dynamic:
        dims = {n: torch.export.Dim(n, min=low, max=high) for n, (low, high) in program.ranges.items()}
        shapes = tuple({k: dims[d] for k, d in enumerate(i.dims) if d in dims} for i in program.inputs)
    exported = torch.export.export(model, example(program, sizes), dynamic_shapes=shapes)
    torch.export.save(exported, path + ".pt2")
    if dynamic:
        torch.onnx.export(exported, dynamo=True, verbose=False).save(path + ".onnx", external_data=True)


def write_sizes(program, tuples, sample, path):
    def line(*words):
        return " ".join(str(w) for w in words) + "\n"

    with open(path, "w") as f:
        f.write(line("names", *program.ranges))
        f.writelines(line("input", i.dtype, i.low, i.high, *i.dims) for i in program.inputs)
        f.writelines(line("static", *t) for t in sample)
        f.writelines(line("sizes", *t) for t in tuples)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("names", nargs="*", default=list(PROGRAMS))
    args.add_argument("-o", required=True, metavar="DIR")
    args.add_argument("--tuples", type=int, default=1000)
    args.add_argument("--static", type=int, default=12, metavar="N", help="sizes that are exported alone")
    args.add_argument("--range", action="append", default=[], metavar="SIZE=LOW:HIGH")
    args.add_argument("--only-sizes", action="store_true", help="write NAME.sizes again; the programs are there")
    a = args.parse_args()
    os.makedirs(a.o, exist_ok=True)
    for name in a.names:
        program, path = PROGRAMS[name], os.path.join(a.o, name)
        program.ranges.update((n, r) for n, r in map(parse_range, a.range) if n in program.ranges)
        tuples = program.tuples(a.tuples)
        sample = sorted(random.Random(2).sample(tuples, min(a.static, len(tuples))))
        write_sizes(program, tuples, sample, path + ".sizes")
        if a.only_sizes:
            continue
        model = module(name)
        export(model, program, next(t for t in tuples if min(t) > 1), path, dynamic=True)
        for t in sample:
            export(model, program, t, path + "." + "_".join(map(str, t)), dynamic=False)
        print(name, len(tuples), "tuples,", len(sample), "of them static", flush=True)


if __name__ == "__main__":
    main()
