#!/usr/bin/env python3
"""Compile clprim's programs with the real compilers of GPUs, on a machine without one.

First let some work dump its programs, as a GPU would ask for them:

    CLPRIM_DEVICE_KIND=gpu CLPRIM_CACHE_DISABLE=1 CLPRIM_DUMP_PROGRAMS=/tmp/programs build/tests/test_gemm
    tools/compile_for_gpus.py /tmp/programs

Intel: ocloc (package intel-opencl-icd) for Arc (dg2-g10, without float64) and Skylake (skl, with it). AMD: clang
with libclc (of the same LLVM release), gfx1030. NVIDIA: clang with libclc to PTX, and ptxas where it is installed.
Prints a line for each failure and for each kernel that spills registers, and exits with 1 if a program did not compile.
"""
import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIBCLC = pathlib.Path("/usr/lib/clc")
# libclc's bitcode is read only by the LLVM release that wrote it or a later one.
CLANG = next(filter(None, map(shutil.which, ("clang-19", "clang-16", "clang-15", "clang"))), None)


def read(path):
    options, text = path.read_text().split("\n", 1)
    return options.removeprefix("// ").split(), text


def portable(options, *capabilities):
    """The program's own definitions, with another device's capabilities than those of the one that dumped it."""
    keep = [o for o in options if o.startswith("-D") and o not in ("-DCLPRIM_FP64", "-DCLPRIM_FP16")]
    return keep + [f"-DCLPRIM_{capability}" for capability in capabilities]


def uses_fp64(options, text):
    outside = re.sub(r"#ifdef CLPRIM_FP64.*?#endif", "", text, flags=re.S)
    outside = re.sub(r"//.*", "", outside)
    used = r"\bdouble\d*\b|_float64\b|_complex128\b"
    return any(re.search(r"float64|double|complex128", o) for o in options) or re.search(used, outside)


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def intel(path, folder, device):
    options, text = read(path)
    arc = device.startswith("dg2")
    if arc and uses_fp64(options, text):
        return "skipped: float64 on a device without it", []
    (folder / "k.cl").write_text(text)
    flags = " ".join(["-cl-std=CL3.0", *portable(options, "FP16", *(() if arc else ("FP64",)))])
    code, log = run(["ocloc", "compile", "-file", "k.cl", "-device", device, "-options", flags], folder)
    spills = re.findall(r"kernel (\w+).*?spilled around (\d+)", log)
    return (None if code == 0 else log), [f"{k} spills {n}" for k, n in spills]


def clang(path, folder, target, cpu, library):
    options, text = read(path)
    (folder / "k.cl").write_text(text)
    # NVIDIA's OpenCL has no cl_khr_fp16.
    capabilities = ("FP64",) if target.startswith("nvptx") else ("FP16", "FP64")
    command = [CLANG, "-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header", "-target", target,
               f"-mcpu={cpu}" if target.startswith("amd") else f"-march={cpu}", "-nogpulib", "-O3", "-S", "k.cl", "-o",
               "k.s", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(library), "-Wno-everything",
               *portable(options, *capabilities)]
    code, log = run(command, folder)
    if code:
        return log, []
    assembly = (folder / "k.s").read_text()
    spills = re.findall(r"\.name:\s+(\w+).*?\.vgpr_spill_count:\s+([1-9]\d*)", assembly, re.S)
    if target.startswith("nvptx") and shutil.which("ptxas"):
        code, log = run(["ptxas", "-v", "-arch=sm_90", "k.s", "-o", "k.cubin"], folder)
        spills = [(m[0], m[1]) for m in re.findall(r"'(\w+)' for.*?([1-9]\d*) bytes spill stores", log, re.S)]
        return (None if code == 0 else log), [f"{k} spills {n} bytes" for k, n in spills]
    return None, [f"{k} spills {n}" for k, n in spills]


def compilers(wanted):
    amd, nvidia = LIBCLC / "amdgcn--amdhsa.bc", LIBCLC / "nvptx64--nvidiacl.bc"
    table = {}
    if shutil.which("ocloc"):
        table["intel-arc"] = lambda p, f: intel(p, f, "dg2-g10")
        table["intel-skl"] = lambda p, f: intel(p, f, "skl")
    if CLANG and amd.exists():
        table["amd"] = lambda p, f: clang(p, f, "amdgcn--amdhsa", "gfx1030", amd)
    if CLANG and nvidia.exists():
        table["nvidia"] = lambda p, f: clang(p, f, "nvptx64-nvidia-nvcl", "sm_70", nvidia)
    return {k: v for k, v in table.items() if not wanted or k in wanted}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--compiler", action="append", help="intel-arc, intel-skl, amd, nvidia; default all")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    table = compilers(arguments.compiler)
    if not table:
        sys.exit("no offline GPU compiler is installed: apt install intel-opencl-icd clang-15 libclc-15")
    programs = sorted(arguments.folder.glob("*.cl"))
    if not programs:
        sys.exit(f"{arguments.folder} holds no dumped program")

    def one(job):
        name, path = job
        with tempfile.TemporaryDirectory() as folder:
            return name, path, *table[name](path, pathlib.Path(folder))

    counts = {name: [0, 0, 0] for name in table}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for name, path, error, spills in pool.map(one, [(n, p) for p in programs for n in table]):
            if error and error.startswith("skipped"):
                counts[name][2] += 1
            elif error:
                counts[name][1] += 1
                first = next((line for line in error.splitlines() if "error" in line), error.strip()[:200])
                print(f"FAILED {name} {path.name}: {first}")
            else:
                counts[name][0] += 1
            for spill in spills:
                print(f"spill  {name} {path.name}: {spill}")
    for name, (good, bad, skipped) in counts.items():
        print(f"{name}: {good} compiled, {bad} failed, {skipped} skipped (float64 on a device without it)")
    sys.exit(any(bad for _, bad, _ in counts.values()))


if __name__ == "__main__":
    main()
