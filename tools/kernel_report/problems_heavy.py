"""Problems that arithmetic limits: products, convolutions, attention."""
from __future__ import annotations

from collections.abc import Iterator

from .problem import Problem, backward, empty, without_gradients

FLOATS = ("float32", "float16", "bfloat16")


def gemm() -> Iterator[Problem]:
    import torch
    for dtype in FLOATS:
        for m, n, k in ((4096, 4096, 4096), (2048, 512, 1024)):
            for layout in ("NN", "NT", "TN", "TT"):
                def run(dtype=dtype, m=m, n=n, k=k, layout=layout):
                    a = empty(m, k, dtype=dtype) if layout[0] == "N" else empty(k, m, dtype=dtype).t()
                    b = empty(k, n, dtype=dtype) if layout[1] == "N" else empty(n, k, dtype=dtype).t()
                    return a @ b
                size = str(m) if m == n == k else f"{m}x{n}x{k}"
                yield Problem(f"gemm: {dtype} {layout} {size}", run)
    for dtype in ("float64", "int32", "complex64"):
        yield Problem(f"gemm: {dtype} NN 1024",
                      lambda dtype=dtype: empty(1024, 1024, dtype=dtype) @ empty(1024, 1024, dtype=dtype))
    for dtype in ("float32", "float16"):
        yield Problem(f"gemm: {dtype} NN 12 of 512x64x512",
                      lambda dtype=dtype: empty(12, 512, 512, dtype=dtype) @ empty(12, 512, 64, dtype=dtype))
        yield Problem(f"gemm: {dtype} NN of odd sizes 1001x1003x999",
                      lambda dtype=dtype: empty(1001, 999, dtype=dtype) @ empty(999, 1003, dtype=dtype))
        yield Problem(f"gemm: {dtype} NN of odd sizes 33x1001x1001",
                      lambda dtype=dtype: empty(33, 1001, dtype=dtype) @ empty(1001, 1001, dtype=dtype))
        yield Problem(f"gemm: {dtype} NT of odd sizes 33 of 1449x1025x67",
                      lambda dtype=dtype: empty(33, 1449, 67, dtype=dtype) @ empty(33, 1025, 67, dtype=dtype).mT)
        yield Problem(f"gemm: {dtype} TN of few columns 64x29x2048",
                      lambda dtype=dtype: empty(2048, 64, dtype=dtype).mT @ empty(2048, 29, dtype=dtype))
        yield Problem(f"gemm: {dtype} linear with bias and gelu 1576x3072x768", lambda dtype=dtype: linear(dtype))
    for dtype in ("float16", "bfloat16"):
        yield Problem(f"gemm: {dtype} linear with bias 8192x2560x320", lambda d=dtype: torch.nn.functional.linear(
            empty(8192, 320, dtype=d), empty(2560, 320, dtype=d), empty(2560, dtype=d)))


def linear(dtype: str):
    import torch
    x, w, b = empty(1576, 768, dtype=dtype), empty(3072, 768, dtype=dtype), empty(3072, dtype=dtype)
    return torch.ops.aten._addmm_activation(b, x, w.t(), use_gelu=True)


def gemv() -> Iterator[Problem]:
    for dtype in FLOATS:
        yield Problem(f"gemv: {dtype} rows 4096x4096",
                      lambda dtype=dtype: empty(4096, 4096, dtype=dtype) @ empty(4096, dtype=dtype), 0)
        yield Problem(f"gemv: {dtype} columns 4096x4096",
                      lambda dtype=dtype: empty(4096, 4096, dtype=dtype).t() @ empty(4096, dtype=dtype), 0)
        for rows in (3, 8, 16):
            yield Problem(f"gemv: {dtype} {rows} rows, linear 4096x4096",
                          lambda m=rows, dtype=dtype: empty(m, 4096, dtype=dtype) @ empty(4096, 4096, dtype=dtype).t(),
                          0)
        yield Problem(f"gemv: {dtype} 16 rows times 4096x4096",
                      lambda dtype=dtype: empty(16, 4096, dtype=dtype) @ empty(4096, 4096, dtype=dtype), 0)
    yield Problem("gemv: float32 8 rows of odd sizes 8x1001x999", lambda: empty(8, 999) @ empty(1001, 999).t(), 0)
    yield Problem("gemv: int64 4 rows times 512x512",
                  lambda: empty(4, 512, dtype="int64") @ empty(512, 512, dtype="int64"))


def low_bit() -> Iterator[Problem]:
    """Weights of few bits, read once: what counts is how many instructions each weight takes."""
    import torch
    n, k, group = 4096, 4096, 128
    for rows in (1, 4):
        for dtype in ("float32", "float16"):
            yield Problem(f"low_bit: int8, {dtype} {rows} rows, {n}x{k}", lambda m=rows,
                          d=dtype: torch._weight_int8pack_mm(
                empty(m, k, dtype=d), empty(n, k, dtype="int8"), empty(n, dtype=d)), 0)
            yield Problem(f"low_bit: int4, {dtype} {rows} rows, {n}x{k}", lambda m=rows,
                          d=dtype: torch._weight_int4pack_mm(
                empty(m, k, dtype=d), empty(n // 8, k // 32, 32, 1, dtype="int32"), group,
                empty(k // group, n, 2, dtype=d)), 0)


def integer() -> Iterator[Problem]:
    """int8 by int8, summed in int32."""
    import torch
    yield Problem("integer: int8 NN 1024", lambda: torch._int_mm(
        empty(1024, 1024, dtype="int8"), empty(1024, 1024, dtype="int8")))
    yield Problem("integer: int8 NN 4096", lambda: torch._int_mm(
        empty(4096, 4096, dtype="int8"), empty(4096, 4096, dtype="int8")))
    yield Problem("integer: int8 NT 4096", lambda: torch._int_mm(
        empty(4096, 4096, dtype="int8"), empty(4096, 4096, dtype="int8").t()))
    yield Problem("integer: int8 NT 32x3072x768", lambda: torch._int_mm(
        empty(32, 768, dtype="int8"), empty(3072, 768, dtype="int8").t()))


# Of ResNet-50: channels in, out, image, kernel, stride
CONVOLUTIONS = ((3, 64, 224, 7, 2), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 512, 56, 1, 2), (128, 128, 56, 3, 2),
                (512, 512, 7, 3, 1))
LAYOUTS = ("NCHW", "NHWC")
PASSES = ("forward", "data", "weight")


def convolution(step: str, dtype: str, last: bool, shape: tuple, groups: int = 1, batch: int = 32):
    """One pass alone; the gradients by the operator that computes them. shape: in, out, image, kernel, stride and,
    unless it is one, dilation."""
    import torch
    inward, outward, image, kernel, stride, dilation = (*shape, 1)[:6]
    x = empty(batch, inward, image, image, dtype=dtype, channels_last=last)
    w = empty(outward, inward // groups, kernel, kernel, dtype=dtype, channels_last=last)
    where = ([stride] * 2, [kernel // 2 * dilation] * 2, [dilation] * 2, False, [0] * 2, groups)
    if step == "forward":
        return torch.ops.aten.convolution(x, w, None, *where)
    out = (image - 1) // stride + 1
    y = empty(batch, outward, out, out, dtype=dtype, channels_last=last)
    return torch.ops.aten.convolution_backward(y, x, w, None, *where, [step == "data", step == "weight", False])


def conv() -> Iterator[Problem]:
    for dtype in FLOATS:
        for last in (False, True):
            for step in PASSES:
                for shape in CONVOLUTIONS if dtype != "bfloat16" else CONVOLUTIONS[1:2]:
                    inward, outward, image, kernel, stride = shape
                    name = f"{LAYOUTS[last]} {inward}-{outward} {kernel}x{kernel}/{stride} at {image}"
                    yield Problem(f"conv: {step} {dtype} {name}",
                                  lambda s=step, d=dtype, c=last, shape=shape: convolution(s, d, c, shape))


def depthwise() -> Iterator[Problem]:
    for dtype in ("float32", "float16"):
        for last in (False, True):
            for step in PASSES:
                for kernel, stride in ((3, 1), (3, 2), (7, 1)):
                    shape = (96, 96, 56, kernel, stride)
                    name = f"{LAYOUTS[last]} 96 {kernel}x{kernel}/{stride} at 56"
                    yield Problem(f"depthwise: {step} {dtype} {name}",
                                  lambda s=step, d=dtype, c=last, shape=shape: convolution(s, d, c, shape, 96))
    for dtype, last, step, channels in (("float32", False, "forward", 4), ("float32", False, "weight", 4),
                                        ("float16", False, "forward", 4), ("float16", False, "forward", 16),
                                        ("float32", True, "forward", 4), ("float32", True, "weight", 8)):
        shape = (32 * channels, 32 * channels, 56, 3, 1)
        yield Problem(f"depthwise: {step} {dtype} {LAYOUTS[last]} 32 groups of {channels}",
                      lambda s=step, d=dtype, c=last, shape=shape: convolution(s, d, c, shape, 32))
    for step, dtype, channels, image, kernel, stride in (("weight", "float64", 1, 41, 7, 1),
                                                         ("weight", "bfloat16", 3, 33, 3, 2),
                                                         ("forward", "float32", 4, 33, 3, 1)):
        yield Problem(f"depthwise: {step} {dtype} NCHW 24 groups of {channels} {kernel}x{kernel}/{stride} at {image}",
                      lambda s=step, d=dtype, shape=(24 * channels, 24 * channels, image, kernel, stride):
                      convolution(s, d, False, shape, 24))
    from torch.nn.functional import conv1d, conv2d
    yield Problem("depthwise: forward float32 NCHW 96 21x1 at 41",
                  lambda: conv2d(empty(2, 96, 41, 41), empty(96, 1, 21, 1), padding=(10, 0), groups=96))
    for dtype, channels, kernel, stride, image in (("float32", 96, 11, 1, 56), ("float16", 96, 13, 1, 56),
                                                   ("float16", 96, 5, 2, 57), ("float32", 96, 7, 1, 57)):
        yield Problem(f"depthwise: forward {dtype} NCHW {channels} {kernel}x{kernel}/{stride} at {image}",
                      lambda d=dtype, c=channels, i=image, k=kernel, s=stride:
                      convolution("forward", d, False, (c, c, i, k, s), c))
    yield Problem("depthwise: 1d float32 256 31 at 500",
                  lambda: conv1d(empty(8, 256, 500), empty(256, 1, 31), padding=15, groups=256))
    for stride in (1, 2):
        yield Problem(f"depthwise: forward float32 NCHW 240 5x5/{stride} at 28",
                      lambda s=stride: convolution("forward", "float32", False, (240, 240, 28, 5, s), 240))
    for step, last, kernel in (("forward", False, 5), ("weight", False, 5), ("forward", True, 3), ("weight", True, 3),
                               ("data", False, 7), ("forward", True, 7), ("weight", True, 7)):
        yield Problem(f"depthwise: {step} float32 {LAYOUTS[last]} 96 {kernel}x{kernel} by 2 at 56",
                      lambda s=step, c=last, k=kernel: convolution(s, "float32", c, (96, 96, 56, k, 1, 2), 96))
    for dtype, step in (("float32", "forward"), ("bfloat16", "weight")):
        yield Problem(f"depthwise: {step} {dtype} NHWC 206 7x7/2 at 35",
                      lambda s=step, d=dtype: convolution(s, d, True, (206, 206, 35, 7, 2), 206))
    yield Problem("depthwise: 1d float32 1024 4 at 2048",
                  lambda: conv1d(empty(8, 1024, 2048), empty(1024, 1, 4), padding=3, groups=1024))
    yield Problem("depthwise: dilated float32 NCHW 256 3x3 by 12 at 64",
                  lambda: conv2d(empty(8, 256, 64, 64), empty(256, 1, 3, 3), padding=12, dilation=12, groups=256))


# Channels that are no multiples of four, and of sixteen: in, out, image, kernel, stride
ODD = ((30, 50, 56, 3, 1), (24, 144, 56, 1, 1))


def other_convolutions() -> Iterator[Problem]:
    from torch.nn.functional import conv1d, conv2d, conv3d
    for shape in ODD:
        inward, outward, image, kernel, stride = shape
        for step in PASSES:
            yield Problem(f"conv: {step} float32 NHWC {inward}-{outward} {kernel}x{kernel}/{stride} at {image}",
                          lambda s=step, shape=shape: convolution(s, "float32", True, shape))
    for step, last, image, channels in (("forward", False, 14, 512), ("forward", True, 14, 512),
                                        ("data", False, 27, 256), ("data", True, 27, 256)):   # even and odd images
        shape = (channels, channels, image, 3, 1)
        yield Problem(f"conv: {step} float32 {LAYOUTS[last]} {channels}-{channels} 3x3/1 at {image}",
                      lambda s=step, last=last, shape=shape: convolution(s, "float32", last, shape))
    yield Problem("conv: forward float16 NHWC 30-50 3x3/1 at 56",
                  lambda: convolution("forward", "float16", True, ODD[0]))
    for step in PASSES:
        yield Problem(f"conv: {step} float16 NCHW 12-64 3x3/1 at 56",
                      lambda s=step: convolution(s, "float16", False, (12, 64, 56, 3, 1)))
    for step in PASSES:
        yield Problem(f"conv: {step} float16 NCHW 3-768 16x16/16 at 224", lambda s=step: patches(s, "float16"))
    yield Problem("conv: dilated float32 NCHW 256-256 3x3 by 12 at 64",
                  lambda: conv2d(empty(8, 256, 64, 64), empty(256, 256, 3, 3), padding=12, dilation=12))
    yield Problem("conv: 1d float32 80-512 3 at 3000",
                  lambda: conv1d(empty(8, 80, 3000), empty(512, 80, 3), padding=1))
    yield Problem("conv: 3d float32 16-32 3x3x3 at 16x56x56",
                  lambda: conv3d(empty(2, 16, 16, 56, 56), empty(32, 16, 3, 3, 3), padding=1))
    yield Problem("conv: 3d float16 64-64 3x3x3 at 8x28x28", lambda: conv3d(
        empty(2, 64, 8, 28, 28, dtype="float16"), empty(64, 64, 3, 3, 3, dtype="float16"), padding=1))


def patches(step: str, dtype: str):
    """A vision transformer's first layer."""
    import torch
    x, w = empty(32, 3, 224, 224, dtype=dtype), empty(768, 3, 16, 16, dtype=dtype)
    where = ([16] * 2, [0] * 2, [1] * 2, False, [0] * 2, 1)
    if step == "forward":
        return torch.ops.aten.convolution(x, w, None, *where)
    y = empty(32, 768, 14, 14, dtype=dtype)
    return torch.ops.aten.convolution_backward(y, x, w, None, *where, [step == "data", step == "weight", False])


def transposed() -> Iterator[Problem]:
    import torch
    for last in (False, True):
        yield Problem(f"conv: transposed float32 {LAYOUTS[last]} 256-256 4x4/2 at 16",
                      lambda last=last: torch.nn.functional.conv_transpose2d(
                          empty(8, 256, 16, 16, channels_last=last), empty(256, 256, 4, 4), stride=2, padding=1))


def deform_conv() -> Iterator[Problem]:
    def tensors(dtype):
        return [empty(8, 64, 64, 64, dtype=dtype, grad=True), empty(8, 18, 64, 64, dtype=dtype, grad=True),
                empty(64, 64, 3, 3, dtype=dtype, grad=True), empty(8, 9, 64, 64, dtype=dtype, grad=True)]

    def forward(x, offset, weight, mask):
        from torchvision.ops import deform_conv2d
        return deform_conv2d(x, offset, weight, padding=1, mask=mask)

    for dtype in ("float32", "float16"):
        yield Problem(f"deform_conv: forward {dtype} 64-64 3x3 at 64",
                      lambda dtype=dtype: without_gradients(forward, tensors(dtype)))
        yield Problem(f"deform_conv: backward {dtype} 64-64 3x3 at 64",
                      backward(forward, lambda dtype=dtype: tensors(dtype)))


def attention() -> Iterator[Problem]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    def tensors(dtype, size, length):
        return [empty(4, length, 12, size, dtype=dtype).transpose(1, 2).requires_grad_() for _ in range(3)]

    for dtype in FLOATS:
        for size in (64, 128):
            for causal in (False, True):
                def attend(q, k, v, causal=causal):
                    return scaled_dot_product_attention(q, k, v, is_causal=causal)
                name = f"{dtype} D {size}{' causal' if causal else ''} 4x12x1024"
                yield Problem(f"attention: forward {name}",
                              lambda f=attend, d=dtype, s=size: without_gradients(f, tensors(d, s, 1024)))
                if not causal:
                    yield Problem(f"attention: backward {name}",
                                  backward(attend, lambda d=dtype, s=size: tensors(d, s, 1024)))
    yield Problem("attention: forward float32 D 64 masked 4x12x512", lambda: without_gradients(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=torch.empty(512, 512, device="ocl")),
        tensors("float32", 64, 512)))


def other_attention() -> Iterator[Problem]:
    """Masks of other heads, few key heads, a token at a time."""
    from torch.nn.functional import scaled_dot_product_attention as attend

    def heads(count, length, size, dtype="float32"):
        return empty(2, count, length, size, dtype=dtype)

    for dtype, size in (("float32", 80), ("float16", 96), ("float16", 128)):
        yield Problem(f"attention: forward {dtype} D {size} masked 2x12x512", lambda d=dtype, s=size: attend(
            *(heads(12, 512, s, d) for _ in range(3)), attn_mask=empty(512, 512, dtype=d)))
    yield Problem("attention: forward float32 D 256 2x8x512", lambda: attend(*(heads(8, 512, 256) for _ in range(3))))
    for dtype, size, values, causal in (("float16", 256, 256, True), ("bfloat16", 192, 128, True),
                                        ("float16", 160, 160, False)):
        yield Problem(f"attention: forward {dtype} D {size}, values {values}{' causal' * causal} 2x8x1024",
                      lambda d=dtype, s=size, v=values, causal=causal: attend(
                          heads(8, 1024, s, d), heads(8, 1024, s, d), heads(8, 1024, v, d), is_causal=causal))
    for size in (256, 217):
        yield Problem(f"attention: forward float16 D {size} masked 2x8x500", lambda s=size: attend(
            *(heads(8, 500, s, "float16") for _ in range(3)), attn_mask=empty(500, 500, dtype="float16")))
    yield Problem("attention: forward float16 D 64 with dropout 2x8x512",
                  lambda: attend(*(heads(8, 512, 64, "float16") for _ in range(3)), dropout_p=0.1))
    yield Problem("attention: forward float32 D 256, 1 of 2000",
                  lambda: attend(heads(8, 1, 256), heads(8, 2000, 256), heads(8, 2000, 256)))
    for queries in (512, 1):
        yield Problem(f"attention: forward float16 D 128, 32 heads on 8, {queries} of 2000", lambda n=queries: attend(
            heads(32, n, 128, "float16"), heads(8, 2000, 128, "float16"), heads(8, 2000, 128, "float16"),
            enable_gqa=True))
    yield Problem("attention: forward float16 D 128, 32 heads on 8, 1 of 4096, masked", lambda: attend(
        heads(32, 1, 128, "float16"), heads(8, 4096, 128, "float16"), heads(8, 4096, 128, "float16"),
        attn_mask=empty(2, 1, 1, 4096, dtype="float16"), enable_gqa=True))
    for dtype, size in (("float32", 217), ("float16", 70)):
        yield Problem(f"attention: forward {dtype} D {size}, 32 heads on 8, 1 of 1365", lambda d=dtype, s=size: attend(
            heads(32, 1, s, d), heads(8, 1365, s, d), heads(8, 1365, s, d), enable_gqa=True))
    yield Problem("attention: forward float64 D 64 2x6x300",
                  lambda: attend(*(heads(6, 300, 64, "float64") for _ in range(3))))
    for dtype, size, of, keys in (("float32", 70, 8, 500), ("float64", 64, 6, 300), ("float64", 96, 6, 300)):
        yield Problem(f"attention: backward {dtype} D {size} 2x{of}x{keys}", backward(
            attend, lambda d=dtype, s=size, h=of, n=keys: [heads(h, n, s, d).requires_grad_() for _ in range(3)]))
    for size, keys in ((96, 512), (75, 500)):
        yield Problem(f"attention: backward float16 D {size} masked 2x8x{keys}", backward(
            lambda q, k, v, n=keys: attend(q, k, v, attn_mask=empty(n, n, dtype="float16")),
            lambda s=size, n=keys: [heads(8, n, s, "float16").requires_grad_() for _ in range(3)]))
    for dtype, size in (("float32", 64), ("float16", 32), ("float16", 80)):
        yield Problem(f"attention: backward {dtype} D {size} with dropout 2x8x512", backward(
            lambda q, k, v: attend(q, k, v, dropout_p=0.1),
            lambda d=dtype, s=size: [heads(8, 512, s, d).requires_grad_() for _ in range(3)]))
    yield Problem("attention: forward float32 D 64, 12 heads, 1 of 2000", lambda: attend(
        heads(12, 1, 64), heads(12, 2000, 64), heads(12, 2000, 64)))


def problems() -> Iterator[Problem]:
    for family in (gemm, gemv, low_bit, integer, conv, other_convolutions, transposed, depthwise, deform_conv,
                   attention, other_attention):
        yield from family()
