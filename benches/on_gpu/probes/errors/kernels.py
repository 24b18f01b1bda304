"""Launching kernels of PTX, right and wrong, by the driver.

`documented` is by the CUDA Driver API reference, "Execution Control", and the Programming Guide's table of technical
specifications (1024 threads in a block, 64 in z, 65535 blocks in y and z, 48 KiB of shared memory unless asked for more).
"""

from calls import Bytes, Out, Ref, call, setup

from .driver import DONE, INVALID, driven
from .modules import MODULE

#: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
DYNAMIC = 8


def function(name):
    return setup("cuModuleGetFunction", Out("f"), Ref("module"), Bytes(name.encode()))


def launch(grid=(1, 1, 1), block=(1, 1, 1), shared=0, stream=0, parameters=0, extra=0, kernel=Ref("f")):
    return call("cuLaunchKernel", kernel, *grid, *block, shared, stream, parameters, extra)


def launched(name, *before, kernel="nothing", documented=None, **how):
    return driven(f"cuLaunchKernel {name}", MODULE, function(kernel), *before, launch(**how), documented=documented)


ROWS = [
    launched("of one thread", documented=DONE),
    driven("cuLaunchKernel of null", launch(kernel=0)),
    launched("of no threads", block=(0, 1, 1), documented=INVALID),
    launched("of no blocks", grid=(0, 1, 1), documented=INVALID),
    launched("of 1024 threads", block=(1024, 1, 1), documented=DONE),
    launched("of 1025 threads", block=(1025, 1, 1), documented=INVALID),
    launched("of 32 x 33 threads", block=(32, 33, 1), documented=INVALID),
    launched("of 65 threads in z", block=(1, 1, 65), documented=INVALID),
    launched("of 65536 blocks in y", grid=(1, 65536, 1), documented=INVALID),
    launched("of 65536 blocks in z", grid=(1, 1, 65536), documented=INVALID),
    launched("of 2^31 blocks in x", grid=(1 << 31, 1, 1), documented=INVALID),
    launched("with 48 KiB of shared memory", shared=49152, documented=DONE),
    launched("with a byte more than 48 KiB of shared memory", shared=49153, documented=INVALID),
    launched("with 48 KiB of dynamic beside static shared memory", kernel="shares", shared=49152, documented=INVALID),
    launched("with 64 KiB of shared memory that were asked for", setup("cuFuncSetAttribute", Ref("f"), DYNAMIC, 65536), shared=65536),
    launched("of more threads than .maxntid", kernel="bounded", block=(128, 1, 1)),
    launched("of other threads than .reqntid", kernel="required", block=(32, 1, 1)),
    launched("of the threads of .reqntid", kernel="required", block=(64, 1, 1), documented=DONE),
    launched("with parameters and extra", parameters=8, extra=8),
    launched("with parameters that it does not have", parameters=0, documented=DONE),
    launched("without the parameter that it has", kernel="store", parameters=0),
    launched("on the legacy stream", stream=1, documented=DONE),
    driven("cuLaunchCooperativeKernel of a million blocks", MODULE, function("nothing"), call("cuLaunchCooperativeKernel", Ref("f"), 1 << 20, 1, 1, 1, 1, 1, 0, 0, 0), documented="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"),
    driven("cuLaunchCooperativeKernel of one block", MODULE, function("nothing"), call("cuLaunchCooperativeKernel", Ref("f"), 1, 1, 1, 1, 1, 1, 0, 0, 0), documented=DONE),
    driven("cuFuncSetAttribute of a gibibyte of shared memory", MODULE, function("nothing"), call("cuFuncSetAttribute", Ref("f"), DYNAMIC, 1 << 30), documented=INVALID),
    driven("cuFuncSetAttribute of what can only be read", MODULE, function("nothing"), call("cuFuncSetAttribute", Ref("f"), 0, 32), documented=INVALID),
    driven("cuFuncGetAttribute of an unknown attribute", MODULE, function("nothing"), call("cuFuncGetAttribute", Out("value", "i32"), 99, Ref("f")), documented=INVALID),
    driven("cuFuncGetAttribute of a kernel with .maxntid", MODULE, function("bounded"), call("cuFuncGetAttribute", Out("threads", "i32"), 0, Ref("f")), documented=DONE),
    driven("cuFuncGetAttribute of a kernel with shared memory", MODULE, function("shares"), call("cuFuncGetAttribute", Out("shared", "i32"), 1, Ref("f")), documented=DONE),
    driven("cuOccupancyMaxActiveBlocksPerMultiprocessor of no threads", MODULE, function("nothing"), call("cuOccupancyMaxActiveBlocksPerMultiprocessor", Out("blocks", "i32"), Ref("f"), 0, 0), documented=INVALID),
    driven("cuOccupancyMaxActiveBlocksPerMultiprocessor of 2048 threads", MODULE, function("nothing"), call("cuOccupancyMaxActiveBlocksPerMultiprocessor", Out("blocks", "i32"), Ref("f"), 2048, 0)),
]
