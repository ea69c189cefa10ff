"""Compares torchvision's detection models on an OpenCL device with the CPU: detections, losses and gradients.

A detection model is full of choices: which proposals are kept, which of two overlapping boxes survives, which anchors
are sampled. In float32 two right implementations choose differently wherever two scores or overlaps agree but for
rounding, and everything behind that differs visibly. In float64 rounding is too small for that, so the comparison runs
in float64 by default and is sharp: every detection, every loss and the gradient of every parameter. In float32 a few
detections may lack a partner. Proposals to train on are drawn by torch.randperm, whose streams differ between devices;
here both devices use the CPU's.
"""
from __future__ import annotations

import argparse
import contextlib
import sys
import time
from dataclasses import dataclass, field
from unittest import mock

import torch

from torch_ocl.validate import relative, synchronize

KEYPOINTS = 5
SMALL = dict(min_size=96, max_size=128)
RCNN = SMALL | dict(rpn_post_nms_top_n_train=200, rpn_post_nms_top_n_test=100, box_batch_size_per_image=64,
                    box_detections_per_img=40)
MODELS = {   # name: arguments beyond those of all
    "fasterrcnn_mobilenet_v3_large_320_fpn": RCNN,
    "fasterrcnn_mobilenet_v3_large_fpn": RCNN,
    "fasterrcnn_resnet50_fpn": RCNN,
    "fasterrcnn_resnet50_fpn_v2": RCNN,
    "maskrcnn_resnet50_fpn": RCNN,
    "maskrcnn_resnet50_fpn_v2": RCNN,
    "keypointrcnn_resnet50_fpn": RCNN | dict(num_classes=2, num_keypoints=KEYPOINTS, box_batch_size_per_image=16,
                                             box_detections_per_img=10),
    "retinanet_resnet50_fpn": SMALL,
    "retinanet_resnet50_fpn_v2": SMALL,
    "fcos_resnet50_fpn": SMALL,
    "ssd300_vgg16": {},
    "ssdlite320_mobilenet_v3_large": {},
}


@dataclass(frozen=True)
class Limits:
    """Smallest share of detections found by both; largest relative errors of these, of losses, of the whole
    gradient."""
    shared: float
    detections: float
    losses: float
    gradient: float


# float32's allow for a proposal or two that differ, and for kinks of ReLU, where rounding decides whether a gradient
# passes.
LIMITS = {torch.float64: Limits(1.0, 1e-9, 1e-9, 1e-8), torch.float32: Limits(0.95, 5e-2, 5e-2, 2e-1)}


def make_model(name, dtype=torch.float64):
    """Random weights under which scores differ: an untrained head gives the same to all anchors, and which of them are
    chosen would be a matter of rounding. So the heads' weights are spread more widely than by default, and running
    statistics are those of the scenes, without which activations vanish or explode in evaluation."""
    import torchvision

    torch.manual_seed(0)
    options = dict(weights=None, weights_backbone=None, num_classes=4) | MODELS[name]
    model = getattr(torchvision.models.detection, name)(**options)
    for part, module in model.named_modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)) and not part.startswith("backbone"):
            torch.nn.init.xavier_normal_(module.weight)
    model.to(dtype)
    norms = [(m, m.momentum) for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm, _ in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        model(*make_scenes(dtype))
    for norm, momentum in norms:
        norm.momentum = momentum
        if dtype != torch.float64:   # statistics of so small a batch spread rounding
            norm.eval()
            norm.train = lambda mode=True: None
    return model


def make_scenes(dtype=torch.float64):
    """Two images of different sizes with two and one objects: boxes, labels, masks and keypoints."""
    generator = torch.Generator().manual_seed(1)
    images = [torch.rand(3, *size, generator=generator).to(dtype) for size in ((96, 120), (100, 90))]
    targets = []
    for image, boxes in zip(images, ([[10, 10, 60, 70], [20, 30, 80, 85]], [[5, 20, 50, 90]])):
        masks = torch.zeros(len(boxes), *image.shape[1:], dtype=torch.uint8)
        for mask, (x1, y1, x2, y2) in zip(masks, boxes):
            mask[y1:y2, x1:x2] = 1
        boxes = torch.tensor(boxes, dtype=dtype)
        keypoints = torch.rand(len(boxes), KEYPOINTS, 3, generator=generator)
        keypoints[..., :2] = boxes[:, None, :2].float() + keypoints[..., :2] * (boxes[:, None, 2:] -
                                                                                boxes[:, None, :2]).float()
        keypoints[..., 2] = 1
        targets.append({"boxes": boxes, "labels": torch.ones(len(boxes), dtype=torch.int64), "masks": masks,
                        "keypoints": keypoints})
    return images, targets


@contextlib.contextmanager
def same_samples(compiled=False):
    """torch.randperm draws on the CPU, whatever the device, and from no other stream in compiled code."""
    randperm = torch.randperm
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("torch.randperm",
                                       lambda n, device=None, **options: randperm(n, **options).to(device or "cpu")))
        if compiled:
            import torch._inductor.config as inductor
            stack.enter_context(inductor.patch(fallback_random=True))
        yield


@dataclass
class Outcome:
    """What a model did on one device, on the host."""
    detections: list     # per image a dictionary
    losses: dict         # tensors: a loss may be float32 in a float64 model, where its target is
    gradients: dict
    seconds: float       # of the training step


def run(model, images, targets, device, compiled=False):
    """Detects, then takes one training step (forward and backward)."""
    device = torch.device(device)
    model = model.to(device)
    call = torch.compile(model) if compiled else model
    images = [image.to(device) for image in images]
    targets = [{name: value.to(device) for name, value in target.items()} for target in targets]
    model.eval()
    with torch.no_grad():
        detections = [{name: value.cpu() for name, value in found.items()} for found in call(images)]
    model.train()
    model.zero_grad()
    torch.manual_seed(2)
    synchronize(device)
    start = time.perf_counter()
    with same_samples(compiled):
        losses = call(images, targets)
    sum(losses.values()).backward()
    synchronize(device)
    seconds = time.perf_counter() - start
    gradients = {name: p.grad.to("cpu", torch.float64, copy=True) for name, p in model.named_parameters()
                 if p.grad is not None}
    return Outcome(detections, {name: value.detach().cpu() for name, value in losses.items()}, gradients, seconds)


@dataclass
class Report:
    """One row of the table: relative errors, and what differed outright."""
    model: str
    found: int = 0             # detections on the CPU
    shared: float = 1.0        # of these
    detections: float = 0.0    # largest relative L2 error of boxes, scores, masks, keypoints of shared detections
    losses: float = 0.0
    gradient: float = 0.0      # of all parameters taken as one vector
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    fallbacks: dict = field(default_factory=dict)
    error: str = ""

    def misses(self, limits):
        found = [name for name in ("detections", "losses", "gradient")
                 if not getattr(self, name) < getattr(limits, name)]
        found += ["shared"] if self.shared < limits.shared else []
        found += ["fallbacks"] if self.fallbacks else []
        return ["error"] if self.error else found


def pair_up(ours, theirs):
    """Indices of detections that are the same in both: equal labels, corners within a pixel of each other, each taken
    once."""
    distance = torch.cdist(ours["boxes"], theirs["boxes"], p=float("inf")) + 1e-3 * torch.cdist(
        ours["scores"][:, None], theirs["scores"][:, None])
    distance[ours["labels"][:, None] != theirs["labels"]] = float("inf")
    pairs, taken = [], set()
    for j in range(distance.shape[1]):
        for i in distance[:, j].argsort().tolist():
            if distance[i, j] < 1 and i not in taken:
                pairs.append((i, j))
                taken.add(i)
                break
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T


def compare(report, found, expected, dtype):
    shared = 0
    for ours, theirs in zip(found.detections, expected.detections, strict=True):
        i, j = pair_up(ours, theirs)
        shared += len(i)
        report.found += max(len(theirs["labels"]), len(ours["labels"]))
        errors = [relative([ours[name][i].double()], [theirs[name][j].double()]) for name in theirs]
        report.detections = max([report.detections, *errors])
    report.shared = shared / report.found if report.found else 1.0
    for name, loss in expected.losses.items():
        error = relative([found.losses[name]], [loss])
        # The objectness of proposals is float32 in any model, since its labels are: there it holds no more digits.
        report.losses = max(report.losses, error if loss.dtype == dtype or error > 1e-6 else 0.0)
    if found.gradients.keys() != expected.gradients.keys():
        raise RuntimeError(f"gradients exist for different parameters: {set(found.gradients) ^ set(expected.gradients)}")
    report.gradient = relative(list(found.gradients.values()), list(expected.gradients.values()))


def validate(name, device, dtype=torch.float64, compiled=False):
    report = Report(name)
    model = make_model(name, dtype)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    images, targets = make_scenes(dtype)
    expected = run(model, images, targets, "cpu")
    model.load_state_dict(state)   # running statistics have moved
    before = torch.ocl.fallback_report()
    found = run(model, images, targets, device, compiled)
    report.fallbacks = {op: n - before.get(op, 0) for op, n in torch.ocl.fallback_report().items()
                        if n > before.get(op, 0)}
    report.seconds, report.cpu_seconds = found.seconds, expected.seconds
    compare(report, found, expected, dtype)
    return report


COLUMNS = ("shared", "detections", "losses", "gradient")


def row(report, limits):
    if report.error:
        return f"{report.model:40} FAILED  {report.error}"
    misses = report.misses(limits)
    cells = "".join(f"{getattr(report, name):11.1{'%' if name == 'shared' else 'e'}}{'!' if name in misses else ' '}"
                    for name in COLUMNS)
    return (f"{report.model:40}{report.found:6}{cells}{1e3 * report.seconds:9.0f}{1e3 * report.cpu_seconds:9.0f}"
            f"{len(report.fallbacks):7}  {'MISSED' if misses else 'ok'}")


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m torch_ocl validate --detection", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"default: {' '.join(MODELS)}")
    parser.add_argument("--device", default="ocl:0", type=torch.device)
    parser.add_argument("--dtype", default="float64", choices=[str(d)[6:] for d in LIMITS])
    parser.add_argument("--compile", action="store_true",
                        help="compiled on the device; PyTorch leaves graphs where boxes are counted")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.models if name not in MODELS]:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(MODELS)}")
    dtype = getattr(torch, options.dtype)
    limits = LIMITS[dtype]
    torch.ocl.set_fallback_policy("error")
    print(f"{'':40}{'found':>6}" + "".join(f"{name:>11} " for name in COLUMNS) + f"{'ms':>9}{'cpu ms':>9}{'fallb.':>7}")
    missed = []
    for name in options.models or MODELS:
        try:
            report = validate(name, options.device, dtype, options.compile)
        except (RuntimeError, NotImplementedError) as error:   # the next model may work
            report = Report(name, error=str(error).strip().splitlines()[0])
        print(row(report, limits), flush=True)
        if report.misses(limits):
            missed.append(name)
    total = len(options.models or MODELS)
    print(f"{total - len(missed)} of {total} models agree with the CPU" +
          (f"; missed: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
