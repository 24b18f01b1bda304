"""How the programs here measure: the second step counts, after one that allocates."""

import time

import torch


def measure(step):
    """Runs `step` twice, and prints how long the second one took."""
    for _ in range(2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        took = time.perf_counter() - begin
    print(f"step: {took * 1e3:.2f} ms", flush=True)
