#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy over src/core, or over the files and folders that are named (`make
lint`). It needs a configured build, not a built one.

    tools/lint.py [--build build] [--jobs 2] [PATH]...
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Of precompiled headers, which no other compiler than theirs can read; what they hold is included by name as well.
PRECOMPILED = {"-Winvalid-pch", "-fpch-preprocess", "-fno-pch-timestamp"}


def plain(arguments):
    """A compile command without ccache and precompiled headers."""
    compiler = next(i for i, argument in enumerate(arguments) if "++" in Path(argument).name)
    words, rest = [], iter(arguments[compiler:])
    for word in rest:
        option = (word, next(rest)) if word == "-Xclang" else (word,)
        if option[-1] == "-include-pch":
            next(rest), next(rest)      # -Xclang FILE
        elif option[-1] not in PRECOMPILED:
            words += option
    return words


def write_commands(build, folder):
    """The compile commands as clang-tidy takes them; returns the files that they are for."""
    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text())
               if entry["file"].endswith(".cpp")]
    for entry in entries:
        entry["arguments"] = plain(shlex.split(entry.pop("command")))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return sorted({Path(entry["directory"], entry["file"]).resolve() for entry in entries})


def lint(tool, commands, file):
    done = subprocess.run([tool, "--quiet", "-p", commands, file], cwd=ROOT, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode and not lines:
        lines = done.stderr.splitlines()
    return done.returncode, "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / "src/core"])
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    tool = shutil.which("clang-tidy", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if not tool:
        sys.exit("clang-tidy is not there: pip install -r tools/requirements-lint.txt")
    commands = ROOT / "out/lint"
    wanted = [path.resolve() for path in options.paths]
    files = [file for file in write_commands(options.build.resolve(), commands)
             if any(file == path or path in file.parents for path in wanted)]
    if not files:
        sys.exit("no file of the build lies there")
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda file: lint(tool, commands, file), files))
    for _, text in results:
        if text:
            print(text)
    failed = sum(code != 0 for code, _ in results)
    print(f"lint: {failed} of {len(files)} files have findings" if failed else f"lint: {len(files)} files are clean")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
