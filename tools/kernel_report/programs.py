"""Which programs and kernels a target is asked for: the problems run dry in a process of its own."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path


@dataclass(frozen=True)
class Launch:
    program: str        # stem of its file
    kernel: str
    group_size: int     # 0 where the driver chooses
    local_argument: int
    groups: int         # of the largest such launch
    items: int = 0      # of it
    times: int = 1      # that it is launched

    @property
    def key(self) -> str:
        """The same for other versions of the program: its stem without the hash, and the kernel."""
        return f"{self.program.rsplit('-', 1)[0]}:{self.kernel}"


@dataclass
class Asked:
    """What the library asks a target for."""

    programs: dict[str, Path]           # by stem: OpenCL C with its options in the first line
    problems: dict[str, list[Launch]]   # each different kernel once
    refused: dict[str, str]             # problems that the library does not take on such a device, and why


def read_launch(line: str) -> Launch:
    program, kernel, work, group, local = line.split()
    size = lambda text: prod(map(int, text.split("x")))
    items = size(group)
    return Launch(program, kernel, items, int(local), size(work) // items if items else 0, size(work))


def distinct(lines: list[str]) -> list[Launch]:
    """The launches of one problem: each kernel with its group size and local memory once, as its largest launch."""
    alike: dict[tuple, list[Launch]] = {}
    for launch in map(read_launch, lines):
        alike.setdefault((launch.program, launch.kernel, launch.group_size, launch.local_argument), []).append(launch)
    return [replace(max(each, key=lambda launch: launch.items), times=len(each)) for each in alike.values()]


def ask(figures: str, pattern: str, folder: Path, engine: str = "", given: Sequence[str] = ()) -> Asked:
    """Runs the problems of the list that the pattern finds, or those `given`, as on a GPU of these figures, with a
    matrix engine (CLPRIM_MATRIX_ENGINE) that they do not tell. `folder` receives the programs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log").unlink(missing_ok=True)
    tools = Path(__file__).resolve().parents[1]
    trials = ("CLPRIM_KERNEL_PATH", "CLPRIM_IMPLEMENTATION")   # of changed kernels and of parameters
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CLPRIM_") or k in trials}
    environment = kept | {
        "CLPRIM_DRY_RUN": str(folder / "log"), "CLPRIM_DUMP_PROGRAMS": str(folder), "CLPRIM_CACHE_DISABLE": "1",
        "CLPRIM_DEVICE_KIND": "gpu", "CLPRIM_DEVICE_FIGURES": figures, "CLPRIM_MATRIX_ENGINE": engine,
        "TORCH_OCL_FALLBACK": "error",
        "PYTHONPATH": os.pathsep.join([str(tools), *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run([sys.executable, "-m", "kernel_report.problems", pattern],
                          env=environment, input="\n".join(given), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"kernel_report: the dry run failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    problems = {name: distinct(lines) for name, lines in found.items() if isinstance(lines, list)}
    used = {launch.program for each in problems.values() for launch in each}
    return Asked({stem: folder / f"{stem}.cl" for stem in used if stem != "-"}, problems,
                 {name: why for name, why in found.items() if isinstance(why, str)})


def read_program(path: Path) -> tuple[list[str], str]:
    """Options and text."""
    options, text = path.read_text().split("\n", 1)
    return options.removeprefix("// ").split(), text
