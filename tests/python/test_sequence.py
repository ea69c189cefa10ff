"""arange, linspace, eye, triangles, flips and rolls against PyTorch on the CPU."""
import pytest
import torch

from comparison import FLOATS, INTEGERS, device


def check(function, *tensors):
    expected = function("cpu", *tensors)
    actual = function(device, *(t.to(device) for t in tensors))
    assert actual.device.type == "ocl" and actual.dtype == expected.dtype
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_arange_and_linspace(dtype):
    check(lambda d: torch.arange(3, 90, 7, dtype=dtype, device=d))
    check(lambda d: torch.arange(90, 3, -7, dtype=dtype, device=d))
    check(lambda d: torch.arange(0, dtype=dtype, device=d))
    check(lambda d: torch.linspace(0, 100, 37, dtype=dtype, device=d))
    check(lambda d: torch.linspace(7, 3, 5, dtype=dtype, device=d))
    check(lambda d: torch.linspace(7, 3, 1, dtype=dtype, device=d))
    check(lambda d: torch.logspace(0, 2, 9, dtype=dtype, device=d))
    if not dtype.is_floating_point:   # powers that are integers are not cut to the one below
        check(lambda d: torch.logspace(0, 4, 5, base=3, dtype=dtype, device=d))
        check(lambda d: torch.logspace(0, 6, 7, base=2, dtype=dtype, out=torch.zeros(14, dtype=dtype, device=d)[::2]))
    check(lambda d: torch.logspace(4.9, 4, 2, base=2.5, dtype=dtype, device=d))   # integers of whole exponents
    check(lambda d: torch.logspace(4.9, 4, 1, base=2.5, dtype=dtype, device=d))


def test_sequences_with_fractions():
    check(lambda d: torch.arange(0.5, 100, 0.1, device=d))
    check(lambda d: torch.arange(-1, 1, 1e-3, dtype=torch.float64, device=d))
    check(lambda d: torch.arange(2**40, 2**40 + 1000, 3, device=d))
    check(lambda d: torch.linspace(-3, 3, 10001, device=d))
    check(lambda d: torch.linspace(-3, 3, 1001, dtype=torch.float64, device=d))
    check(lambda d: torch.linspace(1 + 2j, 3 - 1j, 9, device=d))
    check(lambda d: torch.arange(12, device=d, out=torch.empty(24, dtype=torch.int64, device=d)[::2]))
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        torch.arange(3, 0, device=device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64])
def test_eye(dtype):
    for shape in ((5,), (3, 7), (7, 3), (0, 4)):
        check(lambda d: torch.eye(*shape, dtype=dtype, device=d))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.complex128, torch.bool])
@pytest.mark.parametrize("diagonal", [-9, -2, 0, 1, 9])
def test_triangles(dtype, diagonal):
    x = (torch.randn(3, 5, 7) * 5).to(dtype)
    for function in (torch.tril, torch.triu):
        check(lambda d, x: function(x, diagonal), x)
        check(lambda d, x: function(x.transpose(0, 2)[1:], diagonal), x)
        check(lambda d, x: getattr(x.clone(), function.__name__ + "_")(diagonal), x)
    check(lambda d: torch.tril_indices(4, 5, diagonal, device=d))
    check(lambda d: torch.triu_indices(4, 5, diagonal, device=d))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8, torch.bool, torch.complex128])
def test_flip_and_roll(dtype):
    x = (torch.randn(3, 4, 8) * 5).to(dtype)
    for dims in ([0], [2], [0, 1], [0, 1, 2], [], [-1]):
        check(lambda d, x: x.flip(dims), x)
        check(lambda d, x: x.transpose(0, 2)[1:].flip(dims), x)
    check(lambda d, x: x.roll(3), x)
    check(lambda d, x: x.roll((1, -2), (0, 2)), x)
    check(lambda d, x: x.repeat(2, 1, 3), x)
    check(lambda d, x: torch.rot90(x), x)
    check(lambda d, x: x.flip(0), torch.empty(0, 3, dtype=dtype))


def test_padding_and_splitting():
    x = torch.randn(2, 3, 4, 5)
    check(lambda d, x: torch.nn.functional.pad(x, (1, 2, 0, 3), value=7.0), x)
    check(lambda d, x: torch.nn.functional.pad(x, (-1, 2)), x)
    check(lambda d, x: torch.nn.functional.pad(x.to(memory_format=torch.channels_last), (1, 1, 1, 1)), x)
    check(lambda d, x: torch.cat(x.split([1, 2], 1)[::-1], 1), x)
    check(lambda d, x: x.chunk(3, 1)[2], x)
    check(lambda d, x: torch.diag_embed(x[0, 0]), x)
    check(lambda d, x: torch.nn.functional.one_hot(x[0, 0].argsort(-1), 6), x)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.bool, torch.complex64, torch.complex128])
@pytest.mark.parametrize("diagonal", (-3, 0, 20))
def test_triangles_of_every_layout(dtype, diagonal):
    for shape in ((3, 70), (2, 3, 33, 17), (4, 5, 1), (1, 130)):
        x = (torch.randn(shape) * 20).to(dtype)
        gaps = torch.zeros(*shape[:-1], 2 * shape[-1], dtype=dtype)[..., ::2].copy_(x)
        for laid in (x, x.mT.contiguous().mT, gaps, x[:1].expand(3, *shape[1:])):
            for function in (torch.tril, torch.triu):
                check(lambda d, t: function(t, diagonal), laid)
        check(lambda d, t: t.clone().tril_(diagonal), x)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.int64, torch.int32))
@pytest.mark.parametrize("count", (1, 15, 16, 17, 1000, 5001))
def test_long_sequences(dtype, count):
    check(lambda d: torch.arange(5, 5 + 3 * count, 3, dtype=dtype, device=d))
    check(lambda d: torch.linspace(-9, 5 * count, count, dtype=dtype, device=d))
    check(lambda d: torch.arange(count, out=torch.empty(count, 2, dtype=dtype, device=d)[:, 0]))
