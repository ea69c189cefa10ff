"""A compiled kernel, read from a vendor's assembly (intel.py, amd.py, nvidia.py) and the same for all of them."""
from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(slots=True)
class Instruction:
    """One instruction. Kinds: fma, matrix, math (roots, exponentials, ...), alu, move, local_load, local_store,
    global_load, global_store, scratch (private memory and spills), scalar_load (one value for a whole sub-group),
    atomic, barrier, control, call, wait (takes no issue slot)."""

    kind: str
    text: str
    fmas: float = 0          # multiply-adds of one work-item
    operations: int = 1      # FMAs or matrix products in this issue slot: 2 where it is a pair of FMAs
    bytes: float = 0         # that one work-item moves
    registers: frozenset = frozenset()   # that it names
    loaded: frozenset = frozenset()      # that a load from global memory fills
    targets: tuple = ()                  # labels of a branch
    falls_through: bool = True           # whether the next one may follow


@dataclass
class Kernel:
    name: str
    registers: int = 0        # of a work-item (AMD, NVIDIA) or a thread (Intel)
    simd: int = 0             # work-items that one instruction serves
    spill_bytes: int = 0      # of a work-item (AMD, NVIDIA) or a thread (Intel), as the compiler says
    private_bytes: int = 0    # of a work-item: arrays and frames in memory
    local_bytes: int = 0      # of a work-group, without arguments
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    dual: int = 1             # FMAs that an issue slot can hold


def registers_of(text: str, pattern: str) -> frozenset:
    """Registers named in `text`: `pattern` gives letter, first, last."""
    found = set()
    for letter, first, last in re.findall(pattern, text):
        for number in range(int(first), int(last or first) + 1):
            found.add(f"{letter}{number}")
    return frozenset(found)
