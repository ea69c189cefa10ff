"""Copies: every dtype to every dtype, every layout, across devices, with lazy bits; fills; reading scalars."""

import itertools

import pytest
import torch

from comparison import device

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
DTYPES = FLOATS + INTEGERS + [torch.bool] + COMPLEX


def has_fp64():
    return torch.ocl.get_device_properties(0).fp64


def needs_fp64(*dtypes):
    if not has_fp64() and any(d in (torch.float64, torch.complex128) for d in dtypes):
        pytest.skip("the device has no float64")


def values(dtype, *shape, low=0):
    """Values that every dtype can hold."""
    n = torch.Size(shape).numel()
    x = (torch.arange(n, dtype=torch.float64) * 7 % 101 + low).reshape(shape)
    if dtype.is_complex:
        return torch.complex(x, x.flip(0) - 3).to(dtype)
    return x.to(dtype)


def same(actual, expected):
    assert actual.device == expected.device and actual.dtype == expected.dtype and actual.shape == expected.shape
    if actual.dtype == torch.complex32:
        actual, expected = torch.view_as_real(actual), torch.view_as_real(expected)
    if actual.dtype in (torch.uint16, torch.uint32, torch.uint64):
        actual, expected = actual.to(torch.int64), expected.to(torch.int64)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_conversions(source):
    x = values(source, 5, 7)
    x_there = x.to(device)
    same(x_there.cpu(), x)
    usual = {torch.float32, torch.int64, torch.float16}
    for target in DTYPES:
        # Every dtype from and to the usual ones; all pairs would build 240 programs.
        if not {source, target} & usual and source.itemsize != target.itemsize:
            continue
        if {source, target} & {torch.float64, torch.complex128} and not has_fp64():
            continue
        expected = x.to(target)
        same(x_there.to(target).cpu(), expected)                      # contiguous
        same(x_there.t()[1:, ::2].to(target).cpu(), x.t()[1:, ::2].to(target))
        same(x.to(device, target).cpu(), expected)                    # converted on the way to the device
        same(x_there.to("cpu", target), expected)                     # and back


def test_conversion_of_special_values():
    x = torch.tensor([0.0, -0.0, 1.5, -1.5, 2.5, -0.5, 65504.0, 65520.0, 1e-8, 3e-5, 1e30, float("inf"), -float("inf"),
                      float("nan")])
    for dtype in (torch.float16, torch.bfloat16, torch.bool, torch.complex64):
        same(x.to(device).to(dtype).cpu(), x.to(dtype))
    finite = torch.tensor([-1.7, -0.4, 0.6, 1.5, 127.9, 200.3, 255.0])
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        same(finite.to(device).to(dtype).cpu(), finite.to(dtype))
    large = torch.tensor([2**31 - 1, -(2**31), 2**53 + 1, -1, 2**24 + 1])
    for dtype in (torch.float32, torch.int32, torch.uint8, torch.float16, torch.bfloat16, torch.bool):
        same(large.to(device).to(dtype).cpu(), large.to(dtype))
    halves = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(torch.float16)   # every float16
    same(halves.to(device).float().cpu(), halves.float())
    same(halves.to(device).float().half().cpu().nan_to_num(7), halves.float().half().nan_to_num(7))


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1),
    "sliced": lambda x: x[..., 1::2],
    "reversed axes": lambda x: x.permute(*reversed(range(x.dim()))),
    "offset": lambda x: x[1:],
    "expanded": lambda x: x[:1].expand(x.shape),
    "column": lambda x: x[..., :1],
}


@pytest.mark.parametrize("shape", [(6, 10), (3, 4, 5), (2, 3, 4, 5), (2, 3, 2, 3, 2, 3), (40, 33), (2, 70, 65)],
                         ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.int16, torch.complex64], ids=str)
def test_layouts(shape, dtype):
    x = values(dtype, *shape)
    there = x.to(device)
    for name, view in LAYOUTS.items():
        same(view(there).contiguous().cpu(), view(x))
        same(view(there).cpu(), view(x))
        same(view(x).to(device).cpu(), view(x))
    for a, b in itertools.product(LAYOUTS, LAYOUTS):
        if b == "expanded":
            continue
        to, to_there = x.clone(), x.to(device)
        source = LAYOUTS[a](x + 1)
        target = LAYOUTS[b](to)
        if source.numel() != target.numel():
            continue
        source = source.reshape(target.shape)
        target.copy_(source)
        LAYOUTS[b](to_there).copy_(source.to(device))
        same(to_there.cpu(), to)
        to_there = x.to(device)
        LAYOUTS[b](to_there).copy_(source)          # from the host straight into a strided target
        same(to_there.cpu(), to)
        back = x.clone()
        LAYOUTS[b](back).copy_(source.to(device))   # and back into a strided one
        same(back, to)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_short_runs(dtype):
    """Rows of every length around those of vectors, apart and overlapping, from and to any offset."""
    needs_fp64(dtype)
    x = values(dtype, 9, 300)
    d = x.to(device)
    for length in [*range(1, 36), 40, 63, 64, 65, 100, 127, 128, 129, 257]:
        for start, step in ((0, length), (3, length // 2 + 1)):
            same(d[:, start:].unfold(1, length, step).contiguous().cpu(),
                 x[:, start:].unfold(1, length, step).contiguous())
        target = torch.zeros(9, length + 5).to(dtype)
        on_device = target.to(device)
        target[1:, 2:length + 2] = x[1:, 1:length + 1]
        on_device[1:, 2:length + 2] = d[1:, 1:length + 1]
        same(on_device.cpu(), target)


def test_memory_formats():
    x = values(torch.float32, 2, 5, 6, 7)
    there = x.to(device)
    last = there.contiguous(memory_format=torch.channels_last)
    assert last.stride() == (210, 1, 35, 5) and last.is_contiguous(memory_format=torch.channels_last)
    same(last.cpu(), x)
    same(last.contiguous().cpu(), x)
    assert last.cpu().stride() == last.stride() and last.cpu().to(device).stride() == last.stride()
    assert last.clone().stride() == last.stride() and torch.empty_like(last).stride() == last.stride()
    assert last.half().stride() == last.stride()
    volume = values(torch.float32, 2, 3, 4, 5, 6).to(device)
    same(volume.contiguous(memory_format=torch.channels_last_3d).cpu(), volume.cpu())


def test_broadcast_scalar_and_empty():
    x = torch.zeros(3, 4, device=device)
    x.copy_(torch.arange(4.0))
    same(x.cpu(), torch.arange(4.0).expand(3, 4))
    x.copy_(torch.tensor(5.0, device=device))
    same(x.cpu(), torch.full((3, 4), 5.0))
    x[1] = torch.arange(4.0, device=device)
    x[:, 2] = 9
    same(x.cpu(), torch.tensor([[5.0, 5, 9, 5], [0, 1, 9, 3], [5, 5, 9, 5]]))
    with pytest.raises(RuntimeError):
        x.copy_(torch.ones(5))
    with pytest.raises(RuntimeError):
        torch.empty(0, device=device).copy_(torch.ones(5, device=device))
    for shape in [(0,), (0, 3), (3, 0, 2)]:
        e = torch.empty(shape, device=device)
        assert e.cpu().shape == shape and e.to(torch.int8).shape == shape and e.clone().shape == shape
        e.copy_(torch.empty(shape))
        e.fill_(3)
        e.zero_()
    scalar = torch.tensor(2.5, device=device)
    same(scalar.clone().cpu(), torch.tensor(2.5))


def test_many_axes():
    shape = (2, 1, 3, 2, 2, 2, 1, 2, 2, 2, 2)
    x = values(torch.float32, *shape)
    order = [10, 1, 8, 3, 6, 5, 4, 7, 2, 9, 0]
    same(x.to(device).permute(order).contiguous().cpu(), x.permute(order).contiguous())
    y = torch.zeros(shape, device=device).permute(order)
    y.fill_(3)
    assert (y.cpu() == 3).all()


def test_conjugate_and_negative_bits():
    x = values(torch.complex64, 4, 5)
    there = x.to(device)
    same(there.conj().cpu(), x.conj().resolve_conj())
    same(there.conj().clone().cpu().resolve_conj(), x.conj().resolve_conj())
    same(there.conj().resolve_conj().cpu(), x.conj().resolve_conj())
    same(there.conj().imag.cpu().resolve_neg(), x.conj().imag.resolve_neg())
    same(there.conj().imag.resolve_neg().cpu(), x.conj().imag.resolve_neg())
    same(there.conj().imag.clone().cpu().resolve_neg(), x.conj().imag.resolve_neg())
    same(x.conj().to(device).cpu().resolve_conj(), x.conj().resolve_conj())
    target = torch.zeros(4, 5, dtype=torch.complex64, device=device)
    target.conj().copy_(there)
    same(target.cpu(), x.conj().resolve_conj())
    target.conj().copy_(x)                       # host to conjugated device tensor
    same(target.cpu(), x.conj().resolve_conj())
    target.conj().copy_(there.conj())
    same(target.cpu(), x)
    host = torch.zeros(4, 5, dtype=torch.complex64)
    host.conj().copy_(there)
    same(host, x.conj().resolve_conj())
    same(there.conj().to(torch.complex32).cpu().resolve_conj(), x.conj().resolve_conj().to(torch.complex32))
    same(there[0, 0].conj().cpu(), x[0, 0].conj().resolve_conj())
    assert there[1, 2].conj().item() == x[1, 2].conj().item()
    same(there.real.cpu(), x.real.clone())


def test_views():
    x = values(torch.float32, 4, 6)
    there = x.to(device)
    assert there.view(3, 8).data_ptr() == there.data_ptr()
    assert there[1].data_ptr() == there.data_ptr() + 24
    same(there.view(3, 8).cpu(), x.view(3, 8))
    same(there.reshape(2, 12).cpu(), x.reshape(2, 12))
    same(there.t().reshape(24).cpu(), x.t().reshape(24))
    same(there.as_strided((2, 2), (7, 3), 2).cpu(), x.as_strided((2, 2), (7, 3), 2))
    same(there.unfold(1, 3, 2).cpu(), x.unfold(1, 3, 2))
    same(there.diagonal().cpu(), x.diagonal())
    same(there.view(torch.int32).cpu(), x.view(torch.int32))
    same(there.view(torch.int16).cpu(), x.view(torch.int16))
    c = values(torch.complex64, 3, 2)
    same(torch.view_as_real(c.to(device)).cpu(), torch.view_as_real(c))
    same(torch.view_as_complex(torch.view_as_real(c.to(device))).cpu(), c)
    same(there.select(1, 2).narrow(0, 1, 2).cpu(), x.select(1, 2).narrow(0, 1, 2))
    for a, b in zip(there.split(2, 1), x.split(2, 1)):
        same(a.cpu(), b)
    there.view(-1)[3:5].fill_(100)
    x.view(-1)[3:5].fill_(100)
    same(there.cpu(), x)
    with pytest.raises(RuntimeError):
        there.t().view(24)
    same(torch.ops.aten.alias(there.detach()).cpu(), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fill_and_zero(dtype):
    x = values(dtype, 6, 7)
    there = x.to(device)
    there.fill_(3)
    same(there.cpu(), torch.full_like(x, 3))
    for view in (lambda t: t[1:, ::2], lambda t: t.t()[2], lambda t: t[3], lambda t: t[:, 1]):
        expected, actual = x.clone(), x.to(device)
        view(expected).fill_(1)
        view(actual).fill_(1)
        same(actual.cpu(), expected)
        view(expected).zero_()
        view(actual).zero_()
        same(actual.cpu(), expected)
    same(torch.zeros(5, dtype=dtype, device=device).cpu(), torch.zeros(5, dtype=dtype))
    same(torch.full((2, 3), 1, dtype=dtype, device=device).cpu(), torch.full((2, 3), 1, dtype=dtype))


def test_fill_values_and_errors():
    for dtype, value in [(torch.float16, 65504.0), (torch.float16, 6e-8), (torch.bfloat16, 1 / 3),
                         (torch.int64, 2**62 + 1), (torch.complex64, 1 + 2j), (torch.float32, float("nan")),
                         (torch.float16, float("inf"))]:
        same(torch.empty(3, dtype=dtype, device=device).fill_(value).cpu(), torch.empty(3, dtype=dtype).fill_(value))
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(2, dtype=torch.uint8, device=device).fill_(1000)
    with pytest.raises(RuntimeError, match="0-dimension"):
        torch.zeros(2, device=device).fill_(torch.ones(2))
    x = torch.zeros(2, device=device)
    x.fill_(torch.tensor(4.0))
    x[1:].fill_(torch.tensor(5, device=device))
    assert x.tolist() == [4, 5]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != torch.complex32], ids=str)
def test_item_and_tolist(dtype):
    x = values(dtype, 3, 4)
    assert x.to(device)[1, 2].item() == x[1, 2].item()
    if dtype != torch.bfloat16:
        assert x.to(device).tolist() == x.tolist()
    with pytest.raises(RuntimeError):
        x.to(device).item()


def test_overlap_is_an_error():
    x = torch.arange(6.0, device=device)
    with pytest.raises(RuntimeError, match="overlap|single memory location"):
        x[1:].copy_(x[:-1])
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:1].expand(6).copy_(torch.ones(6, device=device))


def test_resize_and_set():
    x = torch.arange(6.0).to(device)
    x.resize_(2, 5)
    same(x.flatten()[:6].cpu(), torch.arange(6.0))
    assert x.shape == (2, 5)
    x.resize_(3)
    same(x.cpu(), torch.arange(3.0))
    y = torch.empty(0, device=device)
    y.set_(x)
    assert y.data_ptr() == x.data_ptr() and y.shape == (3,)
    y.set_(x.untyped_storage(), 1, (2,), (1,))
    same(y.cpu(), torch.arange(1.0, 3.0))
    y.set_()
    assert y.numel() == 0
    y.resize_(4).fill_(2)
    assert y.tolist() == [2, 2, 2, 2]
    z = torch.empty(2, 3, 4, 5, device=device).resize_(2, 6, 4, 5, memory_format=torch.channels_last)
    assert z.is_contiguous(memory_format=torch.channels_last)
    storage = torch.arange(4.0).to(device).untyped_storage()
    storage.resize_(64)
    assert storage.nbytes() == 64
    same(torch.empty(0, device=device).set_(storage)[:4].cpu(), torch.arange(4.0))
    assert x.is_set_to(x) and not x.is_set_to(y)


@pytest.mark.parametrize("shape,dim,size,step", [((7, 5), 0, 3, 2), ((7, 5), -1, 2, 1), ((2, 9, 3), 1, 4, 4),
                                                 ((6,), 0, 6, 1)])
def test_gradient_of_unfold(shape, dim, size, step):
    x = torch.randn(shape)
    weight = torch.randn_like(x.unfold(dim, size, step))
    grads = []
    for where in ("cpu", device):
        leaf = x.clone().to(where).requires_grad_()
        (leaf.unfold(dim, size, step) * weight.to(where)).sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0])


def test_deterministic_algorithms_fill_new_memory():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3, device=device).isnan().all()
        assert (torch.empty_strided((2, 2), (1, 2), dtype=torch.int16,
                                    device=device) == torch.iinfo(torch.int16).max).all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_large_transfers():
    x = torch.arange(9_000_000, dtype=torch.float32)   # beyond the staging buffers
    there = x.to(device)
    assert torch.equal(there.cpu(), x)
    assert torch.equal(there.view(3000, 3000).t().contiguous().cpu(), x.view(3000, 3000).t())


def test_float64_without_fp64_is_an_error_before_launch():
    if has_fp64():
        pytest.skip("the device has float64")
    x = torch.ones(3, dtype=torch.float64).to(device)
    assert torch.equal(x.cpu(), torch.ones(3, dtype=torch.float64))
    with pytest.raises(NotImplementedError, match="float64"):
        x.float()


# A work-item of a CPU moves several blocks of few elements, the last one what is left of them.
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("shape, times", [((1003, 4), 3), ((3001, 64), 4), ((517, 9), 2), ((5, 401, 17), 3)], ids=str)
def test_many_short_blocks(shape, times, dtype):
    x = values(dtype, *shape)
    x_there = x.to(device)
    same(x_there.repeat_interleave(times, -2).cpu(), x.repeat_interleave(times, -2))
    same(x_there.unsqueeze(-2).expand(*shape[:-1], times, shape[-1]).contiguous().cpu(), x.repeat_interleave(times, -2)
         .view(*shape[:-1], times, shape[-1]))
    same(x_there.unsqueeze(-2).expand(*shape[:-1], times, shape[-1]).float().cpu(),
         x.unsqueeze(-2).expand(*shape[:-1], times, shape[-1]).float())
    wide = torch.zeros(*shape[:-1], times, shape[-1] + 1, dtype=dtype, device=device)
    wide[..., 1:] = x_there.unsqueeze(-2)
    expected = torch.zeros(*shape[:-1], times, shape[-1] + 1, dtype=dtype)
    expected[..., 1:] = x.unsqueeze(-2)
    same(wide.cpu(), expected)


# CPUs fill long rows one by one, and pieces of very long ones.
@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float32, torch.int64, torch.complex128])
def test_fills_of_rows(dtype):
    for shape, part in (((5, 40), (slice(None), slice(1, None, 2))), ((3, 33000), (slice(1, 3), slice(0, 32770))),
                        ((4, 6, 3, 37), (slice(1, 3), slice(None, None, 2), slice(None), slice(2, 30))),
                        ((40000,), (slice(1, None, 2),)), ((7, 50), (slice(None), slice(3, 6)))):
        want = torch.zeros(shape, dtype=dtype)
        got = want.to(device)
        want[part].fill_(3)
        got[part].fill_(3)
        assert torch.equal(got.cpu(), want)
