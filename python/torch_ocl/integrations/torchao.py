"""torchao: quantize_() of models on ocl. Weight-only and dynamic int8, and weights of fewer bits, need nothing; int4
weights in tiles and dynamic float8 ask which generation of CUDA there is before they use operators that ocl has too."""

from __future__ import annotations

import functools
import types

import torch

from torch_ocl.integrations._view import TorchView, replace


class _Capable(types.ModuleType):
    """torch.cuda as torchao looks at it: a device that multiplies int4 weights, where there is no CUDA."""

    def __getattr__(self, name: str):
        return getattr(torch.cuda, name)

    @staticmethod
    def get_device_capability(device=None):
        return torch.cuda.get_device_capability(device) if torch.version.cuda and torch.cuda.is_available() else (8, 0)


def apply(_: str = "torchao") -> None:
    from torchao.float8 import inference
    from torchao.quantization import quant_api
    from torchao.quantization.quantize_.workflows.int4 import int4_tile_packed_to_4d_tensor as tiles

    tiles.torch = TorchView(_Capable("torch.cuda"))

    def check(former, granularities):
        """Which pairs of granularities there are; what it asserts is the generation of a CUDA device."""
        try:
            former(granularities)
        except AssertionError:
            if torch.cuda.is_available():
                raise

    former = inference._check_hardware_support
    replace("_check_hardware_support", functools.partial(check, former), inference, quant_api)
