"""The machine that answers: which libraries there are, how many GPUs, and whether they are hardware or a simulation."""

import ctypes
import glob
import os
import re
import site
import stat
import sys
import time

from calls import Libraries

#: Names that a program asks the loader for, newest first.
SONAMES = {
    "cuda": ["libcuda.so.1"],
    "cudart": ["libcudart.so.13", "libcudart.so.12", "libcudart.so"],
    "nvml": ["libnvidia-ml.so.1"],
    "nccl": ["libnccl.so.2"],
}
#: Major number of NVIDIA's character devices (Linux, devices.txt).
NVIDIA = 195


class Machine:
    """What a worker works with. `deadline` is by time.monotonic()."""

    def __init__(self, deadline):
        self.deadline = deadline
        self.files = {}
        self.libraries = Libraries({name: self._load(name) for name in SONAMES})
        self.gpus = 0

    def _load(self, library):
        for name in _candidates(library):
            try:
                loaded = ctypes.CDLL(name)
            except OSError:
                continue
            self.files[library] = os.path.basename(name)
            return loaded
        return None

    def is_over(self):
        return time.monotonic() > self.deadline

    def look(self):
        """Asks the driver, in a process that ends: versions, GPUs, and the evidence of what answers."""
        cuda = self.libraries.loaded["cuda"]
        if cuda is None:
            return {"error": "libcuda.so.1 cannot be loaded: there is no NVIDIA driver"}
        code = cuda.cuInit(0)
        if code:
            return {"error": f"cuInit answers {code}"}
        number, version = ctypes.c_int(), ctypes.c_int()
        cuda.cuDeviceGetCount(ctypes.byref(number))
        cuda.cuDriverGetVersion(ctypes.byref(version))
        found = {"gpus": number.value, "cuda": version.value, "libraries": self.files, "devices": []}
        for index in range(number.value):
            found["devices"].append(_device(cuda, index))
        context = ctypes.c_void_p()
        # Only a context opens the device.
        found["context"] = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) if number.value else None
        for library, function in (("cudart", "cudaRuntimeGetVersion"), ("nccl", "ncclGetVersion")):
            loaded = self.libraries.loaded[library]
            if loaded is not None and getattr(loaded, function)(ctypes.byref(version)) == 0:
                found[library] = version.value
        found["driver"] = _driver(self.libraries.loaded["nvml"])
        found["source"] = source()
        return found


def _candidates(library):
    yield from SONAMES[library]
    places = [*site.getsitepackages(), *sys.path]
    for place in dict.fromkeys(filter(None, places)):
        for name in SONAMES[library]:
            yield from sorted(glob.glob(f"{glob.escape(place)}/nvidia/*/lib/{name}"))
    for name in SONAMES[library]:
        yield from sorted(glob.glob(f"/usr/local/cuda*/lib64/{name}"), reverse=True)


def _device(cuda, index):
    name, size, value = ctypes.create_string_buffer(256), ctypes.c_size_t(), ctypes.c_int()
    cuda.cuDeviceGetName(name, 256, index)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(size), index)
    capability = []
    # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
    for attribute in (75, 76):
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, index)
        capability.append(str(value.value))
    return {"name": name.value.decode(), "bytes": size.value, "compute_capability": ".".join(capability)}


def _driver(nvml):
    if nvml is None or nvml.nvmlInit_v2():
        return None
    version = ctypes.create_string_buffer(80)
    return version.value.decode() if nvml.nvmlSystemGetDriverVersion(version, 80) == 0 else None


def source():
    """What answered this process, and what shows it. `hardware` takes a device of NVIDIA's driver that this process has open,
    and nothing of a simulation: no library of ours is mapped, and no FAKEGPU_ variable is set."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        ours = sorted({name for line in maps for name in re.findall(r"(libfakegpu\w*\.so|fake_?gpu[\w.]*\.so)", line)})
    evidence = [f"{name} is mapped" for name in ours]
    evidence += [f"{name} is set" for name in sorted(os.environ) if name.startswith("FAKEGPU_")]
    devices = sorted(_open_devices())
    if not devices:
        return {"kind": "simulation", "evidence": [*evidence, "no device of NVIDIA's driver is open"]}
    kind = "forwarded" if evidence else "hardware"
    return {"kind": kind, "evidence": [*evidence, *(f"{device} is open" for device in devices)]}


def _open_devices():
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
            mode = os.fstat(int(name))
        except OSError:
            continue
        is_nvidia = os.major(mode.st_rdev) == NVIDIA and re.fullmatch(r"/dev/nvidia\d+", path)
        if stat.S_ISCHR(mode.st_mode) and (is_nvidia or path == "/dev/dxg"):
            yield path
