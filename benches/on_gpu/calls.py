"""A call as data, and what a library answers to it: rows are performed one by one, each in a process of its own.

A row has a name and calls; a call is a function and its arguments. Integers and pointers are passed as 64 bits, which is what
the x86-64 and AArch64 calling conventions make of a narrower one. Nothing here knows a CUDA header.
"""

import ctypes
import json
import os
import select
import signal
import sys
import tempfile
import time
from typing import NamedTuple

#: How long one row may take, seconds. One that waits longer is recorded as `"ended": "no answer"`.
PATIENCE = 20


class Out(NamedTuple):
    """A variable that the call fills. `kind` says what is recorded of it: i32, u32, u64, f32, text, a tuple of names (32-bit
    fields from the start), set (whether it is not zero), or None (nothing). `measured`: it depends on the machine or the moment."""

    name: str
    kind: object = "set"
    size: int = 8
    measured: bool = False


class Ref(NamedTuple):
    """The value of a variable, plus an offset."""

    name: str
    offset: int = 0


class At(NamedTuple):
    """The address of a variable's bytes, plus an offset."""

    name: str
    offset: int = 0


class Bytes(NamedTuple):
    """The address of these bytes, with a zero after them."""

    data: bytes


class Pointers(NamedTuple):
    """The address of an array of addresses of variables: how cuLaunchKernel takes parameters."""

    names: tuple


class Callback(NamedTuple):
    """A host function. It performs the call, if there is one, and its answer is recorded as `callback`."""

    call: object = None


class Call(NamedTuple):
    function: str
    arguments: tuple
    #: Recorded only where it fails.
    setup: bool = False


class Row(NamedTuple):
    name: str
    calls: tuple
    #: What is there before: `runtime` (cudaFree(0)), `driver` (the primary context is current) or `none`.
    context: str = "runtime"
    #: Devices that it takes.
    gpus: int = 1
    #: The code of the last call that is recorded, or several, where NVIDIA's documentation names one.
    documented: object = None

    def is_documented(self, answer):
        """Whether the last answer is the documented one. NCCL adds advice in parentheses to the name of a code."""
        expected = self.documented if isinstance(self.documented, tuple) else (self.documented,)
        last = (answer.get("answers") or [""])[-1].partition(": ")[2].partition(" ")[2]
        return any(last == name or last.startswith(f"{name} (") for name in expected)


def call(function, *arguments):
    return Call(function, arguments)


def setup(function, *arguments):
    return Call(function, arguments, True)


def row(name, *calls, **rest):
    return Row(name, calls, **rest)


class Libraries:
    """NVIDIA's libraries, by the prefix of their functions."""

    def __init__(self, loaded):
        self.loaded = loaded
        self.names = {}

    def of(self, function):
        for prefix, library in (("cuda", "cudart"), ("nvml", "nvml"), ("nccl", "nccl"), ("cu", "cuda")):
            if function.startswith(prefix):
                return library, self.loaded.get(library)
        raise ValueError(function)

    def find(self, function):
        """The function, or None where the library is not there or does not have it."""
        _, library = self.of(function)
        try:
            found = getattr(library, function)
        except AttributeError:
            return None
        found.restype = ctypes.c_int
        return found

    def code(self, function, number):
        """The name that the library itself has for a code, and the number."""
        library, loaded = self.of(function)
        text = ""
        if library == "cudart":
            ask = loaded.cudaGetErrorName
            ask.restype = ctypes.c_char_p
            text = (ask(number) or b"").decode()
        elif library == "cuda":
            pointer = ctypes.c_char_p()
            loaded.cuGetErrorName(number, ctypes.byref(pointer))
            text = (pointer.value or b"").decode()
        elif library == "nvml":
            ask = loaded.nvmlErrorString
            ask.restype = ctypes.c_char_p
            text = (ask(number) or b"").decode()
        elif library == "nccl":
            ask = loaded.ncclGetErrorString
            ask.restype = ctypes.c_char_p
            text = (ask(number) or b"").decode()
        return f"{number} {text}"


class Frame:
    """The variables of a row while it is performed."""

    def __init__(self, libraries):
        self.libraries = libraries
        self.values = {}
        self.kept = []
        self.heard = []

    def argument(self, value):
        if isinstance(value, float):
            return ctypes.c_float(value)
        if isinstance(value, int):
            return ctypes.c_uint64(value & (1 << 64) - 1)
        if isinstance(value, Out):
            buffer = self.values[value.name] = ctypes.create_string_buffer(max(value.size, 8))
            return ctypes.c_uint64(ctypes.addressof(buffer))
        if isinstance(value, Ref):
            return ctypes.c_uint64(int.from_bytes(self.values[value.name].raw[:8], "little") + value.offset)
        if isinstance(value, At):
            return ctypes.c_uint64(ctypes.addressof(self.values[value.name]) + value.offset)
        if isinstance(value, Bytes):
            buffer = ctypes.create_string_buffer(value.data)
            self.kept.append(buffer)
            return ctypes.c_uint64(ctypes.addressof(buffer))
        if isinstance(value, Pointers):
            array = (ctypes.c_void_p * len(value.names))(*(ctypes.addressof(self.values[name]) for name in value.names))
            self.kept.append(array)
            return ctypes.c_uint64(ctypes.addressof(array))
        if isinstance(value, Callback):
            return self.callback(value)
        raise TypeError(value)

    def callback(self, value):
        def heard(*_):
            answer = "ran"
            if value.call:
                number = self.libraries.find(value.call.function)(*map(self.argument, value.call.arguments))
                answer = f"{value.call.function}: {self.libraries.code(value.call.function, number)}"
            self.heard.append(answer)

        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(heard)
        self.kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p)

    def make(self, one):
        """The code of a call, None where the function is not there."""
        function = self.libraries.find(one.function)
        return None if function is None else function(*map(self.argument, one.arguments))

    def read(self, out):
        raw = self.values[out.name].raw
        if out.kind == "text":
            return raw.split(b"\0")[0].decode(errors="replace")
        if out.kind == "f32":
            return ctypes.c_float.from_buffer_copy(raw).value
        if isinstance(out.kind, tuple):
            words = {name: raw[4 * at : 4 * at + 4] for at, name in enumerate(out.kind)}
            return {name: int.from_bytes(word, "little", signed=True) for name, word in words.items() if name}
        number = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "set": ctypes.c_uint64}[out.kind]
        value = number.from_buffer_copy(raw).value
        return bool(value) if out.kind == "set" else value


#: What is asked after the calls of a row, by its context: whether the error stays.
AFTER = {
    "runtime": (
        call("cudaPeekAtLastError"),
        call("cudaGetLastError"),
        call("cudaGetLastError"),
        call("cudaDeviceSynchronize"),
        call("cudaMalloc", Out("after"), 512),
        call("cudaGetLastError"),
    ),
    "driver": (call("cuCtxSynchronize"), call("cuMemAlloc_v2", Out("after"), 512)),
    "none": (),
}
BEFORE = {
    "runtime": (call("cudaFree", 0),),
    "driver": (call("cuInit", 0), call("cuDevicePrimaryCtxRetain", Out("primary"), 0), call("cuCtxSetCurrent", Ref("primary"))),
    "none": (),
}


def perform(one, libraries, tell):
    """Makes the calls of a row in this process. `tell` gets the answer after each, so that one that ends the process is known."""
    frame = Frame(libraries)
    answer = {"answers": []}
    for before in BEFORE[one.context]:
        number = frame.make(before)
        if number != 0:
            tell({"answers": [], "not_made": f"{before.function}: {number}"})
            return
    measured, out = {}, {}
    for each in one.calls:
        number = frame.make(each)
        if number is None:
            answer["answers"].append(f"{each.function}: the library does not have it")
            continue
        if not each.setup or number != 0:
            answer["answers"].append(f"{each.function}: {libraries.code(each.function, number)}")
        for variable in each.arguments if number == 0 and not each.setup else ():
            if isinstance(variable, Out) and variable.kind:
                (measured if variable.measured else out)[variable.name] = frame.read(variable)
        tell(answer)
    after = [f"{each.function}: {libraries.code(each.function, frame.make(each))}" for each in AFTER[one.context]]
    parts = {"out": out, "measured": measured, "after": after, "callback": frame.heard}
    tell({**answer, **{name: part for name, part in parts.items() if part}})


def apart(work, patience=PATIENCE):
    """What `work(tell)` told last, in a process of its own: an object, with `ended` where the process did not end by itself,
    and `gap` where a simulation says that it does not do what was asked."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                os.dup2(errors.fileno(), 2)
                work(lambda answer: os.write(writer, json.dumps(answer).encode() + b"\n"))
                sys.stderr.flush()
                os._exit(0)
            except BaseException as error:  # A child must never go on as its parent.
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
                os._exit(70)
        os.close(writer)
        text, ended = _read(reader, time.monotonic() + patience)
        os.close(reader)
        if ended:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    lines = text.decode().splitlines()
    answer = json.loads(lines[-1]) if lines else {}
    if ended:
        answer["ended"] = "no answer"
    elif os.WIFSIGNALED(status):
        answer["ended"] = signal.Signals(os.WTERMSIG(status)).name
    elif os.WEXITSTATUS(status):
        last = (said.strip().splitlines() or [""])[-1]
        answer["ended"] = f"exit {os.WEXITSTATUS(status)}: {last}"
    gaps = sorted(
        {
            line.split("fakegpu: ", 1)[1].split(": not supported")[0]
            for line in said.splitlines()
            if line.startswith("fakegpu: ") and ": not supported" in line
        }
    )
    if gaps:
        answer["gap"] = gaps
    return answer


def _read(reader, until):
    """Everything from a pipe, and whether the time was over before its end."""
    text = b""
    while True:
        ready, _, _ = select.select([reader], [], [], max(0, until - time.monotonic()))
        if not ready:
            return text, True
        more = os.read(reader, 1 << 16)
        if not more:
            return text, False
        text += more


def table(rows, machine):
    """The answers to all rows, by name. `skipped` names what this machine does not have."""
    answers = {}
    for one in rows:
        if one.name in answers:
            raise ValueError(f"two rows are named {one.name}")
        missing = sorted({library for library, loaded in map(machine.libraries.of, functions(one)) if loaded is None})
        if missing:
            answers[one.name] = {"skipped": "there is no " + ", ".join(missing)}
        elif one.gpus > machine.gpus:
            answers[one.name] = {"skipped": f"it takes {one.gpus} GPUs"}
        elif machine.is_over():
            answers[one.name] = {"skipped": "the time was over"}
        else:
            answers[one.name] = apart(lambda tell, one=one: perform(one, machine.libraries, tell))
    return answers


def functions(one):
    return [each.function for each in (*BEFORE[one.context], *one.calls, *AFTER[one.context])]
