"""Simulated GPUs in this process: the shim and its stand-ins for NVIDIA's libraries are loaded into it, or the program is
restarted under them."""

import contextlib
import ctypes
import dataclasses
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import threading
import warnings

from ftest import programs

from . import _environment
from ._environment import DEVICES, MACHINE, PYTHON

#: The libraries that FakeGPU consists of: scripts take their handles by these names.
NAMES = ("libcublas.so.12", "libcudart.so.12", "libcuda.so.1", "libnvidia-ml.so.1", "libnccl.so.2")
#: Files of NVIDIA's, and of PyTorch's that are bound to them when they are loaded.
BOUND = re.compile(
    r"lib(cuda|cudart|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|nccl|nvidia-ml|nvrtc|torch_cuda|c10_cuda)\.so[.\d]*$"
)
#: Variables for the programs that this one starts.
FOR_OTHERS = {"LD_PRELOAD", "LD_LIBRARY_PATH", "LIBRARY_PATH", "OMP_NUM_THREADS"}
#: What PyTorch reads when it ends: how long it waits for threads, which sleep because Python is gone.
AT_THE_END = "TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT"
#: The process that starts again, until it has: if the shim is missing then, it would never end.
AGAIN = "FAKEGPU_STARTED_AGAIN"

_lock = threading.RLock()
_first = None


@dataclasses.dataclass(frozen=True)
class NativeResult:
    """The location of the shim, and its functions by the names of NVIDIA's libraries."""

    lib_dir: pathlib.Path | None
    #: Hundreds of functions under dozens of names: a notebook would show them all.
    handles: dict = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class RuntimeInitResult:
    """What `init` did."""

    #: The one that was asked for: "native", also for "auto", or "fakecuda".
    runtime: str
    #: Always "native".
    backend: str
    native_result: NativeResult | None = dataclasses.field(default=None, repr=False)

    @property
    def lib_dir(self):
        """The directory of libfakegpu.so, or of libfakegpu_cuda.so in hybrid; None in passthrough. Both are experimental."""
        return self.native_result.lib_dir if self.native_result else None

    @property
    def handles(self):
        """A ctypes.CDLL with every function, under each library's name (`handles["libcuda.so.1"].cuInit`)."""
        return self.native_result.handles if self.native_result else {}


def init(
    *,
    runtime="auto",
    build_dir=None,
    lib_dir=None,
    mode=None,
    oom_policy=None,
    unsupported_api=None,
    dist_mode=None,
    cluster_config=None,
    coordinator_addr=None,
    coordinator_transport=None,
    profile=None,
    device_count=None,
    devices=None,
    update_env=True,
    force=False,
):
    """Gives simulated GPUs to this process and, unless `update_env` is False, to the programs that it starts. Call it before
    importing PyTorch or anything else that needs CUDA; otherwise the program is restarted from its beginning.

    A second call returns the first one's result; with `force` it may change what the first one set, until a GPU is
    used.

    Raises ValueError for a wrong argument or variable; FileNotFoundError if a part of ftest is missing; RuntimeError if it is too
    late: GPUs have been used, or the program cannot be restarted."""
    global _first
    chosen = (runtime or "auto").strip().lower()
    if chosen not in ("auto", "native", "fakecuda"):
        raise ValueError(f"runtime={runtime!r}: expected 'auto', 'native' or 'fakecuda'")
    arguments = _environment.given(
        build_dir=build_dir,
        lib_dir=lib_dir,
        mode=mode,
        oom_policy=oom_policy,
        unsupported_api=unsupported_api,
        dist_mode=dist_mode,
        cluster_config=cluster_config,
        coordinator_addr=coordinator_addr,
        coordinator_transport=coordinator_transport,
        profile=profile,
        device_count=device_count,
        devices=devices,
    )
    with _lock:
        if _first is not None and not force:
            before, result = _first
            if arguments and arguments != before:
                raise RuntimeError(f"fakegpu.init() was called before, with {worded(before)}; force=True changes that")
            return result
        if chosen == "fakecuda":
            require_cuda_build()
            warnings.warn(
                "fakegpu: runtime='fakecuda' patches nothing here: PyTorch's own CUDA code runs on the simulated GPUs,"
                " as with runtime='native'",
                stacklevel=2,
            )
        # For the interpreter that runs here, because its PyTorch's libraries are examined.
        plan = _environment.plan({**os.environ, PYTHON: sys.executable}, arguments)
        if plan.shim is None and plan.libraries:
            native = enter_hybrid(plan, update_env)
        elif plan.shim is None:
            apply(plan.environment, update_env)
            native = NativeResult(None, {})
        else:
            native = enter(plan, arguments, update_env)
        result = RuntimeInitResult("fakecuda" if chosen == "fakecuda" else "native", "native", native)
        _first = arguments, result
        return result


def is_initialized():
    """Whether this process has simulated GPUs, through `init` or from whoever started it."""
    return has_shim() or has_hybrid()


def has_shim():
    return ctypes_symbol("ftest_is_used") is not None


def has_hybrid():
    return ctypes_symbol("fakegpu_cuda_hybrid") is not None


def patch_torch(*, num_devices=None, device_name=None):
    """`init` for code that was written for FakeGPU's runtime "fakecuda": PyTorch itself is not changed. `device_name` is the id or
    the name of a profile (`ftest profiles`)."""
    return init(runtime="fakecuda", device_count=num_devices, profile=device_name and profile_of(device_name))


def profile_of(name):
    """The id of the profile with this name; any other word unchanged."""
    with contextlib.suppress(programs.Missing, subprocess.CalledProcessError):
        command = [programs.find("ftest"), "profiles"]
        table = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
        for line in table.splitlines():
            identifier, known = re.split(r"\s{2,}", line.strip())[:2]
            if known == name:
                return identifier
    return name


def worded(arguments):
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "no arguments"


def ctypes_symbol(name):
    """A function that is globally visible in this process; None if there is none."""
    return getattr(ctypes.CDLL(None), name, None)


def enter(plan, arguments, update_env):
    """Applies `plan` to this process."""
    if has_hybrid():
        raise RuntimeError(f"fakegpu.init({worded(arguments)}): too late, this process has real GPUs, in mode hybrid")
    if has_shim():
        os.environ.pop(AGAIN, None)
        adopt(plan, arguments, update_env)
        return native_of(plan)
    bound = bound_libraries(plan)
    if bound:
        start_again(plan, bound)
    apply(plan.applied_to(os.environ), update_env)
    # The shim first, so that its functions are found before any other library's. Then NVIDIA's names: the loader uses a library
    # that is already loaded for every later one of the same name, wherever that is installed.
    native = native_of(plan)
    for library in plan.libraries:
        ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    # With Python's lock held, so that no other thread imports in the meantime.
    ctypes.PyDLL(str(plan.shim)).ftest_loaded_late()
    return native


def native_of(plan):
    shim = ctypes.CDLL(str(plan.shim), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    names = [pathlib.Path(library).name for library in plan.libraries]
    return NativeResult(plan.shim.parent, dict.fromkeys([*NAMES, *names], shim))


def adopt(plan, arguments, update_env):
    """The shim is in this process. Its settings are read from the environment when a GPU is first used."""
    kept = {MACHINE, *FOR_OTHERS}
    wanted = {name: value for name, value in plan.environment.items() if is_setting(name) and name not in kept}
    changed = {name for name, value in wanted.items() if (os.environ.get(name) or None) != value}
    if not changed:
        return
    if os.environ.get("FTEST_CLUSTER") and "FTEST_CLUSTER" in changed:
        # Whoever started this process knows which rank of which cluster it is.
        warnings.warn(
            f"fakegpu.init({worded(arguments)}) has no effect: this process is part of a cluster, whose devices it has",
            RuntimeWarning,
            stacklevel=4,
        )
        return
    if ctypes_symbol("ftest_is_used")():
        raise RuntimeError(f"fakegpu.init({worded(arguments)}): too late, this process has used its GPUs: call it first")
    if not changed.isdisjoint(DEVICES):
        wanted[MACHINE] = None
    after = {name: value for name, value in {**os.environ, **wanted}.items() if value is not None}
    if not after.get(MACHINE):
        wanted[MACHINE] = _environment.machine(after)
    apply(wanted, update_env)


def is_setting(name):
    return name.startswith(("FAKEGPU_", "FTEST_"))


def apply(environment, update_env):
    """Sets the variables that the shim reads and, with `update_env`, those needed by programs that this one starts."""
    for name, value in environment.items():
        if name == "PATH" and update_env:
            show_monitor(value)
            continue
        for_others = name in FOR_OTHERS or name.startswith("TRITON_")
        if not (is_setting(name) or name == AT_THE_END or (update_env and for_others)):
            continue
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def show_monitor(path):
    """Puts the directory of our nvidia-smi, one of `path`, first in this process's PATH. What else `path` begins with, such as the
    directory of the interpreter, is not for the programs of a notebook."""
    now = os.environ.get("PATH", os.defpath).split(os.pathsep)
    added = [place for place in path.split(os.pathsep) if place not in now and os.path.exists(os.path.join(place, "nvidia-smi"))]
    if added:
        os.environ["PATH"] = os.pathsep.join([added[0], *now])


def enter_hybrid(plan, update_env):
    """Loads the library in front of the real libcuda, under libcuda's name and NVML's, unless this process was started with it."""
    library = plan.libraries[0]
    if has_shim():
        raise RuntimeError("fakegpu.init(mode='hybrid'): too late, this process has simulated GPUs")
    bound = [] if has_hybrid() else bound_libraries(plan)
    if bound:
        start_again(plan, bound)
    apply({**plan.environment, MACHINE: plan.applied_to(os.environ)[MACHINE]}, update_env)
    handle = ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    for name in plan.libraries[1:]:
        ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    return NativeResult(pathlib.Path(library).parent, dict.fromkeys(["libcuda.so.1", "libnvidia-ml.so.1"], handle))


def mapped():
    """The files that are mapped into this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        lines = [line.rstrip("\n").split(maxsplit=5) for line in maps]
    return {fields[5] for fields in lines if len(fields) == 6}


def bound_libraries(plan):
    """The files in this process whose functions are already bound to libraries other than ours."""
    # As the kernel names them, without links.
    ours = {os.path.dirname(os.path.realpath(library)) for library in (plan.shim, *plan.libraries) if library}
    found = {os.path.basename(file) for file in mapped() if BOUND.search(file) and os.path.dirname(file) not in ours}
    return sorted(found)


def start_again(plan, bound):
    """Restarts this program from its beginning, under the shim.

    Raises RuntimeError if that would not be the same program."""
    reason = f"fakegpu.init() comes too late: {bound[0]} is loaded"
    advice = "call it before the import that loads it, or start the program with `python -m fakegpu`"
    obstacle = why_not_again()
    if obstacle:
        raise RuntimeError(f"{reason}, and {obstacle}; {advice}")
    print(f"{reason}. The program starts again under the simulated GPUs; {advice}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    environment = {**plan.applied_to(os.environ), AGAIN: str(os.getpid())}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def why_not_again():
    """Why this program cannot be restarted as it was; None if it can."""
    main = sys.modules.get("__main__")
    script = getattr(main, "__file__", None)
    words = sys.orig_argv[1:]
    by_name = getattr(main, "__spec__", None) is not None
    if os.environ.get(AGAIN) == str(os.getpid()):
        return "it was started again already, without the shim: is LD_PRELOAD ignored here?"
    if hasattr(sys, "ps1") or sys.flags.interactive or "IPython" in sys.modules:
        return "an interactive session cannot be started again"
    if not by_name and (script == "<stdin>" or (script is None and "-c" not in words)):
        return "a program from standard input cannot be started again"
    if not by_name and script is not None and not any(os.path.abspath(word) == script for word in words):
        return "the working directory is another one than at its start"
    if threading.current_thread() is not threading.main_thread():
        return "another thread than the main one calls it"
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        return "this is a process of multiprocessing"
    return None


def require_cuda_build():
    """Raises RuntimeError if PyTorch is a build without CUDA."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return
    places = [pathlib.Path(spec.submodule_search_locations[0]), pathlib.Path(sys.prefix)]
    if not any((place / "lib" / "libtorch_cuda.so").exists() for place in places):
        raise RuntimeError(
            "this PyTorch is built without CUDA, which FakeGPU's runtime 'fakecuda' made up for; ftest runs PyTorch's own CUDA"
            " code: install a build with CUDA (NVIDIA's packages are not needed: `ftest env path` makes such an environment)"
        )
