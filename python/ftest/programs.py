"""The programs of ftest: `ftest` and `fgpu`."""

import os
import pathlib
import platform
import shutil
import sys
import sysconfig


class Missing(Exception):
    """A program cannot be run here; the message says why and what to do."""


class Elsewhere(Missing):
    """They do not run on this machine."""


def find(name):
    """The path of the program: beside this Python, else on PATH, else in the checkout that this file is in.

    Raises Missing."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise Elsewhere(f"clusters are simulated on Linux on x86_64, and this is {sys.platform} on {platform.machine()}")
    beside = pathlib.Path(sysconfig.get_path("scripts")) / name
    checkout = pathlib.Path(__file__).parents[2] / name
    for found in (beside, shutil.which(name), checkout):
        if found and os.path.isfile(found) and os.access(found, os.X_OK):
            return str(found)
    raise Missing(f"there is no program {name}: neither {beside} nor on PATH; install ftest's wheel into this environment")
