#!/usr/bin/env python3
"""Exports custom.pt2 beside this file: a program that calls the operators of library.cpp (torch 2.15)."""
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


def save(name, prefix, values):
    np.savez(os.path.join(HERE, name), **{f"{prefix}{k}": v.numpy() for k, v in enumerate(values)})


torch.manual_seed(0)
n = torch.export.Dim("n", min=3)
program = torch.export.export(Model(), (torch.randn(5), torch.randn(5)), dynamic_shapes=({0: n}, {0: n}))
for node in program.graph.nodes:
    if trace := node.meta.get("stack_trace"):  # the same bytes wherever torch and this file are installed
        node.meta["stack_trace"] = re.sub(r'File "[^"]*?/(?=torch/|export[.]py")', 'File "', trace)
torch.export.save(program, os.path.join(HERE, "custom.pt2"))
for k, size in enumerate((5, 12, 3)):
    inputs = torch.randn(size), torch.randn(size)
    suffix = f".{k + 1}" if k else ""
    save(f"custom{suffix}.inputs.npz", "arg", inputs)
    save(f"custom{suffix}.expected.npz", "out", Model()(*inputs))
