"""NVIDIA: clang with libclc to PTX, ptxas to a binary, nvdisasm to SASS."""
from __future__ import annotations

import re
import shutil
from pathlib import Path

from .amd import CLANG, clang, require_clang
from .assembly import Instruction, Kernel, registers_of
from .compiler import CompileError, command

LIBRARY = Path("/usr/lib/clc/nvptx64--nvidiacl.bc")
REGISTER = r"\b(R)(\d+)()"
MOVES = {"MOV", "UMOV", "R2UR", "S2R", "S2UR", "CS2R", "P2R", "R2P", "MOVM", "R2B", "B2R"}
CONTROL = {"BRA", "BRX", "BSSY", "BSYNC", "BREAK", "EXIT", "WARPSYNC", "RET", "YIELD", "BMOV", "ELECT", "NANOSLEEP"}
MEMORY = {"LDG": "global_load", "LD": "global_load", "LDGSTS": "global_load", "STG": "global_store",
          "ST": "global_store", "LDS": "local_load", "LDSM": "local_load", "STS": "local_store", "STSM": "local_store",
          "LDL": "scratch", "STL": "scratch", "ATOM": "atomic", "ATOMG": "atomic", "ATOMS": "atomic", "RED": "atomic",
          "LDC": "scalar_load", "ULDC": "scalar_load", "LDCU": "scalar_load"}

# libclc rounds to half by integer arithmetic, which NVIDIA's driver does in one instruction.
PRELUDE = """\
#define REPORT_INLINE static inline __attribute__((overloadable, always_inline))
#define REPORT_STORES(SPACE) \\
    REPORT_INLINE void report_store(float v, size_t i, SPACE half* p) \\
    { \\
        __builtin_store_halff(v, p + i); \\
    } \\
    REPORT_INLINE void report_store16(float16 v, size_t i, SPACE half* p) \\
    { \\
        _Pragma("unroll") for (int e = 0; e < 16; ++e) \\
            __builtin_store_halff(v[e], p + 16 * i + e); \\
    }
REPORT_STORES(__private)
REPORT_STORES(__local)
REPORT_STORES(__global)
#define vstore_half report_store
#define vstore_half_rte report_store
#define vstore_half16_rte report_store16
"""


def moved_bytes(operation: str) -> float:
    if operation.startswith(("LDSM", "STSM")):   # matrices of 8 x 8 16-bit elements
        return int((re.search(r"\.M88\.(\d)", operation) or [0, 1])[1]) * 128 / 32
    parts = operation.split(".")
    for part, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)):
        if part in parts:
            return size
    return 4


def matrix_fmas(operation: str) -> float:
    """HMMA.16816: 16 x 8 x 16 by the 32 work-items of a warp; HGMMA.64x256x16 by the 128 of four."""
    if wide := re.search(r"\.(\d+)x(\d+)x(\d+)\b", operation):
        return int(wide[1]) * int(wide[2]) * int(wide[3]) / 128
    shape = re.search(r"\.(16|8)(8|16|32|64)(\d+)\b", operation)
    return int(shape[1]) * int(shape[2]) * int(shape[3]) / 32 if shape else 0


def instruction(text: str) -> Instruction:
    predicate = re.match(r"^@!?U?P[T\d]+\s+", text)
    text = text[predicate.end():] if predicate else text
    operation = text.split()[0]
    name = operation.split(".")[0]
    registers = registers_of(text, REGISTER)
    if name in MEMORY:
        kind, moved = MEMORY[name], moved_bytes(operation)
        loaded = frozenset()
        first = re.match(r"\S+\s+R(\d+)", text)
        if kind == "global_load" and first and name != "LDGSTS":
            loaded = frozenset(f"R{int(first[1]) + i}" for i in range(max(1, int(moved) // 4)))
        return Instruction(kind, text, bytes=moved, registers=registers | loaded, loaded=loaded)
    if name in ("FFMA", "DFMA") or name in ("HFMA2", "FFMA2") and "RZ, RZ" not in text:   # else a constant
        return Instruction("fma", text, fmas=2 if name.endswith("2") else 1, registers=registers)
    if name in ("HMMA", "IMMA", "DMMA", "BMMA", "HGMMA", "QGMMA", "IGMMA"):
        return Instruction("matrix", text, fmas=matrix_fmas(operation), registers=registers)
    if name == "MUFU":
        return Instruction("math", text, registers=registers)
    if name in MOVES or operation.startswith(("IMAD.MOV", "HFMA2")):
        return Instruction("move", text, registers=registers)
    if name == "BAR":
        return Instruction("barrier", text)
    # In long kernels ptxas writes jumps as calls, from which nothing returns; real ones name a function.
    jump = name in ("BRA", "BRX") or name == "CALL" and "(.L_" in text
    if name == "CALL" and not jump:
        return Instruction("call", text)
    if name in ("NOP", "DEPBAR", "LDGDEPBAR"):
        return Instruction("wait", text)
    if jump or name in CONTROL:
        # BSSY and the like name where work-items meet again.
        labels = re.findall(r"`\((\.L_\w+)\)", text) if jump else []
        leaves = (jump or name in ("EXIT", "RET")) and not predicate and not re.match(r"\S+\s+!?U?P\d|\S+\.DIV", text)
        return Instruction("control", text, registers=registers, targets=tuple(labels), falls_through=not leaves)
    return Instruction("alu", text, registers=registers)


def read_log(text: str) -> dict[str, Kernel]:
    """What ptxas -v says of each kernel."""
    kernels = {}
    for name, body in re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", text, re.S):
        number = {key: int(value) for value, key in
                  re.findall(r"(\d+) (bytes stack frame|bytes spill stores|registers|bytes smem)", body)}
        used = re.search(r"Used (\d+) registers", body)
        spilled = number.get("bytes spill stores", 0)
        kernels[name] = Kernel(name, registers=int(used[1]), simd=32, spill_bytes=spilled,
                               private_bytes=max(0, number.get("bytes stack frame", 0) - spilled),
                               local_bytes=number.get("bytes smem", 0))
    return kernels


def read_assembly(text: str, kernels: dict[str, Kernel]) -> None:
    for section in re.split(r"(?=^\s*\.section\s+\.text\.)", text, flags=re.M)[1:]:
        kernel = kernels.get(re.match(r"\s*\.section\s+\.text\.(\w+)", section)[1])
        if not kernel:
            continue
        for line in section.splitlines():
            if label := re.match(r"^(\.L_\w+):", line):
                kernel.labels[label[1]] = len(kernel.instructions)
            elif code := re.match(r"^\s+(?:/\*[0-9a-f]+\*/\s*)(.*?);", line):
                kernel.instructions.append(instruction(code[1].strip()))


def binaries(tools: Path) -> Path:
    """The folder of ptxas and nvdisasm."""
    installed = shutil.which("ptxas")
    places = [path.parent for path in sorted((tools / "nvidia").glob("nvidia/*/bin/ptxas"))]
    for place in places + ([Path(installed).parent] if installed else []):
        if (place / "nvdisasm").exists():
            return place
    raise CompileError("ptxas and nvdisasm are not there: run get_compilers.sh")


def available(tools: Path) -> None:
    require_clang(LIBRARY)
    binaries(tools)


def version(tools: Path) -> str:
    release = re.search(r"release ([\d.]+)", command([str(binaries(tools) / "ptxas"), "--version"], Path("/")))
    return f"{CLANG}, ptxas {release[1] if release else '?'}"


def architecture(target) -> str:
    """As drivers name it, with the instructions that no later one has."""
    return "sm_90a" if target.name == "sm_90" else target.name


def complete(ptx: Path) -> None:
    """Comments of PTX that the library makes instructions of (src/core/ptx_for_sm_90a.hpp)."""
    ptx.write_text(ptx.read_text().replace(".target sm_90,", ".target sm_90a,").replace("//sm_90a:", ""))


def machine(target) -> list[str]:
    return ["-target", "nvptx64-nvidia-nvcl", f"-march={target.name}"]


def build(text: str, options: list[str], target, tools: Path, folder: Path) -> dict[str, str]:
    """The compilers' outputs, which `read` understands."""
    found = binaries(tools)
    clang(PRELUDE + text, options, machine(target), LIBRARY, folder)
    if target.name == "sm_90":
        complete(folder / "k.s")
    limit = [f"-maxrregcount={o.split('=')[1]}" for o in options if o.startswith("-cl-nv-maxrregcount=")]
    log = command([str(found / "ptxas"), "-v", f"-arch={architecture(target)}", *limit, "k.s", "-o", "k.cubin"], folder)
    return {"log": log, "assembly": command([str(found / "nvdisasm"), "-c", "k.cubin"], folder)}


def read(outputs: dict[str, str], _target) -> dict[str, Kernel]:
    kernels = read_log(outputs["log"])
    read_assembly(outputs["assembly"], kernels)
    return kernels
