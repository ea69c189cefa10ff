"""Why cases miss: the first row whose pattern is found in `file case kind reason` explains a miss."""

from __future__ import annotations

import re

EXPLANATIONS = [
]


def explain(label, outcome):
    text = f"{label} {outcome.case} {outcome.kind} {outcome.reason}"
    return next((why for pattern, why in EXPLANATIONS if re.search(pattern, text)), None)
