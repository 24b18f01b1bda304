# Turns a fork of the warm process into the requested process.
import fcntl
import gc
import io
import time


class Request:
    """The description of a requested process. Its end of `report` leads to the requester; `kept` are the numbers of the
    descriptors that it inherits besides its streams."""

    FIELDS = ("file", "directory", "parent", "death", "session", "umask", "notes", "kept", "arguments")

    def __init__(self, message, descriptors):
        words = message.split(b"\0")
        count = len(self.FIELDS)
        self.file, self.directory, parent, death, session, umask, notes, kept, arguments = words[:count]
        self.parent, self.death, self.session = int(parent), int(death), session == b"1"
        self.umask = int(umask) if umask else None
        self.notes = notes
        self.kept = [int(number) for number in kept.split()]
        self.arguments = words[count : count + int(arguments)]
        self.environment = words[count + int(arguments) :]
        self.report = socket.socket(fileno=descriptors[STREAMS])
        self.given = descriptors[:STREAMS] + descriptors[STREAMS + 1 :]
        # The arguments of the interpreter; for a script that names it in its first line, the script comes first.
        self.interpreter, self.words = self.file, self.arguments

    @staticmethod
    def message(file, directory, parent, death, session, umask, notes, kept, arguments, environment):
        fields = [file, directory, parent, death, session, umask, notes, b" ".join(b"%d" % number for number in kept), len(arguments)]
        plain = [word if isinstance(word, bytes) else str(word).encode() for word in fields]
        return b"\0".join(plain + arguments + environment)

    def interpreted(self):
        """Does what the kernel does with a script."""
        if not is_this_interpreter(self.file):
            try:
                interpreter = interpreter_of(self.file)
            except OSError as error:
                raise Cold("%s cannot be read: %s" % (os.fsdecode(self.file), error)) from None
            if interpreter is not None:
                self.interpreter, self.words = interpreter, [interpreter, self.file, *self.arguments[1:]]
        if not is_this_interpreter(self.interpreter):
            raise Cold("%s is another interpreter than %s" % (os.fsdecode(self.interpreter), sys.executable))

    def variables(self):
        return dict(entry.split(b"=", 1) for entry in self.environment)

    def close(self):
        for number in self.given:
            os.close(number)
        self.report.close()

    def place_descriptors(self):
        """Puts every descriptor on its number, and the report on none of those."""
        numbers = [*range(STREAMS), *self.kept]
        above = max(numbers) + 1
        given = self.given + [self.report.detach()]
        moved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above) for number in given]
        for number in given:
            os.close(number)
        self.report = socket.socket(fileno=moved.pop())
        for source, number in zip(moved, numbers):
            os.dup2(source, number)
            os.close(source)

    def fail(self, error):
        """This process does not become the requested one, and has to be waited for."""
        try:
            self.report.sendall(b"error %d %s\n" % (os.getpid(), os.fsencode(str(error)).replace(b"\n", b" ")))
        finally:
            os._exit(127)

    def admit(self, reason):
        """Reports this process, and waits until the requester knows it: without that it must not run."""
        note(self.notes, self.variables().get(b"RANK"), reason)
        self.report.sendall(b"ready %d\n" % os.getpid())
        if self.report.recv(1) != b"g":
            os._exit(127)


def note(notes, rank, reason):
    """Records how a process was started."""
    if not notes:
        return
    name = b"rank " + rank if rank is not None else b"launcher"
    how = b"cold: " + os.fsencode(str(reason)) if reason else b"warm"
    try:
        number = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return
    with open(number, "wb") as file:
        file.write(name + b" " + how.replace(b"\n", b" ") + b"\n")


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
