"""torch.nn.functional.ctc_loss against PyTorch's CPU."""
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from opinfo import cases, check, check_gradients

OP = cases({"nn.functional.ctc_loss"})[0][0]


def test_samples(device):
    check(OP, torch.float32, device)
    check(OP, torch.float64, device)
    check_gradients(OP, device)


def losses_and_gradients(x, targets, lengths, where, **how):
    x = x.to(where).requires_grad_()
    loss = F.ctc_loss(x.log_softmax(2), targets.to(where), *lengths, reduction="none", **how)
    weight = torch.arange(1, loss.numel() + 1, dtype=loss.dtype, device=where).view(loss.shape)
    return loss.detach().cpu(), torch.autograd.grad(loss, x, weight)[0].cpu()


@pytest.mark.parametrize("blank", (0, 3))
@pytest.mark.parametrize("form", ("rows", "concatenated", "int32", "lengths on the device"))
def test_targets(form, blank, device):
    steps, batch, classes, longest = 23, 5, 7, 8
    x = torch.randn(steps, batch, classes, dtype=torch.float64)
    targets = torch.randint(0, classes - 1, (batch, longest))
    targets += targets >= blank
    targets[1, 1:4] = targets[1, 0]                             # repeated labels need blanks between them
    steps_of, labels_of = torch.tensor([23, 20, 17, 9, 23]), torch.tensor([8, 5, 1, 0, 3])
    if form == "concatenated":
        targets = torch.cat([row[:length] for row, length in zip(targets, labels_of.tolist())])
    targets = targets.int() if form == "int32" else targets
    expected = losses_and_gradients(x, targets, (steps_of, labels_of), "cpu", blank=blank)
    if form == "lengths on the device":
        steps_of, labels_of = steps_of.to(device), labels_of.to(device)
    assert_close(losses_and_gradients(x, targets, (steps_of, labels_of), device, blank=blank), expected)


@pytest.mark.parametrize("zero_infinity", (False, True))
def test_targets_that_do_not_fit_into_the_input(zero_infinity, device):
    x = torch.randn(4, 2, 5, dtype=torch.float64)
    targets, lengths = torch.tensor([[1, 1, 1, 1], [1, 2, 3, 4]]), (torch.tensor([4, 4]), torch.tensor([4, 4]))
    expected = losses_and_gradients(x, targets, lengths, "cpu", zero_infinity=zero_infinity)
    actual = losses_and_gradients(x, targets, lengths, device, zero_infinity=zero_infinity)
    assert_close(actual, expected, equal_nan=True)


def test_float32_is_as_exact_as_on_the_cpu(device):
    x, targets = torch.randn(60, 4, 20), torch.randint(1, 20, (4, 25))
    lengths = torch.full((4,), 60), torch.tensor([25, 20, 10, 3])
    exact = losses_and_gradients(x.double(), targets, lengths, "cpu")
    cpu = losses_and_gradients(x, targets, lengths, "cpu")
    actual = losses_and_gradients(x, targets, lengths, device)
    for mine, theirs, true in zip(actual, cpu, exact):
        assert (mine - true).abs().max() <= 2 * (theirs - true).abs().max()


@pytest.mark.parametrize("zero_infinity", (False, True))
def test_nan_reaches_the_loss(zero_infinity, device):
    """One that a sample's labels meet, wherever it stands; samples apart from it keep their losses."""
    torch.manual_seed(5)
    log_probs, targets = torch.randn(12, 6, 5).log_softmax(-1), torch.randint(1, 5, (6, 4))
    for sample, step in enumerate((0, 3, 11)):
        log_probs[step, sample, 0 if sample == 1 else targets[sample, -1 if step == 11 else 0]] = float("nan")
    lengths = torch.full((6,), 12), torch.full((6,), 4)
    actual, expected = (F.ctc_loss(x, targets.to(x.device), *lengths, reduction="none", zero_infinity=zero_infinity)
                        for x in (log_probs.to(device), log_probs))
    assert expected.isnan().tolist() == [True] * 3 + [False] * 3
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


def test_unbatched_and_mean(device):
    x, target = torch.randn(12, 6), torch.tensor([1, 2, 2])
    assert_close(F.ctc_loss(x.log_softmax(1).to(device), target.to(device), torch.tensor(12), torch.tensor(3)).cpu(),
                 F.ctc_loss(x.log_softmax(1), target, torch.tensor(12), torch.tensor(3)))


def test_errors(device):
    x, targets = torch.randn(5, 2, 4, device=device).log_softmax(2), torch.ones(2, 3, dtype=torch.long, device=device)
    for lengths, text in ((((6, 5), (3, 3)), "input_lengths"), (((5, 5), (4, 3)), "target_lengths"),
                          (((5,), (3, 3)), "input_lengths")):
        with pytest.raises(RuntimeError, match=text):
            F.ctc_loss(x, targets, *lengths)
    with pytest.raises(RuntimeError, match="blank"):
        F.ctc_loss(x, targets, (5, 5), (3, 3), blank=4)
    F.ctc_loss(x, targets + 9, (5, 5), (3, 3))
    with pytest.raises(IndexError):
        torch.ocl.synchronize()
