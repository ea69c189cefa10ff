"""Numbers of eight bits: conversions with the bits of PyTorch's CPU, and the operators that move or compare them."""

import io

import pytest
import torch

from comparison import device

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
OTHERS = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8,
          torch.uint8,
          torch.bool, torch.complex64, *FLOAT8]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]


def codes():
    return torch.arange(256, dtype=torch.uint8)


def bits(tensor):
    return tensor.cpu().view(torch.uint8)


def same_numbers(got, want):
    assert got.dtype == want.dtype
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_code_to_float(dtype):
    x = codes().view(dtype)
    got, want = x.to(device).float().cpu(), x.float()
    number = ~want.isnan()
    assert torch.equal(got.isnan(), ~number)
    assert torch.equal(got[number].view(torch.int32), want[number].view(torch.int32))   # -0 is not 0


@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_float16_and_bfloat16_to_codes(dtype):
    every = torch.arange(-2**15, 2**15, dtype=torch.int32).to(torch.int16)
    for source in (torch.float16, torch.bfloat16):
        x = every.view(source)
        assert torch.equal(bits(x.to(device).to(dtype)), bits(x.to(dtype)))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_float32_to_codes(dtype):
    """Every 2^12-th float32, and those next to each half-way point between two codes."""
    generator = torch.Generator().manual_seed(0)
    spread = torch.arange(-2**31, 2**31, 2**12, dtype=torch.int64) + torch.randint(2**12, (2**20,), generator=generator)
    numbers = codes().view(dtype).float()
    numbers = numbers[numbers.isfinite()].sort().values
    middle = ((numbers[1:].double() + numbers[:-1].double()) / 2).float().view(torch.int32).long()
    edges = torch.cat([middle + step for step in (-2, -1, 0, 1, 2)])
    x = torch.cat([spread, edges]).to(torch.int32).view(torch.float32)
    assert torch.equal(bits(x.to(device).to(dtype)), bits(x.to(dtype)))


@pytest.mark.parametrize("source", FLOAT8)
@pytest.mark.parametrize("target", OTHERS)
def test_conversions_between_types(source, target):
    x = torch.tensor([0, 1, 2, 3.5, 0.25, 16, 100], dtype=torch.float32).to(source)
    if target in FLOAT8:
        assert torch.equal(bits(x.to(device).to(target)), bits(x.to(target)))
    else:
        same_numbers(x.to(device).to(target), x.to(target))
    numbers = x.to(target)
    assert torch.equal(bits(numbers.to(device).to(source)), bits(numbers.to(source)))
    assert torch.equal(bits(numbers.to(device, source)), bits(numbers.to(source)))       # in one call, either way
    if target not in FLOAT8:
        same_numbers(x.to(device).to("cpu", target), x.to(target))


@pytest.mark.parametrize("dtype", [*FLOAT8, *UNSIGNED])
def test_operators_that_move(dtype):
    x = torch.arange(24).reshape(4, 6).float().to(dtype)
    y, index = x.to(device), torch.tensor([2, 0, 0])
    i = index.to(device)
    mask = torch.tensor([True, False, True, False])
    pairs = [
        (y, x), (y.clone(), x), (y[1:, ::2], x[1:, ::2]), (y[1:, ::2].contiguous(), x[1:, ::2]),
        (y.t().contiguous(), x.t()),
        (y[i], x[index]), (y[i, i], x[index, index]), (y[mask.to(device)], x[mask]), (y[-1], x[-1]),
        (y.index_select(1, i), x.index_select(1, index)), (torch.cat([y, y], 1), torch.cat([x, x], 1)),
        (torch.stack([y, y]), torch.stack([x, x])), (y.flip(0), x.flip(0)), (y.roll(1), x.roll(1)),
        (y.repeat(2, 1), x.repeat(2, 1)), (y.reshape(3, 8), x.reshape(3, 8)),
        (torch.nn.functional.embedding(i, y), torch.nn.functional.embedding(index, x)),
    ]
    for got, want in pairs:
        assert got.device.type == "ocl" and got.dtype == dtype and got.shape == want.shape
        assert torch.equal(bits(got.contiguous()), bits(want.contiguous()))


@pytest.mark.parametrize("dtype", [*FLOAT8, *UNSIGNED])
def test_creation_and_filling(dtype):
    one = torch.ones(3, dtype=dtype)
    assert torch.equal(bits(torch.ones(3, dtype=dtype, device=device)), bits(one))
    assert torch.equal(bits(torch.zeros(3, dtype=dtype, device=device)), bits(torch.zeros(3, dtype=dtype)))
    assert torch.equal(bits(torch.full((3,), 4.0, dtype=dtype, device=device)),
                       bits(torch.full((3,), 4.0, dtype=dtype)))
    x, y = torch.zeros(3, 4, dtype=dtype), torch.zeros(3, 4, dtype=dtype, device=device)
    for t in (x, y):
        t.fill_(2)
        t[1] = 4
        t[:, 2] = t[:, 0]
        if dtype in FLOAT8[:4]:   # others PyTorch's CPU does not put through an index
            t[torch.tensor([0], device=t.device)] = torch.ones(1, 4, dtype=dtype, device=t.device)
    assert torch.equal(bits(y), bits(x))
    assert torch.tensor([1, 2, 8], dtype=dtype, device=device).tolist() == [1, 2, 8]
    assert y[1, 0].item() == 4
    assert repr(y.cpu()) in repr(y).replace(", device='ocl:0'", "").replace("device='ocl:0', ", "")


@pytest.mark.parametrize("dtype", [*FLOAT8, *UNSIGNED])
def test_comparisons(dtype):
    x = torch.tensor([0, 1, 2, 4, 8], dtype=torch.float32).to(dtype)
    z = torch.tensor([0, 2, 2, 4, 1], dtype=torch.float32).to(dtype)
    assert torch.equal((x.to(device) == z.to(device)).cpu(), x == z)
    assert torch.equal((x.to(device) != z.to(device)).cpu(), x != z)
    assert torch.equal((x.to(device) == 4).cpu(), x == 4)
    assert not x.to(device).isnan().any().item()
    assert x.to(device).any().item() and x.to(device).all().item() == x.all().item()
    choice = torch.tensor([True, False, True, False, True])
    got = torch.where(choice.to(device), x.to(device), z.to(device))
    whole = choice.repeat_interleave(dtype.itemsize)      # PyTorch 2.11's CPU chooses among no unsigned integers
    assert torch.equal(bits(got), torch.where(whole, bits(x), bits(z)))
    if dtype in FLOAT8:
        assert torch.equal(bits(x.to(device) * z.to(device)), bits(x * z))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_serialization(dtype):
    x = codes().view(dtype).to(device)
    stream = io.BytesIO()
    torch.save(x, stream)
    stream.seek(0)
    y = torch.load(stream)
    assert y.device.type == "ocl" and y.dtype == dtype and torch.equal(bits(y), codes())


def test_sums_are_refused_by_name():
    x = torch.ones(3, 2, device=device).to(torch.float8_e5m2)
    with pytest.raises(NotImplementedError, match="Float8_e5m2"):
        x.index_add_(0, torch.tensor([0], device=device), x[:1].clone())


@pytest.mark.parametrize("name", ["float4_e2m1fn_x2", "bits8", "bits16"])
def test_formats_without_numbers_move(name):
    """Their bytes are copied, moved and joined; nothing reads them as integers."""
    dtype = getattr(torch, name)
    codes = torch.arange(48, dtype=torch.uint8).reshape(4, 12)
    x, y = codes.view(dtype), codes.to(device).view(dtype)

    def same(got, want):
        assert got.device.type == "ocl" and got.dtype == dtype and got.shape == want.shape
        assert torch.equal(got.view(torch.uint8).cpu(), want.view(torch.uint8))

    same(x.to(device), x)
    assert torch.equal(y.cpu().view(torch.uint8), codes)
    same(y.clone(), x)
    same(y[1:, ::2].contiguous(), x[1:, ::2].contiguous())
    same(torch.empty_like(y).copy_(y), x)
    same(torch.cat([y, y[:1]]), torch.cat([x, x[:1]]))
    same(torch.zeros(3, 4, dtype=dtype, device=device), torch.zeros(3, 4, dtype=dtype))
    for refused in (lambda: y.to(torch.float32), lambda: y + y, lambda: y == y):
        with pytest.raises(NotImplementedError):
            refused()
