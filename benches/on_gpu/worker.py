"""One part of a record, in a process of its own: `worker.py AREA SECONDS`, or `worker.py machine SECONDS`. Prints JSON."""

import importlib
import json
import os
import sys
import time


def main(area, seconds):
    # What the probed libraries print is not JSON.
    printed = os.dup(1)
    os.dup2(2, 1)
    from machine import Machine

    machine = Machine(time.monotonic() + float(seconds))
    if area == "machine":
        result = machine.look()
    else:
        # Counting GPUs starts the driver, and a process with a driver cannot fork. So another process counts.
        machine.gpus = int(os.environ["ON_GPU_GPUS"])
        result = importlib.import_module(f"probes.{area}").record(machine)
    with os.fdopen(printed, "w", encoding="utf-8") as stream:
        json.dump(result, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
