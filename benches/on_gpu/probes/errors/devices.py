"""Devices, peers and the last error, by the runtime.

`documented` is by the CUDA Runtime API reference, "Device Management", "Peer Device Memory Access", "Error Handling".
"""

from calls import Bytes, Out, Ref, call, row, setup

from .memory import DONE, INVALID

DEVICE = "cudaErrorInvalidDevice"

ROWS = [
    row("cudaGetDeviceCount without a place", call("cudaGetDeviceCount", 0), documented=INVALID),
    row("cudaGetDevice without a place", call("cudaGetDevice", 0), documented=INVALID),
    row("cudaGetDevice", call("cudaGetDevice", Out("device", "i32")), documented=DONE),
    row("cudaSetDevice(-1)", call("cudaSetDevice", -1), documented=DEVICE),
    row("cudaSetDevice(99)", call("cudaSetDevice", 99), call("cudaGetDevice", Out("device", "i32"))),
    row("cudaSetDevice(99) before anything else", call("cudaSetDevice", 99), context="none", documented=DEVICE),
    row("cudaGetDevice before anything else", call("cudaGetDevice", Out("device", "i32")), context="none", documented=DONE),
    row("cudaGetLastError before anything else", call("cudaGetLastError"), context="none", documented=DONE),
    row("cudaStreamQuery before anything else", call("cudaStreamQuery", 0), context="none", documented=DONE),
    row("cudaDeviceGetAttribute of an unknown attribute", call("cudaDeviceGetAttribute", Out("value", "i32"), 9999, 0), documented=INVALID),
    row("cudaDeviceGetAttribute of device 99", call("cudaDeviceGetAttribute", Out("value", "i32"), 1, 99), documented=DEVICE),
    row("cudaDeviceGetAttribute without a place", call("cudaDeviceGetAttribute", 0, 1, 0), documented=INVALID),
    row("cudaDeviceGetLimit of an unknown limit", call("cudaDeviceGetLimit", Out("value", "u64"), 99), documented=("cudaErrorInvalidValue", "cudaErrorUnsupportedLimit")),
    row("cudaDeviceSetLimit of an unknown limit", call("cudaDeviceSetLimit", 99, 1), documented=("cudaErrorInvalidValue", "cudaErrorUnsupportedLimit")),
    row("cudaDeviceSetLimit of the stack to 600 bytes", call("cudaDeviceSetLimit", 0, 600), call("cudaDeviceGetLimit", Out("value", "u64"), 0), documented=DONE),
    row("cudaDeviceSetLimit of the stack to a gibibyte", call("cudaDeviceSetLimit", 0, 1 << 30)),
    row("cudaDeviceSetLimit of the heap to 100 MB", call("cudaDeviceSetLimit", 2, 100_000_000), call("cudaDeviceGetLimit", Out("value", "u64"), 2), documented=DONE),
    row("cudaDeviceGetPCIBusId into 4 bytes", call("cudaDeviceGetPCIBusId", Out("id", None, 16), 4, 0)),
    row("cudaDeviceGetPCIBusId of device 99", call("cudaDeviceGetPCIBusId", Out("id", None, 16), 16, 99), documented=DEVICE),
    row("cudaDeviceGetByPCIBusId of no address", call("cudaDeviceGetByPCIBusId", Out("device", "i32"), Bytes(b"nonsense"))),
    row("cudaDeviceGetByPCIBusId of an address where no GPU is", call("cudaDeviceGetByPCIBusId", Out("device", "i32"), Bytes(b"ffff:ff:1f.7"))),
    row("cudaDeviceGetByPCIBusId of null", call("cudaDeviceGetByPCIBusId", Out("device", "i32"), 0), documented=INVALID),
    row("cudaDeviceCanAccessPeer of itself", call("cudaDeviceCanAccessPeer", Out("can", "i32"), 0, 0), documented=DONE),
    row("cudaDeviceCanAccessPeer of device 99", call("cudaDeviceCanAccessPeer", Out("can", "i32"), 0, 99), documented=DEVICE),
    row("cudaDeviceEnablePeerAccess to itself", call("cudaDeviceEnablePeerAccess", 0, 0), documented=DEVICE),
    row("cudaDeviceEnablePeerAccess to device 99", call("cudaDeviceEnablePeerAccess", 99, 0), documented=DEVICE),
    row("cudaDeviceDisablePeerAccess to itself", call("cudaDeviceDisablePeerAccess", 0)),
    row("cudaDeviceDisablePeerAccess that was not enabled", call("cudaDeviceDisablePeerAccess", 1), gpus=2, documented="cudaErrorPeerAccessNotEnabled"),
    row("cudaDeviceEnablePeerAccess with flags", call("cudaDeviceEnablePeerAccess", 1, 7), gpus=2, documented=INVALID),
    row("cudaDeviceGetP2PAttribute of one device", call("cudaDeviceGetP2PAttribute", Out("value", "i32"), 1, 0, 0)),
    row("cudaDeviceGetP2PAttribute of device 99", call("cudaDeviceGetP2PAttribute", Out("value", "i32"), 1, 0, 99), documented=DEVICE),
    row("cudaSetDeviceFlags, unknown flags", call("cudaSetDeviceFlags", 0x4000)),
    row("cudaGetDeviceFlags", call("cudaGetDeviceFlags", Out("flags", "u32")), documented=DONE),
    row("cudaInitDevice of device 99", call("cudaInitDevice", 99, 0, 0), documented=DEVICE),
    row("cudaDeviceReset, and then an allocation", call("cudaDeviceReset"), call("cudaMalloc", Out("p"), 512), documented=DONE),
    row("cudaDeviceReset frees what was allocated", setup("cudaMalloc", Out("p"), 512), call("cudaDeviceReset"), call("cudaFree", Ref("p"))),
    row("a failed call is the last error until it is asked for", call("cudaMalloc", Out("p"), -1), call("cudaPeekAtLastError"), call("cudaPeekAtLastError"), documented="cudaErrorMemoryAllocation"),
    row("a success does not clear the last error", call("cudaSetDevice", 99), call("cudaGetDevice", Out("device", "i32")), call("cudaGetLastError"), documented=DEVICE),
    row("the last of two errors", call("cudaSetDevice", 99), call("cudaMalloc", 0, 512), call("cudaGetLastError"), documented=INVALID),
    row("cudaErrorNotReady is not a last error", call("cudaEventQuery", 0), call("cudaGetLastError")),
    row("cudaRuntimeGetVersion without a place", call("cudaRuntimeGetVersion", 0), documented=INVALID),
    row("cudaDriverGetVersion without a place", call("cudaDriverGetVersion", 0), documented=INVALID),
    row("cudaProfilerStart and cudaProfilerStop", call("cudaProfilerStart"), call("cudaProfilerStop"), documented=DONE),
]
