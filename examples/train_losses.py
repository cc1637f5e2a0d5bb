#!/usr/bin/env python3
"""Writes train_losses.txt: the losses of examples/train.cpp as torch computes them, one a line; says what a step of torch's eager mode takes.
Needs torch and numpy."""
import os, re, time

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 200


def numbers(start, sizes, scale):
    h = (np.arange(np.prod(sizes), dtype=np.uint32) + np.uint32(start)) * np.uint32(2654435761)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    h ^= h >> np.uint32(13)
    v = ((h >> np.uint32(8)).astype(np.float32) / np.float32(8388608) - np.float32(1)) * np.float32(scale)
    return torch.from_numpy(v.reshape(sizes))


def classes(x, count):
    first = x.flatten(1)
    return ((first[:, 0] > 0).long() + 2 * (first[:, 1] > 0).long()) % count


def main():
    text = re.search(r'R"\((.*?)\)"', open(os.path.join(HERE, "train.cpp")).read(), re.S)[1]
    names = {"List": list}
    exec(text.replace("List[torch.Tensor]", "list"), names)
    networks = [
        ("layers", numbers(0, (64, 20), 1), [numbers(5000, (32, 20), 0.3), numbers(6000, (32,), 0.1), numbers(7000, (4, 32), 0.3), numbers(8000, (4,), 0.1)], 0.5),
        ("convolutions", numbers(10000, (16, 1, 12, 12), 1),
         [numbers(20000, (8, 1, 3, 3), 0.4), numbers(21000, (8,), 0.1), numbers(22000, (12, 8, 3, 3), 0.2), numbers(24000, (12,), 0.1), numbers(25000, (4, 108), 0.2), numbers(26000, (4,), 0.1)], 0.1),
    ]
    with open(os.path.join(HERE, "train_losses.txt"), "w") as out:
        for name, x, weights, rate in networks:
            y = classes(x, 4)
            weights = [w.clone().requires_grad_() for w in weights]
            for step in range(STEPS):
                if step == STEPS // 2:
                    start = time.perf_counter()
                loss = names[name](x, y, *weights)
                gradients = torch.autograd.grad(loss, weights)
                out.write(f"{loss.item():.7f}\n")
                with torch.no_grad():
                    for w, g in zip(weights, gradients):
                        w.sub_(g * rate)
            print(f"{name}: {(time.perf_counter() - start) / (STEPS - STEPS // 2) * 1e6:.1f} us a step, last loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
