# The warm process: imports, then forks a process for each request.
import fcntl
import importlib
import json
import shutil
import threading

# What PyTorch's launcher imports, and DDP and the optimizers when they are first used.
MODULES = ("torch", "torch.distributed", "torch.distributed.run", "torch.nn.parallel", "torch.optim", "torch._dynamo")

# Where imports keep a directory that `renew_directories` replaces, and the variables behind those: what they were for the server does
# not matter.
RENEWED = {("tempfile", "tempdir"), ("multiprocessing.process", "ORIGINAL_DIR")}
HARMLESS = {b"TMPDIR", b"TEMP", b"TMP"}
# Above the descriptors that a launcher opens itself.
FAR = 200


class Program:
    """What the interpreter takes for the module runpy."""

    @property
    def _run_module_as_main(self):
        del sys.modules["runpy"]
        return main()


class Unfit(Exception):
    """No process can be forked from this one; the message says why."""


class Residue(Exception):
    """Importing a module left something behind; the message says what."""


def main():
    control = socket.socket(fileno=os.dup(0))
    nothing_on([0])
    left_out = sys.argv[1:]
    try:
        warm = load(left_out, control)
    except BaseException as error:
        why = str(error) if isinstance(error, Unfit) else "%s: %s" % (type(error).__name__, error)
        send(control, json.dumps({"unfit": why}).encode(), [])
        os._exit(0)
    send(control, json.dumps({"ready": sys.modules["torch"].__version__}).encode(), [])
    return serve(warm, control)


def load(left_out, control):
    """Imports everything but `left_out`. What leaves something behind that every process would need of its own is left out, too:
    this process begins anew without it.

    Raises Unfit where that is PyTorch itself."""
    variables = dict(os.environb)
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
    said = b""
    plain = type(os.environ)
    for name in MODULES:
        if name in left_out:
            continue
        os.environ.__class__ = Recorder
        try:
            importlib.import_module(name)
        except ImportError:
            if name == "torch":
                raise
            # Then it is none of this PyTorch's.
        finally:
            os.environ.__class__ = plain
        forget_cache(variables)
        if name == "torch":
            said = output(2)
        try:
            look_around(variables, descriptors, said)
        except Residue as residue:
            if name == "torch":
                raise Unfit("importing torch %s" % residue) from None
            begin_again(left_out + [name], control, variables)
    # It runs as `__main__`, for which runpy wants it not to be imported; what it imports stays.
    parent, _, name = AGENT.decode().rpartition(".")
    if sys.modules.pop(AGENT.decode(), None) is not None:
        delattr(sys.modules[parent], name)
    gc.collect()
    return Warm(variables, frozenset(Recorder.asked) - HARMLESS, said)


def output(number):
    """What was written to this stream, a file."""
    with open("/proc/self/fd/%d" % number, "rb") as file:
        return file.read()


def look_around(variables, descriptors, said):
    """Raises Residue for what a cold process would have of its own after the same imports."""
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
            # Not isinstance, which asks the value: torch.distributed.reduce_op answers with a warning.
            if type(value) is str and value.startswith(places) and (name, variable) not in RENEWED:
                raise Residue("keeps a directory of this process in %s.%s" % (name, variable))
    if libc.ftest_is_used():
        raise Residue("uses CUDA")


def forget_cache(variables):
    """Undoes what `cache_dir` in torch/_inductor/runtime/cache_dir_utils.py does, which is called by an import: it makes a directory in
    TMPDIR and sets the variable from which it takes that the next time. Each process does so for itself when it needs it."""
    name = "TORCHINDUCTOR_CACHE_DIR"
    place = os.environ.get(name, "")
    if os.fsencode(name) not in variables and place.startswith(os.environ["TMPDIR"] + "/"):
        del os.environ[name]
        shutil.rmtree(place, ignore_errors=True)


def begin_again(left_out, control, variables):
    """The same process, from the start, without `left_out`."""
    for number in (1, 2):
        os.ftruncate(number, 0)
        os.lseek(number, 0, os.SEEK_SET)
    os.dup2(control.fileno(), 0)
    path = variables.get(b"PYTHONPATH")
    path = os.fsencode(DIRECTORY) + (b":" + path if path is not None else b"")
    for entry in os.scandir(os.environ["TMPDIR"]):
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
    arguments = [sys.executable, "-m", "ftest_warm", *left_out]
    os.execve(sys.executable, arguments, {**variables, b"PYTHONPATH": path})


def serve(warm, control):
    """Forks until `control` ends. Comes back in the forks only, with what the interpreter calls."""
    while True:
        message, descriptors = receive(control, STREAMS + 1)
        if message is None:
            os._exit(0)
        request = Request(message, descriptors)
        start = fork(warm, control, request)
        if start is not None:
            return start
        request.close()


def fork(warm, control, request):
    """A process whose parent is who asked: its own parent ends at once, and the kernel gives an orphan to the nearest ancestor
    that takes orphans."""
    moved, move = os.pipe()
    try:
        middle = os.fork()
    except OSError as error:
        request.report.sendall(b"error 0 %s\n" % os.fsencode(str(error)))
        os.close(moved)
        os.close(move)
        return None
    if middle == 0:
        try:
            child = os.fork()
        except OSError as error:
            request.report.sendall(b"error 0 %s\n" % os.fsencode(str(error)))
            os._exit(1)
        if child != 0:
            os._exit(0)
        os.close(move)
        control.close()
        # Not before its parent is gone for good; never, if this server is.
        if os.read(moved, 1) != b"m":
            os._exit(127)
        os.close(moved)
        return warm.become(request)
    os.close(moved)
    os.waitpid(middle, 0)
    try:
        os.write(move, b"m")
    except BrokenPipeError:
        pass
    os.close(move)
    return None


def umask_now():
    # Asking by os.umask would change it for a moment, also for other threads.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))


def serve_workers(warm, request):
    """An agent of torchrun gets a warm process of its own, made before it has threads: its workers are its children. Comes back
    with something in those only."""
    import subprocess

    if not hasattr(subprocess, "_fork_exec"):
        # Before CPython 3.11.
        return None
    ours, theirs = socket.socketpair()
    agent = os.getpid()
    if os.fork() == 0:
        ours.close()
        request.close()
        nothing_on(range(STREAMS))
        die_with(agent, signal.SIGKILL)
        return serve(warm, theirs)
    theirs.close()
    Workers(ours, request.notes).install()
    return None


class Workers:
    """The starting of processes in an agent of torchrun."""

    def __init__(self, control, notes):
        # Out of the way: the program's own descriptors have the numbers that they have in a cold start.
        self.control = socket.socket(fileno=fcntl.fcntl(control.fileno(), fcntl.F_DUPFD_CLOEXEC, FAR))
        control.close()
        self.notes = notes
        self.lock = threading.Lock()
        self.began_with = self.state()
        self.cold = None

    @staticmethod
    def state():
        """What a process inherits, beside what it is given."""
        return ignored_signals(), signal.pthread_sigmask(signal.SIG_BLOCK, ()), os.sched_getaffinity(0)

    def install(self):
        import subprocess

        self.cold = subprocess._fork_exec
        subprocess._fork_exec = self.fork_exec

    def fork_exec(self, *words):
        # The arguments of _posixsubprocess.fork_exec in CPython 3.11 to 3.14.
        try:
            request, streams = self.request(*words)
        except (Cold, TypeError, OSError):
            return self.cold(*words)
        with self.lock:
            return self.ask(request, streams) or self.cold(*words)

    def request(self, arguments, executables, close_fds, kept, directory, environment, *rest):
        (stdin, _, _, stdout, _, stderr, _, write, _, session, group, gid, gids, uid, umask, prepare, *_) = rest
        plain = close_fds and tuple(kept) == (write,) and group == -1 and umask == -1
        if not plain or any(word is not None for word in (gid, gids, uid, prepare)):
            raise Cold("it is started in a way of its own")
        words = [os.fsencode(word) for word in arguments]
        if list(map(os.fsdecode, executables)) != [sys.executable] or words[:1] != [os.fsencode(sys.executable)]:
            raise Cold("another program")
        if self.state() != self.began_with:
            raise Cold("signals or processors are not as they were")
        if environment is None:
            environment = [name + b"=" + value for name, value in os.environb.items()]
        streams = [number if asked == -1 else asked for number, asked in enumerate((stdin, stdout, stderr))]
        here = os.fsencode(directory) if directory is not None else os.fsencode(os.getcwd())
        message = Request.message(
            words[0], here, os.getpid(), 0, int(bool(session)), umask_now(), self.notes, words, list(environment)
        )
        return message, streams

    def ask(self, message, streams):
        """The pid of a child of ours; None if there is none."""
        report, theirs = socket.socketpair()
        with report:
            try:
                # Meanwhile the orphan comes to us.
                prctl(PR_SET_CHILD_SUBREAPER, 1)
                with theirs:
                    send(self.control, message, streams + [theirs.fileno()])
                words = read_line(report).split()
                if words[:1] != [b"ready"]:
                    if words and words[1] != b"0":
                        os.waitpid(int(words[1]), 0)
                    return None
                report.sendall(b"g")
                return int(words[1])
            except OSError:
                return None
            finally:
                prctl(PR_SET_CHILD_SUBREAPER, 0)


def read_line(connection):
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            break
        line += part
    return line
