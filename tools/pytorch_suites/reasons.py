"""Why cases miss: the first row whose pattern is found in `file case kind reason` explains a miss."""

from __future__ import annotations

import re

EXPLANATIONS = [
    (r"masked_scatter.*not raised|masked_scatter.*after the case|after the case: IndexError",
     "what a kernel finds (an index out of range, too few elements) is raised at the next synchronisation, as on CUDA; the "
     "case expects it at once of every device but CUDA"),
    (r"test_stable_sort_against_numpy.*same device", "the case passes indices on the CPU, which it does not do for CUDA"),
    (r"storage_type|BFloat16Storage", "legacy classes of storages (`torch.cuda.FloatStorage`): there are none"),
    (r"quantize|qint|quantized", "no quantized tensors"),
    (r"has no kernel for the ocl device", "an operator that has no kernel: runs on the CPU where the fallback policy allows it"),
]


def explain(label, outcome):
    text = f"{label} {outcome.case} {outcome.kind} {outcome.reason}"
    return next((why for pattern, why in EXPLANATIONS if re.search(pattern, text)), None)
