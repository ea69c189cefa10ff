"""The doctor's self-test: one small computation of each family of kernels in each dtype, compared with the CPU."""
import torch
import torch.nn.functional as F

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
NUMBERS = FLOATS + (torch.int32, torch.int64, torch.uint8, torch.bool)

# family: (computation of two tensors of 24 x 32 in a dtype, the dtypes it is for)
FAMILIES = {
    "copy": (lambda a, b: a.t().contiguous(), NUMBERS),
    "pointwise": (lambda a, b: torch.where(a > b, a, b), NUMBERS),
    "reduce": (lambda a, b: a.sum(1), NUMBERS),
    "scan": (lambda a, b: a.cumsum(0), NUMBERS),
    "sort": (lambda a, b: a.sort(1).values, NUMBERS),
    "index": (lambda a, b: a[torch.arange(23, -1, -2, device=a.device)], NUMBERS),
    "concat": (lambda a, b: torch.cat([a, b], 1), NUMBERS),
    "gemm": (lambda a, b: a @ b.t(), FLOATS),
    "conv": (lambda a, b: F.conv2d(a.reshape(1, 3, 16, 16), b[:, :27].reshape(24, 3, 3, 3), padding=1), FLOATS),
    "attention": (lambda a, b: F.scaled_dot_product_attention(*[x.reshape(1, 2, 12, 32) for x in (a, b, a)]), FLOATS),
    "softmax": (lambda a, b: a.softmax(1), FLOATS),
    "norm": (lambda a, b: F.layer_norm(a, (32,)), FLOATS),
    "pool": (lambda a, b: F.max_pool2d(a.reshape(1, 1, 24, 32), 2), FLOATS),
    "resample": (lambda a, b: F.interpolate(a.reshape(1, 1, 24, 32), scale_factor=2, mode="bilinear"), FLOATS),
    "linalg": (lambda a, b: torch.linalg.cholesky(a @ a.t() + 40 * torch.eye(24, device=a.device, dtype=a.dtype)),
               (torch.float32, torch.float64)),
    "fft": (lambda a, b: torch.fft.rfft(a).abs(), (torch.float32, torch.float64)),
}
TOLERANCES = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4, torch.float64: 1e-10}


def operands(dtype):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(2, 24, 32, generator=generator)
    if not dtype.is_floating_point:
        values = (values * 3).abs().round() if dtype != torch.bool else values > 0
    return values.to(dtype).unbind(0)


def failure(compute, dtype, device):
    """What is wrong with a computation on the device; None if nothing is."""
    a, b = operands(dtype)
    reference = compute(a.float(), b.float()) if dtype in (torch.float16, torch.bfloat16) else compute(a, b)
    try:
        result = compute(a.to(device), b.to(device)).cpu()
    except RuntimeError as error:
        return str(error).strip().splitlines()[0]
    tolerance = TOLERANCES.get(dtype, 0.0)
    try:
        torch.testing.assert_close(result.to(reference.dtype), reference, rtol=tolerance, atol=tolerance)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return None


def self_test(device, double):
    """(family, dtype, what is wrong or None) of every computation that the device can be asked for."""
    for family, (compute, dtypes) in FAMILIES.items():
        for dtype in dtypes:
            if dtype != torch.float64 or double:
                yield family, dtype, failure(compute, dtype, device)
