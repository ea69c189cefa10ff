"""Intel: ocloc compiles and disassembles; kernels are read from its assembly and its .ze_info."""
from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from .assembly import Instruction, Kernel, registers_of
from .compiler import CompileError, command

REGISTER = r"\b(r)(\d+)()"
ALU = {"add", "add3", "mul", "mac", "mach", "macl", "avg", "addc", "subb", "bfi", "bfe", "bfn", "cmp", "cmpn", "sel",
       "csel", "min", "max", "and", "or", "xor", "not", "shl", "shr", "asr", "rol", "ror", "rndd", "rnde", "rndu",
       "rndz", "frc", "lzd", "fbh", "fbl", "cbit", "bfrev", "dp4a", "mad", "madm", "srnd", "smov", "lfsr"}
LSC = re.compile(r"(load|store|atomic|fence)\w*\.(ugm|slm|ugml)\.d(\d+)(?:c\d+)?(?:u\d+)?v?(?:x(\d+))?(t)?")
PREDICATE = re.compile(r"^\([^)]*f\d")
LINE = re.compile(r"^(?:\([^)]*\)\s*)?([a-z]\w*)(\.[\w.]+)?\s*(?:\((\d+)\|M\d+\))?(.*)")


def message(operand: str, comment: str, width: int, simd: int, grf: int) -> tuple[str, float]:
    """Kind and bytes of one work-item, of a send; `operand` is its unit, `comment` what the disassembler says."""
    reads = re.search(r"rd:(\d+)", comment)
    written = re.search(r"wr:\d+h?\+(\d+)", comment)
    lsc = LSC.search(comment)
    if operand == "gtwy":
        return ("barrier" if "barrier" in comment else "control"), 0
    if "fence" in comment:
        return "barrier", 0
    if not lsc:
        return data_port(operand, comment, width, simd)
    what, unit, bits, count, transposed = lsc.groups()
    if "block2d" in comment:
        registers = reads if what == "load" else written
        moved = int(registers[1]) * grf / simd if registers else 0
    else:
        moved = int(bits) / 8 * int(count or 1) * (1 if transposed else width) / simd
    if what == "atomic":
        return "atomic", moved
    if unit == "slm":
        return f"local_{what}", moved
    if ".ss[" in comment:   # a surface of its own
        return "scratch", moved
    if "bti[255]" in comment:   # A32: arguments
        return ("scalar_load" if what == "load" else "scratch"), moved
    return f"global_{what}", moved


def data_port(operand: str, comment: str, width: int, simd: int) -> tuple[str, float]:
    """Messages of the data port before LSC. The descriptor's last byte is the surface: 0xFE local memory."""
    what = "load" if "read" in comment else "store"
    if "atomic" in comment:
        return "atomic", 0
    if operand not in ("dc0", "dc1", "dc2", "dcro"):
        return "control", 0
    surface = re.search(r"0x[0-9A-F]*([0-9A-F]{2})\b[^0-9A-Fx]*\{", comment)
    index = surface[1] if surface else ""
    channels = re.search(r"with ([xyzw]+)", comment)
    block = re.search(r"(o|h)word.*block (?:read|write) x(\d+)", comment)
    bits = re.search(r"(\d+)b\b", comment)
    if channels:
        moved = 4 * len(channels[1]) * width / simd
    elif block:
        moved = (16 if block[1] == "o" else 32) * int(block[2]) / simd
    elif "qword" in comment:
        moved = 8 * width / simd
    else:
        moved = (int(bits[1]) / 8 if bits else 4) * width / simd
    if "scratch" in comment:
        return "scratch", moved
    if index == "FE":
        return f"local_{what}", moved
    if index in ("FD", "FF") and "a64" not in comment:   # A32: arguments by blocks, private memory by work-items
        return ("scalar_load" if block and what == "load" else "scratch"), moved
    return f"global_{what}", moved


def matrix_fmas(mnemonic: str, width: int, simd: int, text: str) -> float:
    """dpas.8xR: 8 systolic steps of one 32-bit channel each, R rows, one column for each of `width` lanes."""
    depth, rows = map(int, re.search(r"\.(\d+)x(\d+)", mnemonic).groups())
    element = text.rsplit(":", 1)[1] if ":" in text else ""
    per_channel = {"hf": 2, "bf": 2, "tf32": 1, "b": 4, "ub": 4, "s8": 4, "u8": 4, "s4": 8, "u4": 8, "s2": 8, "u2": 8}
    kind = re.match(r"\w+", element)
    return depth * rows * per_channel.get(kind[0] if kind else "", 2) * width / simd


def instruction(line: str, simd: int, grf: int) -> Instruction | None:
    match = LINE.match(line.strip())
    if not match:
        return None
    operation, modifiers, width, rest = match[1], match[2] or "", int(match[3] or 1), match[4]
    operands = rest.split("//")[0]
    registers = registers_of(operands, REGISTER)
    whole = operation + modifiers
    if operation in ("sync", "nop", "illegal"):
        return Instruction("barrier" if whole == "sync.bar" else "wait", line)
    if operation.startswith("send"):
        kind, moved = message(modifiers[1:].split(".")[0], rest, width, simd, grf)
        loaded = frozenset()
        first = re.match(r"\s*r(\d+)", operands)
        if kind == "global_load" and first:
            count = int((re.search(r"rd:(\d+)", rest) or [0, 1])[1])
            loaded = frozenset(f"r{int(first[1]) + i}" for i in range(count))
        return Instruction(kind, line, bytes=moved, registers=registers | loaded, loaded=loaded)
    if operation.startswith("dpas"):
        # Registers by themselves, into nothing: no product but the compiler's way around a fault.
        if re.search(r"\bnull:\w+\s+(r\d+)\S*\s+\1\b", operands):
            return Instruction("alu", line, registers=registers)
        return Instruction("matrix", line, fmas=matrix_fmas(modifiers, width, simd, operands.split("{")[0]),
                           registers=registers)
    if operation in ("mad", "mac") and width > 1 and re.search(r":(f|hf|df|bf)\b", operands):
        return Instruction("fma", line, fmas=width / simd, registers=registers)
    if operation == "math":
        return Instruction("math", line, registers=registers)
    if operation in ("mov", "movi"):
        return Instruction("move", line, registers=registers)
    if operation in ("call", "calla"):
        return Instruction("call", line)
    if operation in ALU:
        return Instruction("alu", line, registers=registers)
    if operation.startswith("ret") or "EOT" in rest:
        return Instruction("control", line, falls_through=False)
    # Without a predicate all work-items go; `join`, `endif` and the like only put some of them to sleep.
    leaves = operation in ("jmpi", "brd", "goto", "else") and not PREDICATE.match(line.strip())
    return Instruction("control", line, registers=registers, targets=tuple(re.findall(r"\bL\d+\b", operands)),
                       falls_through=not leaves)


def read_assembly(text: str, kernel: Kernel, grf_bytes: int) -> None:
    """Fills the kernel's instructions and labels; its simd is known."""
    for line in text.splitlines():
        if label := re.match(r"^(L\d+):", line):
            kernel.labels[label[1]] = len(kernel.instructions)
            continue
        if line.startswith("//") or not (found := instruction(line, max(1, kernel.simd), grf_bytes)):
            continue
        kernel.instructions.append(found)


def read_ze_info(text: str) -> dict[str, Kernel]:
    """Kernels with their registers, SIMD width, local memory and what lies in memory for each thread or work-item."""
    kernels = {}
    for block in re.split(r"^  - name:\s+", text.split("kernels_misc_info")[0], flags=re.M)[1:]:
        name = block.split()[0]
        if name.startswith("Intel_Symbol_Table"):
            continue
        number = {key: int(value) for key, value in re.findall(r"^      (\w+):\s+(\d+)$", block, re.M)}
        kernel = Kernel(name, registers=number.get("grf_count", 128), simd=number.get("simd_size", 1),
                        local_bytes=number.get("slm_size", 0), spill_bytes=number.get("spill_size", 0),
                        private_bytes=number.get("private_size", 0))
        kernels[name] = kernel
    return kernels


def ocloc(tools: Path) -> list[str]:
    """The newer compiler that get_compilers.sh unpacked, else the system's."""
    root = tools / "intel"
    unpacked = sorted((root / "usr/bin").glob("ocloc-*"))
    if unpacked:
        return ["chroot", str(root), f"/usr/bin/{unpacked[-1].name}"]
    if shutil.which("ocloc"):
        return ["ocloc"]
    raise CompileError("ocloc is not there: run get_compilers.sh or install intel-ocloc")


def available(tools: Path) -> None:
    """Throws CompileError that says what is missing."""
    ocloc(tools)


def version(tools: Path) -> str:
    return "ocloc " + (ocloc(tools)[-1].partition("ocloc-")[2] or "of the system")


def machine(_target) -> list[str]:
    """For clang, which reads programs as ocloc's front does."""
    return ["-target", "spir64"]


def build(text: str, options: list[str], target, tools: Path, folder: Path) -> dict[str, str]:
    """The compiler's outputs, which `read` understands."""
    compiler = ocloc(tools)
    if compiler[0] != "chroot":
        return build_in(folder, str(folder), compiler, (text, options, target.name))
    with tempfile.TemporaryDirectory(dir=tools / "intel" / "job") as inside:   # it sees its own root only
        return build_in(Path(inside), f"/job/{Path(inside).name}", compiler, (text, options, target.name))


def build_in(folder: Path, seen: str, compiler: list[str], job: tuple[str, list[str], str]) -> dict[str, str]:
    """In a folder that the compiler sees under another name."""
    text, options, device = job
    (folder / "k.cl").write_text(text)
    command([*compiler, "compile", "-q", "-file", f"{seen}/k.cl", "-device", device, "-out_dir", seen, "-output",
             "k", "-output_no_suffix", "-options", " ".join(options)], folder)
    command([*compiler, "disasm", "-file", f"{seen}/k.bin", "-device", device, "-dump", f"{seen}/dump"], folder)
    files = [folder / "dump/.ze_info", *(folder / "dump").glob(".text.*.asm")]
    return {file.name: file.read_text(errors="replace") for file in files}


def read(outputs: dict[str, str], target) -> dict[str, Kernel]:
    kernels = read_ze_info(outputs[".ze_info"])
    for name, kernel in kernels.items():
        read_assembly(outputs[f".text.{name}.asm"], kernel, target.grf_bytes)
    return kernels
