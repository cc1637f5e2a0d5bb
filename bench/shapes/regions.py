#!/usr/bin/env python3
"""Short rows: programs of one fused region each, [rows, length] with both unknown, beside builds of one length and number.

`regions.py -o DIR` exports them (torch): NAME.pt2, NAME.R_L.pt2 for rows of several lengths, and two .sizes for tenon_shapes: NAME.sizes with these,
NAME.any.sizes with rows of length 3 whose number is another in every call. `regions.py --show FILE.json ...` reads what tenon_shapes
wrote: for each length the time of a build of these sizes over that of the program for all, and what calls take at first and in the end."""
import argparse, json, os, random, statistics

LENGTHS = (2, 3, 5, 8, 16, 17, 31, 64, 100, 257, 1024)
ELEMENTS = 65536


def programs():
    import torch
    from torch.nn import functional as F
    two, one = ("rows", "length"), ("length",)
    return {
        "affine": (lambda x, s, t: x * s + t, (two, one, one)),
        "softmax": (lambda x: torch.softmax(x, -1), (two,)),
        "layer_norm": (lambda x, w: F.layer_norm(x, (x.shape[-1],), w), (two, one)),
        "sums": (lambda x: x.sum(-1), (two,)),
        "column_sums": (lambda x: x.sum(0), (two,)),
        "gelu": (lambda x, y: F.gelu(x) * y, (two, two)),
        "columns": (lambda x, c: x * c[:, None], (two, ("rows",))),
        "joined": (lambda x, y: torch.cat([x, y], -1), (two, two)),
        "turned": (lambda x: (x.t() + 1).contiguous(), (two,)),
        "heads": (lambda x: x.permute(0, 2, 1, 3).contiguous(), (("rows", "length", 4, 8),)),
    }


def export(folder):
    import torch

    class Module(torch.nn.Module):
        def __init__(self, f):
            super().__init__()
            self.forward = f

    def save(f, dims, rows, length, path, dynamic):
        inputs = tuple(torch.randn([{"rows": rows, "length": length}.get(d, d) for d in shape]) for shape in dims)
        symbols = {"rows": torch.export.Dim("rows", min=2, max=1 << 22), "length": torch.export.Dim("length", min=2, max=1 << 16)}
        shapes = tuple({k: symbols[d] for k, d in enumerate(shape) if d in symbols} for shape in dims) if dynamic else None
        torch.export.save(torch.export.export(Module(f), inputs, dynamic_shapes=shapes), path)

    os.makedirs(folder, exist_ok=True)
    for name, (f, dims) in programs().items():
        path, fixed = os.path.join(folder, name), [d for d in dims[0] if not isinstance(d, str)]
        elements = ELEMENTS // (fixed[0] * fixed[1] if fixed else 1)
        save(f, dims, 48, 24, path + ".pt2", True)
        lines = ["names rows length\n"] + [" ".join(["input f32 -1 1", *map(str, shape)]) + "\n" for shape in dims]
        sample = [(max(2, elements // n), n) for n in LENGTHS]
        for rows, n in sample:
            save(f, dims, rows, n, f"{path}.{rows}_{n}.pt2", False)
        draw = random.Random(1)
        with open(path + ".sizes", "w") as out:
            out.writelines(lines + [f"static {r} {n}\n" for r, n in sample])
        with open(path + ".any.sizes", "w") as out:
            out.writelines(lines + [f"sizes {draw.randint(elements // 6, elements // 2)} 3\n" for _ in range(400)])
        print(name, flush=True)


def show(paths):
    for path in paths:
        run = json.load(open(path))
        ratios = [f"{sizes[1]}: {alone / generic:.2f} ({generic:.1f})" for sizes, generic, alone, *_ in run["static"]]
        if ratios:
            print(run["program"], "build of one over the program for all (its us):", ", ".join(ratios))
        if us := run["churn_us"]:
            print(run["program"], f"us a call, the first 400 and the last: {statistics.median(us[:400]):.1f}, {statistics.median(us[-400:]):.1f}")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("-o", metavar="DIR")
    args.add_argument("--show", nargs="*", default=[], metavar="FILE.json")
    a = args.parse_args()
    if a.o:
        export(a.o)
    show(a.show)


if __name__ == "__main__":
    main()
