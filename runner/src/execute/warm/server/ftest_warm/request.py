# The description of a requested process, and what is recorded of its start.
import fcntl
import os
import socket
import sys

from .checks import Cold
from .kernel import STREAMS
from .programs import interpreter_of, is_this_interpreter


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
