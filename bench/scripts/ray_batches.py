#!/usr/bin/env python3
"""ray_batches.py PROGRAM [--actors 1,2]: rows per second of a program over a dataset on Ray Data, beside one process that calls it in a loop.

The program has one input, rows first. Rows are made before, in the object store (Ray) or in memory (the loop). Needs ray[data]. A figure is the
median of the rounds, in which all kinds take turns; starting of actors is left out: a batch goes through each before the clock runs."""
import argparse, os, statistics, time

import numpy as np

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
import ray
import ray.data
import tenon, tenon.ray
from tenon.batches import Model


def loop(source, name, x, batch, threads):
    model = Model(source, inputs={name: "x"}, threads=threads)
    model({"x": x[:batch]})
    start = time.perf_counter()
    for i in range(0, len(x), batch):
        model({"x": x[i:i + batch]})
    return time.perf_counter() - start


def on_ray(source, name, dataset, batch, actors):
    """(seconds between the first block and the last one, rows in them; seconds of all, with the start of actors; memory of these)"""
    made = tenon.ray.map_batches(dataset, source, inputs={name: "x"}, batch_size=batch, actors=actors)
    began, first, rows, memory = time.perf_counter(), None, 0, []
    for block in made.iter_batches(batch_size=None, batch_format="numpy"):
        now = time.perf_counter()
        if first is None:
            first, memory = now, memory_of_actors()
        else:
            rows += len(next(iter(block.values())))
    return now - first, rows, now - began, memory


def memory_of_actors():
    """MB of the actors' processes: resident, their share of it, and what is theirs alone."""
    total = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                if "MapWorker" not in file.read():
                    continue
            with open(f"/proc/{pid}/smaps_rollup") as file:
                kb = {k: int(v.split()[0]) for k, _, v in (line.partition(":") for line in file if " kB" in line)}
            total.append((kb["Rss"] // 1024, kb["Pss"] // 1024, (kb["Private_Clean"] + kb["Private_Dirty"]) // 1024))
        except OSError:
            pass
    return total


def main():
    a = argparse.ArgumentParser()
    a.add_argument("program")
    a.add_argument("--rows", type=int, default=16384)
    a.add_argument("--batch", type=int, default=64)
    a.add_argument("--blocks", type=int, default=32)
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--sizes", default="", help="sizes of a row, 3,224,224; where the program does not fix them")
    o = a.parse_args()
    info = tenon.open(o.program).inputs[0]
    sizes = [int(s) for s in (o.sizes.split(",") if o.sizes else info.sizes[1:])]
    x = np.random.default_rng(0).random((o.rows, *sizes), dtype=np.float32)
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=max(500 << 20, 4 * x.nbytes), log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    dataset = ray.data.from_numpy(np.array_split(x, o.blocks)).rename_columns({"data": "x"}).materialize()
    figures = {}
    for _ in range(o.rounds):
        for threads in (1, 2):
            figures.setdefault(f"a loop, {threads} threads", []).append(o.rows / loop(o.program, info.name, x, o.batch, threads))
        for actors in (1, 2):
            seconds, rows, everything, memory = on_ray(o.program, info.name, dataset, o.batch, actors)
            figures.setdefault(f"Ray Data, {actors} actors", []).append(rows / seconds)
            figures.setdefault(f"Ray Data, {actors} actors, their start included", []).append(o.rows / everything)
    print(f"MB of each of 2 actors (resident, proportional, private): {memory}")
    print(f"{o.program}: {o.rows} rows in batches of {o.batch}, {o.blocks} blocks, load average {os.getloadavg()[0]:.2f}")
    for kind, rates in figures.items():
        print(f"{kind:45} {statistics.median(rates):10.0f} rows/s  ({min(rates):.0f} .. {max(rates):.0f})")


if __name__ == "__main__":
    main()
