"""What warm starts save: `python3 benches/warm.py [--ftest ./ftest] [--rounds 4] [--suites] [--check]`.

Side by side, cold and warm: the wall time of a case of four ranks of DDP under torchrun, after the first of a run, from one case's
start to the next; the memory (PSS) of four ranks that have trained against that of one rank alone. With `--suites` the time of
`ftest smoke dist ddp`. With `--check` it ends with 1 when a bound is missed."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from bounds import Bounds

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Seconds of a case, times the memory of one rank, seconds of the suites.
CASE_S, MEMORY, SUITES_S = 2.0, 1.6, 90.0
SUITE = """ftest: 1
suite: warm
clusters: {c: {nodes: 1, gpus_per_node: 4, profile: a100}}
defaults: {cluster: c, python: ["torch==2.15.0", numpy], env: {OMP_NUM_THREADS: "1"}, timeout: {slow: 60s, kill: 180s}}
cases:
"""


def run(options, directory, name, cases, warm):
    """The events of a run of these cases, one at a time."""
    suite, runs = directory / f"{name}.yaml", directory / f"{name}-{warm}"
    suite.write_text(SUITE + "".join(f"- {case}\n" for case in cases))
    command = [options.ftest, "run", suite, "--jobs", "1", "--keep", "--runs-dir", runs]
    done = subprocess.run(command, env={**os.environ, "FTEST_WARM": warm}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stdout}{done.stderr}")
    (log,) = runs.glob("*/events.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def case_seconds(options, directory, warm):
    launch = f"{{torchrun: {{nproc_per_node: 4, script: {ROOT}/fixtures/ddp/train.py, args: [--steps, '3']}}}}"
    events = run(options, directory, "time", [f"{{id: c{n}, launch: {launch}}}" for n in range(options.rounds + 1)], warm)
    times = [event["at_ms"] / 1e3 for event in events if event["event"] in ("case_started", "run_finished")]
    each = [after - before for before, after in zip(times, times[1:])]
    ranks = [event["attempt"]["duration_us"] / 1e6 for event in events if event["event"] == "attempt_finished"]
    starts = [event["attempt"].get("starts") for event in events if event["event"] == "attempt_finished"]
    assert warm == "0" or all(one["warm"] == 5 and not one["cold"] for one in starts), starts
    return each[0], statistics.median(each[1:]), statistics.median(ranks[1:])


def memory(options, directory, ranks, warm):
    """MB of the ranks, and of everything that the run started for Python."""
    launch = f"{{torchrun: {{nproc_per_node: {ranks}, script: {pathlib.Path(__file__).resolve()}, args: [--worker]}}}}"
    events = run(options, directory, f"memory{ranks}", [f"{{id: c, launch: {launch}}}"], warm)
    streams = [
        process["stdout"]["head"] for event in events if event["event"] == "attempt_finished" for process in event["attempt"]["processes"]
    ]
    (line,) = [line for stream in streams for line in stream.splitlines() if line.startswith("memory ")]
    return json.loads(line.removeprefix("memory "))


def worker():
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(8, 64, device="cuda")).sum().backward()
        optimizer.step()
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    if rank == 0:
        mark = "/".join(os.environ["FTEST_CASE_COOKIE"].split("/")[:2]).encode()
        found = {"ranks": 0.0, "others": 0.0}
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/environ", "rb") as file:
                    environment = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
                with open(f"/proc/{process}/cmdline", "rb") as file:
                    python = b"python" in file.read().split(b"\0")[0]
                with open(f"/proc/{process}/smaps_rollup") as file:
                    pss = next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024
            except (OSError, StopIteration):
                continue
            if python and environment.get(b"FTEST_CASE_COOKIE", b"").startswith(mark):
                found["ranks" if b"RANK" in environment else "others"] += pss
        print("memory " + json.dumps(found), flush=True)
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ftest", default=ROOT / "target/release/ftest", type=pathlib.Path)
    parser.add_argument("--rounds", default=4, type=int)
    parser.add_argument("--suites", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker()
    options.ftest = options.ftest.resolve()
    bound = Bounds(66)
    with tempfile.TemporaryDirectory(prefix="ftest-bench-") as temporary:
        directory = pathlib.Path(temporary)
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        cold = case_seconds(options, directory, "0")
        warm = case_seconds(options, directory, "1")
        print(f"{'4 ranks of DDP, cold: a case, its processes':<66} {cold[1]:8.2f} s, {cold[2]:.2f} s")
        print(f"{'the first warm case of a run':<66} {warm[0]:8.2f} s")
        print(f"{'4 ranks of DDP, warm: the processes of a case':<66} {warm[2]:8.2f} s")
        bound("4 ranks of DDP, warm: a case after the first", warm[1], CASE_S, "s")
        print(f"{'warm against cold':<66} {warm[1] / cold[1]:8.2f} times")
        alone = memory(options, directory, 1, "0")
        four = {how: memory(options, directory, 4, how) for how in ("0", "1")}
        print(f"{'one cold rank; its launcher':<66} {alone['ranks']:8.0f} MB, {alone['others']:.0f} MB")
        print(f"{'four cold ranks; their launcher':<66} {four['0']['ranks']:8.0f} MB, {four['0']['others']:.0f} MB")
        print(f"{'four warm ranks; launcher and warm processes':<66} {four['1']['ranks']:8.0f} MB, {four['1']['others']:.0f} MB")
        bound("four warm ranks against one cold rank", four["1"]["ranks"] / alone["ranks"], MEMORY, "times")
        everything = [sum(one.values()) for one in (four["1"], alone)]
        print(f"{'the same with launchers and warm processes':<66} {everything[0] / everything[1]:8.2f} times")
    if options.suites:
        began = time.monotonic()
        done = subprocess.run([options.ftest, "smoke", "dist", "ddp"], cwd=ROOT, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"ftest smoke dist ddp ended with {done.returncode}")
        bound("ftest smoke dist ddp", time.monotonic() - began, SUITES_S, "s")
    if bound.missed and options.check:
        sys.exit("missed: " + "; ".join(bound.missed))


if __name__ == "__main__":
    main()
