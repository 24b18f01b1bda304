"""Trains a small model with DDP. Nothing here knows about ftest."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def validate():
    time.sleep(600)  # A large validation set.


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--validate-on", type=int, help="this rank validates after step 2, and the others do not wait for it")
arguments = parser.parse_args()

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(16, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1, arguments.steps + 1):
    batch = torch.full((8, 16), float(dist.get_rank() + 1), device="cuda")
    loss = model(batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss={loss.item():.4f}", flush=True)
    if step == 2 and dist.get_rank() == arguments.validate_on:
        validate()
torch.cuda.synchronize()
dist.destroy_process_group()
