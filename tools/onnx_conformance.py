#!/usr/bin/env python
"""Runs ONNX's own backend tests (onnx.backend.test) on clprim and says which pass, by operator, and why others do not.

    tools/onnx_conformance.py                        # all tests: node, simple, PyTorch's, whole models
    tools/onnx_conformance.py 'softmax|gelu'         # those whose name matches
    tools/onnx_conformance.py --onnxruntime --markdown docs/onnx_conformance.md

The tests for CUDA are left out: they are the same models.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import io
import json
import os
import re
import sys
import tempfile
import time
import unittest
import warnings
from dataclasses import dataclass


@dataclass
class Outcome:
    name: str
    operator: str
    passed: bool
    reason: str = ""       # few words, the same for tests that fail alike
    message: str = ""      # the whole error
    seconds: float = 0.0


def load_suite(backend):
    """The tests of a backend by name; those for CUDA are left out."""
    # Whole models are written below this folder, next to their expected outputs.
    os.environ.setdefault("ONNX_HOME", os.path.join(tempfile.gettempdir(), "clprim-onnx-models"))
    from onnx.backend.test import BackendTest

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        classes = BackendTest(backend, __name__).test_cases
    tests = {}
    for kind in classes.values():
        for name in unittest.defaultTestLoader.getTestCaseNames(kind):
            if not name.endswith("_cuda"):
                tests[name.removesuffix("_cpu")] = kind(name)
    return tests


def operators():
    """By test: the operator that it is about, or the kind of model."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    result = {}
    for case in load_model_tests(kind="node"):
        node = next((n for n in case.model.graph.node if n.op_type != "Constant"), case.model.graph.node[0])
        domain = node.domain.removeprefix("ai.onnx").strip(".")
        result[case.name] = f"{domain}.{node.op_type}" if domain else node.op_type
    for name in list(result):      # the same operator written out as a function's body
        base = re.sub(r"_expanded.*$", "", name)
        if base != name and base in result:
            result[name] = result[base]
    for kind in ("real", "simple", "pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(kind=kind):
            result[case.name] = f"({kind})"
    return result


def reason_of(error):
    """Few words for an exception, without the numbers of the one case."""
    text = str(error).strip() or type(error).__name__
    if found := re.search(r"operators that clprim lacks: (.*)", text):
        return "lacks " + ", ".join(re.findall(r"([\w.]+) \(\d+\)", found[1]))
    if isinstance(error, AssertionError):
        if "incorrect shape" in text:
            return "wrong shape"
        return "wrong values" if "Not equal to tolerance" in text or "not equal" in text.lower() else "wrong kind of output"
    first = re.sub(r"'[^']*'", "'..'", text.splitlines()[0])
    first = re.sub(r"\[[^\]]*\]", "[..]", re.sub(r"-?\d+(\.\d+)?", "N", first))
    return f"{type(error).__name__}: {first}"[:150]


def clprim_backend():
    from clprim import onnx_backend

    class Backend(onnx_backend.ClprimBackend):
        """Tries every model, so that it is said what a model lacks; the suite skips incompatible ones."""

        @classmethod
        def is_compatible(cls, model, device="CPU", **kwargs):
            return True

    return Backend


def run_test(test):
    """None if it passed, else the exception."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            getattr(test, test._testMethodName)()
        except Exception as error:      # a test may fail in any way
            return error
    return None


def run_suite(backend, pattern="", progress=None):
    suite, about = load_suite(backend), operators()
    chosen = [name for name in sorted(suite) if re.search(pattern, name)]
    outcomes = []
    for index, name in enumerate(chosen):
        begin = time.perf_counter()
        error = run_test(suite[name])
        outcomes.append(Outcome(name, about.get(name, "?"), error is None, reason_of(error) if error else "",
                                str(error) if error else "", time.perf_counter() - begin))
        if progress:
            progress(index + 1, len(chosen), outcomes)
    return outcomes


def show_progress(done, total, outcomes):
    if done == total or done % 20 == 0:
        passed = sum(outcome.passed for outcome in outcomes)
        print(f"\r{done}/{total} run, {passed} passed", end="\n" if done == total else "", file=sys.stderr, flush=True)


def by_operator(outcomes):
    table = collections.defaultdict(list)
    for outcome in outcomes:
        table[outcome.operator].append(outcome)
    return dict(sorted(table.items()))


def by_reason(outcomes):
    return collections.Counter(outcome.reason for outcome in outcomes if not outcome.passed).most_common()


def markdown(outcomes, reference):
    import onnx

    passed = sum(outcome.passed for outcome in outcomes)
    lines = ["# ONNX conformance", "", "Written by `tools/onnx_conformance.py --onnxruntime --markdown "
             f"docs/onnx_conformance.md`. The backend tests of onnx {onnx.__version__} without those for CUDA: "
             f"**{passed} of {len(outcomes)} pass**."]
    if reference:
        import onnxruntime

        theirs = sum(reference.values())
        both = sum(reference[outcome.name] and outcome.passed for outcome in outcomes)
        lines.append(f"ONNX Runtime {onnxruntime.__version__} on the CPU passes {theirs} of them, {both} of which clprim "
                     "passes too.")
    lines += ["", "| operator | pass | of |" + (" ONNX Runtime |" if reference else "") + " others fail because |",
              "|---|---|---|" + ("---|" if reference else "") + "---|"]
    for operator, tests in by_operator(outcomes).items():
        cells = [operator, str(sum(test.passed for test in tests)), str(len(tests))]
        if reference:
            cells.append(str(sum(reference[test.name] for test in tests)))
        cells.append("; ".join(f"{reason} ({count})" for reason, count in by_reason(tests)).replace("|", "\\|"))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def known_failures(outcomes):
    """Names by reason, as tests/python/test_onnx_backend.py reads them."""
    lines = ["# Tests of onnx.backend.test that clprim fails, by reason; all others must pass.",
             "# Written by tools/onnx_conformance.py --known tests/python/onnx_known_failures.txt"]
    for reason, _ in by_reason(outcomes):
        lines += ["", f"# {reason}"]
        lines += [outcome.name for outcome in outcomes if not outcome.passed and outcome.reason == reason]
    return "\n".join(lines) + "\n"


def print_table(outcomes, reference, verbose):
    for operator, tests in by_operator(outcomes).items():
        failed = [test for test in tests if not test.passed]
        theirs = f"  ORT {sum(reference[test.name] for test in tests):3}" if reference else ""
        why = "; ".join(f"{reason} ({count})" for reason, count in by_reason(tests))
        print(f"{operator:32} {len(tests) - len(failed):4} of {len(tests):4}{theirs}  {why}")
        for test in failed if verbose else ():
            print(f"    {test.name}: {test.message}")
    print("\nReasons:")
    for reason, count in by_reason(outcomes):
        print(f"{count:5}  {reason}")
    print(f"\n{sum(outcome.passed for outcome in outcomes)} of {len(outcomes)} pass")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("pattern", nargs="?", default="", help="regular expression for names of tests (default: all)")
    parser.add_argument("--onnxruntime", action="store_true", help="run ONNX Runtime's CPU provider as well")
    parser.add_argument("--json", metavar="FILE", help="write every outcome there")
    parser.add_argument("--markdown", metavar="FILE", help="write the table of operators there")
    parser.add_argument("--known", metavar="FILE", help="write the list of failing tests there")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the error of every test that fails")
    options = parser.parse_args()
    faulthandler.enable()

    outcomes = run_suite(clprim_backend(), options.pattern, show_progress)
    reference = {}
    if options.onnxruntime:
        from onnxruntime import backend

        reference = {outcome.name: outcome.passed for outcome in run_suite(backend, options.pattern, show_progress)}
    print_table(outcomes, reference, options.verbose)
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{**vars(outcome), "onnxruntime": reference.get(outcome.name)} for outcome in outcomes], file,
                      indent=1)
    if options.markdown:
        with open(options.markdown, "w") as file:
            file.write(markdown(outcomes, reference))
    if options.known:
        with open(options.known, "w") as file:
            file.write(known_failures(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
