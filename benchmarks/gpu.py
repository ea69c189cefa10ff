"""A GPU through OpenCL beside the same GPU through the vendor's own device of PyTorch.

    python benchmarks/gpu.py [--beside cuda:0] [--only REGEX] [--json FILE]

Each side is a process of its own (PyTorch has one accelerator in a process), and they take turns with every case: one
warms up and measures while the other waits. Times are medians of several rounds of calls back to back, which end with
one wait for the device, so that launches overlap with work as they do in a model. float32 is IEEE's on both sides.
"""
import argparse
import json
import multiprocessing
import os
import re
import statistics
import time
from pathlib import Path

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"   # here and in the other side's process

import torch
import torch.nn.functional as F

import common

FLOATS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LARGE = 1 << 26


def normal(device, *shape, dtype="fp32", last=False, grad=False):
    x = torch.randn(*shape, device=device).to(FLOATS[dtype])
    return (x.contiguous(memory_format=torch.channels_last) if last else x).requires_grad_(grad)


def places(device, count, below):
    return torch.randint(0, below, (count,), device=device)


# ---- cases: name, work in GB or TFLOP of one call, unit, function of a device that gives the call ----

CASES = {}


def case(name, work, unit, make):
    CASES[name] = (work, unit, make)


def normals(name, work, unit, function, *shapes, dtype="fp32"):
    def make(device):
        tensors = [normal(device, *shape, dtype=dtype) for shape in shapes]
        return lambda: function(*tensors)

    case(name, work, unit, make)


def streams(name, gigabytes, function, *shapes, dtype="fp32"):
    normals(name, gigabytes, "GB/s", function, *shapes, dtype=dtype)


def products(name, teraflops, function, *shapes, dtype="fp32"):
    normals(name, teraflops, "TFLOP/s", function, *shapes, dtype=dtype)


def gradient(outputs, inputs, weight):
    return torch.autograd.grad(outputs, inputs, weight)


def add_streams():
    case("add of 16 elements (a launch)", 0, "", lambda d: (lambda x: lambda: x + x)(normal(d, 16)))
    for dtype, size in (("fp32", 4), ("fp16", 2)):
        large, rows = size * LARGE / 1e9, size * 8192 * 4096 / 1e9
        streams(f"add, 64 M {dtype}", 3 * large, torch.add, (LARGE,), (LARGE,), dtype=dtype)
        streams(f"gelu, 64 M {dtype}", 2 * large, F.gelu, (LARGE,), dtype=dtype)
        streams(f"sum, 64 M {dtype}", large, torch.sum, (LARGE,), dtype=dtype)
        streams(f"softmax, 8192 x 4096 {dtype}", 2 * rows, lambda x: x.softmax(1), (8192, 4096), dtype=dtype)
        streams(f"layer_norm, 8192 x 4096 {dtype}", 2 * rows, lambda x, w, b: F.layer_norm(x, (4096,), w, b),
                (8192, 4096), (4096,), (4096,), dtype=dtype)
        streams(f"transposed copy, 8192 x 8192 {dtype}", 2 * large, lambda x: x.t().contiguous(), (8192, 8192),
                dtype=dtype)
    activations = 4 * 64 * 256 * 56 * 56 / 1e9
    streams("sum of channels, 64x256x56x56", activations, lambda x: x.sum((0, 2, 3)), (64, 256, 56, 56))
    streams("batch_norm, 64x256x56x56", 3 * activations, lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
            (64, 256, 56, 56), (256,), (256,))
    streams("max_pool2d, 64x64x112x112", 1.25 * activations, lambda x: F.max_pool2d(x, 3, 2, 1), (64, 64, 112, 112))
    streams("cumsum, 4096 x 4096", 8 * 4096**2 / 1e9, lambda x: x.cumsum(1), (4096, 4096))
    streams("argmax, 8192 x 4096", 4 * 8192 * 4096 / 1e9, lambda x: x.argmax(1), (8192, 4096))
    streams("sort, 1 M", 12 * 2**20 / 1e9, torch.sort, (1 << 20,))
    streams("topk, 5 of 4096 x 1000", 4 * 4096 * 1000 / 1e9, lambda x: x.topk(5), (4096, 1000))
    streams("interpolate, 32x64x64x64 twice as large", 5 * 4 * 32 * 64**3 / 1e9,
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (32, 64, 64, 64))
    rows = 4 * 64 * 1e6 / 1e9
    case("rows by index, 1 M of 64", 2 * rows, "GB/s",
         lambda d: (lambda x, i: lambda: x[i])(normal(d, 1000000, 64), places(d, 1000000, 1000000)))
    case("index_add, 1 M rows of 64", 3 * rows, "GB/s", lambda d: (lambda x, i, y: lambda: x.index_add(0, i, y))(
        normal(d, 100000, 64), places(d, 1000000, 100000), normal(d, 1000000, 64)))


def add_products():
    sizes = [(4096, 4096, 4096), (2048, 512, 1024), (1, 4096, 4096), (8, 4096, 4096), (128, 4096, 4096),
             (1001, 1003, 999)]
    for dtype in FLOATS:
        for m, n, k in sizes[:2] if dtype == "bf16" else sizes:
            products(f"mm, {m} x {n} x {k} {dtype}", 2 * m * n * k / 1e12, torch.mm, (m, k), (k, n), dtype=dtype)
        products(f"linear, 4096 x 1024 to 4096 {dtype}", 2 * 4096 * 1024 * 4096 / 1e12, F.linear, (4096, 1024),
                     (4096, 1024), (4096,), dtype=dtype)
        products(f"bmm, 64 of 512x64x512 {dtype}", 2 * 64 * 512 * 512 * 64 / 1e12, torch.bmm, (64, 512, 64),
                (64, 64, 512), dtype=dtype)


def convolution(name, shape, weight, dtype, last=False, back=False, **options):
    def make(device):
        x = normal(device, *shape, dtype=dtype, last=last, grad=back)
        w = normal(device, *weight, dtype=dtype, last=last, grad=back)
        if not back:
            return lambda: F.conv2d(x, w, **options)
        seed = torch.randn_like(F.conv2d(x, w, **options))
        return lambda: gradient(F.conv2d(x, w, **options), (x, w), seed)

    pixels = shape[0] * (shape[2] // options.get("stride", 1)) ** 2
    taps = weight[0] * weight[1] * weight[2] * weight[3]
    case(f"{name} {dtype}{' NHWC' if last else ''}", (6 if back else 2) * pixels * taps / 1e12, "TFLOP/s", make)


def add_convolutions():
    for dtype in ("fp32", "fp16"):
        for last in (False, True):
            for channels, side in ((64, 56), (512, 14)):
                convolution(f"conv 3x3, {channels} at {side}", (32, channels, side, side), (channels, channels, 3, 3),
                            dtype, last, padding=1)
            convolution("conv 1x1, 256 to 64 at 56", (32, 256, 56, 56), (64, 256, 1, 1), dtype, last)
            convolution("conv 3x3 and gradients, 128 at 28", (32, 128, 28, 28), (128, 128, 3, 3), dtype, last, True,
                        padding=1)
        convolution("conv 7x7, 3 to 64 at 224", (32, 3, 224, 224), (64, 3, 7, 7), dtype, padding=3, stride=2)
        convolution("depthwise 3x3, 256 at 56", (32, 256, 56, 56), (256, 1, 3, 3), dtype, padding=1, groups=256)


def add_attention():
    flops = 4 * 256 * 1024**2 * 64 / 1e12

    def trained(device, dtype):
        q, k, v = (normal(device, 16, 16, 1024, 64, dtype=dtype, grad=True) for _ in range(3))
        seed = normal(device, 16, 16, 1024, 64, dtype=dtype)
        return lambda: gradient(F.scaled_dot_product_attention(q, k, v), (q, k, v), seed)

    for dtype in ("fp32", "fp16"):
        products(f"attention, 16x16x1024x64 {dtype}", flops, F.scaled_dot_product_attention,
                 *[(16, 16, 1024, 64)] * 3, dtype=dtype)
        case(f"attention and gradients, 16x16x1024x64 {dtype}", 3.5 * flops, "TFLOP/s",
             lambda d, dtype=dtype: trained(d, dtype))
    streams("attention of one query, 8x32x4096x128 fp16", 4 * 8 * 32 * 4096 * 128 / 1e9,
            F.scaled_dot_product_attention, (8, 32, 1, 128), (8, 32, 4096, 128), (8, 32, 4096, 128), dtype="fp16")


def add_deformable():
    def operands(device, grad):
        return [normal(device, *shape, grad=grad)
                for shape in ((4, 64, 64, 64), (4, 18, 64, 64), (64, 64, 3, 3), (4, 9, 64, 64))]

    def call(x, offset, weight, mask):
        from torchvision.ops import deform_conv2d
        return deform_conv2d(x, offset, weight, None, padding=1, mask=mask)

    def trained(device):
        inputs, seed = operands(device, True), normal(device, 4, 64, 64, 64)
        return lambda: gradient(call(*inputs), inputs, seed)

    flops = 2 * 4 * 64**4 * 9 / 1e12
    case("deform_conv2d, 64 at 64", flops, "TFLOP/s", lambda d: (lambda x: lambda: call(*x))(operands(d, False)))
    case("deform_conv2d and gradients, 64 at 64", 3 * flops, "TFLOP/s", trained)


def network(name, device, batch, dtype, last, train):
    import torchvision
    net = getattr(torchvision.models, name)().to(device)
    x = torch.randn(batch, 3, 224, 224, device=device)
    if last:
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if not train:
        net, x = net.eval().to(FLOATS[dtype]), x.to(FLOATS[dtype])
        return torch.no_grad()(lambda: net(x))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    wanted = places(device, batch, 1000)

    def step():
        optimizer.zero_grad()
        with torch.autocast(torch.device(device).type, dtype=FLOATS[dtype], enabled=dtype != "fp32"):
            loss = F.cross_entropy(net(x), wanted)
        loss.backward()
        optimizer.step()

    return step


def add_networks():
    for name, batch, dtype, last, train in (
            ("resnet50", 32, "fp32", False, False), ("resnet50", 32, "fp16", False, False),
            ("resnet50", 32, "fp16", True, False), ("resnet50", 1, "fp32", False, False),
            ("resnet50", 32, "fp32", False, True), ("resnet50", 32, "fp16", False, True),
            ("vit_b_16", 32, "fp16", False, False), ("vit_b_16", 32, "fp16", False, True),
            ("mobilenet_v3_large", 32, "fp32", False, False), ("mobilenet_v3_large", 32, "fp32", False, True)):
        title = f"{name}, {batch} images, {'training' if train else 'inference'} {dtype}{' NHWC' if last else ''}"
        case(title, 0, "", lambda d, options=(batch, dtype, last, train), name=name: network(name, d, *options))


for add in (add_streams, add_products, add_convolutions, add_attention, add_deformable, add_networks):
    add()


# ---- measuring ----

def serve(device, pipe):
    """Measures the cases that come, in seconds of a call for each round; an error's text where one does not run."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if device.startswith("ocl"):
        import torch_ocl  # noqa: F401
    for name in iter(pipe.recv, None):
        try:
            pipe.send(rounds(CASES[name][2](device), torch.device(device)))
        except Exception as error:   # whatever it is, the other cases follow
            pipe.send(str(error).split("\n")[0])
        if device != "cpu":
            torch.get_device_module(device).empty_cache()


def rounds(call, device, count=5):
    for _ in range(3):
        call()
    once = common.timed(call, device)
    calls = max(1, min(200, int(0.04 / once)))
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        common.synchronize(device)
        seconds.append((time.perf_counter() - start) / calls)
    return seconds


def rate(work, unit, seconds):
    return f"{statistics.median(seconds) * 1e6:10.1f} us" + (f" {work / statistics.median(seconds):8.1f} {unit}" if unit
                                                             else " " * 17)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl:0", help="this side's device (default: ocl:0)")
    parser.add_argument("--beside", default="cuda:0", help="the other side's device (default: cuda:0)")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose names have this")
    parser.add_argument("--json", metavar="FILE", help="also write every single measurement there")
    options = parser.parse_args()
    devices = [options.device, options.beside]
    context, pipes = multiprocessing.get_context("spawn"), []
    for device in devices:
        here, there = context.Pipe()
        context.Process(target=serve, args=(device, there), daemon=True).start()
        pipes.append(here)
    rows = []
    for name in filter(re.compile(options.only).search, CASES):
        found = []
        for pipe in pipes:
            pipe.send(name)
            found.append(pipe.recv())
        work, unit, _ = CASES[name]
        texts = [one if isinstance(one, str) else rate(work, unit, one) for one in found]
        ratio = "" if str in map(type, found) else f"{statistics.median(found[1]) / statistics.median(found[0]):6.2f}"
        print(f"{name:52} {texts[0]}  {devices[1]} {texts[1]} {ratio}", flush=True)
        rows.append({"case": name, **dict(zip(devices, found))})
    for pipe in pipes:
        pipe.send(None)
    if options.json:
        Path(options.json).write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
