"""torch.compile on the device: streams, events. Code in another stream breaks Inductor's graphs, nothing else does."""
import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import config

from compiled import device
from since import since

randn = torch.randn
pytestmark = since("2.13", "streams in graphs of every device", torch.__version__ >= (2, 13))
side, event = torch.ocl.Stream(), torch.ocl.Event()


def made_inside(x):
    stream = torch.ocl.Stream(priority=-1)
    stream.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(stream):
        y = x @ x + 1
    torch.ocl.current_stream().wait_stream(stream)
    return y * 2


def given(x):
    y = x.cos()
    event.record()
    event.wait(side)
    with side:
        z = y @ x
    torch.ocl.current_stream().wait_event(side.record_event())
    return z - y


def generic(x):
    stream, done = torch.Stream(device="ocl"), torch.Event(device="ocl")
    stream.wait_stream(torch.accelerator.current_stream())
    with stream:
        y = x.sin()
        done.record()
    done.wait()
    return y + x


def synchronized(x):
    done = torch.ocl.Event(True)
    y = x.exp()
    done.record()
    done.synchronize()
    torch.ocl.synchronize()
    torch.ocl.synchronize(device)
    torch.ocl.current_stream(device).synchronize()
    return y + 1


def default_one(x):
    torch.ocl.default_stream().wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(torch.ocl.default_stream()):
        y = x.sin() @ x
    torch.ocl.current_stream().wait_stream(torch.ocl.default_stream())
    with torch.ocl.stream(None):
        return y * 2


def awaited(x):
    y = x.cos()
    event.record()
    side.wait_event(event)
    torch.ocl.current_stream().wait_stream(torch.ocl.Stream(priority=-1))
    torch.ocl.current_stream().wait_event(side.record_event())
    torch.ocl.default_stream().synchronize()
    return y @ x


def asked_about(x):
    return x + 1 if torch.ocl.current_stream() == side else x - 1


@pytest.mark.parametrize("function, whole", ((made_inside, False), (given, False), (generic, False),
                                             (default_one, False), (synchronized, True), (awaited, True),
                                             (asked_about, True)))
def test_functions_with_streams(function, whole):
    torch._dynamo.reset()
    counters.clear()
    x = randn(200, 200, device=device)
    with torch.no_grad(), config.patch(force_disable_caches=True):
        compiled = torch.compile(function, fullgraph=whole)
        for stream in (None, side, None):
            if stream is not None:
                stream.wait_stream(torch.ocl.default_stream())
            with torch.ocl.stream(stream):
                for _ in range(3):
                    actual, expected = compiled(x), function(x)
                torch.ocl.synchronize()
                torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-5)
    assert not whole or not counters["graph_break"]


@pytest.mark.parametrize("function", (made_inside, given, generic, default_one))
def test_whole_graphs_of_other_backends(function):
    """With gradients, for which AOTAutograd estimates how long what it may compute anew takes."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    for _ in range(3):
        x = randn(60, 60, device=device, requires_grad=True)
        actual, expected = compiled(x), function(x)
        torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-5)
        for a, b in zip(torch.autograd.grad(actual.square().sum(), x), torch.autograd.grad(expected.square().sum(), x)):
            torch.ocl.synchronize()
            torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-4)


def test_what_graphs_return():
    torch._dynamo.reset()

    def function(x):
        stream, done = torch.ocl.Stream(), torch.ocl.Event(enable_timing=True)
        y = x + 1
        done.record()
        return y, stream, done

    y, stream, done = torch.compile(function)(randn(100, device=device))
    assert type(stream) is torch.ocl.Stream and type(done) is torch.ocl.Event
    later = torch.ocl.Event(enable_timing=True)
    later.record()
    later.synchronize()
    assert done.query() and done.elapsed_time(later) >= 0 and stream.query()


def test_convolutions_stay_in_their_streams():
    """What is computed in one launch elsewhere: an addition, an activation, a batch norm in another stream; and a copy
    in another layout, which Inductor would make when it is read."""
    torch._dynamo.reset()
    w, w2 = randn(16, 16, 3, 3, device=device) / 12, randn(16, 16, 3, 3, device=device) / 12
    norm = nn.BatchNorm2d(16).to(device).eval()
    nn.init.normal_(norm.running_mean), nn.init.normal_(norm.weight)

    def function(x):
        now = torch.ocl.current_stream()
        y = x.sin()
        side.wait_stream(now)
        with torch.ocl.stream(side):
            z = F.relu(norm(F.conv2d(y, w2, padding=1)))
            z = z.permute(0, 2, 3, 1).reshape(z.shape)
            first = F.conv2d(z, w, padding=1)
        second = F.conv2d(y, w, padding=1)
        now.wait_stream(side)
        return F.relu(second + z) + norm(first)

    with torch.no_grad(), config.patch(force_disable_caches=True):
        compiled = torch.compile(function)
        for _ in range(10):
            x = randn(2, 16, 40, 40, device=device)
            torch.testing.assert_close(compiled(x), function(x), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("given_itself", (False, True))
def test_training_step_in_a_stream(given_itself):
    """Its stream breaks the graph: eager code makes streams wait for each other in the backward pass."""
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64))
    ours = copy.deepcopy(model).to(device)
    optimizer, ours_optimizer = (torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, ours))

    def loss_of(x):
        side.wait_stream(torch.ocl.current_stream())
        with side if given_itself else torch.ocl.stream(side):
            y = ours(x)
        torch.ocl.current_stream().wait_stream(side)
        return (y * y.roll(1, 0)).mean()

    with config.patch(force_disable_caches=True):
        compiled = torch.compile(loss_of)
        for _ in range(4):
            x = randn(50, 64)
            y = model(x)
            expected, actual = (y * y.roll(1, 0)).mean(), compiled(x.to(device))
            torch.testing.assert_close(actual.cpu(), expected)
            for loss, each in ((expected, optimizer), (actual, ours_optimizer)):
                each.zero_grad()
                loss.backward()
                each.step()
    for a, b in zip(ours.parameters(), model.parameters()):
        torch.testing.assert_close(a.cpu(), b, atol=1e-5, rtol=1e-4)
