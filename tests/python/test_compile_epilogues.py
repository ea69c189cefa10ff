"""torch.compile on the device: what products and convolutions do in the same launch."""
import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor import config

from compiled import check, device

randn = torch.randn
OF_CONVOLUTIONS = {
    "none": lambda y: y, "relu": F.relu, "silu": F.silu, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "sigmoid": torch.sigmoid, "relu6": F.relu6, "leaky_relu": functools.partial(F.leaky_relu, negative_slope=0.2),
    "gelu": F.gelu, "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
}
OF_PRODUCTS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": functools.partial(F.gelu, approximate="tanh")}


def launches(function, *args):
    """Of the second call of a compiled function, whose results are those of the CPU."""
    torch._dynamo.reset()
    ours = [a.to(device) for a in args]
    compiled = torch.compile(function, fullgraph=True)
    with torch.no_grad(), config.patch(force_disable_caches=True):
        compiled(*ours)
        torch.ocl.synchronize()
        before = torch.ocl.kernel_launches()
        actual = compiled(*ours)
        torch.ocl.synchronize()
        count = torch.ocl.kernel_launches() - before
        wide = [a.float() if a.dtype in (torch.float16, torch.bfloat16) else a for a in args]
        tolerances = dict(atol=3e-2, rtol=2e-2) if args[0].itemsize == 2 else dict(atol=3e-5, rtol=1e-5)
        torch.testing.assert_close(actual.cpu(), function(*wide).to(args[0].dtype), **tolerances)
    for after, before in zip(ours, args):
        assert torch.equal(after.cpu(), before), "an argument was written to"
    return count


def test_without_implicit_fallbacks():
    x, w, b = randn(2, 3, 9, 9), randn(4, 3, 3, 3), randn(4)
    with config.patch(implicit_fallbacks=False):
        check(lambda x, w, b: F.conv2d(x, w, b).relu(), x, w, b)
        check(lambda x, w, b: F.linear(x, w, b).relu(), randn(5, 6), randn(4, 6), b)


def alone(function, *args):
    """Launches of an operator by itself: some pack what they read."""
    ours = [a.to(device) for a in args]
    function(*ours)
    torch.ocl.synchronize()
    before = torch.ocl.kernel_launches()
    function(*ours)
    return torch.ocl.kernel_launches() - before


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_activations_of_products(dtype):
    x, w, b = randn(12, 24).to(dtype), randn(16, 24).to(dtype), randn(16).to(dtype)
    expected = alone(F.linear, x, w, b)
    for activation in OF_PRODUCTS.values():
        assert launches(lambda x, w, b, f=activation: f(F.linear(x, w, b)), x, w, b) == expected
    # The product of a tensor with more dimensions is seen as such afterwards.
    assert launches(lambda x, w, b: F.gelu(F.linear(x, w, b)), x.view(3, 4, 24), w, b) == expected
    assert launches(lambda x, w: F.relu(x @ w.t()), x, w) == expected


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16))
def test_activations_of_convolutions(dtype):
    x, w, b = randn(2, 6, 10, 10).to(dtype), (randn(8, 6, 3, 3) / 8).to(dtype), randn(8).to(dtype)
    expected = alone(F.conv2d, x, w, b)
    for activation in OF_CONVOLUTIONS.values():
        assert launches(lambda x, w, b, f=activation: f(F.conv2d(x, w, b)), x, w, b) == expected


def test_convolutions_of_other_kinds():
    x, w, b = randn(2, 6, 10, 10), randn(6, 4, 3, 3) / 8, randn(8)
    channels_last = x.to(memory_format=torch.channels_last)
    assert launches(lambda x, w, b: F.silu(F.conv_transpose2d(x, w, b, 2, groups=2)), x, w, b) == \
        alone(lambda x, w, b: F.conv_transpose2d(x, w, b, 2, groups=2), x, w, b)
    w, b = randn(6, 1, 3, 3), randn(6)
    assert launches(lambda x, w, b: F.relu(F.conv2d(x, w, b, groups=6)), channels_last, w, b) == \
        alone(lambda x, w, b: F.conv2d(x, w, b, groups=6), channels_last, w, b)
    x, w, b = randn(2, 6, 20), randn(8, 6, 3) / 8, randn(8)
    assert launches(lambda x, w, b: F.relu(F.conv1d(x, w, b)), x, w, b) == alone(F.conv1d, x, w, b)


def test_additions_to_convolutions():
    x, w, b = randn(2, 8, 10, 10), randn(8, 8, 3, 3) / 8, randn(8)
    one = alone(functools.partial(F.conv2d, padding=1), x, w, b)

    def block(x, w, b):                     # the second convolution adds to the first one's result
        return F.relu(F.conv2d(x, w, b, padding=1) + F.conv2d(x, w, padding=1))

    assert launches(block, x, w, b) == 2 * one
    assert launches(lambda x, w, b: x + F.conv2d(x, w, b, padding=1), x, w, b) == one + 1     # x stays as it is

    def used_again(x, w, b):
        y = F.relu(F.conv2d(x, w, b, padding=1))
        return F.relu(F.conv2d(y, w, b, padding=1) + y) + y

    def shown_elsewhere(x, w, b):
        y = F.relu(F.conv2d(x, w, b, padding=1))
        seen = y.flatten(1)
        return F.relu(F.conv2d(y, w, b, padding=1) + y).flatten(1) + seen

    for function in (used_again, shown_elsewhere):
        assert launches(function, x, w, b) == 2 * one + 1


def test_additions_of_what_is_read():
    """A convolution does not write to what it reads itself, nor to what another one reads that has moved behind it."""
    x, w, b = randn(2, 8, 10, 10), randn(8, 8, 3, 3) / 8, randn(8)
    convolution = functools.partial(F.conv2d, padding=1)
    one = alone(convolution, x, w, b)

    def of_its_input(x, w, b):
        y = x.sin()
        return y + convolution(y, w, b)

    def first_moves(x, w, b):
        y, z = x.sin(), x.cos()
        first, second = convolution(y, w), convolution(x, w, b)
        return (y + second).tanh() * (first + z)

    def second_moves(x, w, b):
        y, z = x.sin(), x.cos()
        second, first = convolution(x, w, b), convolution(y, w)
        return (y + second).tanh() * (first + z)

    def in_turn(x, w, b):                   # nothing here keeps a convolution from its place
        y, z = x.sin(), x.cos()
        y = y + convolution(x, w, b)
        return z + convolution(y, w)

    for function, count in ((of_its_input, one + 2), (first_moves, 2 * one + 2), (second_moves, 2 * one + 2),
                            (in_turn, 2 * one + 1)):
        assert launches(function, x, w, b) == count, function.__name__


def test_additions_of_reshaped_copies():
    """Of one copy in two shapes."""
    def function(x, w, b):
        y = x.permute(0, 2, 3, 1)
        again = y.reshape(2, -1)
        total = F.relu(F.conv2d(x, w, b, padding=1) + y.reshape(2, 8, 10, 10))
        return total.flatten(1) - again

    launches(function, randn(2, 8, 10, 10), randn(8, 8, 3, 3) / 8, randn(8))


@pytest.mark.parametrize("padding", ("valid", "same"))
def test_padding_by_name(padding):
    x, w, b = randn(2, 3, 9, 8), randn(4, 3, 3, 3), randn(4)
    check(lambda x, w, b: F.conv2d(x, w, b, padding=padding), x, w, b)
    check(lambda x, w, b: F.relu(F.conv2d(x, w, padding=padding)), x, w, b)


def test_batch_norms_of_frozen_models():
    model = nn.Sequential(nn.Conv2d(16, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                          nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()).eval()
    for norm in (model[1], model[4]):
        nn.init.normal_(norm.running_mean), nn.init.uniform_(norm.running_var, 0.5, 2)
    x = randn(2, 16, 12, 12).contiguous(memory_format=torch.channels_last)
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(freezing=True, force_disable_caches=True):
        expected = model(x)
        compiled = torch.compile(model.to(device), fullgraph=True)
        compiled(x.to(device))
        torch.ocl.synchronize()
        before = torch.ocl.kernel_launches()
        actual = compiled(x.to(device))
        assert torch.ocl.kernel_launches() - before == 2
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-5, rtol=1e-5)


def with_statistics(model):
    for norm in model.modules():
        if isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.normal_(norm.running_mean), nn.init.uniform_(norm.running_var, 0.5, 2)
            if norm.affine:
                nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    return model.eval()


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_batch_norms_of_convolutions(dtype):
    model = with_statistics(nn.Sequential(
        nn.Conv2d(4, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=16),
        nn.BatchNorm2d(16), nn.Hardswish(), nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8, affine=False))).to(dtype)
    x = randn(2, 4, 24, 24, dtype=dtype)
    ours, given = copy.deepcopy(model).to(device), x.to(device)
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(force_disable_caches=True):
        compiled = torch.compile(ours, fullgraph=True)
        torch.testing.assert_close(compiled(given).cpu(), model(x), atol=1e-5, rtol=1e-5)
        with torch.ocl.profile_kernels() as kernels:
            compiled(given)
            torch.ocl.synchronize()
        generated = [row["name"] for row in kernels.rows() if row["name"].startswith("ocl_")]
        assert generated and not any("relu" in name or "hardswish" in name for name in generated)
        model[1].weight.mul_(2), ours[1].weight.mul_(2)      # a parameter that changes afterwards
        torch.testing.assert_close(compiled(given).cpu(), model(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("layout", (torch.contiguous_format, torch.channels_last))
def test_batch_norms_are_no_generated_kernels(dtype, layout):
    """Their part of weights and bias is a call: networks of many convolutions compile no kernel for each."""
    model = with_statistics(nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=4), nn.BatchNorm2d(8),
        nn.SiLU(), nn.Conv2d(8, 6, 1, bias=False), nn.BatchNorm2d(6, eps=0.1))).to(dtype).to(memory_format=layout)
    x = randn(2, 3, 24, 24, dtype=dtype).to(memory_format=layout)
    ours, given = copy.deepcopy(model).to(device), x.to(device)
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(force_disable_caches=True):
        compiled = torch.compile(ours, fullgraph=True)
        actual = compiled(given)
        assert actual.is_contiguous(memory_format=layout)
        tolerances = dict(atol=1e-5, rtol=1e-5) if dtype == torch.float32 else dict(atol=1e-12, rtol=1e-10)
        torch.testing.assert_close(actual.cpu(), model(x), **tolerances)
        with torch.ocl.profile_kernels() as kernels:
            compiled(given)
            torch.ocl.synchronize()
        assert not any(row["name"].startswith("ocl_") for row in kernels.rows())
        model[1].running_mean.add_(2), ours[1].running_mean.add_(2)
        torch.testing.assert_close(compiled(given).cpu(), model(x), **tolerances)


def test_folded_batch_norm_of_strided_weights():
    weight, channels = randn(6, 4, 3, 5)[:, ::2, :, 1::2], [torch.rand(12)[::2] + 0.5 for _ in range(5)]
    bias, gamma, beta, mean, variance = channels
    fold = torch.ops.torch_ocl.fold_batch_norm
    for given in (bias, None):
        scaled, shifted = fold(weight.to(device), *(None if t is None else t.to(device)
                                                    for t in (given, gamma, beta, mean, variance)), 1e-3)
        factor = gamma.double() / (variance.double() + 1e-3).sqrt()
        torch.testing.assert_close(scaled.cpu(), (weight * factor.view(-1, 1, 1, 1)).float())
        moved = (0 if given is None else given) - mean
        torch.testing.assert_close(shifted.cpu(), (moved * factor + beta).float())
    inputs = [t.to(device) for t in (weight, bias, gamma, beta, mean, variance)]
    torch.library.opcheck(fold.default, (*inputs, 1e-3))


def test_batch_norms_whose_convolution_is_needed():
    model = with_statistics(nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)))

    def both(x):
        y = model[0](x)
        return y, model[1](y)

    x = randn(2, 4, 12, 12)
    expected = both(x)
    model.to(device)
    torch._dynamo.reset()
    with config.patch(force_disable_caches=True):
        for a, b in zip(torch.compile(both, fullgraph=True)(x.to(device)), expected):
            torch.testing.assert_close(a.cpu(), b, atol=1e-5, rtol=1e-5)
        with torch.no_grad():
            for a, b in zip(torch.compile(both, fullgraph=True)(x.to(device)), expected):
                torch.testing.assert_close(a.cpu(), b, atol=1e-5, rtol=1e-5)


def test_numbers_of_channels_that_are_no_batch_norm():
    w, b, s = randn(6, 4, 3, 3) / 6, randn(6), randn(6, 1, 1)
    check(lambda x, w, b, s: F.relu((s * F.conv2d(x, w, b) - s.square()) * s + 1), randn(2, 4, 12, 12), w, b, s,
          atol=1e-5, rtol=1e-5)
    check(lambda x, w, b, s: s - F.conv2d(x, w, b) * s, randn(2, 4, 12, 12), w, b, s, atol=1e-5, rtol=1e-5)
    check(lambda x, w: F.conv2d(x, w) * s[:1].to(x), randn(2, 4, 12, 12), w, atol=1e-5, rtol=1e-5)

    def itself(x, w):           # numbers of channels by its shape
        y = F.conv2d(x, w)
        return y * y

    check(itself, randn(1, 1, 3, 3), randn(6, 1, 3, 3), atol=1e-5, rtol=1e-5)
    # Rows of the last dimension, where channels are as many.
    check(lambda x, w: F.conv2d(x, w) * torch.arange(6.0, device=x.device), randn(2, 4, 8, 8), w, atol=1e-5, rtol=1e-5)


def test_batch_norms_with_any_sizes():
    model = with_statistics(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.SiLU()))
    ours = copy.deepcopy(model).to(device)
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(force_disable_caches=True):
        compiled = torch.compile(ours, dynamic=True, fullgraph=True)
        for shape in ((2, 3, 18, 19), (1, 3, 27, 15)):
            x = randn(shape)
            torch.testing.assert_close(compiled(x.to(device)).cpu(), model(x), atol=1e-5, rtol=1e-5)


def test_results_that_are_needed_stay():
    check(lambda x, w, b: F.gelu(F.linear(x, w, b)), randn(8, 12, requires_grad=True), randn(5, 12, requires_grad=True),
          randn(5, requires_grad=True), atol=3e-5, rtol=1.3e-6)
    check(lambda x, w, b: F.relu(F.conv2d(x, w, b)), randn(2, 3, 8, 8, requires_grad=True),
          randn(4, 3, 3, 3, requires_grad=True), randn(4, requires_grad=True), atol=3e-5, rtol=1.3e-6)

    def both(x, w):
        y = x @ w
        return y, F.relu(y), torch.sigmoid(y) * 2

    check(both, randn(6, 8), randn(8, 4), atol=3e-5, rtol=1.3e-6)


def test_any_sizes():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w, b: F.silu(F.conv2d(x, w, b, padding=1)), dynamic=True, fullgraph=True)
    w, b = randn(4, 3, 3, 3), randn(4)
    for shape in ((2, 3, 8, 9), (1, 3, 17, 5)):
        x = randn(shape)
        torch.testing.assert_close(compiled(x.to(device), w.to(device), b.to(device)).cpu(),
                                   F.silu(F.conv2d(x, w, b, padding=1)), atol=3e-5, rtol=1e-5)
