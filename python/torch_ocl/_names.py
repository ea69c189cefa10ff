"""Names of torch.cuda, torch.xpu, torch.mps and torch.accelerator, and what torch.ocl makes of each:
`python -m torch_ocl names` prints the table of docs/pytorch_api.md."""

from __future__ import annotations

import argparse
import importlib
import types

import torch

MODULES = ("cuda", "xpu", "mps", "accelerator")
# Public by their spelling, but no part of an interface: what a module happens to import, and its own constants.
_NOT_INTERFACE = {"Device", "DEVICE_REQUIREMENT", "DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION",
                  "PYTORCH_RELEASES_CODE_CC", "DEFAULT_FLAGS"}


def public_names(module: types.ModuleType) -> list[str]:
    """What a module lists in __all__, its public submodules, and what PyTorch defines in it."""
    names = set(getattr(module, "__all__", ()))
    for name in dir(module):
        if name.startswith("_") or name in _NOT_INTERFACE:
            continue
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            if value.__name__ == f"{module.__name__}.{name}":
                names.add(name)
        elif getattr(value, "__module__", None) == module.__name__ or (
                isinstance(value, type) and issubclass(value, Exception)):
            names.add(name)
    return sorted(names - _NOT_INTERFACE)


def every_name() -> dict[str, list[str]]:
    """For torch.cuda, ... and their submodules that torch.ocl has: the names, as 'memory.MemPool' in submodules."""
    result = {}
    for kind in MODULES:
        module = getattr(torch, kind)
        names = []
        for name in public_names(module):
            names.append(name)
            value = getattr(module, name)
            if isinstance(value, types.ModuleType) and classify(name)[0] == "works":
                part = importlib.import_module(value.__name__)
                names += [f"{name}.{inner}" for inner in public_names(part)]
        result[kind] = names
    return result


def classify(name: str) -> tuple[str, str]:
    """('works' | 'refused' | 'missing', the reason) of a name of torch.ocl."""
    from torch_ocl._surface import Refused

    value = torch.ocl
    for part in name.split("."):
        if isinstance(value, Refused):
            break
        try:
            value = getattr(value, part)
        except AttributeError:
            return "missing", ""
    return ("refused", value.reason) if isinstance(value, Refused) else ("works", "")


def counts() -> dict[str, dict[str, int]]:
    result = {}
    for kind, names in every_name().items():
        kinds = [classify(name)[0] for name in names]
        result[kind] = {state: kinds.count(state) for state in ("works", "refused", "missing")}
    return result


def table() -> str:
    """The table as Markdown."""
    owners: dict[str, list[str]] = {}
    for kind, names in every_name().items():
        for name in names:
            owners.setdefault(name, []).append(kind)
    lines = ["| of | works | refused | missing |", "|---|---|---|---|"]
    lines += [f"| `torch.{kind}` | {n['works']} | {n['refused']} | {n['missing']} |" for kind, n in counts().items()]
    lines += ["", "| name | of | on `torch.ocl` |", "|---|---|---|"]
    for name in sorted(owners, key=str.lower):
        state, reason = classify(name)
        lines.append(f"| `{name}` | {', '.join(owners[name])} | {state}{': ' + reason if reason else ''} |")
    return "\n".join(lines)


def main(arguments) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_ocl names", description=__doc__)
    parser.parse_args(arguments)
    print(table())
    return 0
