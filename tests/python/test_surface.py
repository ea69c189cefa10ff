"""torch.ocl has every name of torch.cuda, torch.xpu, torch.mps and torch.accelerator: it works, or says why not."""

import importlib
import pickle
import subprocess
import sys
import warnings

import pytest
import torch

from torch_ocl import _names, _surface


def test_no_name_is_missing():
    for kind, names in _names.every_name().items():
        assert [name for name in names if _names.classify(name)[0] == "missing"] == [], kind


def test_refused_names_say_why():
    for name in _surface.REFUSED:
        refused = getattr(torch.ocl, name)
        with pytest.raises(NotImplementedError, match="torch.ocl"):
            refused()
        with pytest.raises(NotImplementedError, match="torch.ocl"):
            refused.anything
        assert not isinstance(3, refused)
    with pytest.raises(AttributeError):
        torch.ocl.no_such_name


def test_submodules_are_imported_by_their_names(device):
    for name in _surface.SUBMODULES:
        module = importlib.import_module(f"torch.ocl.{name}")
        assert module is getattr(torch.ocl, name)
    from torch.ocl.amp import GradScaler, autocast
    from torch.ocl.amp.common import amp_definitely_not_available
    from torch.ocl.amp.grad_scaler import GradScaler as SameScaler
    with autocast(dtype=torch.bfloat16):
        assert (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).dtype == torch.bfloat16
    assert GradScaler(init_scale=4.0).scale(torch.ones((), device=device)).item() == 4.0
    assert SameScaler is GradScaler and not amp_definitely_not_available()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("torch.ocl.no_such_module")


def test_submodules_are_loaded_when_used_only():
    """Import must not grow: what is seldom used is not loaded with torch."""
    code = ("import torch, sys; print([n for n in sys.modules if n in ('torch_ocl.graphs', 'torch_ocl.amp', "
            "'torch_ocl.profiler', 'torch_ocl._memory_tools', 'torch_ocl._telemetry', 'torch_ocl._names', "
            "'torch_ocl.as_cuda', 'torch_ocl.integrations')])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_device_properties(device):
    properties = torch.ocl.get_device_properties(device)
    assert (properties.major, properties.minor) == properties.opencl_version == torch.ocl.get_device_capability(device)
    assert properties.multi_processor_count == properties.compute_units > 0
    assert properties.warp_size >= 1 and properties.total_memory > 0 and len(str(properties.uuid)) == 36
    assert properties.uuid == torch.ocl.get_device_properties(device).uuid
    assert properties.max_threads_per_block > 0 and properties.shared_memory_per_block > 0
    assert properties.is_integrated in (0, 1) and properties.clock_rate >= 0
    assert isinstance(properties.pci_bus_id, int) and isinstance(properties.pci_device_id, int)


def test_sync_debug_mode(device):
    x = torch.ones(3, device=device)
    assert torch.ocl.get_sync_debug_mode() == 0
    try:
        torch.ocl.set_sync_debug_mode("error")
        assert torch.ocl.get_sync_debug_mode() == 2
        with pytest.raises(RuntimeError, match="synchronizing ocl operation"):
            x.sum().item()
        x.add_(1)
        torch.ocl.synchronize()
        torch.ocl.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="synchronizing ocl operation"):
            assert x.sum().item() == 6
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            torch.ocl.set_sync_debug_mode("loud")
    finally:
        torch.ocl.set_sync_debug_mode("default")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.sum().item() == 6


def test_stream_priorities(device):
    low, high = torch.ocl.Stream(device), torch.ocl.Stream(device, priority=-1)
    assert torch.ocl.Stream.priority_range() == (0, -1)
    assert (low.priority, high.priority) == (0, -1) and low.native_handle != high.native_handle
    with torch.ocl.stream(high):
        x = torch.arange(5, device=device) * 2
    high.synchronize()
    assert x.tolist() == [0, 2, 4, 6, 8]


def test_legacy_constructors(device):
    assert torch.ocl.FloatTensor([1, 2]).tolist() == [1.0, 2.0]
    assert torch.ocl.LongTensor(2, 3).shape == (2, 3)
    assert isinstance(torch.ones(1, device=device), torch.ocl.FloatTensor)
    assert not isinstance(torch.ones(1), torch.ocl.FloatTensor)
    assert not isinstance(torch.ones(1, device=device), torch.ocl.HalfTensor)


def test_peers(device):
    assert torch.ocl.can_device_access_peer(0, 0) is False
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.ocl.can_device_access_peer(0, 99)


def test_telemetry(device):
    """A number where the operating system tells one, and otherwise an error that says what does."""
    for name in ("utilization", "memory_usage", "temperature", "power_draw", "device_memory_used"):
        try:
            assert getattr(torch.ocl, name)(device) >= 0
        except NotImplementedError as error:
            assert "OpenCL has no query" in str(error)
    if torch.ocl.get_device_properties(device).kind == "cpu":
        assert 0 <= torch.ocl.utilization(device) <= 100
    assert "process" in torch.ocl.list_gpu_processes(device)


def test_small_functions(device):
    kept = torch.ones(1, device=device)
    assert torch.ocl.current_accelerator() == torch.device("ocl")
    assert torch.ocl.current_device_index() == torch.ocl.current_device()
    with torch.ocl.device_index(0):
        assert torch.ocl.current_device_idx() == 0
    assert torch.ocl.get_memory_info() == torch.ocl.mem_get_info()
    assert torch.ocl.current_allocated_memory() > 0 and torch.ocl.driver_allocated_memory() > 0
    assert torch.ocl.recommended_max_memory() == torch.ocl.get_device_properties().total_memory
    assert torch.ocl.get_arch_list() == [] and torch.ocl.get_gencode_flags() == ""
    assert torch.ocl.is_tf32_supported() is False and torch.ocl.has_half and not torch.ocl.has_magma
    assert torch.ocl.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] > 0
    del kept
    assert torch.ocl.ipc_collect() is None and torch.ocl.clock_rate() >= 0
    torch.ocl.check_error(0)
    with pytest.raises(torch.ocl.AcceleratorError, match="CL_INVALID_VALUE"):
        torch.ocl.check_error(-30)
    assert torch.ocl.OutOfMemoryError is torch.OutOfMemoryError
    with torch.ocl.nvtx.range("{}", "named"):
        torch.ocl.nvtx.mark("here")
    number = torch.ocl.nvtx.range_start("other")
    torch.ocl.nvtx.range_end(number)
    assert torch.ocl.nvtx.range_pop() == -1


def test_pinned_memory_statistics(device):
    before = torch.ocl.host_memory_stats()
    pinned = torch.empty(1000, device="cpu").pin_memory()
    during = torch.ocl.host_memory_stats()
    assert during["active_requests.current"] == before.get("active_requests.current", 0) + 1
    assert during["active_bytes.current"] >= 4000
    del pinned
    assert torch.ocl.host_memory_stats()["active_requests.current"] == before.get("active_requests.current", 0)
    assert torch.ocl.host_memory_stats_as_nested_dict()["active_bytes"]["peak"] >= 4000
    torch.ocl.reset_peak_host_memory_stats()
    torch.ocl.reset_accumulated_host_memory_stats()
    assert torch.ocl.host_memory_stats()["allocations.allocated"] == 0
    torch.ocl.empty_host_cache()


def test_weights_only_load(device, tmp_path):
    torch.save({"weight": torch.arange(6.0, device=device).view(2, 3)}, tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    assert loaded["weight"].device.type == "ocl" and loaded["weight"].cpu().equal(torch.arange(6.0).view(2, 3))
    assert torch.load(tmp_path / "state.pt", weights_only=True, map_location="cpu")["weight"].device.type == "cpu"
    assert pickle.loads(pickle.dumps(loaded["weight"])).device.type == "ocl"


@pytest.mark.parametrize("causal", [False, True])
def test_attention_has_forward_derivatives(device, causal):
    from torch.func import jvp

    torch.manual_seed(0)
    q, k, v, dq, dk, dv = (torch.randn(2, 3, 7, 8) for _ in range(6))

    def attention(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected, expected_derivative = jvp(attention, (q, k, v), (dq, dk, dv))
    on_device = [t.to(device) for t in (q, k, v, dq, dk, dv)]
    value, derivative = jvp(attention, tuple(on_device[:3]), tuple(on_device[3:]))
    torch.testing.assert_close(value.cpu(), expected)
    torch.testing.assert_close(derivative.cpu(), expected_derivative)


@pytest.mark.parametrize("axes", [(0, 0, 0), (0, None, None), (1, 1, 1)])
def test_attention_is_batched_by_vmap(device, axes):
    torch.manual_seed(0)
    q, k, v = (torch.randn(4, 4, 2, 7, 8) if axis is not None else torch.randn(4, 2, 7, 8) for axis in axes)

    def attention(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    expected = torch.vmap(attention, in_dims=axes)(q, k, v)
    actual = torch.vmap(attention, in_dims=axes)(q.to(device), k.to(device), v.to(device))
    torch.testing.assert_close(actual.cpu(), expected)
    gradient = torch.vmap(torch.func.grad(lambda q: attention(q, k[0], v[0]).square().sum()))
    if axes == (0, 0, 0):
        expected = gradient(q)
        k, v = k.to(device), v.to(device)
        torch.testing.assert_close(gradient(q.to(device)).cpu(), expected)
