"""Finds the fastest kernels for models' problems on this device, once and for every later run.

Runs each model with tuning on: every product, convolution and attention tries the kernels that can compute it, with
their parameters, and the fastest is kept on disk for this device and driver. `--export` writes all of that to a file
for machines with the same device, `--import` takes one.
"""
import argparse
import sys
import time

import torch

from torch_ocl import tunable
from torch_ocl.warmup import add_model_options, programs_of, unknown_models


def milliseconds(name, options):
    """Of a run of the model after one that builds its programs."""
    programs_of(name, options.device, options)
    torch.ocl.synchronize(options.device)
    start = time.perf_counter()
    programs_of(name, options.device, options)
    torch.ocl.synchronize(options.device)
    return (time.perf_counter() - start) * 1e3


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m torch_ocl tune", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model_options(parser, "*")
    parser.add_argument("--seconds", type=float, default=10, help="the most for one problem (default: 10)")
    parser.add_argument("--export", metavar="FILE", help="write all results of this device")
    parser.add_argument("--import", metavar="FILE", dest="taken", help="take the results of a device like this one")
    options = parser.parse_args(arguments)
    if not (options.models or options.export or options.taken):
        parser.error("expected models, --export or --import")
    if options.seconds <= 0:
        parser.error(f"--seconds: expected a positive number, got {options.seconds}")
    if unknown_models(options.models):
        return 2
    if options.taken:
        try:
            tunable.read_file(options.taken, options.device)
        except ValueError as error:
            print(error, file=sys.stderr)
            return 1
    tunable.set_max_tuning_duration(options.seconds * 1000)
    for name in options.models:
        before = milliseconds(name, options)
        tunable.enable()
        try:
            programs_of(name, options.device, options)
        finally:
            tunable.enable(False)
        print(f"{name}: {before:.1f} ms before, {milliseconds(name, options):.1f} ms now, with its set-up")
    count = len(tunable.get_results(options.device))
    print(f"{count} results are known of {torch.ocl.get_device_name(options.device)}")
    if options.export:
        tunable.write_file(options.export, options.device)
    return 0
