# Where processes are requested, and the fork for each request.
import os
import socket
import struct

from .kernel import receive
from .request import Request


class Line:
    """Where ftest requests processes."""

    def __init__(self, control):
        self.control = control

    def receive(self):
        return receive(self.control)

    def close(self):
        self.control.close()


class Door:
    """Where a program requests its own processes, under a name chosen by the kernel, so that the program needs no descriptor for
    it."""

    def __init__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind("")
        self.listener.listen()
        self.name = self.listener.getsockname()

    def receive(self):
        """The next message from this process's parent, and nobody else, with its descriptors."""
        while True:
            caller, _ = self.listener.accept()
            with caller:
                process, _, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
                message, descriptors = receive(caller) if process == os.getppid() else (None, [])
            if message is not None:
                return message, descriptors
            for number in descriptors:
                os.close(number)

    def close(self):
        self.listener.close()


def serve(warm, door):
    """Forks until nobody can request any more. Returns only in the forks, with what the interpreter calls."""
    while True:
        message, descriptors = door.receive()
        if message is None:
            os._exit(0)
        request = Request(message, descriptors)
        start = fork(warm, door, request)
        if start is not None:
            return start
        request.close()


def fork(warm, door, request):
    """A process whose parent is the requester: its own parent ends immediately, and the kernel gives an orphan to the nearest
    ancestor that adopts orphans."""
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
        door.close()
        # Not before its parent is gone for good, and never if this server is gone.
        if os.read(moved, 1) != b"m":
            os._exit(127)
        os.close(moved)
        try:
            return warm.become(request)
        except Exception as error:
            request.fail("%s: %s" % (type(error).__name__, error))
    os.close(moved)
    os.waitpid(middle, 0)
    try:
        os.write(move, b"m")
    except BrokenPipeError:
        pass
    os.close(move)
    return None
