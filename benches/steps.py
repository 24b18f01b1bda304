"""How right the modeled clock is for whole training steps: rank 0 of each published configuration runs in a preflight, and its step is
compared with the published one.

    export FTEST_PYTHON=$(./ftest env path torch==2.15.0 torchvision transformers)/bin/python
    python3 benches/steps.py [--ftest ./ftest] [--only PART] [--cases FILE --output FILE.csv]

Prints a line for each configuration of `benches/published/steps.json`, and the median, 75th and 90th percentile of the error. With `--cases`,
the configurations come from a file of the same form, which may lack results and hold others than these programs (they are named and
left out); `--output` gets `case,predicted_ms`."""

import argparse
import csv
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "benches/steps"
# Profiles by how the published tables name the GPU.
PROFILES = {
    "A100 SXM 40GB": str(PROGRAMS / "a100-40gb.yaml"),
    "A100 SXM 80GB": "a100",
    "H100 SXM 80GB": "h100",
    "V100 SXM2": "v100",
}
# The machine of a published "RoCE 1600 Gbit/s per node"; others are those of the GPU.
ROCE = ("RoCE 1600 Gbit/s per node", "machine: { preset: dgx-a100, transport: roce }\n")
# What the clock says on stderr of kernels whose time it does not know.
UNKNOWN = "the modeled clock does not know the time of"


def program(case):
    """The program that repeats a case, its arguments, and its step in ms by the published result. None: there is no such program."""
    model, config, result = case["model"], case["config"], case.get("result", {})
    name = model["family"]
    if name == "MPT" and config["precision"] in ("bf16", "amp_bf16"):
        arguments = {name: model[name] for name in ("layers", "hidden", "heads", "vocab")}
        arguments |= {"length": model["seq"], "batch": config["micro_batch"], "accumulate": config["grad_accum"]}
        flags = {
            "checkpointing": config["activation_checkpointing"],
            "reduce-in-bf16": config["mp_mode"] == "PURE",
            "keep-parameters": config["parallel"] == "FSDP SHARD_GRAD_OP",
        }
        work, speed = config["global_batch"] * model["seq"], result.get("tokens_per_s")
    # DDP asks the other ranks for the sizes of their parameters, and alone a rank has no others.
    elif name.startswith("ResNet-50") and ranks(case) == 1:
        arguments, flags = {"batch": config["batch_per_gpu"]}, {"amp": True}
        work, speed = config["batch_per_gpu"], result.get("images_per_s_amp")
    elif name == "BERT-Large" and "batch_per_gpu_amp" in config and ranks(case) == 1:
        # What the publisher calls a batch is divided into so many parts.
        parts = config["accumulation_amp"]
        arguments, flags = {"length": model["seq"], "batch": config["batch_per_gpu_amp"], "accumulate": parts}, {}
        work, speed = config["batch_per_gpu_amp"] * parts, result.get("sequences_per_s_amp")
    else:
        return None
    argv = [part for key, value in arguments.items() for part in (f"--{key}", str(value))]
    argv += [f"--{flag}" for flag, is_set in flags.items() if is_set]
    kind = {"MPT": "decoder", "BERT-Large": "bert"}.get(name, "resnet")
    return kind, argv, work / speed * 1e3 if speed else None


def ranks(case):
    return case["hardware"]["nodes"] * case["hardware"]["gpus_per_node"]


def predict(ftest, case, kind, argv, directory):
    """The step of rank 0 on the modeled clock, ms."""
    hardware = case["hardware"]
    profile = next(profile for gpu, profile in PROFILES.items() if hardware["gpu"].startswith(gpu))
    cluster = directory / "cluster.yaml"
    machine = ROCE[1] if hardware.get("inter", "").startswith(ROCE[0]) else ""
    cluster.write_text(f"nodes: {hardware['nodes']}\ngpus_per_node: {hardware['gpus_per_node']}\nprofile: {profile}\n{machine}")
    command = [ftest, "exec", "--preflight", "--as-rank", "0", "--of", str(ranks(case)), "--cluster", cluster, "--clock", "modeled", "--"]
    run = subprocess.run([*command, "python", PROGRAMS / f"{kind}.py", *argv], capture_output=True, text=True)
    if not (found := re.search(r"^step: (\S+) ms$", run.stdout + run.stderr, re.M)):
        sys.exit(f"{case['id']} printed no step, and ended with {run.returncode}:\n{run.stderr[-3000:]}")
    if UNKNOWN in run.stderr:
        sys.exit(f"{case['id']}: {next(line for line in run.stderr.splitlines() if UNKNOWN in line)}")
    return float(found[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftest", default=str(ROOT / "ftest"))
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--cases", type=Path, default=ROOT / "benches/published/steps.json")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    cases = [case for case in json.loads(args.cases.read_text())["steps"] if args.only in case["id"]]
    rows, errors = [], []
    print(f"{'case':40} {'published':>10} {'modeled':>10}  ms", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for case in cases:
            if not (found := program(case)):
                print(f"{case['id']:40} left out: no program here is like it")
                continue
            kind, argv, published = found
            modeled = predict(args.ftest, case, kind, argv, Path(directory))
            rows.append((case["id"], f"{modeled:.2f}"))
            error = ""
            if published:
                errors.append(abs(modeled / published - 1))
                error = f"{published:10.1f} {modeled:10.1f}  {100 * (modeled / published - 1):+.1f} %"
            print(f"{case['id']:40} {error or f'{modeled:21.1f}'}", flush=True)
    if len(errors) > 1:
        parts = statistics.quantiles(errors, n=20, method="inclusive")
        print(
            f"{len(errors)} compared: median {100 * statistics.median(errors):.1f} %, p75 {100 * parts[14]:.1f} %, p90 {100 * parts[17]:.1f} %"
        )
    if args.output:
        with args.output.open("w", newline="") as file:
            csv.writer(file).writerows([("case", "predicted_ms"), *rows])


if __name__ == "__main__":
    main()
