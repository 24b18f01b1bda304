# Kernel features: signals on the parent's death, and the process's arguments and environment as shown in /proc.
import array
import ctypes
import os
import signal
import socket
import struct

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_MM, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 1, 15, 35, 36, 37
PR_SET_MM_MAP = 14
PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS = 3, 0x22
STREAMS = 3

libc = ctypes.CDLL(None, use_errno=True)
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_void_p] * 4
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.sbrk.restype = ctypes.c_void_p
# __NR_clone, where this is known to work; and the maximum number of descriptors in a message (SCM_MAX_FD).
CLONE = {"x86_64": 56, "aarch64": 220}
MOST_DESCRIPTORS = 253


class MemoryMap(ctypes.Structure):
    # struct prctl_mm_map (linux/prctl.h), with the position of each number in /proc/PID/stat (proc_pid_stat(5), from
    # 1).
    PLACES = {
        "start_code": 26,
        "end_code": 27,
        "start_data": 45,
        "end_data": 46,
        "start_brk": 47,
        "brk": None,
        "start_stack": 28,
        "arg_start": None,
        "arg_end": None,
        "env_start": None,
        "env_end": None,
        "auxv": None,
    }
    _fields_ = [(name, ctypes.c_uint64) for name in PLACES] + [
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    ]


def prctl(option, argument):
    if libc.prctl(option, argument, None, None, None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def show(arguments, environment):
    """Sets /proc/self/cmdline and /proc/self/environ as after an exec with these."""
    first, second = (b"".join(word + b"\0" for word in words) for words in (arguments, environment))
    size = max(len(first) + len(second), 1)
    # Never unmapped: /proc is read until the process is gone.
    place = libc.mmap(None, size, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0)
    if place in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "no memory for the environment")
    ctypes.memmove(place, first + second, len(first) + len(second))
    with open("/proc/self/stat", "rb") as file:
        # The name in parentheses may hold anything; the state, field 3, follows it.
        fields = file.read().rpartition(b") ")[2].split()
    wanted = MemoryMap(auxv=0, auxv_size=0, exe_fd=0xFFFFFFFF)
    for name, number in MemoryMap.PLACES.items():
        if number is not None:
            setattr(wanted, name, int(fields[number - 3]))
    wanted.brk = libc.sbrk(0)
    wanted.arg_start, wanted.arg_end = place, place + len(first)
    wanted.env_start, wanted.env_end = place + len(first), place + len(first) + len(second)
    size = ctypes.sizeof(wanted)
    if libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.addressof(wanted), size, None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, "prctl(PR_SET_MM_MAP): " + os.strerror(code))


def die_with(parent, number):
    """Makes the kernel send this process signal `number` when `parent` dies; 0 means none."""
    prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        # The parent died before the kernel knew.
        os._exit(127)


def takes_orphans():
    taken = ctypes.c_int()
    prctl(PR_GET_CHILD_SUBREAPER, ctypes.addressof(taken))
    return taken.value


def fork_unseen():
    """As os.fork, but the child sends no SIGCHLD: wait(2) skips such a child unless asked for it (__WCLONE). None if this cannot
    be done. Neither glibc nor the interpreter knows about it, so use it only in a process with one thread, for a child that only
    forks in turn."""
    number = CLONE.get(os.uname().machine)
    if number is None:
        return None
    # PyDLL keeps the interpreter lock, which another thread could not release in the child.
    clone = ctypes.PyDLL(None, use_errno=True).syscall
    clone.restype, clone.argtypes = ctypes.c_long, [ctypes.c_long] * 6
    child = clone(number, 0, 0, 0, 0, 0)
    return child if child >= 0 else None


def open_descriptors():
    listed = set(map(int, os.listdir("/proc/self/fd")))
    return {number for number in listed if is_open(number)}


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def nothing_on(numbers):
    """/dev/null on these descriptors."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in numbers:
        os.dup2(null, number)
    os.close(null)


def send(control, message, descriptors):
    """Sends one message: its length together with the descriptors, then its bytes."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    control.sendmsg([struct.pack("<I", len(message))], rights)
    control.sendall(message)


def receive(control):
    """The next message and its descriptors; (None, []) at the end."""
    space = socket.CMSG_SPACE(MOST_DESCRIPTORS * struct.calcsize("i"))
    head, ancillary, _, _ = control.recvmsg(4, space, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    head += exactly(control, 4 - len(head)) if head else b""
    if len(head) < 4:
        return None, list(descriptors)
    (length,) = struct.unpack("<I", head)
    message = exactly(control, length)
    return (message if len(message) == length else None), list(descriptors)


def exactly(control, length):
    parts = []
    while length:
        part = control.recv(min(length, 1 << 20))
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def ignored_signals():
    """Signals that a program would find ignored. The interpreter ignores two of them itself, in every process."""
    own = {signal.SIGPIPE, getattr(signal, "SIGXFSZ", None)}
    return [number for number in signal.valid_signals() - own if signal.getsignal(number) == signal.SIG_IGN]
