"""What the doctor says about OpenCL drivers: as files, in the environment, and for the graphics devices of the
machine."""
import grp
import importlib.metadata
import json
import os
import platform
import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path

OK, BAD, NOTE = "ok", "PROBLEM", "note"

GPU_DRIVERS = {   # PCI vendor: (name, parts of the .icd file's name, package or other remedy)
    "0x8086": ("Intel", ("intel", "rusticl"), "intel-opencl-icd"),
    "0x1002": ("AMD", ("amd", "mesa", "rusticl"), "mesa-opencl-icd, or AMD's ROCm"),
    "0x10de": ("NVIDIA", ("nvidia",), "nvidia-opencl-icd, which belongs to NVIDIA's driver"),
}


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


DRIVER_UPDATES = {   # part of a platform's name: the command that brings its newest driver
    "Intel(R) OpenCL Graphics": "as root: apt-get install --reinstall intel-opencl-icd",
    "Intel": "pip install --upgrade intel-opencl-rt intel-cmplr-lib-rt",
    "Portable Computing Language": "as root: apt-get install --reinstall pocl-opencl-icd",
    "rusticl": "as root: apt-get install --reinstall mesa-opencl-icd",
    "Clover": "as root: apt-get install --reinstall mesa-opencl-icd",
}


def update_command(platform_name):
    known = (command for part, command in DRIVER_UPDATES.items() if part in platform_name)
    return next(known, "install its vendor's newest driver")


def check_drivers(findings, vendors=Path("/etc/OpenCL/vendors")):
    """Drivers as files, whether or not they work."""
    print("OpenCL drivers")
    registered = sorted(vendors.glob("*.icd"))
    runtime = version_of("intel-opencl-rt")
    libraries = {file: file.read_text(errors="replace").strip() for file in registered}
    broken = {file: why for file, library in libraries.items() if (why := why_broken(library))}
    for file, library in libraries.items():
        if file in broken:
            alone = not runtime and len(broken) == len(registered)
            findings.add(BAD if alone else NOTE, f"{file}: {library} {broken[file]}", mend_driver(file))
        else:
            findings.add(OK, f"{file}: {library}")
    if runtime:
        check_intel_runtime(findings, runtime)
    elif platform.machine() == "x86_64":
        findings.add(NOTE, "Intel's CPU runtime is not installed: the fastest OpenCL on x86-64 processors",
                     "pip install intel-opencl-rt intel-cmplr-lib-rt")
    if not registered and not runtime:
        findings.add(BAD, "there is no OpenCL driver", "pip install intel-opencl-rt intel-cmplr-lib-rt, or as root "
                     "apt-get install pocl-opencl-icd (any CPU), intel-opencl-icd (Intel GPUs), mesa-opencl-icd (AMD)")
    check_hidden(findings, os.environ)
    check_gpus(findings, [file.name for file in registered])


PROBE = """
import ctypes, sys
try:
    library = ctypes.CDLL(sys.argv[1])
except OSError as error:
    sys.exit(f"cannot be loaded ({error})")
if not hasattr(library, "clIcdGetPlatformIDsKHR") and not hasattr(library, "clGetExtensionFunctionAddress"):
    sys.exit("is no OpenCL driver")
"""


def why_broken(library):
    """What is wrong with a driver's library; empty if it loads. A process of its own tries: a broken one may end it."""
    done = subprocess.run([sys.executable, "-c", PROBE, library], capture_output=True, text=True)
    if done.returncode < 0:
        return f"ends the process that loads it ({signal.Signals(-done.returncode).name})"
    return (done.stderr.strip() or "cannot be loaded").splitlines()[-1] if done.returncode else ""


def mend_driver(file):
    """The command that helps where a registered driver does not load."""
    if shutil.which("dpkg-query"):
        owner = subprocess.run(["dpkg-query", "-S", str(file)], capture_output=True, text=True)
        if owner.returncode == 0:
            package = owner.stdout.split(":")[0]
            return f"as root: apt-get install --reinstall {package}, or apt-get remove {package}"
    return f"install its driver again, or remove what is left of it: rm {file}"


def check_intel_runtime(findings, version):
    findings.add(OK, f"Intel's CPU runtime {version} from PyPI")
    if not version_of("intel-cmplr-lib-rt"):
        findings.add(BAD, "its compiler libraries are missing", "pip install intel-cmplr-lib-rt")
    if any(character.isspace() for character in os.path.realpath(sys.prefix)):
        findings.add(BAD, f"it does not start from a folder with a space in its path: {sys.prefix}",
                     "make the virtual environment in another folder")
    if not os.environ.get("OCL_ICD_VENDORS"):
        print(f"         (programs in C++ and C see it with OCL_ICD_VENDORS={sys.prefix}/lib/libintelocl.so)")


def check_hidden(findings, environment):
    """Variables of the OpenCL loader that leave it without drivers."""
    chosen = environment.get("OCL_ICD_VENDORS", "")
    if chosen:
        remedy = "unset OCL_ICD_VENDORS"
        path = Path(chosen)
        if path.is_dir():
            if not list(path.glob("*.icd")):
                findings.add(BAD, f"OCL_ICD_VENDORS={chosen} hides every driver: that folder has no .icd file", remedy)
        elif "/" in chosen and not path.exists():
            findings.add(BAD, f"OCL_ICD_VENDORS={chosen} hides every driver: there is no such file or folder", remedy)
        else:
            findings.add(NOTE, f"OCL_ICD_VENDORS={chosen} hides the drivers of /etc/OpenCL/vendors and of PyPI", remedy)
    for name in filter(None, environment.get("OCL_ICD_FILENAMES", "").split(":")):
        if "/" in name and not Path(name).exists():
            findings.add(BAD, f"OCL_ICD_FILENAMES names {name}, which is not there", "unset OCL_ICD_FILENAMES")


PLATFORMS = """
import ctypes, json
import clprim   # which chooses the loader
opencl = ctypes.CDLL("libOpenCL.so.1")
count, found, name = ctypes.c_uint(0), [], ctypes.create_string_buffer(256)
opencl.clGetPlatformIDs(0, None, ctypes.byref(count))
platforms = (ctypes.c_void_p * count.value)()
opencl.clGetPlatformIDs(count, platforms, None)
for platform in map(ctypes.c_void_p, platforms):
    devices = ctypes.c_uint(0)
    opencl.clGetPlatformInfo(platform, 0x0902, ctypes.c_size_t(256), name, None)
    opencl.clGetDeviceIDs(platform, ctypes.c_ulong(0xFFFFFFFF), 0, None, ctypes.byref(devices))
    found.append((name.value.decode(), devices.value))
print(json.dumps(found))
"""


def check_empty_drivers(findings):
    """Drivers that load and find no device: GPUs' where the GPU is not passed on."""
    done = subprocess.run([sys.executable, "-c", PLATFORMS], capture_output=True, text=True)
    for name, devices in [] if done.returncode else json.loads(done.stdout.splitlines()[-1]):
        if devices == 0:
            findings.add(NOTE, f"the driver {name} finds no device of its own",
                         "in a container, pass a GPU on (docker run --device /dev/dri, or --gpus all); its kernel "
                         "driver has to be loaded")


def graphics_vendors(sysfs=Path("/sys")):
    """PCI vendors of the machine's display controllers and compute accelerators."""
    vendors = set()
    for device in (sysfs / "bus/pci/devices").glob("*"):
        try:
            if (device / "class").read_text().startswith(("0x03", "0x12")):
                vendors.add((device / "vendor").read_text().strip())
        except OSError:
            continue
    return vendors


def install_command(package):
    return f"apt-get install {package}" if shutil.which("apt-get") else f"install your distribution's {package}"


def check_gpus(findings, icd_names, sysfs=Path("/sys"), devices=Path("/dev/dri")):
    """A GPU on the bus without a driver, or with one that this user may not open."""
    for vendor in sorted(graphics_vendors(sysfs) & GPU_DRIVERS.keys()):
        name, words, package = GPU_DRIVERS[vendor]
        if not any(word in icd for icd in icd_names for word in words):
            findings.add(NOTE, f"this machine has a graphics device of {name}, but no OpenCL driver for it",
                         install_command(package))
    closed = [path for path in sorted(devices.glob("renderD*")) if not os.access(path, os.R_OK | os.W_OK)]
    for path in closed:
        findings.add(BAD, f"no permission for {path}: {owners_of(path)}",
                     f"sudo usermod -aG {group_of(path)} {user()}, then log out and in again")


def group_of(path):
    try:
        return grp.getgrgid(path.stat().st_gid).gr_name
    except (KeyError, OSError):
        return "render"


def user():
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "$USER"


def owners_of(path):
    return f"it belongs to the group {group_of(path)}, of which {user()} is not a member"
