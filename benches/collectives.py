"""What a collective costs through PyTorch: backend nccl under ftest on CUDA tensors against gloo on CPU tensors of the same
sizes, in turn, in one run. Sizes are bytes of the larger of a rank's two buffers. A round makes several calls and then waits
for the device, as a training step does; times are per call, medians of rank 0's rounds.

    ./ftest exec --profile a100 --device-count 4 -- torchrun --nproc-per-node 4 benches/collectives.py

Beside it: what the copy alone takes that all_gather and all_to_all are (benches/copy_limit.rs), and the same three in processor
time, all ranks together, which other work on the machine disturbs less.

Prints; with `--check` it ends with 1 when the median ratio of an operation is below 5 at any size from 64 KiB on, unless that of
the copy alone is, too."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

LEAST_RATIO = 5.0
KIB, MIB = 1 << 10, 1 << 20
SIZES = [64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB]
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
COPIES = ["all_gather", "all_to_all"]


def call(operation, device, elements, world, group):
    """The operation on fresh tensors, as a function of nothing."""
    # Filled, since pages that were never written are not there; with zeros, which no number of rounds makes infinite.
    whole, other, part = (torch.full((count,), 0.0, device=device) for count in (elements, elements, elements // world))
    return {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
        "all_to_all": lambda: dist.all_to_all_single(other, whole, group=group),
    }[operation]


def one_round(run, calls, on_gpu):
    """Milliseconds of a call among `calls`, to the end of all of them on this rank: passed, and of the process's computing."""
    start, computed = time.perf_counter(), time.process_time()
    for _ in range(calls):
        run()
    if on_gpu:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls * 1e3, (time.process_time() - computed) / calls * 1e3


def copy_alone(operation, world, size, rounds):
    """Milliseconds of the bare copy, and of processor time; None for an operation that computes."""
    built = Path(__file__).resolve().parents[1] / "target/release/fixture-copy-limit"
    program = shutil.which("fixture-copy-limit") or shutil.which(built)
    if operation not in COPIES or program is None:
        return None
    command = [program, operation, str(world), str(size), str(rounds)]
    return [float(word) for word in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


def shown(columns, part):
    """gloo, nccl and the copy: their milliseconds, and how many times faster than gloo the last two are."""
    text = f"{columns[0][part]:>10.3f}"
    for column in columns[1:]:
        text += f"{column[part]:>10.3f}{columns[0][part] / column[part]:>6.1f}x" if column else f"{'-':>10}{'':>7}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes")
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, default=OPERATIONS)
    parser.add_argument("--calls", type=int, default=0, help="calls in a round; 0: 20, fewer from 4 MiB on")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    gloo = dist.new_group(backend="gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    slow = []
    if rank == 0:
        print(f"torch {torch.__version__}, {world} ranks, {os.cpu_count()} cores, float32 sum, ms, x: times faster than gloo")
        names = f"{'gloo':>10}{'nccl':>10}{'':>7}{'copy':>10}{'':>7}"
        print(f"{'':<25}{'median of rank 0':^44} |{'processor time, all ranks':^44}")
        print(f"{'operation':<15}{'bytes':>10}{names} |{names}")
    for operation in options.operations:
        for size in options.sizes:
            calls = options.calls or max(1, min(20, 32 * MIB // size))
            cpu = call(operation, torch.device("cpu"), size // 4, world, gloo)
            gpu = call(operation, device, size // 4, world, None)
            times = {True: [], False: []}
            for index in range(-1, options.rounds):
                for run, on_gpu in ((cpu, False), (gpu, True)):
                    # Ranks begin together, so that nobody's late start is measured.
                    dist.barrier(group=gloo)
                    measured = one_round(run, calls, on_gpu)
                    if index >= 0:
                        times[on_gpu].append(measured)
            medians = [[statistics.median(column) for column in zip(*times[on_gpu])] for on_gpu in (False, True)]
            computed = torch.tensor([processor for _, processor in medians])
            dist.all_reduce(computed, group=gloo)
            columns = [(passed, float(processor)) for (passed, _), processor in zip(medians, computed)]
            if rank == 0:
                columns.append(copy_alone(operation, world, size, options.rounds))
                print(f"{operation:<15}{size:>10}{shown(columns, 0)} |{shown(columns, 1)}", flush=True)
                here = columns[0][0] / columns[1][0]
                # Other processes copy at another moment: their processor time says more.
                alone = columns[0][1] / columns[2][1] if columns[2] else None
                if here < LEAST_RATIO:
                    slow.append((alone is None or alone >= LEAST_RATIO, f"{operation} of {size} bytes: {here:.1f}"))
            del cpu, gpu
            torch.cuda.empty_cache()
    if rank == 0:
        for still, where in ((False, "below, as is the copy alone,"), (True, "below")):
            lines = [line for avoidable, line in slow if avoidable == still]
            print(f"{where} {LEAST_RATIO:.0f}x: {'; '.join(lines) if lines else 'none'}")
    dist.destroy_process_group()
    if options.check and any(avoidable for avoidable, _ in slow):
        sys.exit(1)


if __name__ == "__main__":
    main()
