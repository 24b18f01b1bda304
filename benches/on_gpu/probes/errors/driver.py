"""Contexts, devices and memory, by the driver. `documented` is by the CUDA Driver API reference."""

from calls import At, Bytes, Out, Ref, call, row, setup

DONE = "CUDA_SUCCESS"
INVALID = "CUDA_ERROR_INVALID_VALUE"
NO_CONTEXT = "CUDA_ERROR_INVALID_CONTEXT"
INIT = setup("cuInit", 0)
MEMORY = setup("cuMemAlloc_v2", Out("p"), 4096)
#: cuMemCreate's properties: pinned memory of device 0.
LOCATED = Bytes(bytes([1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]) + bytes(24))
PAGE = 2 << 20


def bare(name, *calls, **rest):
    """Without a context."""
    return row(name, *calls, context="none", **rest)


def driven(name, *calls, **rest):
    return row(name, *calls, context="driver", **rest)


ROWS = [
    bare("cuInit with flags", call("cuInit", 1), documented=INVALID),
    bare("cuDeviceGetCount before cuInit", call("cuDeviceGetCount", Out("count")), documented="CUDA_ERROR_NOT_INITIALIZED"),
    bare("cuDriverGetVersion before cuInit", call("cuDriverGetVersion", Out("version")), documented=DONE),
    bare("cuMemAlloc before cuInit", call("cuMemAlloc_v2", Out("p"), 512), documented="CUDA_ERROR_NOT_INITIALIZED"),
    bare("cuDeviceGet(-1)", INIT, call("cuDeviceGet", Out("device"), -1), documented="CUDA_ERROR_INVALID_DEVICE"),
    bare("cuDeviceGet(99)", INIT, call("cuDeviceGet", Out("device"), 99), documented="CUDA_ERROR_INVALID_DEVICE"),
    bare("cuDeviceGet without a place", INIT, call("cuDeviceGet", 0, 0), documented=INVALID),
    bare("cuDeviceGetName of no length", INIT, call("cuDeviceGetName", Out("name", None, 64), 0, 0)),
    bare("cuDeviceGetName into 4 bytes", INIT, call("cuDeviceGetName", Out("name", "text", 64), 4, 0), documented=DONE),
    bare("cuDeviceGetAttribute of an unknown attribute", INIT, call("cuDeviceGetAttribute", Out("value"), 9999, 0), documented=INVALID),
    bare("cuDeviceGetAttribute of device 99", INIT, call("cuDeviceGetAttribute", Out("value"), 1, 99), documented="CUDA_ERROR_INVALID_DEVICE"),
    bare("cuDeviceTotalMem of device 99", INIT, call("cuDeviceTotalMem_v2", Out("bytes"), 99), documented="CUDA_ERROR_INVALID_DEVICE"),
    bare("cuMemAlloc without a context", INIT, call("cuMemAlloc_v2", Out("p"), 512), documented=NO_CONTEXT),
    bare("cuCtxGetCurrent without a context", INIT, call("cuCtxGetCurrent", Out("context")), documented=DONE),
    bare("cuCtxGetDevice without a context", INIT, call("cuCtxGetDevice", Out("device")), documented=NO_CONTEXT),
    bare("cuCtxSynchronize without a context", INIT, call("cuCtxSynchronize"), documented=NO_CONTEXT),
    bare("cuCtxPopCurrent without a context", INIT, call("cuCtxPopCurrent_v2", Out("context")), documented=NO_CONTEXT),
    bare("cuCtxSetCurrent of null", INIT, call("cuCtxSetCurrent", 0), documented=DONE),
    bare("cuCtxPushCurrent of null", INIT, call("cuCtxPushCurrent_v2", 0)),
    bare("cuCtxDestroy of null", INIT, call("cuCtxDestroy_v2", 0)),
    bare("cuDevicePrimaryCtxRelease that was not retained", INIT, call("cuDevicePrimaryCtxRelease_v2", 0)),
    bare("cuDevicePrimaryCtxGetState before it is made", INIT, call("cuDevicePrimaryCtxGetState", 0, Out("flags", "u32"), Out("active", "i32")), documented=DONE),
    bare("cuDevicePrimaryCtxSetFlags, unknown flags", INIT, call("cuDevicePrimaryCtxSetFlags_v2", 0, 0x4000), documented=INVALID),
    bare("cuDevicePrimaryCtxRetain of device 99", INIT, call("cuDevicePrimaryCtxRetain", Out("context"), 99), documented="CUDA_ERROR_INVALID_DEVICE"),
    bare("cuModuleLoadData without a context", INIT, call("cuModuleLoadData", Out("module"), Bytes(b".version 7.0\n.target sm_50\n.address_size 64\n")), documented=NO_CONTEXT),
    bare("cuCtxCreate, and it is current", INIT, call("cuCtxCreate_v2", Out("made"), 0, 0), call("cuCtxGetCurrent", Out("current")), call("cuCtxDestroy_v2", Ref("made")), call("cuCtxGetCurrent", Out("then")), documented=DONE),
    bare("cuCtxCreate with unknown flags", INIT, call("cuCtxCreate_v2", Out("made"), 0x40000, 0), documented=INVALID),
    driven("cuCtxGetApiVersion of null", call("cuCtxGetApiVersion", 0, Out("version", "u32"))),
    driven("cuCtxGetFlags", call("cuCtxGetFlags", Out("flags", "u32")), documented=DONE),
    driven("cuCtxGetLimit of an unknown limit", call("cuCtxGetLimit", Out("value"), 99), documented="CUDA_ERROR_UNSUPPORTED_LIMIT"),
    driven("cuMemAlloc of nothing", call("cuMemAlloc_v2", Out("p"), 0), documented=INVALID),
    driven("cuMemAlloc without a place", call("cuMemAlloc_v2", 0, 512), documented=INVALID),
    driven("cuMemAlloc of a pebibyte", call("cuMemAlloc_v2", Out("p"), 1 << 50), documented="CUDA_ERROR_OUT_OF_MEMORY"),
    driven("cuMemFree of null", call("cuMemFree_v2", 0)),
    driven("cuMemFree twice", MEMORY, call("cuMemFree_v2", Ref("p")), call("cuMemFree_v2", Ref("p")), documented=INVALID),
    driven("cuMemFree of a pointer into an allocation", MEMORY, call("cuMemFree_v2", Ref("p", 512)), documented=INVALID),
    driven("cuMemGetAddressRange of a pointer into an allocation", MEMORY, call("cuMemGetAddressRange_v2", Out("base"), Out("size", "u64"), Ref("p", 512)), documented=DONE),
    driven("cuMemGetAddressRange of plain memory", setup("cuDriverGetVersion", Out("plain", size=64)), call("cuMemGetAddressRange_v2", Out("base"), Out("size", "u64"), At("plain")), documented="CUDA_ERROR_NOT_FOUND"),
    driven("cuMemHostAlloc with unknown flags", call("cuMemHostAlloc", Out("h"), 512, 0x80), documented=INVALID),
    driven("cuMemHostGetFlags of device memory", MEMORY, call("cuMemHostGetFlags", Out("flags", "u32"), Ref("p"))),
    driven("cuMemAllocManaged without attachment", call("cuMemAllocManaged", Out("m"), 512, 0), documented=INVALID),
    driven("cuMemcpyHtoD to null", setup("cuDriverGetVersion", Out("plain", size=64)), call("cuMemcpyHtoD_v2", 0, At("plain"), 16), documented=INVALID),
    driven("cuMemcpyHtoD of nothing", MEMORY, call("cuMemcpyHtoD_v2", Ref("p"), 0, 0)),
    driven("cuMemcpyDtoH beyond an allocation", setup("cuMemAlloc_v2", Out("p"), 1 << 22), setup("cuDriverGetVersion", Out("plain", size=64)), call("cuMemcpyDtoH_v2", At("plain"), Ref("p", (1 << 22) - 8), 16), documented=INVALID),
    driven("cuMemsetD32 at an odd address", MEMORY, call("cuMemsetD32_v2", Ref("p", 2), 0, 4), documented=INVALID),
    driven("cuMemsetD8 of null", call("cuMemsetD8_v2", 0, 0, 16), documented=INVALID),
    driven("cuPointerGetAttribute of null", call("cuPointerGetAttribute", Out("value"), 2, 0)),
    driven("cuPointerGetAttribute, the type of device memory", MEMORY, call("cuPointerGetAttribute", Out("type", "u32"), 2, Ref("p")), documented=DONE),
    driven("cuPointerGetAttribute, an unknown attribute", MEMORY, call("cuPointerGetAttribute", Out("value"), 999, Ref("p")), documented=INVALID),
    driven("cuMemAddressReserve of nothing", call("cuMemAddressReserve", Out("va"), 0, 0, 0, 0), documented=INVALID),
    driven("cuMemAddressReserve of half a page", call("cuMemAddressReserve", Out("va"), PAGE // 2, 0, 0, 0)),
    driven("cuMemAddressReserve of a page", call("cuMemAddressReserve", Out("va"), PAGE, 0, 0, 0), call("cuMemAddressFree", Ref("va"), PAGE), documented=DONE),
    driven("cuMemCreate of half a page", call("cuMemCreate", Out("handle"), PAGE // 2, LOCATED, 0), documented=INVALID),
    driven("cuMemCreate of nothing", call("cuMemCreate", Out("handle"), 0, LOCATED, 0), documented=INVALID),
    driven("cuMemMap of memory at an address that was not reserved", setup("cuMemCreate", Out("handle"), PAGE, LOCATED, 0), call("cuMemMap", 1 << 40, PAGE, 0, Ref("handle"), 0), documented=INVALID),
    driven("cuMemMap twice", setup("cuMemCreate", Out("handle"), PAGE, LOCATED, 0), setup("cuMemAddressReserve", Out("va"), PAGE, 0, 0, 0), call("cuMemMap", Ref("va"), PAGE, 0, Ref("handle"), 0), call("cuMemMap", Ref("va"), PAGE, 0, Ref("handle"), 0)),
    driven("cuMemsetD8 of mapped memory that nobody may access", setup("cuMemCreate", Out("handle"), PAGE, LOCATED, 0), setup("cuMemAddressReserve", Out("va"), PAGE, 0, 0, 0), setup("cuMemMap", Ref("va"), PAGE, 0, Ref("handle"), 0), call("cuMemsetD8_v2", Ref("va"), 0, 16)),
    driven("cuMemUnmap of what is not mapped", setup("cuMemAddressReserve", Out("va"), PAGE, 0, 0, 0), call("cuMemUnmap", Ref("va"), PAGE), documented=INVALID),
    driven("cuMemRelease of no handle", call("cuMemRelease", 0), documented=INVALID),
    driven("cuStreamCreate with unknown flags", call("cuStreamCreate", Out("s"), 6), documented=INVALID),
    driven("cuEventCreate between processes and timed", call("cuEventCreate", Out("e"), 4), documented=INVALID),
    driven("cuGetErrorName of an unknown code", call("cuGetErrorName", 99999, Out("text")), documented=INVALID),
    driven("cuGetErrorString without a place", call("cuGetErrorString", 1, 0)),
    driven("cuGetProcAddress of an unknown function", call("cuGetProcAddress_v2", Bytes(b"cuNoSuchFunction"), Out("function"), 12000, 0, Out("status", "i32")), documented=("CUDA_SUCCESS", "CUDA_ERROR_NOT_FOUND")),
    driven("cuGetProcAddress of no version", call("cuGetProcAddress_v2", Bytes(b"cuInit"), Out("function"), 0, 0, Out("status", "i32"))),
]
