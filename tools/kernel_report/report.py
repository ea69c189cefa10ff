"""From targets and problems to figures: asks, compiles what is new, reads."""
from __future__ import annotations

import gzip
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from .compiler import CompileError
from .figures import analyse, per_element
from .preprocess import keys
from .programs import Asked, Launch, ask, read_program
from .targets import Target, resident_groups


class Report:
    """Figures of targets. `work` keeps programs and what compilers made of them, so that nothing is compiled twice."""

    def __init__(self, tools: Path, work: Path, given: Sequence[str] = ()):
        """`given`: expressions instead of the problems of the list."""
        self.tools, self.work, self.given = tools, work, given
        self.keys: dict[Path, str] = {}

    def outputs(self, path: Path, target: Target, version: str) -> dict[str, str]:
        options, text = read_program(path)
        compiler = re.sub(r"[^\w.]+", "-", version)
        kept = self.work / "compiled" / f"{target.name}-{compiler}-{self.keys[path]}.json.gz"
        if kept.exists():
            return json.loads(gzip.decompress(kept.read_bytes()))
        with tempfile.TemporaryDirectory() as folder:
            try:
                made = target.compiler.build(text, options, target, self.tools, Path(folder))
            except CompileError as error:
                made = {"error": str(error)}
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside = kept.with_suffix(f".{os.getpid()}-{threading.get_ident()}.aside")
        aside.write_bytes(gzip.compress(json.dumps(made).encode(), 3))
        aside.rename(kept)
        return made

    def program(self, path: Path, target: Target, version: str) -> dict:
        """Figures of every kernel, or {"error": ...}."""
        made = self.outputs(path, target, version)
        if "error" in made:
            return made
        return {name: analyse(kernel) for name, kernel in target.compiler.read(made, target).items()}

    def asked(self, target: Target, pattern: str) -> Asked:
        """Programs named by what compilers see of them instead of their whole text; those that look alike are one."""
        found = ask(target.figures, pattern, self.work / "programs" / target.name, target.engine, self.given)
        self.keys |= keys(found.programs.values(), target)
        names = {stem: f"{stem.rsplit('-', 1)[0]}-{self.keys[path][:8]}" for stem, path in found.programs.items()}
        problems = {name: [replace(launch, program=names.get(launch.program, launch.program)) for launch in launches]
                    for name, launches in found.problems.items()}
        return Asked({names[stem]: path for stem, path in found.programs.items()}, problems, found.refused)

    def target(self, target: Target, pattern: str, committed: dict | None = None) -> dict:
        """Everything about one target: compiler, problems with their kernels, what was refused. Of `committed` figures
        those of the same programs and compiler are taken, marked unchanged, and nothing is compiled for them."""
        version = target.compiler.version(self.tools)
        asked = self.asked(target, pattern)
        known = reusable(committed) if committed and committed["compiler"] == version else {}
        new = {launch.program for launches in asked.problems.values() for launch in launches
               if launch.program in asked.programs and place(launch) not in known}
        programs = self.programs({stem: asked.programs[stem] for stem in new}, target, version)
        problems = {name: [self.launch(launch, programs[launch.program], target) if launch.program in programs else
                           known.get(place(launch), unmeasured(launch)) | {"groups": launch.groups, "unchanged": True}
                           for launch in launches] for name, launches in asked.problems.items()}
        return {"compiler": version, "problems": problems, "refused": asked.refused}

    def programs(self, paths: dict[str, Path], target: Target, version: str) -> dict[str, dict]:
        """Figures of many programs. Compilers are processes of their own, one for each processor."""
        def figures(stem: str) -> dict:
            progress(f"{target.name}: {len(paths)} programs, {stem}")
            return self.program(paths[stem], target, version)

        stems = sorted(paths)
        with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as threads:
            found = dict(zip(stems, threads.map(figures, stems)))
        progress("")
        return found

    def launch(self, launch: Launch, program: dict, target: Target) -> dict:
        """One kernel of a problem."""
        entry = unmeasured(launch)
        if "error" in program:
            return entry | {"error": program["error"]}
        figures = dict(program[launch.kernel])
        if launch.group_size:
            groups = resident_groups(target, figures, launch.group_size, launch.local_argument)
            threads = groups * -(-launch.group_size // max(1, figures["simd"]))
            figures["resident_groups"] = groups
            figures["occupancy"] = round(100 * threads / target.threads)
        figures["local_bytes"] += launch.local_argument
        return entry | {"group_size": launch.group_size, "groups": launch.groups} | figures


def unmeasured(launch: Launch) -> dict:
    return {"kernel": launch.key, "program": launch.program}


def place(launch: Launch) -> tuple:
    return launch.program, launch.key, launch.group_size


def reusable(committed: dict) -> dict[tuple, dict]:
    """Committed figures by program, kernel and group size; not those that differ by local memory as well."""
    found: dict[tuple, dict] = {}
    several = set()
    for kernel in (kernel for kernels in committed["problems"].values() for kernel in kernels if "error" not in kernel):
        key = kernel["program"], kernel["kernel"], kernel.get("group_size", 0)
        if found.setdefault(key, kernel).get("local_bytes") != kernel.get("local_bytes"):
            several.add(key)
    return {key: kernel for key, kernel in found.items() if key not in several}


def with_elements(kernels: list[dict], element_bytes: int | None) -> None:
    """Adds instructions for each element, of problems that memory limits."""
    for kernel in kernels:
        kernel.pop("instructions_per_element", None)    # of another problem, whose figures were taken over
        count = per_element(kernel, element_bytes) if element_bytes is not None and "issued" in kernel else None
        if count is not None:
            kernel["instructions_per_element"] = count


def progress(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line[:110]}", end="", file=sys.stderr, flush=True)
