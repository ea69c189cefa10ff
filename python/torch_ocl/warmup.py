"""Builds the OpenCL programs that models need, so that their first use does not wait for the compiler.

A process runs each model dry, which says what it needs without building anything. Then as many processes as there are
cores build that, since drivers compile one program at a time in a process. The programs are kept in the cache on disk;
its folder serves every machine with the same device and driver and may be copied.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from torch_ocl._cache import cache_folder


def programs_of(name, device, options):
    """Runs a model dry, in the process that the environment says is one."""
    from torch_ocl.validate import input_shape, loss_of, make_model, tensors_of

    dtype = getattr(torch, options.dtype)
    model = make_model(name).to(device=device, dtype=dtype)
    images = torch.randn(input_shape(name, options.batch, options.size)).to(device=device, dtype=dtype)
    with torch.no_grad():
        model.eval()(images)
    if options.train:
        optimizer = getattr(torch.optim, options.optimizer)(model.parameters(), lr=1e-3)
        labels = torch.zeros(len(images), dtype=torch.long).to(device)
        loss_of(tensors_of(model.train()(images)), labels).backward()
        optimizer.step()
        optimizer.zero_grad()


def list_programs(arguments, folder):
    dry = {**os.environ, "CLPRIM_DRY_RUN": str(folder / "launches"), "CLPRIM_DUMP_PROGRAMS": str(folder)}
    done = subprocess.run([sys.executable, "-m", "torch_ocl", "warmup", "--list", *arguments], env=dry,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"the models could not be run dry:\n{done.stderr}")
    return len(list(folder.glob("*.cl")))


def build(folder, device, processes, count):
    """Lets processes build what the folder holds; says how far they are."""
    import clprim
    from clprim._drivers import preloaded_drivers

    package = Path(clprim.__file__).parent
    library = sorted((package / "lib").glob("libclprim.so*"))[0]
    environment = {**os.environ, "CLPRIM_PROGRESS": "0"}
    if drivers := preloaded_drivers():
        environment["LD_PRELOAD"] = ":".join([*drivers, *filter(None, [os.environ.get("LD_PRELOAD")])])
    identity = torch.ocl.get_device_properties(device).id
    command = [sys.executable, str(package / "_build_programs.py"), str(library), identity, str(folder)]
    workers = [subprocess.Popen(command, env=environment) for _ in range(processes)]
    try:
        while any(worker.poll() is None for worker in workers):
            if sys.stderr.isatty():
                print(f"\r{len(list(folder.glob('*.built')))} of {count} programs", end="", file=sys.stderr, flush=True)
            time.sleep(0.1)
    finally:
        for worker in workers:
            worker.terminate()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if any(worker.returncode for worker in workers):
        raise SystemExit("building failed; the error is above")


def add_model_options(parser, count):
    parser.add_argument("models", nargs=count, metavar="MODEL", help="torchvision models")
    parser.add_argument("--device", default="ocl:0", type=torch.device)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "float16", "bfloat16"])
    parser.add_argument("--train", action="store_true", help="a step of training as well")
    parser.add_argument("--optimizer", default="SGD", metavar="CLASS", help="of torch.optim (default: SGD)")
    parser.add_argument("--batch", type=int, help="images at a time (default: 2; inception 8)")
    parser.add_argument("--size", type=int, help="image height and width (default: 224; inception 299)")


def unknown_models(names):
    """Whether torchvision lacks one; says so."""
    from torchvision import models

    unknown = sorted(set(names) - set(models.list_models()))
    if unknown:
        print(f"torchvision has no model {', '.join(unknown)}; torchvision.models.list_models() names them all",
              file=sys.stderr)
    return bool(unknown)


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m torch_ocl warmup", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model_options(parser, "+")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: as many as there are cores")
    parser.add_argument("--list", action="store_true", help=argparse.SUPPRESS)   # in the process that runs dry
    options = parser.parse_args(arguments)
    if options.list:
        torch.ocl.set_fallback_policy("allow")
        for name in options.models:
            programs_of(name, options.device, options)
        return 0
    if unknown_models(options.models):
        return 2
    with tempfile.TemporaryDirectory(prefix="clprim-warmup-") as name:
        folder = Path(name)
        count = list_programs(arguments, folder)
        start = time.perf_counter()
        build(folder, options.device, min(max(1, options.processes), count), count)
        print(f"{count} programs for {torch.ocl.get_device_name(options.device)}, ready after "
              f"{time.perf_counter() - start:.1f} s; kept in {cache_folder()}")
    return 0
