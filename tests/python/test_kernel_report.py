"""tools/kernel_report: devices, problems, how figures are kept, compared and shown; no compiler is needed."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from kernel_report import problems_given, programs, store, table, targets  # noqa: E402
from kernel_report.problems import problems  # noqa: E402
from kernel_report.programs import Launch, distinct  # noqa: E402

pytestmark = pytest.mark.tool


@pytest.mark.parametrize("target, cores, items", [("bmg-g21", 20, 20480), ("tgllp", 6, 10752), ("dg2-g10", 32, 65536),
                                                   ("gfx942", 304, 622592), ("sm_90", 132, 270336)])
def test_items_of_a_device(target, cores, items):
    assert (targets.TARGETS[target].cores, targets.TARGETS[target].items) == (cores, items)


@pytest.mark.parametrize("target, registers, simd, local, group, expected", [
    ("sm_86", 128, 32, 0, 256, 2), ("sm_86", 32, 32, 49152, 256, 2), ("sm_86", 255, 32, 0, 512, 0),
    ("sm_75", 64, 32, 0, 1024, 1), ("gfx1100", 142, 32, 0, 256, 5), ("gfx1100", 100, 32, 0, 256, 6),
    ("gfx1100", 32, 32, 0, 32, 64), ("gfx90a", 130, 64, 0, 256, 3), ("bmg-g21", 128, 16, 0, 256, 4),
    ("bmg-g21", 256, 16, 0, 256, 2), ("bmg-g21", 128, 32, 65536, 256, 2)])
def test_resident_groups(target, registers, simd, local, group, expected):
    found = {"registers": registers, "simd": simd, "local_bytes": local}
    assert targets.resident_groups(targets.TARGETS[target], found, group, 0) == expected


def test_launches_of_a_problem():
    lines = ["k_cl-0123abcd f 64x1x1 64x1x1 0", "k_cl-0123abcd f 128x2x1 64x1x1 0", "k_cl-0123abcd f 64x1x1 64x1x1 256",
             "k_cl-0123abcd g 100x1x1 0x0x0 0"]
    found = distinct(lines)
    assert found == [Launch("k_cl-0123abcd", "f", 64, 0, 4, 256, times=2), Launch("k_cl-0123abcd", "f", 64, 256, 1, 64),
                     Launch("k_cl-0123abcd", "g", 0, 0, 0, 100)]
    assert found[0].key == "k_cl:f"


def a_kernel(**changes):
    return {"kernel": "k_cl:f", "program": "k_cl-0123abcd", "group_size": 64, "groups": 9, "registers": 64, "simd": 32,
            "spill_bytes": 0, "private_bytes": 0, "local_bytes": 0, "issued": 100, "fmas": 50, "share": 50.0,
            "around_share": 40.0, "loaded_bytes": 8, "stored_bytes": 0, "loads_in_flight": 1} | changes


def of_target(*kernels, refused=()):
    return {"sm_86": {"compiler": "c", "problems": {"gemm: a": list(kernels)} if kernels else {},
                      "refused": {name: "why" for name in refused}}}


@pytest.mark.parametrize("new, complaint", [
    (a_kernel(), None), (a_kernel(share=48.1, registers=90), None), (a_kernel(share=47.9), "share: 47.9 %, was 50.0 %"),
    (a_kernel(around_share=37.0), "share with the loop around: 37.0 %, was 40.0 %"),
    (a_kernel(around_share=37.0, fmas=40), None),   # less unrolled: the loop around counts more
    (a_kernel(spill_bytes=4), "spills: 4 bytes, was 0"),
    (a_kernel(private_bytes=16), "private memory: 16 bytes, was 0"),
    (a_kernel(kernel="other_cl:g", share=40.0), "share: 40.0 %, was 50.0 %"),
    ({"kernel": "k_cl:f", "program": "p", "error": "no such builtin"}, "does not compile: no such builtin"),
    ({"kernel": "k_cl:f", "program": "p", "unchanged": True}, None)])
def test_comparison(new, complaint):
    messages = store.compare(of_target(a_kernel()), of_target(new))
    assert [complaint in message for message in messages] == ([True] if complaint else [])


def test_comparison_of_what_is_new_or_refused():
    assert store.compare({}, of_target(a_kernel())) == []
    assert "spills" in store.compare({}, of_target(a_kernel(spill_bytes=8)))[0]
    assert "refused: why" in store.compare(of_target(a_kernel()), of_target(refused=["gemm: a"]))[0]
    helper = a_kernel(kernel="k_cl:helper", fmas=0, share=0.0)
    assert store.compare(of_target(a_kernel()), of_target(a_kernel(), helper)) == []


def test_store(tmp_path):
    """What is written is read again, and a run of some problems leaves the others."""
    kernels = [a_kernel(instructions_per_element=2.5), {"kernel": "k_cl:g", "program": "k_cl-1", "error": "bad"}]
    store.save(of_target(*kernels), tmp_path / "figures.json")
    read = store.load(tmp_path / "figures.json")
    assert read["sm_86"]["problems"]["gemm: a"] == kernels
    other = {"sm_86": {"compiler": "d", "problems": {"gemm: b": [a_kernel()]}, "refused": {}}}
    assert set(store.merge(read, other)["sm_86"]["problems"]) == {"gemm: a", "gemm: b"}
    assert store.merge(read, of_target(refused=["gemm: a"]))["sm_86"]["problems"] == {}


def test_tables():
    found = of_target(a_kernel(spill_bytes=4), a_kernel(kernel="k_cl:small", fmas=5, share=90.0))
    found["sm_86"]["problems"]["gemm: b"] = found["sm_86"]["problems"]["gemm: a"]
    text = table.document(found)
    assert "| a\\|b | 50 (40) % **s** |" in text
    assert "sm_86 (GeForce RTX 3080)" in text
    assert table.merged(["x NN 1", "x NT 1"]) == "x NN\\|NT 1"
    assert table.merged(["x NN 1", "x NT 2"]) == "x NN 1<br>x NT 2"
    assert table.merged(["x, a", "y, a"]) == "x\\|y, a"
    assert table.merged(["x a 1", "y a", "x b 1", "x a 2", "x b 2"]) == "x a\\|b 1\\|2<br>y a"


def test_committed_figures():
    """The document is that of figures.json, which has every problem for the targets of a quick check."""
    committed = store.load()
    assert (TOOLS.parent / "docs/gpu_kernels.md").read_text() == table.document(committed), "run kernel_report --render"
    names = [problem.name for problem in problems()]
    assert len(names) == len(set(names))
    for target in targets.QUICK:
        assert set(committed[target]["problems"]) | set(committed[target]["refused"]) == set(names), "run --update"


# For CPUs; of the last resort (reference); parts of programs that are put together for each operator.
NOT_ASKED = {f"kernels/{name}.cl" for name in (
    "attention/reference", "conv/reference", "gemm/cpu_amx", "gemm/cpu_dot", "gemm/cpu_packed",
    "integer/add", "integer/conv_cpu", "integer/conv_depthwise",
    "integer/conv_depthwise_rows", "integer/conv_depthwise_vnni", "integer/cpu", "integer/few_rows", "narrow/narrow",
    "pointwise/airy", "pointwise/bessel", "pointwise/distributions", "pointwise/gamma", "pointwise/geometry",
    "pointwise/incomplete_gamma", "pointwise/math", "pointwise/pointwise", "pointwise/special",
    "recurrent/recurrent_cpu", "recurrent/recurrent_pack", "recurrent/recurrent_project", "recurrent/recurrent_walk",
    "reduce/merge", "reduce/reduce")}


def test_every_program_of_gpus_has_a_problem():
    """What C++ names and no CPU is meant by is reached by a problem of the list."""
    named = {name for file in (TOOLS.parent / "src").rglob("*.cpp")
             for name in re.findall(r'"(kernels/[\w/]+\.cl)"', file.read_text())}
    asked = {name for name in named if not re.search(r"/cpu(_\w+)?\.cl$", name)} - NOT_ASKED
    reached = {kernel["program"].rsplit("-", 1)[0] for found in store.load().values()
               for kernels in found["problems"].values() for kernel in kernels}
    assert {name for name in asked if re.sub(r"\W", "_", name) not in reached} == set()
    assert NOT_ASKED <= named


def test_given_problems():
    """Expressions of the command line and what they are measured by."""
    given = list(problems_given.problems(["", "# a comment", "  empty(3, dtype='float16') + 1  ",
                                          "backward: torch.exp(empty(4, dtype=torch.float64, grad=True))", "empty(2)"]))
    assert [(each.name, each.element_bytes) for each in given] == [
        ("empty(3, dtype='float16') + 1", 2), ("backward: torch.exp(empty(4, dtype=torch.float64, grad=True))", 8),
        ("empty(2)", 4)]
    with pytest.raises(SyntaxError):
        problems_given.problem("empty(3")


@pytest.mark.long
def test_given_problems_run_dry(tmp_path):
    """Forward without, backward with gradients; what PyTorch refuses is told."""
    asked = programs.ask(targets.TARGETS["bmg-g21"].figures, "", tmp_path, given=[
        "torch.exp(empty(1000))", "backward: torch.softmax(empty(50, 33, grad=True), 1)", "backward: empty(3)",
        "empty(3) @ empty(4)", "compiled(lambda x: torch.exp(x) + 1, empty(1000))",
        "backward: compiled(lambda x: torch.exp(x) * 2, empty(1000, grad=True))"])
    kernels = {name: [launch.kernel for launch in launches] for name, launches in asked.problems.items()}
    assert len(kernels["torch.exp(empty(1000))"]) == 1
    assert [name for problem, names in kernels.items() if "compiled" in problem for name in names] == [
        "ocl_fused_add_exp", "ocl_fused_exp_mul"]
    assert all("backward" in kernel for kernel in kernels["backward: torch.softmax(empty(50, 33, grad=True), 1)"])
    assert asked.refused["backward: empty(3)"] == "backward: no tensor of the expression has grad=True"
    assert "inconsistent tensor size" in asked.refused["empty(3) @ empty(4)"]


def test_quick_check_without_compilers(tmp_path):
    """A plain message and no failure."""
    def check(*options):
        return subprocess.run([sys.executable, TOOLS / "kernel_report", "--check", "--compilers", tmp_path, *options],
                              env=os.environ | {"PATH": ""}, capture_output=True, text=True)
    done = check("--quick")
    assert done.returncode == 0, done.stderr
    assert "bmg-g21: ocloc is not there" in done.stdout and "nothing was checked" in done.stdout
    done = check("--targets", "sm_86")
    assert done.returncode == 1 and "clang-19" in done.stderr
