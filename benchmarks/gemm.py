"""Matrix products against native PyTorch, interleaved in one run: medians, GF/s, native / ours (above 1 we are faster).

    python benchmarks/gemm.py [--rounds 15] [--json results.json]
"""
import torch

from common import Results, interleave, median_ms, parser

# m, k, n, and whether the second matrix is a transposed view (the weight of a linear layer)
SHAPES = [
    (512, 512, 512, False), (1024, 1024, 1024, False), (1024, 1024, 1024, True), (2048, 2048, 2048, False),
    (788, 768, 2304, True), (788, 768, 3072, True), (788, 3072, 768, True),    # ViT-B, batch 4
    (4, 2048, 1000, True),                                                     # the last layer of ResNet-50, batch 4
    (1, 1024, 1024, True), (1, 1024, 1024, False), (1024, 1024, 1, False),     # matrix times vector
    (8, 4096, 4096, True), (10000, 64, 10, True), (32, 10000, 32, False),      # skinny
    (64, 64, 64, False), (197, 64, 197, True),
]


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    options = arguments.parse_args()
    results = Results(options)
    torch.manual_seed(0)
    for m, k, n, turned in SHAPES:
        a = torch.randn(m, k)
        b = torch.randn(n, k).t() if turned else torch.randn(k, n)
        x, y = a.to(options.device), b.to(options.device)
        out, result = torch.empty(m, n), torch.empty(m, n, device=options.device)
        times = interleave({"native": (lambda: torch.mm(a, b, out=out), torch.device("cpu")),
                            "ours": (lambda: torch.mm(x, y, out=result), options.device)}, options.rounds)
        native, ours = median_ms(times["native"]), median_ms(times["ours"])
        work = 2e-6 * m * k * n
        results.add(f"{m:6d} x {k:5d} x {n:5d} {'NT' if turned else 'NN'}  native {native:8.3f} ms {work / native:6.1f} "
                    f"GF/s  ours {ours:8.3f} ms {work / ours:6.1f} GF/s  ratio {native / ours:5.2f}",
                    shape=[m, k, n], transposed=turned, seconds=times)
    results.save()


if __name__ == "__main__":
    main()
