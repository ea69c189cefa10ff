"""The command `clprim` from Python: `validate` and conversions to shorter numbers run here, everything else is the C++
program of the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from clprim._drivers import preloaded_drivers


PROGRAM = Path(__file__).parent / "bin" / "clprim"


def command_environment() -> dict[str, str]:
    environment = {**os.environ, "CLPRIM_PYTHON": os.environ.get("CLPRIM_PYTHON", sys.executable)}
    if preload := preloaded_drivers():
        environment["LD_PRELOAD"] = ":".join([*preload, *filter(None, [environment.get("LD_PRELOAD")])])
    return environment


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["validate"]:
        from clprim import validate

        return validate.main(arguments[1:])
    if arguments[:1] == ["convert"] and {"--int8", "--int4", "--fp16"} & set(arguments):
        from clprim import quantize

        return quantize.main(arguments[1:])
    if not PROGRAM.exists():
        print(f"clprim: {PROGRAM} was not built (CLPRIM_BUILD_COMMAND)", file=sys.stderr)
        return 1
    sys.stdout.flush()
    os.execve(PROGRAM, ["clprim", *arguments], command_environment())


if __name__ == "__main__":
    sys.exit(main())
