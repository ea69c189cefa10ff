"""What is bad in a kernel by itself, or beside the committed figures of the same kernel for other problems."""
from __future__ import annotations

from statistics import median

FAR = 0.6          # of the usual share
ELEMENT = 2.5      # times the usual instructions for each element
MANY = 100         # instructions an element, of a kernel without figures
BOUND = ("share", "instructions_per_element")


def usual(committed: dict) -> dict[tuple[str, str], float]:
    """{(kernel, what): median} of one target's problems; shares of those that do arithmetic."""
    seen: dict[tuple[str, str], list[float]] = {}
    for kernels in committed["problems"].values():
        for kernel in kernels:
            for what in BOUND:
                if kernel.get(what) is not None and (what != "share" or kernel["fmas"] >= 4):
                    seen.setdefault((kernel["kernel"], what), []).append(kernel[what])
    return {key: median(values) for key, values in seen.items()}


def faults(kernel: dict, known: dict[tuple[str, str], float]) -> list[str]:
    if "error" in kernel:
        return [f"does not compile: {kernel['error']}"]
    found = [f"{name} {kernel[what]} bytes" for what, name in (("spill_bytes", "spills"), ("private_bytes", "private"))
             if kernel[what]]
    share = known.get((kernel["kernel"], "share"))
    if share and kernel["fmas"] >= 4 and kernel["share"] < FAR * share:
        found.append(f"share {kernel['share']:.1f} %, usually {share:.1f} %")
    each, most = kernel.get("instructions_per_element"), known.get((kernel["kernel"], "instructions_per_element"))
    if each is not None and share is None and each > (ELEMENT * most if most else MANY):
        found.append(f"{each:g} instructions an element" + (f", usually {most:g}" if most else ""))
    return found


def listed(target: str, problems: dict[str, list[dict]], committed: dict) -> list[str]:
    """A line for each fault, the problems that have it behind it."""
    known = usual(committed) if committed else {}
    lines: dict[str, list[str]] = {}
    for name, kernels in problems.items():
        for kernel in kernels:
            for fault in faults(kernel, known):
                lines.setdefault(f"{target} {kernel['kernel']} [{kernel['program'][-8:]}]: {fault}", []).append(name)
    return [f"{line}\n    {'; '.join(dict.fromkeys(names))}" for line, names in sorted(lines.items())]
