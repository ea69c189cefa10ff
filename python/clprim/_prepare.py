"""Session.prepare: the command `clprim prepare` from Python."""

from __future__ import annotations

import os
import subprocess
from typing import Mapping, Sequence

from clprim.__main__ import PROGRAM, command_environment


def prepare(model: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None, *,
            shapes: Mapping[str, Sequence[int]] | None = None, batch: int | None = None, device: str | None = None,
            processes: int | None = None, optimize: bool | str = True) -> str:
    import clprim

    model = os.fsdecode(model)
    folder = f"{model}.programs" if folder is None else os.fsdecode(folder)
    if not PROGRAM.exists():
        raise clprim.NotSupported(f"{PROGRAM} was not built (CLPRIM_BUILD_COMMAND)")
    command = [str(PROGRAM), "prepare", model, "--output", folder]
    for name, shape in (shapes or {}).items():
        command += ["--shape", f"{name}={','.join(str(int(size)) for size in shape)}"]
    if optimize is not True:
        command += ["--optimization", optimize if isinstance(optimize, str) else "all" if optimize else "none"]
    for option, value in (("--batch", batch), ("--device", device), ("--processes", processes)):
        if value is not None:
            command += [option, str(value)]
    done = subprocess.run(command, env=command_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    if done.returncode:
        raise clprim.Error(done.stderr.strip() or f"clprim prepare ended with status {done.returncode}")
    return folder
