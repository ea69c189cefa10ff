"""tools/kernel_report: which figures stay true while texts change, and problems drawn by chance."""
import shutil
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from kernel_report import (  # noqa: E402
    amd, findings, preprocess, problems_given, problems_random, report, targets,
)
from kernel_report.programs import Launch  # noqa: E402

A_KERNEL = {"kernel": "k_cl:f", "program": "k_cl-0123abcd", "group_size": 64, "groups": 9, "spill_bytes": 0,
            "private_bytes": 0, "local_bytes": 0, "fmas": 50, "share": 50.0}


def of_one_problem(*kernels):
    return {"problems": {"gemm: a": list(kernels)}}


def a_program(folder, name, text, options=""):
    file = folder / f"{name}.cl"
    file.write_text(f"// -cl-std=CL3.0 {options}\n{text}")
    return file


@pytest.mark.skipif(not shutil.which(amd.CLANG), reason="needs the clang that GPU figures are made by")
@pytest.mark.parametrize("target", ["bmg-g21", "gfx90a", "sm_86"])
def test_keys_are_of_what_a_compiler_sees(tmp_path, target):
    """Not of comments, blanks and what is left out; of macros, options and the branch that this target takes."""
    text = "#define SIZE 4\n#ifdef X\n/* x */ float f(float a) { return a * SIZE; }\n#else\nint g;\n#endif\n"
    files = {
        "text": a_program(tmp_path, "text", text, "-DX=1"),
        "comment": a_program(tmp_path, "comment", text.replace("/* x */", "// y\n\n"), "-DX=1"),
        "left_out": a_program(tmp_path, "left_out", text.replace("int g", "int h"), "-DX=2 -DUNUSED"),
        "macro": a_program(tmp_path, "macro", text.replace("SIZE 4", "SIZE 8"), "-DX=1"),
        "branch": a_program(tmp_path, "branch", text),
        "option": a_program(tmp_path, "option", text, "-DX=1 -cl-intel-256-GRF-per-thread"),
        "broken": a_program(tmp_path, "broken", text + "#error no\n", "-DX=1"),
    }
    together = preprocess.keys(files.values(), targets.TARGETS[target])
    found = {name: preprocess.keys([file], targets.TARGETS[target])[file] for name, file in files.items()}
    assert found == {name: together[file] for name, file in files.items()}, "a program depends on those beside it"
    assert found["text"] == found["comment"] == found["left_out"]
    assert len(set(found.values())) == 5


@pytest.mark.skipif(not shutil.which(amd.CLANG), reason="needs the clang that GPU figures are made by")
def test_keys_know_what_targets_define(tmp_path):
    def key(target, name):
        return preprocess.keys([a_program(tmp_path, "k", f"#ifdef {name}\nint a;\n#endif\n")], targets.TARGETS[target])
    assert key("gfx90a", "__gfx90a__") != key("gfx90a", "__gfx1100__")
    assert key("bmg-g21", "cl_intel_subgroups") != key("bmg-g21", "cl_intel_no_such_thing")


def test_figures_that_are_taken_again():
    """By program, kernel and group size; not where local memory differs between launches."""
    one, other = A_KERNEL, A_KERNEL | {"local_bytes": 64, "group_size": 128}
    found = report.reusable(of_one_problem(one, other))
    assert report.place(Launch("k_cl-0123abcd", "f", 64, 0, 4)) in found
    assert set(found) == set(report.reusable(of_one_problem(one, other, {"kernel": "k_cl:f", "error": "bad"})))
    assert not report.reusable(of_one_problem(one, A_KERNEL | {"local_bytes": 64}))


def test_random_problems():
    """The same of a seed, each an expression, every family among them."""
    some = problems_random.expressions(2 * len(problems_random.FAMILIES), 3)
    assert some[:10] == problems_random.expressions(10, 3) != problems_random.expressions(10, 4)
    assert [each.name for each in problems_given.problems(some)] == some


def test_faults():
    committed = of_one_problem(*(A_KERNEL | {"share": share} for share in (40.0, 50.0, 60.0)))
    found = {"a": [A_KERNEL | {"share": 20.0, "spill_bytes": 8}], "b": [A_KERNEL | {"share": 45.0}]}
    shown = findings.listed("sm_86", found, committed)
    assert [line.split(": ", 1)[1].splitlines()[0] for line in shown] == [
        "share 20.0 %, usually 50.0 %", "spills 8 bytes"]
    assert all(line.endswith("\n    a") for line in shown)
