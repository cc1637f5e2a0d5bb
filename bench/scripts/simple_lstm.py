"""simple_lstm of the document of 2018, hidden size 512, 50 steps, for against_torch.py: by batch."""
import torch
from typing import Tuple


def lstm_cell(input, hidden, w_ih, w_hh, b_ih, b_hh):
    # type: (Tensor, Tuple[Tensor, Tensor], Tensor, Tensor, Tensor, Tensor) -> Tuple[Tensor, Tensor]
    hx, cx = hidden
    gates = torch.mm(input, w_ih.t()) + torch.mm(hx, w_hh.t()) + b_ih + b_hh
    ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
    cy = torch.sigmoid(forgetgate) * cx + torch.sigmoid(ingate) * torch.tanh(cellgate)
    return torch.sigmoid(outgate) * torch.tanh(cy), cy


def simple_lstm(input, hidden, wih, whh, bih, bhh):
    # type: (Tensor, Tuple[Tensor, Tensor], Tensor, Tensor, Tensor, Tensor) -> Tuple[Tensor, Tensor]
    outputs = []
    inputs = input.unbind(0)
    for seq_idx in range(len(inputs)):
        hidden = lstm_cell(inputs[seq_idx], hidden, wih, whh, bih, bhh)
        hy, _ = hidden
        outputs.append(hy)
    return hidden


def batch_1(input, hidden: Tuple[torch.Tensor, torch.Tensor], wih, whh, bih, bhh):
    return simple_lstm(input, hidden, wih, whh, bih, bhh)


def batch_4(input, hidden: Tuple[torch.Tensor, torch.Tensor], wih, whh, bih, bhh):
    return simple_lstm(input, hidden, wih, whh, bih, bhh)


def batch_16(input, hidden: Tuple[torch.Tensor, torch.Tensor], wih, whh, bih, bhh):
    return simple_lstm(input, hidden, wih, whh, bih, bhh)


def batch_64(input, hidden: Tuple[torch.Tensor, torch.Tensor], wih, whh, bih, bhh):
    return simple_lstm(input, hidden, wih, whh, bih, bhh)


def arguments():
    g = torch.Generator().manual_seed(0)
    r = lambda *s: torch.randn(*s, generator=g) * 0.05
    weights = r(2048, 512), r(2048, 512), r(2048), r(2048)
    return {f"batch_{n}": (r(50, n, 512), (r(n, 512), r(n, 512)), *weights) for n in (1, 4, 16, 64)}
