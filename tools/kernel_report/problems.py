"""The fixed list of problems that the report is about, in the words of PyTorch, and their dry run: which kernels the
library launches for each.

    CLPRIM_DRY_RUN=log python -m kernel_report.problems REGEX     # prints JSON: problem -> launches or an error

Others come as expressions (problems_given), one in each line of standard input.
"""
from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence

from . import problems_given, problems_heavy, problems_onnx, problems_other, problems_seldom, problems_streaming
from .problem import Problem


def problems(pattern: str = "", given: Sequence[str] = ()) -> list[Problem]:
    """Those of the list whose name the pattern finds, or those `given` as expressions. They need a device only when
    they run."""
    if given:
        return list(problems_given.problems(given))
    return [p for module in (problems_heavy, problems_streaming, problems_other, problems_onnx, problems_seldom)
            for p in module.problems()
            if re.search(pattern, p.name)]


def launches(pattern: str, given: Sequence[str] = ()) -> dict[str, list[str] | str]:
    """Runs them; the launches of each as lines of the log, a text where it was refused."""
    import torch
    torch.empty(1, device="ocl")   # a library that does not load is no answer of a problem
    found = {}
    with open(os.environ["CLPRIM_DRY_RUN"], "a+") as log:
        for problem in problems(pattern, given):
            log.seek(0, os.SEEK_END)
            try:
                rest = problem.run()
                if callable(rest):
                    log.seek(0, os.SEEK_END)
                    rest()
                found[problem.name] = log.read().splitlines()
            except Exception as error:   # an operator that a device without float64 refuses, for one
                found[problem.name] = (str(error) or repr(error)).splitlines()[0]
    return found


if __name__ == "__main__":
    json.dump(launches(sys.argv[1] if len(sys.argv) > 1 else "", sys.stdin.read().splitlines()), sys.stdout)
