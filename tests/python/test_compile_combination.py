"""torch.compile on the device: independent kernels in one launch."""
import copy

import torch
from torch import nn
from torch._inductor import config

from compiled import check, device

randn = torch.randn


def launches(function):
    torch.ocl.synchronize()
    before = torch.ocl.kernel_launches()
    function()
    torch.ocl.synchronize()
    return torch.ocl.kernel_launches() - before


def test_optimizer_steps_are_few_launches():
    torch._dynamo.reset()
    layers = [layer for _ in range(12) for layer in (nn.Linear(7, 7), nn.LayerNorm(7))]
    model = nn.Sequential(*layers, nn.Linear(7, 300))
    ours = copy.deepcopy(model).to(device)
    counts = []
    for mine, compiled in ((model, False), (ours, True)):
        optimizer = torch.optim.Adam(mine.parameters(), lr=0.01, weight_decay=0.1, foreach=True)
        step = torch.compile(optimizer.step) if compiled else optimizer.step
        generator = torch.Generator().manual_seed(1)
        for _ in range(3):
            for p in mine.parameters():
                p.grad = randn(p.shape, generator=generator).to(p.device)
            counts.append(launches(step))
    for a, b in zip(ours.parameters(), model.parameters()):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), atol=1e-5, rtol=1e-4)
    # 50 parameters with five tensors each, at most some sixty tensors in a launch, and the steps' counters
    assert counts[-1] <= 12


def test_kernels_of_several_sizes():
    """Elements that no group shares, sums, no elements at all, and dtypes of their own."""
    x, y, z, n = randn(3), randn(5000), randn(33, 20), torch.arange(70)
    with config.patch(combo_kernels=True):
        check(lambda x, y, z, n: (x.sin(), y * 2 + 1, z.sum(1), z.t().contiguous() * 3, n + 1, n.double().cos()),
              x, y, z, n)
        check(lambda x, y: torch._foreach_mul([x, y, x[:0]], 2.5), x, y)
        check(lambda x, y: torch._foreach_add([x, y], [y[:3], y.flip(0)]), x, y, dynamic=True)


def test_nothing_is_written_that_another_reads():
    x, w = randn(64, 32), randn(32)

    def function(x, w):
        t = torch.mm(x, x.t())                     # a buffer of the graph's own, which both read
        a, b = torch._foreach_mul([t, t.t()], 2.0)
        torch._foreach_add_([x, w], [x * 2, w.cos()])
        return a.tanh(), b - 1

    check(function, x, w, atol=1e-5, rtol=1e-5)


def test_indices_are_checked():
    table, index = randn(9, 4), torch.tensor([1, 8, 3])

    def function(table, index):
        return table[index] * 2, table[index[:2]] + 1, index + 1

    with config.patch(combo_kernels=True):
        check(function, table, index)
        compiled = torch.compile(function)
        compiled(table.to(device), torch.tensor([1, 9, 3], device=device))
        try:
            torch.ocl.synchronize()
        except IndexError:
            return
    raise AssertionError("an index out of range was not reported")


def test_counters_of_batch_norms_are_one_launch():
    class Norms(nn.Module):
        def __init__(self, count):
            super().__init__()
            self.layers = nn.ModuleList(nn.BatchNorm1d(5) for _ in range(count))

        def forward(self, x):
            return [layer(x[i]) for i, layer in enumerate(self.layers)]

    x, counts = randn(6, 8, 5), []
    for count in (3, 6):
        torch._dynamo.reset()
        norms = Norms(count)
        ours = copy.deepcopy(norms).to(device)
        compiled = torch.compile(ours, fullgraph=True)
        on_device = x.to(device)
        for _ in range(2):
            counts.append(launches(lambda: compiled(on_device)))
            norms(x)
        for (name, a), b in zip(ours.named_buffers(), norms.buffers()):
            torch.testing.assert_close(a.cpu(), b, msg=name)
    assert counts[-1] - counts[1] <= 2 * 3       # statistics and results of three more
