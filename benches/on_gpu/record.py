"""A record: what a machine answers, area by area, with what answered. Its format is in schema/gpu_record.v1.json."""

import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
FORMAT, VERSION = "gpu_record", 1
#: Of 8 minutes, those for the record; the others are for the simulation and the modes.
SECONDS = 270
#: Seconds after the end of its time that a worker gets for the row that it is at.
GRACE = 25
#: In the order in which they are recorded: the longest is last, since of that the rows that came in time are kept.
AREAS = ("attributes", "limits", "allocation", "nvml", "nccl", "failed_collective", "torch_memory", "errors")


class NoMachine(Exception):
    """Nothing answers here; the message says what is missing and what to do."""


def _worker(area, until, gpus=None):
    """What the worker printed, or why it printed nothing."""
    left = until - time.monotonic()
    if left <= 0:
        return {"skipped": "the time was over"}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))}
    if gpus is not None:
        environment["ON_GPU_GPUS"] = str(gpus)
    command = [sys.executable, str(HERE / "worker.py"), area, str(left)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=left + GRACE, check=False)
    except subprocess.TimeoutExpired:
        return {"skipped": "the time was over"}
    if done.returncode == 0:
        return json.loads(done.stdout)
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    how = f"exit {done.returncode}" if done.returncode >= 0 else f"signal {-done.returncode}"
    return {"skipped": f"the worker ended with {how}: {last}"}


def make(areas=AREAS, seconds=SECONDS):
    """Asks this machine. Raises NoMachine."""
    began = time.time()
    until = time.monotonic() + seconds
    machine = _worker("machine", until)
    if "source" not in machine:
        why = machine.get("error") or machine.get("skipped")
        raise NoMachine(
            f"no GPU answers: {why}. On a machine without one, `fgpu --profile h100 benches/on_gpu/run record` records the simulation"
        )
    if not machine["gpus"]:
        raise NoMachine("the driver answers, and has no GPU")
    record = {
        "format": FORMAT,
        "version": VERSION,
        "source": machine.pop("source"),
        "machine": {**machine, "architecture": platform.machine(), "torch": _torch() if "torch_memory" in areas else None},
        "areas": {},
        "measured": {"began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)), "seconds": {}},
    }
    for area in areas:
        started = time.monotonic()
        probes = _worker(area, until, machine["gpus"])
        skipped = isinstance(probes.get("skipped"), str)
        record["areas"][area] = probes if skipped else {"probes": probes}
        record["measured"]["seconds"][area] = round(time.monotonic() - started, 1)
    return record


def _torch():
    """Its version, without importing it."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def write(record, path):
    """One probe a line, so that two records can be compared by eye and by git."""

    def short(value):
        return json.dumps(value, sort_keys=True)

    lines = ["{"]
    for name in ("format", "version", "source", "machine", "measured"):
        lines.append(f'  "{name}": {short(record[name])},')
    lines.append('  "areas": {')
    areas = list(record["areas"].items())
    for at, (area, found) in enumerate(areas):
        comma = "," if at + 1 < len(areas) else ""
        if "probes" not in found:
            lines.append(f'    "{area}": {short(found)}{comma}')
            continue
        lines.append(f'    "{area}": {{"probes": {{')
        probes = [f"      {json.dumps(name)}: {short(answer)}" for name, answer in found["probes"].items()]
        lines += [*(line + "," for line in probes[:-1]), *probes[-1:], f"    }}}}{comma}"]
    lines += ["  }", "}", ""]
    path = pathlib.Path(path)
    new = path.with_name(path.name + ".new")
    new.write_text("\n".join(lines), encoding="utf-8")
    new.replace(path)


def read(path):
    """A record from a file. Raises ValueError with the file's name."""
    try:
        found = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path}: not a record: `format` is not {FORMAT}")
    if found.get("version") != VERSION:
        raise ValueError(f"{path}: version {found.get('version')}, and this program reads {VERSION}; record again")
    return found
