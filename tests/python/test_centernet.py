"""The CenterNet example: both backbones see the same on ocl and cpu, and the measuring tools measure."""
import pathlib
import sys

import numpy as np
import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "centernet"))
detect = pytest.importorskip("detect")
from model import CenterNet  # noqa: E402

from comparison import device


def targets(n, classes, cells):
    from data import targets as make
    boxes = [np.array([[4, 6, 30, 40], [40, 20, 62, 60]], np.float32)] * n
    return make(boxes, [np.array([0, 1])] * n, cells)


@pytest.mark.parametrize("backbone", ["res18", "dla34"])
def test_a_training_step_on_two_devices(backbone):
    pytest.importorskip("skimage")
    torch.manual_seed(0)
    model = CenterNet(backbone, 5)
    with torch.no_grad():   # offsets that move the samples
        for name, parameter in model.named_parameters():
            if "conv_offset_mask.weight" in name:
                parameter.normal_(0, 0.02)
    images, target = torch.randn(2, 3, 64, 64), targets(2, 5, 16)
    losses, heats = [], []
    for where in ("cpu", device):
        model.to(where).zero_grad()
        output = model(images.to(where))
        loss, parts = detect.loss_of(output, {k: v.to(where) for k, v in target.items()})
        loss.backward()
        assert output["heat"].shape == (2, 5, 16, 16) and output["size"].shape == (2, 2, 16, 16)
        losses.append(loss.item())
        heats.append(output["heat"].detach().cpu())
        assert all(torch.isfinite(p.grad.cpu()).all() for p in model.parameters() if p.grad is not None)
    torch.testing.assert_close(heats[1], heats[0], rtol=1e-3, atol=1e-3)
    assert abs(losses[0] - losses[1]) < 1e-3 * abs(losses[0])


@pytest.mark.parametrize("where", ["cpu", device])
def test_decode_finds_what_was_drawn(where):
    heat = torch.full((1, 5, 16, 16), -8.0)
    heat[0, 2, 5, 7], heat[0, 2, 5, 8], heat[0, 4, 12, 3] = 4.0, 3.0, 2.0   # the second is no peak
    size, offset = torch.full((1, 2, 16, 16), 3.0), torch.full((1, 2, 16, 16), 0.5)
    boxes, scores, classes = (t.cpu() for t in detect.decode(
        {"heat": heat.to(where), "size": size.to(where), "offset": offset.to(where)}, count=2))
    assert classes[0].tolist() == [2, 4]
    assert boxes[0, 0].tolist() == [24.0, 16.0, 36.0, 28.0]
    assert scores[0, 0] == pytest.approx(torch.sigmoid(torch.tensor(4.0)).item(), rel=1e-5)


def test_average_precision():
    box = lambda x: np.array([x, 0, x + 10, 10], float)
    truth = {0: np.stack([box(0), box(50)]), 1: np.zeros((0, 4))}
    hit, other, wrong = (0, 0.9, box(1)), (0, 0.5, box(51)), (1, 0.7, box(0))
    assert detect.average_precision([hit, other], truth) == pytest.approx(1.0)
    assert detect.average_precision([hit, wrong, other], truth) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert detect.average_precision([hit, (0, 0.8, box(1.5))], truth) == pytest.approx(0.5)   # found twice counts once
    assert detect.average_precision([], truth) == 0.0
