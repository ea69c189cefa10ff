"""Whole networks on an OpenCL device against PyTorch's CPU, in one run.

    python benchmarks/models.py                               # ResNet-18: inference b4, training b8
    python benchmarks/models.py --case resnet50:infer:4 --case mobilenet_v2:train:8:channels_last
"""
import copy

import torch
import torchvision

from common import Results, interleave, median_ms, parser

DEFAULT_CASES = ("resnet18:infer:4", "resnet18:train:8")


def prepare(case, device, size):
    """A callable that runs the case once on the device."""
    name, mode, batch, *layout = case.split(":")
    torch.manual_seed(0)
    memory_format = torch.channels_last if "channels_last" in layout else torch.contiguous_format
    model = torchvision.models.get_model(name, weights=None)
    image = torch.randn(int(batch), 3, size, size)
    labels = torch.randint(0, 1000, (int(batch),)).to(device)
    model = copy.deepcopy(model).to(device=device, memory_format=memory_format)
    image = image.to(device=device, memory_format=memory_format)
    if mode == "infer":
        model.eval()

        def infer():
            with torch.no_grad():
                model(image)
        return infer

    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(image), labels).backward()
        optimizer.step()
    return step


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--case", action="append", metavar="MODEL:infer|train:BATCH[:channels_last]")
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--size", type=int, default=224)
    options = arguments.parse_args()
    results = Results(options)
    cpu = torch.device("cpu")
    print(f"{'case':40}{'ocl ms':>10}{'cpu ms':>10}{'speed':>9}   (speed: cpu / ocl time; above 1 is faster)")
    for case in options.case or DEFAULT_CASES:
        times = interleave({"ocl": (prepare(case, options.device, options.size), options.device),
                            "cpu": (prepare(case, cpu, options.size), cpu)}, options.rounds)
        ocl, native = median_ms(times["ocl"]), median_ms(times["cpu"])
        results.add(f"{case:40}{ocl:10.1f}{native:10.1f}{native / ocl:8.2f}x", case=case, ocl_ms=ocl, cpu_ms=native,
                    ratio=native / ocl, seconds=times)
    results.save()


if __name__ == "__main__":
    main()
