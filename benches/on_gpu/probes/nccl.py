"""NCCL: what collectives of one, two and all GPUs of this process make of known numbers, bit for bit, and what mistakes answer."""

import ctypes
import hashlib

from calls import Bytes, Out, Ref, apart, call, row, setup, table

#: ncclDataType_t: name, bytes, and for floats the bits of exponent and mantissa.
TYPES = [
    ("int8", 1, None), ("uint8", 1, None), ("int32", 4, None), ("uint32", 4, None), ("int64", 8, None), ("uint64", 8, None),
    ("float16", 2, (5, 10)), ("float32", 4, (8, 23)), ("float64", 8, (11, 52)), ("bfloat16", 2, (8, 7)),
    ("float8e4m3", 1, (4, 3)), ("float8e5m2", 1, (5, 2)),
]
SUM, OPERATIONS = 0, ["sum", "prod", "max", "min", "avg"]
COUNT = 1000
#: Sizes at which NCCL changes its protocol or its algorithm.
COUNTS = [1, 7, 8192, 65_536, 1 << 20, 4 << 20]
#: Seconds for all operations of a number of GPUs: hardware takes some seconds to make a communicator.
PATIENCE = 120
FLOAT32 = 7
MOST = 8

COMM = setup("ncclCommInitAll", Out("c"), 1, Bytes(bytes(4)))
MEMORY = setup("cudaMalloc", Out("p"), 4096)
ARGUMENT, USAGE = "invalid argument", "invalid usage"
#: Two ranks, of which these rows call one: `c`.
TWO = setup("ncclCommInitAll", Out("c", None, 16), 2, Bytes(bytes([0, 0, 0, 0, 1, 0, 0, 0])))
#: A stream and memory of device 1, to a communicator of device 0.
ELSEWHERE = (setup("cudaSetDevice", 1), setup("cudaStreamCreate", Out("s")), setup("cudaMalloc", Out("q"), 4096))
STATE = call("ncclCommGetAsyncError", Ref("c"), Out("state", "i32"))


def reduce(send=Ref("p"), to=Ref("p"), count=4, kind=FLOAT32, operation=SUM, comm=Ref("c"), stream=0):
    return call("ncclAllReduce", send, to, count, kind, operation, comm, stream)


def elsewhere(name, comm, *calls):
    """What NCCL's documentation does not say: the user guide only promises an error for memory of a peer with NCCL_CHECK_POINTERS."""
    return row(name, comm, MEMORY, *ELSEWHERE, *calls, gpus=2)


#: By the NCCL API reference: ncclInvalidArgument for a wrong value, ncclInvalidUsage for a wrong use.
ROWS = [
    row("ncclGetVersion without a place", call("ncclGetVersion", 0), documented=ARGUMENT),
    row("ncclGetUniqueId without a place", call("ncclGetUniqueId", 0), documented=ARGUMENT),
    row("ncclCommInitAll of no devices", call("ncclCommInitAll", Out("c"), 0, 0), documented=ARGUMENT),
    row("ncclCommInitAll without a place", call("ncclCommInitAll", 0, 1, 0), documented=ARGUMENT),
    row("ncclCommInitAll of one device twice", call("ncclCommInitAll", Out("c", None, 16), 2, Bytes(bytes(8))), documented=USAGE),
    row("ncclCommInitAll of device 99", call("ncclCommInitAll", Out("c", None), 1, Bytes(bytes([99, 0, 0, 0])))),
    row("ncclCommCount of null", call("ncclCommCount", 0, Out("count", "i32")), documented=ARGUMENT),
    row("ncclCommCount", COMM, call("ncclCommCount", Ref("c"), Out("count", "i32")), documented="no error"),
    row("ncclCommCuDevice", COMM, call("ncclCommCuDevice", Ref("c"), Out("device", "i32")), documented="no error"),
    row("ncclCommUserRank without a place", COMM, call("ncclCommUserRank", Ref("c"), 0), documented=ARGUMENT),
    row("ncclCommDestroy of null", call("ncclCommDestroy", 0), documented="no error"),
    row("ncclCommAbort of null", call("ncclCommAbort", 0), documented="no error"),
    row("ncclCommGetAsyncError of null", call("ncclCommGetAsyncError", 0, Out("state", "i32")), documented=ARGUMENT),
    row("ncclGroupEnd without a group", call("ncclGroupEnd"), documented=USAGE),
    row("ncclAllReduce without a communicator", MEMORY, reduce(comm=0), documented=ARGUMENT),
    row("ncclAllReduce from null", COMM, MEMORY, reduce(send=0), documented=ARGUMENT),
    row("ncclAllReduce to null", COMM, MEMORY, reduce(to=0), documented=ARGUMENT),
    row("ncclAllReduce of nothing", COMM, MEMORY, reduce(count=0), documented="no error"),
    row("ncclAllReduce of type 99", COMM, MEMORY, reduce(kind=99), documented=ARGUMENT),
    row("ncclAllReduce with operation 99", COMM, MEMORY, reduce(operation=99), documented=ARGUMENT),
    row("ncclAllReduce, and a valid one after an invalid one", COMM, MEMORY, reduce(kind=99), call("ncclCommGetAsyncError", Ref("c"), Out("state", "i32")), reduce()),
    row("ncclBroadcast from rank 5", COMM, MEMORY, call("ncclBroadcast", Ref("p"), Ref("p"), 4, FLOAT32, 5, Ref("c"), 0), documented=ARGUMENT),
    row("ncclReduce to rank -1", COMM, MEMORY, call("ncclReduce", Ref("p"), Ref("p"), 4, FLOAT32, SUM, -1, Ref("c"), 0), documented=ARGUMENT),
    row("ncclSend to rank 5", COMM, MEMORY, call("ncclSend", Ref("p"), 4, FLOAT32, 5, Ref("c"), 0), documented=ARGUMENT),
    row("ncclRedOpDestroy of a built-in operation", COMM, call("ncclRedOpDestroy", SUM, Ref("c")), documented=ARGUMENT),
    elsewhere("ncclAllReduce on a stream of another device", TWO, reduce(stream=Ref("s")), STATE),
    elsewhere("ncclAllReduce on a stream of another device, in a group", TWO, call("ncclGroupStart"), reduce(stream=Ref("s")), call("ncclGroupEnd"), STATE),
    elsewhere("ncclAllReduce of one rank on a stream of another device", COMM, reduce(stream=Ref("s")), STATE),
    elsewhere("ncclAllReduce of one rank to elsewhere on a stream of another device", COMM, reduce(to=Ref("p", 64), stream=Ref("s")), STATE),
    elsewhere("ncclSend on a stream of another device", TWO, call("ncclSend", Ref("p"), 4, FLOAT32, 1, Ref("c"), Ref("s")), STATE),
    elsewhere("ncclAllReduce of memory of another device", COMM, reduce(send=Ref("q"), to=Ref("q"))),
    elsewhere("ncclCommRegister of memory of another device", COMM, call("ncclCommRegister", Ref("c"), Ref("q"), 4096, Out("handle"))),
    row("ncclMemAlloc of nothing", call("ncclMemAlloc", Out("p"), 0)),
    row("ncclMemFree of null", call("ncclMemFree", 0)),
]


def record(machine):
    answers = table(ROWS, machine)
    loaded = machine.libraries.loaded
    if loaded["nccl"] is None or loaded["cudart"] is None:
        return answers
    for ranks in sorted({1, 2, min(machine.gpus, MOST)} & set(range(1, machine.gpus + 1))):
        title = f"{ranks} rank" + ("s" if ranks > 1 else "")
        if machine.is_over():
            answers[title] = {"skipped": "the time was over"}
            continue
        found = apart(lambda tell, ranks=ranks: _collectives(machine.libraries, ranks, tell), PATIENCE)
        parts = found.pop("operations", {})
        answers.update({f"{title}: {name}": part for name, part in parts.items()})
        if found:
            # The communicator was not made, or the process ended before it was done.
            answers[title] = found
    return answers


def numbers(kind, count, rank):
    """The bytes that a rank contributes: all bits of integers; floats around one, of both signs, whose sums have to be rounded."""
    _, size, form = kind
    state, block = 0x9E3779B9 + rank, []
    for _ in range(min(count, 1021)):
        state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        bits = state >> (64 - 8 * size) if size < 8 else state
        if form:
            exponent, mantissa = form
            middle = (1 << exponent - 1) - 1
            near = middle + (state >> 20) % 4 - 2
            bits = (state >> 63) << exponent + mantissa | near << mantissa | (state >> 7) & (1 << mantissa) - 1
        block.append(bits.to_bytes(size, "little"))
    text = b"".join(block)
    return (text * (count * size // len(text) + 1))[: count * size]


class Ranks:
    """A communicator of the first devices, with a stream each."""

    def __init__(self, libraries, ranks):
        self.cudart, self.nccl = libraries.loaded["cudart"], libraries.loaded["nccl"]
        self.ranks = ranks
        self.libraries = libraries
        self.comms = (ctypes.c_void_p * ranks)()
        self.made = self.nccl.ncclCommInitAll(self.comms, ranks, None)
        self.streams = []
        for rank in range(ranks):
            stream = ctypes.c_void_p()
            self.cudart.cudaSetDevice(rank)
            self.cudart.cudaStreamCreateWithFlags(ctypes.byref(stream), 1)
            self.streams.append(stream)

    def memory(self, size):
        pointer = ctypes.c_void_p()
        code = self.cudart.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size))
        if code:
            raise RuntimeError(f"cudaMalloc of {size} bytes answers {code}")
        return pointer

    def perform(self, inputs, size, issue):
        """The code, and what each rank has in its result of `size` bytes."""
        places = []
        for rank in range(self.ranks):
            self.cudart.cudaSetDevice(rank)
            source, target = self.memory(len(inputs[rank])), self.memory(size)
            self.cudart.cudaMemcpy(source, inputs[rank], ctypes.c_size_t(len(inputs[rank])), 1)
            self.cudart.cudaMemset(target, 0, ctypes.c_size_t(size))
            places.append((source, target))
        self.nccl.ncclGroupStart()
        codes = [issue(rank, *places[rank], self.comms[rank], self.streams[rank]) for rank in range(self.ranks)]
        codes.append(self.nccl.ncclGroupEnd())
        results = []
        for rank, (source, target) in enumerate(places):
            self.cudart.cudaSetDevice(rank)
            codes.append(self.cudart.cudaStreamSynchronize(self.streams[rank]))
            result = ctypes.create_string_buffer(size)
            self.cudart.cudaMemcpy(result, target, ctypes.c_size_t(size), 2)
            results.append(result.raw)
            self.cudart.cudaFree(source)
            self.cudart.cudaFree(target)
        return next(filter(None, codes), 0), results

    def answer(self, inputs, size, issue):
        code, results = self.perform(inputs, size, issue)
        name = self.libraries.code("ncclAllReduce", code)
        if code:
            return {"answers": [name]}
        out = {"sha256": [hashlib.sha256(result).hexdigest() for result in results], "begins": [result[:32].hex() for result in results]}
        return {"answers": [name], "out": out}


def _collectives(libraries, ranks, tell):
    all_of_them = Ranks(libraries, ranks)
    if all_of_them.made:
        tell({"answers": [libraries.code("ncclCommInitAll", all_of_them.made)]})
        return
    nccl, found = all_of_them.nccl, {}
    size_t = ctypes.c_size_t

    def note(name, inputs, size, issue):
        found[name] = all_of_them.answer(inputs, size, issue)
        tell({"operations": found})

    def contributions(kind, count):
        return [numbers(kind, count, rank) for rank in range(ranks)]

    for number, kind in enumerate(TYPES):
        for operation, title in enumerate(OPERATIONS):
            note(f"all_reduce {kind[0]} {title} of {COUNT}", contributions(kind, COUNT), COUNT * kind[1],
                 lambda _, source, target, comm, stream, number=number, operation=operation:
                 nccl.ncclAllReduce(source, target, size_t(COUNT), number, operation, ctypes.c_void_p(comm), stream))
    for count in COUNTS:
        kind = TYPES[FLOAT32]
        note(f"all_reduce float32 sum of {count}", contributions(kind, count), count * 4,
             lambda _, source, target, comm, stream, count=count:
             nccl.ncclAllReduce(source, target, size_t(count), FLOAT32, SUM, ctypes.c_void_p(comm), stream))
    for name in ("float16", "float32", "bfloat16"):
        number, kind = next((at, kind) for at, kind in enumerate(TYPES) if kind[0] == name)
        whole = COUNT * ranks
        note(f"reduce_scatter {name} sum of {COUNT}", contributions(kind, whole), COUNT * kind[1],
             lambda _, source, target, comm, stream, number=number:
             nccl.ncclReduceScatter(source, target, size_t(COUNT), number, SUM, ctypes.c_void_p(comm), stream))
        note(f"reduce {name} sum of {COUNT}", contributions(kind, COUNT), COUNT * kind[1],
             lambda _, source, target, comm, stream, number=number:
             nccl.ncclReduce(source, target, size_t(COUNT), number, SUM, 0, ctypes.c_void_p(comm), stream))
        note(f"all_gather {name} of {COUNT}", contributions(kind, COUNT), whole * kind[1],
             lambda _, source, target, comm, stream, number=number:
             nccl.ncclAllGather(source, target, size_t(COUNT), number, ctypes.c_void_p(comm), stream))
        note(f"broadcast {name} of {COUNT}", contributions(kind, COUNT), COUNT * kind[1],
             lambda _, source, target, comm, stream, number=number:
             nccl.ncclBroadcast(source, target, size_t(COUNT), number, ranks - 1, ctypes.c_void_p(comm), stream))
