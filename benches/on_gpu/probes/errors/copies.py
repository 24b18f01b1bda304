"""Copying and setting memory, by the runtime. `documented` is by the CUDA Runtime API reference, "Memory Management"."""

from calls import At, Out, Ref, call, row, setup

from .memory import DEVICE, DONE, INVALID, PINNED, PLAIN

TO_DEVICE, TO_HOST, ON_DEVICE, DEFAULT = 1, 2, 3, 4
SECOND = setup("cudaMalloc", Out("q"), 4096)
#: Far from every other allocation: a range of the driver's.
LARGE = setup("cudaMalloc", Out("p"), 1 << 22)

ROWS = [
    row("cudaMemcpy of nothing from null to null", call("cudaMemcpy", 0, 0, 0, TO_DEVICE), documented=DONE),
    row("cudaMemcpy to null", PLAIN, call("cudaMemcpy", 0, At("plain"), 16, TO_DEVICE), documented=INVALID),
    row("cudaMemcpy from null", DEVICE, call("cudaMemcpy", Ref("p"), 0, 16, TO_DEVICE), documented=INVALID),
    row("cudaMemcpy in direction 9", DEVICE, PLAIN, call("cudaMemcpy", Ref("p"), At("plain"), 16, 9), documented="cudaErrorInvalidMemcpyDirection"),
    row("cudaMemcpy to the device", DEVICE, PLAIN, call("cudaMemcpy", Ref("p"), At("plain"), 16, TO_DEVICE), documented=DONE),
    row("cudaMemcpy to the host", DEVICE, PLAIN, call("cudaMemcpy", At("plain"), Ref("p"), 16, TO_HOST), documented=DONE),
    row("cudaMemcpy to the device, from the device", DEVICE, SECOND, call("cudaMemcpy", Ref("p"), Ref("q"), 16, TO_DEVICE)),
    row("cudaMemcpy to the device, to plain memory", PLAIN, PINNED, call("cudaMemcpy", At("plain"), Ref("h"), 16, TO_DEVICE)),
    row("cudaMemcpy to the host, from plain memory", DEVICE, PLAIN, call("cudaMemcpy", Ref("p"), At("plain"), 16, TO_HOST)),
    row("cudaMemcpy on the device, from plain memory", DEVICE, PLAIN, call("cudaMemcpy", Ref("p"), At("plain"), 16, ON_DEVICE)),
    row("cudaMemcpy in the direction of the pointers", DEVICE, PLAIN, call("cudaMemcpy", Ref("p"), At("plain"), 16, DEFAULT), documented=DONE),
    row("cudaMemcpy within the host", PLAIN, PINNED, call("cudaMemcpy", Ref("h"), At("plain"), 16, 0), documented=DONE),
    row("cudaMemcpy of overlapping ranges", DEVICE, call("cudaMemcpy", Ref("p", 8), Ref("p"), 16, ON_DEVICE)),
    row("cudaMemcpy beyond an allocation", LARGE, PLAIN, call("cudaMemcpy", At("plain"), Ref("p", (1 << 22) - 8), 16, TO_HOST)),
    row("cudaMemcpy from freed memory", LARGE, PLAIN, setup("cudaFree", Ref("p")), call("cudaMemcpy", At("plain"), Ref("p"), 16, TO_HOST)),
    row("cudaMemcpyAsync from plain memory", DEVICE, PLAIN, call("cudaMemcpyAsync", Ref("p"), At("plain"), 16, TO_DEVICE, 0), documented=DONE),
    row("cudaMemcpyAsync from pinned memory", DEVICE, PINNED, call("cudaMemcpyAsync", Ref("p"), Ref("h"), 16, TO_DEVICE, 0), documented=DONE),
    row("cudaMemcpyAsync in direction 9", DEVICE, PINNED, call("cudaMemcpyAsync", Ref("p"), Ref("h"), 16, 9, 0), documented="cudaErrorInvalidMemcpyDirection"),
    row("cudaMemcpyAsync of nothing", call("cudaMemcpyAsync", 0, 0, 0, TO_DEVICE, 0), documented=DONE),
    row("cudaMemcpy2D of rows that are wider than their pitch", DEVICE, PLAIN, call("cudaMemcpy2D", Ref("p"), 16, At("plain"), 64, 32, 2, TO_DEVICE), documented=("cudaErrorInvalidValue", "cudaErrorInvalidPitchValue")),
    row("cudaMemcpy2D of no rows", DEVICE, PLAIN, call("cudaMemcpy2D", Ref("p"), 64, At("plain"), 64, 32, 0, TO_DEVICE), documented=DONE),
    row("cudaMemcpy2D of no width", DEVICE, PLAIN, call("cudaMemcpy2D", Ref("p"), 64, At("plain"), 64, 0, 2, TO_DEVICE), documented=DONE),
    row("cudaMemcpy2D to null", PLAIN, call("cudaMemcpy2D", 0, 64, At("plain"), 64, 32, 2, TO_DEVICE), documented=INVALID),
    row("cudaMemcpyPeer to device 99", DEVICE, SECOND, call("cudaMemcpyPeer", Ref("p"), 99, Ref("q"), 0, 16), documented=("cudaErrorInvalidDevice",)),
    row("cudaMemcpyPeer on one device", DEVICE, SECOND, call("cudaMemcpyPeer", Ref("p"), 0, Ref("q"), 0, 16), documented=DONE),
    row("cudaMemcpyToSymbol of something that is not a symbol", PLAIN, call("cudaMemcpyToSymbol", At("plain"), At("plain"), 4, 0, TO_DEVICE), documented="cudaErrorInvalidSymbol"),
    row("cudaGetSymbolAddress of something that is not a symbol", PLAIN, call("cudaGetSymbolAddress", Out("address"), At("plain")), documented="cudaErrorInvalidSymbol"),
    row("cudaMemset of device memory", DEVICE, call("cudaMemset", Ref("p"), 1, 4096), documented=DONE),
    row("cudaMemset of nothing at null", call("cudaMemset", 0, 1, 0)),
    row("cudaMemset at null", call("cudaMemset", 0, 1, 16), documented=INVALID),
    row("cudaMemset of plain memory", PLAIN, call("cudaMemset", At("plain"), 1, 16), documented=INVALID),
    row("cudaMemset of pinned memory", PINNED, call("cudaMemset", Ref("h"), 1, 16), documented=DONE),
    row("cudaMemset beyond an allocation", LARGE, call("cudaMemset", Ref("p"), 1, (1 << 22) + 4096)),
    row("cudaMemset2D of rows that are wider than their pitch", DEVICE, call("cudaMemset2D", Ref("p"), 16, 0, 32, 2), documented=INVALID),
    row("cudaMemset2D of no rows", DEVICE, call("cudaMemset2D", Ref("p"), 64, 0, 32, 0), documented=DONE),
    row("cudaMemsetAsync of plain memory", PLAIN, call("cudaMemsetAsync", At("plain"), 1, 16, 0), documented=INVALID),
]
