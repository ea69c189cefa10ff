"""Running a compiler."""
from __future__ import annotations

import subprocess
from pathlib import Path


class CompileError(Exception):
    pass


def command(arguments: list[str], folder: Path) -> str:
    """What it prints."""
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, errors="replace")
    output = done.stdout + done.stderr
    if done.returncode:
        errors = [line for line in output.splitlines() if "error" in line.lower()]
        raise CompileError((errors or output.strip().splitlines() or [f"exit status {done.returncode}"])[0][:300])
    return output
