"""AMD: clang with libclc to assembly, which carries the kernel's metadata."""
from __future__ import annotations

import re
import shutil
from pathlib import Path

from .assembly import Instruction, Kernel, registers_of
from .compiler import CompileError, command

LIBRARY = Path("/usr/lib/clc/amdgcn--amdhsa.bc")
CLANG = "clang-19"   # libclc's bitcode is read only by the LLVM release that wrote it or a later one
REGISTER = r"\b([vsa])\[?(\d+)(?::(\d+))?"
WAITS = ("s_wait", "s_delay", "s_nop", "s_clause", "s_set_inst_prefetch", "s_inst_prefetch", "s_setprio", "s_sleep",
         "s_code_end")
MATH = re.compile(r"v_(s_)?(exp|log|rcp|rsq|sqrt|sin|cos|tanh)_")
FMA = re.compile(r"v_(?:dual_)?(?:fma|fmac|mac|mad|fmaak|fmamk|madak|madmk)_(?:f16|f32|f64|legacy)|v_fma_mix")
WIDTHS = {"b128": 16, "dwordx4": 16, "b96": 12, "dwordx3": 12, "b64": 8, "dwordx2": 8, "b32": 4, "dword": 4, "b16": 2,
          "u16": 2, "i16": 2, "ushort": 2, "sshort": 2, "short": 2, "b8": 1, "u8": 1, "i8": 1, "ubyte": 1, "sbyte": 1,
          "byte": 1}


def moved_bytes(operation: str) -> int:
    width = next((WIDTHS[part] for part in operation.split("_") if part in WIDTHS), 4)
    return width * (2 if re.match(r"ds_(read2|write2|load_2addr|store_2addr)", operation) else 1)


def memory(operation: str) -> str:
    """The kind of an instruction of local, global or private memory."""
    space = "local" if operation.startswith("ds_") else "global"
    if operation.startswith(("scratch_", "buffer_")):   # OpenCL has no other use for buffer instructions
        return "scratch"
    if re.search(r"_(load|read)", operation):
        return f"{space}_load"
    if re.search(r"_(store|write)", operation):
        return f"{space}_store"
    if re.search(r"permute|swizzle", operation):
        return "alu"
    return "atomic"


def instruction(text: str, dual: int, wave: int) -> Instruction:
    operation = text.split()[0]
    registers = registers_of(text, REGISTER)
    if operation.startswith(WAITS):
        return Instruction("wait", text)
    if operation.startswith("v_dual_"):
        pairs = sum(bool(FMA.match(half.strip())) for half in text.split("::"))
        return Instruction("fma" if pairs else "alu", text, fmas=pairs, operations=pairs or 1, registers=registers)
    if operation.startswith(("v_wmma", "v_swmmac", "v_mfma", "v_smfmac")):
        m, n, k = map(int, re.search(r"(\d+)x(\d+)x(\d+)", operation).groups())
        blocks = int((re.search(r"x\d+_(\d+)b_", operation) or [0, 1])[1])
        return Instruction("matrix", text, fmas=m * n * k * blocks / wave, registers=registers)
    # What cannot be one of a pair fills an issue slot alone.
    if operation.startswith("v_pk_fma"):
        return Instruction("fma", text, fmas=2, operations=dual, registers=registers)
    if dots := re.match(r"v_dot(\d)", operation):
        return Instruction("fma", text, fmas=int(dots[1]), operations=dual, registers=registers)
    if FMA.match(operation):
        single = operation.startswith("v_fma_mix") or "_f32" not in operation
        return Instruction("fma", text, fmas=1, operations=dual if single else 1, registers=registers)
    if operation.startswith(("ds_", "global_", "flat_", "buffer_", "scratch_")):
        kind = memory(operation)
        loaded = registers_of(text.split(",")[0].split(None, 1)[1], REGISTER) if kind == "global_load" else frozenset()
        return Instruction(kind, text, bytes=moved_bytes(operation) if kind != "alu" else 0, registers=registers,
                           loaded=loaded)
    if operation.startswith(("s_load", "s_buffer_load")):
        return Instruction("scalar_load", text, registers=registers)
    if operation.startswith("s_barrier"):
        return Instruction("barrier", text)
    if operation.startswith(("s_swappc", "s_call")):
        return Instruction("call", text)
    if operation.startswith(("s_branch", "s_cbranch", "s_endpgm", "s_setpc")):
        return Instruction("control", text, targets=tuple(re.findall(r"\.L\w+", text)),
                           falls_through=operation.startswith("s_cbranch"))
    if MATH.match(operation):
        return Instruction("math", text, registers=registers)
    if re.match(r"[vs]_(mov|cmov)|v_accvgpr|v_read|v_write", operation):
        return Instruction("move", text, registers=registers)
    return Instruction("alu", text, registers=registers)


def read_metadata(text: str) -> dict[str, Kernel]:
    kernels = {}
    for block in re.split(r"^  - (?=\.)", text.split("amdhsa.kernels:")[-1], flags=re.M)[1:]:
        block = "    " + block   # every key of the kernel itself at four spaces
        name = re.search(r"^    \.name:\s+(\w+)", block, re.M)
        number = {key: int(value) for key, value in re.findall(r"^    \.(\w+):\s+(\d+)", block, re.M)}
        spilled = 4 * number["vgpr_spill_count"]
        kernels[name[1]] = Kernel(name[1], registers=number["vgpr_count"], simd=number["wavefront_size"],
                                  spill_bytes=spilled,
                                  private_bytes=max(0, number["private_segment_fixed_size"] - spilled),
                                  local_bytes=number["group_segment_fixed_size"])
    return kernels


def read_assembly(text: str, dual: int) -> dict[str, Kernel]:
    kernels = read_metadata(text)
    for body in re.finditer(r"^(\w+):\s*; @\1\n(.*?)^\.Lfunc_end", text, re.S | re.M):
        kernel = kernels.get(body[1])
        if not kernel:
            continue
        kernel.dual = dual
        for line in body[2].splitlines():
            if label := re.match(r"^(\.L\w+):", line):
                kernel.labels[label[1]] = len(kernel.instructions)
                continue
            line = line.split(";")[0].strip()
            if line and not line.startswith("."):
                kernel.instructions.append(instruction(line, dual, kernel.simd))
    return kernels


def clang_options(options: list[str]) -> list[str]:
    """Those that clang knows. Without the generic address space, since libclc has vload and the like for named ones."""
    others = ("-cl-std", "-cl-intel", "-cl-nv")
    kept = [o for o in options if o.startswith(("-D", "-cl-")) and not o.startswith(others)]
    return ["-cl-std=CL3.0", "-cl-ext=-__opencl_c_generic_address_space,-__opencl_c_pipes,-__opencl_c_device_enqueue",
            *kept]


def require_clang(library: Path) -> None:
    if not shutil.which(CLANG) or not library.exists():
        raise CompileError(f"{CLANG} or {library} is not there: apt install clang-19 libclc-19")


def clang(text: str, options: list[str], machine: list[str], library: Path, folder: Path) -> str:
    """Assembly for a machine."""
    (folder / "k.cl").write_text(text)
    command([CLANG, "-x", "cl", "-Xclang", "-finclude-default-header", *machine, "-nogpulib", "-O3", "-S", "k.cl", "-o",
             "k.s", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(library), "-Wno-everything",
             *clang_options(options)], folder)
    return (folder / "k.s").read_text()


def available(_tools: Path) -> None:
    require_clang(LIBRARY)


def version(_tools: Path) -> str:
    return CLANG


def machine(target) -> list[str]:
    return ["-target", "amdgcn-amd-amdhsa", f"-mcpu={target.name}"]


def build(text: str, options: list[str], target, _tools: Path, folder: Path) -> dict[str, str]:
    """The compiler's outputs, which `read` understands."""
    return {"assembly": clang(text, options, machine(target), LIBRARY, folder)}


def read(outputs: dict[str, str], target) -> dict[str, Kernel]:
    return read_assembly(outputs["assembly"], target.dual)
