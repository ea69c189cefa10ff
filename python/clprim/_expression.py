"""What kernels from expressions share, whatever arrays they take."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Expression:
    """OpenCL C statements that assign y0, y1, ... from x0, x1, ... and w0, w1, ..., and how outputs are merged."""

    code: str
    reduce: str | None = None
    identity: str = "0"

    def __post_init__(self):
        self.output_count    # complains about a bad code now

    @property
    def output_count(self):
        found = {int(number) for number in re.findall(r"\by(\d+)\b", self.code)}
        if found != set(range(len(found))) or not found:
            raise ValueError(f"the code must assign y0, y1, ... without gaps: {self.code!r}")
        return len(found)

    def kept_shape(self, shape, dim, keepdim):
        """The outputs' shape with reduced axes kept as 1, and those axes."""
        if self.reduce is None:
            if dim is not None or keepdim:
                raise ValueError("dim and keepdim are for kernels with `reduce`")
            return tuple(shape), set()
        dims = range(len(shape)) if dim is None else [dim] if isinstance(dim, int) else dim
        reduced = {range(len(shape))[d] for d in dims}
        return tuple(1 if d in reduced else size for d, size in enumerate(shape)), reduced

    def reduction(self):
        """state, init, step, combine, finish of clprim::ReduceCode."""
        outputs = range(self.output_count)

        def merge(other):
            return " ".join(f"{{ typeof_y{k} a = s.a{k}, b = {other(k)}; s.a{k} = ({self.reduce}); }}" for k in outputs)
        declare = " ".join(f"typeof_y{k} y{k};" for k in outputs)
        return [" ".join(f"typeof_y{k} a{k};" for k in outputs),
                " ".join(f"s.a{k} = ({self.identity});" for k in outputs),
                f"{declare} {self.code} {merge(lambda k: f'y{k}')}", merge(lambda k: f"other.a{k}"),
                " ".join(f"y{k} = s.a{k};" for k in outputs)]
