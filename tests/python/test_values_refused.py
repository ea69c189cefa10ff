"""Values and dtypes that PyTorch's CPU operators look for and refuse. What lies in a tensor of the device is found by
its kernel and reported by the next synchronisation, as the CPU's kind of error."""
import itertools

import pytest
import torch
import torch.nn.functional as F
from comparison import device

NAN = float("nan")
HALVES = (0.5, 0.5, 0.5)


def error_of(call, where):
    try:
        call(where)
        torch.ocl.synchronize()
    except Exception as error:
        return error
    return None


def tensor(where, values, dtype=None):
    return torch.tensor(values, dtype=dtype, device=where)


def fractions(inputs, targets, **named):
    return lambda where: F.binary_cross_entropy(tensor(where, inputs), tensor(where, targets), **named)


def pivots(function, values):
    return lambda where: function(torch.eye(3, device=where), tensor(where, values, torch.int32),
                                  torch.ones(3, 1, device=where))


CASES = {
    **{f"cross entropies of {name}, {reduction}": fractions(*values, reduction=reduction)
       for reduction in ("none", "mean", "sum")
       for name, values in {"more than 1": ((0.5, 1.5, 0.5), HALVES), "less than 0": ((0.5, -1e-30, 0.5), HALVES),
                            "no number": ((0.5, NAN, 0.5), HALVES), "a target": (HALVES, (0.5, 0.5, 1.25))}.items()},
    **{f"weighted cross entropies, {reduction}": lambda where, reduction=reduction: F.binary_cross_entropy(
        tensor(where, (0.5, 2.0)), tensor(where, (1.0, 0.0)), weight=tensor(where, (1.0, 0.0)), reduction=reduction)
       for reduction in ("none", "mean", "sum")},
    "cross entropies of two dtypes": lambda where: F.binary_cross_entropy(
        tensor(where, HALVES), tensor(where, HALVES, torch.float64)),
    "rate": lambda where: torch.poisson(tensor(where, (1.0, -1e-3))),
    "rate that is no number": lambda where: torch.poisson(tensor(where, (1.0, NAN))),
    **{f"share {share} in {dtype} of {function.__name__}": lambda where, share=share, dtype=dtype, function=function:
       function(tensor(where, (1.0, 2.0), dtype), tensor(where, (0.5, share), dtype))
       for share, dtype, function in itertools.product((-0.5, 1.5, NAN), (torch.float32, torch.float64),
                                                       (torch.quantile, torch.nanquantile))},
    "first offset": lambda where: F.embedding_bag(tensor(where, (0, 1)), torch.ones(3, 2, device=where),
                                                  tensor(where, (1, 2))),
    "zero point": lambda where: torch.fake_quantize_per_tensor_affine(tensor(where, (1.0,)), 1.0, 256, 0, 255),
    "zero points": lambda where: torch.fake_quantize_per_channel_affine(
        tensor(where, (1.0, 2.0)), tensor(where, (1.0, 1.0)), tensor(where, (0, -1), torch.int32), 0, 0, 255),
    **{f"pivot {wrong} of lu_unpack": pivots(lambda lu, rows, b: torch.lu_unpack(lu, rows), (1, wrong, 3))
       for wrong in (0, -1, 4, 1 << 30)},
    **{f"pivot {wrong} of lu_solve": pivots(torch.linalg.lu_solve, (1, wrong, 3)) for wrong in (4, 1 << 30)},
    **{f"pivot {wrong} of ldl_solve": pivots(torch.linalg.ldl_solve, (1, wrong, 3)) for wrong in (-4, 4)},
}


@pytest.mark.parametrize("case", CASES)
def test_values_that_the_cpu_refuses(case):
    expected, actual = (error_of(CASES[case], where) for where in ("cpu", device))
    assert expected is not None and type(actual) is type(expected), (expected, actual)
    assert error_of(lambda where: torch.ones(3, device=where).sum().item(), device) is None   # reported once


def test_values_at_the_limits_are_taken():
    inputs, targets, weight = (torch.tensor(values) for values in ((0.0, 1.0, 0.25), (1.0, 0.0, 1.0), (NAN, 1.0, 2.0)))
    for reduction in ("none", "mean", "sum"):
        for some in (None, weight):
            losses = [F.binary_cross_entropy(inputs.to(where), targets.to(where), reduction=reduction,
                                             weight=None if some is None else some.to(where)).cpu()
                      for where in ("cpu", device)]
            torch.testing.assert_close(losses[1], losses[0], equal_nan=True)
    large = torch.rand(3, 70000)
    torch.testing.assert_close(F.binary_cross_entropy(large.to(device), large.flip(0).to(device)).cpu(),
                               F.binary_cross_entropy(large, large.flip(0)))
    large[2, 69999] = 1.5    # in the last of many parts of the sum
    assert isinstance(error_of(lambda where: F.binary_cross_entropy(large.to(where), large.flip(0).to(where)), device),
                      RuntimeError)
    assert torch.poisson(torch.zeros(3, device=device)).tolist() == [0, 0, 0]
    ends = torch.tensor([0.0, 1.0], device=device)
    assert torch.quantile(1 + 2 * ends, ends).tolist() == [1, 3]
    lu, rows = torch.linalg.lu_factor(torch.randn(2, 4, 4))
    for actual, expected in zip(torch.lu_unpack(lu.to(device), rows.to(device)), torch.lu_unpack(lu, rows)):
        torch.testing.assert_close(actual.cpu(), expected)


def norms(x, weight, bias):
    yield torch.ops.aten.native_layer_norm, (x, [x.shape[-1]], weight, bias, 1e-5)
    yield torch.ops.aten.native_group_norm, (x, weight, bias, x.shape[0], x.shape[1], x.shape[2], 1, 1e-5)
    yield torch.ops.aten.native_batch_norm, (x, weight, bias, None, None, True, 0.1, 1e-5)


def test_parameters_of_norms_have_the_dtypes_that_the_cpu_takes():
    dtypes = (None, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.int64)
    differing, refused = [], 0
    for data in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for weight, bias in itertools.product(dtypes, dtypes):
            outcomes = []
            for where in ("cpu", device):
                given = [torch.randn(2, 3, 3).to(where, data)] + [
                    None if dtype is None else torch.ones(3, dtype=dtype, device=where) for dtype in (weight, bias)]
                outcomes.append([type(error_of(lambda _: operator(*arguments), where))
                                 for operator, arguments in norms(*given)])
            refused += outcomes[0].count(RuntimeError)
            if outcomes[0] != outcomes[1]:
                differing.append((data, weight, bias, *outcomes))
    assert refused > 200 and not differing


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_products_of_integers_that_the_cpu_lacks(dtype):
    def transposed(where, axes):
        ones = torch.ones((1, 2, *(4,) * axes)).to(where, dtype), torch.ones((2, 2, *(2,) * axes)).to(where, dtype)
        return (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1](*ones)

    def sampled(where, _):
        matrix = torch.eye(3).to(where, dtype)
        return torch.sparse.sampled_addmm(matrix.to_sparse_csr(), matrix, matrix)
    for call, axes in ((transposed, 1), (transposed, 2), (transposed, 3), (sampled, 0)):
        expected, actual = (error_of(lambda to: call(to, axes), where) for where in ("cpu", device))
        assert type(actual) is type(expected), (axes, expected, actual)
