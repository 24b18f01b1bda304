# From a fork of the warm process to the process that was asked for.
import functools
import gc
import io
import stat


class Request:
    """What a process is to be. Its end of `report` leads to who asked."""

    FIELDS = ("file", "directory", "parent", "death", "session", "umask", "notes", "arguments")

    def __init__(self, message, descriptors):
        words = message.split(b"\0")
        count = len(self.FIELDS)
        self.file, self.directory, parent, death, session, umask, notes, arguments = words[:count]
        self.parent, self.death, self.session = int(parent), int(death), session == b"1"
        self.umask = int(umask) if umask else None
        self.notes = notes
        self.arguments = words[count : count + int(arguments)]
        self.environment = words[count + int(arguments) :]
        self.streams, self.report = descriptors[:STREAMS], socket.socket(fileno=descriptors[STREAMS])

    @staticmethod
    def message(file, directory, parent, death, session, umask, notes, arguments, environment):
        fields = [file, directory, parent, death, session, umask, notes, len(arguments)]
        plain = [word if isinstance(word, bytes) else str(word).encode() for word in fields]
        return b"\0".join(plain + arguments + environment)

    def variables(self):
        return dict(entry.split(b"=", 1) for entry in self.environment)

    def close(self):
        for number in self.streams:
            os.close(number)
        self.report.close()

    def fail(self, error):
        """This process does not become what was asked for, and has to be waited for."""
        try:
            self.report.sendall(b"error %d %s\n" % (os.getpid(), os.fsencode(str(error)).replace(b"\n", b" ")))
        finally:
            os._exit(127)

    def admit(self, reason):
        """Reports this process, and waits until who asked knows it: without that it must not run."""
        self.note(reason)
        self.report.sendall(b"ready %d\n" % os.getpid())
        if self.report.recv(1) != b"g":
            os._exit(127)

    def note(self, reason):
        if not self.notes:
            return
        rank = self.variables().get(b"RANK")
        name = b"rank " + rank if rank is not None else b"launcher"
        how = b"cold: " + os.fsencode(str(reason)) if reason else b"warm"
        try:
            number = os.open(self.notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            return
        with open(number, "wb") as file:
            file.write(name + b" " + how.replace(b"\n", b" ") + b"\n")


class Warm:
    """What the warm process is, and its forks begin with."""

    def __init__(self, environment, asked, said):
        self.environment = environment
        # To stderr, while PyTorch was imported: that it has no NumPy.
        self.said = said
        self.asked = asked
        self.known = importable()

    def become(self, request):
        """Turns this process, a fresh child of who asked, into the one that was asked for: gives what the interpreter calls. One that
        has to be cold is never back."""
        try:
            die_with(request.parent, request.death)
            if request.session:
                os.setsid()
            if request.umask is not None:
                os.umask(request.umask)
            os.chdir(request.directory)
        except OSError as error:
            request.fail(error)
        agent, place, file, reason = False, 0, None, None
        try:
            agent, place = self.check(request)
            if not agent:
                file = open_script(os.fsdecode(request.arguments[place]))
            show(request.arguments, request.environment)
        except Cold as why:
            reason = why
        except OSError as why:
            reason = "%s (the environment of a process that runs cannot be replaced here)" % why
        if reason is not None:
            self.exec(request, reason)
        prctl(PR_SET_NAME, os.path.basename(request.file)[:15])
        replace_environment(request.environment)
        if agent:
            start = serve_workers(self, request)
            if start is not None:
                return start
        take_streams(request)
        renew_random()
        renew_directories()
        sys.argv = [os.fsdecode(word) for word in request.arguments[place:]]
        sys.orig_argv = [os.fsdecode(word) for word in request.arguments]
        sys.executable = os.fsdecode(request.file)
        if agent:
            sys.argv[0] = "-m"
            put_first(os.getcwd())
            start = run_module(AGENT.decode())
        else:
            script = sys.argv[0]
            put_first(os.path.dirname(os.path.realpath(script)))
            start = run_file(*file)
        request.admit(None)
        request.report.close()
        os.write(2, self.said)
        return start

    def check(self, request):
        agent, place = program_of(request.arguments)
        if os.fsdecode(request.file) != sys.executable:
            raise Cold("%s is another interpreter than %s" % (os.fsdecode(request.file), sys.executable))
        if any(b"=" not in entry or entry.startswith(b"=") for entry in request.environment):
            raise Cold("the environment has an entry without a name or a value")
        check_environment(request.variables(), self.environment, self.asked)
        directory = os.getcwd()
        if not agent:
            script = os.fsdecode(request.arguments[place])
            if not os.path.isfile(script) or not stat.S_ISREG(os.stat(script).st_mode):
                raise Cold("%s is not a file" % script)
            check_script(script, self.asked, self.said)
            directory = os.path.dirname(os.path.realpath(script))
        check_shadows(directory, self.known)
        return agent, place

    @staticmethod
    def exec(request, reason):
        """A cold start in this process's place: parent, pid, session and descriptors are right already."""
        try:
            for number, descriptor in enumerate(request.streams):
                os.dup2(descriptor, number)
            request.admit(reason)
            # The interpreter's own, in this process as in the next; but only a program that is no interpreter would notice.
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execve(request.file, request.arguments, request.variables())
        except OSError as error:
            os.write(2, b"ftest: cannot start %s: %s\n" % (request.file, os.fsencode(str(error))))
            os._exit(127)


def replace_environment(entries):
    # In order, and by way of os.environ, which sets the C library's as well.
    os.environ.clear()
    for entry in entries:
        name, value = entry.split(b"=", 1)
        os.environb[name] = value
    here = sys.modules["posix"].environ
    here.clear()
    here.update(entry.split(b"=", 1) for entry in entries)


def take_streams(request):
    """The three streams: the same Python objects, since what was imported holds them, over the new descriptors."""
    for number, descriptor in enumerate(request.streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # As create_stdio in CPython's pylifecycle.c makes them where PYTHONUNBUFFERED is set. A raw stream remembers whether its file
    # is seekable, also when it is initialized again: those are new.
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
    """What a process draws when it starts or imports, each draws for itself. `random` does so after every fork."""
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
    """What imports keep of the working directory and of TMPDIR: what RENEWED names, and a default of PyTorch's."""
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.ORIGINAL_DIR = os.getcwd()
    dynamo = sys.modules.get("torch._dynamo.config")
    if hasattr(dynamo, "default_debug_dir_root"):
        dynamo._config["debug_dir_root"].default = dynamo.default_debug_dir_root()


def put_first(directory):
    if not getattr(sys.flags, "safe_path", False):
        # The server's working directory is there, as `python -m` has it.
        sys.path_importer_cache.pop(sys.path[0], None)
        sys.path[0] = directory


# Both give a C function: below the program there is no Python frame, as in a cold start. It is called with two arguments more,
# those of runpy._run_module_as_main, which C ignores.


def open_script(script):
    path = script
    if not os.path.isabs(script):
        # As the interpreter makes `__file__` absolute.
        path = os.path.join(os.getcwd(), script)
    libc.fopen.restype = ctypes.c_void_p
    file = libc.fopen(os.fsencode(path), b"rbe")
    if file is None:
        raise Cold("it cannot be opened")
    return file, path


def run_file(file, path):
    run = ctypes.pythonapi.PyRun_AnyFileExFlags
    run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
    run.restype = ctypes.c_int
    run.errcheck = ended
    sys.audit("cpython.run_file", path)
    return functools.partial(run, file, os.fsencode(path), 1, None)


def ended(result, function, arguments):
    """When the program is over. An interrupted one ends by SIGINT: the interpreter knows."""
    if result != 0 and getattr(sys, "last_type", None) is not KeyboardInterrupt:
        raise SystemExit(1)
    return result


def run_module(name):
    import runpy

    call = ctypes.pythonapi.PyObject_Call
    call.argtypes = [ctypes.py_object, ctypes.py_object, ctypes.c_void_p]
    call.restype = ctypes.py_object
    return functools.partial(call, runpy._run_module_as_main, (name, True), None)
