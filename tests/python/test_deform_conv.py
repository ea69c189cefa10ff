"""deform_conv2d on the device against torchvision on the CPU, and against the formula in float64."""
import itertools

import pytest
import torch
import torchvision
from torchvision.ops import DeformConv2d, deform_conv2d

from comparison import device

assert_close = torch.testing.assert_close


def problem(n=2, c=4, o=6, size=(9, 8), kernel=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1,
            offset_groups=1, mask=True, bias=True, spread=2.0, dtype=torch.float32, seed=0):
    """CPU tensors (x, offset, weight, bias, mask), a gradient, and the parameters of one call."""
    g = torch.Generator().manual_seed(seed)
    out = [(size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    taps = kernel[0] * kernel[1]
    randn = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64).to(dtype)
    tensors = [randn(n, c, *size), randn(n, 2 * offset_groups * taps, *out) * spread,
               randn(o, c // groups, *kernel) * 0.3,
               randn(o) if bias else None,
               torch.rand(n, offset_groups * taps, *out, generator=g, dtype=torch.float64).to(dtype) if mask else None]
    return tensors, randn(n, o, *out), dict(stride=stride, padding=padding, dilation=dilation)


def run(tensors, grad, parameters, where, change=lambda t: t):
    """Output and gradients of all tensors, on the CPU."""
    leaves = [None if t is None else change(t.detach().to(where)).requires_grad_() for t in tensors]
    x, offset, weight, bias, mask = leaves
    y = deform_conv2d(x, offset, weight, bias, mask=mask, **parameters)
    y.backward(change(grad.to(where)))
    return [y.detach().cpu()] + [None if t is None else t.grad.cpu() for t in leaves]


def compare(tensors, grad, parameters, change=lambda t: t, **tolerance):
    """Device against CPU. Sums in float32 round, in another order each: where torchvision's own are further from
    float64 than the tolerance, the device's may be no further from float64 than those."""
    names = "y x offset weight bias mask".split()
    native = run(tensors, grad, parameters, "cpu")
    exact = run([None if t is None else t.double() for t in tensors], grad.double(), parameters, "cpu")
    for name, a, b, c in zip(names, run(tensors, grad, parameters, device, change), native, exact):
        try:
            assert_close(a, b, **tolerance, msg=lambda m: f"{name}: {m}")
        except AssertionError:
            if b.dtype != torch.float32 or a.shape != b.shape or not (a - c).norm() <= (b - c).norm():
                raise


cases = {
    "plain": {},
    "no_mask_no_bias": dict(mask=False, bias=False),
    "groups": dict(c=8, o=8, groups=2, offset_groups=4),
    "offset_groups_across_groups": dict(c=12, o=6, groups=3, offset_groups=2),
    "depthwise": dict(c=6, o=6, groups=6, offset_groups=3),
    "strided_dilated": dict(size=(13, 11), stride=(2, 3), padding=(2, 1), dilation=(2, 1), kernel=(3, 2)),
    "1x1": dict(kernel=(1, 1), padding=(0, 0)),
    "5x3_many_channels": dict(n=1, c=70, o=67, kernel=(5, 3), padding=(2, 1), size=(7, 20)),
    "far_offsets": dict(spread=30.0),
    "tiles": dict(n=3, c=64, o=48, size=(12, 13)),
    "tiles_groups": dict(n=2, c=128, o=64, groups=2, offset_groups=4, size=(6, 7)),
    "wide_channels": dict(n=1, c=32, o=96, size=(5, 30), offset_groups=1, mask=False),
    "one_pixel": dict(n=1, size=(1, 1)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", cases)
def test_matches_torchvision(case, dtype):
    compare(*problem(**cases[case], dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("case", ["plain", "groups", "tiles"])
def test_half_precision_is_the_rounded_float32(case, dtype):
    tensors, grad, parameters = problem(**cases[case], dtype=dtype)
    wide = [None if t is None else t.float() for t in tensors]
    for a, b in zip(run(tensors, grad, parameters, device), run(wide, grad.float(), parameters, "cpu")):
        assert a.dtype == dtype
        assert_close(a, b.to(dtype))


@pytest.mark.parametrize("case", ["plain", "tiles", "groups", "tiles_groups"])
def test_channels_last_stays_and_agrees(case):
    tensors, grad, parameters = problem(**cases[case])
    last = lambda t: t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t
    compare(tensors, grad, parameters, last)
    x, offset, weight, bias, mask = [last(t.to(device)) for t in tensors]
    y = deform_conv2d(x, offset, weight, bias, mask=mask, **parameters)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_strided_and_offset_views():
    tensors, grad, parameters = problem(**cases["plain"])
    def holes(t):   # every second element of a larger tensor, not at its start
        big = torch.zeros(*[2 * s + 1 for s in t.shape], device=t.device, dtype=t.dtype)
        inner = big[tuple(slice(1, None, 2) for _ in t.shape)]
        inner.copy_(t)
        return inner.detach()
    for a, b in zip(run(tensors, grad, parameters, device, holes), run(tensors, grad, parameters, "cpu")):
        assert_close(a, b)


def test_integer_and_border_positions():
    """Exactly on pixels, on the border lines -1 and H, and far outside: value and one-sided derivatives as
    torchvision."""
    tensors, grad, parameters = problem(n=2, c=3, o=4, size=(6, 5))
    values = torch.tensor([-7.0, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 7, 1e4, -1e4])
    g = torch.Generator().manual_seed(1)
    tensors[1] = values[torch.randint(len(values), tensors[1].shape, generator=g)]
    compare(tensors, grad, parameters)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30, -1e30])
@pytest.mark.parametrize("channels", [4, 32])
def test_offsets_that_are_no_position_give_zero(value, channels):
    tensors, grad, parameters = problem(c=channels, o=channels)
    tensors[1][:, :2] = value            # tap 0 of every pixel
    clean = [None if t is None else t.clone() for t in tensors]
    clean[1][:, :2] = 1e4                # outside, in torchvision's defined range
    for name, a, b in zip("y x offset weight bias mask".split(), run(tensors, grad, parameters, device),
                          run(clean, grad, parameters, "cpu")):
        assert_close(a, b, msg=lambda m: f"{name}: {m}")


def test_infinite_pixels_do_not_leak_into_samples_outside():
    tensors, grad, parameters = problem(c=32, o=32, bias=False, mask=False)
    tensors[0][:, :, 0, 0] = float("inf")
    tensors[1][:] = 100.0
    x, offset, weight = [t.to(device) for t in tensors[:3]]
    assert deform_conv2d(x, offset, weight, **parameters).cpu().abs().max() == 0


@pytest.mark.parametrize("place", ["pixel", "weight", "offset of zero"])
def test_infinities_reach_the_outputs_that_take_them_up(place):
    (x, offset, weight, bias, mask), _, parameters = problem(c=64, o=48)
    if place == "pixel":
        x[0, 3, 2, 2] = float("inf")
    elif place == "weight":
        weight[5, 40, 1, 1] = float("inf")
    else:
        offset[:] = 0
        x[1, 50, 1, :] = -float("inf")
    tensors = [x, offset, weight, bias, mask]
    assert_close(deform_conv2d(*[t.to(device) for t in tensors[:4]], mask=mask.to(device), **parameters).cpu(),
                 deform_conv2d(*tensors[:4], mask=mask, **parameters), equal_nan=True)


@pytest.mark.parametrize("tiny", ["x", "weight"])
def test_products_of_the_smallest_numbers_keep_their_accuracy(tiny):
    (x, offset, weight, _, mask), _, parameters = problem(c=64, o=48, bias=False)
    scale = 2.0**-115
    result = deform_conv2d((x * (scale if tiny == "x" else 1)).to(device), offset.to(device),
                           (weight * (scale if tiny == "weight" else 1)).to(device), mask=mask.to(device), **parameters)
    assert_close(result.cpu() / scale, deform_conv2d(x, offset, weight, mask=mask, **parameters))


def sample_reference(x, y, pos_x):
    """Bilinear sampling of one plane by the definition, in float64; x [H, W], positions of any shape."""
    h, w = x.shape
    total = torch.zeros_like(y)
    for dy, dx in itertools.product((0, 1), (0, 1)):
        cy, cx = y.floor() + dy, pos_x.floor() + dx
        weight = (1 - (y - cy).abs()) * (1 - (pos_x - cx).abs())
        ok = (cy >= 0) & (cy < h) & (cx >= 0) & (cx < w) & (y > -1) & (y < h) & (pos_x > -1) & (pos_x < w)
        value = x[cy.clamp(0, h - 1).long(), cx.clamp(0, w - 1).long()]
        total = total + torch.where(ok, weight * value, 0.0)
    return total


def reference(tensors, parameters, offset_groups):
    x, offset, weight, bias, mask = [None if t is None else t.double() for t in tensors]
    n, c, h, w = x.shape
    o, per_group, kh, kw = weight.shape
    oh, ow = offset.shape[2:]
    (sh, sw), (ph, pw), (dh, dw) = parameters["stride"], parameters["padding"], parameters["dilation"]
    columns = torch.zeros(n, c, kh * kw, oh, ow, dtype=torch.float64)
    base_y = (torch.arange(oh) * sh - ph)[:, None].double()
    base_x = (torch.arange(ow) * sw - pw)[None, :].double()
    for b, ch, k in itertools.product(range(n), range(c), range(kh * kw)):
        tap = ch // (c // offset_groups) * kh * kw + k
        y = base_y + k // kw * dh + offset[b, 2 * tap]
        xx = base_x + k % kw * dw + offset[b, 2 * tap + 1]
        columns[b, ch, k] = sample_reference(x[b, ch], y, xx) * (1 if mask is None else mask[b, tap])
    groups = c // per_group
    columns = columns.reshape(n, groups, per_group * kh * kw, oh * ow)
    out = torch.einsum("gok,bgkp->bgop", weight.reshape(groups, o // groups, -1), columns).reshape(n, o, oh, ow)
    return out if bias is None else out + bias[None, :, None, None]


def test_200_random_cases_against_the_definition():
    g = torch.Generator().manual_seed(7)
    pick = lambda *options: options[torch.randint(len(options), (1,), generator=g).item()]
    for seed in range(200):
        groups, offset_groups = pick(1, 1, 2), pick(1, 1, 2)
        kernel = (pick(1, 2, 3), pick(1, 3))
        parameters = dict(n=pick(1, 2), c=pick(4, 8), o=pick(2, 4), size=(pick(3, 5, 6), pick(4, 7)), kernel=kernel,
                          stride=(pick(1, 2), pick(1, 2)), padding=(pick(0, 1, 2), pick(0, 1)),
                          dilation=(1, pick(1, 2)), groups=groups, offset_groups=offset_groups, mask=pick(True, False),
                          bias=pick(True, False), spread=pick(0.5, 2.0, 20.0), seed=seed)
        if parameters["size"][0] + 2 * parameters["padding"][0] < kernel[0] or \
                parameters["size"][1] + 2 * parameters["padding"][1] < parameters["dilation"][1] * (kernel[1] - 1) + 1:
            continue
        tensors, _, call = problem(**parameters)
        if seed % 4 == 0:
            tensors[1] = tensors[1].round()
        x, offset, weight, bias, mask = [None if t is None else t.to(device) for t in tensors]
        y = deform_conv2d(x, offset, weight, bias, mask=mask, **call)
        expected = reference(tensors, call, offset_groups).float()
        assert_close(y.cpu(), expected, msg=lambda m: f"case {seed} {parameters}: {m}")


@pytest.mark.parametrize("case", ["plain", "groups"])
def test_gradcheck(case):
    changes = dict(cases[case], n=1, size=(4, 3), dtype=torch.float64, spread=0.0)
    tensors, _, parameters = problem(**changes)
    g = torch.Generator().manual_seed(3)   # away from integers: derivatives exist
    tensors[1] = torch.randint(-2, 3, tensors[1].shape, generator=g) + 0.2 + 0.6 * torch.rand(
        tensors[1].shape, generator=g, dtype=torch.float64)
    leaves = [t.requires_grad_() for t in tensors]
    def function(*leaves):
        x, offset, weight, bias, mask = [t.to(device) for t in leaves]
        return deform_conv2d(x, offset, weight, bias, mask=mask, **parameters).cpu()
    assert torch.autograd.gradcheck(function, leaves, fast_mode=True)


@pytest.mark.parametrize("case", ["tiles", "groups"])
def test_same_bits_every_run(case):
    tensors, grad, parameters = problem(**cases[case])
    tensors[1].mul_(0.1)   # many samples per bin
    first = run(tensors, grad, parameters, device)
    for _ in range(3):
        for a, b in zip(first, run(tensors, grad, parameters, device)):
            assert torch.equal(a, b)


def test_all_samples_on_one_pixel():
    tensors, grad, parameters = problem(n=1, c=32, o=32, size=(24, 24))
    rows = torch.arange(24.0)
    for k in range(9):   # tap k of output (i, j) always samples (4.25, 5.5)
        tensors[1][:, 2 * k] = 4.25 - (rows[:, None] - 1 + k // 3)
        tensors[1][:, 2 * k + 1] = 5.5 - (rows[None, :] - 1 + k % 3)
    for a, b in zip(run(tensors, grad, parameters, device),
                    run([t.double() for t in tensors], grad.double(), parameters, "cpu")):
        assert_close(a.double(), b, rtol=1e-4, atol=1e-3)   # sums of 5184 terms in float32


def test_zero_batch():
    tensors, grad, parameters = problem(n=0)
    results = run(tensors, grad, parameters, device)
    assert results[0].shape == grad.shape and results[1].shape == tensors[0].shape
    assert results[3].abs().max() == 0 and results[4].abs().max() == 0


def test_module_script_and_trace():
    torch.manual_seed(0)
    module = DeformConv2d(4, 6, 3, padding=1)
    (x, offset, _, _, mask), _, _ = problem()
    expected = module(x, offset, mask)
    module.to(device)
    arguments = [t.to(device) for t in (x, offset, mask)]
    assert_close(module(*arguments).cpu(), expected)
    assert_close(torch.jit.script(module)(*arguments).cpu(), expected)


def test_export_and_meta():
    module = DeformConv2d(4, 6, 3, padding=1).to(device)
    (x, offset, _, _, mask), _, _ = problem()
    arguments = tuple(t.to(device) for t in (x, offset, mask))
    program = torch.export.export(module, arguments)
    assert_close(program.module()(*arguments), module(*arguments))


def test_double_backward_is_refused():
    tensors, _, parameters = problem()
    x, offset, weight, bias, mask = [t.to(device).requires_grad_() for t in tensors]
    y = deform_conv2d(x, offset, weight, bias, mask=mask, **parameters)
    (gx,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backwards on deform_conv2d not supported"):
        gx.sum().backward()


def test_autocast_computes_in_float32():
    tensors, _, parameters = problem()
    x, offset, weight, bias, mask = [t.to(device) for t in tensors]
    with torch.autocast("ocl", dtype=torch.float16):
        y = deform_conv2d(x.half(), offset, weight, bias, mask=mask.half(), **parameters)
    expected = deform_conv2d(x.half().float(), offset, weight, bias, mask=mask.half().float(), **parameters).half()
    assert y.dtype == torch.float16
    assert_close(y.cpu(), expected.cpu())


@pytest.mark.parametrize("change, message", [
    (lambda t: t.__setitem__(1, t[1][:, :16]), "offset.shape\\[1\\] is not valid|offset"),
    (lambda t: t.__setitem__(4, t[4][:, :5]), "mask.shape\\[1\\] is not valid: got: 5 expected: 9"),
    (lambda t: t.__setitem__(1, t[1][:1]), "invalid batch size of offset"),
    (lambda t: t.__setitem__(1, t[1][:, :, :4]), "offset output dims: \\(4, 8\\) - computed output dims: \\(9, 8\\)"),
    (lambda t: t.__setitem__(4, t[4][:, :, :4]), "mask output dims"),
    (lambda t: t.__setitem__(2, t[2].double()), "same type|dtype"),
    (lambda t: t.__setitem__(0, t[0][:, :, 0]), "4|unpack"),
    (lambda t: t.__setitem__(3, t[3][:3]), "bias must have shape \\[6\\]"),
    (lambda t: t.__setitem__(2, t[2].cpu()), "same device"),
])
def test_bad_arguments(change, message):
    tensors, _, parameters = problem()
    tensors = [t.to(device) for t in tensors]
    change(tensors)
    x, offset, weight, bias, mask = tensors
    with pytest.raises((RuntimeError, ValueError), match=message):
        deform_conv2d(x, offset, weight, bias, mask=mask, **parameters)


@pytest.mark.parametrize("parameters", [dict(stride=0), dict(padding=-1), dict(dilation=0)])
def test_bad_parameters(parameters):
    tensors, _, call = problem()
    x, offset, weight, bias, mask = [t.to(device) for t in tensors]
    with pytest.raises(RuntimeError, match="stride|pad|dilation"):
        deform_conv2d(x, offset, weight, bias, mask=mask, **{**call, **parameters})
