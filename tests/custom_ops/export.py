#!/usr/bin/env python3
"""Exports custom.pt2 and forms.pt2 beside this file: programs that call the operators of library.cpp (torch 2.15)."""
import os, re
import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))


@torch.library.custom_op("tested::outer", mutates_args=())
def outer(x: torch.Tensor, y: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return torch.outer(x, y) * scale


@torch.library.custom_op("tested::bump", mutates_args={"x"})
def bump(x: torch.Tensor, by: int) -> torch.Tensor:
    positive = (x > 0).sum()
    x += by
    return positive


@torch.library.custom_op("tested::gate", mutates_args=())
def gate(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return x * torch.sigmoid(scale * y) + 0.5


@torch.library.custom_op("tested::named", mutates_args=())
def named(x: torch.Tensor, mode: str, dtype: torch.dtype, device: torch.device | None = None, tag: str | None = None,
          sizes: list[int] | None = None) -> torch.Tensor:
    return x.to(dtype) * len(mode) + (0 if tag is None else len(tag)) + sum(sizes or [])


@torch.library.custom_op("tested::parts", mutates_args=())
def parts(x: torch.Tensor, n: int) -> list[torch.Tensor]:
    return [t.clone() for t in x.chunk(n)]


@torch.library.custom_op("tested::positive", mutates_args=())
def positive(x: torch.Tensor) -> int:
    return int((x > 0).sum())


@torch.library.custom_op("tested::half", mutates_args=())
def half(x: torch.Tensor) -> int:
    return x.shape[0] // 2


@torch.library.custom_op("tested::clear", mutates_args={"x"})
def clear(x: torch.Tensor) -> int:
    positive = int((x > 0).sum())
    x.zero_()
    return positive


named.register_fake(lambda x, mode, dtype, device=None, tag=None, sizes=None: torch.empty_like(x, dtype=dtype))
parts.register_fake(lambda x, n: [x.new_empty(x.shape[0] // n, x.shape[1]) for _ in range(n)])
positive.register_fake(lambda x: torch.library.get_ctx().new_dynamic_size())
half.register_fake(lambda x: x.shape[0] // 2)
clear.register_fake(lambda x: torch.library.get_ctx().new_dynamic_size())
outer.register_fake(lambda x, y, scale=1.0: x.new_empty(x.shape[0], y.shape[0]))
bump.register_fake(lambda x, by: x.new_empty((), dtype=torch.int64))
gate.register_fake(lambda x, y, scale: torch.empty_like(x))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3, 4))

    def forward(self, x, y):
        z = torch.tanh(gate(x * 2, y, 1.5)) - x
        copy = z.clone()
        positive = bump(copy[1:], 3)
        bump(self.seen, 2)
        return outer(copy, y, 0.25) @ y, positive, copy, self.seen.sum()


class Forms(torch.nn.Module):
    def forward(self, x):
        a, b = parts(x, 2)
        rows, k = half(x), positive(x)
        copy = x + 1
        c = clear(copy)
        texts = named(x, "fast", torch.float64, torch.device("cpu"), None, [1, 2]) + named(x, "off", torch.float32, tag="t")
        return texts, a - b, x[:rows] * 2, torch.zeros(k) + 1, k, torch.arange(c), copy


def save(name, prefix, values):
    np.savez(os.path.join(HERE, name), **{f"{prefix}{k}": np.asarray(v) for k, v in enumerate(values)})


def export(name, model, inputs, sizes):
    program = torch.export.export(model, inputs[0], dynamic_shapes=({0: sizes},) * len(inputs[0]))
    for node in program.graph.nodes:
        if trace := node.meta.get("stack_trace"):  # the same bytes wherever torch and this file are installed
            node.meta["stack_trace"] = re.sub(r'File "[^"]*?/(?=torch/|export[.]py")', 'File "', trace)
    torch.export.save(program, os.path.join(HERE, f"{name}.pt2"))
    for k, given in enumerate(inputs):
        suffix = f".{k + 1}" if k else ""
        save(f"{name}{suffix}.inputs.npz", "arg", given)
        save(f"{name}{suffix}.expected.npz", "out", type(model)()(*given))


torch.manual_seed(0)
Dim = torch.export.Dim
export("custom", Model(), [(torch.randn(n), torch.randn(n)) for n in (5, 12, 3)], Dim("n", min=3))
export("forms", Forms(), [(torch.randn(n, 3),) for n in (6, 10, 4)], 2 * Dim("m", min=2))
