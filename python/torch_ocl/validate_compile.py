"""Compares compiled models with the device's eager operators and with the CPU: forward passes and training steps, with
static and with dynamic sizes.

A model with random weights, without dropout, runs in evaluation mode at its batch and at one more (PyTorch then makes
the batch dynamic; texts and sounds are longer, too), takes a training step as it is, and, compiled with dynamic=True,
training steps at two batches with its ReLU-like activations replaced by smooth ones (see `validate --help`). Launches
are counted, and so are graph breaks and graphs compiled once more that PyTorch's own tracing for the CPU does not have.
Every model runs in a process of its own with a limit of time.
With --results FILE a list can be run in pieces: reports are kept there, and what it has is not run again.
"""
from __future__ import annotations

import contextlib
import copy
import importlib
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from unittest import mock

import torch
import torch.nn.functional as F

from torch_ocl.validate import (LIMITS, SmoothActivations, compare_gradients, largest, mean_pool, parser_of,
                                synchronize, tensors_of)
from torch_ocl.validate_compile_models import MAKERS, default_models, fill_zeros

PACKAGES = ("torchvision", "transformers", "timm", "diffusers")
LIMIT = LIMITS[torch.float32]


@dataclass
class Report:
    """One row: relative L2 errors of compiled code, launches of eager and compiled steps, and what should be none.
    `against_eager` and `against_cpu` hold the errors one by one; `eager` is the gradient's that eager code has."""
    model: str
    against_eager: dict = field(default_factory=dict)
    against_cpu: dict = field(default_factory=dict)
    eager: float = 0.0
    launches: dict = field(default_factory=dict)
    recompiled: int = 0
    breaks: dict = field(default_factory=dict)
    fallbacks: dict = field(default_factory=dict)
    seconds: float = 0.0
    compile_seconds: float = 0.0    # of the first calls of compiled models
    error: str = ""

    def worst(self, part):
        found = [errors[part] for errors in (self.against_eager, self.against_cpu) if part in errors]
        return max(found, key=lambda error: error if error == error else float("inf"), default=0.0)

    def misses(self, limit=LIMIT):
        bounds = {"forward": limit.output, "dynamic forward": limit.output, "outputs": limit.output,
                  "gradient": max(limit.kinked, 3 * self.eager), "dynamic outputs": limit.output,
                  "dynamic gradient": limit.gradient}
        found = [part for part, bound in bounds.items() if not self.worst(part) < bound]
        found += [name for name in ("breaks", "fallbacks", "recompiled") if getattr(self, name)]
        return ["error"] if self.error else found


class _Runs:
    """What a model does on one device, eager or compiled."""

    def __init__(self, case, device, compiled):
        self.case, self.device, self.compiled = case, torch.device(device), compiled
        self.launches = 0
        self.first_calls = 0.0

    def _call(self, function, prepare=lambda: None):
        """The outputs, with the launches that a second call takes; `prepare` goes before each and is not counted."""
        on_device = self.device.type == "ocl"
        prepare()
        if on_device:
            start = time.perf_counter()
            function()                       # the first call compiles, and some models make buffers in it
            self.first_calls += time.perf_counter() - start
            prepare()
            synchronize(self.device)
            before = torch.ocl.kernel_launches()
        result = function()
        if on_device:
            synchronize(self.device)
            self.launches = torch.ocl.kernel_launches() - before
        return result

    def _model(self, **options):
        model = copy.deepcopy(self.case.model).to(self.device)
        if not self.compiled:
            return model, model
        torch._dynamo.reset()
        return model, torch.compile(model, **options)

    def _inputs(self, batch):
        made = self.case.inputs(batch)
        return {name: value.to(self.device) for name, value in made.items()}

    def forward(self, batches):
        """Outputs in evaluation mode at each batch size."""
        model, compiled = self._model()
        model.eval()
        found = []
        with torch.no_grad():
            for batch in batches:
                inputs = self._inputs(batch)
                outputs = self._call(lambda: _positional(compiled, inputs)) if batch == batches[0] else \
                    _positional(compiled, inputs)
                found.append([o.to("cpu", torch.float64) for o in tensors_of(outputs)])
        return found

    def train(self, batches, **options):
        """Outputs and gradients of training steps at each batch size."""
        model, compiled = self._model(**options)
        model.train()
        state = copy.deepcopy(model.state_dict())
        found = []

        def prepare():
            model.load_state_dict(state)
            model.zero_grad()

        def step(inputs):
            outputs = tensors_of(_positional(compiled, inputs))
            generator = torch.Generator().manual_seed(2)
            weights = [torch.randn(o.shape, generator=generator).to(o) for o in outputs]
            sum((o * w).mean() for o, w in zip(outputs, weights) if o.requires_grad).backward()
            return outputs

        for batch in batches:
            inputs = self._inputs(batch)
            if batch == batches[0]:
                outputs = self._call(lambda: step(inputs), prepare)
            else:
                prepare()
                outputs = step(inputs)
            found.append(([o.detach().to("cpu", torch.float64) for o in outputs],
                          {name: p.grad.to("cpu", torch.float64) for name, p in model.named_parameters()
                           if p.grad is not None}))
        return found


def _positional(model, inputs):
    """Images have another name in every model."""
    return model(inputs["x"]) if set(inputs) == {"x"} else model(**inputs)


def _breaks():
    from torch._dynamo.utils import counters

    found = {reason.splitlines()[0]: count for reason, count in counters["graph_break"].items()}
    counters.clear()
    return found


@contextlib.contextmanager
def smooth_functions():
    """Replaces the functions of SmoothActivations where models look them up: a mode that sees every call, as that is,
    would be traced itself."""
    replacements = SmoothActivations.REPLACEMENTS | {F.max_pool2d: mean_pool, torch.max_pool2d: mean_pool}
    with contextlib.ExitStack() as stack:
        for kinked, smooth in replacements.items():
            def replacement(x, *args, smooth=smooth, **kwargs):
                return smooth(x, *args, **kwargs) if smooth is mean_pool else smooth(x)

            for owner in (F, torch):
                if getattr(owner, kinked.__name__, None) is kinked:
                    stack.enter_context(mock.patch.object(owner, kinked.__name__, replacement))
        yield


def _traced_for_cpu(case):
    """Graph breaks that have nothing to do with the device."""
    model = copy.deepcopy(case.model)
    for training, options in ((False, {}), (True, {}), (True, {"dynamic": True})):
        torch._dynamo.reset()
        compiled = torch.compile(model.train(training), backend="eager", **options)
        with torch.set_grad_enabled(training):
            _positional(compiled, case.inputs(case.batch))
    return _breaks()


def _retraced_for_cpu(case, sizes):
    """How many graphs PyTorch's tracing for the CPU adds with the second of dynamic sizes."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    before = counters["stats"]["unique_graphs"]
    traced = torch.compile(copy.deepcopy(case.model).train(), backend="eager", dynamic=True)
    with smooth_functions():
        for batch in sizes:
            _positional(traced, case.inputs(batch))
    return max(0, counters["stats"]["unique_graphs"] - before - 1)


def compare(name, case, device):
    """The report of a model: compiled and eager on the device, and on the CPU."""
    from torch._dynamo.utils import counters

    report = Report(name)
    start = time.perf_counter()
    fill_zeros(case.model)
    sizes = (case.batch, case.batch + 1)
    runs = {"compiled": _Runs(case, device, True), "eager": _Runs(case, device, False),
            "cpu": _Runs(case, "cpu", False)}
    torch.ocl.reset_fallback_report()
    counters.clear()
    found = {}
    for way, run in runs.items():
        forward = run.forward(sizes)
        forward_launches = run.launches
        as_it_is = run.train(sizes[:1])[0]
        if way != "cpu":
            report.launches[way] = (forward_launches, run.launches)
        before = counters["stats"]["unique_graphs"]
        with smooth_functions():
            first, second = run.train(sizes, dynamic=True)
        report.recompiled += max(0, counters["stats"]["unique_graphs"] - before - 1) if way == "compiled" else 0
        found[way] = forward, as_it_is, first, second
    torch._dynamo.reset()
    if breaks := _breaks():
        known = _traced_for_cpu(case)
        report.breaks = {reason: count for reason, count in breaks.items() if reason not in known}
    if report.recompiled:
        report.recompiled = max(0, report.recompiled - _retraced_for_cpu(case, sizes))
    report.fallbacks = torch.ocl.fallback_report()
    report.against_eager = _errors(found["compiled"], found["eager"])
    report.against_cpu = _errors(found["compiled"], found["cpu"])
    report.eager = _errors(found["eager"], found["cpu"])["gradient"]
    report.seconds, report.compile_seconds = time.perf_counter() - start, runs["compiled"].first_calls
    return report


def _errors(found, expected):
    (forward, as_it_is, first, second), (forward_e, as_it_is_e, first_e, second_e) = found, expected
    dynamic = ((first, first_e), (second, second_e))
    return {"forward": largest(forward[0], forward_e[0]), "dynamic forward": largest(forward[1], forward_e[1]),
            "outputs": largest(as_it_is[0], as_it_is_e[0]),
            "gradient": compare_gradients(as_it_is[1], as_it_is_e[1])[0],
            "dynamic outputs": max(largest(a[0], b[0]) for a, b in dynamic),
            "dynamic gradient": max(compare_gradients(a[1], b[1])[0] for a, b in dynamic)}


COLUMNS = ("forward", "dynamic forward", "outputs", "gradient", "dynamic outputs", "dynamic gradient")


def row(report):
    misses = report.misses()
    if report.error:
        return f"{report.model:28} FAILED  {report.error}"
    cells = "".join(f"{report.worst(part):9.1e}{'!' if part in misses else ' '}" for part in COLUMNS)
    steps = zip(report.launches["eager"], report.launches["compiled"])
    counts = "".join(f"{f'{eager} > {compiled}':>13}" for eager, compiled in steps)
    times = f"{report.compile_seconds:9.0f}{report.seconds:6.0f}"
    return f"{report.model:28}{cells}{counts}{times}  {'MISSED' if misses else 'ok'}"


def header():
    bounds = (LIMIT.output,) * 3 + (LIMIT.kinked, LIMIT.output, LIMIT.gradient)
    names = ("forward", "dyn. fwd", "outputs", "gradient", "dyn. out", "dyn. grad")
    return ("Relative L2 errors of compiled float32 code, against eager and CPU; launches of eager and compiled code\n"
            f"{'':28}" + "".join(f"{name:>9} " for name in names)
            + f"{'forward':>13}{'step':>13}{'compile':>9}{'s':>6}\n"
            f"{'limit':28}" + "".join(f"{bound:9.0e} " for bound in bounds))


def _in_a_process(package, name, options):
    command = [sys.executable, "-m", "torch_ocl", "validate", "--compile", "--here", "--json", "--package", package,
               "--device", str(options.device), name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.time_limit, check=False)
    except subprocess.TimeoutExpired:
        return Report(name, error=f"not done after {options.time_limit} s")
    try:
        return Report(**json.loads(done.stdout.strip().splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        last = (done.stderr.strip().splitlines() or ["nothing printed"])[-1]
        return Report(name, error=f"status {done.returncode}: {last}")


def _here(package, name, options):
    """One line of JSON about a model in this process."""
    torch.ocl.set_fallback_policy("allow")   # counted and reported instead
    try:
        with contextlib.redirect_stdout(sys.stderr):
            report = compare(name, MAKERS[package](name), options.device)
    except Exception as error:   # whatever a model raises, the table shows it
        report = Report(name, error=f"{type(error).__name__}: {str(error).strip()}".splitlines()[0])
    print(json.dumps(asdict(report)))


class _Kept:
    """Reports in a file, one line of JSON for a model, the last one counts. Without a file: of this run alone."""

    def __init__(self, path):
        self.path, self.reports = path, {}
        for line in path.read_text().splitlines() if path and path.exists() else ():
            key, report = json.loads(line)
            self.reports[tuple(key)] = Report(**report)

    def add(self, key, report):
        self.reports[key] = report
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps([key, asdict(report)]) + "\n")


def _show(report):
    print(row(report), flush=True)
    for what in ("breaks", "fallbacks"):
        for text, count in getattr(report, what).items():
            print(f"{'':28}   {what}: {text} ({count})")


def main(arguments):
    parser = parser_of("validate --compile", __doc__, "names of the packages' models (default: those of validate)")
    parser.add_argument("--package", action="append", choices=PACKAGES,
                        help="whose models (default: torchvision); may be given more than once")
    for package in PACKAGES[1:]:
        parser.add_argument(f"--{package}", action="append_const", dest="package", const=package,
                            help=f"as --package {package}")
    parser.add_argument("--time-limit", type=float, default=900, metavar="SECONDS", help="of a model (default: 900)")
    parser.add_argument("--results", type=Path, metavar="FILE",
                        help="keep reports here; models it has are not run again")
    parser.add_argument("--missed", action="store_true", help="run those again that missed, by --results")
    parser.add_argument("--until", type=float, default=float("inf"), metavar="SECONDS",
                        help="begin no further model after this time")
    parser.add_argument("--here", action="store_true", help="run in this process, print a line of JSON for a model")
    options = parser.parse_args(arguments)
    if options.dtype != "float32":
        parser.error("compiled models are compared in float32")
    packages = options.package or ["torchvision"]
    missing = [package for package in packages if not importlib.util.find_spec(package)]
    if missing:
        print(f"The package {missing[0]} is needed: pip install {missing[0]}", file=sys.stderr)
        return 2
    kept = _Kept(options.results)
    reports, start = [], time.perf_counter()
    if not (options.json or options.here):
        print(header())
    for package in packages:
        for name in options.models or default_models(package):
            if options.here:
                _here(package, name, options)
                continue
            report = kept.reports.get((package, name))
            if report is None or options.missed and report.misses():
                if time.perf_counter() - start > options.until:
                    continue
                report = _in_a_process(package, name, options)
                kept.add((package, name), report)
            reports.append(report)
            if not options.json:
                _show(report)
    if options.here:
        return 0
    missed = [r.model for r in reports if r.misses()]
    if options.json:
        print(json.dumps([asdict(r) | {"missed": r.misses()} for r in reports], indent=1))
    else:
        print(f"{len(reports) - len(missed)} of {len(reports)} compiled models agree"
              + (f"; missed: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0
