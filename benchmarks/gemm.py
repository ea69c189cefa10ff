"""Matrix products against native PyTorch, interleaved in one run: medians, GF/s, native / ours (above 1 we are faster).

    python benchmarks/gemm.py [--rounds 15] [--only 1024] [--dtype bfloat16] [--json results.json]

Short products are enqueued several at a time, as a network does; --single measures one at a time, with the launch and
the wait for it. Of shorter dtypes than float32 our own float32 is measured, too.
"""
import torch

from common import Results, interleave, median_ms, parser

# batch, m, k, n, and how A and B lie in memory: N as written, T as a transposed view (the weight of a linear layer)
SHAPES = [
    (1, 384, 384, 384, "NN"), (1, 512, 512, 512, "NN"), (1, 512, 512, 512, "TT"), (1, 1024, 1024, 1024, "NN"),
    (1, 1024, 1024, 1024, "NT"), (1, 1024, 1024, 1024, "TN"), (1, 2048, 2048, 2048, "NN"),
    (1, 4096, 4096, 4096, "NN"),
    (1, 788, 768, 2304, "NT"), (1, 788, 768, 3072, "NT"), (1, 788, 3072, 768, "NT"),     # ViT-B, batch 4
    (1, 128, 768, 768, "NT"), (1, 128, 768, 3072, "NT"), (1, 128, 3072, 768, "NT"),      # BERT, one sentence
    (48, 197, 64, 197, "NT"), (48, 197, 197, 64, "NN"),                                  # attention of ViT-B, batch 4
    (96, 50, 64, 50, "NT"), (96, 50, 50, 64, "NN"), (16, 512, 64, 512, "NT"), (16, 512, 512, 64, "NN"),
    (1, 4, 2048, 1000, "NT"),                                                # the last layer of ResNet-50, batch 4
    (1, 1, 1024, 1024, "NT"), (1, 1, 1024, 1024, "NN"), (1, 1024, 1024, 1, "NN"),        # matrix times vector
    (1, 8, 4096, 4096, "NT"), (1, 16, 1024, 1024, "NT"), (1, 16, 1024, 1024, "NN"), (1, 32, 768, 3072, "NT"),
    (1, 10000, 64, 10, "NT"), (1, 32, 10000, 32, "NN"),                                  # skinny
    (1, 64, 64, 64, "NN"), (1, 128, 128, 128, "NN"), (1, 256, 256, 256, "NN"), (1, 197, 64, 197, "NT"),
]


def matrix(batch, rows, columns, transposed):
    shape = (columns, rows) if transposed else (rows, columns)
    result = torch.randn(batch, *shape) if batch > 1 else torch.randn(*shape)
    return result.transpose(-1, -2) if transposed else result


def main():
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--single", action="store_true", help="one product at a time also where they are short")
    arguments.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    arguments.add_argument("--only", default="", help="shapes whose line contains this")
    options = arguments.parse_args()
    results = Results(options)
    dtype = getattr(torch, options.dtype)
    torch.manual_seed(0)
    for batch, m, k, n, layout in SHAPES:
        name = f"{batch:3d} x {m:5d} x {k:5d} x {n:5d} {layout}"
        if options.only not in name:
            continue
        full = matrix(batch, m, k, layout[0] == "T"), matrix(batch, k, n, layout[1] == "T")
        product = torch.bmm if batch > 1 else torch.mm
        work = 2e-6 * batch * m * k * n
        calls = 1 if options.single else max(1, min(20, int(200 / work)))

        def repeated(device, dtype):
            a, b = (operand.to(device, dtype) for operand in full)
            out = torch.matmul(a, b)

            def run():
                for _ in range(calls):
                    product(a, b, out=out)
            return run, device

        contenders = {"native": repeated(torch.device("cpu"), dtype), "ours": repeated(options.device, dtype)}
        if dtype != torch.float32:
            contenders["float32"] = repeated(options.device, torch.float32)
        times = interleave(contenders, options.rounds, pause=0.01)
        took = {who: median_ms(seconds) / calls for who, seconds in times.items()}
        text = "  ".join(f"{who} {ms:8.3f} ms {work / ms:6.1f} GF/s" for who, ms in took.items())
        if "float32" in took:
            text += f"  over our float32 {took['float32'] / took['ours']:5.2f}"
        results.add(f"{name}  {text}  ratio {took['native'] / took['ours']:5.2f}", shape=[batch, m, k, n],
                    layout=layout, dtype=options.dtype, calls=calls, seconds=times)
    results.save()


if __name__ == "__main__":
    main()
