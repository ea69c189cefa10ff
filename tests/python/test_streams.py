"""Streams and events."""

import threading

import pytest
import torch

from comparison import device


def test_current_and_default():
    assert torch.ocl.current_stream() == torch.ocl.default_stream()
    stream = torch.ocl.Stream()
    assert stream.device == torch.device(device) and stream != torch.ocl.default_stream()
    with torch.ocl.stream(stream):
        assert torch.ocl.current_stream() == stream
        inner = torch.ocl.Stream(device)
        with inner:
            assert torch.ocl.current_stream().stream_id == inner.stream_id
        assert torch.ocl.current_stream() == stream
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.ocl.current_stream()))
        thread.start()
        thread.join()
        assert seen == [torch.ocl.default_stream()]
    assert torch.ocl.current_stream() == torch.ocl.default_stream()
    with torch.ocl.stream(None):
        pass
    torch.ocl.set_stream(stream)
    assert torch.ocl.current_stream() == stream
    torch.ocl.set_stream(torch.ocl.default_stream())
    assert "torch.ocl.Stream" in repr(stream)


def test_generic_stream():
    stream = torch.Stream(device="ocl")
    with stream:
        x = torch.ones(10, device=device) + 1
    stream.synchronize()
    assert stream.query() and (x.cpu() == 2).all()


def test_order_between_streams():
    a, b = torch.ocl.Stream(), torch.ocl.Stream()
    x = torch.zeros(100_000, device=device)
    a.wait_stream(torch.ocl.current_stream())
    for i in range(10):
        with torch.ocl.stream(a):
            x.add_(1)
        b.wait_stream(a)
        with torch.ocl.stream(b):
            x.mul_(2)
        a.wait_stream(b)
    a.synchronize()
    expected = 0
    for i in range(10):
        expected = (expected + 1) * 2
    assert (x.cpu() == expected).all()


def test_events():
    start, end = torch.ocl.Event(enable_timing=True), torch.ocl.Event(enable_timing=True)
    assert start.query()
    start.record()
    x = torch.ones(200_000, device=device)
    for _ in range(5):
        x = x + 1
    end.record()
    end.synchronize()
    assert start.query() and end.query()
    assert start.elapsed_time(end) >= 0
    stream = torch.ocl.Stream()
    event = torch.ocl.current_stream().record_event()
    stream.wait_event(event)
    event.wait(stream)
    stream.synchronize()
    again = torch.Event("ocl")
    again.record(stream)
    again.synchronize()
    assert again.query()


def test_unrecorded_events_cannot_be_timed():
    with pytest.raises((RuntimeError, ValueError)):
        torch.ocl.Event(enable_timing=True).elapsed_time(torch.ocl.Event(enable_timing=True))


def test_synchronize_counts_as_blocking_and_operators_do_not():
    x = torch.ones(1000, device=device)
    torch.ocl.synchronize()
    calls = torch.ocl.blocking_calls()
    y = x.clone()
    y.copy_(x)
    y.fill_(2)
    z = y.t().contiguous().half()
    assert torch.ocl.blocking_calls() == calls
    torch.ocl.synchronize(device)
    assert torch.ocl.blocking_calls() > calls
    assert z.float().cpu().sum() == 2000


def test_work_on_a_stream_pool():
    streams = [torch.ocl.Stream() for _ in range(40)]   # more than the pool holds
    results = []
    for i, stream in enumerate(streams):
        with torch.ocl.stream(stream):
            results.append(torch.full((100,), float(i), device=device).clone())
    torch.ocl.synchronize()
    assert [r[0].item() for r in results] == list(range(40))
