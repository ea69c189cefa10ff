"""A training step as a whole: waits, memory, and the same numbers as the CPU."""
import gc

import pytest
import torch
import torch.utils.checkpoint
from torch import nn


def make_model():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1),
                         nn.Flatten(), nn.Linear(8 * 8 * 8, 10))


class Training:
    def __init__(self, device, optimizer=torch.optim.Adam, dropout=0.1):
        torch.manual_seed(0)
        self.model = make_model()
        self.model[4].p = dropout
        self.images, self.labels = torch.randn(16, 3, 16, 16).to(device), torch.randint(0, 10, (16,)).to(device)
        self.model.to(device)
        self.optimizer = optimizer(self.model.parameters(), lr=1e-3)

    def step(self):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD, torch.optim.AdamW])
def test_only_the_loss_read_waits(device, optimizer):
    training = Training(device, optimizer)
    training.step().item()
    before = torch.ocl.blocking_calls()
    for _ in range(5):
        training.step()
    assert torch.ocl.blocking_calls() == before, "a step without a read must not wait for the device"
    training.step().item()
    assert torch.ocl.blocking_calls() == before + 1


def test_training_gives_its_memory_back(device):
    Training(device).step().item()   # what the library keeps for good
    gc.collect()
    before = torch.ocl.memory_allocated(device)
    training = Training(device)
    for _ in range(2 * 20):
        training.step()
    assert torch.ocl.memory_allocated(device) > before
    torch.ocl.synchronize()
    del training
    gc.collect()
    assert torch.ocl.memory_allocated(device) == before


def test_reserved_memory_does_not_grow(device):
    training = Training(device)
    for _ in range(10):
        training.step()
    torch.ocl.synchronize()
    before = torch.ocl.memory_reserved(device)
    for _ in range(500):
        training.step()
    torch.ocl.synchronize()
    assert torch.ocl.memory_reserved(device) == before


def test_the_curve_of_the_cpu(device):
    # SGD: Adam would turn the rounding in the gradient of the bias before the batch norm, which is 0, into full steps.
    found, expected = (Training(d, torch.optim.SGD, dropout=0.0) for d in (device, torch.device("cpu")))
    for _ in range(20):
        torch.testing.assert_close(found.step().cpu(), expected.step(), rtol=1e-4, atol=1e-5)
    for name, value in found.model.state_dict().items():
        if name.endswith(("running_mean", "running_var", "num_batches_tracked")):
            torch.testing.assert_close(value.cpu(), expected.model.state_dict()[name], rtol=1e-4, atol=1e-5)


def test_the_same_bits_every_run(device):
    def losses():
        training = Training(device)
        torch.ocl.manual_seed(3)
        return torch.stack([training.step().detach() for _ in range(5)]).cpu()

    assert torch.equal(losses(), losses())


@pytest.mark.parametrize("reentrant", (False, True))
def test_checkpointed_dropout_is_drawn_again_alike(device, reentrant):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)).to(device)
    x = torch.randn(4, 8, device=device, requires_grad=True)
    torch.manual_seed(1)
    plain, = torch.autograd.grad(model(x).sum(), x)
    torch.manual_seed(1)
    torch.utils.checkpoint.checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert torch.equal(x.grad, plain)
