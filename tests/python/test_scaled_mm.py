"""Products of matrices of eight-bit floats with scales, against float64 and PyTorch's CPU."""

import pytest
import torch

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
BOUND = {torch.float32: 2e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float8_e4m3fn: 2**-4,
         torch.float8_e5m2: 2**-3}
# Half the step of subnormal numbers.
SMALLEST = {torch.float16: 2**-25, torch.float8_e4m3fn: 2**-10, torch.float8_e5m2: 2**-17}


def operands(m, k, n, a_type=torch.float8_e4m3fn, b_type=torch.float8_e4m3fn):
    generator = torch.Generator().manual_seed(m + k + n)
    a = torch.randn(m, k, generator=generator).to(a_type)
    return a, torch.randn(n, k, generator=generator).to(b_type).t(), generator


def check(got, a, b, scale_a, scale_b, bias=None):
    """Within one rounding of the result and what float32 sums lose."""
    x, y = a.float().double() * scale_a.double(), b.float().double() * scale_b.double()
    exact, magnitude = x @ y, x.abs() @ y.abs()
    if bias is not None:
        exact, magnitude = exact + bias.double(), magnitude + bias.double().abs()
    error = (got.cpu().float().double() - exact).abs()
    assert (error <= BOUND[got.dtype] * exact.abs() + 2e-6 * magnitude + SMALLEST.get(got.dtype, 0)).all()


@pytest.mark.parametrize("a_type", FLOAT8)
@pytest.mark.parametrize("b_type", FLOAT8)
def test_formats(device, a_type, b_type):
    for m in (3, 40):                                    # weights as they are; decoded
        a, b, _ = operands(m, 96, 40, a_type, b_type)
        scale_a, scale_b = torch.tensor(0.5), torch.tensor(3.0)
        got = torch._scaled_mm(a.to(device), b.to(device), scale_a.to(device), scale_b.to(device),
                               out_dtype=torch.float32)
        assert got.device.type == "ocl" and got.shape == (m, 40)
        check(got, a, b, scale_a, scale_b)


@pytest.mark.parametrize("m", [1, 2, 16, 17, 70])
@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_scales_for_rows_and_bias(device, m, out_dtype):
    a, b, generator = operands(m, 64, 48)
    scale_a = torch.rand(m, 1, generator=generator) * 0.1
    scale_b, bias = torch.rand(1, 48, generator=generator), torch.randn(48, generator=generator)
    inputs = [t.to(device) for t in (a, b, scale_a, scale_b)]
    check(torch._scaled_mm(*inputs, out_dtype=out_dtype), a, b, scale_a, scale_b)
    got = torch._scaled_mm(*inputs, bias=bias.to(device), out_dtype=out_dtype, use_fast_accum=True)
    check(got, a, b, scale_a, scale_b, bias)
    out = torch.empty(m, 48, dtype=out_dtype, device=device)
    torch._scaled_mm(*inputs, bias=bias.to(device), out_dtype=out_dtype, out=out)
    assert torch.equal(out.cpu().float(), got.cpu().float())


def test_layouts_and_sizes(device):
    for m, k, n in ((5, 33, 7), (30, 40, 1), (1, 1, 1), (20, 32, 50)):
        a, b, _ = operands(m, k, n)
        one = torch.tensor(1.0)
        for x, y in ((a, b), (a, b.contiguous()), (a.t().contiguous().t(), b), (a[:, :k - k // 3], b[:k - k // 3])):
            got = torch._scaled_mm(x.to(device), y.to(device), one.to(device), one.to(device), out_dtype=torch.float32)
            check(got, x, y, one, one)
    a, b, _ = operands(4, 32, 6)
    one = torch.ones((), device=device)
    assert torch._scaled_mm(a.to(device)[:0], b.to(device), one, one).shape == (0, 6)
    empty = torch._scaled_mm(a.to(device)[:, :0], b.to(device)[:0], one, one, out_dtype=torch.float32)
    assert torch.equal(empty.cpu(), torch.zeros(4, 6))


@pytest.mark.parametrize("m", [4, 20])
def test_every_code(device, m):
    """NaN and infinities reach the elements that they belong to; subnormal numbers count."""
    for dtype in FLOAT8:
        codes = torch.arange(256, dtype=torch.uint8).view(dtype)
        a = torch.zeros(m, 32)
        a[0, 0], a[1, 0] = 1, -2
        b = torch.zeros(32, 256, dtype=torch.uint8).view(dtype)
        b[0] = codes
        b = b.t().contiguous().t()
        one = torch.ones((), device=device)
        got = torch._scaled_mm(a.to(dtype).to(device), b.to(device), one, one, out_dtype=torch.float32).cpu()
        want = codes.float()
        assert torch.equal(got[0].nan_to_num(7e9), want.nan_to_num(7e9))
        assert torch.equal(got[1].nan_to_num(7e9), (-2 * want).nan_to_num(7e9))


def test_result_of_eight_bits_is_scaled_and_saturates(device):
    a, b, _ = operands(20, 64, 24)
    half, scale = torch.tensor(0.5), torch.tensor(0.01)
    for dtype in FLOAT8[:2]:
        arguments = [a, b, half, half]
        got = torch._scaled_mm(*[t.to(device) for t in arguments], out_dtype=dtype, scale_result=scale.to(device))
        got = got.cpu().double()
        largest = torch.finfo(dtype).max
        exact = (a.double() @ b.double() * 0.25 / scale.double()).clamp(-largest, largest)
        assert ((got - exact).abs() <= (BOUND[dtype] + 1e-5) * exact.abs() + 1e-3).all()
        # The CPU's product may be rounded before it is scaled, which is the neighbouring number then; its kernels for
        # some processors leave the range.
        want = torch._scaled_mm(*arguments, out_dtype=dtype, scale_result=scale).double()
        within = exact.abs() < largest * (1 - BOUND[dtype])
        assert within.any() and torch.isfinite(want[within]).all()
        assert ((got - want).abs() <= 2 * BOUND[dtype] * torch.maximum(got.abs(), want.abs()))[within].all()


def test_errors_name_what_does_not_fit(device):
    a, b, _ = operands(16, 32, 24)
    a, b, one = a.to(device), b.to(device), torch.ones((), device=device)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch._scaled_mm(a, b.t(), one, one)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(a, b, torch.ones(3, device=device), one)
    with pytest.raises(ValueError, match="scales should be float"):
        torch._scaled_mm(a, b, one.half(), one)
    with pytest.raises(ValueError, match="should be float8"):
        torch._scaled_mm(a.float(), b, one, one)
    with pytest.raises(RuntimeError, match="Bias must be size 24 but got 23"):
        torch._scaled_mm(a, b, one, one, bias=torch.ones(23, device=device))
    with pytest.raises(RuntimeError, match="mat_a must be a matrix"):
        torch._scaled_mm(a[0], b, one, one)
    with pytest.raises(RuntimeError, match="out_dtype must be of floating point"):
        torch._scaled_mm(a, b, one, one, out_dtype=torch.int8)
    with pytest.raises(RuntimeError, match="out_dtype must match"):
        torch._scaled_mm(a, b, one, one, out_dtype=torch.float32, out=torch.empty(0, device=device).half())


def test_recipes_of_scales(device):
    if not hasattr(torch, "_scaled_mm_v2"):
        pytest.skip("this PyTorch has no recipes")
    from torch.nn.functional import ScalingType, SwizzleType, scaled_mm

    a, b, generator = operands(20, 64, 24)
    one, rows = torch.tensor(0.5), torch.rand(20, 1, generator=generator)
    columns, bias = torch.rand(1, 24, generator=generator), torch.randn(24, generator=generator)
    for scale_a, scale_b, recipe in ((one, one, ScalingType.TensorWise), (rows, columns, ScalingType.RowWise)):
        moved = [t.to(device) for t in (scale_a, scale_b, bias)]
        got = scaled_mm(a.to(device), b.to(device), moved[0], recipe, moved[1], recipe, bias=moved[2],
                        output_dtype=torch.float32, contraction_dim=[1, 0], swizzle_a=SwizzleType.NO_SWIZZLE)
        check(got, a, b, scale_a, scale_b, bias)
    a, b, one, rows = (t.to(device) for t in (a, b, one, rows))
    with pytest.raises(ValueError, match="recipe"):
        scaled_mm(a, b, rows, ScalingType.RowWise, one, ScalingType.TensorWise)
    with pytest.raises(ValueError, match="scale_a"):
        scaled_mm(a, b, rows[:3], ScalingType.RowWise, rows, ScalingType.RowWise)
    with pytest.raises(ValueError, match="swizzle"):
        scaled_mm(a, b, one, ScalingType.TensorWise, one, ScalingType.TensorWise,
                  swizzle_a=SwizzleType.SWIZZLE_32_4_4)
