"""The package `fakegpu`, each time in a process of its own. Without PyTorch where it is not the point."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from fakegpu import library_dir
from ftest import programs

PATIENCE = 300
HOME = pathlib.Path(__file__).parents[1]
#: What a program sees: the devices of the driver, the name of the first by NVML, and the runtime's version.
LOOK = """
import ctypes
def look():
    number, name, version = ctypes.c_int(), ctypes.create_string_buffer(96), ctypes.c_int()
    cuda, nvml, cudart = (ctypes.CDLL(name) for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so.13"))
    device = ctypes.c_void_p()
    codes = [cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(number)), nvml.nvmlInit_v2()]
    codes += [nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)), nvml.nvmlDeviceGetName(device, name, 96)]
    codes += [cudart.cudaRuntimeGetVersion(ctypes.byref(version))]
    return "%d %s %d %s" % (number.value, name.value.decode(), version.value // 1000, codes)
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Runs Python programs in a directory of their own, without the settings of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith(("FAKEGPU_", "FTEST_CLUSTER", "FTEST_GPUS")):
            monkeypatch.delenv(name)

    def run(text, *, script=True, before=(), environment=None):
        file = tmp_path / "program.py"
        file.write_text(LOOK + text)
        path = os.pathsep.join(filter(None, [str(HOME), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            [*before, sys.executable, *([str(file)] if script else [])],
            input="" if script else LOOK + text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        )

    return run


def lines_of(result):
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_a_running_process_gets_devices_and_so_do_its_children(machine):
    result = machine("""
import subprocess, sys
if "child" not in sys.argv:
    import fakegpu
    assert not fakegpu.is_initialized() and fakegpu.__version__
    done = fakegpu.init(runtime="native", profile="h100", device_count=3)
    assert (done.runtime, done.backend) == ("native", "native") and fakegpu.is_initialized()
    assert (done.lib_dir / "libfakegpu.so").exists() and fakegpu.library_dir() == done.lib_dir
    # What a notebook shows, and what it can call.
    assert len(repr(done)) < 100, repr(done)
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    assert listed.count("H100") == 3, listed
    assert fakegpu.init() is done and fakegpu.init(profile="h100", runtime="native", device_count=3) is done
    number = ctypes.c_int()
    assert done.handles["libcudart.so.12"].cudaGetDeviceCount(ctypes.byref(number)) == 0 and number.value == 3
    subprocess.run([sys.executable, __file__, "child"], check=True)
print(look(), flush=True)
""")
    # The newest runtime, because no PyTorch asks for another one.
    assert lines_of(result) == ["3 NVIDIA H100 80GB HBM3 13 [0, 0, 0, 0, 0, 0]"] * 2, result.stderr
    assert result.stderr == ""


def test_what_a_process_sets_for_itself_alone_does_not_reach_its_children(machine):
    result = machine("""
import os, fakegpu
before = {name for name in os.environ if name.startswith("LD_")}
fakegpu.init(devices=["t4", "h100:2"], update_env=False)
print(look(), {name for name in os.environ if name.startswith("LD_")} == before)
""")
    assert lines_of(result) == ["3 Tesla T4 13 [0, 0, 0, 0, 0, 0] True"]


def test_children_share_the_memory_of_the_devices(machine):
    result = machine("""
import subprocess, sys, fakegpu
def free():
    ours, all = ctypes.c_size_t(), ctypes.c_size_t()
    assert cudart.cudaMemGetInfo(ctypes.byref(ours), ctypes.byref(all)) == 0
    return ours.value
# As multiprocessing's children do, which run the same file.
cudart = fakegpu.init(profile="a100", device_count=1).handles["libcudart.so.12"]
if "child" in sys.argv:
    print(free())
else:
    subprocess.run([sys.executable, __file__, "child"], check=True)
    pointer = ctypes.c_void_p()
    assert cudart.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 30)) == 0
    subprocess.run([sys.executable, __file__, "child"], check=True)
""")
    alone, beside = map(int, lines_of(result))
    # The gigabyte, and what the parent's context takes.
    assert 1 << 30 <= alone - beside < 2 << 30, (alone, beside)


def test_the_environment_for_other_processes(machine):
    result = machine("""
import os, subprocess, sys, fakegpu
code = open(__file__).read().split("import os, subprocess")[0] + "print(look())"
# FTEST_PROGRAMS names what `fgpu` runs where the tests are not to build it.
kept = {name: os.environ[name] for name in ("PATH", "HOME", "FTEST_PROGRAMS") if name in os.environ}
base = {**kept, "FAKEGPU_PROFILES": "t4"}
made = fakegpu.env(profile="a100", device_count=2, base_env=base)
assert "LD_PRELOAD" not in base and "FAKEGPU_PROFILES" not in made and made["FAKEGPU_PROFILE"] == "a100"
print(subprocess.run([sys.executable, "-c", code], env=made, check=True, capture_output=True, text=True).stdout, end="")
print(fakegpu.run([sys.executable, "-c", code], devices="h100:4", stdout=subprocess.PIPE).stdout, end="")
try:
    fakegpu.run(["sh", "-c", "exit 7"], profile="t4")
except subprocess.CalledProcessError as error:
    print(error.returncode, fakegpu.run(["sh", "-c", "exit 7"], check=False).returncode)
assert fakegpu.env(mode="passthrough").get("LD_PRELOAD") == os.environ.get("LD_PRELOAD")
assert not fakegpu.is_initialized()
""")
    assert lines_of(result) == [
        "2 NVIDIA A100-SXM4-80GB 13 [0, 0, 0, 0, 0, 0]",
        "4 NVIDIA H100 80GB HBM3 13 [0, 0, 0, 0, 0, 0]",
        "7 7",
    ]


def test_the_command_line_is_fgpus(tmp_path):
    def fakegpu(*words):
        return subprocess.run(
            [sys.executable, "-m", "fakegpu", *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(HOME)},
        )

    (tmp_path / "look.py").write_text(LOOK + "print(look()); raise SystemExit(9)")
    ran = fakegpu("--profile", "a100", "--device-count", "2", sys.executable, "look.py")
    assert (ran.returncode, ran.stdout) == (9, "2 NVIDIA A100-SXM4-80GB 13 [0, 0, 0, 0, 0, 0]\n"), ran.stderr
    assert fakegpu().returncode == 2
    for words, advice in [
        (["demo"], "ftest docs tutorial"),
        (["preflight", "--", "true"], "ftest exec --preflight"),
        (["validate", "--manifest", "x.yaml"], "ftest docs suites"),
        (["bandwidth"], "ftest bench"),
        (["coordinator", "--ping"], "SIGTERM"),
        (["doctor", "--json"], "ftest doctor"),
    ]:
        refused = fakegpu(*words)
        assert refused.returncode == 2 and advice in refused.stderr and words[0] in refused.stderr, refused
    assert "h100" in fakegpu("doctor", "--list-profiles").stdout


def test_hybrid(machine, tmp_path):
    """The simulated libcuda in the place of the real one."""
    source = HOME.parent / "real_cuda/tests/c/machine.c"
    if not source.exists() or shutil.which("cc") is None:
        pytest.skip("not a checkout, or no C compiler")
    driver = tmp_path / "driver"
    driver.mkdir()
    # A copy with no name in common: the simulated NVML that the library opens is another one.
    gpus, stub = driver / "libgpus.so", tmp_path / "stub.so"
    shutil.copyfile(library_dir() / "libfakegpu.so", gpus)
    subprocess.run(["cc", "-shared", "-o", stub, "-xc", "/dev/null", f"-Wl,-soname,{gpus}"], check=True)
    words = ["cc", "-shared", "-fPIC", "-o", driver / "libcuda.so.1", source, "-Wl,--no-as-needed", stub]
    subprocess.run(words, check=True)
    result = machine(
        """
import os, subprocess, sys
if "child" not in sys.argv:
    import fakegpu
    done = fakegpu.init(mode="hybrid", devices=["h100", "a100:2"])
    assert fakegpu.is_initialized() and fakegpu.init() is done
    assert done.handles["libcuda.so.1"].cuInit(0) == 0
    # As Python knows the environment: the library that plays the machine has changed it for itself.
    subprocess.run([sys.executable, __file__, "child"], check=True, env=dict(os.environ))
    try:
        fakegpu.init(mode="simulate", force=True)
    except RuntimeError as error:
        print(error)
cuda, number, name = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.create_string_buffer(96)
# As PyTorch counts devices.
nvml, count, gpu = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_int(-1), ctypes.c_void_p()
nvml.nvmlInit(), nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), nvml.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(gpu))
print(count.value, nvml.nvmlDeviceGetName(gpu, name, 96), name.value.decode())
print(cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(number)), number.value, cuda.cuDeviceGetName(name, 96, 0), name.value.decode())
""",
        environment={"FAKEGPU_REAL_CUDA_LIB_DIR": str(driver)},
    )
    seen = ["3 0 NVIDIA A100-SXM4-80GB", "0 0 3 0 NVIDIA H100 80GB HBM3"]
    expected = [*seen, "fakegpu.init(mode='simulate'): too late, this process has real GPUs, in mode hybrid", *seen]
    assert lines_of(result) == expected, result.stderr


def test_mistakes(machine):
    result = machine("""
import fakegpu
def mistake(call, **arguments):
    try:
        call(**arguments)
    except (ValueError, FileNotFoundError, RuntimeError, NotImplementedError) as error:
        print(type(error).__name__, error)
    else:
        print("no mistake", arguments)
for arguments in [{"runtime": "cuda"}, {"profile": "h1000"}, {"device_count": 0}, {"devices": "a100:x"}, {"mode": "hybrid"},
                  {"lib_dir": "/nowhere"}, {"cluster_config": "absent.yaml"}]:
    mistake(fakegpu.init, **arguments)
mistake(fakegpu.env, profile="h1000")
from fakegpu import stage, estimate_module_memory
mistake(stage)
mistake(estimate_module_memory)
assert not fakegpu.is_initialized()
fakegpu.init(device_count=2)
mistake(fakegpu.init, device_count=4)
fakegpu.init(device_count=4, force=True)
print(look())
mistake(fakegpu.init, device_count=1, force=True)
""")
    expected = [
        "ValueError runtime='cuda'",
        "ValueError profile=h1000*did you mean `h100`?",
        "ValueError device_count=0: expected an integer from 1 to 1024",
        "ValueError devices=a100:x",
        "ValueError FAKEGPU_MODE=hybrid",
        "FileNotFoundError *looked for /nowhere/libfakegpu.so",
        "ValueError cluster file absent.yaml",
        "ValueError profile=h1000",
        "NotImplementedError fakegpu.stage is not part of ftest",
        "NotImplementedError fakegpu.estimate_module_memory*max_memory_allocated",
        "RuntimeError fakegpu.init() was called before, with device_count=2",
        "4 NVIDIA A100-SXM4-80GB 13",
        "RuntimeError fakegpu.init(device_count=1): too late",
    ]
    found = lines_of(result)
    assert len(found) == len(expected), result.stdout
    for line, words in zip(found, expected):
        assert all(part in line for part in words.split("*")), (line, words)


@pytest.fixture
def nvidias(tmp_path):
    """The path of a `libcudart.so.13` as NVIDIA's packages have one, of a machine without GPUs; and that of a library that needs it,
    and finds it there."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    place = tmp_path / "nvidia" / "lib"
    place.mkdir(parents=True)
    (tmp_path / "cudart.c").write_text("int cudaGetDeviceCount(int *count) { *count = 0; return 100; }\n")
    (tmp_path / "user.c").write_text(
        "int cudaGetDeviceCount(int *);\nint count(void) { int n = -1; return cudaGetDeviceCount(&n) == 0 ? n : -1; }\n"
    )
    cudart, user = place / "libcudart.so.13", tmp_path / "libuser.so"
    shared = [compiler, "-shared", "-fPIC"]
    subprocess.run([*shared, "-Wl,-soname,libcudart.so.13", "-o", cudart, tmp_path / "cudart.c"], check=True)
    subprocess.run([*shared, f"-Wl,-rpath,{place}", "-o", user, tmp_path / "user.c", cudart], check=True)
    return str(cudart), str(user)


def test_our_functions_come_before_those_of_nvidias_packages(machine, nvidias):
    cudart, user = nvidias
    result = machine(f"""
import fakegpu, os
fakegpu.init(device_count=5)
print(ctypes.CDLL({user!r}).count(), {cudart!r} in open("/proc/self/maps").read())
# As PyTorch does in some environments: by its path.
ctypes.CDLL({cudart!r}, mode=os.RTLD_GLOBAL)
number = ctypes.c_int()
print(ctypes.CDLL(None).cudaGetDeviceCount(ctypes.byref(number)), number.value)
""")
    assert lines_of(result) == ["5 False", "0 5"], result.stderr


def test_a_program_that_has_loaded_cuda_starts_again(machine, nvidias):
    library = nvidias[0]
    text = f"""
import ctypes, os, sys
ctypes.CDLL({library!r}, mode=os.RTLD_GLOBAL)
print("begins", flush=True)
import fakegpu
fakegpu.init(profile="h100", device_count=2)
number = ctypes.c_int()
code = ctypes.CDLL(None).cudaGetDeviceCount(ctypes.byref(number))
print(code, number.value, sys.argv[1:], [name for name in os.environ if "AGAIN" in name])
"""
    again = machine(text)
    assert lines_of(again) == ["begins", "begins", "0 2 [] []"], again.stderr
    assert "libcudart.so.13 is loaded. The program starts again" in again.stderr
    refused = machine(text, script=False)
    assert refused.returncode == 1 and "a program from standard input cannot be started again" in refused.stderr, refused.stderr
    moved = machine(text.replace("import fakegpu", "os.chdir('/'); sys.orig_argv[1:2] = ['program.py']; import fakegpu"))
    assert moved.returncode == 1 and "the working directory is another one" in moved.stderr, moved.stderr


def test_a_rank_keeps_the_cluster_that_it_is_part_of(machine):
    before = [programs.find("ftest"), "exec", "--profile", "h100", "--device-count", "2", "--"]
    result = machine(
        "import fakegpu\nfakegpu.init(profile='a100', device_count=4)\nprint(look())",
        before=before,
        environment={"FTEST_PYTHON": sys.executable},
    )
    assert lines_of(result) == ["2 NVIDIA H100 80GB HBM3 13 [0, 0, 0, 0, 0, 0]"]
    assert "profile='a100', device_count=4) has no effect: this process is part of a cluster" in result.stderr


def test_a_thread_that_outlives_python_does_not_abort_the_process(machine, tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    # As PyTorch's autograd threads: C++ that must not be unwound calls Python. CPython up to 3.13 ends such a thread by unwinding it.
    # The process ends SECONDS after Python: time enough for the thread to ask for it.
    (tmp_path / "calls.cc").write_text(
        "#include <cstdlib>\n#include <unistd.h>\n"
        'extern "C" void calls(void (*back)()) noexcept { for (;;) back(); }\n'
        'struct End { ~End() { sleep(atoi(getenv("SECONDS"))); } } end;\n'
    )
    library = str(tmp_path / "libcalls.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "calls.cc"], check=True)
    text = f"""
import threading, time
begun = threading.Event()
kind = ctypes.CFUNCTYPE(None)
back = kind(lambda: (begun.set(), time.sleep(0.001), None)[2])
calls = ctypes.CDLL({library!r}).calls
calls.argtypes = [kind]
if INIT:
    import fakegpu
    fakegpu.init(device_count=1)
threading.Thread(target=calls, args=[back], daemon=True).start()
begun.wait()
print("ends")
"""
    result = machine(text.replace("INIT", "True"), environment={"SECONDS": "1"})
    assert (result.returncode, result.stdout) == (0, "ends\n"), result.stderr
    if sys.version_info < (3, 14):
        # What it would be without: otherwise this test shows nothing.
        assert machine(text.replace("INIT", "False"), environment={"SECONDS": "60"}).returncode < 0


def test_pytorch_trains_on_the_devices_of_a_running_process(machine, torch):
    result = machine("""
import fakegpu, warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    done = fakegpu.patch_torch(num_devices=2, device_name="NVIDIA A100-SXM4-80GB")
assert done.runtime == "fakecuda" and "patches nothing here" in str(seen[0].message), seen
import torch
print(torch.cuda.device_count(), torch.cuda.get_device_name(1))
def losses(device):
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
    data, found = torch.randn(32, 8).to(device), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found)
torch.testing.assert_close(losses("cuda:1"), losses("cpu"))
print(torch.cuda.max_memory_allocated(1) > 0)
""")
    assert lines_of(result) == ["2 NVIDIA A100-SXM4-80GB", "True"]
