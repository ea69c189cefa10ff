"""Operators that PyTorch composes with float64 in between, on a device that is said to have none."""

import os
import subprocess
import sys

SCRIPT = '''
import torch

torch.manual_seed(0)
torch.ocl.set_fallback_policy("error")
assert not torch.ocl.get_device_properties(0).fp64


def check(function, *inputs):
    want = function(*inputs)
    got = function(*(x.to("ocl") for x in inputs))
    torch.testing.assert_close(got.cpu(), want, equal_nan=True, rtol=1e-5, atol=1e-5)


x = torch.randn(5, 7)
x[1, 2] = float("nan")
q = torch.tensor([0.0, 0.1, 0.25, 0.5, 0.77, 1.0])
for function in (torch.quantile, torch.nanquantile):
    for interpolation in ("linear", "lower", "higher", "nearest", "midpoint"):
        for dim, keepdim in ((None, True), (0, False), (1, True), (-1, False)):
            check(lambda x, q: function(x, q, dim, keepdim, interpolation=interpolation), x, q)
            check(lambda x: function(x, 0.3, dim, keepdim, interpolation=interpolation), x)
check(lambda x, q: torch.quantile(x, q, 0, True), torch.tensor(3.0), q)
check(torch.quantile, torch.randn(3000), torch.tensor([1e-30, 1e-6, 0.999999, 1 / 3]))


def gradient(function):
    def run(x):
        x = x.detach().requires_grad_()
        function(x).square().sum().backward()
        return x.grad
    return run


check(gradient(lambda x: torch.quantile(x, 0.3, 1)), torch.randn(4, 6))
check(gradient(torch.linalg.pinv), torch.randn(2, 5, 3))
thin = torch.randn(3, 6, 4)
thin[:, :, 3] = thin[:, :, 2] * 2
for options in ({}, {"atol": 0.5}, {"rtol": 0.5}, {"hermitian": True}):
    a = thin.mT @ thin if "hermitian" in options else thin
    check(lambda a: torch.linalg.matrix_rank(a, **options), a)
    check(lambda a: torch.linalg.pinv(a, **({"rtol": 1e-3} | options)), a)
check(lambda a: torch.linalg.matrix_rank(a, 0.1), thin)
check(lambda a, t: torch.linalg.matrix_rank(a, atol=t), thin, torch.tensor(0.3))
check(lambda a: torch.pinverse(a, 0.1), thin)
check(lambda a: torch.linalg.matrix_rank(a[:0]), thin)
'''


def test_quantiles_ranks_and_pseudo_inverses():
    environment = {**os.environ, "CLPRIM_DEVICE_FIGURES": "fp64=0"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], env=environment, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
