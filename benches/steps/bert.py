"""Training steps of BERT-Large under DDP, as in NVIDIA's DeepLearningExamples: masked words and the next sentence, attention written
out. LAMB's extra norms are left out: AdamW."""

import argparse

import torch
import torch.distributed as dist
from measure import measure
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForPreTraining

parser = argparse.ArgumentParser()
for name in ("length", "batch", "accumulate"):
    parser.add_argument(f"--{name}", type=int, required=True)
args = parser.parse_args()

dist.init_process_group("nccl")
device = dist.get_rank() % torch.cuda.device_count()
torch.cuda.set_device(device)
config = BertConfig(
    vocab_size=30528, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, attn_implementation="eager"
)
model = DistributedDataParallel(BertForPreTraining(config).cuda(), device_ids=[device])
optimizer = torch.optim.AdamW(model.parameters())
words = torch.zeros(args.batch, args.length, dtype=torch.long, device="cuda")
mask, kinds = torch.ones_like(words), torch.zeros_like(words)
following = torch.zeros(args.batch, dtype=torch.long, device="cuda")


def micro_step():
    with torch.autocast("cuda", torch.float16):
        output = model(words, attention_mask=mask, token_type_ids=kinds, labels=words, next_sentence_label=following)
    (output.loss / args.accumulate).backward()


def step():
    with model.no_sync():
        for _ in range(args.accumulate - 1):
            micro_step()
    micro_step()
    optimizer.step()
    optimizer.zero_grad()


measure(step)
