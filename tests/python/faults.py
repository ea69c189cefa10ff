"""The layer between OpenCL's loader and a driver that makes calls fail (tests/faults/fault_layer.h)."""
from pathlib import Path

import pytest


def fault_layer():
    """Its library, for OPENCL_LAYERS in the environment of a process."""
    library = Path(__file__).parents[2] / "build" / "tests" / "libfault_layer.so"
    if not library.exists():
        pytest.skip("the layer that makes calls fail is not built: `make build`")
    return str(library)
