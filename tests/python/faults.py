"""What makes OpenCL fail in a process: the layer between its loader and a driver that makes calls fail
(tests/faults/fault_layer.h), and a driver whose compiler is broken (tests/faults/broken_driver.c)."""
from pathlib import Path

import pytest


def built(name):
    library = Path(__file__).parents[2] / "build" / "tests" / name
    if not library.exists():
        pytest.skip(f"{name}, which makes calls fail, is not built: `make build`")
    return str(library)


def fault_layer():
    """Its library, for OPENCL_LAYERS in the environment of a process."""
    return built("libfault_layer.so")


def broken_driver():
    """Its library, for OCL_ICD_VENDORS in the environment of a process."""
    return built("libbroken_driver.so")
