"""What a problem is, and the words that lists of them are written in."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Problem:
    """`run` does all of it, or prepares and returns a function that does the rest: only that is looked at then."""

    name: str                   # "family: what, dtype, layout, sizes"
    run: Callable[[], object]   # in a dry run
    # Where memory is the limit: instructions are counted for each element of this size; 0: for each FMA.
    element_bytes: int | None = None

    @property
    def family(self) -> str:
        return self.name.split(":")[0]


def empty(*shape, dtype="float32", channels_last=False, grad=False):
    """A tensor of the device; what it holds means nothing in a dry run."""
    import torch
    tensor = torch.empty(*shape, dtype=getattr(torch, dtype), device="ocl",
                         memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    return tensor.requires_grad_(grad)


def backward(forward: Callable[[], object], inputs: Callable[[], list]) -> Callable[[], object]:
    """Of a problem the gradients alone: `forward` of the tensors that `inputs` makes."""
    def run():
        import torch
        leaves = inputs()
        result = forward(*leaves)
        gradient = torch.empty_like(result)
        return lambda: torch.autograd.grad(result, [t for t in leaves if t.requires_grad], gradient)
    return run


def without_gradients(function, tensors):
    import torch
    with torch.no_grad():
        return function(*tensors)
