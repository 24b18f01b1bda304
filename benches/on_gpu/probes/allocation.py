"""Memory: what a context takes, in which steps allocations are made and counted, pitches, and granularities."""

import ctypes

from calls import Out, apart, call, row, table

from .errors.driver import LOCATED

SIZES = [1, 256, 511, 512, 513, 4096, 65536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20, (2 << 20) + 1, 3 << 20, 16 << 20, 1 << 30]
WIDTHS = [1, 32, 100, 511, 512, 513, 1000, 4096, 5000]
MIB = 1 << 20

ROWS = [
    *(row(f"pitch of {width} bytes", call("cudaMallocPitch", Out("p"), Out("pitch", "u64"), width, 4)) for width in WIDTHS),
    row("granularity, least", call("cuMemGetAllocationGranularity", Out("bytes", "u64"), LOCATED, 0), context="driver"),
    row("granularity, recommended", call("cuMemGetAllocationGranularity", Out("bytes", "u64"), LOCATED, 1), context="driver"),
]


def record(machine):
    answers = table(ROWS, machine)
    for name, work in (("context", _context), ("alignment", _alignment), ("counted", _counted), ("steps", _steps), ("most", _most)):
        if machine.libraries.loaded["cudart"] is None:
            answers[name] = {"skipped": "there is no cudart"}
        else:
            answers[name] = apart(lambda tell, work=work: tell(work(machine.libraries.loaded)))
    return answers


def _free(cudart):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = cudart.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    if code:
        raise RuntimeError(f"cudaMemGetInfo answers {code}")
    return free.value, total.value


def _allocate(cudart, size):
    pointer = ctypes.c_uint64()
    return cudart.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)), pointer.value


def _context(loaded):
    """MiB that are not free once a context is there, and how many of them NVML counted before: others' and the driver's own."""
    before = None
    if loaded["nvml"] is not None and loaded["nvml"].nvmlInit_v2() == 0:
        device, memory = ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
        loaded["nvml"].nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
        if loaded["nvml"].nvmlDeviceGetMemoryInfo(device, memory) == 0:
            before = memory[2] // MIB
    loaded["cudart"].cudaFree(None)
    free, total = _free(loaded["cudart"])
    taken = (total - free) // MIB
    out = {"total": total, "taken_mib": taken, "of_the_context_mib": None if before is None else taken - before}
    return {"out": out, "measured": {"used_before_mib": before}}


def _alignment(loaded):
    """The largest power of two, up to 2 MiB, that divides the address of each of eight allocations of a size."""
    found = {}
    for size in SIZES:
        addresses = [_allocate(loaded["cudart"], size) for _ in range(1 if size > 16 << 20 else 8)]
        if any(code for code, _ in addresses):
            found[str(size)] = "out of memory"
            continue
        together = 0
        for _, address in addresses:
            together |= address
        found[str(size)] = min(together & -together, 2 << 20)
        for _, address in addresses:
            loaded["cudart"].cudaFree(ctypes.c_uint64(address))
    return {"out": found}


def _counted(loaded):
    """Bytes by which free memory falls with the first allocation of a size, and by which it rises when that is freed."""
    found, cudart = {}, loaded["cudart"]
    for size in SIZES:
        before = _free(cudart)[0]
        code, address = _allocate(cudart, size)
        during = _free(cudart)[0]
        cudart.cudaFree(ctypes.c_uint64(address))
        found[str(size)] = {"taken": before - during, "given_back": _free(cudart)[0] - during, "code": code}
    return {"out": found}


def _steps(loaded):
    """The distances of eight allocations of a size that follow each other."""
    found = {}
    for size in SIZES[:12]:
        addresses = [_allocate(loaded["cudart"], size)[1] for _ in range(8)]
        found[str(size)] = [later - earlier for earlier, later in zip(addresses, addresses[1:])]
    return {"out": {}, "measured": found}


def _most(loaded):
    """The largest allocation, in steps of 2 MiB, less what is free: how much of the free memory cannot be had at once."""
    cudart = loaded["cudart"]
    cudart.cudaFree(None)
    free = _free(cudart)[0]
    low, high = 0, free // (2 * MIB) + 1
    while high - low > 1:
        middle = (low + high) // 2
        code, address = _allocate(cudart, middle * 2 * MIB)
        if code:
            high = middle
        else:
            low = middle
            cudart.cudaFree(ctypes.c_uint64(address))
    return {"out": {"free_less_largest_mib": free // MIB - 2 * low}}
