"""What of a program's text its compiler sees: macros expanded, branches chosen, comments out. Two programs of one key
compile to the same code, so a figure stays true while the key of its program does."""
from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .amd import CLANG, clang_options
from .programs import read_program
from .targets import Target

BEGIN = "clprim_program_begins"   # before the first one stand declarations of the compiler's own
DEFINED = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.M)
TOGETHER = 64   # programs that one process expands: most of its time is its start


def key(options: list[str], text: str) -> str:
    """`options` are those that are no macros, `text` is a program's after expansion."""
    return hashlib.sha256("\n".join([*options, text]).encode()).hexdigest()[:32]


def others(options: list[str]) -> tuple[str, ...]:
    return tuple(option for option in options if not option.startswith("-D"))


def definition(option: str) -> str:
    name, given, value = option.removeprefix("-D").partition("=")
    return f"#define {name} {value if given else 1}"


def expand(source: str, options: Iterable[str], target: Target) -> list[str] | None:
    """The texts after each BEGIN, or nothing where clang refuses them. Every compiler here is clang or made of it, and
    its own header is read for the macros there; Intel's has more extensions, those that the target names."""
    extensions = [f"-D{name}=1" for name in re.findall(r"\bcl_intel_\w+", target.figures)] \
        if target.vendor == "intel" else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "k.cl")
        file.write_text(source)
        done = subprocess.run([CLANG, "-E", "-P", "-x", "cl", "-Xclang", "-finclude-default-header", "-Xclang",
                               "-fdeclare-opencl-builtins", *target.compiler.machine(target), "-nogpulib",
                               *clang_options(list(options)), *extensions, "-Wno-everything", str(file)],
                              capture_output=True, text=True)
    # Blanks inside a literal are no more than those of an inline assembly.
    return None if done.returncode else [" ".join(part.split()) for part in done.stdout.split(BEGIN)[1:]]


def source_of(options: list[str], text: str, target: Target) -> str:
    """A program with its macros, which leaves none behind for the one after it."""
    whole = "\n".join([*map(definition, filter(lambda o: o.startswith("-D"), options)),
                       getattr(target.compiler, "PRELUDE", ""), text])
    return "\n".join([BEGIN, whole, *(f"#undef {name}" for name in dict.fromkeys(DEFINED.findall(whole)))])


def keys_of(paths: list[Path], options: tuple[str, ...], target: Target) -> dict[Path, str]:
    """Of programs with the same options beside macros."""
    read = {path: read_program(path) for path in paths}
    found = expand("\n".join(source_of(*read[path], target) for path in paths), options, target)
    if found is not None and len(found) == len(paths):
        return {path: key(list(options), text) for path, text in zip(paths, found)}
    if len(paths) > 1:
        return {path: one for path in paths for one in keys_of([path], options, target).values()}
    return {path: key(*read[path]) for path in paths}   # does not compile: the text as it is


def keys(paths: Iterable[Path], target: Target) -> dict[Path, str]:
    """Of many programs; the hashes in their names, which are of the text as it is, where clang is not there."""
    if not shutil.which(CLANG):
        return {path: path.stem.rsplit("-", 1)[1] for path in paths}
    alike: dict[tuple[str, ...], list[Path]] = {}
    for path in paths:
        alike.setdefault(others(read_program(path)[0]), []).append(path)
    parts = [(found[at:at + TOGETHER], options) for options, found in alike.items()
             for at in range(0, len(found), TOGETHER)]
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as threads:
        done = threads.map(lambda part: keys_of(*part, target), parts)
        return {path: one for each in done for path, one in each.items()}
