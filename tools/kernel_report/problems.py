"""The fixed list of problems that the report is about, in the words of PyTorch, and their dry run: which kernels the
library launches for each.

    CLPRIM_DRY_RUN=log python -m kernel_report.problems REGEX     # prints JSON: problem -> launches or an error
"""
from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass
class Problem:
    name: str
    run: Callable[[], object]   # in a dry run
    element_bytes: int = 0      # where memory is the limit: instructions are counted for each element of this size

    @property
    def family(self) -> str:
        return self.name.split(":")[0]


def gemm(torch, empty) -> Iterator[Problem]:
    for dtype in ("float32", "float16", "bfloat16"):
        for m, n, k in ((4096, 4096, 4096), (2048, 512, 1024)):
            for layout in ("NN", "NT", "TN", "TT"):
                def run(dtype=dtype, m=m, n=n, k=k, layout=layout):
                    a = empty(m, k, dtype=dtype) if layout[0] == "N" else empty(k, m, dtype=dtype).t()
                    b = empty(k, n, dtype=dtype) if layout[1] == "N" else empty(n, k, dtype=dtype).t()
                    return a @ b
                size = str(m) if m == n == k else f"{m}x{n}x{k}"
                yield Problem(f"gemm: {dtype} {layout} {size}", run)


FAMILIES = (gemm,)


def problems(pattern: str = "") -> list[Problem]:
    """Those whose name the pattern finds. They need a device only when they run."""
    import torch

    def empty(*shape, dtype="float32", **options):
        return torch.empty(*shape, dtype=getattr(torch, dtype), device="ocl", **options)

    return [p for family in FAMILIES for p in family(torch, empty) if re.search(pattern, p.name)]


def launches(pattern: str) -> dict[str, list[str] | str]:
    """Runs them; the launches of each as lines of the log, a text where it was refused."""
    found = {}
    with open(os.environ["CLPRIM_DRY_RUN"], "a+") as log:
        for problem in problems(pattern):
            log.seek(0, os.SEEK_END)
            try:
                problem.run()
                found[problem.name] = log.read().splitlines()
            except Exception as error:   # an operator that a device without float64 refuses, for one
                found[problem.name] = str(error).splitlines()[0]
    return found


if __name__ == "__main__":
    json.dump(launches(sys.argv[1] if len(sys.argv) > 1 else ""), sys.stdout)
