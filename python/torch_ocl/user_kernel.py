"""Kernels of the caller's own, in OpenCL C: torch.ocl.compile_kernel."""

from __future__ import annotations

import re

import torch

from torch_ocl import _state

# Scalar types of OpenCL C as kernel arguments, and the dtypes of tensors that a pointer to one stands for.
_NUMBERS = {"char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32",
            "long": "int64", "ulong": "uint64", "half": "float16", "float": "float32", "double": "float64"}
_POINTEES = {
    "char": (torch.int8,), "uchar": (torch.uint8, torch.bool), "short": (torch.int16,),
    "ushort": (torch.uint16, torch.float16, torch.bfloat16), "int": (torch.int32,), "uint": (torch.uint32,),
    "long": (torch.int64,), "ulong": (torch.uint64,), "half": (torch.float16,), "float": (torch.float32,),
    "double": (torch.float64,), "float2": (torch.complex64,),
    "double2": (torch.complex128,),
    # core/dtype.cl
    "storage_float16": (torch.float16,), "storage_bfloat16": (torch.bfloat16,), "storage_boolean": (torch.bool,),
}
_SIZES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8, "half": 2,
          "float": 4, "double": 8, "storage_float16": 2, "storage_bfloat16": 2, "storage_boolean": 1}
_QUALIFIERS = {"const", "volatile", "restrict", "__restrict", "__private", "private"}
_SPACES = {"__global": "global", "global": "global", "__local": "local", "local": "local",
           "__constant": "constant", "constant": "constant"}
_LONG_NAMES = {("unsigned",): "uint", ("unsigned", "int"): "uint", ("unsigned", "char"): "uchar",
               ("unsigned", "short"): "ushort", ("unsigned", "long"): "ulong", ("signed",): "int",
               ("signed", "int"): "int", ("signed", "char"): "char", ("signed", "short"): "short",
               ("signed", "long"): "long"}


def compile_kernel(source: str, name: str, *, options: str = "", device=None):
    """A kernel from OpenCL C, built for a device (default: the current one) and, when called for others, for those.

        scale = torch.ocl.compile_kernel('''
            __kernel void scale(__global const float* x, ulong x_offset, __global float* y, ulong y_offset,
                                float factor, int count)
            {
                x += x_offset;
                y += y_offset;
                int i = get_global_id(0);
                if (i < count)
                    y[i] = factor * x[i];
            }''', "scale")
        scale(x, y, 2.5, x.numel(), global_size=1024, local_size=64)

    source: OpenCL C. `#include "core/dtype.cl"` and the library's other sources may be included. options: for the
        compiler, such as "-DWIDTH=3 -cl-fast-relaxed-math". Programs are kept in the cache on disk.
    A tensor is two arguments of the kernel and one of the call: `__global T* x, ulong x_offset`, of which the kernel
        computes `x += x_offset`. The tensor's shape and strides are the caller's business; None gives a null pointer.
        float16 and bfloat16 tensors may be taken as `ushort*`, bool tensors as `uchar*`, complex64 ones as `float2*`.
    A number is given as such, checked to fit; `__local T*` is given as a number of elements; an argument of a type of
        the source's own as bytes.
    `__global int* errors, int operator_code` are not given: with them `clprim_index_error(errors, operator_code, index,
        size)` of "core/errors.cl" makes the next synchronisation raise IndexError.

    Calls take global_size and local_size, numbers or tuples of up to three, and return at once: the work is on the
    current stream. Errors of the compiler come as RuntimeError with the compiler's words and the source's lines.
    """
    return build(source, name, options, device)


def build(source: str, name: str, options: str, device=None, prologue: str = ""):
    """The kernel; prologue: text before the source, which does not count for its lines."""
    parameters = signature(prologue + source, name, options)
    text = prologue + _with_line_numbers(source, name)
    kernel = _state.c().Kernel(text, name, options, parameters, True)
    try:
        kernel.prepare(_state.index_of(device))
    except RuntimeError as error:
        raise RuntimeError(_with_source_lines(str(error), source, name)) from None
    return kernel


def _with_line_numbers(source: str, name: str) -> str:
    """The source with #line directives, so that the compiler counts the caller's lines although files are included."""
    lines = [f'#line 1 "{name}"']
    for number, line in enumerate(source.split("\n"), 1):
        lines.append(line)
        if line.startswith('#include "'):
            lines.append(f'#line {number + 1} "{name}"')
    return "\n".join(lines) + "\n"


def _with_source_lines(message: str, source: str, name: str) -> str:
    lines = source.split("\n")
    found = dict.fromkeys(int(n) for n in re.findall(rf"{re.escape(name)}\"?:(\d+)", message))
    quoted = [f"{name}:{n}: {lines[n - 1].strip()}" for n in found if 1 <= n <= len(lines)]
    return message if not quoted else message + "\nThe lines named:\n" + "\n".join(quoted)


def _without_comments(source: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", source, flags=re.DOTALL)


def signature(source: str, name: str, options: str = "") -> list[tuple]:
    """The parameters of a kernel, read from its declaration, as torch_ocl._C.Kernel takes them."""
    text = _without_comments(source)
    attribute = r"(?:__attribute__\s*\(\(.*?\)\)\s*)*"
    found = re.search(rf"\b(?:__kernel|kernel)\s+{attribute}void\s+{attribute}{re.escape(name)}\s*\(", text, re.DOTALL)
    if not found:
        raise ValueError(f"the source has no `__kernel void {name}(...)`")
    declared = [p for p in (part.strip() for part in _parameters(text, found.end())) if p and p != "void"]
    types = _Types(text, options)
    result: list[tuple] = []
    position = 0
    while position < len(declared):
        taken = _parameter(declared[position:position + 2], types, name)
        result.append(taken)
        position += 2 if taken[0] in ("tensor", "errors") else 1
    return result


def _parameters(text: str, begin: int) -> list[str]:
    depth, parts, last = 1, [], begin
    for i in range(begin, len(text)):
        if text[i] == "(":
            depth += 1
        elif text[i] == ")":
            depth -= 1
            if depth == 0:
                return [*parts, text[last:i]]
        elif text[i] == "," and depth == 1:
            parts.append(text[last:i])
            last = i + 1
    raise ValueError("the kernel's list of parameters has no end")


class _Types:
    """What the names of types stand for: typedefs and simple macros of the source, and -D options."""

    def __init__(self, text: str, options: str):
        self.known: dict[str, str] = {}
        for old, new in re.findall(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;", text):
            self.known[new] = old
        for new, old in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\w[\w \t]*?)[ \t]*$", text, re.MULTILINE):
            self.known[new] = old
        for new, old in re.findall(r"-D\s*(\w+)=(\w+)", options):
            self.known[new] = old

    def resolve(self, words: list[str]) -> str:
        for _ in range(16):
            if tuple(words) in _LONG_NAMES:
                return _LONG_NAMES[tuple(words)]
            if len(words) != 1 or words[0] not in self.known:
                break
            words = self.known[words[0]].split()
        return " ".join(words)


def _parameter(declared: list[str], types: _Types, kernel: str) -> tuple:
    words = re.findall(r"\w+|\*", re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", declared[0]))
    name = words.pop()
    spaces = [_SPACES[w] for w in words if w in _SPACES]
    constant = "const" in words or "constant" in spaces
    pointers = words.count("*")
    type_name = types.resolve([w for w in words if w not in _SPACES and w not in _QUALIFIERS and w != "*"])
    where = f"kernel {kernel}, argument {name}"
    if pointers == 0:
        if type_name in ("size_t", "bool", "ptrdiff_t"):
            raise ValueError(f"{where}: OpenCL has no kernel arguments of type {type_name}; take ulong, long or int")
        return ("number", name, _NUMBERS[type_name]) if type_name in _NUMBERS else ("bytes", name, _size(type_name))
    if pointers > 1 or not spaces:
        raise ValueError(f"{where}: expected a pointer to __global, __constant or __local memory, got `{declared[0]}`")
    if spaces[0] == "local":
        size = _size(type_name)
        if size == 0:
            raise ValueError(f"{where}: the size of {type_name} is not known; take a pointer to one of OpenCL's types")
        return ("local", name, size)
    following = re.findall(r"\w+", declared[1]) if len(declared) > 1 else []
    if type_name == "int" and name == "errors" and following[-1:] == ["operator_code"]:
        return ("errors", name, kernel)
    if following[-1:] != [f"{name}_offset"] or types.resolve(following[:-1]) != "ulong":
        raise ValueError(f"{where}: a tensor is `{declared[0]}, ulong {name}_offset`, and the kernel begins with "
                         f"`{name} += {name}_offset;`")
    accepted, lanes = _pointee(type_name)
    if not accepted:
        raise ValueError(f"{where}: there is no dtype for a pointer to {type_name}")
    return ("tensor", name, accepted, not constant, lanes)


def _split_vector(type_name: str) -> tuple[str, int]:
    found = re.fullmatch(r"(u?(?:char|short|int|long)|half|float|double)(2|3|4|8|16)", type_name)
    return (found[1], int(found[2])) if found else (type_name, 1)


def _size(type_name: str) -> int:
    base, lanes = _split_vector(type_name)
    return _SIZES.get(base, 0) * (4 if lanes == 3 else lanes)


def _pointee(type_name: str) -> tuple[list[torch.dtype], int]:
    """The dtypes of tensors for a pointer, and how many elements of them one pointee is."""
    if type_name in _POINTEES:
        return list(_POINTEES[type_name]), 1
    base, lanes = _split_vector(type_name)
    if lanes > 1 and base in _POINTEES:
        return list(_POINTEES[base]), 4 if lanes == 3 else lanes
    return [], 1
