"""Numbers that become an operator's dtype: the CPU's result, or its type of exception where they do not fit."""
import pytest
import torch

from comparison import device

NUMBERS = [1, 0, -1, 2.5, True, 1j, 2 + 0j, float("nan"), float("inf"), 2**40, -300]
DTYPES = [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float32, torch.complex64]


def of(dtype, *shape):
    values = torch.arange(torch.Size(shape).numel()).reshape(shape) % 3
    return values.to(dtype)


def outcome(function, on, *operands):
    try:
        return function(*(x.to(on) for x in operands)).cpu()
    except Exception as error:   # its type is what is compared
        return type(error)


def compare(function, *operands):
    expected, found = outcome(function, "cpu", *operands), outcome(function, device, *operands)
    if isinstance(expected, type) or isinstance(found, type):
        assert found == expected
    else:
        torch.testing.assert_close(found, expected, equal_nan=True)


NUMBERED = {
    "add": (lambda n, x: torch.add(x, x, alpha=n), (3, 4)),
    "sub": (lambda n, x: torch.sub(x, x, alpha=n), (3, 4)),
    "addcmul": (lambda n, x: torch.addcmul(x, x, x, value=n), (3, 4)),
    "clamp": (lambda n, x: torch.clamp(x, min=n), (3, 4)),
    "clamp_max": (lambda n, x: torch.clamp_max(x, n), (3, 4)),
    "threshold": (lambda n, x: torch.nn.functional.threshold(x, n, 1), (3, 4)),
    "pow": (lambda n, x: torch.pow(x, n), (3, 4)),
    "masked_fill": (lambda n, x: torch.masked_fill(x, x == 1, n), (3, 4)),
    "index_fill": (lambda n, x: torch.index_fill(x, 0, torch.tensor([2, 0], device=x.device), n), (3, 4)),
    "index_add": (lambda n, x: torch.index_add(x, 0, torch.tensor([2, 0], device=x.device), x[:2], alpha=n), (3, 4)),
    "addr": (lambda n, x: torch.addr(x, x[0], x[1], alpha=n), (3, 3)),
}
# The device's clamp has NaN where a bound is NaN, as documented. The CPU of PyTorch 2.11 takes that for no bound.
NAN_IS_A_BOUND = bool(torch.ones(1).clamp(min=float("nan")).isnan())
PRODUCTS = {   # an infinite alpha is multiplied with the sum here, with each product on the CPU
    "addmm": (lambda n, x: torch.addmm(x, x, x, alpha=n), (3, 3)),
    "addmv": (lambda n, x: torch.addmv(x[0], x, x[1], beta=n), (3, 3)),
    "baddbmm": (lambda n, x: torch.baddbmm(x[None], x[None], x[None], alpha=n), (3, 3)),
    "addmm_activation": (lambda n, x: torch._addmm_activation(x, x, x, alpha=n), (3, 3)),
    "addmm_gelu": (lambda n, x: torch._addmm_activation(x, x, x, alpha=n, use_gelu=True), (3, 3)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NUMBERED)
def test_numbers_of_pointwise_and_indexing_operators(name, dtype):
    function, shape = NUMBERED[name]
    for number in NUMBERS:
        if name != "clamp" or number == number or NAN_IS_A_BOUND:
            compare(lambda x: function(number, x), of(dtype, *shape))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_numbers_of_products(name, dtype):
    function, shape = PRODUCTS[name]
    for number in NUMBERS:
        if number != float("inf") or not (dtype.is_floating_point or dtype.is_complex):
            compare(lambda x: function(number, x), of(dtype, *shape))


@pytest.mark.parametrize("reduce", ["prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64, torch.int16], ids=str)
def test_reductions_through_an_index(dtype, reduce):
    index = torch.tensor([2, 0, 2])
    compare(lambda x, i: torch.index_reduce(x, 0, i, x.flip(0)[:3], reduce), of(dtype, 5, 4), index)
    compare(lambda x, i: torch.scatter_reduce(x, 0, i[:, None], x.flip(0)[:3], reduce), of(dtype, 5, 4), index)


def test_filled_indices_are_long():
    compare(lambda x, i: torch.index_fill(x, 0, i, 1), of(torch.float32, 3, 4), torch.tensor([1], dtype=torch.int32))
