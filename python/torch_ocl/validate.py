"""Runs whole networks on an OpenCL device and on the CPU and compares everything that a training step computes.

A model with random weights runs forward and backward in training mode twice on each device: as it is, and with its
ReLU-like activations replaced by smooth ones. The second comparison is the sharp one: at a kink of a ReLU the rounding
of the last bit decides whether a gradient passes, so two right implementations differ by percents.
"""
import argparse
import copy
import importlib
import json
import sys
import time
from dataclasses import asdict, dataclass, field

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

DEFAULT_MODELS = (
    "alexnet", "resnet18", "resnet50", "vgg16", "densenet161", "googlenet", "squeezenet1_0", "inception_v3",
    "shufflenet_v2_x1_0", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "resnext50_32x4d",
    "wide_resnet50_2", "mnasnet1_0", "efficientnet_b0", "efficientnet_b4", "regnet_y_400mf")


@dataclass(frozen=True)
class Limits:
    """Largest right relative L2 errors: of outputs and statistics, of the whole gradient with smooth activations, of
    each parameter's gradient there, and of the whole gradient of the network as it is."""
    output: float
    gradient: float
    parameter: float
    kinked: float


# float16 and bfloat16 are compared with float32 on the CPU, so their limits are those of the type, not of the device.
LIMITS = {
    torch.float32: Limits(1e-4, 1e-3, 1e-2, 1e-1),
    torch.float64: Limits(1e-10, 1e-9, 1e-8, 1e-1),
    torch.float16: Limits(3e-2, 1e-1, 3e-1, 5e-1),
    torch.bfloat16: Limits(2e-1, 5e-1, 1e0, 1e0),
}


def mean_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return F.avg_pool2d(x, kernel_size, stride, padding, ceil_mode, count_include_pad=False)


class SmoothActivations(TorchFunctionMode):
    """While active, activations with a kink are replaced by smooth ones of similar shape, wherever a model calls them
    (as modules or as functions). Max pooling has kinks too, wherever two inputs are nearly equal: it becomes a mean."""
    REPLACEMENTS = {
        F.relu: F.silu, torch.relu: F.silu, torch.relu_: F.silu, torch.Tensor.relu: F.silu, F.relu6: F.silu,
        F.hardtanh: F.silu, F.leaky_relu: F.silu, F.hardswish: F.silu, F.hardsigmoid: torch.sigmoid,
    }

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (F.max_pool2d, torch.max_pool2d):
            return mean_pool(*args, **(kwargs or {}))
        smooth = self.REPLACEMENTS.get(function)
        return smooth(args[0]) if smooth else function(*args, **(kwargs or {}))


@dataclass
class Step:
    """All that a training step leaves behind, on the host."""
    outputs: list
    input_gradient: torch.Tensor
    gradients: dict
    statistics: dict      # buffers: running means and variances
    evaluated: list       # outputs in evaluation mode after the step
    seconds: float


@dataclass
class Report:
    """One row of the table: relative L2 errors, times, fallbacks."""
    model: str
    output: float = 0.0
    evaluated: float = 0.0
    input_gradient: float = 0.0
    gradient: float = 0.0
    parameter: float = 0.0
    worst_parameter: str = ""
    kinked: float = 0.0
    statistics: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    fallbacks: dict = field(default_factory=dict)
    error: str = ""

    def misses(self, limits, allow_fallback):
        bounds = {"output": limits.output, "evaluated": limits.output, "statistics": limits.output,
                  "input_gradient": limits.gradient, "gradient": limits.gradient, "parameter": limits.parameter,
                  "kinked": limits.kinked}
        found = [name for name, bound in bounds.items() if not getattr(self, name) < bound]
        if self.fallbacks and not allow_fallback:
            found.append("fallbacks")
        return ["error"] if self.error else found


def tensors_of(value):
    """The floating-point tensors of a model's output, which may be a tuple or a dictionary."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in values for tensor in tensors_of(item)]


def loss_of(outputs, labels):
    """Cross entropy of class scores; for other outputs their product with fixed random numbers."""
    total = 0
    for index, output in enumerate(outputs):
        if output.dim() == 2:
            total = total + F.cross_entropy(output, labels)
        else:
            weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(index))
            total = total + (output * weights.to(output)).mean()
    return total


def training_step(model, image, labels, device, dtype):
    """A copy of the model takes one step on the device."""
    model = copy.deepcopy(model).to(device=device, dtype=dtype).train()
    image = image.to(device=device, dtype=dtype, copy=True).requires_grad_()
    labels = labels.to(device)
    synchronize(device)
    start = time.perf_counter()
    outputs = tensors_of(model(image))
    loss_of(outputs, labels).backward()
    synchronize(device)
    seconds = time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        evaluated = tensors_of(model(image))

    def host(tensor):
        return tensor.detach().to("cpu", torch.float64)

    return Step([host(t) for t in outputs], host(image.grad),
                {name: host(p.grad) for name, p in model.named_parameters() if p.grad is not None},
                {name: host(b) for name, b in model.named_buffers()}, [host(t) for t in evaluated], seconds)


def synchronize(device):
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def relative(found, expected, floor=0.0):
    """Relative L2 error of a list of tensors taken as one vector."""
    error = torch.stack([(a - b).norm() for a, b in zip(found, expected, strict=True)]).norm().item()
    size = max(torch.stack([b.norm() for b in expected]).norm().item(), floor)
    return error / size if size > 0 else error


def largest(found, expected):
    """Largest relative error among pairs of tensors."""
    return max((relative([a], [b]) for a, b in zip(found, expected, strict=True)), default=0.0)


def compare_gradients(found, expected):
    """Error of the whole gradient, and the largest of one parameter with its name. A parameter whose true gradient is
    zero (a bias before a batch norm) holds rounding only, so sizes below a thousandth of the whole count as that."""
    if found.keys() != expected.keys():
        raise RuntimeError(f"gradients exist for different parameters: {set(found) ^ set(expected)}")
    whole = torch.stack([g.norm() for g in expected.values()]).norm().item()
    errors = {name: relative([found[name]], [expected[name]], 1e-3 * whole) for name in expected}
    worst = max(errors, key=lambda name: errors[name] if errors[name] == errors[name] else float("inf"))
    return relative(list(found.values()), list(expected.values())), errors[worst], worst


def compare_statistics(found, expected):
    """Largest error of a buffer. Where two linear layers meet, a batch's true mean is zero and only rounding is left of
    it, so means are measured against standard deviations."""
    def floor(name):
        variance = expected.get(name.replace("running_mean", "running_var"))
        return variance.sqrt().norm().item() if name.endswith("running_mean") and variance is not None else 0.0

    return max((relative([found[name]], [expected[name]], floor(name)) for name in expected), default=0.0)


def make_model(name):
    """The model with fixed random weights and without randomness of its own."""
    import torchvision

    torch.manual_seed(0)
    return without_dropout(torchvision.models.get_model(name, weights=None))


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        if hasattr(module, "dropout") and isinstance(module.dropout, float):   # attention
            module.dropout = 0.0
    return model


def input_shape(name, batch, size):
    """Most models take any image. Inception's auxiliary classifier needs its own size, and it normalises single pixels
    over the batch: over very few of them any rounding grows large."""
    if name.startswith("inception"):
        return batch or 8, 3, size or 299, size or 299
    return batch or 2, 3, size or 224, size or 224


def validate(name, device, batch=None, size=None, dtype=torch.float32):
    return compare_steps(name, make_model(name), input_shape(name, batch, size), device, dtype)


def compare_steps(name, model, shape, device, dtype):
    """The report of a model of 1000 classes for images of that shape."""
    report = Report(name)
    model = model.to(dtype)
    reference_dtype = torch.promote_types(dtype, torch.float32)
    generator = torch.Generator().manual_seed(1)
    image = torch.randn(shape, generator=generator).to(dtype)
    labels = torch.randint(0, 1000, image.shape[:1], generator=generator)
    cpu = torch.device("cpu")
    before = torch.ocl.fallback_report()

    with SmoothActivations():
        found = training_step(model, image, labels, device, dtype)
        expected = training_step(model, image, labels, cpu, reference_dtype)
    report.gradient, report.parameter, report.worst_parameter = compare_gradients(found.gradients, expected.gradients)
    report.input_gradient = relative([found.input_gradient], [expected.input_gradient])

    found_as_is = training_step(model, image, labels, device, dtype)
    expected_as_is = training_step(model, image, labels, cpu, reference_dtype)
    report.kinked = compare_gradients(found_as_is.gradients, expected_as_is.gradients)[0]
    steps = ((found, expected), (found_as_is, expected_as_is))
    report.output = max(largest(a.outputs, b.outputs) for a, b in steps)
    report.evaluated = max(largest(a.evaluated, b.evaluated) for a, b in steps)
    report.statistics = max(compare_statistics(a.statistics, b.statistics) for a, b in steps)
    report.seconds, report.cpu_seconds = found_as_is.seconds, expected_as_is.seconds

    after = torch.ocl.fallback_report()
    report.fallbacks = {op: n - before.get(op, 0) for op, n in after.items() if n > before.get(op, 0)}
    return report


NAME = 28   # width of the first column
COLUMNS = (("output", "output"), ("evaluated", "eval"), ("statistics", "bn stats"), ("input_gradient", "d input"),
           ("gradient", "gradient"), ("parameter", "worst par"), ("kinked", "as it is"))


def table_row(report, limits, allow_fallback):
    misses = report.misses(limits, allow_fallback)
    if report.error:
        return f"{report.model:{NAME}} FAILED  {report.error}"
    cells = "".join(f"{getattr(report, name):9.1e}{'!' if name in misses else ' '}" for name, _ in COLUMNS)
    return (f"{report.model:{NAME}}{cells}{1e3 * report.seconds:9.0f}{1e3 * report.cpu_seconds:9.0f}"
            f"{len(report.fallbacks):6}  {'MISSED' if misses else 'ok'}")


def header(dtype, limits):
    names = "".join(f"{title:>9} " for _, title in COLUMNS)
    bounds = "".join(f"{bound:9.0e} " for bound in (limits.output,) * 3 + (limits.gradient,) * 2 +
                     (limits.parameter, limits.kinked))
    return (f"Relative L2 errors against the CPU, {str(dtype)[6:]}; gradients with smooth activations and as it is\n"
            f"{'':{NAME}}{names}{'ms':>9}{'cpu ms':>9}{'fallb.':>7}\n{'limit':{NAME}}{bounds}")


def parser_of(command, description, models):
    parser = argparse.ArgumentParser(prog=f"python -m torch_ocl {command}", description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=models)
    parser.add_argument("--device", default="ocl:0", type=torch.device)
    parser.add_argument("--dtype", default="float32", choices=[str(d)[6:] for d in LIMITS])
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of a table")
    parser.add_argument("--allow-fallback", action="store_true", help="operators that run on the CPU are no miss")
    return parser


def report_all(names, validate_one, options):
    """Prints a row for each name, or all as JSON; 1 if one of them missed, as the command returns."""
    from tqdm import tqdm

    limits = LIMITS[getattr(torch, options.dtype)]
    torch.ocl.set_fallback_policy("allow")   # counted and reported instead
    reports = []
    if not options.json:
        print(header(getattr(torch, options.dtype), limits))
    with tqdm(names, disable=options.json, leave=False, dynamic_ncols=True) as progress:
        for name in progress:
            progress.set_description(name)
            try:
                report = validate_one(name)
            except Exception as error:   # whatever a model raises, the next one may work
                report = Report(name, error=str(error).strip().splitlines()[0])
            reports.append(report)
            if not options.json:
                progress.write(table_row(report, limits, options.allow_fallback), file=sys.stdout)
                for operator, count in report.fallbacks.items():
                    progress.write(f"{'':{NAME}}   on the CPU: {operator} ({count} calls)", file=sys.stdout)
    missed = [r.model for r in reports if r.misses(limits, options.allow_fallback)]
    if options.json:
        print(json.dumps([asdict(r) | {"missed": r.misses(limits, options.allow_fallback)} for r in reports], indent=1))
    else:
        print(f"{len(reports) - len(missed)} of {len(reports)} models agree with the CPU"
              + (f"; missed: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


def main(arguments):
    for kind in ("detection", "compile", "transformers", "timm"):
        if f"--{kind}" in arguments:
            module = importlib.import_module(f"torch_ocl.validate_{kind}")
            return module.main([a for a in arguments if a != f"--{kind}"])
    parser = parser_of("validate", __doc__, "torchvision models (default: a set of 18)")
    parser.add_argument("--batch", type=int, help="images per step (default: 2; inception 8)")
    parser.add_argument("--size", type=int, help="image height and width (default: 224; inception 299)")
    for kind, what in (("compile", "compiled models"), ("detection", "torchvision's detection models"),
                       ("transformers", "models of transformers"), ("timm", "models of timm")):
        parser.add_argument(f"--{kind}", action="store_true", help=f"compare {what} instead (--{kind} --help)")
    options = parser.parse_args(arguments)
    from torchvision import models as torchvision_models

    known = set(torchvision_models.list_models())
    if unknown := [name for name in options.models if name not in known]:
        print(f"torchvision has no model {', '.join(unknown)}; torchvision.models.list_models() names them all",
              file=sys.stderr)
        return 2
    dtype = getattr(torch, options.dtype)
    return report_all(options.models or DEFAULT_MODELS,
                      lambda name: validate(name, options.device, options.batch, options.size, dtype), options)
