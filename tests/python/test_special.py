"""Special functions against PyTorch's CPU."""
import mpmath
import pytest
import torch

from opinfo import case_id, cases, check

NAMES = {
    "lgamma", "digamma", "polygamma", "mvlgamma", "erfinv", "i0", "igamma", "igammac", "frexp", "special.zeta",
    "special.entr", "special.ndtri", "special.log_ndtr", "special.ndtr", "special.erfcx", "special.i0e", "special.i1",
    "special.i1e",
    "special.modified_bessel_i0", "special.modified_bessel_i1", "special.modified_bessel_k0",
    "special.modified_bessel_k1",
    "special.scaled_modified_bessel_k0", "special.scaled_modified_bessel_k1", "special.bessel_j0", "special.bessel_j1",
    "special.bessel_y0", "special.bessel_y1", "special.spherical_bessel_j0", "special.polygamma",
    "special.chebyshev_polynomial_t", "special.chebyshev_polynomial_u", "special.hermite_polynomial_h",
    "special.hermite_polynomial_he", "special.laguerre_polynomial_l", "special.legendre_polynomial_p",
    "special.airy_ai",
}
# PyTorch's own Bessel functions J and Y are only good to 1e-7: in double they are compared with mpmath below.
CASES = [(op, dtype) for op, dtype in cases(NAMES) if dtype in (torch.float32, torch.float64, torch.int64)
         and not (dtype == torch.float64 and op.name.startswith("special.bessel"))]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_against_cpu(case, device):
    check(*case, device)


@pytest.mark.parametrize("name, low, high", (
    ("lgamma", -5, 50), ("digamma", -5, 50), ("erfinv", -1, 1), ("special.ndtri", 0, 1), ("special.log_ndtr", -30, 8),
    ("special.erfcx", -5, 40), ("i0", -20, 20), ("special.i0e", -200, 200), ("special.i1", -20, 20),
    ("special.i1e", -200, 200),
    ("special.modified_bessel_k0", 0, 30), ("special.modified_bessel_k1", 0, 30),
    ("special.scaled_modified_bessel_k0", 0, 500),
    ("special.spherical_bessel_j0", -30, 30)))
def test_whole_range_in_double(name, low, high, device):
    function = torch
    for part in name.split("."):
        function = getattr(function, part)
    x = torch.linspace(low, high, 2003, dtype=torch.float64)
    torch.testing.assert_close(function(x.to(device)).cpu(), function(x), equal_nan=True, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", "jy")
@pytest.mark.parametrize("order", (0, 1))
def test_bessel_functions_in_double(kind, order, device):
    x = torch.linspace(0.01, 80, 97, dtype=torch.float64)
    exact = getattr(mpmath, f"bessel{kind}")
    expected = torch.tensor([float(exact(order, value)) for value in x.tolist()], dtype=torch.float64)
    actual = getattr(torch.special, f"bessel_{kind}{order}")(x.to(device)).cpu()
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_log_gamma_everywhere(dtype, device):
    """Few units of the dtype from mpmath: between poles, near the zeros at 1 and 2, tiny and huge."""
    x = torch.cat((torch.linspace(-9.3, 12.1, 1201), 1 + torch.linspace(-1e-3, 1e-3, 40), torch.tensor([1.0, 2.0]),
                   2 + torch.linspace(-1e-3, 1e-3, 40), torch.logspace(-30, 35, 200), -torch.logspace(-30, 5, 100)))
    x = x.to(dtype)
    x = x[(x > 0) | (x != x.trunc())]
    expected = torch.tensor([float(mpmath.re(mpmath.loggamma(v))) for v in x.tolist()], dtype=torch.float64)
    actual = torch.lgamma(x.to(device)).cpu().double()
    eps = torch.finfo(dtype).eps
    positive = x > 0
    torch.testing.assert_close(actual[positive], expected[positive], rtol=6 * eps, atol=0)
    # Between poles there are zeros where terms cancel.
    torch.testing.assert_close(actual[~positive], expected[~positive], rtol=6 * eps, atol=20 * eps)
    ends = torch.tensor([0.0, -0.0, -1, -2, -8388609, float("inf"), -float("inf"), float("nan"), -3e38], dtype=dtype)
    torch.testing.assert_close(torch.lgamma(ends.to(device)).cpu(), torch.lgamma(ends), equal_nan=True)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_trigamma_everywhere(dtype, device):
    """PyTorch's own is only good to 1e-9, and less below 0."""
    x = torch.cat((torch.linspace(-9.3, 40.1, 601), torch.logspace(-15, 15, 60))).to(dtype)
    expected = torch.tensor([float(mpmath.polygamma(1, v)) for v in x.tolist()], dtype=torch.float64)
    actual = torch.polygamma(1, x.to(device)).cpu().double()
    torch.testing.assert_close(actual, expected, rtol=20 * torch.finfo(dtype).eps, atol=0)
    ends = torch.tensor([0.0, -1, float("inf"), float("nan")], dtype=dtype)
    assert torch.equal(torch.polygamma(1, ends.to(device)).cpu().nan_to_num(-1),
                       torch.tensor([torch.inf, torch.inf, 0, -1], dtype=dtype).nan_to_num(-1))


def test_airy_function_in_double(device):
    """PyTorch's own is only good to 1e-6 near -2."""
    x = torch.linspace(-60, 60, 481, dtype=torch.float64)
    expected = torch.tensor([float(mpmath.airyai(value)) for value in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(torch.special.airy_ai(x.to(device)).cpu(), expected, rtol=1e-12, atol=1e-14)
    ends = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0], dtype=torch.float64)
    torch.testing.assert_close(torch.special.airy_ai(ends.to(device)).cpu(), torch.special.airy_ai(ends),
                               equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["i0", "special.i1", "special.bessel_j0", "special.bessel_j1",
                                  "special.modified_bessel_k0",
                                  "special.modified_bessel_i0", "special.bessel_y1"])
def test_bessel_functions_of_extreme_numbers(name, dtype):
    function = torch
    for part in name.split("."):
        function = getattr(function, part)
    x = torch.tensor([float("nan"), 3e38, 100.0, 1e-45] + ([float("inf")] if "k0" in name else []), dtype=dtype)
    torch.testing.assert_close(function(x.to("ocl")).cpu(), function(x), rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("compiled", (False, True))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_incomplete_gamma_of_large_numbers(dtype, compiled, device):
    """Near x = a. PyTorch's double is 1e-9 off here, and far from right some five roots of a away."""
    a = torch.logspace(4.01, 12, 60, dtype=dtype)[:, None]
    x = (a.double() + a.double().sqrt() * torch.linspace(-4, 4, 37, dtype=torch.float64)).to(dtype)
    a = a.expand_as(x).contiguous()
    for function in (torch.igamma, torch.igammac):
        run = torch.compile(function) if compiled else function
        torch.testing.assert_close(run(a.to(device), x.to(device)).cpu().double(), function(a.double(), x.double()),
                                   rtol=1e-8 if dtype == torch.float64 else 1e-5, atol=0)


@pytest.mark.parametrize("a, roots", ((1.1e4, -2), (1.1e4, 6), (3e5, 0.3), (4e6, 6), (1e8, -1), (1e11, 0), (1e11, 3)))
def test_incomplete_gamma_by_its_integral(a, roots, device):
    x = a + roots * a ** 0.5
    with mpmath.workdps(40):
        gamma = mpmath.loggamma(a)
        pieces = [mpmath.mpf(x) + k * mpmath.sqrt(a) for k in range(20)]
        above = mpmath.quad(lambda t: mpmath.exp((mpmath.mpf(a) - 1) * mpmath.log(t) - t - gamma), pieces)
        expected = torch.tensor([float(1 - above), float(above)], dtype=torch.float64)
    a, x = (torch.tensor(v, dtype=torch.float64, device=device) for v in (a, x))
    actual = torch.stack((torch.igamma(a, x), torch.igammac(a, x))).cpu()
    torch.testing.assert_close(actual, expected, rtol=2e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_incomplete_gamma_at_ends(dtype, device):
    values = torch.tensor([0, 1, 1e20, 4988429, torch.inf, torch.nan, -1], dtype=dtype)
    a, x = torch.meshgrid(values, values, indexing="ij")
    for function in (torch.igamma, torch.igammac):
        torch.testing.assert_close(function(a.to(device), x.to(device)).cpu(), function(a, x), equal_nan=True)


def test_upper_incomplete_gamma_where_nothing_may_cancel(device):
    """Q(a, x) is a E1(x) as a goes to 0 (E1: Abramowitz and Stegun, table 5.1), and a finite sum for whole a."""
    integral = {1e-3: 6.331539364136149, 0.5: 0.5597735947761607, 1.0: 0.2193839343955203}
    x = torch.tensor(list(integral), dtype=torch.float64)
    small = torch.special.gammaincc(torch.full_like(x, 1e-20).to(device), x.to(device)).cpu()
    expected = 1e-20 * torch.tensor(list(integral.values()), dtype=torch.float64)
    torch.testing.assert_close(small, expected, rtol=1e-12, atol=0)
    a, x = (each.flatten() for each in torch.meshgrid(torch.arange(1.0, 40, dtype=torch.float64),
                                                      torch.tensor([0.1, 1, 3, 8, 13, 30], dtype=torch.float64),
                                                      indexing="ij"))
    terms = torch.arange(40, dtype=torch.float64)
    each = torch.exp(terms * x.log()[:, None] - torch.lgamma(terms + 1) - x[:, None])
    expected = (each * (terms < a[:, None])).sum(1)
    torch.testing.assert_close(torch.special.gammaincc(a.to(device), x.to(device)).cpu(), expected, rtol=1e-12, atol=0)
