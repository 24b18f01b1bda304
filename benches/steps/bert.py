"""Training steps of BERT-Large on one GPU, as in NVIDIA's DeepLearningExamples: masked words, for which alone the vocabulary is scored,
and the next sentence, attention written out. LAMB's extra norms are left out: AdamW."""

import argparse

import torch
from measure import measure
from torch.nn import functional as F
from transformers import BertConfig, BertForPreTraining

parser = argparse.ArgumentParser()
for name in ("length", "batch", "accumulate"):
    parser.add_argument(f"--{name}", type=int, required=True)
args = parser.parse_args()

config = BertConfig(
    vocab_size=30528, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, attn_implementation="eager"
)
model = BertForPreTraining(config).cuda()
optimizer = torch.optim.AdamW(model.parameters())
words = torch.zeros(args.batch, args.length, dtype=torch.long, device="cuda")
following = torch.zeros(args.batch, dtype=torch.long, device="cuda")
# The most masked words of a sequence: 20 of 128, 80 of 512.
masked = words[:, : args.length * 5 // 32]


def micro_step():
    with torch.autocast("cuda", torch.float16):
        hidden, pooled = model.bert(words, attention_mask=torch.ones_like(words), return_dict=False)
        scores, order = model.cls(hidden[:, : masked.shape[1]], pooled)
        loss = F.cross_entropy(scores.flatten(0, 1), masked.flatten()) + F.cross_entropy(order, following)
    (loss / args.accumulate).backward()


def step():
    for _ in range(args.accumulate):
        micro_step()
    optimizer.step()
    optimizer.zero_grad()


measure(step)
