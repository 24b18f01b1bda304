"""Errors that stay: what a kernel that goes wrong leaves behind, and what each function answers afterwards.

`documented` is by the CUDA Driver API reference, `CUresult`: after these, "the process's context is in an inconsistent state and
any further CUDA work will return the same error".
"""

from calls import At, Bytes, Callback, Out, Pointers, Ref, call, row, setup

from .driver import driven
from .kernels import function, launch
from .modules import MODULE

ILLEGAL = "cudaErrorIllegalAddress"


def wrong(kernel, *before, parameters=0):
    return (MODULE, function(kernel), *before, launch(parameters=parameters))


def after(name, *calls, before=(), documented=None):
    """Calls after an illegal address, which cudaDeviceSynchronize has answered."""
    return row(f"after an illegal address: {name}", *before, ZERO, MODULE, function("store"),
               setup("cuLaunchKernel", Ref("f"), 1, 1, 1, 1, 1, 1, 0, 0, Pointers(("zero",)), 0),
               call("cudaDeviceSynchronize"), *calls, documented=documented)


#: A variable that is zero: the status of a stream that is not captured.
ZERO = setup("cudaStreamIsCapturing", 0, Out("zero"))
FREED = (setup("cuMemAlloc_v2", Out("a"), 64 << 20), setup("cuMemFree_v2", Ref("a")))
SYNCHRONIZE = call("cuCtxSynchronize")
EVENT = setup("cudaEventCreate", Out("e"))
MEMORY = setup("cudaMalloc", Out("p"), 4096)

ROWS = [
    driven("a kernel stores to null", setup("cuStreamIsCapturing", 0, Out("zero")), *wrong("store", parameters=Pointers(("zero",))), SYNCHRONIZE, SYNCHRONIZE, documented="CUDA_ERROR_ILLEGAL_ADDRESS"),
    driven("a kernel loads from null", setup("cuStreamIsCapturing", 0, Out("zero")), *wrong("load", parameters=Pointers(("zero",))), SYNCHRONIZE, SYNCHRONIZE, documented="CUDA_ERROR_ILLEGAL_ADDRESS"),
    driven("a kernel stores to freed memory", *FREED, *wrong("store", parameters=Pointers(("a",))), SYNCHRONIZE),
    driven("a kernel stores beyond shared memory", *wrong("beyond_shared"), SYNCHRONIZE),
    driven("a kernel stores between words", setup("cuMemAlloc_v2", Out("a"), 512), *wrong("misaligned", parameters=Pointers(("a",))), SYNCHRONIZE, SYNCHRONIZE, documented="CUDA_ERROR_MISALIGNED_ADDRESS"),
    driven("a kernel's assertion fails", *wrong("asserts"), SYNCHRONIZE, SYNCHRONIZE, documented="CUDA_ERROR_ASSERT"),
    driven("a kernel traps", *wrong("traps"), SYNCHRONIZE, SYNCHRONIZE),
    driven("a kernel has a breakpoint", *wrong("stops"), SYNCHRONIZE),
    after("cudaGetLastError", call("cudaGetLastError"), call("cudaGetLastError")),
    after("cudaMalloc", call("cudaMalloc", Out("q"), 512), documented=ILLEGAL),
    after("cudaFree", call("cudaFree", Ref("p")), before=(MEMORY,), documented=ILLEGAL),
    after("cudaFree of null", call("cudaFree", 0)),
    after("cudaMallocHost", call("cudaMallocHost", Out("h"), 512), documented=ILLEGAL),
    after("cudaFreeHost", call("cudaFreeHost", Ref("h")), before=(setup("cudaMallocHost", Out("h"), 512),)),
    after("cudaMemcpy", call("cudaMemcpy", At("zero"), Ref("p"), 8, 2), before=(MEMORY,), documented=ILLEGAL),
    after("cudaMemset", call("cudaMemset", Ref("p"), 0, 8), before=(MEMORY,), documented=ILLEGAL),
    after("cudaMemGetInfo", call("cudaMemGetInfo", Out("free", None), Out("total", None))),
    after("cudaStreamCreate", call("cudaStreamCreate", Out("s")), documented=ILLEGAL),
    after("cudaStreamQuery", call("cudaStreamQuery", 0), documented=ILLEGAL),
    after("cudaStreamSynchronize", call("cudaStreamSynchronize", 0), documented=ILLEGAL),
    after("cudaStreamDestroy", call("cudaStreamDestroy", Ref("s")), before=(setup("cudaStreamCreate", Out("s")),)),
    after("cudaEventCreate", call("cudaEventCreate", Out("f"))),
    after("cudaEventQuery", call("cudaEventQuery", Ref("e")), before=(EVENT,)),
    after("cudaEventRecord", call("cudaEventRecord", Ref("e"), 0), before=(EVENT,), documented=ILLEGAL),
    after("cudaEventDestroy", call("cudaEventDestroy", Ref("e")), before=(EVENT,)),
    after("cudaGetDevice", call("cudaGetDevice", Out("device", "i32"))),
    after("cudaSetDevice", call("cudaSetDevice", 0)),
    after("cudaGetDeviceCount", call("cudaGetDeviceCount", Out("count", None))),
    after("cudaDeviceGetAttribute", call("cudaDeviceGetAttribute", Out("value", "i32"), 1, 0)),
    after("cudaPointerGetAttributes", call("cudaPointerGetAttributes", Out("is", None, 24), Ref("p")), before=(MEMORY,)),
    after("cudaDriverGetVersion", call("cudaDriverGetVersion", Out("version", None))),
    after("cudaLaunchHostFunc", call("cudaLaunchHostFunc", 0, Callback(), 0)),
    after("cudaGraphCreate", call("cudaGraphCreate", Out("g"), 0)),
    after("cuModuleLoadData", call("cuModuleLoadData", Out("m"), Bytes(b".version 7.0\n.target sm_50\n.address_size 64\n")), documented="CUDA_ERROR_ILLEGAL_ADDRESS"),
    after("cuCtxGetCurrent", call("cuCtxGetCurrent", Out("context"))),
    after("cudaDeviceReset, and then an allocation", call("cudaDeviceReset"), call("cudaMalloc", Out("q"), 512)),
]
