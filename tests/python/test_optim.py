"""Optimisers against themselves on the CPU: default (foreach), fused and single-tensor forms; mixed precision."""
import copy

import pytest
import torch

from comparison import device


def model():
    torch.manual_seed(0)
    return torch.nn.ParameterList([torch.randn(s) for s in ((3, 4, 5), (7,), (), (70, 33), (1025,), (0, 3))])


def train(parameters, optimizer, steps=4, layout=None):
    torch.manual_seed(1)
    for _ in range(steps):
        for p in parameters:
            p.grad = torch.randn(p.shape).to(p.device, p.dtype)
        optimizer.step()


OPTIMIZERS = [
    (torch.optim.SGD, {}), (torch.optim.SGD, {"momentum": 0.9}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.3, "maximize": True}),
    (torch.optim.Adam, {}), (torch.optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    (torch.optim.Adam, {"maximize": True, "betas": (0.5, 0.7)}),
    (torch.optim.AdamW, {"weight_decay": 0.1}), (torch.optim.AdamW, {"amsgrad": True}),
    (torch.optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.1}), (torch.optim.Adagrad, {}),
]


@pytest.mark.parametrize("kind, options", OPTIMIZERS)
@pytest.mark.parametrize("form", [{}, {"fused": True}, {"foreach": False}], ids=["default", "fused", "single"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_optimizer(kind, options, form, dtype):
    reference = model().to(dtype)
    parameters = copy.deepcopy(reference).to(device)
    train(reference, kind(reference, lr=0.1, foreach=False, **options))
    optimizer = kind(parameters, lr=0.1, **options, **form)
    train(parameters, optimizer)
    for p, r in zip(parameters, reference):
        torch.testing.assert_close(p.cpu(), r)


@pytest.mark.parametrize("kind", [torch.optim.RMSprop, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adamax,
                                  torch.optim.Adadelta, torch.optim.ASGD, torch.optim.Rprop])
def test_other_optimizers(kind):
    reference = model()
    parameters = copy.deepcopy(reference).to(device)
    train(reference, kind(reference, lr=0.01, foreach=False))
    train(parameters, kind(parameters, lr=0.01))
    for p, r in zip(parameters, reference):
        torch.testing.assert_close(p.cpu(), r)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_fused_adam_of_narrow_types(dtype):
    reference = model().to(dtype)
    parameters = copy.deepcopy(reference).to(device)
    train(reference, torch.optim.Adam(reference, lr=0.1, fused=True), 1)
    train(parameters, torch.optim.Adam(parameters, lr=0.1, fused=True), 1)
    for p, r in zip(parameters, reference):
        torch.testing.assert_close(p.cpu(), r)


def test_learning_rate_in_a_tensor():
    for place in ("cpu", device):
        reference = model()
        parameters = copy.deepcopy(reference).to(device)
        train(reference, torch.optim.Adam(reference, lr=0.2))
        train(parameters, torch.optim.Adam(parameters, lr=torch.tensor(0.2, device=place), fused=True))
        for p, r in zip(parameters, reference):
            torch.testing.assert_close(p.cpu(), r)


def test_channels_last_parameters():
    reference = torch.nn.ParameterList([torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last)])
    parameters = copy.deepcopy(reference).to(device)
    train(reference, torch.optim.Adam(reference, foreach=False))
    train(parameters, torch.optim.Adam(parameters))   # gradients come contiguous: not alike, so tensor by tensor
    for p, r in zip(parameters, reference):
        torch.testing.assert_close(p.cpu(), r)


def test_many_tensors_are_a_handful_of_launches():
    parameters = torch.nn.ParameterList([torch.randn(11) for _ in range(300)]).to(device)
    optimizer = torch.optim.SGD(parameters, momentum=0.9)
    train(parameters, optimizer, 2)
    before = [p.detach().cpu() for p in parameters]
    train(parameters, optimizer, 1)
    assert all(not torch.equal(p.cpu(), b) for p, b in zip(parameters, before))


LISTS = [
    ("add", lambda a, b, c: torch._foreach_add(a, b, alpha=2.5)), ("sub", lambda a, b, c: torch._foreach_sub(a, b)),
    ("mul", lambda a, b, c: torch._foreach_mul(a, b)), ("div", lambda a, b, c: torch._foreach_div(a, b)),
    ("max", lambda a, b, c: torch._foreach_maximum(a, b)), ("min", lambda a, b, c: torch._foreach_minimum(a, b)),
    ("add_s", lambda a, b, c: torch._foreach_add(a, 1.5)), ("sub_s", lambda a, b, c: torch._foreach_sub(a, 1.5)),
    ("mul_s", lambda a, b, c: torch._foreach_mul(a, 1.5)), ("div_s", lambda a, b, c: torch._foreach_div(a, 3)),
    ("max_s", lambda a, b, c: torch._foreach_clamp_min(a, 0.3)), ("min_s", lambda a, b,
                                                                  c: torch._foreach_clamp_max(a, 0.3)),
    ("pow", lambda a, b, c: torch._foreach_pow(a, 2)), ("sqrt", lambda a, b,
                                                        c: torch._foreach_sqrt(torch._foreach_abs(a))),
    ("neg", lambda a, b, c: torch._foreach_neg(a)), ("exp", lambda a, b, c: torch._foreach_exp(a)),
    ("sign", lambda a, b, c: torch._foreach_sign(a)), ("reciprocal", lambda a, b, c: torch._foreach_reciprocal(a)),
    ("scalars", lambda a, b, c: torch._foreach_add(a, [1.0, 2.0, 3.0])),
    ("scalars_div", lambda a, b, c: torch._foreach_div(a, [1.0, 2.0, 3.0])),
    ("lerp", lambda a, b, c: torch._foreach_lerp(a, b, 0.3)),
    ("lerp_far", lambda a, b, c: torch._foreach_lerp(a, b, 0.8)),
    ("addcmul", lambda a, b, c: torch._foreach_addcmul(a, b, c, 0.5)),
    ("addcdiv", lambda a, b, c: torch._foreach_addcdiv(a, b, c, [0.5, 1.0, 2.0])),
    ("norm", lambda a, b, c: torch._foreach_norm(a)),
]


@pytest.mark.parametrize("name, function", LISTS, ids=[n for n, _ in LISTS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
def test_foreach(name, function, dtype):
    if dtype == torch.int32 and name in ("add", "lerp", "lerp_far", "addcdiv", "addcmul", "norm"):
        pytest.skip("floating point only")
    lists = [[(torch.rand(s) * 4 - 2 + (6 if i else 0)).to(dtype) for s in ((3, 40), (2000,), ())] for i in range(3)]
    if dtype == torch.int32 and name == "reciprocal":
        lists[0] = lists[1]
    expected = function(*lists)
    actual = function(*([t.to(device) for t in tensors] for tensors in lists))
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e)


def test_clip_grad_norm():
    grads = []
    for place in ("cpu", device):
        torch.manual_seed(3)
        parameters = [torch.nn.Parameter(torch.randn(s).to(place)) for s in ((30, 4), (50,))]
        for p in parameters:
            p.grad = torch.randn(p.shape).to(place) * 10
        norm = torch.nn.utils.clip_grad_norm_(parameters, 2.0)
        grads.append([norm.cpu()] + [p.grad.cpu() for p in parameters])
    for a, b in zip(*grads):
        torch.testing.assert_close(a, b)


def test_gradient_scaling():
    found, inverse = torch.zeros(1, device=device), torch.full((1,), 0.25, device=device)
    grads = [torch.full((50,), 8.0, device=device), torch.full((3, 3), 4.0, dtype=torch.float16, device=device),
             torch.full((4, 6), 2.0, device=device)[:, ::2]]
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
    assert found.item() == 0 and [g.unique().item() for g in (g.cpu() for g in grads)] == [2.0, 1.0, 0.5]
    grads[0][7] = float("inf")
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
    assert found.item() == 1

    for bad in (0.0, 1.0):
        for tracker in (0, 2):
            tensors = [torch.tensor([1024.0]), torch.tensor([tracker], dtype=torch.int32), torch.tensor([bad])]
            on_device = [t.to(device) for t in tensors]
            torch._amp_update_scale_(*tensors, 2.0, 0.5, 3)
            torch._amp_update_scale_(*on_device, 2.0, 0.5, 3)
            for a, e in zip(on_device, tensors):
                assert torch.equal(a.cpu(), e)


def test_fused_step_with_a_scaled_gradient():
    p = torch.nn.Parameter(torch.ones(10, device=device))
    optimizer = torch.optim.SGD([p], lr=1.0, fused=True)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(4.0, device=device), torch.tensor(0.0, device=device)
    p.grad = torch.full_like(p, 2.0)
    optimizer.step()
    assert p.cpu().eq(0.5).all() and p.grad.cpu().eq(0.5).all()
    optimizer.found_inf = torch.tensor(1.0, device=device)
    optimizer.step()
    assert p.cpu().eq(0.5).all()


@pytest.mark.parametrize("order", [2, 1, float("inf"), 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_norms_of_many_tensors(order, dtype):
    torch.manual_seed(2)
    shapes = ((3, 4, 5), (7,), (), (70, 33), (20000,), (1, 1025))
    tensors = [torch.randn(s, dtype=torch.float64).to(dtype) for s in shapes]
    tensors.append(torch.randn(40, 30).to(dtype).t())
    if order != float("inf"):
        tensors.append(torch.empty(0, dtype=dtype))
    norms = torch._foreach_norm([t.to(device) for t in tensors], order)
    for tensor, norm in zip(tensors, norms):
        torch.testing.assert_close(norm.cpu(), torch.linalg.vector_norm(tensor.double(), order).to(dtype))
        assert norm.shape == ()
    tensors[3][5, 7] = float("nan")
    norms = torch._foreach_norm([t.to(device) for t in tensors], order)
    assert [i for i, norm in enumerate(norms) if norm.isnan().item()] == [3]


def test_clipped_gradients_take_few_launches():
    parameters = copy.deepcopy(model()).to(device)
    for p in parameters:
        p.grad = torch.randn(p.shape).to(device)
    expected = torch.cat([p.grad.cpu().double().flatten() for p in parameters]).norm()
    before = torch.ocl.kernel_launches()
    total = torch.nn.utils.clip_grad_norm_(parameters, 0.5)
    assert torch.ocl.kernel_launches() - before <= 10
    torch.testing.assert_close(total.cpu().double(), expected, rtol=1e-5, atol=0)
    clipped = torch.cat([p.grad.cpu().double().flatten() for p in parameters]).norm()
    assert clipped.item() == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_many_tensors_times_a_number_of_the_device(dtype):
    tensors = [torch.randn(s).to(dtype) for s in ((3, 4), (1025,), (), (0, 2))]
    mine, factor = [t.to(device) for t in tensors], torch.tensor(0.7, dtype=dtype)
    for result, tensor in zip(torch._foreach_mul(mine, factor.to(device)), tensors):
        torch.testing.assert_close(result.cpu(), tensor * factor)
    torch._foreach_mul_(mine, factor.to(device))
    for result, tensor in zip(mine, tensors):
        torch.testing.assert_close(result.cpu(), tensor * factor)
    torch._foreach_mul_(mine, mine[2])   # one of them itself
    torch._foreach_mul_(reference := [t * factor for t in tensors], reference[2])
    for result, tensor in zip(mine, reference):
        torch.testing.assert_close(result.cpu(), tensor)
