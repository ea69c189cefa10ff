"""Attention against native PyTorch, interleaved in one run: medians, GF/s, native / ours (above 1 we are faster).

    python benchmarks/attention.py [--rounds 9] [--only 1024] [--dtype float32] [--json results.json]

Forward without gradients, then forward and backward. Causal products count half.
"""
import torch
import torch.nn.functional as F

from common import Results, interleave, median_ms, parser

# batch, query heads, key heads, length, size of a head, causal
SHAPES = [
    (8, 12, 12, 197, 64, False),     # ViT-B, batch 8
    (1, 12, 12, 512, 64, False),     # BERT
    (2, 16, 16, 1024, 64, True),     # GPT-2 medium
    (1, 16, 4, 2048, 128, True),     # grouped queries
    (32, 8, 8, 64, 32, False), (1, 8, 8, 1024, 256, False), (4, 12, 12, 128, 64, False),
]


def contender(shape, dtype, device):
    """Forward, and forward and backward, as functions without arguments."""
    batch, heads, kv_heads, length, size, causal = shape
    torch.manual_seed(0)
    q, k, v, gradient = (torch.randn(batch, length, h, size).transpose(1, 2).to(device, dtype)
                         for h in (heads, kv_heads, kv_heads, heads))
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]

    def attend(*inputs):
        return F.scaled_dot_product_attention(*inputs, is_causal=causal, enable_gqa=heads != kv_heads)

    return lambda: attend(q, k, v), lambda: torch.autograd.grad(attend(*leaves), leaves, gradient)


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--only", default="", help="shapes whose line contains this")
    arguments.add_argument("--dtype", default="float32", type=lambda name: getattr(torch, name))
    options = arguments.parse_args()
    results = Results(options)
    for shape in SHAPES:
        batch, heads, kv_heads, length, size, causal = shape
        name = f"{batch:2d} x {heads:2d} ({kv_heads:2d}) x {length:4d} x {size:3d}{' causal' if causal else '       '}"
        if options.only not in name:
            continue
        native, ours = (contender(shape, options.dtype, device) for device in ("cpu", options.device))
        for which, passes, products in ((0, "forward ", 2), (1, "training", 7)):
            work = products * 2e-6 * batch * heads * length * length * size / (2 if causal else 1)
            times = interleave({"native": (native[which], torch.device("cpu")), "ours": (ours[which], options.device)},
                               options.rounds, pause=0.01)
            before, after = median_ms(times["native"]), median_ms(times["ours"])
            results.add(f"{name}  {passes}  native {before:8.2f} ms {work / before:6.1f} GF/s  ours {after:8.2f} ms "
                        f"{work / after:6.1f} GF/s  ratio {before / after:5.2f}",
                        shape=shape, passes=passes.strip(), dtype=str(options.dtype), seconds=times)
    results.save()


if __name__ == "__main__":
    main()
