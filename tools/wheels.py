#!/usr/bin/env python3
"""Makes the wheels clprim and torch_ocl from the build, and tries them in an empty virtual environment (`make wheels`).

clprim holds the library and what it links but the OpenCL loader, which has to be the system's or the Intel runtime's.
torch_ocl holds the PyTorch device; it needs the PyTorch minor version that it was built with, and clprim of its own
version.

    tools/wheels.py [--build build] [--out out/wheels] [--no-smoke | --smoke-only]
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

ROOT = Path(__file__).resolve().parents[1]
LOADER = "libOpenCL.so.1"
TORCH_LIBRARIES = ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so")


def version():
    header = (ROOT / "include/clprim/version.h").read_text()
    return re.search(r'CLPRIM_VERSION_STRING "([0-9.]+)"', header)[1]


def run(*command, **options):
    subprocess.run([str(part) for part in command], check=True, **options)


def torch_range():
    import importlib.metadata

    major, minor = map(int, importlib.metadata.version("torch").split(".")[:2])
    return f"torch>={major}.{minor},<{major}.{minor + 1}"


def metadata(name, summary, requires, extras):
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version()}", f"Summary: {summary}", "License: MIT",
             "License-File: LICENSE", "Requires-Python: >=3.10", "Classifier: License :: OSI Approved :: MIT License",
             "Classifier: Operating System :: POSIX :: Linux", "Classifier: Programming Language :: C++",
             "Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    for extra, packages in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {package} ; extra == "{extra}"' for package in packages]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / "README.md").read_text()]
    return "\n".join(lines)



def packages():
    """Name, summary, requirements, extras and entry points of each wheel."""
    return {
        "clprim": ("Deep-learning primitives on OpenCL devices: nets, ONNX models and functions for NumPy arrays",
                   ["numpy"],
                   {"cpu": ["intel-opencl-rt", "intel-cmplr-lib-rt"], "onnx": ["onnx", "onnxruntime", "ml_dtypes"]},
                   "[console_scripts]\nclprim = clprim.__main__:main\n"),
        "torch_ocl": ("OpenCL as a PyTorch device, on the clprim deep-learning primitives",
                      [torch_range(), "numpy", f"clprim=={version()}"],
                      {"cpu": [f"clprim[cpu]=={version()}"],
                       "demo": ["torchvision", "tqdm", "matplotlib", "scikit-image"]},
                      "[torch.backends]\ntorch_ocl = torch_ocl:_autoload\n"),
    }


def stage(build, name, folder, description):
    """The files of one wheel, as `wheel pack` takes them."""
    summary, requires, extras, entry_points = description
    shutil.copytree(build / name, folder / name, symlinks=False)
    info = folder / f"{name}-{version()}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata(name.replace("_", "-"), summary, requires, extras))
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: clprim\nRoot-Is-Purelib: false\n"
                                f"Tag: {tag}-{tag}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}\n")
    (info / "entry_points.txt").write_text(entry_points)
    shutil.copy(ROOT / "LICENSE", info / "LICENSE")


def repair(wheel, out, library_path, excluded):
    """Takes in the libraries that the wheel links, but for the excluded, and names the oldest glibc that it runs on."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library_path),
                   "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    options = [part for name in excluded for part in ("--exclude", name)]
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", out, *options, wheel, env=environment)


def make(build, out):
    out.mkdir(parents=True, exist_ok=True)
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
            stage(work / "installed", package, work / package, description)
            run(sys.executable, "-m", "wheel", "pack", "--dest-dir", work / "plain", work / package,
                stdout=subprocess.DEVNULL)
            excluded = [LOADER] if package == "clprim" else [LOADER, *TORCH_LIBRARIES, "libclprim.so.*"]
            library = work / "installed/clprim/lib"
            repair(next((work / "plain").glob(f"{package}-*.whl")), out, library, excluded)
            wheels.append(next(out.glob(f"{package}-*.whl")))
    for wheel in wheels:
        print(f"{wheel}  {wheel.stat().st_size / 2**20:.1f} MiB")
    return wheels


CLPRIM_SMOKE = """
import numpy, clprim
a = numpy.random.default_rng(0).standard_normal((50, 60)).astype('f')
assert clprim.__file__.startswith({prefix!r}), clprim.__file__
product = clprim.matmul(clprim.Tensor(a), clprim.Tensor(a.T.copy())).numpy()
numpy.testing.assert_allclose(product, a @ a.T, rtol=1e-4, atol=1e-4)
print('clprim', clprim.__version__, 'on', clprim.devices()[0].name)
"""
TORCH_SMOKE = """
import torch, torch_ocl
assert torch_ocl.__file__.startswith({prefix!r}), torch_ocl.__file__
x = torch.randn(8, 3, 32, 32)
layer = torch.nn.Conv2d(3, 4, 3)
expected = layer(x).detach()
y = layer.to('ocl')(x.to('ocl'))
torch.testing.assert_close(y.detach().cpu(), expected)
y.sum().backward()
print('torch_ocl on', torch.ocl.get_device_name(0), 'with PyTorch', torch.__version__)
"""


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
        code = [template.format(prefix=str(folder)) for template in (CLPRIM_SMOKE, TORCH_SMOKE)]
        # The packages of this folder's build must not be found: what is tried is the wheels.
        start = f"import sys; sys.path.sort(key=lambda p: not p.startswith({str(folder)!r}))\n"
        for text in code:
            run(python, "-c", start + text, env=environment, cwd=name)
        run(folder / "bin/clprim", "devices", env=environment, cwd=name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--out", type=Path, default=ROOT / "out/wheels")
    parser.add_argument("--no-smoke", action="store_true", help="make them and no more")
    parser.add_argument("--smoke-only", action="store_true", help="try those that are there")
    options = parser.parse_args()
    if options.smoke_only:
        smoke(sorted(options.out.resolve().glob("*.whl")))
        return
    wheels = make(options.build.resolve(), options.out.resolve())
    if not options.no_smoke:
        smoke(wheels)


if __name__ == "__main__":
    main()
