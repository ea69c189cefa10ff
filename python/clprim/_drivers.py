"""Finds the OpenCL drivers before anything links libOpenCL."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path


def prepare_opencl_loader() -> None:
    """Lets Intel's CPU runtime from PyPI (intel-opencl-rt) be found beside the system's drivers.

    The wheel brings the Khronos loader, which adds the libraries in OCL_ICD_FILENAMES to the system's drivers. Debian's
    loader does not, so the wheel's own has to be the one in this process, and it must come before anything that links
    libOpenCL. A user who chose drivers with OCL_ICD_VENDORS or OCL_ICD_FILENAMES has the last word.
    """
    folder = _wheel_folder()
    if folder is None or os.environ.get("OCL_ICD_VENDORS"):
        return
    runtime = str(folder / "libintelocl.so")
    # A child process inherits what its parent set here, and needs the loader as well.
    if os.environ.get("OCL_ICD_FILENAMES") not in (None, "", runtime):
        return
    try:
        for library in _libraries(folder):
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return
    os.environ["OCL_ICD_FILENAMES"] = runtime


def preloaded_drivers() -> list[str]:
    """What a program that links libOpenCL has to preload to see the same drivers as this process."""
    folder = _wheel_folder()
    if folder is None or os.environ.get("OCL_ICD_FILENAMES") != str(folder / "libintelocl.so"):
        return []
    return _libraries(folder)


def _libraries(folder: Path) -> list[str]:
    # The runtime has no run path: its own libraries have to be there first.
    names = ("libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so")
    return [str(folder / name) for name in names if (folder / name).exists()] + [str(folder / "libOpenCL.so.1")]


def _wheel_folder() -> Path | None:
    """The folder with libintelocl.so and libOpenCL.so.1 of the wheels, which pip puts into <prefix>/lib."""
    prefixes = [Path(sys.prefix), Path(sys.base_prefix)]
    prefixes += [Path(path).parents[2] for path in sys.path if path.endswith("-packages") and len(Path(path).parts) > 3]
    for prefix in prefixes:
        folder = prefix / "lib"
        if (folder / "libintelocl.so").exists() and (folder / "libOpenCL.so.1").exists():
            return folder
    return None
