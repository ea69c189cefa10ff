"""Elementwise operators against PyTorch's CPU."""
import pytest
import torch

from opinfo import case_id, cases, check

NAMES = {
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "square", "neg",
    "reciprocal",
    "addcmul", "addcdiv", "lerp", "maximum", "minimum", "fmax", "fmin", "clamp", "clamp_min", "clamp_max", "where",
    "abs", "sign",
    "sgn", "signbit", "angle", "conj_physical", "complex", "polar", "floor", "ceil", "trunc", "round", "frac",
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not", "isnan", "isinf",
    "isfinite",
    "isposinf", "isneginf", "isreal", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift",
    "bitwise_right_shift", "gcd", "lcm", "heaviside", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt",
    "rsqrt",
    "xlogy", "special.xlog1py", "logaddexp", "logaddexp2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh",
    "asinh", "acosh", "atanh", "atan2", "hypot", "copysign", "nextafter", "sinc", "erf", "erfc", "nan_to_num", "logit",
    "sigmoid", "rad2deg", "deg2rad", "positive", "float_power", "isclose", "ldexp", "fill", "masked_fill",
    "nn.functional.relu", "nn.functional.relu6", "nn.functional.gelu", "nn.functional.silu", "nn.functional.mish",
    "nn.functional.hardswish", "nn.functional.hardsigmoid", "nn.functional.hardtanh", "nn.functional.leaky_relu",
    "nn.functional.elu", "nn.functional.selu", "nn.functional.celu", "nn.functional.softplus",
    "nn.functional.softshrink",
    "nn.functional.hardshrink", "nn.functional.logsigmoid", "nn.functional.threshold", "nn.functional.prelu",
    "nn.functional.glu",
    "nn.functional.softsign", "nn.functional.tanhshrink", "nn.functional.mse_loss", "nn.functional.smooth_l1_loss",
    "nn.functional.huber_loss", "nn.functional.l1_loss", "nn.functional.binary_cross_entropy",
    "nn.functional.binary_cross_entropy_with_logits", "nn.functional.poisson_nll_loss",
    "nn.functional.gaussian_nll_loss",
}


@pytest.mark.parametrize("case", cases(NAMES), ids=case_id)
def test_against_cpu(case, device):
    check(*case, device)


def every_so_many_floats(step):
    """Finite floats of all signs and exponents, and the neighbours of zero."""
    x = torch.arange(-(2**31), 2**31, step, dtype=torch.int64).to(torch.int32).view(torch.float32)
    return torch.cat([x[x.isfinite()], torch.tensor([0.0, -0.0, 1e-45, -1e-45])])


def relative_error(got, exact):
    return ((got.double() - exact).abs() / exact.abs().clamp_min(1e-37)).nan_to_num(0)


def test_tanh_over_all_floats(device):
    x = every_so_many_floats(1021)
    got, exact = torch.tanh(x.to(device)).cpu(), torch.tanh(x.double())
    assert relative_error(got, exact).max() < 4.5 * 2**-23
    assert torch.equal(got.signbit(), x.signbit())
    edges = torch.tensor([float("inf"), -float("inf"), float("nan")])
    torch.testing.assert_close(torch.tanh(edges.to(device)).cpu(), torch.tensor([1.0, -1.0, float("nan")]),
                               equal_nan=True)


def test_gelu_over_all_floats(device):
    x = every_so_many_floats(1021)
    got, exact = torch.nn.functional.gelu(x.to(device)).cpu(), x.double() * torch.special.ndtr(x.double())
    torch.testing.assert_close(got.double(), exact, rtol=1.3e-6, atol=1e-5)
    error = relative_error(got, exact)
    assert error[x > -1].max() < 8e-7
    assert error[(x > -4) & (x <= -1)].max() < 5e-6
    assert torch.equal(got[x == 0].signbit(), x[x == 0].signbit())
    edges = torch.tensor([float("inf"), -1e30, float("nan")])
    torch.testing.assert_close(torch.nn.functional.gelu(edges.to(device)).cpu(),
                               torch.tensor([float("inf"), -0.0, float("nan")]), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_divisors_of_the_smallest_integer(dtype, device):
    limits = torch.iinfo(dtype)
    numbers = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 6, 100, 64]
    if dtype == torch.int64:   # the CPU's own lcm ends the process where it divides the smallest integer by -1
        numbers = numbers[1:]
        smallest = torch.tensor([limits.min], dtype=dtype)
        assert torch.equal(torch.gcd(smallest.to(device), torch.tensor([6], device=device)).cpu(),
                           torch.gcd(smallest, torch.tensor([6])))
        torch.lcm(smallest.to(device), torch.tensor([limits.max], device=device)).cpu()
    elif limits.min < 0:
        numbers += [-1, -6, -100]
    x = torch.tensor(numbers, dtype=dtype)
    for function in (torch.gcd, torch.lcm):
        if dtype == torch.int32 and function is torch.lcm:
            x = x[1:]
        assert torch.equal(function(x.to(device)[:, None], x.to(device)).cpu(), function(x[:, None], x))
    assert torch.equal(x.to(device).abs().cpu(), x.abs())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("towards", [0.0, 1.0, -3.0, float("inf"), -float("inf"), float("nan")])
def test_nextafter_of_sixteen_bits(dtype, towards):
    x = torch.arange(-32768, 32768, 7).to(torch.int16).view(dtype)
    y = torch.full_like(x, towards)
    actual = torch.nextafter(x.to("ocl"), y.to("ocl")).cpu()
    torch.testing.assert_close(actual, torch.nextafter(x, y), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("to", [torch.int64, torch.float64, torch.complex128])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integers_wrap_around_before_they_are_widened(dtype, to, device):
    most = torch.iinfo(dtype).max
    x = torch.tensor([most, -most - 1, most - 5, most // 2] * 5, dtype=dtype)
    y = torch.tensor([100, most, 3, 5] * 5, dtype=dtype)
    calls = {"add": lambda x, y, out: torch.add(x, y, alpha=3, out=out),
             "sub": lambda x, y, out: torch.sub(y, x, out=out),
             "mul": lambda x, y, out: torch.mul(x, y, out=out), "square": lambda x, y, out: torch.square(x, out=out),
             "addcmul": lambda x, y, out: torch.addcmul(x, x, y, out=out),
             "number": lambda x, y, out: torch.add(x, 100, out=out)}
    for name, call in calls.items():
        expected = call(x, y, torch.zeros(20, dtype=to))
        actual = call(x.to(device), y.to(device), torch.zeros(20, dtype=to, device=device))
        assert torch.equal(actual.cpu(), expected), name


@pytest.mark.parametrize("to", [torch.float32, torch.int64, torch.bool])
def test_alpha_is_checked_by_the_operands(to, device):
    for dtype, alpha in ((torch.bool, True), (torch.bool, False), (torch.int32, 1.5), (torch.int32, True),
                         (torch.int32, 2)):
        results = []
        for place in ("cpu", device):
            x = torch.tensor([0, 1, 1], device=place).to(dtype)
            try:
                results.append(torch.add(x, x, alpha=alpha, out=torch.zeros(3, dtype=to, device=place)).cpu())
            except RuntimeError as error:
                results.append(type(error))
        assert results[0] is results[1] or torch.equal(*results), (dtype, alpha, results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64,
                                   torch.int32, torch.uint8, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("shapes", [((3, 5, 17, 19), (5, 1, 19)), ((2, 7, 3, 9, 33), (7, 1, 9, 1)),
                                    ((6, 31, 5, 2, 20), (6, 1, 5, 1, 20)), ((2, 3, 1, 70, 1, 16), (1, 5, 1, 4, 16)),
                                    ((2, 3, 2, 2, 2, 2, 40), (3, 1, 2, 1, 2, 1))], ids=str)
def test_broadcasts_of_many_axes(shapes, dtype, device):
    if dtype in (torch.float64, torch.complex64) and not torch.ocl.get_device_properties(0).fp64:
        pytest.skip("the device has no float64")
    a, b = (torch.randint(0, 8, shape).to(dtype) for shape in shapes)
    expected = a * b
    torch.testing.assert_close((a.to(device) * b.to(device)).cpu(), expected)
    reversed_axes = tuple(range(a.dim()))[::-1]
    torch.testing.assert_close((a.permute(reversed_axes).to(device) * b.to(device).permute(
        tuple(range(b.dim()))[::-1]).reshape(*b.shape[::-1], *[1] * (a.dim() - b.dim()))).cpu(),
        expected.permute(reversed_axes))


IN_ANOTHER_ORDER = {   # (shapes, views): what lies otherwise than the first is read as a dense copy on CPUs
    "transposed": (((130, 70), (70, 130)), lambda a, b: (a, b.t())),
    "both transposed": (((130, 70), (130, 70)), lambda a, b: (a.t(), b.t())),
    "channels last beside planes": (((3, 20, 12, 16), (3, 12, 16, 20)), lambda a, b: (a, b.permute(0, 3, 1, 2))),
    "planes beside channels last": (((3, 12, 16, 20), (3, 20, 12, 16)), lambda a, b: (a.permute(0, 3, 1, 2), b)),
    "a matrix for each batch": (((9, 30, 40), (40, 30)), lambda a, b: (a, b.t())),
    "every second column": (((70, 150), (70, 300)), lambda a, b: (a, b[:, 1::2])),
    "a vector with steps": (((90, 101), (303,)), lambda a, b: (a, b[2::3])),
    "expanded and turned": (((8, 33, 40), (40, 1, 8)), lambda a, b: (a, b.expand(40, 33, 8).permute(2, 1, 0))),
    "three elements fastest": (((3000, 3), (3, 3000)), lambda a, b: (a, b.t())),
    "too few fastest": (((1500, 3, 2), (2, 3, 3000)),
                        lambda a, b: (a[:, :, 1:].expand(1500, 3, 2), b[..., ::2].permute(2, 1, 0))),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", IN_ANOTHER_ORDER)
def test_inputs_in_another_order_than_the_output(name, dtype, device):
    shapes, views = IN_ANOTHER_ORDER[name]
    a, b = (torch.randint(0, 9, shape).to(dtype) for shape in shapes)
    ours, theirs = views(a.to(device), b.to(device)), views(a, b)
    for function in (torch.mul, torch.ne, lambda x, y: torch.where(x > y, y, x)):
        result, expected = function(*ours), function(*theirs)
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)
    if all(ours[0].stride()):
        ours[0].mul_(ours[1])
        torch.testing.assert_close(ours[0].cpu(), theirs[0].mul_(theirs[1]), rtol=0, atol=0)


def test_inputs_in_another_order_without_memory_for_a_copy(device):
    """What is read from a copy where there is room for it is read as it lies where there is none."""
    a, b = torch.randn(2048, 1024), torch.randn(1024, 2048)
    ours, turned, out = a.to(device), b.to(device).t(), torch.empty(2048, 1024, device=device)
    torch.ocl.empty_cache()
    total = torch.ocl.get_device_properties(device).total_memory
    torch.ocl.set_per_process_memory_fraction((torch.ocl.memory_reserved(device) + (1 << 20)) / total, device)
    held = []
    try:
        with pytest.raises(torch.OutOfMemoryError):
            while True:
                held.append(torch.empty(2048, 1024, device=device))
        torch.add(ours, turned, out=out)
    finally:
        torch.ocl.set_per_process_memory_fraction(1.0, device)
    torch.testing.assert_close(out.cpu(), a + b.t(), rtol=0, atol=0)


@pytest.mark.parametrize("sizes", [((32, 32), (32, 32)), ((7, 3), (5, 33)), ((3, 1, 4), (2, 17, 20)), ((5,), (2, 3))],
                         ids=str)
def test_kron(sizes, device):
    a, b = (torch.randn(size) for size in sizes)
    torch.testing.assert_close(torch.kron(a.to(device), b.to(device)).cpu(), torch.kron(a, b))
