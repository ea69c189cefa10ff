"""Negative log likelihood and what is composed of it, against PyTorch on the CPU."""
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from comparison import compare_gradients, device


def compare(function, x, target, weight=None):
    compare_gradients(lambda x: function(x, target.to(x.device), None if weight is None else weight.to(x.device)), x)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(8, 5), (5,), (3, 4, 6, 7), (2, 4, 9), (2, 3, 2, 3, 4)])
def test_nll_loss(shape, weighted, reduction):
    torch.manual_seed(0)
    classes = shape[0] if len(shape) == 1 else shape[1]
    target = torch.randint(0, classes, shape[:1] + shape[2:] if len(shape) > 1 else ())
    weight = torch.rand(classes) if weighted else None
    x = torch.randn(shape)
    compare(lambda x, t, w: F.nll_loss(x, t, w, ignore_index=2, reduction=reduction), x, target, weight)
    compare(lambda x, t, w: F.cross_entropy(x, t, w, ignore_index=1, reduction=reduction), x, target, weight)
    compare(lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction, label_smoothing=0.1), x, target, weight)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_dtypes(dtype):
    x, target = torch.randn(6, 5).to(dtype), torch.randint(0, 5, (6,))
    compare(lambda x, t, w: F.nll_loss(x, t, w), x, target)
    compare(lambda x, t, w: F.cross_entropy(x, t, w), x, target)


def test_targets_of_bytes_and_probabilities():
    x = torch.randn(6, 5)
    compare(lambda x, t, w: F.nll_loss(x, t, w), x, torch.randint(0, 5, (6,), dtype=torch.uint8))
    compare(lambda x, t, w: F.cross_entropy(x, t, w), x, torch.rand(6, 5).softmax(1))


def test_everything_ignored_and_nothing_there():
    x = torch.randn(4, 3)
    for reduction in ("mean", "sum", "none"):
        compare(lambda x, t, w: F.nll_loss(x, t, w, ignore_index=1, reduction=reduction), x, torch.ones(4).long())
        compare(lambda x, t, w: F.nll_loss(x, t, w, reduction=reduction), x[:0], torch.ones(0).long())
        compare(lambda x, t, w: F.nll_loss(x, t, w, reduction=reduction), torch.randn(0, 3, 2, 2),
                torch.ones(0, 2, 2).long())


def test_a_target_out_of_range_is_an_index_error():
    x = torch.randn(4, 3).to(device)
    for bad in (3, -1, 10 ** 12):
        with pytest.raises(IndexError):
            F.nll_loss(x, torch.tensor([0, 1, bad, 2], device=device)).item()
    assert F.nll_loss(x, torch.tensor([0, 1, 2, 2], device=device)).isfinite().item()


def test_errors():
    x, t = torch.randn(4, 3), torch.zeros(4).long()
    for call in (lambda x, t: F.nll_loss(x, t[:3]), lambda x, t: F.nll_loss(x, t, x[0, :2]),
                 lambda x, t: F.nll_loss(x.reshape(1, 3, 2, 2), t.reshape(1, 4, 1)),
                 lambda x, t: F.cross_entropy(x, t, reduction="some")):
        with pytest.raises((RuntimeError, ValueError)) as expected:
            call(x, t)
        with pytest.raises((RuntimeError, ValueError)) as got:
            call(x.to(device), t.to(device))
        assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_margin_losses(dtype, reduction):
    torch.manual_seed(0)
    x, target = torch.randn(6, 5).to(dtype), torch.randint(0, 5, (6,))
    for p in (1, 2):
        for weight in (None, torch.rand(5).to(dtype)):
            compare(lambda x, t, w: F.multi_margin_loss(x, t, p, 0.7, w, reduction=reduction), x, target, weight)
    compare(lambda x, t, w: F.multi_margin_loss(x, t, reduction=reduction), x[0], target[0])
    labels = torch.tensor([[0, 2, -1, 4, 1], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0], [1, 1, -1, 2, 3], [3, -1, -1, -1, -1],
                           [2, 0, 4, -1, 1]])
    compare(lambda x, t, w: F.multilabel_margin_loss(x, t, reduction=reduction), x, labels)
    compare(lambda x, t, w: F.multilabel_margin_loss(x, t, reduction=reduction), x[0], labels[0])


def test_a_label_out_of_range_is_the_error_of_the_cpu():
    x = torch.randn(2, 3).to(device)
    with pytest.raises(RuntimeError, match="out of bounds"):
        F.multi_margin_loss(x, torch.tensor([0, 7], device=device)).item()
    with pytest.raises(RuntimeError, match="out of bounds"):
        F.multilabel_margin_loss(x, torch.tensor([[0, 7, -1], [1, -1, -1]], device=device)).item()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_shapes_of_margin_losses(reduction):
    for shape, target in (((3,), ()), ((3,), (1,)), ((1, 3), (1,)), ((2, 3), (2,))):
        x, labels = torch.randn(shape), torch.zeros(target, dtype=torch.int64)
        expected = F.multi_margin_loss(x, labels, reduction=reduction)
        actual = F.multi_margin_loss(x.to(device), labels.to(device), reduction=reduction).cpu()
        assert actual.shape == expected.shape
        assert_close(actual, expected)
        labels = torch.zeros(shape, dtype=torch.int64)
        expected = F.multilabel_margin_loss(x, labels, reduction=reduction)
        actual = F.multilabel_margin_loss(x.to(device), labels.to(device), reduction=reduction).cpu()
        assert actual.shape == expected.shape
        assert_close(actual, expected)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(7, 5), (5,), (7, 1)])
def test_weights_of_binary_cross_entropies(shape, reduction):
    x, y, weight = torch.rand(7, 5), torch.rand(7, 5), torch.randn(*shape)
    expected = F.binary_cross_entropy(x, y, weight, reduction=reduction)
    actual = F.binary_cross_entropy(*(t.to(device) for t in (x, y, weight)), reduction=reduction)
    assert_close(actual.cpu(), expected)
