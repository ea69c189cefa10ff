"""Operators that few programs run: one problem for each kernel that no other list reaches."""
from __future__ import annotations

from collections.abc import Iterator

from .problem import Problem, backward, empty
from .problems_other import integers


def losses() -> Iterator[Problem]:
    import torch
    F = torch.nn.functional
    lengths = torch.full((16,), 50), torch.full((16,), 10)
    yield Problem("loss: ctc backward, float32, 50x16x20", backward(
        lambda x: F.ctc_loss(x, integers(16, 10) + 1, *lengths), lambda: [empty(50, 16, 20, grad=True)]))
    yield Problem("loss: multi margin backward, float32, 4096x100", backward(
        lambda x: F.multi_margin_loss(x, integers(4096)), lambda: [empty(4096, 100, grad=True)]))
    yield Problem("loss: multilabel margin, float32, 4096x100",
                  lambda: F.multilabel_margin_loss(empty(4096, 100), integers(4096, 100)))
    yield Problem("loss: multilabel margin backward, float32, 4096x100", backward(
        lambda x: F.multilabel_margin_loss(x, integers(4096, 100)), lambda: [empty(4096, 100, grad=True)]))
    yield Problem("loss: binary cross entropy, float32, 1M",
                  lambda: F.binary_cross_entropy(empty(1 << 20), empty(1 << 20)), 4)
    yield Problem("loss: nll backward of images, float32, 8x21x64x64", backward(
        lambda x: F.nll_loss(x, integers(8, 64, 64)), lambda: [empty(8, 21, 64, 64, grad=True)]), 4)
    yield Problem("loss: nll of each, float32, 4096x1000",
                  lambda: F.nll_loss(empty(4096, 1000), integers(4096), reduction="none"), 4)


def linear_algebra() -> Iterator[Problem]:
    import torch
    linalg = torch.linalg
    yield Problem("linalg: svd, float32, 4x65x33", lambda: linalg.svd(empty(4, 65, 33)))
    yield Problem("linalg: svd, float64, 4x33x33", lambda: linalg.svd(empty(4, 33, 33, dtype="float64")))
    yield Problem("linalg: det, complex64, 4x33x33", lambda: linalg.det(empty(4, 33, 33, dtype="complex64")))
    yield Problem("linalg: qr, complex64, 4x65x33", lambda: linalg.qr(empty(4, 65, 33, dtype="complex64")))
    yield Problem("linalg: lu_factor, complex64, 4x65x65",
                  lambda: linalg.lu_factor(empty(4, 65, 65, dtype="complex64")))
    yield Problem("linalg: eig, complex64, 4x32x32", lambda: linalg.eig(empty(4, 32, 32, dtype="complex64")))
    yield Problem("linalg: ldl_solve, float32, 4x33x33", lambda: linalg.ldl_solve(
        empty(4, 33, 33), empty(4, 33, dtype="int32").fill_(1), empty(4, 33, 8)))
    yield Problem("distance: cdist p=1.5 backward, float32, 1024x512x64", backward(
        lambda a, b: torch.cdist(a, b, 1.5), lambda: [empty(1024, 64, grad=True), empty(512, 64, grad=True)]))
    yield Problem("sparse: sampled product, float32, 64x64", lambda: torch.sparse.sampled_addmm(
        torch.eye(64, device="ocl").to_sparse_csr(), empty(64, 64), empty(64, 64)))


def places() -> Iterator[Problem]:
    import torch
    F = torch.nn.functional
    yield Problem("pad: reflect backward, float32, 8x64x64x64", backward(
        lambda x: F.pad(x, (2, 1, 0, 3), mode="reflect"), lambda: [empty(8, 64, 64, 64, grad=True)]), 4)
    yield Problem("pool: fractional max, float32, 8x64x57x57",
                  lambda: F.fractional_max_pool2d(empty(8, 64, 57, 57), 3, output_size=(28, 28)), 4)
    yield Problem("copy: linspace, float32, 1M", lambda: torch.linspace(0, 1, 1 << 20, device="ocl"), 4)


def chance_and_steps() -> Iterator[Problem]:
    import torch
    F = torch.nn.functional
    yield Problem("random: bernoulli of each, float32, 4M", lambda: torch.bernoulli(empty(1 << 22)), 4)
    yield Problem("random: dropout backward, float32, 4M", backward(
        lambda x: F.dropout(x, 0.1), lambda: [empty(1 << 22, grad=True)]), 4)

    def step(make):
        def run():
            parameters = [empty(512, 1024, grad=True) for _ in range(4)]
            for parameter in parameters:
                parameter.grad = torch.empty_like(parameter, requires_grad=False)
            return make(parameters).step
        return run
    yield Problem("optimizer: sgd fused, float32, 4 of 512x1024",
                  step(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True)), 4)
    yield Problem("optimizer: adagrad fused, float32, 4 of 512x1024",
                  step(lambda p: torch.optim.Adagrad(p, fused=True)), 4)
    yield Problem("optimizer: unscale, float32, 4 of 512x1024",
                  lambda: torch._amp_foreach_non_finite_check_and_unscale_(
                      [empty(512, 1024) for _ in range(4)], empty(1), empty(1)), 4)


def weights() -> Iterator[Problem]:
    import torch
    n, k, group = 4096, 4096, 128
    yield Problem(f"low_bit: int4, float16 64 rows, {n}x{k}", lambda: torch._weight_int4pack_mm(
        empty(64, k, dtype="float16"), empty(n // 8, k // 32, 32, 1, dtype="int32"), group,
        empty(k // group, n, 2, dtype="float16")), 0)
    yield Problem(f"low_bit: int8, float16 64 rows, {n}x{k}", lambda: torch._weight_int8pack_mm(
        empty(64, k, dtype="float16"), empty(n, k, dtype="int8"), empty(n, dtype="float16")), 0)
    yield Problem(f"low_bit: pack of int4, {n}x{k}", lambda: torch._convert_weight_to_int4pack(
        empty(n, k // 2, dtype="uint8"), 2))


def problems() -> Iterator[Problem]:
    for family in (losses, linear_algebra, places, chance_and_steps, weights):
        yield from family()
