"""torch.compile on an OpenCL device: eager and compiled there, against PyTorch's CPU compiled by Inductor (C++).

    python benchmarks/compile.py                              # fused chains, reductions, networks
    python benchmarks/compile.py --case softmax --case train:resnet18
    python benchmarks/compile.py --networks --batch 2 --image 128     # inference and training of NETWORKS

Contenders take turns; the table gives times as multiples of the compiled device's, launches of eager and compiled code,
and how long compiled code's first call took, on the device and on the CPU. "copy" is how long the device copies as many
bytes as a function reads and writes at least, as a multiple too: the share of the bandwidth of a copy.
"""
import copy
import statistics

import torch
import torch.nn.functional as F
import torchvision

from common import Results, interleave, median_ms, parser, synchronize, timed

NETWORKS = ("mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "vit_b_16", "gpt2_block")


def chain_of_10(x, y):
    for _ in range(3):
        x = torch.relu(x * y + 0.5)
    return x - y


def chain(x, y):
    return torch.tanh(x) * torch.sigmoid(y) + F.gelu(x) * 0.5 - (x - y).abs()


def normalised(x, w, b):
    return F.layer_norm(F.silu(x), (x.shape[-1],), w, b) * 2 + x


def functions(size):
    """{name: (function, arguments)}"""
    wide = size // 1024
    return {
        "chain of 10": (chain_of_10, (torch.randn(size), torch.randn(size))),
        "chain": (chain, (torch.randn(size), torch.randn(size))),
        "broadcast": (lambda x, a, b: F.relu(x * a + b), (torch.randn(wide // 16, 16, 1024), torch.randn(16, 1),
                                                          torch.randn(16, 1))),
        "softmax": (lambda x: F.softmax(x * 0.5, -1), (torch.randn(wide, 1024),)),
        "layer_norm": (normalised, (torch.randn(wide, 1024), torch.randn(1024), torch.randn(1024))),
        "sums": (lambda x: (x.sum(), x.mean(0), x.square().amax(1)), (torch.randn(wide, 1024),)),
        "transposed": (lambda x, y: x.t().contiguous() + y, (torch.randn(wide, 1024), torch.randn(1024, wide))),
    }


class Gpt2Block(torch.nn.Module):
    """A layer of the smallest GPT-2: 768 elements, 12 heads."""

    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))


def network(case, options, device, compiled):
    mode, name = case.split(":")
    torch.manual_seed(0)
    if name == "gpt2_block":
        model, shape = Gpt2Block(), (options.batch, 128, 768)
    else:
        sized = {"image_size": options.image} if name.startswith("vit_") else {}
        model, shape = torchvision.models.get_model(name, weights=None, **sized), (options.batch, 3, options.image,
                                                                                   options.image)
    model = model.to(device)
    image = torch.randn(shape).to(device)
    model.train(mode == "train")
    run = torch.compile(model) if compiled else model
    if mode == "infer":
        def infer():
            with torch.no_grad():
                run(image)
        return infer
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step():
        optimizer.zero_grad()
        run(image).square().mean().backward()
        optimizer.step()
    return step


def launches(run, device):
    synchronize(device)
    before = torch.ocl.kernel_launches()
    run()
    synchronize(device)
    return torch.ocl.kernel_launches() - before


def copy_as_large(case, cases, device):
    """Moves as many bytes as the arguments and results of a function have."""
    function, arguments = cases[case]
    results = torch.utils._pytree.tree_leaves(function(*arguments))
    # Memory that nobody wrote is one page of zeros to an operating system, which a copy reads from the nearest cache.
    source = torch.ones(sum(t.nbytes for t in (*arguments, *results)) // 8, device=device)
    target = torch.ones_like(source)
    return lambda: target.copy_(source)


def contender(case, cases, options, device, compiled):
    if ":" in case:
        return network(case, options, device, compiled)
    function, arguments = cases[case]
    run = torch.compile(function) if compiled else function
    arguments = [copy.deepcopy(a).to(device) for a in arguments]
    return lambda: run(*arguments)


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--case", action="append", metavar="NAME or infer:MODEL or train:MODEL")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--size", type=int, default=1 << 22, help="elements of the largest tensor of a function")
    arguments.add_argument("--networks", action="store_true", help="inference and training of " + ", ".join(NETWORKS))
    arguments.add_argument("--batch", type=int, default=4)
    arguments.add_argument("--image", type=int, default=224, help="height and width")
    options = arguments.parse_args()
    results = Results(options)
    cases = functions(options.size)
    device, cpu = options.device, torch.device("cpu")
    named = [*cases, "infer:resnet18", "train:resnet18", "infer:mobilenet_v3_small"]
    if options.networks:
        named = [f"{mode}:{name}" for name in NETWORKS for mode in ("infer", "train")]
    print("eager, cpu: time of the device's eager operators, and of Inductor on the CPU, by that of compiled code\n"
          f"{'case':26}{'compiled ms':>12}{'eager':>9}{'cpu':>9}{'copy':>7}{'launches':>14}{'first call s':>14}"
          f"{'cpu':>7}")
    ratios = {"eager": [], "cpu": []}
    for case in options.case or named:
        torch._dynamo.reset()
        runs = {name: contender(case, cases, options, where, compiled)
                for name, where, compiled in (("compiled", device, True), ("eager", device, False), ("cpu", cpu, True))}
        first = {name: timed(runs[name], cpu if name == "cpu" else device) for name in runs}
        if ":" not in case:
            runs["copy"] = copy_as_large(case, cases, device)
        counts = [launches(runs[name], device) for name in ("eager", "compiled")]
        times = interleave({name: (run, cpu if name == "cpu" else device) for name, run in runs.items()},
                           options.rounds, warmup=2, pause=0.02)
        compiled, eager, native = (median_ms(times[name]) for name in ("compiled", "eager", "cpu"))
        copied = f"{median_ms(times['copy']) / compiled:6.2f}x" if "copy" in times else f"{'':7}"
        ratios["eager"].append(eager / compiled)
        ratios["cpu"].append(native / compiled)
        results.add(f"{case:26}{compiled:12.2f}{eager / compiled:8.2f}x{native / compiled:8.2f}x{copied}"
                    f"{f'{counts[0]} > {counts[1]}':>14}{first['compiled']:14.1f}{first['cpu']:7.1f}", case=case,
                    compiled_ms=compiled, eager_ms=eager, cpu_ms=native, launches=counts, first_call=first,
                    seconds=times)
    means = {name: statistics.geometric_mean(found) for name, found in ratios.items()}
    results.add(f"{'geometric mean':26}{'':12}{means['eager']:8.2f}x{means['cpu']:8.2f}x", means=means)
    results.save()


if __name__ == "__main__":
    main()
