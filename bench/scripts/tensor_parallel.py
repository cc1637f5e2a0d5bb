"""Times what tests/fixtures/tensor_parallel.py --large wrote in torch eager over gloo, a process for each rank: beside `tenon bench`.

    bench/scripts/tensor_parallel.py FOLDER/of2/rank{rank}/tensor.pt2 RANKS [SECONDS]"""
import sys, tempfile, time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def run(rank, ranks, path, seconds, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    program = torch.export.load(path.replace("{rank}", str(rank)))
    module, inputs = program.module(), program.example_inputs[0]
    times, flag = [], torch.ones(1)
    with torch.no_grad():
        for _ in range(3):
            module(*inputs)
        end = time.perf_counter() + seconds
        while True:
            begin = time.perf_counter()
            module(*inputs)
            times.append(time.perf_counter() - begin)
            flag.fill_(float(time.perf_counter() < end))
            dist.all_reduce(flag, dist.ReduceOp.MAX)  # all go on, or none
            if not flag.item():
                break
    if rank == 0:
        times.sort()
        print(f"{ranks} ranks, gloo: median {1e3 * times[len(times) // 2]:.2f} ms, best {1e3 * times[0]:.2f} ms of {len(times)} runs")
    dist.destroy_process_group()


if __name__ == "__main__":
    path, ranks, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 5
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(run, (ranks, path, seconds, folder + "/store"), ranks)
