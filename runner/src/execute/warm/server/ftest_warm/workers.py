# Python processes that a forked program starts itself: torchrun's workers, those of other launchers, and multiprocessing's.
import ctypes
import os
import re
import shutil
import signal
import socket
import sys
import threading

from .checks import Cold
from .forks import Door, serve
from .kernel import (
    MOST_DESCRIPTORS,
    PR_SET_CHILD_SUBREAPER,
    STREAMS,
    die_with,
    fork_unseen,
    libc,
    nothing_on,
    prctl,
    send,
    show,
    takes_orphans,
)
from .programs import interpreter_of, is_this_interpreter, program_of
from .request import Request, note

# Of /proc/thread-self/status, and files and links of /proc/self: what a process inherits, besides what it is given
# explicitly.
INHERITED = re.compile(
    rb"^(?:[UG]id|Groups|NSpgid|NSsid|Sig(?:Blk|Ign)|Cap\w+|NoNewPrivs|Seccomp\w*|Speculation_\w+|Cpus_allowed|Mems_allowed):.*$",
    re.MULTILINE,
)
# Seconds for a fork.
PATIENCE = 30
FILES = ("limits", "personality", "oom_score_adj", "cgroup")
LINKS = ("root", "ns/cgroup", "ns/ipc", "ns/mnt", "ns/net", "ns/pid_for_children", "ns/time_for_children", "ns/user", "ns/uts")


def serve_children(warm, request):
    """A process that may start others gets its own warm process, made before it has threads; forks of that are its children.
    Returns a value only in those."""
    import _posixsubprocess
    import subprocess

    if sys.version_info < (3, 11) or not hasattr(subprocess, "_fork_exec"):
        # fork_exec has different arguments there.
        return None
    door, process = Door(), os.getpid()
    # wait() in the program must not find it.
    child = fork_unseen()
    if child == 0:
        try:
            request.close()
            nothing_on(range(STREAMS))
            die_with(process, signal.SIGKILL)
            # It is not a rank; it keeps the mark, so that it can be found and ended.
            mark = [entry for entry in request.environment if entry.startswith(b"FTEST_CASE_COOKIE=")]
            show([request.interpreter, b"-m", b"ftest_warm"], mark)
        except OSError:
            os._exit(127)
        return serve(warm, door)
    door.close()
    if child is not None:
        workers = Workers(door.name, request.notes, subprocess._fork_exec)
        subprocess._fork_exec = _posixsubprocess.fork_exec = workers.fork_exec
    return None


class Workers:
    """Starts processes in a forked program."""

    def __init__(self, door, notes, cold):
        self.door, self.notes, self.cold = door, notes, cold
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.began_with = inherited()

    def fork_exec(self, *words):
        # The arguments of _posixsubprocess.fork_exec in CPython from 3.11 on. The warm process does not serve a child made by
        # fork().
        if os.getpid() != self.process:
            return self.cold(*words)
        arguments, executables, _, _, _, environment, *_ = words
        if environment is None:
            environment = c_environment()
        arguments, environment = [os.fsencode(word) for word in arguments], list(environment)
        file = next((name for name in map(os.fsencode, executables) if os.access(name, os.X_OK)), None)
        try:
            if file is None or not is_python(file, arguments, environment):
                return self.cold(*words)
        except (Cold, OSError):
            # This cannot be started warm.
            return self.cold(*words)
        variables = dict(entry.partition(b"=")[::2] for entry in environment)
        try:
            request = self.request(file, arguments, environment, *words)
            with self.lock:
                return self.ask(*request)
        except (Cold, OSError, ValueError) as why:
            note(self.notes, variables.get(b"RANK"), why)
            return self.cold(*words)

    def request(self, file, arguments, environment, _words, _executables, close_fds, kept, directory, _environment, *rest):
        (stdin, _, _, stdout, _, stderr, _, write, _, session, group, gid, gids, uid, umask, prepare, *_) = rest
        if not close_fds or group != -1 or umask != -1 or any(word is not None for word in (gid, gids, uid, prepare)):
            raise Cold("it is started with options that a fork does not follow")
        if inherited() != self.began_with:
            raise Cold("what it inherits (signals, limits, processors, session) is not as when its parent began")
        kept = [number for number in kept if number != write]
        if STREAMS + 1 + len(kept) > MOST_DESCRIPTORS:
            raise Cold("it inherits more than %d descriptors" % (MOST_DESCRIPTORS - STREAMS - 1))
        streams = [number if asked == -1 else asked for number, asked in enumerate((stdin, stdout, stderr))]
        here = os.fsencode(directory) if directory is not None else os.fsencode(os.getcwd())
        fields = (file, here, os.getpid(), 0, int(bool(session)), umask_now(), self.notes, kept, arguments, environment)
        return Request.message(*fields), streams, kept

    def ask(self, message, streams, kept):
        """The pid of a child of ours. Raises Cold or OSError if there is none."""
        report, theirs = socket.socketpair()
        took_orphans = takes_orphans()
        with report, socket.socket(socket.AF_UNIX) as door:
            try:
                # In the meantime, the orphan is reparented to us.
                prctl(PR_SET_CHILD_SUBREAPER, 1)
                for connection in (report, door):
                    connection.settimeout(PATIENCE)
                with theirs:
                    door.connect(self.door)
                    send(door, message, [*streams, theirs.fileno(), *kept])
                words = read_line(report).split(None, 2)
                if words[:1] != [b"ready"]:
                    if len(words) > 1 and words[1] != b"0":
                        os.waitpid(int(words[1]), 0)
                    raise Cold(os.fsdecode(words[2].strip()) if len(words) > 2 else "the warm process is gone")
                report.sendall(b"g")
                return int(words[1])
            finally:
                prctl(PR_SET_CHILD_SUBREAPER, took_orphans)


def is_python(file, arguments, environment):
    """Whether a fork may become this command: this interpreter, possibly through the first line of a script. May raise Cold."""
    if not is_this_interpreter(file):
        interpreter = interpreter_of(file)
        return interpreter is not None and is_this_interpreter(interpreter)
    if arguments[:1] != [file]:
        # The interpreter finds itself by its name.
        path = next((entry[5:] for entry in environment if entry.startswith(b"PATH=")), b"")
        if not arguments or b"/" in arguments[0] or shutil.which(arguments[0], path=path) != file:
            return False
    program_of(arguments)
    return True


def inherited():
    with open("/proc/thread-self/status", "rb") as file:
        found = INHERITED.findall(file.read())
    for name in FILES:
        with open("/proc/self/" + name, "rb") as file:
            found.append(file.read())
    found += [os.readlink("/proc/self/" + name) for name in LINKS if os.path.lexists("/proc/self/" + name)]
    return found + [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))]


def umask_now():
    # Querying it with os.umask would change it for a moment, even for other threads.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))


def c_environment():
    """The entries of the environment as exec would pass them on."""
    first, entries = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ"), []
    while first and first[len(entries)] is not None:
        entries.append(first[len(entries)])
    return entries


def read_line(connection):
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            break
        line += part
    return line
