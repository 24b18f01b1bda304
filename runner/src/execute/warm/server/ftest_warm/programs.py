# What an interpreter's command line makes it run, and how a fork runs that.
import atexit
import ctypes
import functools
import importlib.machinery as machinery
import os
import re
import sys
import threading

from .checks import Cold
from .kernel import libc
from .sources import own_sources

# PyTorch's launcher, and others that start ranks: what they set is meant for the ranks.
AGENT = b"torch.distributed.run"
LAUNCHERS = {AGENT, b"torch.distributed.launch", b"accelerate.commands.launch", b"accelerate.commands.accelerate_cli"}
# As get_command_line in multiprocessing/spawn.py and ensure_running in multiprocessing/forkserver.py write it.
SPAWNED = re.compile(rb"from multiprocessing\.(?:spawn import spawn_main; spawn_main|forkserver import main; main)\([^\n]*\)")


def program_of(words):
    """The program of this command line. Raises Cold for one that cannot run in a fork."""
    import subprocess

    place = 1
    # The flags that multiprocessing passes on: those of this interpreter itself.
    options = [os.fsencode(word) for word in subprocess._args_from_interpreter_flags()]
    if words[place : place + len(options)] == options:
        place += len(options)
    while words[place : place + 1] == [b"-u"]:
        # Already set by PYTHONUNBUFFERED.
        place += 1
    rest = words[place:]
    if len(rest) > 1 and rest[0] == b"-m":
        return Module(rest[1:])
    if len(rest) > 1 and rest[0] == b"-c" and SPAWNED.fullmatch(rest[1]):
        return Spawned(rest)
    if not rest or rest[0].startswith(b"-"):
        option = os.fsdecode(rest[0]) if rest else "no script"
        raise Cold("only scripts, modules and what multiprocessing spawns are started warm, not `python %s`" % option)
    return Script(rest)


class Script:
    """`python SCRIPT ARGUMENT...`"""

    def __init__(self, words):
        self.words = words
        self.path = os.fsdecode(words[0])

    def sources(self, roots):
        if not os.path.isfile(self.path):
            raise Cold("%s is not a file" % self.path)
        return own_sources(self.path, [self.directory(), *roots])

    def directory(self):
        return os.path.dirname(os.path.realpath(self.path))

    def first_on_path(self):
        return self.directory()

    def argv(self):
        return [os.fsdecode(word) for word in self.words]

    def start(self):
        path = self.path
        if not os.path.isabs(path):
            # As the interpreter makes `__file__` absolute.
            path = os.path.join(os.getcwd(), path)
        libc.fopen.restype = ctypes.c_void_p
        file = libc.fopen(os.fsencode(path), b"rbe")
        if file is None:
            raise OSError("%s cannot be opened" % path)
        run = ctypes.pythonapi.PyRun_AnyFileExFlags
        run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
        sys.audit("cpython.run_file", path)
        return in_c(run, file, os.fsencode(path), 1, None)


class Module:
    """`python -m MODULE ARGUMENT...`"""

    def __init__(self, words):
        self.words = words
        self.name = os.fsdecode(words[0])

    def sources(self, roots):
        """None for a launcher, only the module if it is installed."""
        if self.words[0] in LAUNCHERS:
            return None
        for name in (self.name, self.name + ".__main__"):
            if name in sys.modules and not hasattr(sys.modules[name], "__path__"):
                raise Cold("%s is imported already" % name)
        file = self.file()
        roots = [self.directory(), *roots]
        installed = file.startswith(tuple(os.path.join(entry, "") for entry in sys.path[1:] if entry not in roots))
        return own_sources(file, [] if installed else roots)

    def file(self):
        """Where it is, without importing its package."""
        places, spec, parts = [self.directory(), *sys.path[1:]], None, self.name.split(".")
        for count in range(1, len(parts) + 1):
            spec = machinery.PathFinder.find_spec(".".join(parts[:count]), places) if places is not None else None
            if spec is None:
                raise Cold("there is no module %s" % self.name)
            places = spec.submodule_search_locations
        if places is not None:
            spec = machinery.PathFinder.find_spec(self.name + ".__main__", places)
        if spec is None or not spec.has_location or not spec.origin.endswith(".py"):
            raise Cold("%s is not a Python module that can be run" % self.name)
        return spec.origin

    def directory(self):
        return os.getcwd()

    def first_on_path(self):
        return os.getcwd()

    def argv(self):
        return ["-m"] + [os.fsdecode(word) for word in self.words[1:]]

    def start(self):
        import runpy

        call = ctypes.pythonapi.PyObject_Call
        call.argtypes = [ctypes.py_object, ctypes.py_object, ctypes.c_void_p]
        call.restype = ctypes.py_object
        run = functools.partial(call, runpy._run_module_as_main, (self.name, True), None)
        return ending_early(run) if self.words[0] == AGENT else run


class Spawned:
    """A child started by multiprocessing with the methods spawn and forkserver. Its program has been examined with its
    parent's."""

    def __init__(self, words):
        self.words = words
        if sys.version_info >= (3, 13):
            # There the interpreter keeps the text of `-c` for tracebacks, through a function that it does not export.
            raise Cold("what multiprocessing spawns is started cold from Python 3.13 on")

    def sources(self, roots):
        return None

    def directory(self):
        return os.getcwd()

    def first_on_path(self):
        return ""

    def argv(self):
        return ["-c"] + [os.fsdecode(word) for word in self.words[2:]]

    def start(self):
        run = ctypes.pythonapi.PyRun_SimpleStringFlags
        run.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        sys.audit("cpython.run_command", os.fsdecode(self.words[1]) + "\n")
        return in_c(run, self.words[1] + b"\n", None)


# These return a C function: below the program there is no Python frame, as in a cold start. It is called with two more
# arguments, those of runpy._run_module_as_main, which C ignores.


def in_c(run, *arguments):
    run.restype = ctypes.c_int
    run.errcheck = ended
    return functools.partial(run, *arguments)


def ended(result, function, arguments):
    """Called when the program is over. An interrupted one ends by SIGINT: the interpreter knows."""
    if result != 0 and getattr(sys, "last_type", None) is not KeyboardInterrupt:
        raise SystemExit(1)
    return result


def ending_early(run):
    """torchrun, without the interpreter's finalization: deleting what it was forked with is half of its work in a short case, and
    has no visible effect. A torchrun with modules that are not PyTorch's, which may want to see their objects deleted, ends
    normally."""
    before = set(sys.modules)

    def start(*_):
        try:
            run()
            code = 0
        except SystemExit as end:
            code = 0 if end.code is None else end.code
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # As in PyErr_Print, without this frame.
            error.__traceback__ = error.__traceback__.tb_next
            sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
            sys.excepthook(sys.last_type, sys.last_value, sys.last_traceback)
            code = 1
        packages = {name.partition(".")[0] for name in set(sys.modules) - before}
        if not isinstance(code, int) or packages - sys.stdlib_module_names - {"torch"}:
            raise SystemExit(code)
        # The part of Py_FinalizeEx that others see.
        threading._shutdown()
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            raise SystemExit(code) from None
        libc.ftest_leave(code & 0xFF)

    return start


def is_this_interpreter(file):
    """Whether this file is the interpreter that runs here, or another name for it beside it."""
    file = os.fsdecode(file)
    if file == sys.executable:
        return True
    beside = os.path.dirname(file) == os.path.dirname(sys.executable)
    return beside and os.path.realpath(file) == os.path.realpath(sys.executable)


def interpreter_of(file):
    """The interpreter named in the first line of a script, if it has no arguments; otherwise None."""
    with open(file, "rb") as script:
        line = script.readline(256)
    if not line.startswith(b"#!") or not line.endswith(b"\n"):
        return None
    words = line[2:].split()
    return words[0] if len(words) == 1 else None
