"""Reductions against PyTorch's CPU."""
import pytest
import torch

from opinfo import case_id, cases, check

NAMES = {
    "sum", "mean", "nansum", "nanmean", "prod", "var", "std", "var_mean", "std_mean", "amax", "amin", "aminmax", "max", "min",
    "argmax", "argmin", "any", "all", "count_nonzero", "norm", "linalg.vector_norm", "logsumexp", "trace", "equal", "dist",
    "nn.functional.normalize", "nn.functional.pairwise_distance", "nn.functional.cosine_similarity",
}


CASES = [case for case in cases(NAMES) if case[0].variant_test_name != "nuc"]     # the nuclear norm is linear algebra


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_against_cpu(case, device):
    check(*case, device)
