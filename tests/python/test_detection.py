"""torchvision's detection models on the device and on the CPU: the same detections, losses and gradients, without
fallback."""
import os

import pytest
import torch

from comparison import device
from torch_ocl import validate_detection as detection

# One of each kind, and float64 where it is quick on the CPU; `python -m torch_ocl validate --detection` runs all.
CASES = [("maskrcnn_resnet50_fpn", torch.float64), ("keypointrcnn_resnet50_fpn", torch.float64),
         ("retinanet_resnet50_fpn", torch.float64), ("fcos_resnet50_fpn", torch.float64),
         ("ssdlite320_mobilenet_v3_large", torch.float32)]
if os.environ.get("CLPRIM_TEST_ALL"):
    CASES += [("fasterrcnn_mobilenet_v3_large_fpn", torch.float64), ("ssd300_vgg16", torch.float64),
              ("ssdlite320_mobilenet_v3_large", torch.float64)]


@pytest.mark.long
@pytest.mark.parametrize("name, dtype", CASES)
def test_detections_losses_and_gradients(name, dtype):
    report = detection.validate(name, device, dtype)
    assert report.found > 0
    assert not report.misses(detection.LIMITS[dtype]), report


def test_only_detections_that_agree_are_shared():
    theirs = {"boxes": torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 10], [50, 50, 60, 60]]),
              "labels": torch.tensor([1, 2, 1]), "scores": torch.tensor([0.9, 0.8, 0.7])}
    ours = {"boxes": torch.tensor([[50.0, 50, 60, 60.01], [0, 0, 10, 10], [0, 0, 10, 12]]),
            "labels": torch.tensor([1, 1, 2]), "scores": torch.tensor([0.9, 0.8, 0.7])}
    i, j = detection.pair_up(ours, theirs)
    assert sorted(zip(i.tolist(), j.tolist())) == [(0, 2), (1, 0)]


def test_a_wrong_loss_is_a_miss():
    outcome = lambda loss: detection.Outcome([], {"loss": torch.tensor(loss)}, {"w": torch.ones(2)}, 0.0)
    report = detection.Report("x")
    detection.compare(report, outcome(1.1), outcome(1.0), torch.float32)
    assert report.misses(detection.LIMITS[torch.float32]) == ["losses"]
