"""What it costs to look for mistakes: a training step of a small transformer under DDP and the latency of an all_reduce, by two ranks,
without sanitizers, with each of them, with those that a case has by default, and with all. Every setting is a run of its own; they take
turns, and medians count.

    python3 benches/overhead.py [--ftest ./ftest] [--rounds 3] [--against OTHER/ftest]

`--against` is the `ftest` of another checkout, without sanitizers: what changed since then, such as the findings that are always made.

Prints; with `--check` it ends with 1 when a bound is missed: races 1.2 times a plain step, the default 1.05 times, all together 1.4 times,
and 1.03 times the other checkout."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"4 B": 1, "1 MiB": 1 << 18}
BOUNDS = {"races": 1.2, "default": 1.05, "all": 1.4, "before": 1.03}
# What a case has that says nothing of `sanitize`.
DEFAULT = ["races", "replicas"]


def sanitizers():
    """The words of `sanitize`, from the schema of the suite language."""
    schema = json.loads((ROOT / "docs/suite.schema.json").read_text())
    words = []

    def search(part):
        for name, value in part.items() if isinstance(part, dict) else enumerate(part):
            if name == "enum":
                words.extend(value)
            elif isinstance(value, (dict, list)):
                search(value)

    search(schema["$defs"]["case"]["properties"]["sanitize"])
    return words


def worker(steps, calls):
    import torch
    import torch.distributed as dist
    from compute import Step
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    step = Step("cuda")
    step.model = DistributedDataParallel(step.model)

    def median(run, count, per):
        times = []
        for _ in range(count):
            start = time.perf_counter()
            for _ in range(per):
                run()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / per)
        return statistics.median(times[count // 5 :])

    found = {"step": median(step, steps, 1) * 1e3}
    for name, elements in SIZES.items():
        tensor = torch.zeros(elements, device="cuda")
        found[name] = median(lambda: dist.all_reduce(tensor), 25, calls) * 1e6
    if dist.get_rank() == 0:
        print("measured " + json.dumps(found), flush=True)
    dist.destroy_process_group()


def measure(ftest, wanted, options):
    command = [ftest, "exec", "--profile", "a100", "--device-count", "2", "--", "torchrun", "--nproc-per-node", "2", __file__]
    command += ["--worker", "--steps", str(options.steps), "--calls", str(options.calls)]
    environment = {**os.environ, "FAKEGPU_SANITIZE": ",".join(wanted) or "none", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    line = next((line for line in done.stdout.splitlines() if line.startswith("measured ")), None)
    if done.returncode != 0 or line is None:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(line.removeprefix("measured "))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftest", default=ROOT / "ftest", type=Path)
    parser.add_argument("--against", type=Path, help="ftest of another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--calls", type=int, default=100, help="of all_reduce in a measurement")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.steps, options.calls)
    words = sanitizers()
    settings = {"plain": (options.ftest, [])}
    if options.against:
        settings["before"] = (options.against, [])
    settings |= {word: (options.ftest, [word]) for word in words}
    settings["default"] = (options.ftest, DEFAULT)
    if len(words) > 1:
        settings["all"] = (options.ftest, words)
    found = {name: [] for name in settings}
    for _ in range(options.rounds):
        for name, (ftest, wanted) in settings.items():
            found[name].append(measure(ftest.resolve(), wanted, options))
    columns = ["step", *SIZES]
    median = {name: {column: statistics.median(run[column] for run in runs) for column in columns} for name, runs in found.items()}
    print(f"medians of {options.rounds} runs; times relative to the run without sanitizers")
    print(f"{'':<10}{'GPT step':>18}" + "".join(f"{'all_reduce ' + size:>26}" for size in SIZES))
    for name, times in median.items():
        cells = [f"{times['step']:>8.2f} ms x{times['step'] / median['plain']['step']:>5.2f}"]
        cells += [f"{times[size]:>14.1f} us x{times[size] / median['plain'][size]:>5.2f}" for size in SIZES]
        print(f"{name:<10}" + "".join(f"{cell:>{18 if column == 'step' else 26}}" for cell, column in zip(cells, columns)))
    missed = []
    for name, bound in BOUNDS.items():
        if name in median:
            ratio = median[name]["step"] / median["plain"]["step"]
            # What was before is the base there.
            ratio = 1 / ratio if name == "before" else ratio
            print(f"{name}: a step takes {ratio:.3f} times as long{'; now, as before' if name == 'before' else ''} (at most {bound})")
            if ratio > bound:
                missed.append(name)
    if options.check and missed:
        sys.exit("missed: " + ", ".join(missed))


if __name__ == "__main__":
    main()
