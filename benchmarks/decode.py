"""Decoding with a Llama-shaped model of random weights, token by token with a cache of fixed size: tokens a second in
float32, bfloat16 and with weights of eight and four bits on the device, against PyTorch's CPU in bfloat16, interleaved
in one run; how much of the memory's bandwidth the products of a token reach; waits and launches of a token.

    python benchmarks/decode.py [--layers 12 --size 768] [--tokens 16] [--rounds 5] [--only int8] [--json results.json]
"""
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from common import Results, interleave, median_ms, parser, timed

HEADS, KEY_HEADS, GROUP = 12, 4, 64


class Int8Linear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach().float()
        scales = weight.abs().amax(1) / 127
        self.register_buffer("weight", (weight / scales[:, None]).round().to(torch.int8))
        self.register_buffer("scales", scales.to(linear.weight.dtype))

    def forward(self, x):
        return torch._weight_int8pack_mm(x, self.weight, self.scales)


class Int4Linear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach().float()
        rows, columns = weight.shape
        groups = weight.view(rows, columns // GROUP, GROUP)
        scales = (groups.amax(2) - groups.amin(2)) / 15
        zeros = groups.amin(2) + 8 * scales
        q = ((groups - zeros[..., None]) / scales[..., None] + 8).round().clamp(0, 15)
        q = q.to(torch.uint8).view(rows, columns)
        self.register_buffer("packed", torch._convert_weight_to_int4pack(q[:, ::2] << 4 | q[:, 1::2], 2))
        both = torch.stack([scales.t(), zeros.t()], 2)
        self.register_buffer("scales", both.contiguous().to(linear.weight.dtype))

    def forward(self, x):
        return torch._weight_int4pack_mm(x, self.packed, GROUP, self.scales)


class Block(torch.nn.Module):
    def __init__(self, size, length):
        super().__init__()
        self.width = size // HEADS
        keys = KEY_HEADS * self.width

        def linear(inputs, outputs):
            return torch.nn.Linear(inputs, outputs, bias=False)

        self.norm, self.second_norm = torch.nn.RMSNorm(size), torch.nn.RMSNorm(size)
        self.q, self.k, self.v, self.o = linear(size, size), linear(size, keys), linear(size, keys), linear(size, size)
        hidden = size * 8 // 3 // 64 * 64
        self.gate, self.up, self.down = linear(size, hidden), linear(size, hidden), linear(hidden, size)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, KEY_HEADS, length, self.width))

    def forward(self, x, place, angles, mask):
        y = self.norm(x)
        q, k, v = (part(y).view(1, 1, -1, self.width).transpose(1, 2) for part in (self.q, self.k, self.v))
        self.keys.index_copy_(2, place, turned(k, angles))
        self.values.index_copy_(2, place, v)
        y = F.scaled_dot_product_attention(turned(q, angles), self.keys, self.values, attn_mask=mask, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(1, -1))
        y = self.second_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def turned(x, angles):
    cos, sin = angles
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


class Model(torch.nn.Module):
    def __init__(self, size, layers, words, length):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, size)
        self.blocks = torch.nn.ModuleList(Block(size, length) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(size)
        self.head = torch.nn.Linear(size, words, bias=False)
        width = size // HEADS
        angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.full((length, length), -torch.inf).triu(1))

    def forward(self, word, place):
        angles = self.cos[place], self.sin[place]
        mask = self.mask[place]
        x = self.embedding(word)
        for block in self.blocks:
            x = block(x, place, angles, mask)
        return self.head(self.norm(x)).argmax(-1)


def replace_linears(module, kind):
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear):
            setattr(module, name, kind(child))
        else:
            replace_linears(child, kind)


def linears(model):
    return [m for m in model.modules() if isinstance(m, (torch.nn.Linear, Int8Linear, Int4Linear))]


def weight_bytes(modules):
    return sum(t.numel() * t.element_size() for m in modules for t in [*m.parameters(), *m.buffers()])


def made(state, options, dtype, device, kind=None):
    model = Model(options.size, options.layers, options.words, options.length)
    model.load_state_dict(state)
    model = model.to(device, dtype)
    if kind:
        replace_linears(model, kind)
    return model.requires_grad_(False)


def decode(model, tokens, device):
    word = torch.zeros(1, dtype=torch.long, device=device)
    for place in torch.arange(tokens, device=device).split(1):
        word = model(word, place)
    return word.item()


def run_products(modules, inputs):
    for module, x in zip(modules, inputs):
        module(x)


def inputs_of(modules, model, dtype, device):
    """One row for each product of a token."""
    seen = {}
    hooks = [m.register_forward_pre_hook(lambda m, x: seen.__setitem__(m, x[0].detach().clone())) for m in modules]
    decode(model, 1, device)
    for hook in hooks:
        hook.remove()
    return [seen[m] for m in modules]


def bandwidth(device):
    """Bytes a second of reading: the best of some sums of 256 MiB."""
    x = torch.ones(64 << 20, device=device)
    return x.nbytes / min(timed(lambda: x.sum(), device) for _ in range(8))


def launches(model, device):
    activities = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
    decode(model, 2, device)
    with profile(activities=activities) as trace:
        decode(model, 1, device)
    return sum(e.name == "clEnqueueNDRangeKernel" for e in trace.events())


@torch.no_grad()
def main():
    arguments = parser(__doc__)
    defaults = {"layers": 12, "size": 768, "words": 32000, "length": 256, "tokens": 16, "rounds": 5}
    for name, value in defaults.items():
        arguments.add_argument(f"--{name}", type=int, default=value)
    arguments.add_argument("--only", default="", help="contenders whose name contains this, besides PyTorch's CPU")
    options = arguments.parse_args()
    results, device, cpu = Results(options), options.device, torch.device("cpu")
    torch.manual_seed(0)
    plain = Model(options.size, options.layers, options.words, options.length)
    state = plain.state_dict()
    print(f"{sum(p.numel() for p in plain.parameters()) / 1e6:.0f} M parameters, {options.tokens} tokens a turn")
    kinds = {"float32": (torch.float32, None), "bfloat16": (torch.bfloat16, None),
             "int8": (torch.bfloat16, Int8Linear), "int4": (torch.bfloat16, Int4Linear)}
    models = {name: (made(state, options, dtype, device, kind), device, dtype)
              for name, (dtype, kind) in kinds.items() if options.only in name}
    models["CPU bfloat16"] = made(state, options, torch.bfloat16, cpu), cpu, torch.bfloat16
    contenders = {name: (lambda m=m, d=d: decode(m, options.tokens, d), d) for name, (m, d, _) in models.items()}
    times = interleave(contenders, options.rounds)
    reading = bandwidth(device)
    print(f"reading: {reading / 1e9:.1f} GB/s")
    for name, (model, where, dtype) in models.items():
        modules = linears(model)
        inputs = inputs_of(modules, model, dtype, where)
        run_products(modules, inputs)
        products = min(timed(lambda: run_products(modules, inputs), where) for _ in range(5))
        rate = 1e3 * options.tokens / median_ms(times[name])
        share = weight_bytes(modules) / products / reading
        text = f"{name:14s} {rate:8.2f} tokens/s  products {1e3 * products:8.2f} ms, {100 * share:4.0f} % of reading"
        row = {"name": name, "tokens_per_second": rate, "products_seconds": products, "share": share,
               "seconds": times[name]}
        if where.type == "ocl":
            before = torch.ocl.blocking_calls()
            decode(model, options.tokens, where)
            row["waits"] = torch.ocl.blocking_calls() - before
            row["launches"] = launches(model, where)
            text += f"  waits of {options.tokens} tokens {row['waits']}  launches of one {row['launches']}"
        results.add(text, **row)
    results.save()


if __name__ == "__main__":
    main()
