"""Dtypes in generated OpenCL C: names of types, literals, loads and stores."""

from __future__ import annotations

import math

import torch

# The type of a variable. float16 and bfloat16 are computed in float, as the device's own kernels do.
C_TYPES = {
    torch.bool: "bool", torch.int8: "char", torch.uint8: "uchar", torch.int16: "short", torch.uint16: "ushort",
    torch.int32: "int", torch.uint32: "uint", torch.int64: "long", torch.uint64: "ulong", torch.float16: "float",
    torch.bfloat16: "float", torch.float32: "float", torch.float64: "double",
}
# The name that core/dtype.cl has for a dtype in memory: storage_t(D), load_D, store_D.
MEMORY_NAMES = {
    torch.bool: "boolean", torch.int8: "int8", torch.uint8: "uint8", torch.int16: "int16", torch.uint16: "uint16",
    torch.int32: "int32", torch.uint32: "uint32", torch.int64: "int64", torch.uint64: "uint64",
    torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float64: "float64",
}
UNSIGNED = {torch.int8: "uchar", torch.int16: "ushort", torch.int32: "uint", torch.int64: "ulong"}
SHORT_FLOATS = (torch.float16, torch.bfloat16)


def c_type(dtype: torch.dtype) -> str:
    if dtype not in C_TYPES:
        raise NotImplementedError(f"the ocl device's code generator has no {dtype}")
    return C_TYPES[dtype]


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in SHORT_FLOATS else dtype


def storage_type(dtype: torch.dtype) -> str:
    return f"storage_{MEMORY_NAMES[dtype]}"


def load(pointer: str, index: str, dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return f"({pointer}[{index}] != 0)"
    return f"load_{MEMORY_NAMES[dtype]}({pointer}, {index})" if dtype in SHORT_FLOATS else f"{pointer}[{index}]"


def store(pointer: str, index: str, value: str, dtype: torch.dtype) -> str:
    if dtype in SHORT_FLOATS:
        return f"store_{MEMORY_NAMES[dtype]}({pointer}, {index}, {value});"
    return f"{pointer}[{index}] = {value};"


def convert(value: str, source: torch.dtype | None, target: torch.dtype) -> str:
    """A value of the compute type of `source` as one of the compute type of `target`."""
    wanted = c_type(target)
    if source is not None and c_type(source) == wanted:
        return value
    if wanted == "bool":
        return f"({value} != 0)"
    if source is not None and source.is_floating_point:     # as kernels/copy/copy.cl does it: numbers out of range wrap
        if target in (torch.int8, torch.uint8, torch.int16, torch.uint16):
            return f"({wanted})(int)({value})"
        if target in (torch.uint32, torch.uint64):
            signed = "int" if target == torch.uint32 else "long"
            return f"({value} < 0 ? ({wanted})({signed})({value}) : ({wanted})({value}))"
    return f"({wanted})({value})"


def literal(value: bool | int | float, dtype: torch.dtype) -> str:
    """A constant of a dtype."""
    kind = c_type(dtype)
    if kind == "bool":
        return "true" if value else "false"
    if kind in ("float", "double"):
        return _floating(float(value), kind)
    if isinstance(value, float) and not math.isfinite(value):
        value = 0
    value = int(value)
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    if dtype.is_signed and value >> (bits - 1):
        value -= 1 << bits
    return integer(value, kind)


def integer(value: int, kind: str = "long") -> str:
    if kind == "ulong":
        return f"{value}UL"
    if kind == "uint":
        return f"{value}u"
    if kind == "long":
        return "LONG_MIN" if value == -(1 << 63) else f"{value}L" if value >= 0 else f"({value}L)"
    if kind == "int" and value == -(1 << 31):
        return "INT_MIN"
    return str(value) if value >= 0 else f"({value})"


def _floating(value: float, kind: str) -> str:
    if math.isnan(value):
        return f"({kind})NAN"
    if math.isinf(value):
        return f"({kind})INFINITY" if value > 0 else f"(-({kind})INFINITY)"
    if kind == "double":
        text = repr(value)
    else:
        single = torch.tensor(value, dtype=torch.float32).item()
        if math.isinf(single):
            return _floating(single, kind)
        text = f"{single!r}f"
    return text if math.copysign(1, value) > 0 else f"({text})"
