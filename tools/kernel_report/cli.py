"""What the compilers of GPUs make of the library's kernels, on a machine without a GPU.

    tools/kernel_report/get_compilers.sh FOLDER                  # once; then
    export CLPRIM_GPU_COMPILERS=FOLDER
    python tools/kernel_report --problems '^gemm' --targets bmg-g21,gfx1100,sm_86
    python tools/kernel_report --problem 'F.conv2d(empty(8, 24, 57, 57), empty(40, 12, 3, 3), groups=2)'
    python tools/kernel_report --random 60 --seed 7            # what nobody tuned for: the faults found
    python tools/kernel_report --check --quick                   # what changed, on three GPUs, against figures.json
    python tools/kernel_report --update                          # figures.json and docs/gpu_kernels.md

Each problem is run dry as on the target (docs/environment_variables.md: CLPRIM_DRY_RUN, CLPRIM_DEVICE_FIGURES), each
program that it asks for is compiled, and each kernel becomes a line.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from . import findings, store
from .compiler import CompileError
from .problems import problems
from .problems_random import expressions
from .report import Report, with_elements
from .table import document
from .targets import QUICK, TARGETS, Target

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/gpu_kernels.md"


def line(kernel: dict) -> str:
    name = f"{kernel['kernel']} [{kernel['program'][-8:]}]"
    if "error" in kernel:
        return f"{name}: FAILED {kernel['error']}"
    parts = [f"share {kernel['share']:5.1f} %"]
    if kernel["fmas"]:
        parts.append(f"{kernel['fmas']:g} FMA of {kernel['issued']} issued, local {kernel['local_bytes_per_fma']:g} "
                     f"global {kernel['global_bytes_per_fma']:g} B/FMA")
    else:
        parts.append(f"{kernel['issued']} issued")
    if "around_share" in kernel:
        parts.append(f"with the loop around {kernel['around_share']:.1f} % of {kernel['around_issued']}")
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
    return f"{name}: " + ", ".join(parts)


def show(name: str, found: dict) -> None:
    print(f"== {name} ({found['compiler']})")
    lines: dict[str, list[str]] = {}   # problems by the kernel that they share
    for problem, kernels in found["problems"].items():
        for kernel in kernels:
            if not kernel.get("unchanged"):
                lines.setdefault(line(kernel), []).append(problem)
    for text, names in lines.items():
        print(f"{'; '.join(names)}\n    {text}")
    for problem, why in found["refused"].items():
        print(f"{problem}\n    refused: {why}")


def show_programs(name: str, asked) -> None:
    """Program -> kernels -> problems."""
    print(f"== {name}")
    for stem in sorted(asked.programs):
        print(asked.programs[stem])
        uses: dict[str, list[str]] = {}
        for problem, launches in asked.problems.items():
            for launch in launches:
                if launch.program == stem:
                    uses.setdefault(f"{launch.kernel}, groups of {launch.group_size}", []).append(problem)
        for kernel, names in uses.items():
            print(f"    {kernel}: {'; '.join(dict.fromkeys(names))}")


def show_launches(target: Target, asked) -> None:
    """Problem -> kernels with their work-items, and which share of those that the device holds at once they are."""
    print(f"== {target.name} (work-items held at once: {target.items})")
    for problem, launches in asked.problems.items():
        print(problem)
        for launch in launches:
            times = f"{launch.times} times " if launch.times > 1 else ""
            print(f"    {launch.kernel}: {times}{launch.groups} groups of {launch.group_size}, "
                  f"{100 * launch.items / target.items:.3g} %")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kernel_report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="", metavar="REGEX", help="only those whose name it finds")
    parser.add_argument("--problem", action="append", default=[], metavar="EXPRESSION", dest="given",
                        help="instead of the list: a PyTorch expression such as 'torch.softmax(empty(4096, 33), 1)', "
                             "or 'backward: ...' for the gradients of what has grad=True (see problems_given.py); "
                             "again for more")
    parser.add_argument("--problem-file", type=Path, metavar="FILE", help="such expressions, one in each line")
    parser.add_argument("--random", type=int, default=0, metavar="N",
                        help="instead of the list: as many problems by chance")
    parser.add_argument("--seed", type=int, default=0, help="of --random; the first problems of a seed stay the same")
    parser.add_argument("--faults", action="store_true",
                        help="show only kernels with spills, private memory, or figures far from the committed ones of "
                             "the same kernel; usual for --random")
    parser.add_argument("--targets", default="", help=f"with commas, of {', '.join(TARGETS)}; default all")
    parser.add_argument("--quick", action="store_true",
                        help=f"only {', '.join(QUICK)}, and only programs that are not those of figures.json as their "
                             "compilers see them")
    parser.add_argument("--check", action="store_true",
                        help="fail where a kernel is worse than in figures.json: spills, private memory, "
                             "two points of share")
    parser.add_argument("--update", action="store_true",
                        help="put the figures into figures.json and docs/gpu_kernels.md")
    parser.add_argument("--anew", action="store_true",
                        help="compile what did not change as well: the reading of assembly did")
    parser.add_argument("--render", action="store_true", help="only write docs/gpu_kernels.md anew from figures.json")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures of this run")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="tables of this run")
    parser.add_argument("--list", action="store_true", help="only print the names of the problems")
    parser.add_argument("--programs", action="store_true", help="only print which programs are asked for, and by what")
    parser.add_argument("--launches", action="store_true",
                        help="only print with how many work-items kernels are launched, beside what the device holds")
    parser.add_argument("--compilers", type=Path,
                        default=os.environ.get("CLPRIM_GPU_COMPILERS", ROOT / "build/compilers"),
                        help="get_compilers.sh's folder (default: CLPRIM_GPU_COMPILERS)")
    parser.add_argument("--work", type=Path, default=ROOT / "build/kernel_report",
                        help="keeps what was compiled, so that it is not compiled again")
    options = parser.parse_args()
    if options.problem_file:
        options.given += options.problem_file.read_text().splitlines()
    if options.random:
        options.given += expressions(options.random, options.seed)
        options.faults = True
    if options.given and (options.problems or options.quick or options.check or options.update):
        parser.error("--problem and --random are not for --problems, --quick, --check and --update, "
                     "which know the list alone")
    return options


def chosen(options: argparse.Namespace) -> list[str]:
    names = [name for name in options.targets.split(",") if name] or list(QUICK if options.quick else TARGETS)
    if unknown := set(names) - set(TARGETS):
        sys.exit(f"kernel_report: no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    return names


def missing(names: list[str], compilers: Path) -> list[str]:
    """Why targets cannot be compiled for here."""
    found = []
    for name in names:
        try:
            TARGETS[name].compiler.available(compilers)
        except CompileError as error:
            found.append(f"{name}: {error}")
    return found


def run(options: argparse.Namespace, names: list[str], committed: dict) -> dict:
    elements = {problem.name: problem.element_bytes for problem in problems(options.problems, options.given)}
    report = Report(Path(options.compilers).resolve(), options.work.resolve(), options.given)
    targets = {}
    for name in names:
        if options.programs:
            show_programs(name, report.asked(TARGETS[name], options.problems))
            continue
        if options.launches:
            show_launches(TARGETS[name], report.asked(TARGETS[name], options.problems))
            continue
        known = committed.get(name) if (options.quick or options.update) and not options.anew else None
        found = targets[name] = report.target(TARGETS[name], options.problems, known)
        for problem, kernels in found["problems"].items():
            with_elements(kernels, elements[problem])
        if options.faults:
            print("\n".join(findings.listed(name, found["problems"], committed.get(name, {}))), flush=True)
        elif not (options.check or options.update):
            show(name, found)
        if options.update:   # at once: all targets take hours
            store.save(store.merge(store.load(), {name: found}))
    return targets


def main() -> None:
    options = arguments()
    if options.list:
        print("\n".join(problem.name for problem in problems(options.problems)))
        return
    if options.render:
        DOCUMENT.write_text(document(store.load()))
        return
    os.nice(10)   # a report takes hours of a processor
    names = chosen(options)
    absent = [] if options.programs or options.launches else missing(names, Path(options.compilers))
    if absent:
        text = "\n".join(f"kernel_report: {line}" for line in absent)
        if not options.quick:
            sys.exit(text)
        print(text)
        print("kernel_report: nothing was checked for these; tools/kernel_report/get_compilers.sh gets their compilers")
        names = [name for name in names if not any(line.startswith(f"{name}:") for line in absent)]
    committed = store.load()
    targets = run(options, names, committed)
    if options.json:
        options.json.write_text(json.dumps(targets, indent=1))
    if options.markdown:
        options.markdown.write_text(document(targets))
    if options.update:
        DOCUMENT.write_text(document(store.load()))
    if options.check:
        messages = store.compare(committed, targets)
        print("\n".join(messages) or f"kernel_report: nothing is worse ({', '.join(names) or 'no target'})")
        sys.exit(bool(messages))
