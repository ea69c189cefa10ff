"""The caching allocator through PyTorch: statistics, reuse, out of memory, pinned memory."""

import gc

import pytest
import torch

from comparison import device


def setup_function():
    gc.collect()
    torch.ocl.synchronize()
    torch.ocl.empty_cache()


def test_statistics_follow_tensors():
    torch.ocl.reset_peak_memory_stats()
    before = torch.ocl.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    assert torch.ocl.memory_allocated() == before + (1 << 20)
    assert torch.ocl.memory_reserved() >= torch.ocl.memory_allocated()
    y = torch.empty(1 << 20, dtype=torch.uint8, device=device)
    del x, y
    assert torch.ocl.memory_allocated() == before
    assert torch.ocl.max_memory_allocated() == before + (2 << 20)
    torch.ocl.reset_peak_memory_stats()
    assert torch.ocl.max_memory_allocated() == before
    assert torch.ocl.max_memory_reserved() >= torch.ocl.memory_reserved()


def test_statistics_know_what_other_streams_have_finished_with():
    def active(what):
        return torch.ocl.memory_stats()[f"active_bytes.all.{what}"]

    torch.empty(1, device=device)
    before = active("current")
    x = torch.ones(1 << 20, dtype=torch.uint8, device=device)
    stream = torch.ocl.Stream()
    stream.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(stream):
        x.add_(1)
    x.record_stream(stream)
    del x
    torch.ocl.synchronize()
    assert active("current") == before
    torch.ocl.reset_peak_memory_stats()
    assert active("peak") == before


def test_stats_have_the_keys_of_cuda():
    torch.empty(3, device=device)
    stats = torch.ocl.memory_stats()
    for key in ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
                "active_bytes", "inactive_split_bytes", "requested_bytes"):
        for what in ("current", "peak", "allocated", "freed"):
            assert stats[f"{key}.all.{what}"] >= 0, key
    assert stats["num_ooms"] >= 0 and stats["num_alloc_retries"] >= 0
    torch.ocl.reset_accumulated_memory_stats()
    assert torch.ocl.memory_stats()["allocation.all.freed"] == 0
    summary = torch.ocl.memory_summary()
    assert "Allocated memory" in summary and len({len(line) for line in summary.splitlines()}) == 1
    assert "Reserved memory" in torch.ocl.memory_summary(device, abbreviated=True)


def test_memory_is_reused_and_given_back():
    x = torch.empty(5 << 20, dtype=torch.uint8, device=device)
    address = x.data_ptr()
    del x
    y = torch.empty(5 << 20, dtype=torch.uint8, device=device)
    assert y.data_ptr() == address
    del y
    reserved = torch.ocl.memory_reserved()
    torch.ocl.empty_cache()
    assert torch.ocl.memory_reserved() < reserved
    free, total = torch.ocl.mem_get_info()
    assert 0 < free <= total == torch.ocl.get_device_properties(0).total_memory


def test_views_keep_their_storage():
    x = torch.arange(1000.0).to(device)
    view = x[10:20]
    del x
    others = [torch.zeros(1000, device=device) for _ in range(4)]
    assert view.tolist() == list(range(10, 20)) and len(others) == 4


def test_empty_tensors_need_no_memory():
    before = torch.ocl.memory_allocated()
    x = torch.empty(0, 5, device=device)
    assert x.data_ptr() == 0 and torch.ocl.memory_allocated() == before
    assert (x + 1).shape == (0, 5)


def test_out_of_memory():
    total = torch.ocl.get_device_properties(0).total_memory
    with pytest.raises(torch.OutOfMemoryError) as error:
        torch.empty(64 * total, dtype=torch.uint8, device=device)
    assert "out of memory. Tried to allocate" in str(error.value)
    before = torch.ocl.memory_stats()["num_ooms"]
    torch.ocl.set_per_process_memory_fraction((torch.ocl.memory_reserved() + (64 << 20)) / total)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(200 << 20, dtype=torch.uint8, device=device)
    finally:
        torch.ocl.set_per_process_memory_fraction(1.0)
    assert torch.ocl.memory_stats()["num_ooms"] > before
    assert torch.empty(200 << 20, dtype=torch.uint8, device=device).numel() == 200 << 20   # still usable
    with pytest.raises(ValueError, match="fraction"):
        torch.ocl.set_per_process_memory_fraction(1.5)


def test_pinned_memory():
    x = torch.arange(1000.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned[10:].is_pinned() and not pinned.clone().is_pinned()
    assert torch.equal(pinned, x)
    assert torch.empty(10, pin_memory=True).is_pinned() and torch.zeros(3, 4, pin_memory=True).is_pinned()
    calls = torch.ocl.blocking_calls()
    there = pinned.to(device, non_blocking=True)
    back = torch.empty(1000, pin_memory=True)
    back.copy_(there, non_blocking=True)
    assert torch.ocl.blocking_calls() == calls
    torch.ocl.synchronize()
    assert torch.equal(back, x)


def test_pinned_memory_is_not_reused_under_way():
    results = []
    for i in range(20):
        host = torch.full((200_000,), float(i), pin_memory=True)
        results.append(host.to(device, non_blocking=True))
        del host   # back to the allocator while the copy may be under way
    for i, result in enumerate(results):
        assert (result.cpu() == i).all()


def test_small_pageable_copies_do_not_wait():
    x = torch.arange(100.0)
    torch.ocl.synchronize()
    calls = torch.ocl.blocking_calls()
    there = [x.to(device) for _ in range(5)]
    there.append(torch.tensor([1, 2, 3], device=device))
    x.zero_()   # the source may change at once
    assert torch.ocl.blocking_calls() == calls
    assert [t[2].item() for t in there] == [2, 2, 2, 2, 2, 3]


def test_record_stream():
    stream = torch.ocl.Stream()
    x = torch.ones(1 << 20, device=device)
    stream.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(stream):
        y = x * 2
    x.record_stream(stream)
    del x
    z = torch.zeros(1 << 20, device=device)
    stream.synchronize()
    assert (y.cpu() == 2).all() and (z.cpu() == 0).all()


def test_dlpack_and_foreign_pointers():
    x = torch.arange(12.0).to(device).view(3, 4)[1:]
    y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert y.data_ptr() == x.data_ptr() and y.device == x.device and torch.equal(y.cpu(), x.cpu())
    y[0, 0] = 50
    assert x[0, 0].item() == 50
    torch.testing.assert_close((y + 1).cpu(), x.cpu() + 1)
