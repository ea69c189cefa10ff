"""Whole networks on an OpenCL device against PyTorch's CPU, in one run: torchvision's, and a block of GPT-2 small.

    python benchmarks/models.py                               # ResNet-18: inference b4, training b8
    python benchmarks/models.py --case resnet50:infer:4 --case mobilenet_v2:train:8:channels_last
    python benchmarks/models.py --dtype bfloat16 --case vit_b_16:infer:4 --case gpt2_block:train:4

With --dtype networks infer in that dtype, and train under autocast.
"""
import copy

import torch
import torchvision

from common import Results, interleave, median_ms, parser

DEFAULT_CASES = ("resnet18:infer:4", "resnet18:train:8")


class Gpt2Block(torch.nn.Module):
    """Of GPT-2 small: 12 heads, 768 numbers a word."""

    def __init__(self, size=768):
        super().__init__()
        self.first_norm, self.second_norm = torch.nn.LayerNorm(size), torch.nn.LayerNorm(size)
        self.attention, self.projection = torch.nn.Linear(size, 3 * size), torch.nn.Linear(size, size)
        self.up, self.down = torch.nn.Linear(size, 4 * size), torch.nn.Linear(4 * size, size)

    def forward(self, x):
        batch, words, size = x.shape
        q, k, v = (part.view(batch, words, 12, -1).transpose(1, 2)
                   for part in self.attention(self.first_norm(x)).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second_norm(x)), approximate="tanh"))


def prepare_gpt2_block(mode, batch, device, dtype, words=512):
    torch.manual_seed(0)
    block, x = Gpt2Block().to(device), torch.randn(batch, words, 768).to(device)
    if mode == "infer":
        block, x = block.to(dtype), x.to(dtype)
        return torch.no_grad()(lambda: block(x))
    optimizer = torch.optim.AdamW(block.parameters(), lr=1e-5)

    def step():
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
            loss = block(x).float().square().mean()
        loss.backward()
        optimizer.step()
    return step


def prepare(case, device, size, dtype):
    """A callable that runs the case once on the device."""
    name, mode, batch, *layout = case.split(":")
    if name == "gpt2_block":
        return prepare_gpt2_block(mode, int(batch), device, dtype)
    torch.manual_seed(0)
    memory_format = torch.channels_last if "channels_last" in layout else torch.contiguous_format
    model = torchvision.models.get_model(name, weights=None)
    image = torch.randn(int(batch), 3, size, size)
    labels = torch.randint(0, 1000, (int(batch),)).to(device)
    model = copy.deepcopy(model).to(device=device, memory_format=memory_format)
    image = image.to(device=device, memory_format=memory_format)
    if mode == "infer":
        model.eval().to(dtype)
        image = image.to(dtype)

        def infer():
            with torch.no_grad():
                model(image)
        return infer

    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step():
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
            loss = torch.nn.functional.cross_entropy(model(image), labels)
        loss.backward()
        optimizer.step()
    return step


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--case", action="append", metavar="MODEL:infer|train:BATCH[:channels_last]")
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--size", type=int, default=224)
    arguments.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    options = arguments.parse_args()
    results = Results(options)
    cpu, dtype = torch.device("cpu"), getattr(torch, options.dtype)
    print(f"{'case':40}{'ocl ms':>10}{'cpu ms':>10}{'speed':>9}   (speed: cpu / ocl time; above 1 is faster)")
    for case in options.case or DEFAULT_CASES:
        times = interleave({"ocl": (prepare(case, options.device, options.size, dtype), options.device),
                            "cpu": (prepare(case, cpu, options.size, dtype), cpu)}, options.rounds)
        ocl, native = median_ms(times["ocl"]), median_ms(times["cpu"])
        results.add(f"{case:40}{ocl:10.1f}{native:10.1f}{native / ocl:8.2f}x", case=case, ocl_ms=ocl, cpu_ms=native,
                    ratio=native / ocl, seconds=times)
    results.save()


if __name__ == "__main__":
    main()
