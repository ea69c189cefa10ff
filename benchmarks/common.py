"""Shared by the benchmarks: interleaved timing of several contenders, the table, and raw numbers as JSON.

Contenders take turns within one run, so that a machine that slows down slows all of them. Medians are compared.
"""
import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path

import torch


def synchronize(device):
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def timed(run, device):
    """Seconds of one call, including all device work that it enqueues."""
    synchronize(device)
    start = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - start


def interleave(contenders, rounds, warmup=2, pause=0.0):
    """contenders: {name: (callable, device)}. Returns {name: [seconds, ...]}, measured in turns.

    Threads of OpenMP and of OpenCL drivers wait busily for some milliseconds after their work and so take a core from
    the next contender. With a pause (seconds) they fall asleep before each turn, and one call that is not timed wakes
    the contender's own.
    """
    times = {name: [] for name in contenders}
    for round_number in range(-warmup, rounds):
        for name, (run, device) in contenders.items():
            if pause:
                time.sleep(pause)
                timed(run, device)
            seconds = timed(run, device)
            if round_number >= 0:
                times[name].append(seconds)
    return times


def median_ms(seconds):
    return 1e3 * statistics.median(seconds)


def device_name(device):
    if device.type == "ocl":
        properties = torch.ocl.get_device_properties(device)
        return f"{properties.name} [{properties.platform_name} {properties.driver_version}]"
    return f"PyTorch {torch.__version__} on {torch.get_num_threads()} threads"


class Results:
    """Collects rows {what: value}; prints them as they come and writes them to a file at the end."""

    def __init__(self, options):
        self.path = options.json
        self.record = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__,
                       "device": device_name(options.device), "command": sys.argv, "rows": []}
        print(f"device: {self.record['device']}")

    def add(self, text, **row):
        print(text, flush=True)
        self.record["rows"].append(row)

    def save(self):
        if self.path:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            Path(self.path).write_text(json.dumps(self.record, indent=1))
            print(f"raw numbers: {self.path}")


def parser(description):
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--device", default="ocl:0", type=torch.device)
    result.add_argument("--json", metavar="FILE", help="also write every single measurement there")
    return result
