#!/usr/bin/env python3
"""Fails on lines beyond 120 columns, tabs, blanks at the end of a line, files without a last newline, and
variadic macros in kernels (`make check`).

tools/long_lines.txt says how many long lines the older files have; more than that is an error. `--update` writes down
where there are fewer now. `--mend` has clang-format break the long lines of C++ files, and nothing else of them.
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KNOWN = ROOT / "tools/long_lines.txt"
COLUMNS = 120
VARIADIC = re.compile(r"\s*#\s*define\s+\w+\([^)]*\.\.\.")
SUFFIXES = {".cpp", ".hpp", ".h", ".c", ".cl", ".py", ".sh", ".cmake"}


def names():
    """All files of the project; without git, what lies outside of folders that are made."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0:
        return list(filter(None, listed.stdout.decode().split("\0")))
    made = {"build", "build-core", "out", ".venv", ".git"}
    paths = (path.relative_to(ROOT) for path in sorted(ROOT.rglob("*")))
    return [path.as_posix() for path in paths if path.parts[0] not in made]


def sources():
    for name in names():
        path = ROOT / name
        if path.is_file() and (path.suffix in SUFFIXES or path.name in ("CMakeLists.txt", "Makefile")):
            yield name, path.read_text(encoding="utf-8")


def long_lines(text):
    return [number for number, line in enumerate(text.split("\n"), 1) if len(line) > COLUMNS]


def blemishes(name, text):
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield f"{name}:{number}: blanks at the end of the line"
        if "\t" in line and not name.endswith("Makefile"):
            yield f"{name}:{number}: a tab"
        if name.endswith(".cl") and VARIADIC.match(line):
            yield f"{name}:{number}: a variadic macro, which OpenCL C has not (NVIDIA's compiler refuses it)"
    if text and not text.endswith("\n"):
        yield f"{name}: no newline at the end"


def read_known():
    if not KNOWN.exists():
        return {}
    pairs = (line.split(maxsplit=1) for line in KNOWN.read_text().splitlines() if line and line[0] != "#")
    return {name: int(count) for count, name in pairs}


def write_known(counts):
    lines = [f"{count} {name}" for name, count in sorted(counts.items()) if count]
    KNOWN.write_text("# Lines beyond 120 columns by file; the numbers only fall (tools/check_style.py --update).\n"
                     + "\n".join(lines) + "\n")


def mend():
    tool = shutil.which("clang-format") or sys.exit("clang-format is not there: pip install clang-format")
    for name, text in sources():
        lines = long_lines(text) if Path(name).suffix in (".cpp", ".hpp") else []
        if lines:
            subprocess.run([tool, "-i", *[f"--lines={n}:{n}" for n in lines], name], cwd=ROOT, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write down that files have fewer long lines")
    parser.add_argument("--mend", action="store_true", help="break long lines with clang-format")
    options = parser.parse_args()
    if options.mend:
        mend()
    known, counts, errors = read_known(), {}, []
    for name, text in sources():
        lines = long_lines(text)
        counts[name] = len(lines)
        if len(lines) > known.get(name, 0) and not (options.update and not known):
            errors += [f"{name}:{n}: more than {COLUMNS} columns" for n in lines]
        errors += blemishes(name, text)
    if options.update:
        write_known(counts if not known else {name: min(count, known.get(name, 0)) for name, count in counts.items()})
    print("\n".join(errors) or f"style: {len(counts)} files are as they should be",
          file=sys.stderr if errors else sys.stdout)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
