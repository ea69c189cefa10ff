#!/usr/bin/env python3
"""Computes something with the installed wheels, in whichever environment runs this file (tools/wheels.py starts it; it
needs nothing of this repository): arrays and an ONNX model with clprim, forward and backward with torch_ocl.

    wheels_smoke.py [clprim] [torch_ocl]        default: both
"""
import sys

import numpy as np


def field(number, value):
    """One field of a protobuf message: a whole number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def port(name, shape):
    dims = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def convolution_model(x, weight):
    """Relu(Conv(x, weight)) in ONNX's format, written by hand: the package onnx need not be there."""
    convolution = field(1, "x") + field(1, "weight") + field(2, "c") + field(4, "Conv")
    relu = field(1, "c") + field(2, "y") + field(4, "Relu")
    constant = (b"".join(field(1, size) for size in weight.shape) + field(2, 1) + field(8, "weight")
                + field(9, weight.tobytes()))
    result = (x.shape[0], weight.shape[0], x.shape[2] - 2, x.shape[3] - 2)
    graph = (field(1, convolution) + field(1, relu) + field(2, "smoke") + field(5, constant)
             + field(11, port("x", x.shape)) + field(12, port("y", result)))
    return field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph)


def installed_here(module):
    assert module.__file__.startswith(sys.prefix), f"{module.__file__} is not of the environment {sys.prefix}"


def try_clprim():
    import clprim

    installed_here(clprim)
    random = np.random.default_rng(0)
    a = random.standard_normal((50, 60)).astype("f")
    product = clprim.matmul(clprim.Tensor(a), clprim.Tensor(a.T.copy())).numpy()
    np.testing.assert_allclose(product, a @ a.T, rtol=1e-4, atol=1e-4)

    x, weight = random.standard_normal((2, 3, 16, 18)).astype("f"), random.standard_normal((4, 3, 3, 3)).astype("f")
    y = clprim.Session(convolution_model(x, weight)).run({"x": x})["y"]
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("d"), (3, 3), (2, 3))
    expected = np.maximum(np.einsum("nchwij,ocij->nohw", windows, weight.astype("d")), 0)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    print("clprim", clprim.__version__, "on", clprim.devices()[0].name, "with Python", sys.version.split()[0])


def try_torch_ocl():
    import torch
    import torch_ocl

    installed_here(torch_ocl)
    if not torch.ocl.is_available():
        sys.exit(torch.ocl.unavailable_reason())
    torch.ocl.set_fallback_policy("error")
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                                 torch.nn.Linear(4 * 14 * 14, 5))
    x, labels = torch.randn(8, 3, 16, 16), torch.arange(8) % 5

    def step(device):
        layers.to(device).zero_grad()
        loss = torch.nn.functional.cross_entropy(layers(x.to(device)), labels.to(device))
        loss.backward()
        return [loss.detach().cpu(), *(p.grad.cpu() for p in layers.parameters())]

    torch.testing.assert_close(step("ocl:0"), step("cpu"), rtol=1e-4, atol=1e-5)
    print("torch_ocl", torch_ocl.__version__, "on", torch.ocl.get_device_name(0), "with PyTorch", torch.__version__)


PARTS = {"clprim": try_clprim, "torch_ocl": try_torch_ocl}

if __name__ == "__main__":
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()
