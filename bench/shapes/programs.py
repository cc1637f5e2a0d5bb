"""The programs whose sizes vary: modules with random weights, how each input is drawn, and which sizes are measured.

PROGRAMS[name] is a Program: `make()` gives the module, `ranges` the sizes by name with their bounds, `most` bounds their product, and
`inputs` says of each tensor its dtype, its values (at least low, below high) and its dimensions: numbers, or names of sizes."""
import dataclasses, os, random

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@dataclasses.dataclass
class Input:
    name: str
    dtype: str
    low: int
    high: int
    dims: tuple


@dataclasses.dataclass
class Program:
    make: object
    ranges: dict
    inputs: tuple
    most: int = 0  # 0: the product of all sizes is not bounded
    multiple: int = 1

    def tuples(self, count, seed=1):
        """Up to `count` different tuples in random order. The second is the largest: what grows after it does not grow for its sake."""
        draw = random.Random(seed)
        values = [range(-(-low // self.multiple) * self.multiple, high + 1, self.multiple) for low, high in self.ranges.values()]
        seen = {}
        for _ in range(200 * count):
            sizes = tuple(draw.choice(v) for v in values)
            if len(seen) < count and (not self.most or product(sizes) <= self.most):
                seen[sizes] = None
        found = list(seen)
        largest = max(range(len(found)), key=lambda i: product(found[i]))
        found.insert(1, found.pop(largest))
        return found


def product(sizes):
    p = 1
    for s in sizes:
        p *= s
    return p


def bert():
    import torch
    from transformers import BertConfig, BertModel

    class Bert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = BertModel(BertConfig(attn_implementation="sdpa"))

        def forward(self, input_ids, attention_mask):
            out = self.model(input_ids=input_ids, attention_mask=attention_mask)
            return out.last_hidden_state, out.pooler_output

    return Bert()


def resnet50():
    import torchvision
    return torchvision.models.resnet50(weights=None)


def dlrm(rows=50000, width=64, tables=8):
    """Sums of 10 embeddings for each of the tables, an MLP of the dense features, products of all pairs, an MLP on top. The sums are gathers
    and reductions: of an embedding bag the export to ONNX makes a loop."""
    import torch
    from torch import nn

    def mlp(*widths):
        return nn.Sequential(*[layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())])

    class Dlrm(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])
            self.bottom = mlp(13, 512, 256, width)
            n = tables + 1
            i, j = torch.tril_indices(n, n, -1)
            self.register_buffer("pairs", i * n + j)
            self.top = nn.Sequential(*list(mlp(width + n * (n - 1) // 2, 512, 256, 1))[:-1])

        def forward(self, dense, ids):
            z = self.bottom(dense)
            t = torch.stack([z] + [table(ids[k]).sum(1) for k, table in enumerate(self.tables)], 1)
            p = torch.bmm(t, t.transpose(1, 2)).flatten(1)[:, self.pairs]
            return torch.sigmoid(self.top(torch.cat([z, p], 1)))

    return Dlrm()


PROGRAMS = {
    "bert": Program(bert, {"batch": (1, 32), "seq": (1, 256)},
                    (Input("input_ids", "i64", 0, 30522, ("batch", "seq")), Input("attention_mask", "i64", 1, 2, ("batch", "seq"))), most=256),
    "resnet50": Program(resnet50, {"height": (33, 224), "width": (33, 224)}, (Input("x", "f32", -1, 1, (1, 3, "height", "width")),)),
    "dlrm": Program(dlrm, {"batch": (1, 1024)}, (Input("dense", "f32", -1, 1, ("batch", 13)), Input("ids", "i64", 0, 50000, (8, "batch", 10)))),
}


def module(name):
    import torch
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    return PROGRAMS[name].make().eval().requires_grad_(False)


def example(program, sizes):
    """Inputs of the given sizes, in a fixed order of the names of `ranges`."""
    import torch
    value = dict(zip(program.ranges, sizes))
    out = []
    for i in program.inputs:
        shape = [value.get(d, d) for d in i.dims]
        out.append(torch.rand(shape) * (i.high - i.low) + i.low if i.dtype == "f32" else torch.randint(i.low, i.high, shape))
    return tuple(out)
