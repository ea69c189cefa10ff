"""Reductions against PyTorch's CPU."""
import pytest
import torch

from opinfo import case_id, cases, check

NAMES = {
    "sum", "mean", "nansum", "nanmean", "prod", "var", "std", "var_mean", "std_mean", "amax", "amin", "aminmax", "max",
    "min",
    "argmax", "argmin", "any", "all", "count_nonzero", "norm", "linalg.vector_norm", "logsumexp", "trace", "equal",
    "dist",
    "hash_tensor", "nn.functional.normalize", "nn.functional.pairwise_distance", "nn.functional.cosine_similarity",
}


CASES = [case for case in cases(NAMES) if case[0].variant_test_name != "nuc"]     # the nuclear norm is linear algebra


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_against_cpu(case, device):
    check(*case, device)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool), ids=str)
@pytest.mark.parametrize("length", (1, 8, 23, 24, 31, 32, 33, 47, 48, 63, 65, 100, 128, 129, 257))
def test_many_rows_of_any_length(length, dtype, device):
    """Rows that are read one beside the other, in vectors, and with a rest."""
    x = (torch.randn(300, length) * 3).to(dtype)
    for rows in (x, x.t().contiguous().t(), torch.cat([x, x], 1)[:, ::2]):
        on_device, wide = rows.to(device), rows.double()
        tolerance = {"rtol": 1.6e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 5e-5}
        torch.testing.assert_close(on_device.sum(-1).cpu().double(), wide.sum(-1), **tolerance)
        assert torch.equal(on_device.amax(-1).cpu(), rows.amax(-1))
        assert torch.equal(on_device.any(-1).cpu(), rows.any(-1))
        if dtype != torch.bool:
            assert torch.equal(on_device.argmin(-1).cpu(), rows.argmin(-1))
        if dtype.is_floating_point:
            torch.testing.assert_close(on_device.norm(dim=-1).cpu().double(), wide.norm(dim=-1), **tolerance)
            spoiled = rows.clone()
            spoiled[::7, length // 2] = float("nan")
            assert torch.equal(spoiled.to(device).amin(-1).cpu().isnan(), spoiled.isnan().any(-1))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32,
                                   torch.uint8), ids=str)
def test_hash_of_every_kind_of_number(dtype, device):
    if dtype.is_floating_point:
        tiny = torch.finfo(dtype).tiny
        x = torch.tensor([0.0, -0.0, 1.5, -3, tiny, tiny / 2, -tiny / 4, torch.finfo(dtype).max, float("inf"),
                          -float("inf"),
                          float("nan")], dtype=dtype)
        if dtype == torch.float16:   # every number, and every NaN
            x = torch.cat((x, torch.arange(-32768, 32768, 97).to(torch.int16).view(dtype),
                           torch.arange(0x7c01, 0x7fff, 85).to(torch.int16).view(dtype)))
    else:
        x = torch.tensor([0, 1, 255, 7], dtype=torch.uint8).to(dtype) - (0 if dtype == torch.uint8 else 100)
    for part in (x, x[:1], *x.split(1)):
        assert torch.hash_tensor(part.to(device)).item() == torch.hash_tensor(part).item(), part
    for where in ("cpu", device):
        with pytest.raises(RuntimeError, match="reduction dim"):
            torch.hash_tensor(torch.empty(0, dtype=dtype, device=where))
    rows = torch.randn(300, 400).to(dtype)
    assert torch.equal(torch.hash_tensor(rows.to(device), 1).cpu(), torch.hash_tensor(rows, 1))


def test_nansum_refuses_an_integer_out(device):
    with pytest.raises(RuntimeError, match="can be cast"):
        torch.nansum(torch.ones(3, device=device), 0, out=torch.empty((), dtype=torch.long, device=device))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16, torch.complex64), ids=str)
def test_outputs_of_moments(dtype, device):
    x = torch.tensor([[1.0, 2, 4], [1, 3, 2]]).to(dtype)
    for to in (torch.float64, torch.float16, torch.float32, torch.bfloat16, torch.complex64, torch.int32):
        for function in (lambda x, out: torch.var(x, out=out), lambda x, out: torch.std(x, 1, out=out)):
            results = []
            for place in ("cpu", device):
                try:
                    results.append(function(x.to(place), torch.empty(0, dtype=to, device=place)).cpu())
                except (NotImplementedError, RuntimeError) as error:
                    results.append(type(error))
            if isinstance(results[0], torch.Tensor):
                torch.testing.assert_close(results[1], results[0])
            else:
                assert results[0] is results[1], (to, results)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.int32, torch.bool, torch.complex64), ids=str)
def test_dtypes_of_results(dtype, device):
    """Numbers become what they are added as before they are added."""
    x = torch.tensor([[1.0, 2.5, 0], [-3, 1.5, 0]]).to(dtype)
    if dtype.is_complex:
        x = x * (1 + 2j)
    for wanted in (torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128):
        for name in ("sum", "prod", "nansum", "mean"):
            reduce = getattr(torch, name)
            for arguments in ((), (1,)):
                try:
                    expected = reduce(x, *arguments, dtype=wanted)
                except RuntimeError as error:
                    with pytest.raises(type(error)):
                        reduce(x.to(device), *arguments, dtype=wanted)
                else:
                    torch.testing.assert_close(reduce(x.to(device), *arguments, dtype=wanted).cpu(), expected)
    if dtype.is_floating_point:
        x[0, 0] = float("nan")
        assert torch.nansum(x.to(device), 1, dtype=torch.int64).tolist() == [2, -2]


def test_medians_of_nothing(device):
    for dtype in (torch.float32, torch.int8, torch.int64):
        nothing = torch.empty(0, dtype=dtype)
        torch.testing.assert_close(nothing.to(device).median().cpu(), nothing.median(), equal_nan=True)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int64), ids=str)
@pytest.mark.parametrize("shape", ((70, 16, 37), (1100, 33, 3), (2, 1029, 129), (5, 300, 200), (2, 3, 130), (4, 2, 65)),
                         ids=str)
def test_whole_and_cut_blocks(shape, dtype, device):
    """Accumulators side by side, along the reduction or of neighbouring outputs, whole and less at the ends."""
    x = torch.randint(0, 5, shape).to(dtype)
    x[tuple(n - 1 for n in shape)] = 7
    for dim in (0, 1):
        for y in (x, x.transpose(1, 2)):
            z = y.to(device)
            assert torch.equal(z.sum(dim, dtype=torch.float32).cpu(), y.sum(dim, dtype=torch.float32))
            largest = y.amax(dim, keepdim=True)
            values, first = z.max(dim)
            assert torch.equal(values.cpu(), largest.squeeze(dim))
            assert torch.equal(first.cpu(), (y == largest).to(torch.uint8).argmax(dim))
            if dtype == torch.float32:
                torch.testing.assert_close(z.var(dim).cpu(), y.double().var(dim).float())


@pytest.mark.parametrize("number", (float("inf"), float("-inf"), float("nan")))
def test_extremes_of_one_number(number, device):
    x = torch.full((200, 100), number)
    x[:, 3] = x[7] = float("-inf")
    for dim in (0, 1):
        for name in ("max", "min"):
            want, got = getattr(x, name)(dim), getattr(x.to(device), name)(dim)
            torch.testing.assert_close(got.values.cpu(), want.values, equal_nan=True)
            assert torch.equal(got.indices.cpu(), want.indices)


@pytest.mark.parametrize("length", (9, 15, 16, 17, 31, 64, 100, 128, 129, 191, 256, 257, 1000, 1025))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int32, torch.float64, torch.int64, torch.int16,
                                   torch.uint8, torch.int8), ids=str)
def test_many_short_rows(length, dtype, device):
    """CPUs fold them sixteen or eight at a time; the last ones may begin within those before."""
    torch.manual_seed(length)
    for rows in (256, 271):
        x = torch.randn(rows, length).mul(4).round().abs().to(dtype)
        if dtype != torch.uint8:
            x *= torch.randn(rows, length).sign().to(dtype)
        if dtype.is_floating_point:
            x[3, length - 1], x[7, 0], x[rows - 1, length // 2] = torch.nan, torch.inf, torch.nan
        for y in (x.to(device), torch.stack([x, x], 1).to(device)[:, 1]):
            for name in ("amax", "amin", "argmax", "argmin", "any", "sum"):
                expected = getattr(x, name)(-1) if name != "any" else x.ne(0).any(-1)
                got = getattr(y, name)(-1) if name != "any" else y.ne(0).any(-1)
                near = {} if name == "sum" else {"rtol": 0, "atol": 0}
                torch.testing.assert_close(got.cpu(), expected, equal_nan=True, **near)
            norm = torch.linalg.vector_norm(y.float(), dim=-1)
            torch.testing.assert_close(norm.cpu(), torch.linalg.vector_norm(x.float(), dim=-1), equal_nan=True)
