"""Compiles a model ahead of time for the OpenCL device, into a package that run_model.cpp opens.

    python export_model.py model.pt2
"""
import sys

import torch
from torch import nn


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
                         nn.Softmax(-1)).eval()


def main(path):
    model = make_model().to("ocl")
    images = torch.randn(2, 3, 16, 16, device="ocl")
    batch = torch.export.Dim("batch", min=1, max=64)
    with torch.no_grad():
        program = torch.export.export(model, (images,), dynamic_shapes=({0: batch},))
        torch._inductor.aoti_compile_and_package(program, package_path=path)


if __name__ == "__main__":
    main(sys.argv[1])
