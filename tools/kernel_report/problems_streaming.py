"""Problems that memory limits: what counts is how many instructions each element takes."""
from __future__ import annotations

from collections.abc import Callable, Iterator

from .problem import Problem, backward, empty, without_gradients
from .problems_heavy import FLOATS, LAYOUTS

SIZES = {"float64": 8, "float32": 4, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "uint8": 1, "bool": 1}
PLAIN = (1 << 22,)


def functional():
    from torch.nn import functional
    return functional


def pointwise() -> Iterator[Problem]:
    import torch
    F = functional()
    operators: dict[str, Callable] = {
        "a + b": lambda a: a + torch.empty_like(a), "a * 2": lambda a: a * 2, "relu": torch.relu, "gelu": F.gelu,
        "exp": torch.exp, "sigmoid backward": lambda a: torch.ops.aten.sigmoid_backward(a, torch.empty_like(a)),
        "a > 0": lambda a: a > 0, "where": lambda a: torch.where(empty(*PLAIN, dtype="bool"), a, 0.0),
        "addcmul in place": lambda a: a.addcmul_(torch.empty_like(a), torch.empty_like(a)), "tanh": torch.tanh}
    for dtype in FLOATS:
        for name, operator in operators.items():
            yield Problem(f"pointwise: {name}, {dtype}, 4M", lambda f=operator, d=dtype: f(empty(*PLAIN, dtype=d)),
                          1 if name == "a > 0" else SIZES[dtype])
    for dtype in ("int32", "int64", "float64", "uint8"):
        yield Problem(f"pointwise: a + b, {dtype}, 4M",
                      lambda d=dtype: empty(*PLAIN, dtype=d) + empty(*PLAIN, dtype=d), SIZES[dtype])
    for dtype in ("float32", "float16"):
        yield Problem(f"pointwise: a + channel, {dtype}, 32x64x56x56",
                      lambda d=dtype: empty(32, 64, 56, 56, dtype=d) + empty(64, 1, 1, dtype=d), SIZES[dtype])
        yield Problem(f"pointwise: a + row, {dtype}, 4096x1000",
                      lambda d=dtype: empty(4096, 1000, dtype=d) + empty(1000, dtype=d), SIZES[dtype])
        yield Problem(f"pointwise: a + b transposed, {dtype}, 2048x2048",
                      lambda d=dtype: empty(2048, 2048, dtype=d) + empty(2048, 2048, dtype=d).t(), SIZES[dtype])
    yield Problem("pointwise: erfinv, float16, 4M", lambda: torch.erfinv(empty(*PLAIN, dtype="float16")), 2)
    yield Problem("pointwise: lgamma, float32, 4M", lambda: torch.lgamma(empty(*PLAIN)), 4)
    yield Problem("pointwise: igamma, float32, 4M", lambda: torch.igamma(empty(*PLAIN), empty(*PLAIN)), 4)
    yield Problem("pointwise: dropout, float32, 4M", lambda: torch.dropout(empty(*PLAIN), 0.1, True), 4)


def copies() -> Iterator[Problem]:
    import torch
    for dtype in ("float32", "float16", "int64", "uint8"):
        size = SIZES[dtype]
        yield Problem(f"copy: transpose, {dtype}, 2048x2048",
                      lambda d=dtype: empty(2048, 2048, dtype=d).t().contiguous(), size)
        yield Problem(f"copy: NCHW to NHWC, {dtype}, 32x64x56x56",
                      lambda d=dtype: empty(32, 64, 56, 56, dtype=d).contiguous(memory_format=torch.channels_last),
                      size)
        yield Problem(f"copy: NHWC to NCHW, {dtype}, 32x64x56x56",
                      lambda d=dtype: empty(32, 64, 56, 56, dtype=d, channels_last=True).contiguous(), size)
    for dtype in ("float32", "float16"):
        size = SIZES[dtype]
        yield Problem(f"copy: heads, {dtype}, 8x512x12x64",
                      lambda d=dtype: empty(8, 512, 12, 64, dtype=d).transpose(1, 2).contiguous(), size)
        yield Problem(f"copy: permute 3 0 2 1, {dtype}, 16x32x64x64",
                      lambda d=dtype: empty(16, 32, 64, 64, dtype=d).permute(3, 0, 2, 1).contiguous(), size)
        yield Problem(f"copy: every second column, {dtype}, 4096x2048",
                      lambda d=dtype: empty(4096, 2048, dtype=d)[:, ::2].contiguous(), size)
        yield Problem(f"copy: cat, {dtype}, 3 of 1024x700",
                      lambda d=dtype: torch.cat([empty(1024, 700, dtype=d) for _ in range(3)], 1), size)
        yield Problem(f"copy: fill of columns, {dtype}, 4096x2048",
                      lambda d=dtype: empty(4096, 2048, dtype=d)[:, ::2].fill_(1.5), size)
    yield Problem("copy: float32 to float16, 4M", lambda: empty(*PLAIN).half(), 2)
    yield Problem("copy: float16 to float32, 4M", lambda: empty(*PLAIN, dtype="float16").float(), 4)
    yield Problem("copy: float32 to bfloat16, 4M", lambda: empty(*PLAIN).bfloat16(), 2)
    yield Problem("copy: uint8 to float32, 4M", lambda: empty(*PLAIN, dtype="uint8").float(), 4)


def sums() -> Iterator[Problem]:
    import torch
    for dtype in FLOATS:
        size = SIZES[dtype]
        for name, axis in (("all", None), ("rows", 1), ("columns", 0)):
            yield Problem(f"sum: {name}, {dtype}, 4096x4096",
                          lambda d=dtype, a=axis: torch.sum(empty(4096, 4096, dtype=d), a), size)
        yield Problem(f"sum: channels of NCHW, {dtype}, 32x64x56x56",
                      lambda d=dtype: empty(32, 64, 56, 56, dtype=d).sum((0, 2, 3)), size)
    yield Problem("sum: amax of rows, float32, 4096x4096", lambda: empty(4096, 4096).amax(1), 4)
    yield Problem("sum: argmax of rows, float32, 4096x4096", lambda: empty(4096, 4096).argmax(1), 4)
    yield Problem("sum: max of rows and its place, uint8, 4096x4096",
                  lambda: empty(4096, 4096, dtype="uint8").max(1), 1)
    yield Problem("sum: variance of rows, float32, 4096x4096", lambda: empty(4096, 4096).var(1), 4)
    yield Problem("sum: norm, float32, 16M", lambda: empty(4096, 4096).norm(), 4)
    yield Problem("sum: rows, float32, 65536x128", lambda: empty(65536, 128).sum(1), 4)
    yield Problem("sum: channels of NHWC, float32, 32x64x56x56",
                  lambda: empty(32, 64, 56, 56, channels_last=True).sum((0, 2, 3)), 4)
    yield Problem("sum: channels of NCHW, float32, 32x512x7x7", lambda: empty(32, 512, 7, 7).sum((0, 2, 3)), 4)
    yield Problem("sum: cumsum of rows, float32, 4096x4096", lambda: empty(4096, 4096).cumsum(1), 4)
    yield Problem("sum: cumsum of columns, float32, 4096x4096", lambda: empty(4096, 4096).cumsum(0), 4)
    yield Problem("sum: cumsum of rows, float32, 8x50257", lambda: empty(8, 50257).cumsum(1), 4)
    yield Problem("sum: cumsum of one row, float32, 1M", lambda: empty(1 << 20).cumsum(0), 4)
    yield Problem("sum: cumsum of a mask, boolean, 4096x64", lambda: empty(4096, 64, dtype="bool").cumsum(0), 8)
    yield Problem("sum: cumprod of rows, float32, 4096x1000", lambda: empty(4096, 1000).cumprod(1), 4)
    yield Problem("sum: logcumsumexp of rows, float32, 4096x1000", lambda: empty(4096, 1000).logcumsumexp(1), 4)
    yield Problem("sum: cummax of rows, float32, 4096x1000", lambda: empty(4096, 1000).cummax(1), 4)
    yield Problem("sum: cummax of rows, boolean, 4096x1000", lambda: empty(4096, 1000, dtype="bool").cummax(1), 8)


def softmax() -> Iterator[Problem]:
    import torch
    for dtype in FLOATS:
        for name, shape in (("rows", (4096, 1000)), ("short rows", (65536, 64)), ("axis 1", (8, 150, 64, 64))):
            line = f"{name}, {dtype}, {'x'.join(map(str, shape))}"
            yield Problem(f"softmax: forward {line}",
                          lambda d=dtype, s=shape: torch.softmax(empty(*s, dtype=d), 1), SIZES[dtype])
            yield Problem(f"softmax: backward {line}",
                          backward(lambda x: torch.log_softmax(x, 1),
                                   lambda d=dtype, s=shape: [empty(*s, dtype=d, grad=True)]), SIZES[dtype])


    for shape in ((1, 50257), (8, 128256)):   # of a language model that decodes
        line = f"few long rows, float32, {'x'.join(map(str, shape))}"
        yield Problem(f"softmax: forward {line}", lambda s=shape: torch.softmax(empty(*s), 1), 4)
        yield Problem(f"softmax: backward {line}",
                      backward(lambda x: torch.softmax(x, 1), lambda s=shape: [empty(*s, grad=True)]), 4)
    yield Problem("softmax: forward axis 1, float32, 8x21x512x512",
                  lambda: torch.log_softmax(empty(8, 21, 512, 512), 1), 4)


def norms() -> Iterator[Problem]:
    F = functional()

    def channels(count, dtype):
        return [empty(count, dtype=dtype, grad=True) for _ in range(2)]

    def batch_norm(x, w, b):
        import torch
        mean, variance = (torch.empty_like(w, requires_grad=False) for _ in range(2))
        return F.batch_norm(x, mean, variance, w, b, training=True)

    for dtype in FLOATS:
        size = SIZES[dtype]
        for last in (False, True):
            def inputs(d=dtype, last=last):
                return [empty(32, 64, 56, 56, dtype=d, channels_last=last, grad=True), *channels(64, d)]
            name = f"{dtype}, {LAYOUTS[last]}, 32x64x56x56"
            yield Problem(f"batch_norm: training, {name}", lambda i=inputs: without_gradients(batch_norm, i()), size)
            yield Problem(f"batch_norm: backward, {name}", backward(batch_norm, inputs), size)
            yield Problem(f"batch_norm: inference, {name}", lambda i=inputs: without_gradients(
                lambda x, w, b: F.batch_norm(x, w, b, w, b), i()), size)
        def fold(d=dtype):
            import torch
            return torch.ops.torch_ocl.fold_batch_norm(
                empty(64, 64, 3, 3, dtype=d), *(empty(64, dtype=d) for _ in range(5)), 1e-5)
        yield Problem(f"batch_norm: folded into weights, {dtype}, 64x64x3x3", fold, size)
        for width in (768, 4096):
            def rows(d=dtype, width=width):
                return [empty(4096, width, dtype=d, grad=True), *channels(width, d)]

            def layer_norm(x, w, b, width=width):
                return F.layer_norm(x, (width,), w, b)
            yield Problem(f"layer_norm: forward, {dtype}, 4096x{width}",
                          lambda f=layer_norm, r=rows: without_gradients(f, r()), size)
            yield Problem(f"layer_norm: backward, {dtype}, 4096x{width}", backward(layer_norm, rows), size)

        def images(d=dtype):
            return [empty(8, 128, 32, 32, dtype=d, grad=True), *channels(128, d)]

        def group_norm(x, w, b):
            return F.group_norm(x, 32, w, b)
        yield Problem(f"group_norm: forward, {dtype}, 8x128x32x32",
                      lambda i=images: without_gradients(group_norm, i()), size)
        yield Problem(f"group_norm: backward, {dtype}, 8x128x32x32", backward(group_norm, images), size)

        def large_images(d=dtype):
            return [empty(1, 128, 512, 512, dtype=d, grad=True), *channels(128, d)]
        yield Problem(f"group_norm: forward, {dtype}, 1x128x512x512",
                      lambda i=large_images: without_gradients(group_norm, i()), size)
        yield Problem(f"group_norm: backward, {dtype}, 1x128x512x512", backward(group_norm, large_images), size)


def pools() -> Iterator[Problem]:
    F = functional()
    operators = {"max 3x3/2": lambda x: F.max_pool2d(x, 3, 2, 1), "average 2x2/2": lambda x: F.avg_pool2d(x, 2),
                 "global average": lambda x: F.adaptive_avg_pool2d(x, 1)}
    for dtype in ("float32", "float16"):
        for last in (False, True):
            for name, operator in operators.items():
                def inputs(d=dtype, last=last):
                    return [empty(32, 64, 112, 112, dtype=d, channels_last=last, grad=True)]
                line = f"{name}, {dtype}, {LAYOUTS[last]}, 32x64x112x112"
                yield Problem(f"pool: forward {line}",
                              lambda f=operator, i=inputs: without_gradients(f, i()), SIZES[dtype])
                yield Problem(f"pool: backward {line}", backward(operator, inputs), SIZES[dtype])


def optimizers() -> Iterator[Problem]:
    import torch

    def step(make, dtype="float32"):
        def run():
            parameters = [empty(512, 1024, dtype=dtype, grad=True) for _ in range(4)]
            for parameter in parameters:
                parameter.grad = torch.empty_like(parameter, requires_grad=False)
            optimizer = make(parameters)
            optimizer.step()   # makes its state
            return optimizer.step
        return run

    optim = torch.optim
    for name, make in {"adamw": lambda p: optim.AdamW(p, foreach=True), "adam": lambda p: optim.Adam(p, foreach=True),
                       "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, foreach=True),
                       "adamw one by one": lambda p: optim.AdamW(p, foreach=False),
                       "adamw fused": lambda p: optim.AdamW(p, fused=True)}.items():
        yield Problem(f"optimizer: {name}, float32, 4 of 512x1024", step(make), 4)
    yield Problem("optimizer: gradient norm, float32, 4 of 512x1024",
                  lambda: torch.nn.utils.get_total_norm([empty(512, 1024) for _ in range(4)]), 4)


def odd_sizes() -> Iterator[Problem]:
    """Rows and planes that no four elements fill."""
    import torch
    F = functional()
    yield Problem("copy: pixel shuffle, float32, 8x64x33x33", lambda: F.pixel_shuffle(empty(8, 64, 33, 33), 4), 4)
    yield Problem("sum: variance and mean of channels, float32, 64x33x57",
                  lambda: torch.var_mean(empty(64, 33, 57), (0, 2)), 4)
    yield Problem("softmax: forward rows, float16, 4096x1001",
                  lambda: torch.log_softmax(empty(4096, 1001, dtype="float16"), 1), 2)
    yield Problem("layer_norm: forward, float32, 4096x1001",
                  lambda: F.layer_norm(empty(4096, 1001), (1001,), empty(1001), empty(1001)), 4)
    yield Problem("batch_norm: training, float32, NCHW, 32x33x27x27", lambda: F.batch_norm(
        empty(32, 33, 27, 27), None, None, empty(33), empty(33), training=True), 4)
    yield Problem("pool: forward max 3x3/2, float32, NCHW, 8x33x57x57",
                  lambda: F.max_pool2d(empty(8, 33, 57, 57), 3, 2, 1), 4)


def problems() -> Iterator[Problem]:
    for family in (pointwise, copies, sums, softmax, norms, pools, optimizers, odd_sizes):
        yield from family()
