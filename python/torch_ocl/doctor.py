"""Says which OpenCL devices PyTorch can use here and, where something is missing, the command that helps.

It works without PyTorch's device being usable: that is when it is needed.
"""
import argparse
import ctypes
import importlib.metadata
import os
import platform
import shutil
import sys
import time
from pathlib import Path

OK, BAD, NOTE = "ok", "PROBLEM", "note"


class Findings:
    """Prints findings as they come and remembers whether one of them is a problem."""

    def __init__(self):
        self.problems = 0

    def add(self, state, text, remedy=""):
        self.problems += state == BAD
        print(f"  [{state}] {text}")
        if remedy:
            print(f"         -> {remedy}")


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_python(findings):
    print("Python and PyTorch")
    findings.add(OK,
                 f"Python {platform.python_version()} on {platform.system()} {platform.machine()}: {sys.executable}")
    import torch

    import torch_ocl

    low, high = torch_ocl.OLDEST_TORCH, torch_ocl.FIRST_UNSUPPORTED_TORCH
    supported = f"{low[0]}.{low[1]} up to, but not including, {high[0]}.{high[1]}"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if low <= version < high:
        findings.add(OK, f"PyTorch {torch.__version__} (supported: {supported})")
    else:
        findings.add(BAD, f"PyTorch {torch.__version__} is not supported", f"pip install 'torch>={low[0]}.{low[1]},"
                     f"<{high[0]}.{high[1]}' and build again")
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        findings.add(NOTE, "TORCH_DEVICE_BACKEND_AUTOLOAD=0: `import torch` does not bring the device",
                     "unset it, or `import torch_ocl` in your program")
    findings.add(OK if version_of("torchvision") else NOTE,
                 f"torchvision {version_of('torchvision') or 'is not there'}",
                 "" if version_of("torchvision") else "needed by `validate` only: pip install torchvision")


def check_drivers(findings):
    """Drivers as files, whether or not they work."""
    print("OpenCL drivers")
    registered = sorted(Path("/etc/OpenCL/vendors").glob("*.icd"))
    for file in registered:
        library = file.read_text(errors="replace").strip()
        try:
            ctypes.CDLL(library)
            findings.add(OK, f"{file}: {library}")
        except OSError as error:
            findings.add(NOTE, f"{file}: {library} cannot be loaded ({error})", "reinstall or remove its package")
    runtime = version_of("intel-opencl-rt")
    if runtime:
        findings.add(OK, f"Intel's CPU runtime {runtime} from PyPI")
        if not version_of("intel-cmplr-lib-rt"):
            findings.add(BAD, "its compiler libraries are missing", "pip install intel-cmplr-lib-rt")
        if any(character.isspace() for character in os.path.realpath(sys.prefix)):
            findings.add(BAD, f"it does not start from a folder with a space in its path: {sys.prefix}",
                         "make the virtual environment in another folder")
    elif platform.machine() == "x86_64":
        findings.add(NOTE, "Intel's CPU runtime is not installed: the fastest OpenCL on x86-64 processors",
                     "pip install intel-opencl-rt intel-cmplr-lib-rt")
    if not registered and not runtime:
        findings.add(BAD, "there is no OpenCL driver", "pip install intel-opencl-rt intel-cmplr-lib-rt, or as root "
                     "apt-get install pocl-opencl-icd (any CPU), intel-opencl-icd (Intel GPUs), mesa-opencl-icd (AMD)")
    check_gpus(findings, [file.name for file in registered])


GPU_DRIVERS = {   # PCI vendor: (name, part of the .icd file's name, remedy)
    "0x8086": ("Intel", ("intel",), "apt-get install intel-opencl-icd"),
    "0x1002": ("AMD", ("amd", "mesa", "rusticl"), "apt-get install mesa-opencl-icd, or AMD's ROCm"),
    "0x10de": ("NVIDIA", ("nvidia",), "install NVIDIA's driver (its OpenCL part: nvidia-opencl-icd)"),
}


def check_gpus(findings, icd_names):
    """A GPU on the bus without a driver, or with one that this user may not open."""
    vendors = {path.read_text().strip() for path in Path("/sys/class/drm").glob("card*/device/vendor")}
    for vendor in sorted(vendors & GPU_DRIVERS.keys()):
        name, words, remedy = GPU_DRIVERS[vendor]
        if not any(word in icd for icd in icd_names for word in words):
            findings.add(NOTE, f"this machine has a graphics device of {name}, but no OpenCL driver for it", remedy)
    closed = [str(path) for path in Path("/dev/dri").glob("renderD*") if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        findings.add(BAD, f"no permission for {', '.join(closed)}", "sudo usermod -aG render,video $USER, log in again")


def check_devices(findings):
    print("Devices")
    import torch

    if not torch.ocl.is_available():
        findings.add(BAD, torch.ocl.unavailable_reason())
        return
    for index in range(torch.ocl.device_count()):
        p = torch.ocl.get_device_properties(index)
        major, minor = p.opencl_version
        findings.add(OK, f"ocl:{index}  {p.name} [{p.platform_name}, driver {p.driver_version}]")
        print(f"         OpenCL {major}.{minor}, {p.compute_units} compute units, {p.total_memory / 2**30:.1f} GiB, "
              f"kernels for {p.kind}s, float64 {'yes' if p.fp64 else 'no'}, float16 {'yes' if p.fp16 else 'storage only'}")
        try_device(findings, index)


def try_device(findings, index):
    """Compiles and runs one kernel."""
    import torch

    try:
        start = time.perf_counter()
        result = (torch.arange(4.0, device=f"ocl:{index}") + 1).sum().item()
        milliseconds = 1e3 * (time.perf_counter() - start)
    except RuntimeError as error:
        findings.add(BAD, f"a first computation on ocl:{index} failed: {error}")
        return
    if result == 10.0:
        findings.add(OK, f"a first computation gives the right result ({milliseconds:.0f} ms)")
    else:
        findings.add(BAD, f"a first computation gave {result} instead of 10: this driver computes wrong",
                     "update the driver, or leave the device out with CLPRIM_DEVICES")


def check_environment(findings):
    print("Settings")
    names = sorted(n for n in os.environ if n.startswith(("CLPRIM_", "TORCH_OCL_", "OCL_ICD_")))
    for name in names:
        if name == "OCL_ICD_FILENAMES" and os.environ[name].startswith(sys.prefix):
            continue   # set by torch_ocl itself to find Intel's runtime
        findings.add(NOTE, f"{name}={os.environ[name]}")
    folder = Path(os.environ.get("CLPRIM_CACHE_DIR") or
                  Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clprim")
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        findings.add(BAD, f"{folder} cannot be written: every start compiles every kernel anew",
                     "set CLPRIM_CACHE_DIR to a folder of yours")
    elif shutil.disk_usage(existing).free < 1 << 28:
        findings.add(NOTE, f"less than 256 MiB are free where compiled kernels are kept ({folder})")
    else:
        findings.add(OK, f"compiled kernels are kept in {folder}")


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m torch_ocl doctor", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    findings = Findings()
    for check in (check_python, check_drivers, check_devices, check_environment):
        check(findings)
    print("\nAll is well." if findings.problems == 0 else f"\n{findings.problems} problem(s), see above.")
    return 1 if findings.problems else 0
