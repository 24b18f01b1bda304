"""What kernels cost that run from their PTX: a compiled training step against the eager one of the compute bridge, Triton's vector
add against copying as many bytes, and its matrix product against the CPU's BLAS; each pair in turn, in one process (medians).
And how long kernels take to compile, the first time and from the disk.

    FTEST_PYTHON=$(./ftest env path torch==2.15.0 triton numpy)/bin/python ./ftest exec --profile a100 -- python benches/kernels.py

Prints; with `--check` it ends with 1 when a limit is exceeded."""

import argparse
import ctypes
import gc
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import compute
import torch
import triton
import triton.language as tl

#: Compiled step / eager step, add / copy, product / BLAS; milliseconds to compile a kernel, and to take it from the disk.
LIMITS = {"step": 2.0, "add": 3.0, "product": 10.0, "compile": 20.0, "cached": 1.0}


@triton.jit
def add(x, y, out, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def product(a, b, c, n, m: tl.constexpr, k: tl.constexpr):
    rows = tl.program_id(0) * m + tl.arange(0, m)
    columns = tl.program_id(1) * m + tl.arange(0, m)
    inner = tl.arange(0, k)
    total = tl.zeros((m, m), dtype=tl.float32)
    for start in range(0, n, k):
        left = tl.load(a + rows[:, None] * n + (start + inner)[None, :])
        right = tl.load(b + (start + inner)[:, None] * n + columns[None, :])
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + rows[:, None] * n + columns[None, :], total)


def seconds(call):
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def in_turn(rounds, one, other):
    """Median milliseconds of each, and of their ratio."""
    for warm in (one, other):
        warm(), warm()
    turns = [(seconds(one), seconds(other)) for _ in range(rounds)]
    return (*(1000 * statistics.median(column) for column in zip(*turns)), statistics.median(a / b for a, b in turns))


def steps(rounds):
    eager, compiled = compute.Step("cuda"), compute.Step("cuda")
    compiled.model.compile()
    for _ in range(3):
        first, second = eager(), compiled()
        assert abs(first - second) < 1e-3, (first, second)
    return in_turn(rounds, compiled, eager)


def adds(rounds, n=1 << 24):
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    out, copy = torch.empty_like(x), torch.empty_like(x)

    def kernel():
        add[(triton.cdiv(n, 1024),)](x, y, out, n, block=1024)

    # It reads two vectors and writes one, a copy reads one: as many bytes are one copy and a half.
    def copied():
        copy.copy_(x)
        copy[: n // 2].copy_(y[: n // 2])

    found = in_turn(rounds, kernel, copied)
    assert torch.equal(out, x + y)
    return found


def products(rounds, n=512):
    a, b = (torch.randn(n, n, device="cuda") for _ in range(2))
    c, (left, right) = torch.empty_like(a), (a.cpu(), b.cpu())
    found = in_turn(rounds, lambda: product[(n // 64, n // 64)](a, b, c, n, m=64, k=32), lambda: left @ right)
    torch.testing.assert_close(c.cpu(), left @ right, rtol=1e-4, atol=1e-3)
    return found


def loads(directory):
    """Milliseconds from a kernel's PTX to where it can be launched, of all that this bench compiled, in processes of their own:
    without anything on the disk, and with."""
    kernels = sorted(pathlib.Path(directory).rglob("*.ptx"))
    assert kernels, "Triton wrote no PTX"
    command = [sys.executable, __file__, "--load", *map(str, kernels)]
    with tempfile.TemporaryDirectory() as disk:
        environment = {**os.environ, "FTEST_KERNELS": disk}
        for _ in range(2):
            lines = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
            yield statistics.median(map(float, lines)), len(lines)


def load(paths):
    """Prints how long each takes."""
    torch.zeros(1, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")
    for path in paths:
        text = pathlib.Path(path).read_bytes() + b"\0"
        name = next(line.split(b"(")[0].split()[-1] for line in text.splitlines() if b".entry" in line)
        module, function, registers = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        start = time.perf_counter()
        for code in (
            driver.cuModuleLoadData(ctypes.byref(module), text),
            driver.cuModuleGetFunction(ctypes.byref(function), module, name),
            # CU_FUNC_ATTRIBUTE_NUM_REGS, which is known when it is compiled.
            driver.cuFuncGetAttribute(ctypes.byref(registers), 4, function),
        ):
            assert code == 0, (path, code)
        print(1000 * (time.perf_counter() - start))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--load", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        return load(options.load)
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    gc.disable()
    exceeded = []

    def show(name, text, value):
        print(f"{text}   (at most {LIMITS[name]:g})", flush=True)
        if value > LIMITS[name]:
            exceeded.append(name)

    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        print(f"PyTorch {torch.__version__}, Triton {triton.__version__}, {options.threads} thread(s), {options.rounds} rounds")
        for name, what, against, measure in (
            ("step", "training step, compiled", "eager", steps),
            ("add", "vector add, 64 MiB each", "copy of as many bytes", adds),
            ("product", "matrix product, 512 x 512 x 512", "BLAS", products),
        ):
            one, other, ratio = measure(options.rounds)
            show(name, f"{what}: {one:.2f} ms, {against} {other:.2f} ms, ratio {ratio:.2f}", ratio)
        (first, count), (again, _) = loads(cache)
        show("compile", f"to load one of {count} kernels: {first:.2f} ms", first)
        show("cached", f"from the disk: {again:.2f} ms", again)
    if options.check and exceeded:
        raise SystemExit(f"too slow: {', '.join(exceeded)}")


if __name__ == "__main__":
    main()
