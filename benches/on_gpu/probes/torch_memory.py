"""The statistics of PyTorch's allocator after each step of three programs: blocks by hand, a perceptron, a transformer."""

import json
import os
import subprocess
import sys

KINDS = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes", "allocation", "segment")
COUNTERS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free")
PROGRAMS = ("blocks", "perceptron", "transformer")
#: Seconds: importing PyTorch and its first kernels.
PATIENCE = 120


def record(machine):
    answers = {}
    for program in PROGRAMS:
        if machine.is_over():
            answers[program] = {"skipped": "the time was over"}
            continue
        answers.update(_run(program))
    return answers


def _run(program):
    """In a process of its own. It prints a line of JSON for each step."""
    command = [sys.executable, os.path.abspath(__file__), program]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return {program: {"ended": "no answer"}}
    found = {f"{program}: {name}": {"out": out} for name, out in map(json.loads, done.stdout.splitlines())}
    if done.returncode == SKIPPED:
        return {program: {"skipped": done.stderr.strip().splitlines()[-1]}}
    if done.returncode:
        found[program] = {"ended": f"exit {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}"}
    return found


SKIPPED = 75


def main(program):
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed", file=sys.stderr)
        return SKIPPED
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU", file=sys.stderr)
        return SKIPPED
    torch.manual_seed(0)

    def note(name):
        torch.cuda.synchronize()
        statistics = torch.cuda.memory_stats()
        out = {f"{kind}.{pool}.{what}": statistics[f"{kind}.{pool}.{what}"] for kind in KINDS
               for pool in ("all", "small_pool", "large_pool") for what in ("current", "peak", "allocated", "freed")}
        out.update({counter: statistics[counter] for counter in COUNTERS})
        print(json.dumps([name, out]), flush=True)

    {"blocks": blocks, "perceptron": perceptron, "transformer": transformer}[program](torch, note)
    return 0


def blocks(torch, note):
    """Sizes about the allocator's borders: 512 bytes, 1 MiB (small pool), 10 and 20 MiB (size of a segment)."""
    mib = 1 << 20
    sizes = (1, 512, 513, mib - 1, mib, mib + 1, 2 * mib, 10 * mib - 1, 10 * mib, 10 * mib + 1, 20 * mib, 100 * mib + 3)
    held = []
    for size in sizes:
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        note(f"holds {len(held)} blocks")
    del held[::2]
    note("every other block is freed")
    held += [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (3 * mib, 9 * mib, 700)]
    note("three more")
    torch.cuda.empty_cache()
    note("the cache is empty")
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        note("out of memory")
    held.clear()
    torch.cuda.empty_cache()
    note("everything is freed")


def perceptron(torch, note):
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10)).cuda()
    note("model")
    optimizer = torch.optim.Adam(model.parameters())
    inputs, targets = torch.randn(64, 1024, device="cuda"), torch.randint(10, (64,), device="cuda")
    for step in range(3):
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        note(f"step {step}: forward")
        loss.backward()
        note(f"step {step}: backward")
        optimizer.step()
        optimizer.zero_grad()
        note(f"step {step}: optimizer")


def transformer(torch, note):
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs = torch.randn(8, 128, 256, device="cuda")
    for step in range(2):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(inputs).float().square().mean()
        note(f"step {step}: forward")
        loss.backward()
        note(f"step {step}: backward")
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        note(f"step {step}: optimizer")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
