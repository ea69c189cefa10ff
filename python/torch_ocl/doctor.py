"""Says which OpenCL devices PyTorch can use here and, where something is missing, the command that helps.

It works without PyTorch's device being usable: that is when it is needed.
"""
import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time

from torch_ocl._cache import cache_folder
from torch_ocl.doctor_drivers import (BAD, NOTE, OK, check_drivers, check_empty_drivers, graphics_vendors,
                                       update_command, version_of)


class Findings:
    """Prints findings as they come and remembers whether one of them is a problem."""

    def __init__(self):
        self.problems = []     # texts and remedies: said again at the end, where the eye falls
        self.closing = []      # what else is said there

    def add(self, state, text, remedy=""):
        if state == BAD:
            self.problems.append((text, remedy))
        print(f"  [{state}] {text}")
        if remedy:
            print(f"         -> {remedy}")

    def close(self):
        print()
        if not self.problems:
            print("No problem found." if self.closing else "All is well.", *self.closing)
            return
        print(f"{len(self.problems)} problem(s):" if len(self.problems) > 1 else "1 problem:")
        for text, remedy in self.problems:
            print(f"  {text}" + (f"\n    -> {remedy}" if remedy else ""))


def check_python(findings):
    print("Python and PyTorch")
    findings.add(OK,
                 f"Python {platform.python_version()} on {platform.system()} {platform.machine()}: {sys.executable}")
    import torch

    import torch_ocl
    from torch_ocl._loader import built_for, built_for_another

    low, high = torch_ocl.OLDEST_TORCH, torch_ocl.FIRST_UNSUPPORTED_TORCH
    supported = f"{low[0]}.{low[1]} up to, but not including, {high[0]}.{high[1]}"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if low <= version < high:
        findings.add(OK, f"PyTorch {torch.__version__} (supported: {supported})")
    else:
        findings.add(BAD, f"PyTorch {torch.__version__} is not supported", f"pip install 'torch>={low[0]}.{low[1]},"
                     f"<{high[0]}.{high[1]}' and build again")
    if another := built_for_another(torch.__version__, built_for()):
        findings.add(BAD, another)
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        findings.add(NOTE, "TORCH_DEVICE_BACKEND_AUTOLOAD=0: `import torch` does not bring the device",
                     "unset it, or `import torch_ocl` in your program")
    findings.add(OK if version_of("torchvision") else NOTE,
                 f"torchvision {version_of('torchvision') or 'is not there'}",
                 "" if version_of("torchvision") else "needed by `validate` only: pip install torchvision")


def check_devices(findings, test=False):
    print("Devices")
    import torch

    check_empty_drivers(findings)
    if not torch.ocl.is_available():
        if findings.problems:      # why is said already, with what helps
            findings.add(NOTE, "there is none, see above")
        else:
            findings.add(BAD, f"there is none: {torch.ocl.unavailable_reason()}")
        return
    for index in range(torch.ocl.device_count()):
        p = torch.ocl.get_device_properties(index)
        major, minor = p.opencl_version
        findings.add(OK, f"ocl:{index}  {p.name} [{p.platform_name}, driver {p.driver_version}]")
        print(f"         OpenCL {major}.{minor}, {p.compute_units} compute units, {p.total_memory / 2**30:.1f} GiB, "
              f"kernels for {p.kind}s, float64 {'yes' if p.fp64 else 'no'}, float16 {'yes' if p.fp16 else 'storage only'}")
        works = try_device(findings, index)
        if test and works:
            run_self_test(findings, index)
        elif test:
            print("         (self-test: not run, since nothing can be computed here)")
    check_others(findings)
    first = torch.ocl.get_device_properties(0)
    if first.kind == "cpu" and "CLPRIM_DEVICES" not in os.environ:
        seen = "" if graphics_vendors() else "; there is none on the PCI bus either"
        findings.add(NOTE, f"no GPU found: ocl:0 is your CPU, {first.name}{seen}")
        findings.closing.append("No GPU found: ocl:0 is your CPU.")


# Without PyTorch, which takes seconds to import.
LIST = """
import json, clprim
print(json.dumps([(d.id, d.name, d.platform_name, d.kind) for d in clprim.devices()]))
"""


def devices_offered(chosen):
    """The devices that a process with this CLPRIM_DEVICES has, as identity, name, platform and kind."""
    environment = {**os.environ, "CLPRIM_DEVICES": chosen}
    done = subprocess.run([sys.executable, "-c", LIST], env=environment, capture_output=True, text=True)
    return [] if done.returncode else json.loads(done.stdout.splitlines()[-1])


def check_others(findings):
    """Devices that drivers offer and that are not listed: a second driver's, a CPU beside a GPU, those not chosen. And
    those that are listed by choice although they are a device that another driver shows."""
    import torch

    listed = [torch.ocl.get_device_properties(i) for i in range(torch.ocl.device_count())]
    if os.environ.get("CLPRIM_DEVICES") and len(listed) > 1:
        usual = devices_offered("")
        for index, p in enumerate(listed):
            if not p.id.count(".") and p.id not in {d[0] for d in usual} and p.kind in {d[3] for d in usual}:
                findings.add(NOTE, f"ocl:{index} is a device that another driver shows, too: {p.name} "
                                   f"[{p.platform_name}]", "leave it out of CLPRIM_DEVICES, or use one of the two")
    for identity, name, platform_name, kind in devices_offered("all"):
        if any(p.id == identity or p.id.startswith(identity + ".") for p in listed):
            continue
        if os.environ.get("CLPRIM_DEVICES"):
            why = "CLPRIM_DEVICES leaves it out"
        elif kind == "cpu" and listed[0].kind != "cpu":
            why = "CPUs are not counted beside GPUs"
        else:
            why = "a second driver for a device that is listed"
        print(f"         (not listed: {identity} {name} [{platform_name}]: {why}; "
              f"CLPRIM_DEVICES={identity} chooses it)")


def run_self_test(findings, index):
    import torch

    from torch_ocl.doctor_self_test import self_test

    before = torch.ocl.fallback_policy()
    torch.ocl.set_fallback_policy("error")
    try:
        results = list(self_test(f"ocl:{index}", torch.ocl.get_device_properties(index).fp64))
    finally:
        torch.ocl.set_fallback_policy(before)
    wrong = {}      # dtypes and the first reason by family: a broken driver fails in many
    for family, dtype, why in results:
        if why:
            wrong.setdefault(family, ([], why))[0].append(str(dtype)[6:])
    for family, (dtypes, why) in wrong.items():
        findings.add(BAD, f"{family} in {', '.join(dtypes)} on ocl:{index}: {why}")
    if not wrong:
        families = len({family for family, _, _ in results})
        findings.add(OK, f"self-test: {len(results)} computations of {families} families are right")


def try_device(findings, index):
    """Whether one kernel compiles, runs and gives the right result."""
    import torch

    p = torch.ocl.get_device_properties(index)
    remedy = f"{update_command(p.platform_name)}, or choose another device with CLPRIM_DEVICES"
    try:
        start = time.perf_counter()
        result = (torch.arange(4.0, device=f"ocl:{index}") + 1).sum().item()
        milliseconds = 1e3 * (time.perf_counter() - start)
    except RuntimeError as error:
        lines = str(error).strip().splitlines()
        what = re.sub(r" with options '.*':$", "", lines[0])
        said = [line.strip() for line in lines[1:] if "error" in line.lower()][:1]
        findings.add(BAD, f"a first computation on ocl:{index} failed, {p.platform_name}'s driver is broken: "
                          f"{': '.join([what, *said])}", remedy)
        print(*(f"         {line}" for line in lines[1:]), sep="\n", end="\n" if lines[1:] else "")
        return False
    if result == 10.0:
        findings.add(OK, f"a first computation gives the right result ({milliseconds:.0f} ms)")
    else:
        findings.add(BAD, f"a first computation gave {result} instead of 10: this driver computes wrong", remedy)
    return result == 10.0


def check_environment(findings):
    print("Settings")
    names = sorted(n for n in os.environ if n.startswith(("CLPRIM_", "TORCH_OCL_", "OCL_ICD_")))
    for name in names:
        if name == "OCL_ICD_FILENAMES" and os.environ[name].startswith(sys.prefix):
            continue   # set by torch_ocl itself to find Intel's runtime
        findings.add(NOTE, f"{name}={os.environ[name]}")
    folder = cache_folder()
    if folder is None:
        findings.add(NOTE, "CLPRIM_CACHE_DISABLE is set: every start compiles every kernel anew", "unset it")
        return
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        findings.add(BAD, f"{folder} cannot be written: every start compiles every kernel anew",
                     "set CLPRIM_CACHE_DIR to a folder of yours")
    elif shutil.disk_usage(existing).free < 1 << 28:
        findings.add(NOTE, f"less than 256 MiB are free where compiled kernels are kept ({folder})")
    else:
        findings.add(OK, f"compiled kernels are kept in {folder}")


def print_report_header():
    """What a report of a bug should say beyond the findings."""
    packages = ("torch", "torch-ocl", "clprim", "torchvision", "numpy", "intel-opencl-rt")
    print("```")
    print(f"{platform.platform()}, {' '.join(platform.libc_ver())}, {os.cpu_count()} processors")
    print(", ".join(f"{package} {version_of(package) or '-'}" for package in packages))


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m torch_ocl doctor", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", action="store_true", help="compute something of each family of kernels in each dtype")
    parser.add_argument("--report", action="store_true", help="print it as a block to paste into a report of a bug")
    options = parser.parse_args(arguments)
    findings = Findings()
    if options.report:
        print_report_header()
    check_python(findings)
    check_drivers(findings)
    check_devices(findings, options.test)
    check_environment(findings)
    findings.close()
    if options.report:
        print("```")
    return 1 if findings.problems else 0
