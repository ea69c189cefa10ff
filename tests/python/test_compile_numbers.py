"""torch.compile on the device: arithmetic and functions of every dtype, against the CPU and eager code."""

import pytest
import torch
import torch.nn.functional as F

from compiled import check, device

randn = torch.randn
integers = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
floats = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", floats)
def test_arithmetic_of_floating_point_numbers(dtype):
    def f(x, y):
        return (x + y * 2, x - y, x / (y.abs() + 1), x // y, x % y, torch.fmod(x, y), -x, x.abs(), x.floor(), x.ceil(),
                x.trunc(), x.round(), x.sign(), x > y, x <= y, torch.maximum(x, y), torch.minimum(x, y),
                x.clamp(-0.5, 0.5),
                torch.where(x > 0, x, y), x.to(torch.int32), x.isnan(), x.signbit(), x.square(), x.reciprocal())

    x, y = randn(50, 33), randn(50, 33)
    tolerances = {"rtol": 1.6e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {}
    # Fused code rounds once at the end, so quotients near whole numbers are compared in the wide types only.
    if dtype in (torch.float16, torch.bfloat16):
        check(lambda x, y: f(x, y)[:3] + f(x, y)[6:], x.to(dtype), y.to(dtype), **tolerances)
    else:
        check(f, x.to(dtype), y.to(dtype))


@pytest.mark.parametrize("number", (127.5, 3, 0.1, -7.0, 0.25, 0.0, float("inf")))
def test_quotients_by_a_number_are_those_of_eager_code(number):
    """Bit by bit: rounded afterwards, as by quantisation, neighbours would be far apart."""
    x = torch.randn(4096, generator=torch.Generator().manual_seed(11)).to(device)
    for function in (lambda x: x / number, lambda x: torch.div(x, torch.full_like(x, number))):
        torch._dynamo.reset()
        assert torch.equal(torch.compile(function)(x).nan_to_num(7), function(x).nan_to_num(7))


@pytest.mark.parametrize("dtype", integers)
def test_arithmetic_of_integers(dtype):
    def f(x, y):
        return (x + y, x * y, x - y, x // y, x % y, x & y, x | y, x ^ y, ~x, x << 1, x >> 1, x == y, x.float() / y, -x,
                x.abs(), x.sign(), torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y), x.clamp(3, 50), x.bool(),
                x.pow(2), torch.maximum(x, y))

    low = 0 if dtype == torch.uint8 else -100
    check(f, torch.randint(low, 100, (301,), dtype=dtype), torch.randint(1, 10, (301,), dtype=dtype))


@pytest.mark.parametrize("dtype", integers)
def test_numbers_out_of_range_wrap_when_they_become_integers(dtype):
    x = torch.tensor([-1.5, -300.7, 300.2, 70000.0, 1e5, 0.5, 127.9, 128.0, 255.9, 256.0])
    if dtype in (torch.int8, torch.uint8, torch.int16):
        x = torch.cat([x, torch.tensor([3e9, -3e9])])
    check(lambda x: ((x * 1).to(dtype), (x * 1).to(dtype) + 1), x)
    check(lambda x: (x * 1).to(dtype), x[:7].half())


def test_constants_that_are_the_same_when_rounded():
    check(lambda x: torch.logit(x, 0.2), torch.rand(50).half(), atol=2e-3, rtol=2e-3)
    check(lambda x: (x + 0.8) * 0.800000011920929, randn(50))


def test_integers_wrap():
    top = torch.iinfo(torch.int32).max
    check(lambda x: (x + 1, x * 2, -x - 2), torch.tensor([top, -top - 1, 5], dtype=torch.int32))
    top = torch.iinfo(torch.int64).max
    check(lambda x: (x + 1, x * 3, -x - 2), torch.tensor([top, -top - 1, 5]))


def test_booleans():
    check(lambda x, y: (x & y, x | y, x ^ y, ~x, x == y, x.long() + y, torch.where(x, 1.5, 2.5), torch.logical_not(x)),
          torch.rand(20, 30) > 0.5, torch.rand(20, 30) > 0.5)


def test_mixed_dtypes():
    check(lambda a, b, c, d: (a * b, b + c, c * 2.5, d * a, (a > b).float() + c, a.to(torch.float64) + 1, d + c),
          randn(40), torch.arange(40), torch.arange(40, dtype=torch.int8), randn(40).half())


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("name", ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin",
                                  "cos",
                                  "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
                                  "erf",
                                  "erfc", "erfinv", "lgamma", "digamma", "sigmoid", "special.i0", "special.i1e",
                                  "special.bessel_j0", "special.ndtri", "special.log_ndtr", "special.erfcx"))
def test_functions(name, dtype):
    function = getattr(torch.special, name.split(".")[1]) if "." in name else getattr(torch, name)
    x = torch.rand(200, dtype=dtype) * 0.9 + 0.05
    check(lambda x: function(x + 1 if name == "acosh" else x), x)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_sines_and_cosines_of_sines_and_cosines(dtype):
    """Intel's compiler for CPUs ended the process where it made one call of such a pair."""
    x = torch.linspace(-90, 90, 301, dtype=dtype).requires_grad_()
    check(lambda x: torch.sin(torch.cos(x)), x)
    check(lambda x: torch.sin(torch.sin(x)) + torch.cos(torch.sin(x)) * torch.cos(x), x)


def test_functions_of_two_numbers():
    x, y = randn(100), randn(100)
    check(lambda x, y: (torch.atan2(x, y), torch.hypot(x, y), torch.copysign(x, y), x.abs() ** y, x ** 3,
                        torch.nextafter(x, y), torch.ldexp(x, torch.tensor(3, device=x.device)), torch.frexp(x)), x, y)


def test_activations():
    check(lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.softplus(x), F.elu(x), F.selu(x),
                     F.hardswish(x), F.hardsigmoid(x), F.leaky_relu(x), F.logsigmoid(x), F.relu6(x), F.glu(x)),
          randn(64, 50, requires_grad=True))


def test_constants():
    check(lambda x: (x + float("inf"), x * float("nan"), x + 1e-40, x + 3e38, torch.full_like(x, -0.0), x * 0 - 0.0,
                     torch.full((3,), -(2 ** 63), device=x.device), torch.arange(2, 30, 3, device=x.device),
                     torch.linspace(0, 1, 7, device=x.device), torch.eye(4, 5, device=x.device)), randn(10))
