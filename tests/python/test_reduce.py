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


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32,
                                   torch.uint8), ids=str)
def test_hash_of_every_kind_of_number(dtype, device):
    if dtype.is_floating_point:
        tiny = torch.finfo(dtype).tiny
        x = torch.tensor([0.0, -0.0, 1.5, -3, tiny, tiny / 2, -tiny / 4, torch.finfo(dtype).max, float("inf"),
                          -float("inf"),
                          float("nan")], dtype=dtype)
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
