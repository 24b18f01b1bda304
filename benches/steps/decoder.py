"""Training steps of a decoder under FSDP, as in LLM Foundry's benchmark of MPT: bfloat16, FlashAttention, AdamW, a clipped norm."""

import argparse

import torch
import torch.distributed as dist
from measure import measure
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.before, self.between = nn.LayerNorm(hidden, bias=False), nn.LayerNorm(hidden, bias=False)
        self.attention = Attention(hidden, heads)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden, bias=False), nn.GELU(), nn.Linear(4 * hidden, hidden, bias=False))

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.between(x))


class Decoder(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.words, self.places = nn.Embedding(args.vocab, args.hidden), nn.Embedding(args.length, args.hidden)
        self.blocks = nn.ModuleList(Block(args.hidden, args.heads) for _ in range(args.layers))
        self.last = nn.LayerNorm(args.hidden, bias=False)
        self.call = (lambda block, x: checkpoint(block, x, use_reentrant=False)) if args.checkpointing else lambda block, x: block(x)

    def forward(self, words):
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        for block in self.blocks:
            x = self.call(block, x)
        return F.linear(self.last(x), self.words.weight)


parser = argparse.ArgumentParser()
for name in ("layers", "hidden", "heads", "vocab", "length", "batch", "accumulate"):
    parser.add_argument(f"--{name}", type=int, required=True)
parser.add_argument("--checkpointing", action="store_true", help="compute each block's forward pass again in the backward pass")
parser.add_argument("--reduce-in-bf16", action="store_true", help="reduce gradients in bfloat16 instead of float32")
parser.add_argument("--keep-parameters", action="store_true", help="shard gradients and optimizer state only")
args = parser.parse_args()

dist.init_process_group("nccl")
device = dist.get_rank() % torch.cuda.device_count()
torch.cuda.set_device(device)
with torch.device("meta"):
    model = Decoder(args)
low = torch.bfloat16
model = FullyShardedDataParallel(
    model,
    auto_wrap_policy=ModuleWrapPolicy({Block}),
    device_id=device,
    sharding_strategy=ShardingStrategy.SHARD_GRAD_OP if args.keep_parameters else ShardingStrategy.FULL_SHARD,
    mixed_precision=MixedPrecision(low, low if args.reduce_in_bf16 else torch.float32, low),
    use_orig_params=True,
    param_init_fn=lambda module: module.to_empty(device=device, recurse=False),
)
optimizer = torch.optim.AdamW(model.parameters())
words = torch.randint(args.vocab, (args.batch, args.length + 1)).cuda()


def step():
    for _ in range(args.accumulate):
        loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        (loss / args.accumulate).backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()


with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    measure(step)
