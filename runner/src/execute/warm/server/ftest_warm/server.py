# The warm process: imports, then forks a process for each request.
import atexit
import ctypes
import gc
import importlib
import inspect
import json
import os
import shutil
import socket
import sys
import threading

from .checks import Recorder
from .child import Warm
from .forks import Line, serve
from .kernel import STREAMS, libc, nothing_on, open_descriptors, send
from .programs import AGENT, ending_early

# What has to be in PYTHONPATH for this package to be found.
DIRECTORY = os.path.dirname(os.path.dirname(__file__))
# Modules that PyTorch's launcher imports, and that DDP and the optimizers import when first used.
MODULES = ("torch", "torch.distributed", "torch.distributed.run", "torch.nn.parallel", "torch.optim", "torch._dynamo")

# Where imports keep a directory that `renew_directories` replaces, and the variables behind them: their values in the server do
# not matter.
RENEWED = {
    ("tempfile", "tempdir"),
    ("multiprocessing.process", "ORIGINAL_DIR"),
    ("torch._inductor.codecache", "_HEADER_DIR"),
    ("torch._inductor.codecache", "_HEADER_LOCK_DIR"),
}
HARMLESS = {b"TMPDIR", b"TEMP", b"TMP"}


class Program:
    """An object that the interpreter accepts as the module runpy."""

    @property
    def _run_module_as_main(self):
        del sys.modules["runpy"]
        return main()


class Unfit(Exception):
    """No process can be forked from this one; the message says why."""


class Residue(Exception):
    """Importing a module left something behind; the message says what."""


def main():
    os.environ.__class__ = Recorder.plain
    control = socket.socket(fileno=os.dup(0))
    nothing_on([0])
    # The modules that the suite names; and those left out when this process began before, with the reasons.
    wanted, left_out = sys.argv[1].split(), dict(word.split(" ", 1) for word in sys.argv[2:])
    try:
        warm = load(wanted, left_out, control)
    except BaseException as error:
        why = str(error) if isinstance(error, Unfit) else "%s: %s" % (type(error).__name__, error)
        send(control, json.dumps({"unfit": why}).encode(), [])
        os._exit(0)
    without = ["%s: %s" % (name, left_out[name]) for name in wanted if name in left_out]
    send(control, json.dumps({"ready": without}).encode(), [])
    return serve(warm, Line(control))


def load(wanted, left_out, control):
    """Imports everything except `left_out`. Modules that leave something behind that every process would need separately are left
    out, too, and so are modules that the suite names but that cannot be imported: this process starts again without them.

    Raises Unfit if that is PyTorch itself."""
    variables = dict(os.environb)
    with open("/proc/self/environ", "rb") as file:
        began_with = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
    changed = sorted(name for name in variables.keys() | began_with.keys() if variables.get(name) != began_with.get(name))
    if changed:
        raise Unfit("starting this Python sets %s" % ", ".join(map(os.fsdecode, changed)))
    rest = variables.pop(b"PYTHONPATH", b"").split(b":", 1)[1:]
    if rest:
        variables[b"PYTHONPATH"] = os.environb[b"PYTHONPATH"] = rest[0]
        if not all(os.path.isabs(entry) for entry in rest[0].split(b":")):
            raise Unfit("PYTHONPATH has an entry that depends on the working directory")
    else:
        del os.environb[b"PYTHONPATH"]
    if not sys.stdout.write_through:
        raise Unfit("PYTHONUNBUFFERED is not set")
    descriptors = open_descriptors()
    left = descriptors - {*range(STREAMS), control.fileno()}
    if left:
        raise Unfit("starting this Python leaves open: %s" % ", ".join(os.readlink("/proc/self/fd/%d" % number) for number in left))
    said = b""
    shared = Shared()
    for name in [*MODULES, *wanted]:
        if name in wanted:
            shared.close()
        if name in left_out:
            continue
        os.environ.__class__ = Recorder
        try:
            importlib.import_module(name)
        except Exception as error:
            if name in wanted:
                why = "%s: %s" % (type(error).__name__, str(error).replace("\n", " "))
                begin_again(wanted, {**left_out, name: why}, control, variables)
            if name == "torch" or not isinstance(error, ImportError):
                raise
            # It does not belong to this PyTorch.
        finally:
            os.environ.__class__ = Recorder.plain
        forget_cache(variables)
        if name == "torch":
            said = output(2)
        try:
            look_around(variables, descriptors, said)
        except Residue as residue:
            if name == "torch":
                raise Unfit("importing torch %s" % residue) from None
            begin_again(wanted, {**left_out, name: "importing it %s" % residue}, control, variables)
    # It runs as `__main__`, for which runpy requires that it is not imported; its imports stay.
    parent, _, name = AGENT.decode().rpartition(".")
    if sys.modules.pop(AGENT.decode(), None) is not None:
        delattr(sys.modules[parent], name)
    remember_callers()
    shared.close()
    gc.collect()
    # Shared by the forks: a garbage collection that examined it would write to it, in every fork, and take half as long as a
    # small program.
    gc.freeze()
    return Warm(variables, frozenset(Recorder.asked) - HARMLESS, said)


class Shared:
    """The modules that every fork begins with and that are not part of any program. An interpreter deletes the globals of all
    modules at its end; a fork leaves these alone. Deleting them would copy most of the heap, and take longer than a small
    program.

    They exclude torch.distributed, whose globals hold the process groups: those end with the interpreter, as in a cold
    process."""

    def __init__(self):
        self.modules = None
        # The handler registered first runs last: after it, the interpreter only deletes.
        atexit.register(self.leave_alone)

    def close(self):
        """From here on, modules named by the suite are imported."""
        if self.modules is None:
            kept = ("__main__", "sys", "builtins", AGENT.decode().partition(".run")[0])
            self.modules = {name: module for name, module in sys.modules.items() if not (name in kept or name.startswith(kept[-1] + "."))}

    def leave_alone(self):
        for name, module in (self.modules or {}).items():
            if sys.modules.get(name) is module:
                # As the interpreter does next.
                sys.modules[name] = None
        # Nor are they freed with this object.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.modules))


def remember_callers():
    """torchrun repeatedly asks `inspect` where it is called from, which searches all modules for each file it does not know:
    after this it knows all of them, and the two below it, to which no module belongs."""
    inspect.getmodule(inspect.currentframe())
    for file in ("<frozen runpy>", ending_early.__code__.co_filename):
        inspect.modulesbyfile.setdefault(file, file)


def output(number):
    """The text written to this stream, which is a file."""
    with open("/proc/self/fd/%d" % number, "rb") as file:
        return file.read()


def look_around(variables, descriptors, said):
    """Raises Residue for anything that a cold process would have separately after the same imports."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if (output(1), output(2)) != (b"", said):
        raise Residue("prints something")
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1 or threading.active_count() > 1:
        raise Residue("starts threads (OMP_NUM_THREADS=1 avoids those of OpenMP)")
    changed = sorted(name for name in variables.keys() | os.environb.keys() if variables.get(name) != os.environb.get(name))
    if changed:
        raise Residue("sets %s" % ", ".join(map(os.fsdecode, changed)))
    left = open_descriptors() - descriptors
    if left:
        raise Residue("leaves open: %s" % ", ".join(os.readlink("/proc/self/fd/%d" % number) for number in left))
    if os.listdir(os.environ["TMPDIR"]):
        raise Residue("leaves files in TMPDIR")
    places = (os.environ["TMPDIR"], os.getcwd())
    for name, module in list(sys.modules.items()):
        for variable, value in list(getattr(module, "__dict__", {}).items()):
            # Not isinstance, which queries the value: torch.distributed.reduce_op responds with a warning.
            if type(value) is str and value.startswith(places) and (name, variable) not in RENEWED:
                raise Residue("keeps a directory of this process in %s.%s" % (name, variable))
    if libc.ftest_is_used():
        raise Residue("uses CUDA")


def forget_cache(variables):
    """Undoes what `cache_dir` in torch/_inductor/runtime/cache_dir_utils.py does, which is called by an import: it creates a
    directory in TMPDIR and sets the variable from which it reads that the next time. Each process does so for itself when
    needed."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    place = os.environ.get(name, "")
    if os.fsencode(name) not in variables and place.startswith(os.environ["TMPDIR"] + "/"):
        del os.environ[name]
        shutil.rmtree(place, ignore_errors=True)


def begin_again(wanted, left_out, control, variables):
    """Restarts this process without `left_out`."""
    for number in (1, 2):
        os.ftruncate(number, 0)
        os.lseek(number, 0, os.SEEK_SET)
    os.dup2(control.fileno(), 0)
    path = variables.get(b"PYTHONPATH")
    path = os.fsencode(DIRECTORY) + (b":" + path if path is not None else b"")
    for entry in os.scandir(os.environ["TMPDIR"]):
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
    arguments = [sys.executable, "-m", "ftest_warm", " ".join(wanted), *map(" ".join, left_out.items())]
    os.execve(sys.executable, arguments, {**variables, b"PYTHONPATH": path})
