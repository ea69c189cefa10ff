"""What the allocator did and holds: snapshots in the format of PyTorch's viewer, pools, raw blocks, out of memory."""

import pickle

import pytest
import torch
from torch.cuda import _memory_viz


@pytest.fixture
def history(device):
    torch.ocl.empty_cache()
    torch.ocl.memory._record_memory_history(clear_history=True)
    yield
    torch.ocl.memory._record_memory_history(None)


def allocate_by_this_name(device):
    return torch.empty(1000, device=device)


def test_snapshot_for_the_viewer(device, history, tmp_path):
    kept = allocate_by_this_name(device)
    allocate_by_this_name(device)   # freed at once
    torch.ocl.memory._dump_snapshot(tmp_path / "snapshot.pickle")
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert set(snapshot) >= {"segments", "device_traces"}
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]
              if block["address"] == kept.data_ptr()]
    assert len(blocks) == 1
    assert blocks[0]["state"] == "active_allocated" and blocks[0]["requested_size"] == 4000
    assert any(frame["name"] == "allocate_by_this_name" for frame in blocks[0]["frames"])
    actions = [entry["action"] for entry in snapshot["device_traces"][kept.device.index]]
    assert actions.count("alloc") >= 2 and "free_requested" in actions and "free_completed" in actions
    assert "segment_alloc" in actions or snapshot["segments"]
    for segment in snapshot["segments"]:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    # The programs that read such files.
    assert "allocate_by_this_name" in _memory_viz.trace(snapshot) or _memory_viz.trace(snapshot)
    assert "segments:" in _memory_viz.segsum(snapshot)
    assert "<html" in _memory_viz.trace_plot(snapshot).lower() or "script" in _memory_viz.trace_plot(snapshot)
    assert "script" in _memory_viz.segment_plot(snapshot)


def test_history_keeps_the_last_entries_only(device):
    torch.ocl.memory._record_memory_history(max_entries=10, stacks="python", clear_history=True)
    try:
        for _ in range(30):
            torch.empty(100, device=device)
        index = torch.ocl.current_device()
        assert len(torch.ocl.memory._snapshot()["device_traces"][index]) == 10
    finally:
        torch.ocl.memory._record_memory_history(None)
    with pytest.raises(ValueError, match="enabled must be one of"):
        torch.ocl.memory._record_memory_history("everything")


def test_metadata_and_annotations(device, history):
    torch.ocl.memory._set_memory_metadata("phase one")
    x = torch.empty(10, device=device)
    torch.ocl.memory._set_memory_metadata("")
    torch.ocl.memory._annotate_tensor(x, "kept for later")
    trace = torch.ocl.memory._snapshot()["device_traces"][x.device.index]
    assert [e for e in trace if e["action"] == "alloc" and e.get("user_metadata") == "phase one"]
    assert [e for e in trace if e["action"] == "annotate" and e["user_metadata"] == "kept for later"]
    with pytest.raises(ValueError, match="expected an ocl tensor"):
        torch.ocl.memory._annotate_tensor(torch.ones(1), "x")


def test_a_pool_keeps_its_memory(device):
    pool = torch.ocl.MemPool()
    with torch.ocl.use_mem_pool(pool):
        inside = torch.empty(3 * 2**20, device=device)
        address = inside.data_ptr()
        del inside
    assert len(pool.snapshot()) == 1
    torch.ocl.empty_cache()
    assert len(pool.snapshot()) == 1   # still the pool's
    outside = torch.empty(3 * 2**20, device=device)
    assert outside.data_ptr() != address
    with torch.ocl.use_mem_pool(pool):
        again = torch.empty(3 * 2**20, device=device)
    assert again.data_ptr() == address
    identity = pool.id
    del pool, again
    torch.ocl.empty_cache()
    assert torch.ocl.memory_snapshot(identity) == []
    with pytest.raises(NotImplementedError, match="allocator must be None"):
        torch.ocl.MemPool(object())


def test_raw_blocks(device):
    before = torch.ocl.memory_allocated(device)
    address = torch.ocl.caching_allocator_alloc(4096, device)
    assert torch.ocl.memory_allocated(device) == before + 4096
    torch.ocl.caching_allocator_delete(address)
    assert torch.ocl.memory_allocated(device) == before
    with pytest.raises(RuntimeError, match="no allocation of an ocl device"):
        torch.ocl.caching_allocator_delete(address)


def test_caching_can_be_switched_off(device):
    kept = torch.ones(5, device=device)
    with torch.ocl.memory.caching_allocator_disabled():
        held = torch.ocl.memory_reserved(device)
        x = torch.ones(2**20, device=device)
        assert torch.ocl.memory_reserved(device) > held
        torch.ocl.synchronize()
        del x
        assert torch.ocl.memory_reserved(device) <= held
    x = torch.ones(2**20, device=device)
    held = torch.ocl.memory_reserved(device)
    del x
    assert torch.ocl.memory_reserved(device) == held and kept.sum().item() == 5


def test_out_of_memory_says_whose_limit_it_was(device, history):
    total = torch.ocl.get_device_properties(device).total_memory
    torch.ocl.set_per_process_memory_fraction(0.25, device)
    try:
        assert torch.ocl.get_per_process_memory_fraction(device) == pytest.approx(0.25)
        with pytest.raises(torch.OutOfMemoryError) as error:
            [torch.empty(total // 16, dtype=torch.uint8, device=device) for _ in range(8)]
    finally:
        torch.ocl.set_per_process_memory_fraction(1.0, device)
    message = str(error.value)
    assert " out of memory." in message   # what accelerate's find_executable_batch_size looks for
    assert "of which this process may take" in message and "set_per_process_memory_fraction" in message
    index = torch.ocl.current_device()
    assert any(e["action"] == "oom" for e in torch.ocl.memory._snapshot()["device_traces"][index])
    del error
    assert torch.ocl.get_per_process_memory_fraction(device) == 1.0
    with pytest.raises(torch.OutOfMemoryError) as error:
        torch.empty(2**60, dtype=torch.uint8, device=device)
    assert " out of memory." in str(error.value) and "may take" not in str(error.value)
