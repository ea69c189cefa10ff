"""Operators without a kernel: policy, report, and that the CPU's answer is the right one."""

import warnings

import pytest
import torch

from comparison import device

# Own operators, so that the tests do not depend on what has a kernel.
library = torch.library.Library("ocl_fallback_test", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.define("twice_(Tensor(a!) x) -> Tensor(a!)")
library.define("twice_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
library.define("row(Tensor(a) x, int i) -> Tensor(a)")
library.define("strides(Tensor x) -> Tensor")
library.define("sum_all(Tensor[] xs) -> Tensor")
library.define("same_twice(Tensor(a!) x, Tensor y) -> Tensor(a!)")
library.define("stats(Tensor x, Tensor? running_mean, Tensor? running_var) -> Tensor")
library.define("drawn(Tensor x, *, Generator? generator=None) -> Tensor")
library.define("only_elsewhere(Tensor x) -> Tensor")
library.define("pair(Tensor x) -> (Tensor, Tensor[])")


def stats(x, running_mean, running_var):
    running_mean.add_(x.mean())
    if running_var is not None:
        running_var.mul_(2)
    return x.clone()


library.impl("twice", lambda x: x * 2, "CPU")
library.impl("twice_", lambda x: x.mul_(2), "CPU")
library.impl("twice_out", lambda x, out: out.resize_(x.shape).copy_(x * 2), "CPU")
library.impl("row", lambda x, i: x[i], "CPU")
library.impl("strides", lambda x: torch.tensor(x.stride()), "CPU")
library.impl("sum_all", lambda xs: sum(xs), "CPU")
library.impl("same_twice", lambda x, y: x.add_(y), "CPU")
library.impl("stats", stats, "CPU")
library.impl("drawn", lambda x, generator=None: torch.rand(x.shape, generator=generator), "CPU")
library.impl("pair", lambda x: (x + 1, [x, x * 3]), "CPU")
ops = torch.ops.ocl_fallback_test


@pytest.fixture(autouse=True)
def allow():
    with torch.ocl.fallback("allow"):
        yield


def test_result_and_report():
    torch.ocl.reset_fallback_report()
    x = torch.arange(3.0, device="cpu").to(device)
    y = ops.twice(x)
    assert y.is_ocl and y.tolist() == [0, 2, 4]
    ops.twice(x)
    assert torch.ocl.fallback_report()["ocl_fallback_test::twice"] == 2
    torch.ocl.reset_fallback_report()
    assert "ocl_fallback_test::twice" not in torch.ocl.fallback_report()


def test_policies():
    x = torch.ones(2).to(device)
    torch.ocl.reset_fallback_report()
    with torch.ocl.fallback("error"):
        with pytest.raises(NotImplementedError, match="ocl_fallback_test::twice"):
            ops.twice(x)
    with torch.ocl.fallback("warn"):
        with pytest.warns(UserWarning, match="ocl_fallback_test::twice"):
            ops.twice(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ops.twice(x)   # once per operator
    assert torch.ocl.fallback_policy() == "allow"
    with pytest.raises(ValueError, match="warn"):
        torch.ocl.set_fallback_policy("sometimes")


def test_in_place_and_out():
    x = torch.arange(6.0).to(device).view(2, 3)
    view = x.t()[1:]
    result = ops.twice_(view)
    assert result is view or result.data_ptr() == view.data_ptr()
    assert x.tolist() == [[0, 2, 4], [3, 8, 10]]
    out = torch.empty(0, device=device)
    assert ops.twice_out(x, out=out) is out and out.shape == (2, 3) and out[1, 2].item() == 20


def test_views_stay_views():
    x = torch.zeros(3, 4).to(device)
    row = ops.row(x[:, 1:], 2)
    row.fill_(7)
    assert x.tolist()[2] == [0, 7, 7, 7] and x.tolist()[1] == [0, 0, 0, 0]


def test_strides_are_handed_down():
    x = torch.zeros(4, 6).to(device)
    for view in (x.t(), x[::2, 1::2], x[:1].expand(5, 6), x.view(2, 2, 6).permute(2, 0, 1)):
        assert ops.strides(view).tolist() == list(view.stride()) or 0 in view.stride()


def test_same_tensor_twice():
    x = torch.ones(3).to(device)
    ops.same_twice(x, x)
    assert x.tolist() == [2, 2, 2]


def test_lists_and_nested_results():
    xs = [torch.full((2,), float(i)).to(device) for i in range(3)]
    assert ops.sum_all(xs).tolist() == [3, 3]
    a, (b, c) = ops.pair(xs[1])
    assert a.is_ocl and c.is_ocl and a.tolist() == [2, 2] and c.tolist() == [3, 3]
    assert b.data_ptr() == xs[1].data_ptr()


def test_arguments_on_different_devices_raise():
    with pytest.raises(RuntimeError, match="same device"):
        ops.sum_all([torch.ones(2).to(device), torch.ones(2)])
    assert ops.same_twice(torch.ones(2).to(device), torch.tensor(2.0)).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="same device"):
        ops.same_twice(torch.ones(2).to(device), torch.ones(2))


def test_running_statistics_are_written_back():
    mean, var = torch.zeros(1).to(device), torch.ones(1).to(device)
    ops.stats(torch.full((4,), 3.0).to(device), mean, var)
    assert mean.item() == 3 and var.item() == 2
    ops.stats(torch.full((4,), 3.0).to(device), mean, None)
    assert mean.item() == 6


def test_generators():
    x = torch.empty(5, device=device)
    generator = torch.Generator(device)
    generator.manual_seed(3)
    a = ops.drawn(x, generator=generator)
    b = ops.drawn(x, generator=generator)
    generator.manual_seed(3)
    c = ops.drawn(x, generator=generator)
    assert torch.equal(a.cpu(), c.cpu()) and not torch.equal(a.cpu(), b.cpu())


def test_no_kernel_anywhere():
    with pytest.raises(NotImplementedError, match="only_elsewhere"):
        ops.only_elsewhere(torch.ones(1).to(device))


@pytest.mark.parametrize("name", ["det", "slogdet", "inverse"])
def test_gradients_of_linear_algebra_with_transposed_inputs(name):
    x = torch.tensor([[2.0, 1, 0.5], [0.3, 3, 1], [0.2, -1, 4]])

    def grad(x):
        x = x.clone().t().requires_grad_()
        y = getattr(torch, name)(x)
        y = y.logabsdet if name == "slogdet" else y.sum()
        return torch.autograd.grad(y, x)[0]

    torch.testing.assert_close(grad(x.to(device)).cpu(), grad(x))


def test_complex_operators():
    x = torch.view_as_complex(torch.arange(12.0).view(6, 2))
    y = torch.fft.fft(x.to(device).conj())
    torch.testing.assert_close(y.cpu(), torch.fft.fft(x.conj()))
