# Loaded by `site` only in the warm process, whose directory comes first in PYTHONPATH. It puts the server, the package ftest_warm
# beside it, where the interpreter looks for the program to run, and leaves nothing else behind: a program that is forked from this
# process finds none of it.
import os
import sys

here = os.path.dirname(__file__)
writes_nothing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
from ftest_warm.server import Program, Recorder  # noqa: E402

sys.dont_write_bytecode = writes_nothing
for name in [__name__, *(name for name in sys.modules if name.partition(".")[0] == "ftest_warm")]:
    del sys.modules[name]
sys.path[:] = [entry for entry in sys.path if entry != here]
for place in (here, os.path.join(here, "ftest_warm")):
    sys.path_importer_cache.pop(place, None)
# `python -m` calls runpy._run_module_as_main from C, with no Python frame below it.
sys.modules["runpy"] = Program()
# Whatever the user's own sitecustomize reads now, it reads in every process.
os.environ.__class__ = Recorder
# If there is none, `site` expects exactly this error.
import sitecustomize  # noqa: E402, F401
