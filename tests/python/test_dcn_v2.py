"""The DCNv2 drop-in: the checks of the original package with stated tolerances, state_dict names, aliases, CPU
parity."""
import sys

import pytest
import torch
from torch import nn

from torch_ocl import dcn_v2
from torch_ocl.dcn_v2 import DCN, DCNPooling, DCNv2, DCNv2Pooling, ModulatedDeformConv2d, dcn_v2_conv, dcn_v2_pooling

from comparison import device

both = pytest.mark.parametrize("where", [device, "cpu"])
assert_close = torch.testing.assert_close


@both
@pytest.mark.parametrize("seed", range(60))
def test_zero_offset_is_a_convolution(where, seed):
    """Identity weights, zero offset, mask sigmoid(0) = 0.5: twice the output is the input, to 1e-10."""
    torch.manual_seed(seed)
    n, c, h, w = 2, 2, 4, 4
    conv_offset = nn.Conv2d(c, 18, 3, padding=1).to(where)
    conv_mask = nn.Conv2d(c, 9, 3, padding=1).to(where)
    dcn = DCNv2(c, c, 3, stride=1, padding=1).to(where)
    with torch.no_grad():
        for conv in (conv_offset, conv_mask):
            conv.weight.zero_()
            conv.bias.zero_()
        dcn.weight.zero_()
        for i in range(c):
            dcn.weight[i, i, 1, 1] = 1.0
        x = torch.randn(n, c, h, w).to(where)
        output = dcn(x, conv_offset(x), torch.sigmoid(conv_mask(x))) * 2
    assert (output.cpu() - x.cpu()).abs().max().item() < 1e-10


def away_from_integers(shape, g, dtype):
    """Offsets in [-3, 3] at least 0.15 from an integer: finite differences do not cross a kink."""
    return (torch.randint(-3, 3, shape, generator=g) + 0.15 +
            0.7 * torch.rand(shape, generator=g, dtype=torch.float64)).to(dtype)


@pytest.mark.parametrize("seed", range(60))
def test_gradient_conv(seed):
    """gradcheck in float64, eps 1e-6, atol 1e-5, rtol 1e-3: every argument of dcn_v2_conv."""
    g = torch.Generator().manual_seed(seed)
    rand = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    input, weight, bias = rand(2, 2, 4, 4) * 0.1, rand(2, 2, 3, 3), rand(2)
    offset, mask = away_from_integers((2, 18, 4, 4), g, torch.float64), torch.sigmoid(rand(2, 9, 4, 4))
    arguments = [t.requires_grad_() for t in (input, offset, mask, weight, bias)]
    function = lambda *a: dcn_v2_conv(*[t.to(device) for t in a], 1, 1, 1, 1).cpu()
    assert torch.autograd.gradcheck(function, arguments, eps=1e-6, atol=1e-5, rtol=1e-3, fast_mode=True)


@pytest.mark.parametrize("seed", range(60))
def test_gradient_pooling(seed):
    """gradcheck in float64, eps 1e-6, atol 1e-5, rtol 1e-3, of dcn_v2_pooling: for input (trans_std 0, as in the
    original), and for input and offset together with trans_std 0.1."""
    g = torch.Generator().manual_seed(seed)
    input = torch.randn(2, 3, 5, 5, generator=g, dtype=torch.float64) * 0.01
    boxes = torch.rand(4, 5, generator=g, dtype=torch.float64) * 0.5
    boxes[:, 0] = torch.tensor([0, 1, 1, 0])
    boxes[:, 1:3] *= 15
    boxes[:, 3:5] = boxes[:, 1:3] + boxes[:, 3:5] * 15
    offset = torch.randn(4, 2, 3, 3, generator=g, dtype=torch.float64)
    def pool(x, shift, std):
        arguments = [t.to(device) for t in (x, boxes, shift)]
        return dcn_v2_pooling(*arguments, 1.0 / 4, 3, 3, False, 1, 3, 2, std).cpu()
    check = dict(eps=1e-6, atol=1e-5, rtol=1e-3, fast_mode=True)
    assert torch.autograd.gradcheck(lambda x: pool(x, offset, 0.0), [input.requires_grad_()], **check)
    large = (100 * input.detach()).requires_grad_()   # so that the gradient of the offset is far above atol
    leaves = [large, offset.requires_grad_()]
    assert torch.autograd.gradcheck(lambda x, o: pool(x, o, 0.1), leaves, **check)
    (shift,) = torch.autograd.grad(pool(large, offset, 0.1).abs().sum(), offset)
    assert shift.abs().max() > 1e-2


def pooling_problem(seed, no_trans=False, group_size=1, classes=1, dtype=torch.float32, size=(9, 11)):
    g = torch.Generator().manual_seed(seed)
    output_dim, pooled, part = 4, 3, 3 if seed % 2 else 2
    rand = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    input = rand(2, output_dim * group_size ** 2, *size)
    boxes = torch.rand(7, 5, generator=g, dtype=torch.float64)
    boxes[:, 0] = torch.randint(2, (7,), generator=g)
    boxes[:, 1:3] = boxes[:, 1:3] * 50 - 10
    boxes[:, 3:5] = boxes[:, 1:3] + boxes[:, 3:5] * 40
    trans = torch.empty(0, dtype=torch.float64) if no_trans else rand(7, 2 * classes, part, part)
    parameters = (no_trans, 0.25, output_dim, group_size, pooled, part, 4, 0.1)
    return [t.to(dtype) for t in (input, boxes, trans)], parameters


@pytest.mark.parametrize("options", [dict(), dict(no_trans=True), dict(group_size=2), dict(classes=2),
                                     dict(size=(3, 40))],
                         ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pooling_matches_cpu(options, dtype):
    """Forward, top_count and both gradients against the implementation from PyTorch's operators."""
    for seed in range(6):
        (input, boxes, trans), parameters = pooling_problem(seed, dtype=dtype, **options)
        on_device = [t.to(device) for t in (input, boxes, trans)]
        out, count = torch.ops.torch_ocl.dcn_v2_psroi_pooling_forward(*on_device, *parameters)
        expected, expected_count = torch.ops.torch_ocl.dcn_v2_psroi_pooling_forward(input, boxes, trans, *parameters)
        assert_close(out.cpu(), expected)
        assert_close(count.cpu(), expected_count)
        grad = torch.randn(expected.shape, dtype=dtype)
        gi, gt = torch.ops.torch_ocl.dcn_v2_psroi_pooling_backward(grad.to(device), *on_device, count, *parameters)
        ei, et = torch.ops.torch_ocl.dcn_v2_psroi_pooling_backward(grad, input, boxes, trans, expected_count,
                                                                   *parameters)
        assert_close(gi.cpu(), ei)
        assert_close(gt.cpu(), et)


def test_pooling_zero_offset_equals_no_trans():
    (input, boxes, _), _ = pooling_problem(0)
    input, boxes = input.to(device), boxes.to(device)
    plain = DCNv2Pooling(0.25, 3, 4, True, trans_std=0.1).to(device)
    shifted = DCNv2Pooling(0.25, 3, 4, False, trans_std=0.1).to(device)
    assert torch.equal(plain(input, boxes, None).cpu(), shifted(input, boxes,
                                                                torch.zeros(7, 2, 3, 3, device=device)).cpu())


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_raw_convolution_operators(where, dtype):
    """Argument order of the C++ functions; results as torchvision's."""
    import torchvision
    g = torch.Generator().manual_seed(0)
    rand = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64).to(dtype)
    input, weight, bias, offset, mask = rand(2, 4, 6, 5), rand(6, 4, 3,
                                                               3), rand(6), rand(2, 36, 6, 5), rand(2, 18, 6, 5)
    leaves = [t.clone().requires_grad_() for t in (input, offset, mask, weight, bias)]
    i, o, m, w, b = leaves
    expected = torchvision.ops.deform_conv2d(i, o, w, b, 1, 1, 1, m)
    grad = rand(*expected.shape)
    expected.backward(grad)
    moved = [t.to(where) for t in (input, weight, bias, offset, mask)]
    parameters = (3, 3, 1, 1, 1, 1, 1, 1, 2)
    assert_close(torch.ops.torch_ocl.dcn_v2_forward(*moved, *parameters).cpu(), expected.detach())
    grads = torch.ops.torch_ocl.dcn_v2_backward(*moved, grad.to(where), *parameters)
    for ours, leaf in zip(grads, leaves):
        assert_close(ours.cpu(), leaf.grad)


@pytest.mark.parametrize("where, seed", [(device, seed) for seed in range(60)] + [("cpu", 0)])
def test_examples_run_forward_and_backward(where, seed):
    """The three examples of the original package, smaller."""
    torch.manual_seed(seed)
    dcn = DCN(16, 16, kernel_size=(3, 3), stride=1, padding=1, deformable_groups=2).to(where)
    x = torch.randn(2, 16, 32, 32).to(where)
    y = dcn(x)
    assert y.shape == (2, 16, 32, 32)
    y.backward(torch.ones_like(y))
    assert torch.isfinite(dcn.weight.grad.cpu()).all() and dcn.conv_offset_mask.weight.grad is not None

    input = torch.randn(2, 32, 16, 16).to(where).requires_grad_()
    batch = torch.randint(2, (20, 1)).float()
    x1, y1 = torch.randint(60, (20, 1)).float(), torch.randint(60, (20, 1)).float()
    rois = torch.cat((batch, x1, y1, x1 + 20, y1 + 30), 1).to(where)
    offset = torch.randn(20, 2, 7, 7).to(where).requires_grad_()
    for no_trans in (True, False):
        out = DCNv2Pooling(0.25, 7, 32, no_trans, group_size=1, trans_std=0.1).to(where)(input, rois, offset)
        assert out.shape == (20, 32, 7, 7)
        out.mean().backward()
    assert offset.grad is not None

    pooling = DCNPooling(0.25, 7, 32, no_trans=False, group_size=1, trans_std=0.1, deform_fc_dim=64).to(where)
    out = pooling(input, rois)
    assert out.shape == (20, 32, 7, 7)
    out.mean().backward()
    assert pooling.offset_mask_fc[4].weight.grad is not None


def test_names_and_initialisation():
    dcn = DCN(4, 6, 3, 1, 1, dilation=1, deformable_groups=2)
    assert list(dcn.state_dict()) == ["weight", "bias", "conv_offset_mask.weight", "conv_offset_mask.bias"]
    assert dcn.weight.shape == (6, 4, 3, 3) and dcn.conv_offset_mask.weight.shape == (54, 4, 3, 3)
    bound = (4 * 9) ** -0.5
    assert 0.8 * bound < dcn.weight.abs().max() <= bound and dcn.bias.abs().max() == 0
    assert dcn.conv_offset_mask.weight.abs().max() == 0
    assert (dcn.kernel_size, dcn.stride, dcn.padding, dcn.dilation) == ((3, 3), (1, 1), (1, 1), (1, 1))
    pooling = DCNPooling(0.25, 7, 8, False, deform_fc_dim=16)
    assert pooling.offset_mask_fc[0].in_features == 7 * 7 * 8 and pooling.offset_mask_fc[4].out_features == 7 * 7 * 3
    assert pooling.offset_mask_fc[4].weight.abs().max() == 0


@both
def test_wrong_channels_are_refused(where):
    dcn = DCNv2(2, 2, 3, 1, 1).to(where)
    x = torch.randn(1, 2, 4, 4).to(where)
    with pytest.raises(AssertionError):
        dcn(x, torch.zeros(1, 17, 4, 4).to(where), torch.zeros(1, 9, 4, 4).to(where))
    with pytest.raises(RuntimeError, match="agree"):
        dcn_v2_pooling(x, torch.zeros(1, 5).to(where), torch.zeros(0).to(where), 1.0, 3, 5, True)


def test_install_makes_old_imports_work():
    dcn_v2.install()
    dcn_v2.install("models_of_a_test.DCNv2.dcn_v2")
    sys.modules.setdefault("models_of_a_test", type(sys)("models_of_a_test")).__path__ = []
    try:
        exec("from dcn_v2 import DCN as A\nfrom models_of_a_test.DCNv2.dcn_v2 import DCN as B", scope := {})
        assert scope["A"] is DCN and scope["B"] is DCN
    finally:
        for name in [n for n in sys.modules if n == "dcn_v2" or n.startswith("models_of_a_test")]:
            del sys.modules[name]


def test_mmcv_names():
    torch.manual_seed(0)
    module = ModulatedDeformConv2d(4, 6, 3, padding=1, groups=2, deform_groups=2)
    x, offset, mask = torch.randn(1, 4, 5, 6), torch.randn(1, 36, 5, 6), torch.rand(1, 18, 5, 6)
    expected = module(x, offset, mask)
    assert_close(module.to(device)(x.to(device), offset.to(device), mask.to(device)).cpu(), expected)
    pack = dcn_v2.ModulatedDeformConv2dPack(4, 6, 3, padding=1)
    assert list(pack.state_dict()) == ["weight", "bias", "conv_offset.weight", "conv_offset.bias"]


def test_compiled_in_one_graph():
    """Its convolution of offsets, split and sigmoid included; forward and backward."""
    dcn = DCN(4, 4, 3, 1, 1).to(device)
    torch.nn.init.normal_(dcn.conv_offset_mask.weight, std=0.02)
    x = torch.randn(1, 4, 6, 6).to(device).requires_grad_()
    leaves = (x, *dcn.parameters())
    expected = torch.relu(dcn(x))
    gradients = torch.autograd.grad(expected.square().sum(), leaves)
    torch._dynamo.reset()
    actual = torch.compile(lambda x: torch.relu(dcn(x)), fullgraph=True)(x)
    assert_close(actual.cpu(), expected.cpu())
    for ours, theirs in zip(torch.autograd.grad(actual.square().sum(), leaves), gradients):
        assert_close(ours.cpu(), theirs.cpu(), rtol=1e-4, atol=1e-5)


def test_autocast_computes_in_float32():
    dcn = DCN(8, 8, 3, 1, 1).to(device)
    torch.nn.init.normal_(dcn.conv_offset_mask.weight, std=0.02)
    x = torch.randn(1, 8, 6, 6).to(device)
    with torch.autocast("ocl", dtype=torch.float16):
        y = dcn(x.half())
    assert y.dtype == torch.float16
    assert_close(y.float().cpu(), dcn(x).cpu(), rtol=0.02, atol=0.02)
    y.float().sum().backward()
    assert torch.isfinite(dcn.weight.grad.cpu()).all()
