"""Streams, events, kernels and memory of one device, used with another.

`documented` is by the Programming Guide, "Stream and Event Behavior", the CUDA Runtime API reference, "Memory Management", and
"Stream Ordered Memory Allocator" of the guide. What the others answer is not documented.
"""

from calls import Callback, Out, Ref, call, row, setup

from .driver import driven
from .events import HANDLE
from .kernels import function, launch
from .memory import DEVICE, DONE
from .modules import IMAGE, MODULE, Bytes

FIRST, SECOND = setup("cudaSetDevice", 0), setup("cudaSetDevice", 1)
STREAM = setup("cudaStreamCreate", Out("s"))
EVENT = setup("cudaEventCreate", Out("e"))
RECORDED = setup("cudaEventRecord", Ref("e"), Ref("s"))
RELAXED = 2
GRAPH = Out("graph")
#: A stream and 4096 bytes of device 1, while device 0 is current.
ELSEWHERE = (SECOND, STREAM, setup("cudaMalloc", Out("q"), 4096), FIRST)
WAIT = call("cudaStreamSynchronize", Ref("s"))
LIBRARY = (setup("cudaLibraryLoadData", Out("library"), IMAGE, 0, 0, 0, 0, 0, 0), setup("cudaLibraryGetKernel", Out("k"), Ref("library"), Bytes(b"nothing")))
#: One thread. The runtime takes grid and block by value, 12 bytes in two registers each.
ONE = (1 | 1 << 32, 1)
#: A stream of device 1, by the driver, with its context current.
DRIVEN = (setup("cuCtxGetCurrent", Out("first")), setup("cuDevicePrimaryCtxRetain", Out("second"), 1), setup("cuCtxSetCurrent", Ref("second")), setup("cuStreamCreate", Out("s"), 0))
BACK = setup("cuCtxSetCurrent", Ref("first"))
#: cudaMemLocation: a device, and which.
AT_FIRST = Bytes(bytes([1, 0, 0, 0, 0, 0, 0, 0]))


def elsewhere(name, *calls, **rest):
    """Device 0 is current, stream `s` and memory `q` are of device 1."""
    return row(f"{name} on a stream of another device", DEVICE, *ELSEWHERE, *calls, gpus=2, **rest)


def two(name, *calls, **rest):
    return row(name, *calls, gpus=2, **rest)


ROWS = [
    elsewhere("cudaLaunchKernel", *LIBRARY, call("cudaLaunchKernel", Ref("k"), *ONE, *ONE, 0, 0, Ref("s")), documented=HANDLE),
    elsewhere("cudaMemcpyAsync", call("cudaMemcpyAsync", Ref("q"), Ref("p"), 64, 4, Ref("s")), WAIT, documented=DONE),
    elsewhere("cudaMemcpyAsync of the current device's memory", call("cudaMemcpyAsync", Ref("p", 64), Ref("p"), 64, 3, Ref("s")), WAIT, documented=DONE),
    elsewhere("cudaMemcpyPeerAsync", call("cudaMemcpyPeerAsync", Ref("q"), 1, Ref("p"), 0, 64, Ref("s")), WAIT, documented=DONE),
    elsewhere("cudaMemsetAsync of its memory", call("cudaMemsetAsync", Ref("q"), 0, 64, Ref("s")), WAIT),
    elsewhere("cudaMemsetAsync of the current device's memory", call("cudaMemsetAsync", Ref("p"), 0, 64, Ref("s")), WAIT),
    elsewhere("cudaMallocAsync", call("cudaMallocAsync", Out("r"), 512, Ref("s")), call("cudaPointerGetAttributes", Out("known", ("type", "device"), 32), Ref("r"))),
    elsewhere("cudaFreeAsync of the current device's memory", call("cudaFreeAsync", Ref("p"), Ref("s")), WAIT),
    elsewhere("cudaLaunchHostFunc", call("cudaLaunchHostFunc", Ref("s"), Callback(), 0), WAIT),
    elsewhere("cudaStreamBeginCapture", call("cudaStreamBeginCapture", Ref("s"), RELAXED), call("cudaStreamEndCapture", Ref("s"), GRAPH)),
    elsewhere("cudaStreamQuery", call("cudaStreamQuery", Ref("s"))),
    two("cudaMemset of another device's memory", DEVICE, SECOND, call("cudaMemset", Ref("p"), 0, 64)),
    two("cudaMemcpyPeer that names the wrong devices", DEVICE, *ELSEWHERE, call("cudaMemcpyPeer", Ref("q"), 0, Ref("p"), 1, 64)),
    two("cudaStreamWaitEvent on an event of another device", EVENT, SECOND, STREAM, call("cudaStreamWaitEvent", Ref("s"), Ref("e"), 0), documented=DONE),
    two("cudaEventQuery of an event of another device", SECOND, STREAM, EVENT, RECORDED, setup("cudaDeviceSynchronize"), FIRST, call("cudaEventQuery", Ref("e")), documented=DONE),
    two("cudaEventSynchronize of an event of another device", SECOND, STREAM, EVENT, RECORDED, FIRST, call("cudaEventSynchronize", Ref("e")), documented=DONE),
    two("cudaEventElapsedTime between two devices", SECOND, STREAM, EVENT, RECORDED, FIRST, setup("cudaEventCreate", Out("f")), setup("cudaEventRecord", Ref("f"), 0), setup("cudaEventSynchronize", Ref("e")), setup("cudaEventSynchronize", Ref("f")), call("cudaEventElapsedTime", Out("ms"), Ref("e"), Ref("f")), documented=HANDLE),
    two("cudaMemPoolGetAccess of another device", setup("cudaDeviceGetDefaultMemPool", Out("pool"), 1), call("cudaMemPoolGetAccess", Out("flags", "u32"), Ref("pool"), AT_FIRST), documented=DONE),
    driven("cuLaunchKernel of another context's function on its own stream", MODULE, function("nothing"), *DRIVEN, launch(stream=Ref("s")), gpus=2),
    driven("cuLaunchKernel on a stream of another context", MODULE, function("nothing"), *DRIVEN, BACK, launch(stream=Ref("s")), gpus=2),
    driven("cuLaunchKernel with stream and function of another context", *DRIVEN, MODULE, function("nothing"), BACK, launch(stream=Ref("s")), gpus=2),
    driven("cuLaunchKernel of another context's function", MODULE, function("nothing"), *DRIVEN, launch(), gpus=2),
    driven("cuLaunchKernel of a library's kernel on a stream of another context", setup("cuLibraryLoadData", Out("library"), IMAGE, 0, 0, 0, 0, 0, 0), setup("cuLibraryGetKernel", Out("f"), Ref("library"), Bytes(b"nothing")), *DRIVEN, BACK, launch(stream=Ref("s")), gpus=2, documented="CUDA_SUCCESS"),
    driven("cuEventRecord on a stream of another context", setup("cuEventCreate", Out("e"), 0), *DRIVEN, call("cuEventRecord", Ref("e"), Ref("s")), gpus=2, documented="CUDA_ERROR_INVALID_HANDLE"),
    driven("cuMemsetD8Async on a stream of another context", *DRIVEN, setup("cuMemAlloc_v2", Out("p"), 4096), BACK, call("cuMemsetD8Async", Ref("p"), 0, 64, Ref("s")), gpus=2),
]
