"""Ours: the simulation of the machine of a record, asked the same, and FakeGPU's modes on the machine at hand."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import record as records
from compare import differences

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
#: Seconds for the simulation of a record, and for all modes together.
SECONDS, MODES_SECONDS = 90, 100
POLICIES = ("clamp", "managed", "mapped_host", "spill_cpu")
#: Name, options of `fgpu`, and the area that the mode changes.
MODES = {
    "simulate": (["--mode", "simulate"], "allocation"),
    "passthrough": (["--mode", "passthrough"], "allocation"),
    "nccl proxy": (["--mode", "passthrough", "--dist-mode", "proxy"], "nccl"),
    "nccl passthrough": (["--mode", "passthrough", "--dist-mode", "passthrough"], "nccl"),
    **{f"hybrid, {policy}": (["--mode", "hybrid", "--oom-policy", policy], "allocation") for policy in POLICIES},
}


class Unknown(Exception):
    """There is no simulation to ask; the message says why."""


def program(name):
    """The path of `ftest` or `fgpu`: where FTEST_PROGRAMS says, else built here, else on PATH. Raises Unknown."""
    places = [os.environ.get("FTEST_PROGRAMS"), CHECKOUT / "target/release", CHECKOUT / "target/debug"]
    for place in filter(None, places):
        found = pathlib.Path(place) / name
        if os.access(found, os.X_OK):
            return str(found.resolve())
    found = shutil.which(name)
    if found:
        return found
    raise Unknown(f"there is no {name}: build it with `cargo build --release`, or name its directory in FTEST_PROGRAMS")


def profile(device, directory=CHECKOUT / "profiles"):
    """The id of the profile with the name of a device; of several, the one whose memory is nearest. Raises Unknown."""
    found = []
    for file in sorted(pathlib.Path(directory).glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        name = re.search(r"^name: *(.+?) *$", text, re.MULTILINE)
        size = re.search(r"\bbytes: *(\d+)", text)
        if name and size and name[1].strip("\"'") == device["name"]:
            found.append((abs(int(size[1]) - device["bytes"]), file.stem))
    if not found:
        raise Unknown(f'no profile has the name {device["name"]!r}: CONTRIBUTING.md, "A profile", says how to add one')
    return min(found)[1]


def devices(machine):
    """FAKEGPU_PROFILES for the GPUs of a record. Raises Unknown."""
    return ",".join(f"{profile(device)}:1" for device in machine["devices"])


def driver(machine):
    """FAKEGPU_DRIVER for the driver of a record."""
    cuda = f"{machine['cuda'] // 1000}.{machine['cuda'] % 1000 // 10}"
    return f"{machine['driver']}:{cuda}" if machine["driver"] else cuda


def environment():
    """Without what a simulation around this process has set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAKEGPU_")}
    for name in ("LD_PRELOAD", "FTEST_GPUS"):
        kept.pop(name, None)
    return kept


def ours(record):
    """The same record of the simulation with the profile of this GPU, as many of them and this driver. Raises Unknown."""
    machine = record["machine"]
    names = devices(machine)
    variables = {"FAKEGPU_DRIVER": driver(machine), "FAKEGPU_UNSUPPORTED_API": "warn"}
    return under([program("ftest"), "exec", "--devices", names, "--"], tuple(record["areas"]), variables)


def under(command, areas, variables=None, seconds=SECONDS):
    """A record made behind this command. Raises Unknown with what it said. That `ftest exec` ends with 1 or 3 is not a failure:
    the probes make mistakes, which are findings and gaps; a record that was not finished is not there."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "record.json"
        asked = ["record", "--areas", ",".join(areas), "--seconds", str(seconds), "--output", str(file)]
        whole = [*command, sys.executable, str(HERE / "run"), *asked]
        try:
            done = subprocess.run(
                whole,
                capture_output=True,
                text=True,
                env={**environment(), **(variables or {})},
                timeout=seconds + 2 * records.GRACE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unknown(f"`{' '.join(command)}` had not ended after {seconds + 2 * records.GRACE:.0f} s") from None
        if not file.exists():
            last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
            raise Unknown(last)
        return records.read(file)


def modes(record=None, seconds=MODES_SECONDS):
    """What became of each mode on this machine: `source`, with the probes that differ from the record where there is one, or
    `refused`, with what was said."""
    found, until = {}, time.monotonic() + seconds
    for number, (name, (options, area)) in enumerate(MODES.items()):
        share = max(until - time.monotonic(), 0) / (len(MODES) - number)
        try:
            # What is virtual is what is there, so that only the mode differs.
            same = ["--devices", devices(record["machine"])] if record and name.startswith("hybrid") else []
            made = under([program("fgpu"), *options, *same], (area,), seconds=round(share))
        except Unknown as error:
            found[name] = {"refused": str(error)}
            continue
        result = found[name] = {"source": made["source"]}
        if record and name != "simulate":
            apart, missing = differences({"areas": {area: record["areas"].get(area, {"skipped": "not recorded"})}}, made)
            result["differences"] = sorted({one.name for one in apart})
            result["not_compared"] = [what for what, *_ in missing]
    return found


def dump(value, path):
    pathlib.Path(path).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
