"""Bad input: one clear error of the right type, and the device works on."""

import pytest
import torch

from comparison import device


def test_mixed_devices():
    x, y = torch.ones(3, device=device), torch.ones(3)
    for use in (lambda: x + y, lambda: x.add_(y), lambda: torch.mm(x.view(1, 3), y.view(3, 1)),
                lambda: torch.cat([x, y]), lambda: torch.where(x > 0, x, y),
                lambda: x.index_add_(0, torch.tensor([0]), y[:1])):
        with pytest.raises(RuntimeError, match="same device|device"):
            use()
    assert (x + torch.tensor(2.0)).tolist() == [3, 3, 3]      # a CPU scalar is allowed, as everywhere in PyTorch


def test_shapes_and_dtypes():
    x = torch.ones(2, 3, device=device)
    with pytest.raises(RuntimeError, match="must match"):
        x + torch.ones(4, device=device)
    with pytest.raises(RuntimeError):
        x @ x
    with pytest.raises(RuntimeError, match="cast"):
        torch.ones(2, dtype=torch.int32, device=device).add_(1.5)
    with pytest.raises(IndexError):
        x[5]
    with pytest.raises(IndexError):
        x.sum(7)


def test_index_out_of_range_is_an_index_error_and_the_device_works_on():
    table = torch.arange(10.0).to(device)
    for bad in (10, -11, 1 << 40):
        with pytest.raises(IndexError, match="out of (bounds|range)"):
            table[torch.tensor([0, bad], device=device)].cpu()
        assert table.sum().item() == 45
    with pytest.raises((IndexError, RuntimeError), match="out of (bounds|range)"):
        torch.gather(table, 0, torch.tensor([3, 77], device=device)).tolist()
    assert table[torch.tensor([9, -1], device=device)].tolist() == [9, 9]
    with pytest.raises(IndexError):
        table[torch.tensor([99], device=device)]
        torch.ocl.synchronize()


def test_out_of_memory_inside_an_operator_keeps_its_type():
    total = torch.ocl.get_device_properties(0).total_memory
    torch.ocl.empty_cache()
    x = torch.ones(8 << 20, device=device)
    torch.ocl.set_per_process_memory_fraction((torch.ocl.memory_reserved() + (4 << 20)) / total)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            x + 1
    finally:
        torch.ocl.set_per_process_memory_fraction(1.0)
    assert (x + 1)[0].item() == 2


def test_host_access_to_device_memory_is_refused_or_faults_but_never_silent():
    x = torch.ones(3, device=device)
    with pytest.raises((TypeError, RuntimeError)):
        memoryview(x.numpy())
    with pytest.raises(RuntimeError):
        torch.ones(3).set_(x)


def test_bad_stream():
    with pytest.raises(RuntimeError, match="stream"):
        torch.ocl.set_stream(torch.ocl.Stream(stream_id=1000, device_index=0,
                                              device_type=torch.ocl.current_stream().device_type))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_integers_divided_by_zero(dtype):
    x, zero = torch.tensor([7, 0, 5], dtype=dtype), torch.tensor([2, 0, 3], dtype=dtype)
    own, divisors = x.to(device), zero.to(device)
    for divide in (torch.remainder, torch.fmod, torch.floor_divide, lambda a, b: a % b, lambda a, b: a // b,
                   lambda a, b: torch.div(a, b, rounding_mode="trunc"), lambda a, b: a.clone().floor_divide_(b),
                   lambda a, b: torch.div(a, b, rounding_mode="floor")):
        for a, b, own_a, own_b in ((x, zero, own, divisors), (x, 0, own, 0)):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                divide(a, b)
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                divide(own_a, own_b).cpu()
        assert torch.equal(divide(own, divisors.clamp(min=2)).cpu(), divide(x, zero.clamp(min=2)))
        assert torch.equal(divide(own, 3).cpu(), divide(x, 3))
        assert divide(own[:0], divisors[:0]).shape == divide(own[:0], 0).shape == (0,)
        torch.testing.assert_close(divide(own.float(), divisors.float()).cpu(), divide(x.float(), zero.float()),
                                   equal_nan=True)


def test_probabilities_outside_of_0_and_1():
    for p in (1.5, -0.1, float("nan")):
        with pytest.raises(RuntimeError, match="p <= 1"):
            torch.bernoulli(torch.tensor([0.5, p], device=device)).cpu()
        with pytest.raises(RuntimeError):
            torch.bernoulli(torch.tensor([0.5, p]))
    assert torch.bernoulli(torch.tensor([0.0, 1.0], device=device)).tolist() == [0, 1]


def test_host_functions_of_weights_and_masks():
    weight = torch.tensor([[1e6, -1e6], [1.0, float("nan")]])
    own = weight.to(device)
    torch.testing.assert_close(torch._saturate_weight_to_fp16(own).cpu(), torch._saturate_weight_to_fp16(weight),
                               equal_nan=True)
    torch.testing.assert_close(own.cpu(), weight, equal_nan=True)
    mask = torch.tensor([True, False, True])
    for dtype in (torch.bool, torch.int32, torch.float32):
        gradient = torch.ones(3, dtype=dtype)
        expected = torch.ops.aten.native_dropout_backward(gradient, mask, 2.0)
        actual = torch.ops.aten.native_dropout_backward(gradient.to(device), mask.to(device), 2.0).cpu()
        assert actual.dtype == expected.dtype and torch.equal(actual, expected)
