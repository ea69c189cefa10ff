"""torchao's quantize_() on ocl: a block as Llama has, its weights quantised on the device in every way, against float.

    python examples/integrations/quantize_torchao.py
"""
import copy
import warnings

import torch
import torch.nn.functional as F
import torch_ocl.integrations

warnings.simplefilter("ignore")
from torchao.quantization import (  # noqa: E402
    Float8DynamicActivationFloat8WeightConfig, Float8WeightOnlyConfig, Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, PerRow, quantize_)


class Block(torch.nn.Module):
    """Attention with two heads that share a key, then a gated layer."""

    def __init__(self, size=256, heads=4):
        super().__init__()
        self.heads, self.width = heads, size // heads
        self.norm, self.second_norm = torch.nn.RMSNorm(size), torch.nn.RMSNorm(size)
        self.q, self.o = torch.nn.Linear(size, size, bias=False), torch.nn.Linear(size, size, bias=False)
        self.k, self.v = (torch.nn.Linear(size, size // 2, bias=False) for _ in range(2))
        self.gate, self.up = (torch.nn.Linear(size, 512, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(512, size, bias=False)

    def forward(self, x):
        def split(y):
            return y.unflatten(-1, (-1, self.width)).transpose(1, 2)

        y = self.norm(x)
        y = F.scaled_dot_product_attention(split(self.q(y)), split(self.k(y)), split(self.v(y)), is_causal=True,
                                           enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.second_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


# How far results may lie from those of the float model, of their largest number.
WAYS = {
    "int8 weights": (Int8WeightOnlyConfig(), 0.03),
    "int4 weights": (Int4WeightOnlyConfig(group_size=32, int4_packing_format="tile_packed_to_4d"), 0.15),
    "int8 weights and activations": (Int8DynamicActivationInt8WeightConfig(), 0.04),
    "float8 weights": (Float8WeightOnlyConfig(), 0.08),
    "float8 weights and activations": (Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()), 0.1),
}


@torch.no_grad()
def main():
    torch.manual_seed(0)
    model = Block().to("ocl", torch.bfloat16)
    prompt, token = (torch.randn(1, length, 256, device="ocl", dtype=torch.bfloat16) for length in (33, 1))
    for name, (config, bound) in WAYS.items():
        quantized = copy.deepcopy(model)
        quantize_(quantized, config)
        errors = []
        for x in (prompt, token):
            exact, got = model(x) - x, quantized(x) - x
            errors.append(((got - exact).float().norm() / exact.float().norm()).item())
        print(f"{name} on {quantized.q.weight.device}: error {max(errors):.4f} of the block's result")
        assert max(errors) < bound, name


if __name__ == "__main__":
    main()
