"""Problems of the command line: Python expressions of PyTorch, so that a kernel can be looked at for any sizes.

    F.conv2d(empty(8, 24, 57, 57, channels_last=True), empty(40, 12, 3, 3), stride=2, groups=2)
    backward: F.layer_norm(empty(4096, 100, dtype="float16", grad=True), (100,))     # gradients of what has grad=True
    torch.softmax(empty(65536, 33), 1)     # an expression may end in a comment
    compiled(lambda x, w: F.layer_norm(x * 2, (100,), w), empty(4096, 100), empty(100))   # by torch.compile

`compiled` compiles a function and calls it; `backward: compiled(...)` shows its generated gradients. `empty` and
`integers` make tensors of the device; torch, F, torchvision (where it is there) and `convolution` (one pass alone, as
in problems_heavy) are known as well.
"""
from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from .problem import Problem, backward, empty
from .problems_heavy import convolution
from .problems_other import integers

SIZES = {"float64": 8, "int64": 8, "complex64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1}


def compiled(function, *arguments):
    """What torch.compile makes of a function, for these arguments."""
    import torch
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch(force_disable_caches=True):
        return torch.compile(function, dynamic=False, fullgraph=True)(*arguments)


def names(leaves: list) -> dict:
    import torch

    def leaf(*shape, **options):
        tensor = empty(*shape, **options)
        if tensor.requires_grad:
            leaves.append(tensor)
        return tensor
    known = {"torch": torch, "F": torch.nn.functional, "empty": leaf, "integers": integers, "convolution": convolution,
             "compiled": compiled}
    with contextlib.suppress(ImportError):   # an expression that names it fails with that
        import torchvision
        known["torchvision"] = torchvision
    return known


def forward(expression: str) -> Callable[[], object]:
    def run():
        import torch
        with torch.no_grad():
            return eval(expression, names([]))
    return run


def gradients(expression: str) -> Callable[[], object]:
    def run():
        leaves: list = []
        result = eval(expression, names(leaves))
        if not leaves:
            raise ValueError("backward: no tensor of the expression has grad=True")
        return backward(lambda *_: result, lambda: leaves)()
    return run


def problem(text: str) -> Problem:
    """Of one line. What is stored is taken to be as wide as the first dtype that it names."""
    direction, expression = re.fullmatch(r"\s*(backward:)?\s*(.*?)\s*", text).groups()
    compile(expression, "--problem", "eval")   # a SyntaxError now, not once for each target
    dtype = re.search(r"dtype=\W*(?:torch\.)?(\w+)", expression)
    size = SIZES.get(dtype[1], 4) if dtype else 4
    return Problem(text.strip(), (gradients if direction else forward)(expression), size)


def problems(lines: list[str]) -> Iterator[Problem]:
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            yield problem(line)
