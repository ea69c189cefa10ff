"""Results written over arguments: equal to those written elsewhere, or refused as PyTorch refuses them."""
import pytest
import torch

from comparison import device

n = 300   # beyond what a work-group holds at once


def square():
    return torch.randn(n, n)


def index():
    return torch.randint(n, (n, n))


# name -> (function, arguments on the CPU); each tensor argument of a result's shape and dtype takes the result's place.
CASES = {
    "sort": (torch.sort, [square()]),
    "msort": (torch.msort, [square()]),
    "topk": (lambda x, **k: torch.topk(x, n, **k), [square()]),
    "cumsum": (lambda x, **k: torch.cumsum(x, 0, **k), [square()]),
    "cumprod": (lambda x, **k: torch.cumprod(x, 1, **k), [square()]),
    "cummax": (lambda x, **k: torch.cummax(x, 0, **k), [square()]),
    "logcumsumexp": (lambda x, **k: torch.logcumsumexp(x, 1, **k), [square()]),
    "softmax": (lambda x, **k: torch.softmax(x, 1, **k), [square()]),
    "log_softmax": (lambda x, **k: torch.log_softmax(x, 0, **k), [square()]),
    "mm": (torch.mm, [square(), square()]),
    "addmm": (torch.addmm, [square(), square(), square()]),
    "bmm": (torch.bmm, [torch.randn(2, n, n), torch.randn(2, n, n)]),
    "baddbmm": (torch.baddbmm, [torch.randn(2, n, n), torch.randn(2, n, n), torch.randn(2, n, n)]),
    "addmv": (torch.addmv, [torch.randn(n), square(), torch.randn(n)]),
    "gather": (lambda x, i, **k: torch.gather(x, 0, i, **k), [square(), index()]),
    "scatter": (lambda x, i, y, **k: torch.scatter(x, 1, i, y, **k),
                [square(), torch.argsort(torch.rand(n, n), 1), square()]),
    "scatter_add": (lambda x, i, y, **k: torch.scatter_add(x, 0, i, y, **k), [square(), index(), square()]),
    "index_copy": (lambda x, i, y, **k: torch.index_copy(x, 0, i, y, **k), [square(), torch.randperm(n), square()]),
    "index_add": (lambda x, i, y, **k: torch.index_add(x, 0, i, y, **k), [square(), torch.randperm(n), square()]),
    "renorm": (lambda x, **k: torch.renorm(x, 2, 0, 1.0, **k), [square()]),
    "cross": (lambda x, y, **k: torch.linalg.cross(x, y, dim=0, **k), [torch.randn(3, n), torch.randn(3, n)]),
    "inverse": (torch.linalg.inv, [square() + n * torch.eye(n)]),
    "cholesky": (torch.linalg.cholesky, [torch.eye(n) * n + 1]),
    "solve": (torch.linalg.solve, [square() + n * torch.eye(n), square()]),
    "logsigmoid": (lambda x, **k: torch.ops.aten.log_sigmoid(x, **k), [square()]),
    "round": (lambda x, **k: torch.round(x, decimals=1, **k), [square()]),
}


def tuple_of(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def placements():
    for name, (function, arguments) in CASES.items():
        for of, wanted in enumerate(tuple_of(function(*arguments))):
            for at, argument in enumerate(arguments):
                if argument.shape == wanted.shape and argument.dtype == wanted.dtype:
                    for shift in (0, 1):
                        yield pytest.param(name, of, at, shift, id=f"{name}-result{of}-argument{at}-shift{shift}")


@pytest.mark.parametrize("name,of,at,shift", list(placements()))
def test_result_over_an_argument(name, of, at, shift):
    function, arguments = CASES[name]
    expected = tuple_of(function(*arguments))
    own = [argument.to(device) for argument in arguments]
    out = [torch.empty_like(result, device=device) for result in expected]
    # The result begins where the argument does, or one element behind it.
    memory = torch.zeros(own[at].numel() + shift, device=device, dtype=own[at].dtype)
    place = memory[:own[at].numel()].view(own[at].shape)
    place.copy_(own[at])
    own[at] = place
    out[of] = memory[shift:].view(own[at].shape)
    try:
        function(*own, out=out[0] if len(out) == 1 else tuple(out))
    except RuntimeError as error:
        assert "single memory location" in str(error)
        assert torch.equal(place.cpu(), arguments[at])
        return
    torch.testing.assert_close(out[of].cpu(), expected[of], rtol=1e-4, atol=1e-3 if name == "mm" else 1e-4)


@pytest.mark.parametrize("form", [
    lambda x, i: x.scatter_(0, i, x.clone()), lambda x, i: x.scatter_add_(0, i, x.clone()),
    lambda x, i: x.index_add_(0, i[0], x.clone()), lambda x, i: x.cumsum_(0), lambda x,
    i: x.addmm_(x.clone(), x.clone()),
    lambda x, i: x.renorm_(2, 0, 1.0), lambda x, i: x.tril_(), lambda x, i: x.t_().add_(x.clone()),
])
def test_in_place_forms(form):
    x, i = torch.randn(40, 40, dtype=torch.float64), torch.argsort(torch.rand(40, 40), 0)
    own = x.to(device)
    form(own, i.to(device))
    form(x, i)
    torch.testing.assert_close(own.cpu(), x)
