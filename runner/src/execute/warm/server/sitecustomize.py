# Loaded by `site` only in the warm process, whose directory comes first in PYTHONPATH. It puts the server where the
# interpreter looks for the program to run, and leaves nothing else behind.
import os
import sys

here = os.path.dirname(__file__)
sys.path[:] = [entry for entry in sys.path if entry != here]
sys.path_importer_cache.pop(here, None)
del sys.modules[__name__]
scope = {"__name__": "ftest_warm", "DIRECTORY": here}
with open(os.path.join(here, "parts")) as file:
    parts = file.read().split()
for part in parts:
    with open(os.path.join(here, part), "rb") as file:
        exec(compile(file.read(), os.path.join(here, part), "exec"), scope)
# `python -m` calls runpy._run_module_as_main from C, with no Python frame below it.
sys.modules["runpy"] = scope["Program"]()
# Whatever the user's own sitecustomize reads now, it reads in every process.
os.environ.__class__ = scope["Recorder"]
# If there is none, `site` expects exactly this error.
import sitecustomize  # noqa: E402
