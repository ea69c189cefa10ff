"""sentence-transformers: SentenceTransformer() and CrossEncoder() choose ocl."""

from __future__ import annotations

import sys


def apply(_: str = "sentence_transformers") -> None:
    from sentence_transformers.util import environment

    former = environment.get_device_name

    def get_device_name() -> str:
        name = former()
        return "ocl:0" if name == "cpu" else name

    for name, module in list(sys.modules.items()):
        if name.startswith("sentence_transformers") and getattr(module, "get_device_name", None) is former:
            module.get_device_name = get_device_name
