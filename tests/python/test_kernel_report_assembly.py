"""tools/kernel_report: what it reads from assembly, by small samples of each vendor's; no compiler is needed."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from kernel_report import amd, figures, flow, intel, nvidia, targets  # noqa: E402

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
