"""Checks with two devices, ocl:0 and ocl:1. test_devices.py runs this file in a process for each pair of devices, since
a process reads its list of devices once."""

import copy
import threading

import pytest
import torch

if torch.ocl.device_count() < 2:
    pytest.exit("one device only", returncode=5)

first, second = torch.device("ocl:0"), torch.device("ocl:1")
BOTH_WAYS = [(first, second), (second, first)]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32,
          torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex32,
          torch.complex64, torch.complex128]


def bits(x):
    x = x.cpu().resolve_conj().resolve_neg().contiguous()
    return x.view(torch.uint8) if x.dim() else x.reshape(1).view(torch.uint8)


def same(actual, expected, on=None):
    assert on is None or actual.device == on
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    assert torch.equal(bits(actual), bits(expected))


def settle():
    for device in (first, second):
        torch.ones(1, device=device)
        torch.ocl.synchronize(device)
    return torch.ocl.blocking_calls()


@pytest.mark.parametrize("source, target", BOTH_WAYS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copy_of_every_dtype(dtype, source, target):
    x = torch.arange(-30, 30).reshape(3, 4, 5).to(dtype)
    x_there = x.to(source)
    calls = settle()
    moved = [x_there.to(target, non_blocking=non_blocking) for non_blocking in (False, True)]
    moved += [x_there[1:, 2:].to(target), x_there[1].to(target), x_there[2, 3, 4].to(target), x_there[:0].to(target)]
    into = torch.empty_like(x_there, device=target).copy_(x_there)
    assert torch.ocl.blocking_calls() == calls
    for actual, expected in zip([*moved, into], [x, x, x[1:, 2:], x[1], x[2, 3, 4], x[:0], x]):
        same(actual, expected, target)


@pytest.mark.parametrize("source, target", BOTH_WAYS, ids=str)
def test_copy_of_every_layout(source, target):
    x = torch.arange(120.0).reshape(2, 3, 4, 5)
    layouts = [lambda t: t.permute(3, 1, 0, 2), lambda t: t.to(memory_format=torch.channels_last),
               lambda t: t[:, ::2, 1:],
               lambda t: t.expand(2, 3, 4, 5).transpose(1, 2), lambda t: t[0, 0, 0].expand(7, 5), lambda t: t.flip(0)]
    for layout in layouts:
        expected = layout(x)
        there = layout(x.to(source))
        calls = settle()
        moved = there.to(target)
        assert torch.ocl.blocking_calls() == calls
        same(moved, expected, target)
        assert moved.stride() == expected.to("cpu", copy=True).stride()
        spread = torch.full((*expected.shape, 2), -1.0, device=target)
        spread[..., 0] = there                                   # into every other element
        same(spread[..., 0], expected)
        assert (spread[..., 1] == -1).all().item()
    broadcast = torch.zeros(4, 5, device=target)
    broadcast.copy_(x.to(source)[0, 0, 0])
    same(broadcast, x[0, 0, 0].expand(4, 5))


@pytest.mark.parametrize("source, target", BOTH_WAYS, ids=str)
def test_copy_converts(source, target):
    x = torch.tensor([0.0, -1.5, 3.75, 100.0])
    there = x.to(source)
    calls = settle()
    narrow, wide = there.to(target, torch.float16), there.half().to(target, torch.float32)
    into = torch.zeros(4, dtype=torch.int32, device=target).copy_(there)
    assert torch.ocl.blocking_calls() == calls
    same(narrow, x.half(), target)
    same(wide, x.half().float(), target)
    same(into, x.int())
    z = torch.tensor([1 + 2j, -3 - 4j])
    same(z.to(source).conj().to(target), z.conj())
    same(z.to(source).conj().imag.to(target), z.conj().imag)     # a lazily negated view


def test_copies_beyond_the_staging_buffers():
    x = torch.arange(11 * 2**20 + 3, dtype=torch.int32)           # 44 MiB and an odd rest
    there = x.to(first)
    back = there.to(second)[5:].to(first)
    assert torch.equal(back.cpu(), x[5:])


def test_copies_follow_the_work_on_both_devices():
    x, y = torch.zeros(50_000, device=first), torch.zeros(50_000, device=second)
    calls = settle()
    for _ in range(20):
        x += 1
        y.copy_(x)       # what x was
        x.mul_(2)        # not before it was read
        x.copy_(y.add_(1))
    assert torch.ocl.blocking_calls() == calls
    assert (x == 40).all().item() and (y == 40).all().item()


@pytest.mark.parametrize("source, target", BOTH_WAYS, ids=str)
def test_streams_and_events(source, target):
    a, b = torch.ocl.Stream(source), torch.ocl.Stream(target)
    x, y = torch.zeros(10_000, device=source), torch.zeros(10_000, device=target)
    calls = settle()
    for _ in range(10):
        with torch.ocl.stream(a):
            x += 1
        b.wait_stream(a)
        with torch.ocl.stream(b):
            y += 1
            event = b.record_event()
        a.wait_event(event)
        event.wait(torch.ocl.current_stream(source))
    assert torch.ocl.blocking_calls() == calls
    b.synchronize()
    a.synchronize()
    assert event.query()
    assert (x == 10).all().item() and (y == 10).all().item()


def test_two_streams_wait_for_each_other():
    a, b = torch.ocl.Stream(first), torch.ocl.Stream(second)
    for _ in range(50):
        event_a, event_b = a.record_event(), b.record_event()
        a.wait_event(event_b)
        b.wait_event(event_a)
    a.synchronize()
    b.synchronize()


def test_events_of_two_devices_cannot_be_timed():
    events = []
    for device in (first, second):
        with torch.ocl.device(device):
            events.append(torch.ocl.Event(enable_timing=True))
            events[-1].record()
            events[-1].synchronize()
    if torch.ocl.get_device_properties(0).id != torch.ocl.get_device_properties(1).id:
        with pytest.raises(RuntimeError, match="different devices"):
            events[0].elapsed_time(events[1])
    with pytest.raises(RuntimeError, match="device"):
        events[0].record(torch.ocl.current_stream(second))


def test_threads_exchange_tensors():
    errors = []

    def work(seed):
        try:
            x = torch.arange(1000 * seed + 7)
            y = x.to(first)
            streams = [torch.ocl.Stream(device) for device in (first, second, first, second)]
            before = torch.ocl.current_stream(first)
            for i in range(30):
                stream = streams[(i * seed) % 4]
                reading = torch.ocl.current_stream(y.device)    # a copy is work of the current streams of both
                for waiting in (stream, reading):
                    waiting.wait_stream(before)
                y.record_stream(stream if stream.device == y.device else reading)
                with torch.ocl.stream(stream):
                    y = y.to(stream.device, non_blocking=bool(i % 2)) + 1
                before = stream
            before.synchronize()
            assert torch.equal(y.cpu(), x + 30)
        except BaseException as error:   # noqa: BLE001 (reported by the thread that waits)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 3, 400)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert not errors, errors


class TwoLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(6, 16), torch.nn.Linear(16, 3)

    def forward(self, x):
        hidden = torch.relu(self.one(x.to(self.one.weight.device)))
        return self.two(hidden.to(self.two.weight.device))


def test_model_parallel_training():
    reference = TwoLayers()
    model = copy.deepcopy(reference)
    model.one.to(first)
    model.two.to(second)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (reference, model)]
    for step in range(4):
        x = torch.randn(5, 6)
        x_there = x.to(first)
        calls = settle()
        losses = []
        for net, optimizer, inputs in zip((reference, model), optimizers, (x, x_there)):
            optimizer.zero_grad()
            losses.append(net(inputs).square().mean())
            losses[-1].backward()
            optimizer.step()
        assert step == 0 or torch.ocl.blocking_calls() == calls
        torch.testing.assert_close(losses[1].cpu(), losses[0])
        for p, q in zip(model.parameters(), reference.parameters()):
            torch.testing.assert_close(p.grad.cpu(), q.grad)
            torch.testing.assert_close(p.cpu(), q)


def test_hooks_run_on_the_device_of_their_tensor():
    seen = []
    x = torch.ones(3, device=first, requires_grad=True)
    y = (x * 2).to(second) * 3
    y.register_hook(lambda grad: seen.append((grad.device, torch.ocl.current_device(), threading.get_ident())))
    z = y.to(first) * 5
    z.register_hook(lambda grad: seen.append((grad.device, torch.ocl.current_device(), threading.get_ident())))
    z.sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((3,), 30.0))
    assert [(device, current) for device, current, _ in seen] == [(first, 0), (second, 1)]
    assert len({thread for _, _, thread in seen}) == 2             # each device has a thread of its own
    assert torch.ocl.current_device() == 0


def test_operators_refuse_tensors_of_two_devices():
    a, b = torch.ones(3, device=first), torch.ones(3, device=second)
    calls = {"add": lambda: a + b, "cat": lambda: torch.cat([a, b]), "mm": lambda: torch.mm(a[None], b[:, None]),
             "linear": lambda: torch.nn.functional.linear(a, b[None]), "index": lambda: a[b.long()],
             "where": lambda: torch.where(a > 0, a, b), "out": lambda: torch.add(a, a, out=b),
             "norm": lambda: torch.nn.functional.layer_norm(a, (3,), b), "lerp": lambda: a.lerp(a, b),
             "conv": lambda: torch.nn.functional.conv1d(a[None, None], b[None, None]),
             "loss": lambda: torch.nn.functional.nll_loss(a[None], b[:1].long()),
             "embedding": lambda: torch.nn.functional.embedding(a.long(), b[:, None]),
             "foreach": lambda: torch._foreach_add([a, b], [b, a]), "gather": lambda: a.gather(0, b.long()),
             "scatter": lambda: a.scatter(0, a.long() - 1, b), "masked": lambda: a.masked_fill(b > 0, 1),
             "clamp": lambda: a.clamp(min=b), "dot": lambda: a.dot(b), "isin": lambda: torch.isin(a, b)}
    for name, call in calls.items():
        try:
            call()
        except RuntimeError as error:
            assert "device" in str(error), (name, error)
        else:
            pytest.fail(f"{name} took tensors of two devices")
    same(a + torch.tensor(2.0, device=second).item(), torch.full((3,), 3.0))


def test_an_error_on_one_device_leaves_the_other_alone():
    here = torch.arange(4.0, device=first)
    bad = torch.arange(4.0, device=second)[torch.tensor([9], device=second)]
    assert (here * 2).cpu().tolist() == [0, 2, 4, 6]
    torch.ocl.synchronize(first)
    with pytest.raises(IndexError):
        bad.cpu()
        torch.ocl.synchronize(second)
    torch.ocl.synchronize(second)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**46, device=second)
    assert (here + torch.arange(4.0, device=second).to(first)).cpu().tolist() == [0, 2, 4, 6]


def test_current_device_and_defaults():
    assert torch.ocl.current_device() == torch.accelerator.current_device_index() == 0
    with torch.ocl.device(1):
        assert torch.ocl.current_device() == 1 and torch.ones(1, device="ocl").device == second
        with torch.ocl.device("ocl:0"):
            assert torch.ones(1, device="ocl").device == first
        with torch.ocl.device_of(torch.ones(1, device=first)):
            assert torch.ocl.current_device() == 0
        assert torch.ocl.current_device() == 1
    with torch.accelerator.device_index(1):
        assert torch.ones(1, device="ocl").device == second
    torch.accelerator.set_device_index(1)
    assert torch.accelerator.current_stream().device == second and torch.Stream("ocl").device == second
    torch.accelerator.set_device_index(0)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(1, device="ocl:7")
    torch.set_default_device("ocl:1")
    try:
        assert torch.ones(2).device == torch.nn.Linear(2, 2).weight.device == second
        assert torch.Generator(device="ocl:1").device == second
        assert torch.randn(3).device == second and torch.tensor([1]).device == second
    finally:
        torch.set_default_device(None)
    with torch.device("ocl:1"):
        assert torch.arange(3).device == second
    assert torch.ones(1).device.type == "cpu" and torch.ocl.current_device() == 0
    stream = torch.Stream(device="ocl:1")
    with stream:
        assert torch.ocl.current_device() == 1 and torch.accelerator.current_stream() == stream
    assert torch.ocl.current_device() == 0 and torch.ocl.current_stream(1) != stream


def test_generators_of_each_device():
    torch.manual_seed(3)
    a, b = torch.rand(5, device=first), torch.rand(5, device=second)
    assert torch.equal(a.cpu(), b.cpu())                 # the same seed, the same numbers
    generator = torch.Generator(device=second).manual_seed(4)
    c = torch.rand(5, device=second, generator=generator)
    assert torch.equal(torch.rand(5, device=second, generator=generator.manual_seed(4)).cpu(), c.cpu())
    states = torch.ocl.get_rng_state_all()
    assert len(states) == torch.ocl.device_count()
    d = torch.rand(5, device=second)
    torch.ocl.set_rng_state_all(states)
    assert torch.equal(torch.rand(5, device=second).cpu(), d.cpu())
    with torch.random.fork_rng(devices=[0, 1], device_type="ocl"):
        torch.rand(3, device=second)
    torch.ocl.set_rng_state(states[1], "ocl:1")
    assert torch.equal(torch.rand(5, device=second).cpu(), d.cpu())


def test_memory_of_each_device():
    before = [torch.ocl.memory_allocated(i) for i in range(2)]
    x = torch.ones(300_000, device=second)
    assert torch.ocl.memory_allocated(0) == before[0] and torch.ocl.memory_allocated(1) >= before[1] + x.nbytes
    del x
    assert torch.ocl.memory_allocated("ocl:1") == before[1]
    torch.ocl.empty_cache()


def test_autocast_and_gradient_scaler():
    model = TwoLayers()
    model.one.to(first)
    model.two.to(second)
    scaler = torch.amp.GradScaler("ocl")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for value in (1.0, float("inf")):
        before = [p.detach().cpu().clone() for p in model.parameters()]
        optimizer.zero_grad()
        with torch.autocast("ocl", torch.float16):
            out = model(torch.full((2, 6), value))
            assert out.dtype == torch.float16 and out.device == second
            loss = out.float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        changed = [not torch.equal(p.detach().cpu(), q) for p, q in zip(model.parameters(), before)]
        assert any(changed) == (value == 1.0)              # infinities found on either device skip the step


def test_saved_tensors_return_to_their_device(tmp_path):
    x = torch.arange(5.0, device=second)
    torch.save({"x": x, "y": torch.ones(1, device=first)}, tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt")
    same(loaded["x"], x, second)
    assert loaded["y"].device == first
    assert torch.load(tmp_path / "x.pt", map_location={"ocl:1": "ocl:0"})["x"].device == first
    assert torch.load(tmp_path / "x.pt", map_location="ocl:1")["y"].device == second
    same(copy.deepcopy(x), x, second)
    with torch.ocl.device(1):
        assert torch.load(tmp_path / "x.pt", map_location="ocl")["y"].device == second


@pytest.mark.skipif(torch.cuda.is_available(), reason="DataParallel takes CUDA's devices where there are any")
def test_data_parallel():
    reference = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    model = torch.nn.DataParallel(copy.deepcopy(reference).to(first), device_ids=[0, 1])
    x = torch.randn(7, 6)
    for inputs in (x, x.to(first)):
        out = model(inputs)
        assert out.device == first
        torch.testing.assert_close(out.cpu(), reference(x))
    model.zero_grad()
    for net, inputs in ((reference, x), (model, x.to(first))):
        net(inputs).square().sum().backward()
    for p, q in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(p.grad.cpu(), q.grad)
    scattered = torch.nn.parallel.scatter(x, [0, 1])
    assert [part.device for part in scattered] == [first, second]
    same(torch.nn.parallel.gather(scattered, 1), x, second)
    outputs = torch.nn.parallel.parallel_apply([copy.deepcopy(reference).to(d) for d in (first, second)], scattered,
                                               devices=[0, 1])
    assert [out.device for out in outputs] == [first, second]


def test_second_device():
    with torch.ocl.device(1):
        assert torch.ocl.current_device() == 1
        x = torch.empty(4, device="ocl")
        assert x.device == torch.device("ocl:1")
        with torch.ocl.device_of(torch.empty(1, device="ocl:0")):
            assert torch.ocl.current_device() == 0
    assert torch.ocl.current_device() == 0
    y = torch.arange(6.0, device="cpu").reshape(2, 3).t()
    a = y.to("ocl:0")
    b = a.to("ocl:1")
    assert b.device.index == 1 and b.stride() == y.stride()
    assert torch.equal(b.cpu(), y) and torch.equal(b.to("ocl:0").cpu(), y)
    half = torch.empty(2, 3, dtype=torch.float16, device="ocl:1").t().copy_(a)
    assert torch.equal(half.cpu(), y.half())
    with pytest.raises(RuntimeError, match="same device"):
        torch.add(a, b)


def test_the_current_device_of_compiled_code():
    def function(x):
        return x + torch.ocl.current_device()

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for current in (0, 1, 0):
        with torch.ocl.device(current):
            assert compiled(torch.zeros(3, device="ocl:0")).tolist() == [current] * 3
