"""Limits: what `cudaDeviceGetLimit` says, what a kernel needs, and how many of its blocks an SM holds."""

from calls import Out, Ref, call, row, setup, table

from .errors.kernels import function
from .errors.modules import MODULE

LIMITS = {0: "stack", 1: "printf", 2: "heap", 3: "launch depth", 4: "pending launches", 5: "L2 fetch", 6: "persisting L2"}
ATTRIBUTES = {
    0: "threads", 1: "static shared memory", 2: "constant memory", 3: "local memory", 4: "registers", 5: "PTX version",
    6: "binary version", 7: "cache mode", 8: "dynamic shared memory", 9: "carveout",
}
BLOCKS = [(threads, shared) for threads in (1, 32, 64, 96, 128, 256, 512, 768, 1024) for shared in (0, 1024, 16384, 49152)]
RANGE = call("cudaDeviceGetStreamPriorityRange", Out("least", "i32"), Out("greatest", "i32"))

ROWS = [
    *(row(f"limit {name}", call("cudaDeviceGetLimit", Out("value", "u64"), number)) for number, name in LIMITS.items()),
    *(row(f"driver limit {name}", call("cuCtxGetLimit", Out("value", "u64"), number), context="driver") for number, name in LIMITS.items()),
    row("stream priorities", RANGE),
    # What a compiler chose (registers, binary version) is the driver's: another JIT, another number.
    *(row(f"kernel attribute {name}", MODULE, function("shares"), call("cuFuncGetAttribute", Out("value", "i32", measured=number == 4), number, Ref("f")), context="driver")
      for number, name in ATTRIBUTES.items()),
    *(row(f"blocks on an SM, {threads} threads and {shared} bytes each", MODULE, function("nothing"),
          call("cuOccupancyMaxActiveBlocksPerMultiprocessor", Out("blocks", "i32"), Ref("f"), threads, shared), context="driver")
      for threads, shared in BLOCKS),
    row("block size with the most threads", MODULE, function("nothing"), call("cuOccupancyMaxPotentialBlockSize", Out("grid", "i32"), Out("block", "i32"), Ref("f"), 0, 0, 0), context="driver"),
    *(row(f"dynamic shared memory beside {blocks} blocks of 128 threads", MODULE, function("nothing"), call("cuOccupancyAvailableDynamicSMemPerBlock", Out("bytes", "u64"), Ref("f"), blocks, 128), context="driver")
      for blocks in (1, 2, 4, 16)),
    row("compute capability", setup("cuInit", 0), call("cuDeviceComputeCapability", Out("major", "i32"), Out("minor", "i32"), 0), context="none"),
]


def record(machine):
    return table(ROWS, machine)
