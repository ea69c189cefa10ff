#!/usr/bin/env python3
"""Makes the wheels clprim and torch_ocl from the build, and tries them in an empty virtual environment (`make wheels`).

clprim holds the library and what it links but the OpenCL loader, which has to be the system's or the Intel runtime's.
Its module is compiled for each Python from 3.10 to 3.14 whose headers are there (python3.10 ... python3.14 on PATH, and
those that --python names, as interpreters or folders with Python.h): one wheel serves all of them.
torch_ocl holds the PyTorch device; it needs the Python and the PyTorch minor version that it was built with, and clprim
of its own version.

    tools/wheels.py [--build build] [--out out/wheels] [--python PYTHON]... [--no-smoke | --smoke-only]
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

from wheel_notices import add_notices

ROOT = Path(__file__).resolve().parents[1]
LOADER = "libOpenCL.so.1"
TORCH_LIBRARIES = ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so")


def version():
    header = (ROOT / "include/clprim/version.h").read_text()
    return re.search(r'CLPRIM_VERSION_STRING "([0-9.]+)"', header)[1]


def run(*command, **options):
    subprocess.run([str(part) for part in command], check=True, **options)


HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"


def header_folders(named):
    """Folders with Python.h by tag: of the Pythons on PATH and of those that were named."""
    folders = {}
    for python in [f"python3.{minor}" for minor in range(10, 15)] + named:
        folder = Path(python)
        if not folder.is_dir():
            done = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
                                  capture_output=True, text=True) if shutil.which(python) else None
            if done is None or done.returncode:
                if python in named:
                    sys.exit(f"{python} is no Python and no folder with Python.h")
                continue
            folder = Path(done.stdout.strip())
        if (folder / "Python.h").exists():
            text = (folder / "patchlevel.h").read_text()
            folders["cp" + "".join(re.findall(r"define PY_M(?:AJOR|INOR)_VERSION\s+(\d+)", text))] = folder.resolve()
        elif python in named:
            sys.exit(f"{folder} has no Python.h")
    return folders


def build_for(folders, build):
    """Compiles clprim._C for each of them; that of the build is there."""
    others = ";".join(str(folder) for tag, folder in folders.items() if tag != HERE)
    run("cmake", f"-DCLPRIM_PYTHON_HEADERS={others}", build, stdout=subprocess.DEVNULL)
    run("cmake", "--build", build, "--target", "clprim_pythons", "--parallel", os.environ.get("CLPRIM_JOBS", "2"))
    return sorted({HERE, *folders})


def torch_range():
    import importlib.metadata

    major, minor = map(int, importlib.metadata.version("torch").split(".")[:2])
    return f"torch>={major}.{minor},<{major}.{minor + 1}"


def metadata(name, summary, requires, extras, licences):
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version()}", f"Summary: {summary}",
             f"License-Expression: {licences}", "License-File: LICENSE", "Requires-Python: >=3.10",
             "Classifier: Operating System :: POSIX :: Linux", "Classifier: Programming Language :: C++",
             "Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    for extra, packages in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {package} ; extra == "{extra}"' for package in packages]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / "README.md").read_text()]
    return "\n".join(lines)


def packages():
    """Name, summary, requirements, extras, entry points and licences of each wheel."""
    return {
        "clprim": ("Deep-learning primitives on OpenCL devices: nets, ONNX models and functions for NumPy arrays",
                   ["numpy"],
                   {"cpu": ["intel-opencl-rt", "intel-cmplr-lib-rt"], "onnx": ["onnx", "onnxruntime", "ml_dtypes"]},
                   "[console_scripts]\nclprim = clprim.__main__:main\n",
                   # CLBlast; protobuf, libwebp, CLI11, pybind11; libjpeg-turbo; libpng
                   "MIT AND Apache-2.0 AND BSD-3-Clause AND IJG AND Zlib AND libpng-2.0"),
        "torch_ocl": ("OpenCL as a PyTorch device, on the clprim deep-learning primitives",
                      [torch_range(), "numpy", f"clprim=={version()}"],
                      {"cpu": [f"clprim[cpu]=={version()}"],
                       "demo": ["torchvision", "tqdm", "matplotlib", "scikit-image"]},
                      "[torch.backends]\ntorch_ocl = torch_ocl:_autoload\n",
                      "MIT AND Apache-2.0 AND BSD-3-Clause"),
    }


def stage(build, name, folder, description, tags):
    """The files of one wheel for some Pythons, as `wheel pack` takes them."""
    summary, requires, extras, entry_points, licences = description
    shutil.copytree(build / name, folder / name, symlinks=False)
    info = folder / f"{name}-{version()}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata(name.replace("_", "-"), summary, requires, extras, licences))
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: clprim\nRoot-Is-Purelib: false\n"
                                + "".join(f"Tag: {tag}-{tag}-{platform}\n" for tag in tags))
    (info / "entry_points.txt").write_text(entry_points)
    (info / "licenses").mkdir()
    shutil.copy(ROOT / "LICENSE", info / "licenses/LICENSE")


def repair(wheel, out, library_path, excluded):
    """Takes in the libraries that the wheel links, but for the excluded, with their licences; names the oldest glibc
    that it runs on."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library_path),
                   "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    options = [part for name in excluded for part in ("--exclude", name)]
    work = wheel.parent / "repaired"
    done = subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", work, *options, wheel],
                          env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    package = wheel.name.split("-")[0]
    run(sys.executable, "-m", "wheel", "unpack", "--dest", work, next(work.glob(f"{package}-*.whl")),
        stdout=subprocess.DEVNULL)
    folder = work / f"{package}-{version()}"
    if without := add_notices(next(folder.glob("*.dist-info")), package):
        print(f"{package}: no text of the licence of {', '.join(without)} was found")
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", out, folder, stdout=subprocess.DEVNULL)


def make(build, out, pythons):
    out.mkdir(parents=True, exist_ok=True)
    tags = build_for(header_folders(pythons), build)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        run("cmake", "--install", build, "--component", "python", "--prefix", work / "installed", "--strip",
            stdout=subprocess.DEVNULL)
        (work / "plain").mkdir()
        wheels = []
        for package, description in packages().items():
            for old in out.glob(f"{package}-*.whl"):
                old.unlink()
            (work / package).mkdir()
            stage(work / "installed", package, work / package, description, tags if package == "clprim" else [HERE])
            run(sys.executable, "-m", "wheel", "pack", "--dest-dir", work / "plain", work / package,
                stdout=subprocess.DEVNULL)
            excluded = [LOADER] if package == "clprim" else [LOADER, *TORCH_LIBRARIES, "libclprim.so.*"]
            library = work / "installed/clprim/lib"
            repair(next((work / "plain").glob(f"{package}-*.whl")), out, library, excluded)
            wheels.append(next(out.glob(f"{package}-*.whl")))
    for wheel in wheels:
        print(f"{wheel}  {wheel.stat().st_size / 2**20:.1f} MiB")
    return wheels


def smoke(wheels):
    """Installs the wheels into an empty environment and computes something. PyTorch, the OpenCL runtime and NumPy come
    from this Python's packages: they are gigabytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "venv"
        venv.create(folder, with_pip=True)
        python = folder / "bin/python"
        run(python, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check", *wheels)
        others = [sysconfig.get_paths()["purelib"], *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(others), "CLPRIM_PROGRESS": "0"}
        # The packages of this folder's build must not be found: what is tried is the wheels.
        start = ("import runpy, sys; sys.path.sort(key=lambda p: not p.startswith(sys.prefix)); "
                 f"runpy.run_path({str(ROOT / 'tools/wheels_smoke.py')!r}, run_name='__main__')")
        run(python, "-c", start, env=environment, cwd=name)
        run(folder / "bin/clprim", "devices", env=environment, cwd=name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--out", type=Path, default=ROOT / "out/wheels")
    parser.add_argument("--python", action="append", default=[], help="one more that clprim is for, or its headers")
    parser.add_argument("--no-smoke", action="store_true", help="make them and no more")
    parser.add_argument("--smoke-only", action="store_true", help="try those that are there")
    options = parser.parse_args()
    if options.smoke_only:
        smoke(sorted(options.out.resolve().glob("*.whl")))
        return
    wheels = make(options.build.resolve(), options.out.resolve(), options.python)
    if not options.no_smoke:
        smoke(wheels)


if __name__ == "__main__":
    main()
