"""torch.ocl.FloatTensor, torch.ocl.FloatStorage and the like: constructors from before devices and dtypes, which also
answer isinstance."""

from __future__ import annotations

import torch

_DTYPES = {
    "BFloat16": torch.bfloat16, "Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8,
    "ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64, "Double": torch.float64,
    "Float": torch.float32, "Half": torch.float16, "Int": torch.int32, "Long": torch.int64, "Short": torch.int16,
}


class _Tensor(type):
    def __instancecheck__(cls, value) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == "ocl" and value.dtype == cls.dtype

    def __call__(cls, *arguments, device="ocl"):
        if not arguments:
            return torch.empty(0, dtype=cls.dtype, device=device)
        if len(arguments) == 1 and isinstance(arguments[0], torch.Tensor):
            return arguments[0].to(device=device, dtype=cls.dtype)
        if len(arguments) == 1 and not isinstance(arguments[0], (int, torch.Size)):
            return torch.tensor(arguments[0], dtype=cls.dtype, device=device)
        return torch.empty(*arguments, dtype=cls.dtype, device=device)


class _Storage(type):
    def __instancecheck__(cls, value) -> bool:
        return isinstance(value, torch.TypedStorage) and value.device.type == "ocl" and value.dtype == cls.dtype

    def __call__(cls, *arguments):
        if len(arguments) == 1 and not isinstance(arguments[0], int):
            return torch.tensor(list(arguments[0]), dtype=cls.dtype).storage().to(device="ocl", non_blocking=False)
        return torch.TypedStorage(*arguments, dtype=cls.dtype, device="ocl")


def __getattr__(name: str):
    for ending, kind in (("Tensor", _Tensor), ("Storage", _Storage)):
        dtype = _DTYPES.get(name.removesuffix(ending))
        if name.endswith(ending) and dtype is not None:
            made = kind(name, (), {"dtype": dtype, "__module__": "torch.ocl", "is_sparse": False})
            globals()[name] = made
            return made
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
