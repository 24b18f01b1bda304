"""What a collective that fails does to its communicator, its stream and its process."""

import ctypes
import os
import signal
import time

from calls import Out, Pointers, Ref, apart, call, row, setup, table

from .errors.kernels import function
from .errors.modules import MODULE
from .nccl import COMM, FLOAT32, MEMORY, SUM, reduce

ZERO = setup("cudaStreamIsCapturing", 0, Out("zero"))
STREAM = setup("cudaStreamCreateWithFlags", Out("s"), 1)
LOST = (ZERO, MODULE, function("store"), setup("cuLaunchKernel", Ref("f"), 1, 1, 1, 1, 1, 1, 0, 0, Pointers(("zero",)), 0),
        call("cudaDeviceSynchronize"))
STATE = call("ncclCommGetAsyncError", Ref("c"), Out("state", "i32"))
#: "A call to a CUDA function failed" (NCCL API, `ncclResult_t`): on a GPU that answers nothing else any more, each of NCCL's does.
UNHANDLED = "unhandled cuda error"
#: Seconds after which a rank that waits for one that is gone is asked how it is, as a watchdog asks.
LOOK_AFTER = 5
#: Of prctl(2): this process ends with its parent.
PR_SET_PDEATHSIG = 1

ROWS = [
    row("a GPU that is lost to an illegal address: all_reduce", COMM, MEMORY, *LOST, reduce(), documented=UNHANDLED),
    row("a GPU that is lost to an illegal address: all_reduce, then abort", COMM, MEMORY, *LOST, reduce(), STATE, call("ncclCommAbort", Ref("c"))),
    row("a GPU that is lost to an illegal address: destroy", COMM, MEMORY, *LOST, call("ncclCommDestroy", Ref("c"))),
    row("a GPU that is lost to an illegal address: a new communicator", *LOST, call("ncclCommInitAll", Out("c"), 1, 0), documented=UNHANDLED),
    row("an invalid all_reduce leaves the stream as it is", COMM, MEMORY, STREAM, reduce(kind=99), STATE, call("cudaStreamSynchronize", Ref("s")), call("cudaStreamQuery", Ref("s"))),
    row("an aborted communicator leaves the stream as it is", COMM, MEMORY, STREAM, call("ncclAllReduce", Ref("p"), Ref("p"), 4, FLOAT32, SUM, Ref("c"), Ref("s")), call("ncclCommAbort", Ref("c")), call("cudaStreamSynchronize", Ref("s"))),
    row("a communicator after ncclCommFinalize", COMM, MEMORY, call("ncclCommFinalize", Ref("c")), STATE, reduce()),
    row("an error within a group", COMM, MEMORY, call("ncclGroupStart"), reduce(kind=99), call("ncclGroupEnd"), STATE),
]


def record(machine):
    answers = table(ROWS, machine)
    for name, end in (("the other rank was killed", _killed), ("the other rank left", _left), ("the other rank does not come", _absent)):
        if machine.libraries.loaded["nccl"] is None or machine.gpus < 2:
            answers[name] = {"skipped": "it takes NCCL and 2 GPUs"}
        elif machine.is_over():
            answers[name] = {"skipped": "the time was over"}
        else:
            answers[name] = apart(lambda tell, end=end: _two(machine.libraries, end, tell), 60)
    return answers


def _killed(_cudart, _nccl, _comm):
    os.kill(os.getpid(), signal.SIGKILL)


def _left(_cudart, nccl, comm):
    nccl.ncclCommAbort(comm)
    os._exit(0)


def _absent(_cudart, _nccl, _comm):
    # Rank 0 ends this process.
    signal.pause()


def _join(loaded, rank, uid):
    """A communicator of two ranks. The id is 128 bytes by value: on the stack, behind two registers' worth of arguments."""
    class UniqueId(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_char * 128)]

    loaded["cudart"].cudaSetDevice(rank)
    comm = ctypes.c_void_p()
    loaded["nccl"].ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    code = loaded["nccl"].ncclCommInitRank(ctypes.byref(comm), 2, UniqueId.from_buffer_copy(uid), rank)
    return code, comm


def _two(libraries, end, tell):
    """Rank 0 reduces with a rank that ends, each in a process of its own, and tells what it sees."""
    loaded = libraries.loaded
    ids, joined = os.pipe(), os.pipe()
    other = os.fork()
    if other == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        uid = os.read(ids[0], 128)
        code, comm = _join(loaded, 1, uid)
        os.write(joined[1], bytes([code]))
        end(loaded["cudart"], loaded["nccl"], comm)
        os._exit(0)
    try:
        _watch(libraries, end is not _absent and other, ids[1], joined[0], tell)
    finally:
        if end is _absent:
            os.kill(other, signal.SIGKILL)
            os.waitpid(other, 0)


def _watch(libraries, ends, ids, joined, tell):
    cudart, nccl = libraries.loaded["cudart"], libraries.loaded["nccl"]
    uid = ctypes.create_string_buffer(128)
    answers = [f"ncclGetUniqueId: {libraries.code('ncclGetUniqueId', nccl.ncclGetUniqueId(uid))}"]
    os.write(ids, uid.raw[:128])
    code, comm = _join(libraries.loaded, 0, uid.raw[:128])
    answers.append(f"ncclCommInitRank: {libraries.code('ncclCommInitRank', code)}")
    os.read(joined, 1)
    if ends:
        os.waitpid(ends, 0)
    stream, memory, state = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()

    def note(title, function, code):
        answers.append(f"{title}: {libraries.code(function, code)}")
        tell({"answers": answers})

    cudart.cudaStreamCreateWithFlags(ctypes.byref(stream), 1)
    cudart.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4096))
    note("ncclAllReduce", "ncclAllReduce", nccl.ncclAllReduce(memory, memory, ctypes.c_size_t(4), FLOAT32, SUM, comm, stream))
    until = time.monotonic() + LOOK_AFTER
    # As NCCL's documentation shows it: a program asks both until one of them says something.
    while time.monotonic() < until:
        nccl.ncclCommGetAsyncError(comm, ctypes.byref(state))
        waiting = cudart.cudaStreamQuery(stream)
        if state.value or waiting != 600:
            break
        time.sleep(0.05)
    note("asynchronous error", "ncclCommGetAsyncError", state.value)
    note("cudaStreamQuery", "cudaStreamQuery", cudart.cudaStreamQuery(stream))
    note("ncclCommAbort", "ncclCommAbort", nccl.ncclCommAbort(comm))
    note("cudaStreamSynchronize", "cudaStreamSynchronize", cudart.cudaStreamSynchronize(stream))
    note("cudaGetLastError", "cudaGetLastError", cudart.cudaGetLastError())
    note("cudaMalloc", "cudaMalloc", cudart.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4096)))
    note("cudaDeviceSynchronize", "cudaDeviceSynchronize", cudart.cudaDeviceSynchronize())
