"""What the compilers of GPUs make of the library's kernels, on a machine without a GPU.

    tools/kernel_report/get_compilers.sh FOLDER                  # once
    export CLPRIM_GPU_COMPILERS=FOLDER
    python tools/kernel_report --problems '^gemm' --targets bmg-g21,gfx1100,sm_86

Each problem is run dry as on the target (docs/environment_variables.md: CLPRIM_DRY_RUN, CLPRIM_DEVICE_FIGURES), each
program that it asks for is compiled, and each kernel becomes a line.
"""
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .problems import problems
from .report import Report, with_elements
from .targets import QUICK, TARGETS

ROOT = Path(__file__).resolve().parents[2]


def line(kernel: dict) -> str:
    if "error" in kernel:
        return f"{kernel['kernel']}: FAILED {kernel['error']}"
    parts = [f"share {kernel['share']:5.1f} %"]
    if kernel["fmas"]:
        parts.append(f"{kernel['fmas']:g} FMA of {kernel['issued']} issued, local {kernel['local_bytes_per_fma']:g} "
                     f"global {kernel['global_bytes_per_fma']:g} B/FMA")
    else:
        parts.append(f"{kernel['issued']} issued")
    if around := kernel.get("around"):
        parts.append(f"with the loop around {around['share']:.1f} % of {around['issued']}")
    if "instructions_per_element" in kernel:
        parts.append(f"{kernel['instructions_per_element']:g} an element")
    parts.append(f"loads {kernel['loads_in_flight']}")
    parts.append(f"registers {kernel['registers']} simd {kernel['simd']} local {kernel['local_bytes']}")
    if "resident_groups" in kernel:
        parts.append(f"groups {kernel['resident_groups']} of {kernel['group_size']} ({kernel['occupancy']} %)")
    parts += [f"{what} {kernel['counts'][what]}" for what in ("call", "scratch") if what in kernel["counts"]]
    for what in ("spill_bytes", "private_bytes"):
        if kernel[what]:
            parts.append(f"{what.upper().replace('_', ' ')} {kernel[what]}")
    return f"{kernel['kernel']} [{kernel['program'][-8:]}]: " + ", ".join(parts)


def show(name: str, found: dict) -> None:
    print(f"== {name} ({found['compiler']})")
    lines: dict[str, list[str]] = {}   # problems by the kernel that they share
    for problem, kernels in found["problems"].items():
        for kernel in kernels:
            lines.setdefault(line(kernel), []).append(problem)
    for text, names in lines.items():
        print(f"{'; '.join(names)}\n    {text}")
    for problem, why in found["refused"].items():
        print(f"{problem:42} refused: {why}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kernel_report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="", metavar="REGEX", help="only those whose name it finds")
    parser.add_argument("--targets", default="", help=f"with commas, of {', '.join(TARGETS)}; default all")
    parser.add_argument("--compilers", type=Path, default=os.environ.get("CLPRIM_GPU_COMPILERS", ROOT / "build/compilers"),
                        help="get_compilers.sh's folder (default: CLPRIM_GPU_COMPILERS)")
    parser.add_argument("--work", type=Path, default=ROOT / "build/kernel_report",
                        help="keeps what was compiled, so that it is not compiled again")
    parser.add_argument("--list", action="store_true", help="only print the names of the problems")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.list:
        print("\n".join(problem.name for problem in problems(options.problems)))
        return
    names = [name for name in options.targets.split(",") if name] or list(TARGETS)
    if unknown := set(names) - set(TARGETS):
        sys.exit(f"kernel_report: no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    elements = {problem.name: problem.element_bytes for problem in problems(options.problems)}
    report = Report(Path(options.compilers).resolve(), options.work.resolve())
    for name in names:
        found = report.target(TARGETS[name], options.problems)
        for problem, kernels in found["problems"].items():
            with_elements(kernels, elements[problem])
        show(name, found)
