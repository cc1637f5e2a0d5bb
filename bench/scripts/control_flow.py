"""Twenty small functions with control flow, of the kinds that scripts are written for. Each is followed by what it is called with."""
import torch
from typing import Dict, List, Optional, Tuple


def clip_norm(x: torch.Tensor, limit: float) -> torch.Tensor:
    n = x.norm()
    if float(n) > limit:
        x = x * (limit / n)
    return x


def newton_sqrt(x: torch.Tensor, steps: int) -> torch.Tensor:
    y = x * 0.5 + 0.5
    for _ in range(steps):
        y = 0.5 * (y + x / y)
    return y


def power_iteration(a: torch.Tensor, v: torch.Tensor, steps: int) -> torch.Tensor:
    for _ in range(steps):
        v = torch.mv(a, v)
        v = v / v.norm()
    return v


def while_converge(x: torch.Tensor) -> torch.Tensor:
    n = 0
    while bool((x.abs() > 1e-3).any()) and n < 50:
        x = x * 0.7
        n += 1
    return x


def gated(x: torch.Tensor, h: torch.Tensor, w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    z = torch.sigmoid(x @ w)
    c = torch.tanh(h @ u)
    return z * h + (1 - z) * c


def rnn(xs: torch.Tensor, h: torch.Tensor, w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    for i in range(xs.size(0)):
        h = torch.tanh(xs[i] @ w + h @ u)
    return h


def mlp_layers(x: torch.Tensor, ws: List[torch.Tensor], relu: bool) -> torch.Tensor:
    for w in ws:
        x = x @ w
        if relu:
            x = torch.relu(x)
        else:
            x = torch.tanh(x)
    return x


def horner(x: torch.Tensor, coefficients: List[float]) -> torch.Tensor:
    y = torch.zeros_like(x)
    for c in coefficients:
        y = y * x + c
    return y


def cumulative(x: torch.Tensor) -> torch.Tensor:
    out: List[torch.Tensor] = []
    s = torch.zeros_like(x[0])
    for i in range(x.size(0)):
        s = s + x[i]
        out.append(s)
    return torch.stack(out)


def beam_scores(logits: torch.Tensor, bias: Optional[torch.Tensor]) -> Tuple[torch.Tensor, torch.Tensor]:
    if bias is not None:
        logits = logits + bias
    p = torch.log_softmax(logits, dim=-1)
    if p.dim() == 2:
        best = p.max(dim=-1)[0]
    else:
        best = p.max()
    return p, best


def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def count_primes(n: int) -> int:
    found = 0
    for k in range(2, n):
        prime = True
        for d in range(2, k):
            if d * d > k:
                break
            if k % d == 0:
                prime = False
                break
        if prime:
            found += 1
    return found


def list_statistics(values: List[float]) -> Tuple[float, float]:
    total = 0.0
    for v in values:
        total += v
    mean = total / len(values)
    spread = 0.0
    for v in values:
        spread += (v - mean) * (v - mean)
    return mean, spread / len(values)


def histogram(words: List[str]) -> int:
    counts: Dict[str, int] = {}
    for w in words:
        if w in counts:
            counts[w] = counts[w] + 1
        else:
            counts[w] = 1
    most = 0
    for k, v in counts.items():
        if v > most:
            most = v
    return most


def early_exit(x: torch.Tensor, limit: float) -> torch.Tensor:
    for i in range(8):
        x = torch.relu(x) * 1.5 - 0.1
        if float(x.sum()) > limit:
            return x
    return x + 1


def in_place(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x.clone()
    for i in range(n):
        y.mul_(0.9)
        y.add_(x)
        y.clamp_(min=-2.0, max=2.0)
    return y


def masked_steps(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    h = torch.zeros_like(x[0])
    for t in range(x.size(0)):
        keep = (lengths > t).unsqueeze(1)
        h = torch.where(keep, torch.tanh(h + x[t]), h)
    return h


def windows(x: torch.Tensor, size: int) -> torch.Tensor:
    best = x[0:size].sum()
    for i in range(1, x.size(0) - size + 1):
        s = x[i : i + size].sum()
        if bool(s > best):
            best = s
    return best


def mixed(x: torch.Tensor, mode: str, k: int) -> torch.Tensor:
    if mode == "soft":
        y = torch.softmax(x, dim=-1)
    elif mode == "hard":
        y = (x == x.max(dim=-1, keepdim=True)[0]).to(x.dtype)
    else:
        y = x
    for _ in range(k):
        y = y + 0.1 * torch.sin(y)
    return y


def arguments():
    g = torch.Generator().manual_seed(0)
    r = lambda *s: torch.randn(*s, generator=g)
    return {
        "clip_norm": (r(64), 1.0),
        "newton_sqrt": (r(64).abs() + 0.1, 8),
        "power_iteration": (r(32, 32), r(32), 10),
        "while_converge": (r(64),),
        "gated": (r(1, 32), r(1, 32), r(32, 32), r(32, 32)),
        "rnn": (r(16, 1, 32), r(1, 32), r(32, 32) * 0.1, r(32, 32) * 0.1),
        "mlp_layers": (r(4, 32), [r(32, 32) * 0.2 for _ in range(4)], True),
        "horner": (r(64), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
        "cumulative": (r(16, 32),),
        "beam_scores": (r(4, 50), r(50)),
        "fibonacci": (60,),
        "collatz": (27,),
        "count_primes": (200,),
        "list_statistics": ([float(i % 17) for i in range(64)],),
        "histogram": (["a", "b", "c", "a", "d", "e", "a", "b"] * 4,),
        "early_exit": (r(64), 200.0),
        "in_place": (r(64), 6),
        "masked_steps": (r(12, 8, 16), torch.tensor([3, 5, 12, 1, 7, 9, 2, 11])),
        "windows": (r(48), 5),
        "mixed": (r(8, 16), "soft", 4),
    }
