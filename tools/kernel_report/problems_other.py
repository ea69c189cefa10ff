"""The remaining families, each with what its kernels are chosen by."""
from __future__ import annotations

from collections.abc import Iterator

from .problem import Problem, backward, empty, without_gradients
from .problems_heavy import LAYOUTS


def integers(*shape):
    """Indices: memory that was never written may hold anything, and some operators look at theirs."""
    return empty(*shape, dtype="int64").zero_()


def losses() -> Iterator[Problem]:
    import torch
    F = torch.nn.functional

    def cross_entropy(x):
        return F.cross_entropy(x, integers(4096))
    yield Problem("loss: cross entropy forward, float32, 4096x1000",
                  lambda: without_gradients(cross_entropy, [empty(4096, 1000)]), 4)
    yield Problem("loss: cross entropy backward, float32, 4096x1000",
                  backward(cross_entropy, lambda: [empty(4096, 1000, grad=True)]), 4)
    yield Problem("loss: nll of images, float32, 8x21x64x64",
                  lambda: F.nll_loss(empty(8, 21, 64, 64), integers(8, 64, 64)), 4)
    yield Problem("loss: nll of images, float32, 8x21x512x512",
                  lambda: F.nll_loss(empty(8, 21, 512, 512), integers(8, 512, 512)), 4)
    yield Problem("loss: smooth l1, float32, 1M", lambda: F.smooth_l1_loss(empty(1 << 20), empty(1 << 20)), 4)
    yield Problem("loss: multi margin, float32, 4096x100",
                  lambda: F.multi_margin_loss(empty(4096, 100), integers(4096)))
    yield Problem("loss: ctc, float32, 50x16x20", lambda: F.ctc_loss(
        empty(50, 16, 20), integers(16, 10) + 1, torch.full((16,), 50), torch.full((16,), 10)))


def indexing() -> Iterator[Problem]:
    import torch
    F = torch.nn.functional
    table = {
        "gather": lambda x, rows: x.gather(1, integers(4096, 512)),
        "scatter add": lambda x, rows: x.scatter_add_(0, integers(512, 1024), rows),
        "index rows": lambda x, rows: x[integers(512)],
        "index select": lambda x, rows: x.index_select(1, integers(512)),
        "index put": lambda x, rows: x.index_put_((integers(512),), rows),
        "index add": lambda x, rows: x.index_add_(0, integers(512), rows),
        "embedding": lambda x, rows: F.embedding(integers(32, 128), x),
        "masked fill": lambda x, rows: x.masked_fill_(empty(4096, 1024, dtype="bool"), 0),
        "triu": lambda x, rows: x.triu(),
    }
    for dtype in ("float32", "float16"):
        for name, operator in table.items():
            yield Problem(f"index: {name}, {dtype}",
                          lambda f=operator, d=dtype: f(empty(4096, 1024, dtype=d), empty(512, 1024, dtype=d)),
                          4 if dtype == "float32" else 2)
    for mode in "sum", "mean", "max":
        yield Problem(f"index: embedding_bag {mode}, float32", lambda mode=mode: F.embedding_bag(
            integers(512, 32), empty(30000, 64), mode=mode), 4)
    yield Problem("index: embedding backward, float32", lambda: torch.ops.aten.embedding_dense_backward(
        empty(32, 128, 768), integers(32, 128), 30000, -1, False), 4)
    yield Problem("index: add of many rows, float32, 1Mx64", lambda: empty(100000, 64).index_add_(
        0, integers(1 << 20), empty(1 << 20, 64)), 4)
    yield Problem("index: scatter add of many, float32, 1M", lambda: empty(100000).scatter_add_(
        0, integers(1 << 20), empty(1 << 20)), 4)
    yield Problem("index: scatter add along rows, float32, 256x4096", lambda: empty(256, 4096).scatter_add_(
        1, integers(256, 4096), empty(256, 4096)), 4)
    yield Problem("index: nonzero, float32, 1M", lambda: torch.ops.aten.nonzero_static(empty(1024, 1024), size=100))


def images() -> Iterator[Problem]:
    import torch
    F = torch.nn.functional
    for mode in ("nearest", "bilinear", "bicubic"):
        for last in (False, True):
            def resize(x, mode=mode):
                return F.interpolate(x, scale_factor=2, mode=mode)

            def inputs(last=last):
                return [empty(8, 64, 64, 64, channels_last=last, grad=True)]
            line = f"{mode}, float32, {LAYOUTS[last]}, 8x64x64x64"
            yield Problem(f"resample: forward {line}", lambda f=resize, i=inputs: without_gradients(f, i()), 4)
            yield Problem(f"resample: backward {line}", backward(resize, inputs), 4)
    yield Problem("resample: forward bilinear, float32, NCHW, 1x3x480x640", lambda: F.interpolate(
        empty(1, 3, 480, 640), scale_factor=2, mode="bilinear"), 4)
    yield Problem("resample: trilinear, float32, 2x16x16x28x28", lambda: F.interpolate(
        empty(2, 16, 16, 28, 28), scale_factor=2, mode="trilinear"), 4)
    yield Problem("resample: antialias, float32, 8x3x512x512",
                  lambda: F.interpolate(empty(8, 3, 512, 512), (224, 224), mode="bilinear", antialias=True), 4)
    yield Problem("pad: reflect, float32, 8x64x64x64",
                  lambda: F.pad(empty(8, 64, 64, 64), (2, 1, 0, 3), mode="reflect"), 4)
    yield Problem("pad: constant, float32, 8x64x64x64", lambda: F.pad(empty(8, 64, 64, 64), (2, 1, 0, 3)), 4)

    def grid_sample(x, grid):
        return F.grid_sample(x, grid, align_corners=False)

    def places():
        return [empty(8, 64, 64, 64, grad=True), empty(8, 64, 64, 2, grad=True)]
    yield Problem("grid_sample: forward, float32, 8x64x64x64", lambda: without_gradients(grid_sample, places()), 4)
    yield Problem("grid_sample: backward, float32, 8x64x64x64", backward(grid_sample, places), 4)
    yield Problem("grid_sample: backward, float32, 8x256x32x32", backward(
        grid_sample, lambda: [empty(8, 256, 32, 32, grad=True), empty(8, 32, 32, 2, grad=True)]), 4)
    yield Problem("unfold: im2col, float32, 8x64x56x56", lambda: F.unfold(empty(8, 64, 56, 56), 3, padding=1), 4)
    yield Problem("unfold: col2im, float32, 8x64x56x56", lambda: F.fold(empty(8, 64 * 9, 56 * 56), 56, 3, padding=1), 4)
    yield Problem("pool: max with indices, float32, 8x64x56x56",
                  lambda: F.max_pool2d(empty(8, 64, 56, 56), 2, return_indices=True), 4)
    yield Problem("pool: adaptive average backward, float32, 2x30x129", backward(
        lambda x: F.adaptive_avg_pool1d(x, 7), lambda: [empty(2, 30, 129, grad=True)]), 4)
    yield Problem("pool: unpool, float32, 8x64x28x28",
                  lambda: F.max_unpool2d(empty(8, 64, 28, 28), integers(8, 64, 28, 28), 2), 4)


def detection() -> Iterator[Problem]:
    def roi_align(x):
        from torchvision.ops import roi_align
        return roi_align(x, empty(512, 5).zero_(), (7, 7), 0.25, 2)
    yield Problem("roi: align forward, float32, 2x256x64x64, 512 boxes",
                  lambda: without_gradients(roi_align, [empty(2, 256, 64, 64)]))
    yield Problem("roi: align backward, float32, 2x256x64x64, 512 boxes",
                  backward(roi_align, lambda: [empty(2, 256, 64, 64, grad=True)]))

    def other(name):
        import torchvision.ops
        return getattr(torchvision.ops, name)(empty(2, 196, 64, 64), empty(512, 5).zero_(), 7)
    for name in ("roi_pool", "ps_roi_align", "ps_roi_pool"):
        yield Problem(f"roi: {name}, float32, 2x196x64x64, 512 boxes", lambda name=name: other(name))

    def nms():
        import torchvision.ops
        return torchvision.ops.nms(empty(2000, 4).zero_(), empty(2000).zero_(), 0.5)
    yield Problem("nms: float32, 2000 boxes", nms)

    def rotated():
        import torchvision
        return torchvision.ops.box_iou(empty(2000, 5).zero_(), empty(100, 5).zero_(), fmt="cxcywhr")
    yield Problem("nms: overlaps of rotated boxes, float32, 2000 by 100", rotated)


def sorting() -> Iterator[Problem]:
    import torch
    yield Problem("sort: rows, float32, 1024x1000", lambda: torch.sort(empty(1024, 1000), dim=1, stable=True), 4)
    yield Problem("sort: all, float32, 1M", lambda: empty(1 << 20).sort(), 4)
    yield Problem("sort: rows, float32, 8x50257", lambda: torch.sort(empty(8, 50257), dim=1), 4)
    yield Problem("sort: topk, float32, 1024x1000", lambda: empty(1024, 1000).topk(10), 4)
    yield Problem("sort: histc, float32, 100 bins", lambda: torch.histc(empty(65536), 100, 0, 1))
    yield Problem("sort: histc, float32, 100000 bins", lambda: torch.histc(empty(65536), 100000, 0, 1))
    yield Problem("sort: searchsorted, float32, 4096", lambda: torch.searchsorted(empty(4096), empty(65536)))


def numbers() -> Iterator[Problem]:
    for name in ("uniform_", "normal_", "exponential_", "bernoulli_"):
        yield Problem(f"random: {name[:-1]}, float32, 4M", lambda name=name: getattr(empty(1 << 22), name)(), 4)


def variates() -> Iterator[Problem]:
    import torch
    yield Problem("random: poisson, float32, 1M", lambda: torch.poisson(empty(1 << 20)), 4)
    yield Problem("random: gamma, float32, 1M", lambda: torch._standard_gamma(empty(1 << 20)), 4)


def mathematics() -> Iterator[Problem]:
    import torch
    linalg = torch.linalg
    table = {"cholesky": linalg.cholesky, "lu": linalg.lu_factor, "qr": linalg.qr, "eigvalsh": linalg.eigvalsh,
             "svdvals": linalg.svdvals, "det": linalg.det, "solve": lambda a: linalg.solve(a, empty(16, 64, 8))}
    for name, operator in table.items():
        yield Problem(f"linalg: {name}, float32, 16x64x64", lambda f=operator: f(empty(16, 64, 64)))
    yield Problem("fft: float32, 256x1024", lambda: torch.fft.rfft(empty(256, 1024)))
    for lines, n in (256, 1024), (400, 480), (16, 65536), (64, 1009), (64, 17), (400, 1001):   # large and small primes
        yield Problem(f"fft: complex64, {lines}x{n}",
                      lambda lines=lines, n=n: torch.fft.fft(empty(lines, n, dtype="complex64")))
    yield Problem("fft: float32, 16x131072", lambda: torch.fft.rfft(empty(16, 131072)))
    yield Problem("fft: float32 of complex64, 16x131072",
                  lambda: torch.fft.irfft(empty(16, 65537, dtype="complex64")))
    yield Problem("fft: complex64, 4x256x64, dim 1",
                  lambda: torch.fft.fft(empty(4, 256, 64, dtype="complex64"), dim=1))
    yield Problem("fft: complex64, 4x70x64, dim 1",
                  lambda: torch.fft.fft(empty(4, 70, 64, dtype="complex64"), dim=1))
    yield Problem("linalg: eig, float32, 4x32x32", lambda: linalg.eig(empty(4, 32, 32)))
    yield Problem("linalg: eigh, complex64, 4x32x32", lambda: linalg.eigh(empty(4, 32, 32, dtype="complex64")))
    yield Problem("linalg: ldl_factor, float32, 4x33x33", lambda: linalg.ldl_factor_ex(empty(4, 33, 33)))
    yield Problem("linalg: lu_unpack, float32, 16x64x64", lambda: torch.lu_unpack(empty(16, 64, 64),
                                                                                empty(16, 64, dtype="int32")))
    yield Problem("linalg: triangular solve, float32, 4x64x64",
                  lambda: linalg.solve_triangular(empty(4, 64, 64), empty(4, 64, 64), upper=True))
    yield Problem("sparse: rows times dense, float32, 64x64", lambda: torch.addmm(
        empty(64, 64), torch.eye(64, device="ocl").to_sparse_csr(), empty(64, 64)))
    yield Problem("sparse: triangular system, float32, 64x64", lambda: torch.triangular_solve(
        empty(64, 8), torch.eye(64).to_sparse_csr().to("ocl")))
    for p in (1.0, 2.0, 1.5):
        yield Problem(f"distance: cdist p={p}, float32, 1024x1024x64",
                      lambda p=p: torch.cdist(empty(1024, 64), empty(1024, 64), p))


def lstm_gradients():
    import torch
    net = torch.nn.LSTM(256, 256, device="ocl")
    return backward(lambda x, *_: net(x)[0], lambda: [empty(32, 32, 256).requires_grad_(), *net.parameters()])()


def networks() -> Iterator[Problem]:
    import torch
    yield Problem("rnn: lstm, float32, 32x32x256", lambda: without_gradients(
        torch.nn.LSTM(256, 256, device="ocl"), [empty(32, 32, 256)]))
    yield Problem("rnn: backward lstm, float32, 32x32x256", lstm_gradients)
    yield Problem("rnn: gru, float16, 32x32x256", lambda: without_gradients(
        torch.nn.GRU(256, 256, device="ocl", dtype=torch.float16), [empty(32, 32, 256, dtype="float16")]))


def further() -> Iterator[Problem]:
    """What few models ask for."""
    import torch
    yield Problem("pointwise: bessel_j0, float32, 4M", lambda: torch.special.bessel_j0(empty(1 << 22)), 4)
    yield Problem("random: integers, int64, 4M", lambda: empty(1 << 22, dtype="int64").random_(0, 1000), 8)
    if hasattr(torch.ops.aten, "_philox_uniform_"):   # PyTorch 2.14
        yield Problem("random: uniform by keys, float32, 4M", lambda: torch.ops.aten._philox_uniform_(
            empty(1 << 22), empty(2, dtype="uint64")), 4)
    yield Problem("sort: mode of rows, float32, 1024x1000", lambda: empty(1024, 1000).mode(1))
    yield Problem("copy: float32 to float8, 4M", lambda: empty(1 << 22).to(torch.float8_e4m3fn), 1)
    yield Problem("copy: float8 to float32, 4M", lambda: empty(1 << 22, dtype="float8_e5m2").float(), 4)
    yield Problem("linalg: eigvals, complex64, 4x32x32", lambda: torch.linalg.eigvals(
        empty(4, 32, 32, dtype="complex64")))
    yield Problem("optimizer: scale of gradients", lambda: torch._amp_update_scale_(
        empty(1), empty(1, dtype="int32"), empty(1), 2.0, 0.5, 2000))
    for step in ("forward", "backward"):
        yield Problem(f"roi: deformable position-sensitive {step}, float32, 2x196x64x64, 512 boxes",
                      lambda s=step: deformable_pooling(s))

    def reduced():
        kept = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return empty(1024, 1024) @ empty(1024, 1024)
        finally:
            torch.set_float32_matmul_precision(kept)
    yield Problem("gemm: float32 of reduced precision NN 1024", reduced)


def deformable_pooling(step: str):
    import torch
    from torch_ocl import dcn_v2   # noqa: F401 - registers the operators
    operators, rois, offset = torch.ops.torch_ocl, empty(512, 5).zero_(), empty(512, 2, 7, 7)
    x, rest = empty(2, 196, 64, 64), (False, 0.25, 4, 7, 7, 7, 4, 0.1)
    y, count = operators.dcn_v2_psroi_pooling_forward(x, rois, offset, *rest)
    if step == "backward":
        operators.dcn_v2_psroi_pooling_backward(torch.empty_like(y), x, rois, offset, count, *rest)


def problems() -> Iterator[Problem]:
    for family in (losses, indexing, images, detection, sorting, numbers, variates, mathematics, networks, further):
        yield from family()
