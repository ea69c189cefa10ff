"""Nested tensors: the jagged layout on kernels of the device, the strided one by its parts."""

import warnings

import pytest
import torch

from comparison import device

LENGTHS = [3, 0, 5, 2]


def rows(width=8, dtype=torch.float32):
    return [torch.randn(n, width).to(dtype) for n in LENGTHS]


def jagged(parts, where="cpu", **options):
    return torch.nested.nested_tensor(parts, layout=torch.jagged, device=where, **options)


def same(got, want, **tolerances):
    assert got.device.type == "ocl"
    if got.is_nested:
        for a, b in zip(got.unbind(), want.unbind(), strict=True):
            torch.testing.assert_close(a.cpu(), b, **tolerances)
    else:
        torch.testing.assert_close(got.cpu(), want, **tolerances)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_padding_and_back(dtype, shape):
    values = torch.randint(0, 5, (10, *shape)).to(dtype)
    offsets = torch.tensor([0, 3, 3, 8, 10])
    fill = 1.0 if dtype == torch.bool else -2.0
    wide = torch.ops.aten._jagged_to_padded_dense_forward(values.to(device), [offsets.to(device)], [6], fill)
    want = torch.full((4, 6, *shape), fill).to(dtype)
    for i in range(4):
        part = values[offsets[i]:offsets[i + 1]]
        want[i, :len(part)] = part
    same(wide, want)
    for total in ([10], []):
        same(torch.ops.aten._padded_dense_to_jagged_forward(wide, [offsets.to(device)], *total), values)
    cut = torch.ops.aten._jagged_to_padded_dense_forward(values.to(device), [offsets.to(device)], [4], fill)
    same(cut, want[:, :4])
    back = torch.ops.aten._padded_dense_to_jagged_forward(cut, [offsets.to(device)])
    short = values.clone()
    short[7] = 0   # the fifth of a row of four
    same(back, short)


def test_padding_checks_its_arguments():
    values, offsets = torch.ones(3, 2, device=device), torch.tensor([0, 1, 3], device=device)
    with pytest.raises(RuntimeError, match="_jagged_to_padded_dense_forward: expected int64 or int32 offsets"):
        torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets.float()], [2])
    with pytest.raises(RuntimeError, match="_padded_dense_to_jagged_forward: expected offsets of 5 elements"):
        torch.ops.aten._padded_dense_to_jagged_forward(torch.ones(4, 2, device=device), [offsets])


def test_jagged_life():
    parts = rows()
    x, y = jagged(parts), jagged(parts, device)
    same(y, x)
    same(x.to(device), x)
    same(y.clone(), x)
    assert y.cpu().device.type == "cpu"
    assert "ocl:0" in repr(y)
    same(y.to_padded_tensor(0.0), x.to_padded_tensor(0.0))
    same(torch.nested.nested_tensor_from_jagged(y.values(), y.offsets()), x)


@pytest.mark.parametrize("function", [
    lambda x: x * 2 + 1, lambda x: x.relu(), torch.sin, lambda x: x + x,
    lambda x: x.softmax(-1), lambda x: torch.nn.functional.layer_norm(x, (8,)), lambda x: x.to_padded_tensor(1.0),
    lambda x: torch.nn.functional.gelu(x), lambda x: x.transpose(1, 2).transpose(1, 2), lambda x: x.unsqueeze(-1),
    lambda x: x.unflatten(-1, (2, 4)), lambda x: x.chunk(2, -1)[1], lambda x: x.abs().sqrt(),
])
def test_jagged_operators_and_gradients(function):
    parts = rows()
    x, y = jagged(parts, requires_grad=True), jagged(parts, device, requires_grad=True)
    got, want = function(y), function(x)
    same(got, want)
    for t in (want, got):
        (t.values() if t.is_nested else t).square().sum().backward()
    same(y.grad, x.grad)


def test_jagged_linear():
    parts = rows()
    reference = torch.nn.Linear(8, 6)
    net = torch.nn.Linear(8, 6).to(device)
    net.load_state_dict(reference.state_dict())
    x, y = jagged(parts), jagged(parts, device)
    want, got = reference(x), net(y)
    same(got, want)
    want.values().square().sum().backward()
    got.values().square().sum().backward()
    same(net.weight.grad, reference.weight.grad)


@pytest.mark.allow_fallback
def test_attention_over_rows_of_different_lengths():
    parts = [torch.randn(n, 2, 4) for n in (3, 1, 5)]
    query = jagged(parts, device)
    heads = query.transpose(1, 2)
    got = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    want = []
    for p in parts:
        h = p.transpose(0, 1)
        want.append(torch.nn.functional.scaled_dot_product_attention(h, h, h))
    for a, b in zip(got.unbind(), want, strict=True):
        torch.testing.assert_close(a.cpu(), b)


# ---- strided ----


def strided(parts, where="cpu", **options):
    return torch.nested.nested_tensor(parts, device=where, **options)


@pytest.mark.parametrize("function", [
    lambda x: x.relu(), lambda x: x + x, lambda x: x * 2, lambda x: -x, lambda x: x.to_padded_tensor(0.0), torch.tanh,
    lambda x: x.transpose(1, 2).contiguous(), lambda x: x.softmax(-1), lambda x: x.unbind()[2], lambda x: x.clone(),
    lambda x: x @ x.transpose(1, 2), lambda x: x.detach(), lambda x: x.values(), torch.nn.functional.gelu,
])
def test_strided_operators(function):
    parts = rows()
    x, y = strided(parts), strided(parts, device)
    same(function(y), function(x))
    same(y.to("cpu").to(device), x)
    assert "nested_tensor" in repr(y)


def test_strided_linear():
    parts = rows()
    reference = torch.nn.Linear(8, 6)
    net = torch.nn.Linear(8, 6).to(device)
    net.load_state_dict(reference.state_dict())
    x, y = strided(parts, requires_grad=True), strided(parts, device, requires_grad=True)
    same(net(y).relu().to_padded_tensor(0.0).detach(), reference(x).relu().to_padded_tensor(0.0).detach())


@pytest.mark.allow_fallback
def test_strided_operators_without_a_kernel_run_on_the_cpu():
    parts = rows()
    x, y = strided(parts), strided(parts, device)
    norm = torch.nn.LayerNorm(8)
    want = norm(x)
    torch.ocl.reset_fallback_report()
    same(norm.to(device)(y), want)
    assert any("layer_norm" in name for name in torch.ocl.fallback_report())


def test_what_has_no_kernel_anywhere_is_named():
    y = strided(rows(), device)
    with pytest.raises(NotImplementedError,
                       match="cumsum has no kernel for nested tensors on the ocl device, and none") as error:
        torch.cumsum(y, 1)
    assert str(error.value).count("\n") < 3


def test_quantized_tensors_are_refused_in_one_line():
    x = torch.randn(4, 4)
    with torch.ocl.fallback("allow"):
        with pytest.raises(NotImplementedError, match="quantize_per_tensor: there are no quantized tensors on the ocl"):
            torch.quantize_per_tensor(x.to(device), 0.1, 0, torch.qint8)
        with pytest.raises(NotImplementedError, match="no quantized tensors on the ocl device"):
            torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).to(device)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (2, 3, 4, 5)])
def test_strided_from_a_dense_tensor(shape):
    x = torch.randn(shape)
    y = x.to("ocl").requires_grad_()
    with warnings.catch_warnings():     # "prototype stage"
        warnings.simplefilter("ignore")
        nested = torch.nested.as_nested_tensor(y, layout=torch.strided)
    assert nested.is_nested and nested.device.type == "ocl"
    for part, row in zip(nested.unbind(), x):
        torch.testing.assert_close(part.cpu(), row)
    nested.to_padded_tensor(0).square().sum().backward()
    torch.testing.assert_close(y.grad.cpu(), 2 * x)
