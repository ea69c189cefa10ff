"""Normalisation layers against PyTorch on the CPU: results, gradients, running statistics, layouts, mixed dtypes."""
import copy

import pytest
import torch
from torch.testing import assert_close

from comparison import device

last = torch.channels_last


def both(make_output, *inputs, seed=1, leaning=False):
    """Runs make_output(copies of the inputs) on CPU and device, forward and backward; compares everything.

    Half precision is compared with the result of float32, rounded. `leaning`: of gradients that neither their sum nor
    that of their products with the input is next to nothing, which says little of sums of thousands.
    """
    outputs, gradients = [], []
    halves = (torch.float16, torch.bfloat16)
    for where in ("cpu", device):
        leaves = [None if t is None else t.detach().to(where, copy=True) for t in inputs]
        if where == "cpu" and inputs[0].dtype in halves:
            leaves = [None if t is None else t.float() for t in leaves]
        leaves = [None if t is None else t.requires_grad_() for t in leaves]
        y = make_output(*leaves)
        outputs.append(y)
        torch.manual_seed(seed)
        g = torch.randn(y.shape)
        g = (g + inputs[0].float() + 1 if leaning else g).to(inputs[0].dtype).to(y)
        used = [t for t in leaves if t is not None and t.requires_grad]
        gradients.append(torch.autograd.grad(y, used, g))
    assert_close(outputs[1].cpu(), outputs[0].to(inputs[0].dtype))
    assert outputs[1].stride() == outputs[0].stride()
    for got, expected, t in zip(gradients[1], gradients[0], [t for t in inputs if t is not None]):
        assert got.dtype == t.dtype
        assert_close(got.cpu(), expected.to(t.dtype))


def randn(*shape, layout=torch.contiguous_format, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(shape).to(dtype).to(memory_format=layout)


shapes = [((6, 5), None), ((3, 7, 11), None), ((4, 6, 5, 5), None), ((4, 6, 5, 5), last), ((2, 32, 4, 4), last),
          ((2, 3, 2, 3, 4), None), ((2, 20, 2, 3, 4), torch.channels_last_3d), ((1, 4, 2, 2), None)]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape, layout", shapes)
def test_batch_norm(shape, layout, affine, training):
    x = randn(*shape, layout=layout or torch.contiguous_format) * 2 + 3
    c = shape[1]
    weight, bias = (torch.rand(c) + 0.5, torch.randn(c)) if affine else (None, None)
    statistics = {}

    def run(x, weight, bias):
        mean, var = (torch.full((c,), 0.5, device=x.device), torch.full((c,), 2.0, device=x.device))
        y = torch.nn.functional.batch_norm(x, mean, var, weight, bias, training, 0.2, 1e-3)
        statistics[x.device.type] = (mean.cpu(), var.cpu())
        return y

    both(run, x, weight, bias)
    assert_close(statistics["ocl"], statistics["cpu"])


@pytest.mark.parametrize("dtype, parameter", [(torch.float64, torch.float64), (torch.float16, torch.float16),
                                              (torch.bfloat16, torch.bfloat16), (torch.bfloat16, torch.float32)])
def test_batch_norm_dtypes(dtype, parameter):
    x = randn(4, 6, 5, 5, dtype=dtype)
    both(lambda x, w, b: torch.nn.functional.batch_norm(x, None, None, w, b, True), x,
         torch.rand(6).to(parameter) + 0.5, torch.randn(6).to(parameter))


def test_batch_norm_of_a_large_mean_keeps_its_digits():
    x = randn(4, 8, 6, 6) + 1000
    exact = torch.nn.functional.batch_norm(x.double(), None, None, training=True)
    y = torch.nn.functional.batch_norm(x.to(device), None, None, training=True)
    assert_close(y.cpu().double(), exact, rtol=0, atol=2e-4)


def test_batch_norm_module_trains_and_counts():
    for model in (torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3, momentum=None), torch.nn.InstanceNorm2d(3)):
        other = copy.deepcopy(model).to(device)
        for step in range(3):
            x = torch.randn(4, 3, 6, 6) + step
            assert_close(other(x.to(device)).cpu(), model(x))
        for (name, a), b in zip(model.state_dict().items(), other.state_dict().values()):
            assert_close(b.cpu(), a, msg=lambda m: f"{name}: {m}")


def test_batch_norm_of_an_empty_batch_and_of_views():
    assert torch.nn.functional.batch_norm(torch.empty(0, 3, 4, 4, device=device), None, None,
                                          training=True).numel() == 0
    x = randn(4, 10, 6, 6)
    y = torch.nn.functional.batch_norm(x.to(device)[1:, 2:8:2, ::2], None, None, training=True)
    assert_close(y.cpu(), torch.nn.functional.batch_norm(x[1:, 2:8:2, ::2], None, None, training=True))


@pytest.mark.parametrize("shape, layout", [((4, 3, 5, 2), last), ((4, 3, 5, 2), torch.contiguous_format),
                                           ((6, 3), None), ((0, 3, 4, 4), None)])
@pytest.mark.parametrize("dtype, parameter", [(torch.float32, torch.float32), (torch.float64, torch.float64),
                                              (torch.float16, torch.float32), (torch.bfloat16, torch.bfloat16)])
def test_batch_norm_in_evaluation_returns_statistics(shape, layout, dtype, parameter):
    """The running ones, as PyTorch's shapes for compilation and CUDA have it."""
    aten = torch.ops.aten
    x = torch.randn(shape, dtype=dtype, device=device)
    x = x.contiguous(memory_format=layout) if layout else x
    mean, var = torch.randn(3).to(parameter), torch.rand(3).to(parameter) + 0.5
    statistic = torch.float64 if dtype == torch.float64 else torch.float32
    expected = mean.to(statistic), (var.to(statistic) + 1e-5).rsqrt()
    m, v = mean.to(device), var.to(device)
    ys = []
    for result in (aten.native_batch_norm(x, None, None, m, v, False, 0.1, 1e-5),
                   aten._native_batch_norm_legit(x, None, None, m, v, False, 0.1, 1e-5),
                   aten._native_batch_norm_legit_no_training(x, None, None, m, v, 0.1, 1e-5),
                   aten._batch_norm_no_update(x, None, None, m, v, 0.1, 1e-5)):
        ys.append(result[0].cpu())
        for got, wanted in zip(result[1:3], expected):
            assert_close(got.cpu(), wanted)
    assert all(torch.equal(y, ys[0]) for y in ys)
    assert_close(ys[0], torch.nn.functional.batch_norm(x.cpu(), mean, var))
    assert torch.equal(m.cpu(), mean) and torch.equal(v.cpu(), var)


def test_batch_norm_not_a_number_stays_in_its_channel():
    x = randn(2, 3, 4, 4)
    x[0, 1, 2, 2] = float("nan")
    y = torch.nn.functional.batch_norm(x.to(device), None, None, training=True).cpu()
    assert_close(y, torch.nn.functional.batch_norm(x, None, None, training=True), equal_nan=True)


@pytest.mark.parametrize("layout", [torch.contiguous_format, last])
def test_instance_norm(layout):
    x = randn(3, 4, 5, 6, layout=layout)
    both(lambda x, w, b: torch.nn.functional.instance_norm(x, None, None, w, b), x, torch.rand(4), torch.randn(4))


def test_same_bits_every_run():
    x, g = randn(8, 32, 9, 9).to(device), torch.randn(8, 32, 9, 9).to(device)

    def run():
        leaf = x.clone().requires_grad_()
        y = torch.nn.functional.batch_norm(leaf, None, None, training=True)
        return y, torch.autograd.grad(y, leaf, g)[0]

    first = run()
    for _ in range(3):
        for a, b in zip(first, run()):
            assert torch.equal(a.cpu(), b.cpu())


dtypes = [(torch.float32, torch.float32), (torch.float64, torch.float64), (torch.float16, torch.float16),
          (torch.bfloat16, torch.float32)]


@pytest.mark.parametrize("dtype, parameter", dtypes)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape, normalized", [((5, 7), 1), ((3, 40, 33), 1), ((2, 3, 4, 5), 2), ((64, 8), 1),
                                               ((9, 3), 1)])
def test_layer_norm(shape, normalized, affine, dtype, parameter):
    x = randn(*shape, dtype=dtype)
    tail = shape[-normalized:]
    weight, bias = ((torch.rand(tail) + 0.5).to(parameter), torch.randn(tail).to(parameter)) if affine else (None, None)
    both(lambda x, w, b: torch.nn.functional.layer_norm(x, tail, w, b), x, weight, bias)


@pytest.mark.parametrize("dtype, parameter", dtypes[:3])
@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("shape, normalized", [((5, 7), 1), ((3, 40, 33), 1), ((2, 3, 4, 5), 2)])
def test_rms_norm(shape, normalized, eps, dtype, parameter):
    x = randn(*shape, dtype=dtype)
    tail = shape[-normalized:]
    both(lambda x, w: torch.nn.functional.rms_norm(x, tail, w, eps), x, (torch.rand(tail) + 0.5).to(parameter))
    both(lambda x: torch.nn.functional.rms_norm(x, tail, None, eps), x)


@pytest.mark.parametrize("dtype, parameter", dtypes)
@pytest.mark.parametrize("shape, groups, layout", [((2, 6, 5, 5), 3, None), ((3, 8, 17), 2, None), ((4, 24), 3, None),
                                                   ((2, 32, 4, 4), 32, None), ((2, 6, 5, 5), 3, last),
                                                   ((2, 32, 9, 16), 8, last), ((1, 40, 3, 7), 5, last),
                                                   ((2, 18, 2, 9, 5), 1, torch.channels_last_3d),
                                                   ((1, 6, 90, 92), 2, None), ((2, 2, 131, 71), 1, None),
                                                   ((2, 4, 2, 3, 4), 1, None)])
def test_group_norm(shape, groups, layout, dtype, parameter):
    x = randn(*shape, layout=layout or torch.contiguous_format, dtype=dtype)
    weight, bias = (torch.rand(shape[1]) + 0.5).to(parameter), torch.randn(shape[1]).to(parameter)
    both(lambda x, w, b: torch.nn.functional.group_norm(x, groups, w, b), x, weight, bias, leaning=True)
    both(lambda x: torch.nn.functional.group_norm(x, groups), x)


def test_rows_with_a_large_mean_keep_their_digits():
    x = randn(6, 100) + 1000
    for function in (lambda t: torch.nn.functional.layer_norm(t, (100,)),
                     lambda t: torch.nn.functional.group_norm(t, 4),
                     lambda t: torch.nn.functional.group_norm(t.view(6, 20, 5, 1).to(memory_format=last), 5)):
        assert_close(function(x.to(device)).cpu().double(), function(x.double()), rtol=0, atol=2e-4)


def test_empty_rows_and_wrong_shapes():
    assert torch.nn.functional.layer_norm(torch.empty(0, 4, device=device), (4,)).shape == (0, 4)
    x = torch.ones(2, 6)
    for call in (lambda t: torch.nn.functional.layer_norm(t, (5,)),
                 lambda t: torch.nn.functional.group_norm(t, 4),
                 lambda t: torch.nn.functional.layer_norm(t, (6,), t[0, :3])):
        with pytest.raises(RuntimeError) as expected:
            call(x)
        with pytest.raises(RuntimeError) as got:
            call(x.to(device))
        assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]
