"""ONNX's own backend tests, one test here for each operator.

onnx_known_failures.txt lists those that fail, by reason. A test that fails and is not listed fails here, and so does
one that is listed and passes: then write the list anew with `tools/onnx_conformance.py --known`.
"""
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import onnx_conformance as conformance

KNOWN_FAILURES = {line for line in (Path(__file__).parent / "onnx_known_failures.txt").read_text().split("\n")
                  if line and not line.startswith("#")}
SUITE = conformance.load_suite(conformance.clprim_backend())
ABOUT = conformance.operators()
OPERATORS = sorted({ABOUT.get(name, "?") for name in SUITE})


def test_the_suite_is_whole():
    assert len(SUITE) > 1900
    assert not KNOWN_FAILURES - set(SUITE), "tests that the suite lacks"


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator(operator):
    names = [name for name in SUITE if ABOUT.get(name, "?") == operator]
    errors = {name: conformance.run_test(SUITE[name]) for name in names}
    failing = {name for name, error in errors.items() if error is not None}
    known = KNOWN_FAILURES & set(names)
    new = "\n".join(f"{name}: {errors[name]}" for name in sorted(failing - known))
    assert not new, f"tests that used to pass fail:\n{new}"
    if operator != "Bernoulli":     # whose ten random bits are now and then those of the file
        assert not known - failing, "these pass now: write onnx_known_failures.txt anew"
