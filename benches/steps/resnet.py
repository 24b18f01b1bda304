"""Training steps of torchvision's ResNet-50 on one GPU, images of 224 x 224, as in NVIDIA's DeepLearningExamples: mixed precision with
channels last, or TF32."""

import argparse

import torch
import torchvision
from measure import measure
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--amp", action="store_true", help="float16 and channels last")
args = parser.parse_args()

torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
layout = torch.channels_last if args.amp else torch.contiguous_format
model = torchvision.models.resnet50().cuda().to(memory_format=layout)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.875, weight_decay=3e-5)
images = torch.empty(args.batch, 3, 224, 224, device="cuda").to(memory_format=layout)
labels = torch.zeros(args.batch, dtype=torch.long, device="cuda")


def step():
    with torch.autocast("cuda", torch.float16, enabled=args.amp):
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


measure(step)
