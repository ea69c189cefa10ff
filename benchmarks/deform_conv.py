"""Deformable convolution, forward and backward: the device against torchvision and against plain PyTorch on the CPU.

All contestants of one configuration run in turn in the same process; the best of the rounds is reported, in ms.
Configurations as published with DCNv2: s32 has 64 channels on 32 x 32, s64 has 256 channels on 64 x 64, -bB is the
batch; kernel 3, padding 1, with mask.

    python benchmarks/deform_conv.py [--device ocl:0] [--configurations s32-b1 s64-b4] [--rounds 5] [--plot chart.png]
"""
import argparse
import json
import time

import torch
from torchvision.ops import deform_conv2d

from torch_ocl.dcn_v2 import deform_conv2d_reference   # gathers corners with PyTorch's operators, then one product

CONFIGURATIONS = {"s32-b1": (1, 64, 32), "s32-b3": (3, 64, 32), "s32-b4": (4, 64, 32), "s32-b8": (8, 64, 32),
                  "s64-b1": (1, 256, 64), "s64-b4": (4, 256, 64), "s64-b7": (7, 256, 64)}


class Contestant:
    def __init__(self, name, function, device, tensors, grad):
        self.name, self.function, self.device = name, function, torch.device(device)
        self.leaves = [t.to(device).requires_grad_() for t in tensors]
        self.grad = grad.to(device)
        self.forward_ms, self.backward_ms = [], []

    def synchronize(self):
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()

    def run(self):
        for leaf in self.leaves:
            leaf.grad = None
        x, offset, weight, bias, mask = self.leaves
        self.synchronize()
        start = time.perf_counter()
        y = self.function(x, offset, weight, bias, padding=1, mask=mask)
        self.synchronize()
        middle = time.perf_counter()
        y.backward(self.grad)
        self.synchronize()
        self.forward_ms.append((middle - start) * 1e3)
        self.backward_ms.append((time.perf_counter() - middle) * 1e3)
        return y


def measure(name, device, rounds):
    n, c, size = CONFIGURATIONS[name]
    g = torch.Generator().manual_seed(0)
    tensors = [torch.randn(n, c, size, size, generator=g), torch.randn(n, 18, size, size, generator=g) * 2,
               torch.randn(c, c, 3, 3, generator=g) * 0.05, torch.randn(c, generator=g),
               torch.rand(n, 9, size, size, generator=g)]
    grad = torch.randn(n, c, size, size, generator=g)
    contestants = [Contestant("device", deform_conv2d, device, tensors, grad),
                   Contestant("torchvision", deform_conv2d, "cpu", tensors, grad),
                   Contestant("plain PyTorch", deform_conv2d_reference, "cpu", tensors, grad)]
    if torch.cuda.is_available():
        contestants.append(Contestant("torchvision CUDA", deform_conv2d, "cuda", tensors, grad))
    expected = None
    for contestant in contestants:   # warm up, and do they agree?
        y = contestant.run().detach().cpu()
        expected = y if expected is None else expected
        torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-3)
        contestant.forward_ms.clear(), contestant.backward_ms.clear()
    begin = time.time()
    for _ in range(rounds):
        for contestant in contestants:
            contestant.run()
        if time.time() - begin > 60:
            break
    row = {"configuration": name, "gflop": 2 * n * c * c * 9 * size * size / 1e9}
    for contestant in contestants:
        row[contestant.name] = (min(contestant.forward_ms), min(contestant.backward_ms))
    return row


def gemm_peak(device):
    """GFLOP/s of the device's own matrix product: the roof of every configuration."""
    a = torch.randn(1536, 1536, device=device)
    best = float("inf")
    for _ in range(5):
        a @ a
        getattr(torch, torch.device(device).type).synchronize() if torch.device(device).type != "cpu" else None
        start = time.perf_counter()
        a @ a
        getattr(torch, torch.device(device).type).synchronize() if torch.device(device).type != "cpu" else None
        best = min(best, time.perf_counter() - start)
    return 2 * 1536 ** 3 / best / 1e9


def plot(rows, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    names = [r["configuration"] for r in rows]
    contestants = [k for k in rows[0] if isinstance(rows[0][k], tuple)]
    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    for which, axis in enumerate(axes):
        for i, contestant in enumerate(contestants):
            axis.bar([j + (i - 1) * 0.8 / len(contestants) for j in range(len(rows))],
                     [r[contestant][which] for r in rows], 0.8 / len(contestants), label=contestant)
        axis.set_yscale("log")
        axis.set_xticks(range(len(rows)), names, rotation=30)
        axis.set_title(f"deform_conv2d {('forward', 'backward')[which]}, ms (logarithmic)")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--configurations", nargs="+", choices=list(CONFIGURATIONS), default=list(CONFIGURATIONS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the rows here")
    parser.add_argument("--plot", help="write a bar chart here")
    options = parser.parse_args()
    peak = gemm_peak(options.device)
    print(f"matrix product on {options.device}: {peak:.0f} GFLOP/s")
    rows = []
    for name in options.configurations:
        row = measure(name, options.device, options.rounds)
        rows.append(row)
        ours, theirs = row["device"], row["torchvision"]
        text = [f"{name:7}"]
        for i, what in enumerate(("forward", "backward")):
            text.append(f"{what} {ours[i]:8.2f} ms = torchvision / {theirs[i] / ours[i]:5.1f} = plain / "
                        f"{row['plain PyTorch'][i] / ours[i]:5.1f}, "
                        f"{row['gflop'] * (1 + i) / ours[i] * 1e3 / peak:4.0%} of the matrix product")
        print("   ".join(text), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"gemm_gflops": peak, "rows": rows}, file, indent=1)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
