"""Allocating, freeing, registering and asking about memory, by the runtime.

`documented` is by the CUDA Runtime API reference, "Memory Management", "Stream Ordered Memory Allocator", "Unified Addressing".
"""

from calls import At, Out, Ref, call, row, setup

POINTER = ("type", "device")
DEVICE = setup("cudaMalloc", Out("p"), 4096)
PINNED = setup("cudaMallocHost", Out("h"), 4096)
#: 4096 bytes of the process's own memory.
PLAIN = setup("cudaDeviceGetAttribute", Out("plain", size=4096), 1, 0)
HUGE = 1 << 50
INVALID = "cudaErrorInvalidValue"
NO_MEMORY = "cudaErrorMemoryAllocation"
DONE = "cudaSuccess"

ROWS = [
    row("cudaMalloc of one byte", call("cudaMalloc", Out("p"), 1), documented=DONE),
    row("cudaMalloc of nothing", call("cudaMalloc", Out("p"), 0)),
    row("cudaMalloc without a place for the pointer", call("cudaMalloc", 0, 512), documented=INVALID),
    row("cudaMalloc of a pebibyte", call("cudaMalloc", Out("p"), HUGE), documented=NO_MEMORY),
    row("cudaMalloc of all 64 bits", call("cudaMalloc", Out("p"), -1), documented=NO_MEMORY),
    row("cudaFree of null", call("cudaFree", 0), documented=DONE),
    row("cudaFree of device memory", DEVICE, call("cudaFree", Ref("p")), documented=DONE),
    row("cudaFree twice", DEVICE, call("cudaFree", Ref("p")), call("cudaFree", Ref("p")), documented=INVALID),
    row("cudaFree of a pointer into an allocation", DEVICE, call("cudaFree", Ref("p", 512))),
    row("cudaFree of plain memory", PLAIN, call("cudaFree", At("plain"))),
    row("cudaFree of pinned memory", PINNED, call("cudaFree", Ref("h"))),
    row("cudaMallocHost of nothing", call("cudaMallocHost", Out("h"), 0)),
    row("cudaMallocHost without a place for the pointer", call("cudaMallocHost", 0, 512), documented=INVALID),
    row("cudaMallocHost of a pebibyte", call("cudaMallocHost", Out("h"), HUGE), documented=NO_MEMORY),
    row("cudaFreeHost of null", call("cudaFreeHost", 0)),
    row("cudaFreeHost of device memory", DEVICE, call("cudaFreeHost", Ref("p")), documented=INVALID),
    row("cudaFreeHost twice", PINNED, call("cudaFreeHost", Ref("h")), call("cudaFreeHost", Ref("h")), documented=INVALID),
    row("cudaFreeHost of plain memory", PLAIN, call("cudaFreeHost", At("plain"))),
    row("cudaHostAlloc with unknown flags", call("cudaHostAlloc", Out("h"), 512, 0x80), documented=INVALID),
    row("cudaHostAlloc portable and mapped", call("cudaHostAlloc", Out("h"), 512, 3), call("cudaHostGetFlags", Out("flags", "u32"), Ref("h")), documented=DONE),
    row("cudaHostGetFlags of plain memory", PLAIN, call("cudaHostGetFlags", Out("flags", "u32"), At("plain")), documented=INVALID),
    row("cudaHostGetFlags of device memory", DEVICE, call("cudaHostGetFlags", Out("flags", "u32"), Ref("p")), documented=INVALID),
    row("cudaHostGetDevicePointer of pinned memory", PINNED, call("cudaHostGetDevicePointer", Out("d"), Ref("h"), 0), documented=DONE),
    row("cudaHostGetDevicePointer of plain memory", PLAIN, call("cudaHostGetDevicePointer", Out("d"), At("plain"), 0)),
    row("cudaHostGetDevicePointer with flags", PINNED, call("cudaHostGetDevicePointer", Out("d"), Ref("h"), 1), documented=INVALID),
    row("cudaHostRegister of null", call("cudaHostRegister", 0, 4096, 0), documented=INVALID),
    row("cudaHostRegister of nothing", PLAIN, call("cudaHostRegister", At("plain"), 0, 0), documented=INVALID),
    row("cudaHostRegister twice", PLAIN, call("cudaHostRegister", At("plain"), 4096, 0), call("cudaHostRegister", At("plain"), 4096, 0), documented="cudaErrorHostMemoryAlreadyRegistered"),
    row("cudaHostRegister of pinned memory", PINNED, call("cudaHostRegister", Ref("h"), 4096, 0)),
    row("cudaHostRegister with unknown flags", PLAIN, call("cudaHostRegister", At("plain"), 4096, 0x80)),
    row("cudaHostUnregister of plain memory", PLAIN, call("cudaHostUnregister", At("plain")), documented="cudaErrorHostMemoryNotRegistered"),
    row("cudaHostUnregister of pinned memory", PINNED, call("cudaHostUnregister", Ref("h"))),
    row("cudaMallocManaged of one byte", call("cudaMallocManaged", Out("m"), 1, 1), documented=DONE),
    row("cudaMallocManaged of nothing", call("cudaMallocManaged", Out("m"), 0, 1)),
    row("cudaMallocManaged without attachment", call("cudaMallocManaged", Out("m"), 512, 0), documented=INVALID),
    row("cudaMallocManaged with both attachments", call("cudaMallocManaged", Out("m"), 512, 3)),
    row("cudaMallocPitch of rows of 100 bytes", call("cudaMallocPitch", Out("p"), Out("pitch", "u64"), 100, 10), documented=DONE),
    row("cudaMallocPitch of no width", call("cudaMallocPitch", Out("p"), Out("pitch", "u64"), 0, 10)),
    row("cudaMallocPitch of no height", call("cudaMallocPitch", Out("p"), Out("pitch", "u64"), 100, 0)),
    row("cudaMallocPitch of a pebibyte", call("cudaMallocPitch", Out("p"), Out("pitch", "u64"), 1 << 25, 1 << 25)),
    row("cudaMemGetInfo without places", call("cudaMemGetInfo", 0, 0)),
    row("cudaPointerGetAttributes of device memory", DEVICE, call("cudaPointerGetAttributes", Out("is", POINTER, 24), Ref("p")), documented=DONE),
    row("cudaPointerGetAttributes of pinned memory", PINNED, call("cudaPointerGetAttributes", Out("is", POINTER, 24), Ref("h")), documented=DONE),
    row("cudaPointerGetAttributes of plain memory", PLAIN, call("cudaPointerGetAttributes", Out("is", POINTER, 24), At("plain")), documented=DONE),
    row("cudaPointerGetAttributes of managed memory", setup("cudaMallocManaged", Out("m"), 512, 1), call("cudaPointerGetAttributes", Out("is", POINTER, 24), Ref("m")), documented=DONE),
    row("cudaPointerGetAttributes of freed memory", DEVICE, setup("cudaFree", Ref("p")), call("cudaPointerGetAttributes", Out("is", POINTER, 24), Ref("p"))),
    row("cudaPointerGetAttributes of null", call("cudaPointerGetAttributes", Out("is", POINTER, 24), 0)),
    row("cudaPointerGetAttributes without a place", DEVICE, call("cudaPointerGetAttributes", 0, Ref("p")), documented=INVALID),
    row("cudaMallocAsync of nothing", call("cudaMallocAsync", Out("p"), 0, 0)),
    row("cudaMallocAsync of a pebibyte", call("cudaMallocAsync", Out("p"), HUGE, 0), documented=NO_MEMORY),
    row("cudaMallocAsync without a place for the pointer", call("cudaMallocAsync", 0, 512, 0), documented=INVALID),
    row("cudaFree of what cudaMallocAsync made", setup("cudaMallocAsync", Out("p"), 512, 0), call("cudaFree", Ref("p")), documented=DONE),
    row("cudaFreeAsync of what cudaMalloc made", DEVICE, call("cudaFreeAsync", Ref("p"), 0)),
    row("cudaFreeAsync of null", call("cudaFreeAsync", 0, 0)),
    row("cudaFreeAsync twice", setup("cudaMallocAsync", Out("p"), 512, 0), call("cudaFreeAsync", Ref("p"), 0), call("cudaFreeAsync", Ref("p"), 0)),
    row("the default pool keeps nothing", call("cudaDeviceGetDefaultMemPool", Out("pool"), 0), call("cudaMemPoolGetAttribute", Ref("pool"), 4, Out("threshold", "u64")), documented=DONE),
    row("cudaMemPoolGetAttribute of an unknown attribute", setup("cudaDeviceGetDefaultMemPool", Out("pool"), 0), call("cudaMemPoolGetAttribute", Ref("pool"), 99, Out("value", "u64")), documented=INVALID),
    row("cudaMemPoolDestroy of the default pool", setup("cudaDeviceGetDefaultMemPool", Out("pool"), 0), call("cudaMemPoolDestroy", Ref("pool")), documented=INVALID),
    row("cudaMemPoolTrimTo of the default pool", setup("cudaDeviceGetDefaultMemPool", Out("pool"), 0), call("cudaMemPoolTrimTo", Ref("pool"), 0), documented=DONE),
    row("cudaDeviceGetDefaultMemPool of device 99", call("cudaDeviceGetDefaultMemPool", Out("pool"), 99), documented="cudaErrorInvalidDevice"),
    row("cudaMemAdvise of device memory", DEVICE, call("cudaMemAdvise", Ref("p"), 4096, 1, 0)),
    row("cudaMemPrefetchAsync of device memory", DEVICE, call("cudaMemPrefetchAsync", Ref("p"), 4096, 0, 0)),
]
