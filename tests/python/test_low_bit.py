"""Products with weights of 8 and 4 bits against float64."""

import pytest
import torch


def group_quantize(w, group):
    """4-bit numbers with a scale and a zero for each group of a row, as int4 weight-only quantisation makes them."""
    rows, k = w.shape
    grouped = w.reshape(-1, group)
    low, high = grouped.amin(1, keepdim=True), grouped.amax(1, keepdim=True)
    scale = ((high - low) / 15).clamp(min=1e-6)
    q = ((grouped - low) / scale).round().clamp(0, 15)
    zero = low + scale * 8
    return (q.reshape(rows, k).to(torch.uint8), scale.reshape(rows, k // group).t().contiguous(),
            zero.reshape(rows, k // group).t().contiguous())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("m, n, k, group", [(1, 8, 32, 32), (1, 64, 512, 128), (2, 40, 256, 64), (5, 24, 1024, 256),
                                            (16, 64, 384, 32), (33, 48, 512, 128), (1, 24, 128, 32),
                                            (1, 40, 256, 64), (1, 136, 1024, 256), (1, 768, 768, 32), (1, 8, 160, 32),
                                            (7, 24, 544, 32), (64, 40, 1088, 64), (65, 16, 512, 256)])
def test_int4_weights(device, dtype, m, n, k, group):
    torch.manual_seed(m + n)
    q, scales, zeros = group_quantize(torch.randn(n, k), group)
    scales, zeros, x = scales.to(dtype), zeros.to(dtype), torch.randn(m, k).to(dtype)
    weights = ((q.double() - 8).reshape(n, k // group, group) * scales.double().t().unsqueeze(2) +
               zeros.double().t().unsqueeze(2)).reshape(n, k)
    packed = torch._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).to(device), 2)
    assert packed.shape == (n // 8, k // 32, 32, 1) and packed.dtype == torch.int32
    both = torch.stack([scales, zeros], 2).to(device)
    y = torch._weight_int4pack_mm(x.to(device), packed, group, both)
    assert y.dtype == dtype
    reference = x.double() @ weights.t()
    # One rounding of what is added: 16 scales and the zero, of which a weight may be a small difference.
    terms = (16 * scales + zeros.abs()).double().t().repeat_interleave(group, 1)
    error = torch.finfo(dtype).eps * (x.double().abs() @ terms.t())
    assert ((y.cpu().double() - reference).abs() <= error).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("m, n, k", [(1, 7, 64), (3, 32, 4096), (17, 20, 96), (2, 5, 33), (0, 4, 32), (2, 4, 0),
                                     (6, 13, 800), (64, 21, 544)])
def test_int8_weights(device, dtype, m, n, k):
    torch.manual_seed(0)
    x, w = torch.randn(m, k).to(dtype), torch.randint(-128, 128, (n, k), dtype=torch.int8)
    scales = torch.rand(n).to(dtype) * 0.02 + 0.001
    y = torch._weight_int8pack_mm(x.to(device), w.to(device), scales.to(device))
    weights = w.double() * scales.double()[:, None]
    error = torch.finfo(dtype).eps * (x.double().abs() @ weights.abs().t())
    assert y.shape == (m, n) and y.dtype == dtype
    assert ((y.cpu().double() - x.double() @ weights.t()).abs() <= error + 1e-6).all()


def test_not_finite_and_views(device):
    q, scales, zeros = group_quantize(torch.randn(8, 64), 32)
    packed = torch._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).to(device), 2)
    both = torch.stack([scales, zeros], 2).to(device)
    x = torch.randn(64, 4)
    x[5, 1] = float("nan")
    x[6, 2] = float("inf")
    y = torch._weight_int4pack_mm(x.to(device).t(), packed, 32, both).cpu()   # columns of x are its rows
    assert y[1].isnan().all() and not y[2].isfinite().any() and y[0].isfinite().all()
    w = torch.randint(-128, 128, (9, 64), dtype=torch.int8)
    scale = torch.rand(9)
    part = torch._weight_int8pack_mm(x.t()[:1].to(device), w.to(device)[1:],
                                     scale.to(device)[1:])   # not from the start
    torch.testing.assert_close(part.cpu(), x.t()[:1] @ (w[1:] * scale[1:, None]).t())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e37, 1e-39])
@pytest.mark.parametrize("zeros", [0.0, 1.0])
def test_one_row_of_any_numbers(device, value, zeros):
    """Infinities and NaN reach all outputs but those that multiply them with zero, which become NaN."""
    torch.manual_seed(1)
    n, k, group = 24, 256, 64
    q = torch.randint(0, 16, (n, k), dtype=torch.uint8)
    both = torch.stack([torch.full((k // group, n), 0.25), torch.full((k // group, n), zeros)], 2)
    x = torch.randn(1, k)
    x[0, 77] = value
    packed = torch._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).to(device), 2)
    y = torch._weight_int4pack_mm(x.to(device), packed, group, both.to(device)).cpu()
    products = (x.double() * ((q.double() - 8) * 0.25)).sum(1) + x.double().sum() * zeros
    finite = torch.isfinite(products) & (products.abs() < 3e38)
    assert (torch.isfinite(y[0]) == finite).all() and (torch.isnan(y[0]) <= ~finite).all()
    torch.testing.assert_close(y[0][finite], products[finite].float(), rtol=1e-5, atol=1e-4)


def test_errors_name_the_argument(device):
    packed = torch.zeros(1, 2, 32, 1, dtype=torch.int32, device=device)
    both, x = torch.zeros(2, 8, 2, device=device), torch.zeros(1, 64, device=device)
    with pytest.raises(RuntimeError, match="qGroupSize to be 32, 64, 128 or 256, got 16"):
        torch._weight_int4pack_mm(x, packed, 16, both)
    with pytest.raises(RuntimeError, match=r"qScaleAndZeros to be \[1, 8, 2\], got \[2, 8, 2\]"):
        torch._weight_int4pack_mm(x, packed, 64, both)
    with pytest.raises(RuntimeError, match=r"expect A to be \[m, 64\], got \[1, 32\]"):
        torch._weight_int4pack_mm(x[:, :32], packed, 32, both)
    with pytest.raises(RuntimeError, match="qScaleAndZeros to be Half as A, got Float"):
        torch._weight_int4pack_mm(x.half(), packed, 32, both)
    with pytest.raises(RuntimeError, match="innerKTiles need to be 2, 4, or 8, got 3"):
        torch._convert_weight_to_int4pack(torch.zeros(8, 32, dtype=torch.uint8, device=device), 3)
    with pytest.raises(RuntimeError, match="multiple of 8, got 7"):
        torch._convert_weight_to_int4pack(torch.zeros(7, 32, dtype=torch.uint8, device=device), 2)
    with pytest.raises(RuntimeError, match="expect B to be int8"):
        torch._weight_int8pack_mm(x, torch.zeros(4, 64, device=device), torch.zeros(4, device=device))
