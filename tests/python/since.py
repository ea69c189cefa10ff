"""Tests of what older versions of PyTorch do not have."""
import pytest


def since(version, what, there):
    """Skips a test where this PyTorch has not `what`, which came with `version`."""
    return pytest.mark.skipif(not there, reason=f"PyTorch before {version} has no {what}")
