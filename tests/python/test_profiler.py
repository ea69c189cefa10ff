"""torch.profiler on the device: what ran, when, on which stream, by which operator, with which memory."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from torch_ocl import _state

pytestmark = pytest.mark.skipif(not getattr(_state.extension, "has_kineto", False),
                                reason="this PyTorch has no plugin interface for profilers")
BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def model_and_input(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(8 * 14 * 14, 4)).to(device)
    x = torch.randn(2, 3, 16, 16, device=device)
    model(x).sum().backward()
    torch.ocl.synchronize()
    return model, x


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace of one training step, as a file and as a profile."""
    model, x = model_and_input("ocl")
    stream = torch.ocl.Stream()
    with profile(activities=BOTH, record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as prof:
        with record_function("one step"):
            model(x).sum().backward()
        held = torch.ones(1000, device="ocl")
        held.cpu()
        with torch.ocl.stream(stream):
            torch.zeros(100, device="ocl").add_(1)
        torch.ocl.synchronize()
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    prof.export_chrome_trace(str(path))
    return prof, json.loads(path.read_text())["traceEvents"], stream


def of(events, category):
    return [event for event in events if event.get("cat") == category]


def test_kernels_are_on_their_streams_track(trace):
    _, events, stream = trace
    kernels = of(events, "kernel")
    assert len(kernels) >= 8
    assert {kernel["tid"] for kernel in kernels} == {0, stream.stream_id}
    assert all(kernel["pid"] == 0 and kernel["dur"] >= 0 for kernel in kernels)
    assert sum(kernel["dur"] for kernel in kernels) > 0
    for kernel in kernels:
        assert kernel["args"]["stream"] == kernel["tid"] and len(kernel["args"]["global work size"]) == 3
    # A stream does one thing after the other, in the order of launching.
    on_default = sorted((k for k in kernels if k["tid"] == 0), key=lambda k: k["args"]["correlation"])
    for first, second in zip(on_default, on_default[1:]):
        assert first["ts"] <= second["ts"]
    names = {event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    assert "stream 0" in names
    labels = {event["args"]["labels"] for event in events if event.get("name") == "process_labels"}
    assert "ocl:0" in labels


def test_kernels_lie_in_the_profile_and_after_their_launch(trace):
    _, events, _ = trace
    operators = of(events, "cpu_op")
    begin = min(event["ts"] for event in operators)
    calls = {event["args"]["correlation"]: event for event in of(events, "privateuse1_runtime")}
    for kernel in of(events, "kernel"):
        call = calls[kernel["args"]["correlation"]]
        assert call["name"] == "clEnqueueNDRangeKernel"
        assert kernel["ts"] >= begin - 100_000 and kernel["ts"] >= call["ts"] - 100_000   # clocks are aligned


def test_kernels_belong_to_their_operators(trace):
    _, events, _ = trace
    operators = {event["args"]["External id"]: event["name"] for event in of(events, "cpu_op")}
    kernels = of(events, "kernel")
    launched_by = {operators.get(kernel["args"].get("External id")) for kernel in kernels}
    assert None not in launched_by
    assert any("conv" in name for name in launched_by) and any("addmm" in name for name in launched_by)
    arrows = of(events, "ac2g")
    assert len([a for a in arrows if a["ph"] == "s"]) == len([a for a in arrows if a["ph"] == "f"]) >= len(kernels)


def test_copies_fills_memory_and_stacks(trace):
    _, events, _ = trace
    copies = of(events, "gpu_memcpy")
    assert any("DtoH" in copy["name"] and copy["args"]["bytes"] == 4000 for copy in copies)
    memory = [event for event in of(events, "cpu_instant_event") if event["name"] == "[memory]"]
    assert any(event["args"]["Device Type"] == 20 and event["args"]["Bytes"] > 0 for event in memory)
    assert any(event["args"]["Device Type"] == 20 and event["args"]["Bytes"] < 0 for event in memory)
    assert any("nn.Module: Conv2d" in event["name"] for event in of(events, "python_function"))
    assert any(event["name"] == "one step" for event in of(events, "user_annotation"))
    on_device = [event for event in of(events, "gpu_user_annotation") if event["name"] == "one step"]
    assert len(on_device) == 1 and on_device[0]["tid"] == 0 and on_device[0]["dur"] > 0


def test_averages_have_device_columns(trace):
    prof, _, _ = trace
    averages = prof.key_averages()
    table = averages.table(sort_by="self_device_time_total", row_limit=10)
    assert "Self OCL" in table and "OCL total" in table and "OCL Mem" in table
    by_name = {average.key: average for average in averages}
    assert by_name["aten::addmm"].device_time_total > 0 and by_name["aten::addmm"].flops > 0
    assert by_name["aten::convolution_overrideable"].flops >= 0 if "aten::convolution_overrideable" in by_name else True
    kernels = [average for average in averages if average.device_type == torch.autograd.DeviceType.PrivateUse1
               and not average.is_user_annotation]
    assert kernels and all(kernel.self_device_time_total >= 0 for kernel in kernels)
    # Kernels' time is their operators' time.
    operators = sum(average.self_device_time_total for average in averages
                    if average.device_type == torch.autograd.DeviceType.CPU)
    total = sum(kernel.self_device_time_total for kernel in kernels)
    assert operators == pytest.approx(total, rel=0.02)


def test_kernels_have_a_python_stack_and_flops(device, tmp_path):
    """From a kernel in TensorBoard's file, by its operator, to the function that called it."""
    def product_of(x, y):
        return x @ y

    x, y = torch.ones(64, 32, device=device), torch.ones(32, 16, device=device)
    image, weight = torch.ones(2, 3, 10, 10, device=device), torch.ones(5, 3, 3, 3, device=device)
    with profile(activities=BOTH, record_shapes=True, with_stack=True, with_flops=True,
                 on_trace_ready=torch.profiler.tensorboard_trace_handler(str(tmp_path))) as prof:
        product_of(x, y)
        torch.nn.functional.conv2d(image, weight)
        torch.ocl.synchronize()
    by_name = {average.key: average for average in prof.key_averages()}
    assert by_name["aten::mm"].flops == 2 * 64 * 32 * 16
    assert by_name["aten::mm"].count == 1   # not once more for the form with `out`
    assert by_name["aten::conv2d"].flops == 2 * (2 * 5 * 8 * 8) * (3 * 3 * 3)
    file, = tmp_path.glob("*.pt.trace.json")
    events = json.loads(file.read_text())["traceEvents"]
    operator = next(event for event in of(events, "cpu_op") if event["name"] == "aten::mm")
    assert any(kernel["args"].get("External id") == operator["args"]["External id"] for kernel in of(events, "kernel"))
    callers = [event["name"] for event in of(events, "python_function") if event["tid"] == operator["tid"]
               and event["ts"] <= operator["ts"] and operator["ts"] + operator["dur"] <= event["ts"] + event["dur"]]
    assert any("product_of" in name for name in callers), callers


def test_schedule_and_repeated_profiles(device):
    model, x = model_and_input(device)
    seen = []
    with profile(activities=BOTH, schedule=torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=2),
                 on_trace_ready=lambda prof: seen.append(sum(
                     event.device_type == torch.autograd.DeviceType.PrivateUse1 for event in prof.events()))) as prof:
        for _ in range(6):
            model(x)
            torch.ocl.synchronize()
            prof.step()
    assert len(seen) == 2 and seen[0] == seen[1] > 0


def test_device_alone_and_cpu_alone(device):
    model, x = model_and_input(device)
    with profile(activities=[ProfilerActivity.PrivateUse1]) as prof:
        model(x)
        torch.ocl.synchronize()
    assert any(event.device_type == torch.autograd.DeviceType.PrivateUse1 for event in prof.events())
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        model(x)
    assert not any(event.device_type == torch.autograd.DeviceType.PrivateUse1 for event in prof.events())


def test_older_profiler_is_quiet(device, capfd):
    model, x = model_and_input(device)
    for use_kineto in (False, True):
        with torch.autograd.profiler.profile(use_device="ocl", use_kineto=use_kineto) as prof:
            for _ in range(5):
                model(x)
        assert prof.key_averages().table(row_limit=5)
    lines = [line for line in capfd.readouterr().err.splitlines() if "PRIVATEUSE1" in line.upper()]
    assert lines == []


def test_table_of_kernels(device):
    x = torch.randn(100, 100, device=device)
    y = x @ x
    with torch.ocl.profile_kernels() as outer:
        with torch.ocl.profile_kernels() as inner:
            (x @ x).add_(1)
        (x @ x).cpu()
    y.cpu()
    assert len(outer.commands) > len(inner.commands) >= 2
    kernels = [command for command in inner.commands if command["kind"] == "kernel"]
    assert all(command["enqueued"] > 0 and command["ended"] >= command["started"] for command in kernels)
    assert any(row["kind"] == "read" and row["bytes"] == 40000 for row in outer.rows())
    text = str(outer)
    assert text.splitlines()[0].split() == ["name", "calls", "total", "us", "%", "mean", "us", "min", "us", "max", "us"]
    assert sum(row["percent"] for row in outer.rows()) == pytest.approx(100)


def test_many_commands_are_kept(device):
    x = torch.ones(10, device=device)
    with torch.ocl.profile_kernels() as kernels:
        for _ in range(3000):
            x.add_(1)
    assert len(kernels.commands) == 3000
    started = [command["started"] for command in kernels.commands]
    assert started == sorted(started)


def test_nothing_is_kept_when_off(device):
    x = torch.ones(10, device=device)
    x.add_(1)
    with torch.ocl.profile_kernels() as kernels:
        pass
    assert kernels.commands == []


def test_names_of_other_profilers(device, capsys):
    x = torch.ones(10, device=device)
    with torch.ocl.profiler.profile():
        x.add_(1)
    assert "commands" in capsys.readouterr().out
    with pytest.raises(NotImplementedError, match="metal_capture"):
        torch.ocl.profiler.metal_capture("file")
