"""What the compute bridge costs: each operator on small tensors on the CPU device and on the simulated GPU, in turn, in one
process (median of many rounds, in microseconds), and a training step of a small transformer on both.

    ./ftest exec --profile a100 -- python benches/compute.py

Prints; with `--check` it ends with 1 when the median overhead is above 10 us or the step ratio above 1.25."""

import argparse
import gc
import statistics
import time
import warnings

import torch
from torch import nn
from torch.nn import functional as F

OVERHEAD_US, STEP_RATIO = 10.0, 1.25


def operators(at):
    """Name to a call on tensors that lie on `at`."""
    torch.manual_seed(0)
    a, b, c = (torch.randn(16, 16).to(at) for _ in range(3))
    rows, image, kernel = torch.randint(16, (16,)).to(at), torch.randn(1, 4, 8, 8).to(at), torch.randn(4, 4, 3, 3).to(at)
    weight, bias, out = torch.randn(16, 16).to(at), torch.randn(16).to(at), torch.empty(16, 16).to(at)
    mask, half = (torch.rand(16, 16) > 0.5).to(at), a.half()
    lists = [torch.randn(16, 16).to(at) for _ in range(8)]
    q = torch.randn(1, 2, 8, 8).to(at)
    return {
        "add": lambda: a + b,
        "add_": lambda: out.add_(b),
        "add, out=": lambda: torch.add(a, b, out=out),
        "mul by a number": lambda: a * 2.0,
        "relu": lambda: a.relu(),
        "exp": lambda: a.exp(),
        "gelu": lambda: F.gelu(a),
        "mm": lambda: a @ b,
        "addmm (linear)": lambda: F.linear(a, weight, bias),
        "bmm": lambda: torch.bmm(q[0], q[0]),
        "sum": lambda: a.sum(),
        "softmax": lambda: a.softmax(-1),
        "layer_norm": lambda: F.layer_norm(a, (16,), bias, bias),
        "conv2d": lambda: F.conv2d(image, kernel, padding=1),
        "attention": lambda: F.scaled_dot_product_attention(q, q, q),
        "embedding": lambda: F.embedding(rows, weight),
        "cross_entropy": lambda: F.cross_entropy(a, rows),
        "cat": lambda: torch.cat((a, b, c)),
        "where": lambda: torch.where(mask, a, b),
        "index_select": lambda: a.index_select(0, rows),
        "copy to half": lambda: a.half(),
        "zeros_like": lambda: torch.zeros_like(a),
        "view": lambda: a.view(8, 32),
        "transpose, contiguous": lambda: a.t().contiguous(),
        "half add": lambda: half + half,
        "_foreach_add_ of 8": lambda: torch._foreach_add_(lists, 0.5),
        "item": lambda: bias[0].item(),
    }


def per_call(call, calls):
    start = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - start) / calls / 1000


def overheads(rounds, calls):
    """(operator, us on the CPU device, us on the GPU), medians of rounds that take turns."""
    cpu, gpu = operators("cpu"), operators("cuda")
    for name in cpu:
        per_call(cpu[name], calls), per_call(gpu[name], calls)
        turns = [(per_call(cpu[name], calls), per_call(gpu[name], calls)) for _ in range(rounds)]
        yield name, statistics.median(turn[0] for turn in turns), statistics.median(turn[1] for turn in turns)


class Step:
    """A training step: 4 layers of width 128, 8 sequences of 64 tokens, cross entropy, AdamW."""

    def __init__(self, at):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
        encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.model = nn.Sequential(nn.Embedding(256, 128), encoder, nn.Linear(128, 256)).to(at)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.tokens = torch.randint(256, (8, 65)).to(at)

    def __call__(self):
        self.optimizer.zero_grad()
        logits = self.model(self.tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=100, help="of an operator in a round")
    parser.add_argument("--steps", type=int, default=20, help="training steps on each device")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    gc.disable()

    print(f"PyTorch {torch.__version__}, {options.threads} thread(s); us per call, medians of {options.rounds} rounds in turn")
    print(f"{'operator':<24}{'cpu':>9}{'cuda':>9}{'overhead':>10}")
    found = []
    for name, cpu, gpu in overheads(options.rounds, options.calls):
        found.append(gpu - cpu)
        print(f"{name:<24}{cpu:>9.2f}{gpu:>9.2f}{gpu - cpu:>10.2f}", flush=True)
    overhead = statistics.median(found)
    print(f"{'median':<24}{'':>18}{overhead:>10.2f}   (at most {OVERHEAD_US:g})")
    print()

    cpu, gpu = Step("cpu"), Step("cuda")
    losses = [(cpu(), gpu()) for _ in range(3)]
    turns = [(per_call(cpu, 1) / 1000, per_call(gpu, 1) / 1000) for _ in range(options.steps)]
    here, there = (statistics.median(turn[index] for turn in turns) for index in (0, 1))
    print(
        f"training step: cpu {here:.2f} ms, cuda {there:.2f} ms, ratio {there / here:.3f}   (at most {STEP_RATIO:g}); "
        f"loss {losses[-1][1]:.6f}, cpu {losses[-1][0]:.6f}"
    )
    if options.check and (overhead > OVERHEAD_US or there / here > STEP_RATIO):
        raise SystemExit("too slow")


if __name__ == "__main__":
    main()
