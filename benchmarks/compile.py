"""torch.compile on an OpenCL device: eager and compiled there, against PyTorch's CPU compiled by Inductor (C++).

    python benchmarks/compile.py                              # fused chains, reductions, networks
    python benchmarks/compile.py --case softmax --case train:resnet18

Contenders take turns; the table gives times as multiples of the compiled device's.
"""
import copy

import torch
import torch.nn.functional as F
import torchvision

from common import Results, interleave, median_ms, parser


def chain(x, y):
    return torch.tanh(x) * torch.sigmoid(y) + F.gelu(x) * 0.5 - (x - y).abs()


def normalised(x, w, b):
    return F.layer_norm(F.silu(x), (x.shape[-1],), w, b) * 2 + x


def functions(size):
    """{name: (function, arguments)}"""
    wide = size // 1024
    return {
        "chain": (chain, (torch.randn(size), torch.randn(size))),
        "broadcast": (lambda x, a, b: F.relu(x * a + b), (torch.randn(wide // 16, 16, 1024), torch.randn(16, 1),
                                                          torch.randn(16, 1))),
        "softmax": (lambda x: F.softmax(x * 0.5, -1), (torch.randn(wide, 1024),)),
        "layer_norm": (normalised, (torch.randn(wide, 1024), torch.randn(1024), torch.randn(1024))),
        "sums": (lambda x: (x.sum(), x.mean(0), x.square().amax(1)), (torch.randn(wide, 1024),)),
        "transposed": (lambda x, y: x.t().contiguous() + y, (torch.randn(wide, 1024), torch.randn(1024, wide))),
    }


def network(case, device, compiled):
    mode, name = case.split(":")
    torch.manual_seed(0)
    model = torchvision.models.get_model(name, weights=None).to(device)
    image = torch.randn(4, 3, 224, 224).to(device)
    labels = torch.randint(0, 1000, (4,)).to(device)
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
        F.cross_entropy(run(image), labels).backward()
        optimizer.step()
    return step


def contender(case, cases, device, compiled):
    if ":" in case:
        return network(case, device, compiled)
    function, arguments = cases[case]
    run = torch.compile(function) if compiled else function
    arguments = [copy.deepcopy(a).to(device) for a in arguments]
    return lambda: run(*arguments)


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--case", action="append", metavar="NAME or infer:MODEL or train:MODEL")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--size", type=int, default=1 << 22, help="elements of the largest tensor of a function")
    options = arguments.parse_args()
    results = Results(options)
    cases = functions(options.size)
    cpu = torch.device("cpu")
    print(f"{'case':22}{'compiled ms':>12}{'eager':>9}{'cpu':>9}   (eager, cpu: time of the device's eager operators, and of "
          "Inductor on the CPU, by that; above 1 is faster compiled)")
    for case in options.case or [*cases, "infer:resnet18", "train:resnet18", "infer:mobilenet_v3_small"]:
        torch._dynamo.reset()
        times = interleave({"compiled": (contender(case, cases, options.device, True), options.device),
                            "eager": (contender(case, cases, options.device, False), options.device),
                            "cpu": (contender(case, cases, cpu, True), cpu)}, options.rounds, warmup=3, pause=0.02)
        compiled, eager, native = (median_ms(times[name]) for name in ("compiled", "eager", "cpu"))
        results.add(f"{case:22}{compiled:12.2f}{eager / compiled:8.2f}x{native / compiled:8.2f}x", case=case,
                    compiled_ms=compiled, eager_ms=eager, cpu_ms=native, seconds=times)
    results.save()


if __name__ == "__main__":
    main()
