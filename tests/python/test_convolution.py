"""Convolution against PyTorch's CPU results: forward and the three gradients, over dtypes, layouts and shapes."""
import json
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from comparison import device

# function, input shape, weight shape, arguments
CASES = {
    "3x3": (F.conv2d, (2, 5, 9, 11), (7, 5, 3, 3), dict(padding=1)),
    "3x3 batch of 7x7": (F.conv2d, (3, 33, 7, 7), (64, 33, 3, 3), dict(padding=1)),
    "stride 2": (F.conv2d, (2, 16, 15, 14), (24, 16, 3, 3), dict(stride=2, padding=1)),
    "1x1": (F.conv2d, (2, 19, 6, 7), (32, 19, 1, 1), {}),
    "1x1 stride 2": (F.conv2d, (2, 16, 14, 14), (32, 16, 1, 1), dict(stride=2)),
    "first layer": (F.conv2d, (2, 3, 40, 38), (16, 3, 7, 7), dict(stride=2, padding=3)),
    "patches": (F.conv2d, (2, 3, 16, 16), (20, 3, 4, 4), dict(stride=4)),
    "dilated": (F.conv2d, (1, 6, 17, 18), (8, 6, 3, 2), dict(stride=(2, 3), padding=(2, 1), dilation=(2, 3))),
    "same": (F.conv2d, (2, 4, 9, 8), (6, 4, 4, 2), dict(padding="same")),
    "groups": (F.conv2d, (2, 12, 9, 8), (18, 4, 3, 3), dict(padding=1, groups=3)),
    "depthwise": (F.conv2d, (2, 19, 11, 13), (19, 1, 3, 3), dict(padding=1, groups=19)),
    "depthwise stride 2": (F.conv2d, (2, 16, 12, 15), (16, 1, 5, 5), dict(stride=2, padding=2, groups=16)),
    "depthwise fours": (F.conv2d, (2, 8, 9, 20), (8, 1, 3, 3), dict(padding=1, groups=8)),
    "depthwise dilated": (F.conv2d, (1, 8, 13, 16), (8, 1, 5, 5), dict(padding=4, dilation=2, groups=8)),
    "depthwise dilated 7x7": (F.conv2d, (1, 6, 19, 13), (6, 1, 7, 7), dict(padding=6, dilation=2, groups=6)),
    "depthwise dilated 3x3": (F.conv2d, (2, 8, 14, 11), (8, 1, 3, 3), dict(padding=1, dilation=2, groups=8)),
    "depthwise 7x7 stride 2": (F.conv2d, (1, 6, 15, 18), (6, 1, 7, 7), dict(padding=3, stride=2, groups=6)),
    "depthwise 7x7": (F.conv2d, (2, 19, 10, 13), (19, 1, 7, 7), dict(padding=3, groups=19)),
    "depthwise 7x7 at 7x7": (F.conv2d, (2, 32, 7, 7), (32, 1, 7, 7), dict(padding=3, groups=32)),
    "depthwise planes 3x3": (F.conv2d, (3, 136, 6, 5), (136, 1, 3, 3), dict(padding=1, groups=136)),
    "depthwise planes 5x5": (F.conv2d, (2, 137, 9, 16), (137, 1, 5, 5), dict(padding=(2, 0), groups=137)),
    "depthwise planes 7x7": (F.conv2d, (9, 40, 7, 7), (40, 1, 7, 7), dict(padding=3, groups=40)),
    "depthwise 7x7 half": (F.conv2d, (2, 40, 15, 13), (40, 1, 7, 7), dict(stride=2, padding=2, groups=40)),
    "depthwise wide 3x3": (F.conv2d, (2, 5, 9, 41), (5, 1, 3, 3), dict(padding=1, groups=5)),
    "depthwise wide 5x5": (F.conv2d, (1, 5, 6, 19), (5, 1, 5, 5), dict(padding=(1, 3), groups=5)),
    "depthwise narrow 5x5": (F.conv2d, (2, 5, 18, 9), (5, 1, 5, 5), dict(padding=(2, 1), groups=5)),
    "depthwise multiplier 3": (F.conv2d, (2, 7, 9, 8), (21, 1, 3, 3), dict(padding=1, groups=7, stride=2)),
    "depthwise 21x1": (F.conv2d, (1, 6, 23, 10), (6, 1, 21, 1), dict(padding=(10, 0), groups=6)),
    "depthwise 11x11": (F.conv2d, (2, 6, 19, 14), (6, 1, 11, 11), dict(padding=5, groups=6)),
    "depthwise 9x13 fours": (F.conv2d, (1, 4, 12, 20), (4, 1, 9, 13), dict(padding=(4, 6), groups=4)),
    "depthwise conv1d of 31": (F.conv1d, (2, 4, 60), (4, 1, 31), dict(padding=15, groups=4)),
    "groups of threes, stride 2": (F.conv2d, (2, 12, 13, 17), (24, 3, 3, 3), dict(padding=1, stride=2, groups=4)),
    "depthwise multiplier": (F.conv2d, (1, 6, 9, 9), (12, 1, 3, 3), dict(padding=1, groups=6)),
    "unbatched": (F.conv2d, (5, 9, 11), (7, 5, 3, 3), dict(padding=1)),
    "1d": (F.conv1d, (3, 6, 31), (10, 6, 5), dict(stride=2, padding=2)),
    "1d same": (F.conv1d, (3, 6, 31), (10, 6, 4), dict(padding="same")),
    "3d": (F.conv3d, (2, 4, 6, 7, 8), (6, 2, 2, 3, 3), dict(stride=(2, 1, 2), padding=(0, 1, 1), groups=2)),
    "transposed": (F.conv_transpose2d, (2, 6, 5, 6), (6, 4, 3, 3), dict(stride=2, padding=1, output_padding=(1, 0))),
    "transposed groups": (F.conv_transpose2d, (1, 6, 5, 6), (6, 3, 3, 2),
                          dict(stride=(1, 3), padding=(0, 1), output_padding=(0, 2), dilation=(2, 1), groups=2)),
    "transposed 1d": (F.conv_transpose1d, (2, 4, 9), (4, 5, 4), dict(stride=3, padding=1, output_padding=1)),
    "transposed 3d": (F.conv_transpose3d, (1, 3, 3, 4, 3), (3, 2, 2, 2, 2), dict(stride=2)),
    "zero batch": (F.conv2d, (0, 5, 9, 11), (7, 5, 3, 3), dict(padding=1)),
    "zero batch transposed": (F.conv_transpose2d, (0, 6, 5, 6), (6, 4, 3, 3), dict(stride=2)),
}


def eighths(shape, dtype=torch.float32, seed=0):
    """Random multiples of 1/8: their sums of products are exact in float32, whatever the order."""
    return (torch.randint(-16, 17, shape, generator=torch.Generator().manual_seed(seed)) / 8).to(dtype)


def make(case, dtype=torch.float32):
    function, x_shape, w_shape, options = CASES[case]
    x, w = eighths(x_shape, dtype, 1), eighths(w_shape, dtype, 2)
    out_channels = w_shape[1] * options.get("groups", 1) if "transpose" in function.__name__ else w_shape[0]
    b = eighths((out_channels,), dtype, 3)
    return function, x, w, b, options


def forward_and_gradients(function, x, w, b, options, dy=None):
    leaves = [t.detach().requires_grad_() if t is not None else None for t in (x, w, b)]
    y = function(*leaves, **options)
    dy = eighths(y.shape, y.dtype, 4) if dy is None else dy
    y.backward(dy.to(y.device))
    return [y.detach()] + [t.grad for t in leaves if t is not None]


def check(actual, expected, strides=False):
    for a, e in zip(actual, expected, strict=True):
        assert a.device.type == "ocl"
        torch.testing.assert_close(a.cpu(), e, check_stride=strides)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_forward_and_gradients(case, bias):
    function, x, w, b, options = make(case)
    b = b if bias else None
    actual = forward_and_gradients(function, x.to(device), w.to(device), b if b is None else b.to(device), options)
    check(actual, forward_and_gradients(function, x, w, b, options))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", ["3x3", "1x1", "stride 2", "groups", "depthwise", "depthwise fours",
                                  "depthwise dilated", "depthwise dilated 7x7", "depthwise dilated 3x3",
                                  "depthwise 7x7 stride 2", "depthwise 7x7", "depthwise 7x7 at 7x7",
                                  "depthwise wide 3x3", "depthwise wide 5x5", "depthwise multiplier 3", "transposed",
                                  "3d"])
def test_dtypes(case, dtype):
    function, x, w, b, options = make(case, dtype)
    actual = forward_and_gradients(function, x.to(device), w.to(device), b.to(device), options)
    # The reference is computed in float64 and rounded once: PyTorch's CPU rounds half precision on the way.
    expected = forward_and_gradients(function, x.double(), w.double(), b.double(), options)
    check(actual, [e.to(dtype) for e in expected])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("weight_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("case", ["3x3", "3x3 batch of 7x7", "1x1", "stride 2", "first layer", "groups", "depthwise",
                                  "depthwise fours", "depthwise stride 2", "depthwise multiplier",
                                  "depthwise multiplier 3",
                                  "depthwise dilated", "depthwise dilated 7x7", "depthwise dilated 3x3",
                                  "depthwise 7x7 stride 2", "depthwise 7x7", "depthwise 7x7 at 7x7",
                                  "depthwise 7x7 half", "transposed", "dilated"])
def test_channels_last(case, weight_format, dtype):
    function, x, w, b, options = make(case, dtype)
    x, w = x.to(memory_format=torch.channels_last), w.to(memory_format=weight_format)
    actual = forward_and_gradients(function, x.to(device), w.to(device), b.to(device), options)
    assert actual[0].is_contiguous(memory_format=torch.channels_last)
    check(actual, forward_and_gradients(function, x, w, b, options))


def test_channels_last_3d():
    function, x, w, b, options = make("3d")
    x = x.to(memory_format=torch.channels_last_3d)
    actual = forward_and_gradients(function, x.to(device), w.to(device), b.to(device), options)
    assert actual[0].is_contiguous(memory_format=torch.channels_last_3d)
    check(actual, forward_and_gradients(function, x, w, b, options))


def test_non_contiguous_input_weight_and_gradient():
    x = eighths((2, 9, 11, 10))[:, :, :, ::2].transpose(1, 3)
    w = eighths((3, 3, 5, 14))[..., ::2].permute(3, 2, 0, 1)
    b = eighths((14,))[::2]
    dy = eighths((2, 7, 9, 11)).transpose(2, 3)
    expected = forward_and_gradients(F.conv2d, x, w, b, dict(padding=1), dy)
    assert not x.is_contiguous() and not w.is_contiguous() and not b.is_contiguous() and not dy.is_contiguous()
    x_ocl = x.transpose(1, 3).contiguous().to(device).transpose(1, 3)
    w_ocl = w.permute(2, 3, 1, 0).contiguous().to(device).permute(3, 2, 0, 1)
    b_ocl = torch.stack([b, b], 1).to(device)[:, 0]
    dy_ocl = dy.transpose(2, 3).contiguous().to(device).transpose(2, 3)
    check(forward_and_gradients(F.conv2d, x_ocl, w_ocl, b_ocl, dict(padding=1), dy_ocl), expected)


def test_view_with_storage_offset():
    x, w = eighths((5, 4, 8, 8)), eighths((9, 4, 3, 3))
    check([F.conv2d(x.to(device)[2:4], w.to(device)[1:7], padding=1)], [F.conv2d(x[2:4], w[1:7], padding=1)])


@pytest.mark.parametrize("mask", [[a, b, c] for a in (False, True) for b in (False, True) for c in (False, True)],
                         ids=str)
def test_output_mask(mask):
    x, w, dy = eighths((2, 4, 6, 6)), eighths((5, 4, 3, 3)), eighths((2, 5, 6, 6))
    run = lambda dy, x, w, mask: torch.ops.aten.convolution_backward(dy, x, w, [5], [1, 1], [1, 1], [1, 1], False,
                                                                     [0, 0], 1, mask)
    results = run(dy.to(device), x.to(device), w.to(device), mask)
    assert [r is not None for r in results] == mask
    for a, e in zip(results, run(dy, x, w, [True] * 3), strict=True):
        if a is not None:
            torch.testing.assert_close(a.cpu(), e)


def test_int64():
    x, w = torch.randint(-9, 9, (2, 3, 6, 6)), torch.randint(-9, 9, (4, 3, 3, 3))
    expected = F.conv2d(x.double(), w.double()).long()
    torch.testing.assert_close(F.conv2d(x.to(device), w.to(device)).cpu(), expected)


def test_complex():
    x, w, b = (torch.complex(eighths(s, seed=1), eighths(s, seed=2)) for s in ((2, 3, 6, 6), (4, 3, 3, 3), (4,)))
    torch.testing.assert_close(F.conv2d(x.to(device), w.to(device), b.to(device)).cpu(), F.conv2d(x, w, b))


def test_double_backward():
    random = torch.Generator().manual_seed(0)
    x, w, b = (torch.randn(*s, dtype=torch.float64, generator=random).to(device).requires_grad_()
               for s in ((2, 2, 5, 4), (4, 1, 3, 2), (4,)))
    function = lambda *t: F.conv2d(*t, stride=(2, 1), padding=1, groups=2)
    assert torch.autograd.gradcheck(function, (x, w, b))
    assert torch.autograd.gradgradcheck(function, (x, w, b))


def test_same_bits_every_run():
    x, w, dy = torch.randn(4, 16, 28, 28), torch.randn(32, 16, 3, 3), torch.randn(4, 32, 28, 28)
    runs = [forward_and_gradients(F.conv2d, x.to(device), w.to(device), None, dict(padding=1), dy) for _ in range(3)]
    for other in runs[1:]:
        for a, b in zip(runs[0], other, strict=True):
            assert torch.equal(a.cpu(), b.cpu())


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 3.4e38, 1e-36])
def test_numbers_at_the_ends_of_float32(value, kernel):
    """Kernels that split float32 into shorter numbers must not notice; 1e-36 stands for a whole tensor of tiny
    numbers."""
    g = torch.Generator().manual_seed(1)
    x, w = torch.randn(2, 128, 9, 9, generator=g), torch.randn(128, 128, kernel, kernel, generator=g) / 100
    dy = torch.randn(2, 128, 9, 9, generator=g)
    if value == 1e-36:
        x, w, dy = x * 1e-36, w * 1e30, dy * 1e3
    elif value == 3.4e38:      # times less than 1
        x[1, 3, 4, 4] = value
        dy *= 1e-3
    else:                      # not where zeros of the padding meet it
        x[1, 3, 4, 4] = w[7, 5, kernel // 2, kernel // 2] = dy[0, 9, 2, 2] = value
    results = []
    for where, dtype in ((device, torch.float32), ("cpu", torch.float64)):
        a, b = (t.to(where, dtype).requires_grad_() for t in (x, w))
        y = F.conv2d(a, b, padding=kernel // 2)
        results.append([t.float().cpu() for t in (y, *torch.autograd.grad(y, (a, b), dy.to(where, dtype)))])
    for actual, expected in zip(*results):
        scale = expected[expected.isfinite()].abs().median()
        torch.testing.assert_close(actual, expected, rtol=1.3e-6, atol=float(1e-5 * scale), equal_nan=True)


ERRORS = {
    "channels": (lambda d: F.conv2d(torch.ones(1, 3, 5, 5).to(d), torch.ones(2, 4, 3, 3).to(d))),
    "dtype": (lambda d: F.conv2d(torch.ones(1, 3, 5, 5).to(d), torch.ones(2, 3, 3, 3, dtype=torch.float64).to(d))),
    "bias dtype": (lambda d: F.conv2d(torch.ones(1, 3, 5, 5).to(d), torch.ones(2, 3, 3, 3).to(d),
                                      torch.ones(2, dtype=torch.float64).to(d))),
    "bias size": (lambda d: F.conv2d(torch.ones(1, 3, 5, 5).to(d), torch.ones(2, 3, 3, 3).to(d),
                                     torch.ones(3).to(d))),
    "kernel too big": (lambda d: F.conv2d(torch.ones(1, 3, 5, 5).to(d), torch.ones(2, 3, 7, 7).to(d))),
    "negative padding": (lambda d: F.conv2d(torch.ones(1, 3, 5, 5).to(d), torch.ones(2, 3, 3, 3).to(d), padding=-1)),
    "stride": (lambda d: F.conv2d(torch.ones(1, 3, 5, 5).to(d), torch.ones(2, 3, 3, 3).to(d), stride=0)),
    "output padding": (lambda d: F.conv_transpose2d(torch.ones(1, 3, 5, 5).to(d), torch.ones(3, 3, 3, 3).to(d),
                                                    output_padding=1)),
    "groups": (lambda d: F.conv2d(torch.ones(1, 4, 5, 5).to(d), torch.ones(3, 2, 3, 3).to(d), groups=2)),
    "dimensions": (lambda d: F.conv2d(torch.ones(1, 1, 3, 5, 5).to(d), torch.ones(2, 3, 3, 3).to(d))),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_pytorchs(case):
    with pytest.raises(Exception) as expected:
        ERRORS[case]("cpu")
    with pytest.raises(type(expected.value)) as actual:
        ERRORS[case](device)
    if case == "dtype":   # PyTorch's wording on CUDA; on CPU it is "expected scalar type Float but found Double"
        assert str(actual.value) == "Input type (float) and weight type (double) should be the same"
    else:
        assert str(actual.value).split()[:8] == str(expected.value).split()[:8]


def test_devices_must_agree():
    with pytest.raises(RuntimeError, match="same device"):
        F.conv2d(torch.ones(1, 3, 5, 5).to(device), torch.randn(2, 3, 3, 3))


@pytest.mark.parametrize("size, kernel, stride, dilation", [((15, 5), 3, 3, 2), ((37, 35), 5, 1, 2),
                                                            ((1, 10), 7, 1, 1)])
def test_weight_gradients_skip_infinities_that_no_tap_reads(size, kernel, stride, dilation):
    g = torch.Generator().manual_seed(3)
    channels, padding = 6, kernel // 2
    x = torch.randn(2, channels, *size, generator=g).mul(8).round() / 8   # sums are exact in any order
    weight = torch.randn(channels, 1, kernel, kernel, generator=g)
    for channel in range(channels):
        x[0, channel, 0, channel % size[1]] = float("inf")
    grads = []
    for to in (device, torch.float64):
        w = weight.to(to).requires_grad_()
        y = F.conv2d(x.to(to), w, None, stride, padding, dilation, channels)
        y.backward(torch.ones_like(y))
        grads.append(w.grad.cpu().float())
    assert torch.equal(grads[0].isfinite(), grads[1].isfinite())
    assert grads[1].isfinite().any()
    torch.testing.assert_close(*grads, equal_nan=True)


@pytest.mark.parametrize("function", [F.conv1d, F.conv2d, F.conv3d, F.conv_transpose2d, F.conv_transpose3d])
def test_arguments_on_different_devices(function):
    """PyTorch chooses by the input's device and dispatches by the other's: an input on the CPU came round again."""
    rank = int(function.__name__[-2])
    for dtype in (torch.float32, torch.float64):
        x, w, b = (torch.ones(shape, dtype=dtype) for shape in ((1, 1, *[5] * rank), (1, 1, *[3] * rank), (1,)))
        for dilation in (1, 2):
            for places in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2)):
                arguments = [t.to(device) if i in places else t for i, t in enumerate((x, w, b))]
                with pytest.raises(RuntimeError, match="device|type"):
                    function(*arguments, dilation=dilation)


WEIGHT_GRADIENTS = """
import itertools, json, torch
wrong = []
cases = [(3, 32, 40, (7, 7), (3, 3), (1, 1), (1, 1)), (2, 16, 40, (19, 17), (3, 3), (2, 2), (1, 1)),
         (2, 24, 32, (16, 13), (3, 5), (1, 1), (0, 2)), (2, 32, 33, (18, 20), (2, 2), (3, 1), (2, 0))]
for case, dtype, layout, in_dy in itertools.product(cases, (torch.float16, torch.bfloat16),
                                                    (torch.contiguous_format, torch.channels_last), (False, True)):
    batch, channels, outputs, size, kernel, stride, padding = case
    g = torch.Generator().manual_seed(3)
    numbers = lambda *shape: torch.randn(shape, generator=g).mul(8).round().div(8)   # sums are exact in any order
    x, w = numbers(batch, channels, *size), torch.zeros(outputs, channels, *kernel)
    dy = numbers(*torch.nn.functional.conv2d(x, w, None, stride, padding).shape)
    spoilt = dy if in_dy else x
    places = list(itertools.product(*([0, n // 2, n - 1] for n in spoilt.shape[2:])))
    for i, (value, (row, column)) in enumerate(itertools.product(map(float, ("inf", "-inf", "nan")), places)):
        spoilt[i % batch, 7 * i % spoilt.shape[1], row, column] = value
    def gradient(where, dtype):
        tensors = [t.to(where, dtype).contiguous(memory_format=layout) for t in (dy, x, w)]
        return torch.ops.aten.convolution_backward(*tensors, None, stride, padding, (1, 1), False, (0, 0), 1,
                                                   (False, True, False))[1].cpu()
    exact = gradient("cpu", torch.float64).to(dtype)
    found = [bool(kind(exact).any()) for kind in (torch.isnan, torch.isinf, torch.isfinite)]
    assert all(found), (case, in_dy, found)
    try:
        torch.testing.assert_close(gradient("ocl", dtype), exact, equal_nan=True, rtol=0, atol=0)
    except AssertionError as error:
        wrong.append(f"{case} {dtype} {layout} {'dy' if in_dy else 'x'}: {error}")
print(json.dumps(wrong))
"""


@pytest.mark.parametrize("engine", ["emulated_wmma", "emulated_dpas16", "emulated_mma"])
def test_weight_gradients_by_matrix_engines_of_what_is_not_finite(device, engine):
    """Engines bring images with zeros around them: an infinity reaches the taps that see it and no others."""
    environment = {**os.environ, "CLPRIM_DEVICE_KIND": "gpu", "CLPRIM_MATRIX_ENGINE": engine}
    done = subprocess.run([sys.executable, "-c", WEIGHT_GRADIENTS], env=environment, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
