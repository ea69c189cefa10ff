"""tools/kernel_report: what it reads from assembly, by small samples of each vendor's; no compiler is needed."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from kernel_report import (  # noqa: E402
    amd, figures, flow, intel, nvidia, problems_given, programs, store, table, targets,
)
from kernel_report.problems import problems  # noqa: E402
from kernel_report.programs import Launch, distinct  # noqa: E402

pytestmark = pytest.mark.tool

ZE_INFO = """\
version:         '1.73'
kernels:
  - name:            multiply
    execution_env:
      grf_count:       256
      simd_size:       16
      slm_size:        8704
      spill_size:      640
      private_size:    96
      eu_thread_count: 4
  - name:            Intel_Symbol_Table_Void_Program
    execution_env:
      grf_count:       128
      simd_size:       16
kernels_misc_info:
  - name:            multiply
"""

INTEL = """\
L0:
(W)     send.ugm (1|M0) r1 r127 null:0 0xFF000000 0x6229E500 {$0} // wr:1+0, rd:2; load.ugm.d32x32t.a32.ca.cc.bti[255]
        sync.nop                             null                             {Compacted,A@1}
L64:
        send.ugm (16|M0) r112 r104 null:0 0x0 0x04403580 {$4} // wr:2+0, rd:4; load.ugm.d32x4.a64
        send.ugm (16|M0) r20 r16 null:0 0x0 0x04403580 {$5} // wr:2+0, rd:1; load.ugm.d16u32.a64
        send.slm (16|M0) r35 r5 null:0 0x0 0x02403500 {$15} // wr:1+0, rd:4; load.slm.d32x4.a32
        mad (16|M0)              r50.0<1>:f    r50.0<1;0>:f      r35.0<1;0>:f      r36.0<1>:f       {$15.dst}
        mad (16|M0)              r51.0<1>:f    r51.0<1;0>:f      r35.0<1;0>:f      r37.0<1>:f       {Compacted}
        mad (16|M0)              r52.0<1>:f    r52.0<1;0>:f      r35.0<1;0>:f      r38.0<1>:f       {Compacted}
(W)     mad (1|M0)               r127.0<1>:ud  r127.2<0;0>:ud    r127.0<0;0>:uw    0x80:uw              {I@1}
        mad (16|M0)              r53.0<1>:f    r53.0<1;0>:f      r114.0<1;0>:f     r38.0<1>:f       {$4.dst}
        mov (16|M0)              r9.0<1>:ud    r20.0<1;1,0>:ud                  {$5.dst}
(W) send.ugm (1|M0) null r8 r82:1 0x81C0:a0.2 0x4200D504 {$4} // wr:1+1, rd:0; store.ugm.d32x16t.a32.ss[a0.2][A-0xFC80]
(W&~f0.0) jmpi                               L400
L336:
(W)     jmpi                                 L64
L400:
        send.ugm (16|M0) null r12 r7:4 0x0 0x04003584 {F@1,$3} // wr:2+4, rd:0; store.ugm.d32x4.a64
(W)     send.gtwy (1|M0) null r112 null:0 0x0 0x02000010 {EOT,$11} // wr:1+0, rd:0; end of thread
L512:
"""

AMD = """\
\t.text
multiply:                               ; @multiply
; %bb.0:
\ts_load_b64 s[0:1], s[4:5], 0x0
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
\tglobal_load_b128 v[8:11], v[18:19], off offset:64
\tglobal_load_b64 v[4:5], v[0:1], off
\tds_load_2addr_b64 v[20:23], v6 offset1:1
\ts_waitcnt lgkmcnt(0)
\tv_dual_fmac_f32 v30, v20, v21 :: v_dual_fmac_f32 v31, v20, v22
\tv_dual_fmac_f32 v32, v20, v21 :: v_dual_mov_b32 v33, v20
\tv_fma_f32 v40, v8, v9, v40
\ts_cbranch_scc1 .LBB0_3
; %bb.2:
\tv_add_f32 v1, v4, v5
\ts_cbranch_scc0 .LBB0_1
\ts_branch .LBB0_4
.LBB0_3:                                ; a way out, laid between
\tv_exp_f32 v50, v51
\ts_branch .LBB0_5
.LBB0_4:
\tglobal_store_b32 v[0:1], v30, off
.LBB0_5:
\ts_cbranch_vccnz .LBB0_3
\ts_endpgm
.Lfunc_end0:
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .name:           a
        .offset:         0
        .size:           8
    .group_segment_fixed_size: 16896
    .name:           multiply
    .private_segment_fixed_size: 48
    .sgpr_count:     45
    .sgpr_spill_count: 0
    .vgpr_count:     142
    .vgpr_spill_count: 5
    .wavefront_size: 32
amdhsa.target:   amdgcn-amd-amdhsa--gfx1100
...
"""

PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'multiply' for 'sm_86'
ptxas info    : Function properties for multiply
    48 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 127 registers, used 1 barriers, 16896 bytes smem, 592 bytes cmem[0]
"""

SASS = """\
\t.section\t.text.multiply,"ax",@progbits
multiply:
.text.multiply:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/              @!P2 LDG.E.128.CONSTANT R28, [R2.64] ;
        /*0020*/                   LDG.E.U16 R36, [R4.64] ;
        /*0030*/                   LDS.128 R52, [R93+UR4] ;
        /*0040*/                   LDSM.16.M88.4 R60, [R94] ;
        /*0050*/                   HMMA.16816.F32 R4, R60, R52, R4 ;
        /*0060*/                   FFMA R115, R52, R56.reuse, R7 ;
        /*0070*/                   HFMA2.MMA R9, -RZ, RZ, 0, 0 ;
        /*0080*/                   IADD3 R36, R36, 0x1, RZ ;
        /*0090*/                   STS.64 [R95], R30 ;
        /*00a0*/               @P0 CALL.REL.NOINC `(.L_x_2) ;
        /*00b0*/                   BRA `(.L_x_1) ;
.L_x_2:
        /*00c0*/                   CALL.REL.NOINC `($__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath) ;
        /*00d0*/                   STL [R1], R3 ;
        /*00e0*/                   EXIT ;
.L_x_3:
        /*00f0*/                   BRA `(.L_x_3);
"""


def read_intel():
    return intel.read({".ze_info": ZE_INFO, ".text.multiply.asm": INTEL}, targets.TARGETS["bmg-g21"])["multiply"]


def kinds(kernel):
    return [i.kind for i in kernel.instructions]


def test_intel_kernel():
    kernel = read_intel()
    assert (kernel.registers, kernel.simd, kernel.local_bytes, kernel.spill_bytes, kernel.private_bytes) == (
        256, 16, 8704, 640, 96)
    assert kinds(kernel) == ["scalar_load", "wait", "global_load", "global_load", "local_load", "fma", "fma", "fma",
                             "alu", "fma", "move", "scratch", "control", "control", "global_store", "control"]
    loads = [i for i in kernel.instructions if i.kind == "global_load"]
    assert [i.bytes for i in loads] == [16, 2]
    assert loads[0].loaded == {"r112", "r113", "r114", "r115"}


def test_intel_loop():
    found = figures.analyse(read_intel())
    assert (found["loops"], found["hot"], found["issued"], found["fmas"]) == (1, "loop", 12, 4)
    assert found["share"] == round(100 * 4 / 12, 1)
    assert found["local_bytes_per_fma"] == 4
    assert found["global_bytes_per_fma"] == 18 / 4
    assert found["loads_in_flight"] == 2
    assert (found["loaded_bytes"], found["stored_bytes"]) == (18, 0)
    assert figures.per_element(found, 2) == round(12 / 9, 1)
    assert figures.per_element(found, 0) == 3


@pytest.mark.parametrize("text, kind, moved", [
    ("send.dc1 (16|M0) r12 r10 null 0x0 0x04805000 {@3,$4} // wr:2+0, rd:8; untyped surface read with xyzw",
     "global_load", 16),
    ("send.dc1 (16|M0) null r12 r32 0x80 0x04025EFE {@4,$0} // wr:2+2, rd:0; untyped surface write with x",
     "local_store", 4),
    ("(W) send.dc0 (8|M0) r1 r127 null:0 0x0 0x022843FD {A@1,$0} // wr:1h+0, rd:2; oword aligned block read x4",
     "scalar_load", 4),
    ("(W) send.dc0 (8|M0) r3 r116 null 0x0 0x0219E0FE {$1} // wr:1h+0, rd:1; synchronized SLM fence", "barrier", 0),
    ("(W) send.gtwy (1|M0) null r7 null 0x0 0x02000004 {$2} // wr:1+0, rd:0; signal barrier", "barrier", 0),
    ("(W) send.slm (2|M0) r28 r13 null:0 0x0 0x0210B500 {$6} // wr:1+0, rd:1; load.slm.d32x8t.a32", "local_load", 2),
    ("send.ugm (1|M0) r3 r253 null:0 0x0 0x03000283 {$5} // wr:1+0, rd:16; load_block2d.ugm.d16v.a64",
     "global_load", 64),
    ("send.ugm (16|M0) r14 r12 null:0 a0.0 0x24280500 {ExBSO,$15} // wr:2+0, rd:2; load.ugm.d32.a32.ca.ca.bss[a0.0]",
     "global_load", 4)])
def test_intel_messages(text, kind, moved):
    found = intel.instruction(text, 16, 64)
    assert (found.kind, found.bytes) == (kind, moved)


def test_intel_matrix_product():
    found = intel.instruction("dpas.8x8 (16|M0) r165:f r165:f r3:hf r68.0:hf {Atomic,Compacted,$5.dst}", 16, 64)
    assert (found.kind, found.fmas) == ("matrix", 8 * 16)   # 8 rows of 16 deep for each work-item
    assert intel.instruction("dpas.8x8 (8|M0) r29:f null:f r29:hf r29.0:hf", 8, 32).kind == "alu", "no product"
    assert intel.instruction("dpas.8x8 (8|M0) r29:f null:f r30:hf r60.0:hf", 8, 32).kind == "matrix"
    assert intel.instruction("dpas.8x4 (16|M0) r9:d r9:d r3:b r68.0:b {Atomic}", 16, 64).fmas == 4 * 32


def test_amd_kernel():
    kernel = amd.read_assembly(AMD, 2)["multiply"]
    assert (kernel.registers, kernel.simd, kernel.local_bytes) == (142, 32, 16896)
    assert (kernel.spill_bytes, kernel.private_bytes) == (20, 28)
    loops = flow.loops(kernel)
    hot = [kernel.instructions[at].text.split()[0] for at in figures.hot_loop(kernel, loops)]
    assert "v_exp_f32" not in hot and hot[-1] == "s_cbranch_scc0", "a way out of the loop is no part of it"
    found = figures.analyse(kernel)
    assert found["loops"] == 1, "a jump back into the middle of something is no loop"
    assert (found["fmas"], found["issued"]) == (4, 9)
    assert found["share"] == round(100 * (4 / 2) / 9, 1)   # of two FMAs for each instruction
    assert (found["local_bytes_per_fma"], found["global_bytes_per_fma"]) == (16 / 4, 24 / 4)
    assert found["loads_in_flight"] == 2


@pytest.mark.parametrize("text, kind, fmas, operations", [
    ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1]", "fma", 2, 2), ("v_fmac_f32_e32 v0, v1, v2", "fma", 1, 1),
    ("v_fma_f64 v[0:1], v[2:3], v[4:5], v[0:1]", "fma", 1, 2),
    ("v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", "matrix", 128, 1),
    ("buffer_store_dword v0, off, s[0:3], 0 offset:4", "scratch", 0, 1), ("ds_bpermute_b32 v0, v1, v2", "alu", 0, 1),
    ("s_swappc_b64 s[30:31], s[0:1]", "call", 0, 1), ("s_waitcnt vmcnt(0)", "wait", 0, 1),
    ("global_atomic_add_u32 v0, v1, s[0:1]", "atomic", 0, 1), ("v_rcp_f32_e32 v0, v1", "math", 0, 1)])
def test_amd_instructions(text, kind, fmas, operations):
    found = amd.instruction(text, 2, 32)
    assert (found.kind, found.fmas, found.operations) == (kind, fmas, operations)


def test_nvidia_kernel():
    kernel = nvidia.read({"log": PTXAS, "assembly": SASS}, None)["multiply"]
    assert (kernel.registers, kernel.simd, kernel.local_bytes) == (127, 32, 16896)
    assert (kernel.spill_bytes, kernel.private_bytes) == (16, 32)
    assert kinds(kernel) == ["move", "global_load", "global_load", "local_load", "local_load", "matrix", "fma", "move",
                             "alu", "local_store", "control", "control", "call", "scratch", "control", "control"]
    found = figures.analyse(kernel)   # with a jump that is written as a call
    assert (found["loops"], found["issued"]) == (1, 11)
    assert found["fmas"] == 16 * 8 * 16 / 32 + 1
    assert found["share"] == round(100 * 2 / 11, 1)
    assert found["loads_in_flight"] == 2
    assert [i.bytes for i in kernel.instructions[1:5]] == [16, 2, 16, 16]


def test_the_inner_loop_is_hot():
    """An outer loop has more FMAs, each counted once, but runs seldom."""
    fma, load = "v_fmac_f32_e32 v1, v2, v3\n", "ds_load_b32 v2, v9\n"
    inner = f".LBB0_2:\n{load}{fma * 5}s_cbranch_scc0 .LBB0_2\n"
    body = f".LBB0_1:\n{fma * 6}{load}{inner}s_cbranch_vccz .LBB0_1\ns_endpgm\n"
    start, end = AMD.index("; %bb.0"), AMD.index(".Lfunc_end0")
    found = figures.analyse(amd.read_assembly(AMD[:start] + body + AMD[end:], 1)["multiply"])
    assert (found["fmas"], found["issued"]) == (5, 7)
    assert (found["around_issued"], found["around_share"]) == (15, round(100 * 11 / 15, 1))


def test_loads_one_at_a_time():
    first, second = ((f"global_load_b32 {v}, v[2:3], off", f"v_add_f32 v4, {v}, {v}") for v in ("v1", "v5"))

    def together(*lines):
        return figures.in_flight([amd.instruction(line, 1, 32) for line in lines], cyclic=True)
    assert together(*first, *second) == 1
    assert together(first[0], second[0], first[1], second[1]) == 2


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
