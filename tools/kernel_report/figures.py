"""Measures of a compiled kernel, the same for every vendor: what its instructions are, which loop is hot, what that
loop issues for each fused multiply-add, how many loads are under way at once. Nothing here knows a vendor.
"""
from __future__ import annotations

from collections import Counter

from .assembly import Instruction, Kernel
from .flow import loops

LOADS = {"local_load", "global_load"}
GLOBAL = {"global_load", "global_store"}
LOCAL = {"local_load", "local_store"}
ITERATIONS = 8   # of a loop inside another, where one has to be assumed


def in_flight(instructions: list[Instruction], cyclic: bool) -> int:
    """The most loads from global memory that are under way at once: each is until something names what it fills; then
    those issued before it are done as well."""
    waiting: list[frozenset] = []
    most = 0
    for instruction in instructions * (2 if cyclic else 1):
        last = max((i for i, loaded in enumerate(waiting) if loaded & instruction.registers), default=-1)
        del waiting[:last + 1]
        if instruction.kind == "global_load" and instruction.loaded:
            waiting.append(instruction.loaded)
            most = max(most, len(waiting))
    return most


def measure(instructions: list[Instruction], dual: int) -> dict:
    """What a stretch of code issues, each instruction counted once."""
    counts = Counter(i.kind for i in instructions)
    issued = sum(n for kind, n in counts.items() if kind != "wait")
    operations = sum(i.operations / dual if i.kind == "fma" else 1 for i in instructions if i.kind in ("fma", "matrix"))
    fmas = sum(i.fmas for i in instructions)
    local = sum(i.bytes for i in instructions if i.kind in LOCAL)
    memory = sum(i.bytes for i in instructions if i.kind in GLOBAL)
    result = {"issued": issued, "fmas": round(fmas, 2), "share": round(100 * operations / max(1, issued), 1),
              "counts": dict(counts.most_common())}
    if fmas:
        result["local_bytes_per_fma"] = round(local / fmas, 3)
        result["global_bytes_per_fma"] = round(memory / fmas, 3)
    return result


def loaded_and_stored(instructions: list[Instruction]) -> tuple[float, float]:
    return tuple(sum(i.bytes for i in instructions if i.kind == kind) for kind in ("global_load", "global_store"))


def hot_loop(kernel: Kernel, found: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Where the work is: of the loops that load from local or global memory the one with the most FMAs of its own,
    those of loops inside it left out; without FMAs the one that moves most. How often loops run is not known: one in
    another counts as if it ran ITERATIONS times."""
    depth = Counter(at for loop in found for at in loop)

    def work(loop, measure):
        own = set(loop).difference(*(other for other in found if set(other) < set(loop)))
        return sum(measure(kernel.instructions[at]) * ITERATIONS ** (depth[at] - 1) for at in own)

    loading = [loop for loop in found if any(kernel.instructions[at].kind in LOADS for at in loop)]
    # A few FMAs are those of addresses and divisions.
    for least, measure in ((4, lambda i: i.fmas), (1, lambda i: i.bytes if i.kind in GLOBAL else 0),
                           (1, lambda i: i.bytes if i.kind in LOCAL else 0)):
        amounts = [work(loop, measure) for loop in loading]
        if max(amounts, default=0) >= least:
            return loading[amounts.index(max(amounts))]
    return None


def analyse(kernel: Kernel) -> dict:
    """All figures of a kernel that do not depend on a launch."""
    found = loops(kernel)
    hot = hot_loop(kernel, found)
    body = [kernel.instructions[at] for at in hot] if hot else kernel.instructions
    result = {"registers": kernel.registers, "simd": kernel.simd, "spill_bytes": kernel.spill_bytes,
              "private_bytes": kernel.private_bytes, "local_bytes": kernel.local_bytes,
              "instructions": len(kernel.instructions), "loops": len(found), "hot": "loop" if hot else "kernel"}
    result |= measure(body, kernel.dual)
    result["loads_in_flight"] = in_flight(body, cyclic=hot is not None)
    result["loaded_bytes"], result["stored_bytes"] = loaded_and_stored(body)
    if hot and (around := loop_around(kernel, hot, found)):
        whole = measure(around, kernel.dual)
        result["around_issued"], result["around_share"] = whole["issued"], whole["share"]
        if not any(i.kind == "global_load" for i in body):
            result["loads_in_flight"] = in_flight(around, cyclic=True)
    return result


def loop_around(kernel: Kernel, hot: tuple[int, ...], found: list[tuple[int, ...]]) -> list[Instruction] | None:
    """The smallest loop around the hot one that does more than that: loads, barriers or more FMAs."""
    inside = set(hot)
    for loop in sorted((one for one in found if inside < set(one)), key=len):
        rest = [kernel.instructions[at] for at in loop if at not in inside]
        if any(i.kind in LOADS or i.kind == "barrier" or i.fmas for i in rest):
            return [kernel.instructions[at] for at in loop]
    return None


def per_element(figures: dict, element_bytes: int) -> float | None:
    """Instructions for each element that a work-item stores in the hot stretch, or loads where it stores none; without
    a size for each FMA."""
    if not element_bytes:
        return round(figures["issued"] / figures["fmas"], 1) if figures["fmas"] else None
    moved = figures["stored_bytes"] or figures["loaded_bytes"]
    return round(figures["issued"] * element_bytes / moved, 1) if moved else None


def main_kernel(kernels: list[dict]) -> dict:
    """Of the kernels of one problem the one that does the work: the most FMAs in its hot loop; where memory is the
    limit the most instructions for each element, of those with an eighth of the work-items at least."""
    counted = [kernel for kernel in kernels if "instructions_per_element" in kernel]
    if not counted:
        return max(kernels, key=lambda k: (k["fmas"] if k["fmas"] >= 4 else 0, k["loaded_bytes"] + k["stored_bytes"]))
    items = [kernel["groups"] * kernel["group_size"] for kernel in counted]
    return max((kernel for kernel, n in zip(counted, items) if n >= max(items) / 8),
               key=lambda k: k["instructions_per_element"])
