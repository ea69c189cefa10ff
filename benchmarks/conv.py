"""Convolution layers of ResNet-18, ResNet-50 and MobileNetV2 against native PyTorch, interleaved in one run.

    python benchmarks/conv.py [resnet18|resnet50|mobilenet] [--batch 4] [--layout contiguous|channels_last]
                              [--passes forward,data,weight] [--rounds 5]

Every round times each layer once natively and once on the device, so that both see the same machine; the best round
counts. ratio = native / ours: above 1 we are faster.
"""
import argparse
import time

import torch

# name: (input channels, output channels, input size, kernel, stride, groups) and how often the network has it
RESNET18 = [
    (3, 64, 224, 7, 2, 1, 1), (64, 64, 56, 3, 1, 1, 4), (64, 128, 56, 3, 2, 1, 1), (64, 128, 56, 1, 2, 1, 1),
    (128, 128, 28, 3, 1, 1, 3), (128, 256, 28, 3, 2, 1, 1), (128, 256, 28, 1, 2, 1, 1), (256, 256, 14, 3, 1, 1, 3),
    (256, 512, 14, 3, 2, 1, 1), (256, 512, 14, 1, 2, 1, 1), (512, 512, 7, 3, 1, 1, 3),
]
RESNET50 = [
    (64, 64, 56, 1, 1, 1, 1), (64, 256, 56, 1, 1, 1, 4), (256, 64, 56, 1, 1, 1, 2), (256, 128, 56, 1, 1, 1, 1),
    (128, 128, 56, 3, 2, 1, 1), (256, 512, 56, 1, 2, 1, 1), (128, 512, 28, 1, 1, 1, 4), (512, 128, 28, 1, 1, 1, 3),
    (512, 256, 28, 1, 1, 1, 1), (256, 1024, 14, 1, 1, 1, 6), (1024, 256, 14, 1, 1, 1, 5), (1024, 512, 14, 1, 1, 1, 1),
    (512, 2048, 7, 1, 1, 1, 3), (2048, 512, 7, 1, 1, 1, 2), (1024, 2048, 14, 1, 2, 1, 1),
]
MOBILENET = [
    (3, 32, 224, 3, 2, 1, 1), (32, 32, 112, 3, 1, 32, 1), (32, 16, 112, 1, 1, 1, 1), (96, 96, 112, 3, 2, 96, 1),
    (144, 144, 56, 3, 1, 144, 1), (144, 24, 56, 1, 1, 1, 1), (192, 192, 28, 3, 1, 192, 2), (32, 192, 28, 1, 1, 1, 3),
    (384, 384, 14, 3, 1, 384, 4), (64, 384, 14, 1, 1, 1, 4), (576, 576, 14, 3, 2, 576, 1), (960, 960, 7, 3, 1, 960, 3),
    (160, 960, 7, 1, 1, 1, 3), (960, 160, 7, 1, 1, 1, 2), (320, 1280, 7, 1, 1, 1, 1),
]
NETWORKS = {"resnet18": RESNET18, "resnet50": RESNET50, "mobilenet": MOBILENET}


def passes(x, w, stride, pad, groups):
    """The three passes of one layer as functions without arguments."""
    options = ([stride] * 2, [pad] * 2, [1, 1], False, [0, 0], groups)
    dy = torch.ops.aten.convolution(x, w, None, *options)
    backward = torch.ops.aten.convolution_backward
    return {
        "forward": lambda: torch.ops.aten.convolution(x, w, None, *options),
        "data": lambda: backward(dy, x, w, None, *options, [True, False, False]),
        "weight": lambda: backward(dy, x, w, None, *options, [False, True, False]),
    }


def measure(function, synchronize, repeat, clock):
    start = clock()
    for _ in range(repeat):
        function()
    synchronize()
    return (clock() - start) / repeat * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", default="resnet18", choices=sorted(NETWORKS))
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--layout", default="contiguous", choices=["contiguous", "channels_last"])
    parser.add_argument("--passes", default="forward,data,weight")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--layers", default="", help="comma-separated positions in the table, all if empty")
    parser.add_argument("--cpu-time", action="store_true", help="count the process's processor time on one core: "
                        "comparable on a busy machine (run under `taskset -c 0`)")
    arguments = parser.parse_args()
    clock = time.perf_counter
    if arguments.cpu_time:
        torch.set_num_threads(1)
        clock = time.process_time
    layout = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}[arguments.layout]
    layers = NETWORKS[arguments.network]
    if arguments.layers:
        layers = [layers[int(i)] for i in arguments.layers.split(",")]
    totals = {name: [0.0, 0.0] for name in arguments.passes.split(",")}
    print(f"{'layer':34s} {'pass':8s} {'native ms':>10s} {'ours ms':>9s} {'GF/s':>6s} {'ratio':>6s}")
    torch.manual_seed(0)
    for cin, cout, size, kernel, stride, groups, count in layers:
        x = torch.randn(arguments.batch, cin, size, size).to(memory_format=layout)
        w = (torch.randn(cout, cin // groups, kernel, kernel) * 0.05).to(memory_format=layout)
        native = passes(x, w, stride, kernel // 2, groups)
        ours = passes(x.to(arguments.device), w.to(arguments.device), stride, kernel // 2, groups)
        out = (size + 2 * (kernel // 2) - kernel) // stride + 1
        flops = 2 * arguments.batch * cout * out * out * cin // groups * kernel * kernel
        for name in totals:
            best = [float("inf")] * 2
            repeat = 1 + int(2e8 // flops)
            for _ in range(arguments.rounds):
                best[0] = min(best[0], measure(native[name], lambda: None, repeat, clock))
                best[1] = min(best[1], measure(ours[name], torch.ocl.synchronize, repeat, clock))
            totals[name][0] += best[0] * count
            totals[name][1] += best[1] * count
            print(f"{cin:4d}x{size:3d} -> {cout:4d} k{kernel} s{stride} g{groups:<4d} x{count}    {name:8s}"
                  f" {best[0]:10.3f} {best[1]:9.3f} {flops / best[1] / 1e6:6.0f} {best[0] / best[1]:6.2f}", flush=True)
    for name, (theirs, mine) in totals.items():
        print(f"all layers of the network, {name}: native {theirs:.1f} ms, ours {mine:.1f} ms, ratio {theirs / mine:.2f}")


if __name__ == "__main__":
    main()
