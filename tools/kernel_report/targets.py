"""The GPUs that kernels are compiled for: what their drivers say of them, and what one of their cores holds.

A core is what a work-group runs on: a subslice or Xe core (Intel), a workgroup processor or compute unit (AMD), a
streaming multiprocessor (NVIDIA).
"""
from __future__ import annotations

from dataclasses import dataclass

from . import amd, intel, nvidia

INTEL_EXTENSIONS = ("cl_khr_fp16:cl_khr_subgroups:cl_khr_subgroup_shuffle:cl_khr_subgroup_shuffle_relative:"
                    "cl_khr_subgroup_ballot:cl_khr_int64_base_atomics:cl_khr_integer_dot_product:cl_intel_subgroups:"
                    "cl_intel_subgroups_short:cl_intel_subgroups_char:cl_intel_subgroups_long:"
                    "cl_intel_required_subgroup_size:cl_intel_subgroup_local_block_io")
MATRIX = ":cl_intel_subgroup_matrix_multiply_accumulate:cl_intel_bfloat16_conversions"
SPLIT = ":cl_intel_subgroup_split_matrix_multiply_accumulate"
BLOCKS = ":cl_intel_subgroup_2d_block_io:cl_intel_subgroup_buffer_prefetch"


@dataclass(frozen=True)
class Target:
    name: str            # as the compiler knows it
    product: str
    vendor: str          # intel, amd, nvidia
    figures: str         # CLPRIM_DEVICE_FIGURES
    threads: int         # sub-groups that a core holds at most
    local_bytes: int     # local memory of a core
    groups: int          # work-groups that a core holds at most
    cores: int           # of the device
    registers: int = 0   # of one of the four SIMDs of a core, for each work-item of a sub-group (not Intel)
    granule: int = 8     # registers are given out in so many
    grf_bytes: int = 32  # Intel: of a register
    dual: int = 1        # FMAs in an issue slot: pairs of instructions (RDNA 3 and 4) or of numbers (CDNA)
    engine: str = ""     # CLPRIM_MATRIX_ENGINE, where it takes the device itself to tell

    @property
    def compiler(self):
        return {"intel": intel, "amd": amd, "nvidia": nvidia}[self.vendor]

    @property
    def items(self) -> int:
        """Work-items that the device holds at once, of kernels that leave its threads all their room."""
        lanes = {"intel": 16, "amd": 64 if self.threads == 32 else 32, "nvidia": 32}[self.vendor]
        return self.cores * self.threads * lanes


ENGINES = {112: 16, 128: 16, 64: 8}   # vector engines of a core by its threads: seven or eight on each


def arc(name, product, units, capabilities, extensions="", **core) -> Target:
    figures = (f"vendor=Intel(R) Corporation,name={product},compute_units={units},c_standard=CL3.0,fp16=1,sub_groups=1,"
               f"int64_atomics=1,extensions={INTEL_EXTENSIONS}{extensions},{capabilities}")
    return Target(name, product, "intel", figures, cores=units // ENGINES[core["threads"]], **core)


def radeon(name, product, units, **core) -> Target:
    figures = (f"vendor=Advanced Micro Devices Inc.,name={name},compute_units={units},c_standard=CL2.0,fp16=1,fp64=1,"
               "sub_groups=1,sub_group_sizes=,int64_atomics=1,local_memory=65536,max_work_group_size=256,"
               "extensions=cl_khr_fp16:cl_khr_fp64:cl_khr_subgroups:cl_khr_int64_base_atomics:cl_amd_media_ops")
    return Target(name, product, "amd", figures, cores=units, **core)


def geforce(name, product, units, **core) -> Target:
    figures = (f"vendor=NVIDIA Corporation,name=NVIDIA {product},compute_units={units},c_standard=CL1.2,fp16=0,fp64=1,"
               "sub_groups=0,sub_group_sizes=,int64_atomics=1,local_memory=49148,max_work_group_size=1024,"
               "extensions=cl_khr_fp64:cl_khr_int64_base_atomics:cl_nv_compiler_options:cl_nv_device_attribute_query")
    return Target(name, product, "nvidia", figures, cores=units, registers=512, **core)


XE = "fp64=0,local_memory=65536,max_work_group_size={},sub_group_sizes=8:16:32".format
XE2 = "fp64=1,local_memory=131072,max_work_group_size=1024,sub_group_sizes=16:32"

# Where a driver's compute units count workgroup processors (AMD) or vector engines (Intel), so do these.
TARGETS = {target.name: target for target in (
    arc("tgllp", "Iris Xe", 96, XE(512), threads=112, local_bytes=65536, groups=16),
    arc("adl-p", "Iris Xe", 96, XE(512), threads=112, local_bytes=65536, groups=16),
    arc("dg2-g10", "Arc A770", 512, XE(1024), MATRIX + SPLIT, threads=128, local_bytes=131072, groups=32),
    arc("mtl-h", "Arc Graphics", 128, XE(1024).replace("fp64=0", "fp64=1"), threads=128, local_bytes=131072, groups=32),
    arc("lnl-m", "Arc 140V", 64, XE2, MATRIX + BLOCKS, threads=64, local_bytes=131072, groups=32, grf_bytes=64),
    arc("bmg-g21", "Arc B580", 160, XE2, MATRIX + BLOCKS, threads=64, local_bytes=131072, groups=32, grf_bytes=64),
    arc("pvc", "Data Center GPU Max", 512, XE2, MATRIX + SPLIT + BLOCKS, threads=64, local_bytes=131072, groups=32,
        grf_bytes=64),
    radeon("gfx1030", "RX 6900 XT", 40, threads=64, local_bytes=131072, groups=64, registers=1024, granule=8),
    radeon("gfx1100", "RX 7900 XTX", 48, threads=64, local_bytes=131072, groups=64, registers=1536, granule=24, dual=2),
    radeon("gfx1201", "RX 9070 XT", 32, threads=64, local_bytes=131072, groups=64, registers=1536, granule=24, dual=2),
    radeon("gfx90a", "Instinct MI210", 104, threads=32, local_bytes=65536, groups=40, registers=512, granule=8, dual=2),
    radeon("gfx942", "Instinct MI300X", 304, threads=32, local_bytes=65536, groups=40, registers=512, granule=8,
           dual=2),
    geforce("sm_75", "GeForce RTX 2080", 46, threads=32, local_bytes=65536, groups=16, engine="mma75"),
    geforce("sm_86", "GeForce RTX 3080", 68, threads=48, local_bytes=102400, groups=16, engine="mma"),
    geforce("sm_89", "GeForce RTX 4090", 128, threads=48, local_bytes=102400, groups=24, engine="mma"),
    geforce("sm_90", "H100", 132, threads=64, local_bytes=233472, groups=32, engine="mma"),
)}
QUICK = ("bmg-g21", "gfx1100", "sm_86")


def resident_groups(target: Target, figures: dict, group_size: int, local_argument: int) -> int:
    """Work-groups of one kernel that a core holds at once; 0 if it cannot hold one."""
    simd = max(1, figures["simd"])
    threads = -(-group_size // simd)
    limits = [target.groups, held_threads(target, figures["registers"]) // threads]
    local = figures["local_bytes"] + local_argument
    if target.vendor == "nvidia" and target.name != "sm_75":
        local += 1024   # each group's own
    if local:
        limits.append(target.local_bytes // local)
    return min(limits)


def held_threads(target: Target, registers: int) -> int:
    """Sub-groups whose registers a core holds."""
    if target.vendor == "intel":   # twice the registers, half the threads
        return target.threads // max(1, registers // 128)
    given = -(-max(1, registers) // target.granule) * target.granule
    return min(target.threads, 4 * (target.registers // given))
