# Turns a fork of the warm process into the requested process.
import io
import os
import signal
import sys
import time

from .checks import Cold, check_environment, check_shadows, importable
from .kernel import PR_SET_NAME, die_with, libc, prctl, show
from .programs import Spawned, program_of
from .sources import STARTS_PROCESSES, check_sources
from .workers import serve_children


class Warm:
    """The state of the warm process, with which its forks begin."""

    def __init__(self, environment, asked, said):
        self.environment = environment
        # Output on stderr while PyTorch was imported: that it has no NumPy.
        self.said = said
        self.asked = asked
        self.known = importable()

    def become(self, request):
        """Turns this process, a fresh child of the requester, into the requested one: returns what the interpreter calls. If it
        has to be started cold, never returns."""
        try:
            die_with(request.parent, request.death)
            if request.session:
                os.setsid()
            if request.umask is not None:
                os.umask(request.umask)
            os.chdir(request.directory)
        except OSError as error:
            request.fail(error)
        program, starts, reason = None, False, None
        try:
            program, starts = self.check(request)
            show(request.words, request.environment)
        except Cold as why:
            reason = why
        except OSError as why:
            reason = "%s (the environment of a process that runs cannot be replaced here)" % why
        if reason is not None:
            self.exec(request, reason)
        libc.ftest_forked()
        prctl(PR_SET_NAME, os.path.basename(request.file)[:15])
        replace_environment(request.environment)
        if starts:
            start = serve_children(self, request)
            if start is not None:
                return start
        try:
            take_streams(request)
            renew_random()
            renew_directories()
            renew_times()
            sys.argv = program.argv()
            sys.orig_argv = [os.fsdecode(word) for word in request.words]
            sys.executable = os.fsdecode(request.interpreter)
            put_first(program.first_on_path())
            renew_main()
            start = program.start()
        except OSError as error:
            request.fail(error)
        request.admit(None)
        request.report.close()
        os.write(2, self.said)
        return start

    def check(self, request):
        """The program, and whether it may start Python processes itself. Raises Cold."""
        request.interpreted()
        if any(b"=" not in entry or entry.startswith(b"=") for entry in request.environment):
            raise Cold("the environment has an entry without a name or a value")
        variables = request.variables()
        check_environment(variables, self.environment, self.asked)
        program = program_of(request.words)
        sources = program.sources(list(filter(None, os.fsdecode(variables.get(b"PYTHONPATH", b"")).split(":"))))
        if sources is not None:
            check_sources(sources, self.asked, self.said)
        check_shadows(program.directory(), self.known)
        if isinstance(program, Spawned):
            return program, False
        return program, sources is None or any(STARTS_PROCESSES.search(source.text) for source in sources)

    @staticmethod
    def exec(request, reason):
        """A cold start in place of this process: parent, pid, session and descriptors are already right."""
        try:
            request.place_descriptors()
            request.admit(reason)
            # The interpreter's own, in this process as in the next; but only a program that is not an interpreter would notice.
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execve(request.file, request.arguments, request.variables())
        except OSError as error:
            os.write(2, b"ftest: cannot start %s: %s\n" % (request.file, os.fsencode(str(error))))
            os._exit(127)


def replace_environment(entries):
    # In order, and through os.environ, which also sets the C library's environment.
    os.environ.clear()
    for entry in entries:
        name, value = entry.split(b"=", 1)
        os.environb[name] = value
    here = sys.modules["posix"].environ
    here.clear()
    here.update(entry.split(b"=", 1) for entry in entries)


def take_streams(request):
    """The three streams: the same Python objects, because imported code holds them, over the new descriptors."""
    request.place_descriptors()
    # As create_stdio in CPython's pylifecycle.c makes them if PYTHONUNBUFFERED is set. A raw stream remembers whether its file is
    # seekable, also when it is initialized again: those are new.
    raws = [io.FileIO(number, mode, closefd=False) for number, mode in enumerate(("r", "w", "w"))]
    for raw, name in zip(raws, ("<stdin>", "<stdout>", "<stderr>")):
        raw.name = name
    reader = sys.stdin.buffer
    reader.__init__(raws[0], raws[0]._blksize if raws[0]._blksize > 1 else io.DEFAULT_BUFFER_SIZE)
    buffers = (reader, raws[1], raws[2])
    for stream, buffer in zip((sys.stdin, sys.stdout, sys.stderr), buffers):
        mode = stream.mode
        stream.__init__(buffer, stream.encoding, stream.errors, "\n", False, True)
        stream.mode = mode


def renew_random():
    """Random values that a process draws when it starts or imports: each process draws its own. `random` does so after
    every fork."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)


def renew_directories():
    """What imports remember of the working directory and TMPDIR: the names in RENEWED, and two places of PyTorch's."""
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.ORIGINAL_DIR = os.getcwd()
    dynamo = sys.modules.get("torch._dynamo.config")
    if hasattr(dynamo, "default_debug_dir_root"):
        dynamo._config["debug_dir_root"].default = dynamo.default_debug_dir_root()
    inductor = sys.modules.get("torch._inductor.codecache")
    if hasattr(inductor, "_HEADER_DIR"):
        inductor._HEADER_DIR = os.path.join(inductor.default_cache_dir(), "precompiled_headers")
        inductor._HEADER_LOCK_DIR = os.path.join(inductor._HEADER_DIR, "locks")
    cache = getattr(sys.modules.get("torch._dynamo.package"), "DynamoCache", None)
    places = sys.modules.get("torch._inductor.runtime.cache_dir_utils")
    if hasattr(cache, "_path_prefix") and hasattr(places, "default_cache_dir"):
        place = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or places.default_cache_dir()
        cache._path_prefix = os.path.join(place, "dynamo")


def renew_times():
    """The start time of the process, from which log records count."""
    logging = sys.modules.get("logging")
    if logging is not None:
        # In nanoseconds from CPython 3.13 on.
        logging._startTime = time.time_ns() if type(logging._startTime) is int else time.time()


def renew_main():
    """The module that the program becomes: modules that existed at the freeze are never collected, and their globals would not be
    deleted at the end."""
    before = sys.modules["__main__"]
    main = sys.modules["__main__"] = type(sys)("__main__")
    vars(main).update((name, {} if name == "__annotations__" else value) for name, value in vars(before).items())


def put_first(directory):
    if not getattr(sys.flags, "safe_path", False):
        # The server's working directory is in it, as with `python -m`.
        sys.path_importer_cache.pop(sys.path[0], None)
        sys.path[0] = directory
