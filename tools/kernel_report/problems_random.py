"""Problems that nobody tuned for: expressions of problems_given, drawn by chance from a seed. Sizes are such as few
models have: any number, one more or less than a power of two, few channels."""
from __future__ import annotations

from random import Random

FLOATS = ("float32", "float16", "bfloat16")


def sizes(*shape) -> str:
    return ", ".join(map(str, shape))


def tensor(*shape, dtype: str = "float32", **flags: bool) -> str:
    """Of the device; flags: channels_last, grad."""
    words = [sizes(*shape), *([f"dtype='{dtype}'"] if dtype != "float32" else []),
             *(f"{name}=True" for name, on in flags.items() if on)]
    return f"empty({', '.join(words)})"


def odd(draw: Random, low: int, high: int) -> int:
    """Near a power of two half of the time, else any number."""
    if draw.random() < 0.5:
        powers = [1 << e for e in range(1, 24) if low <= 1 << e <= high] or [low]
        return max(1, draw.choice(powers) + draw.choice((-1, 0, 1, 3)))
    return draw.randint(low, high)


def maybe_backward(draw: Random, text: str) -> str:
    """The gradients half of the time: the expression has grad=True where tensors are leaves."""
    return f"backward: {text}" if draw.random() < 0.5 else text


def gemm(draw: Random) -> str:
    dtype = draw.choice((*FLOATS, "float64", "int8"))
    m, n, k = (odd(draw, 8, 2048) for _ in range(3))
    if dtype == "int8":
        m, n, k = m + 17, n - n % 8 + 8, k - k % 8 + 8
        right = tensor(k, n, dtype=dtype) if draw.random() < 0.5 else f"{tensor(n, k, dtype=dtype)}.t()"
        return f"torch._int_mm({tensor(m, k, dtype=dtype)}, {right})"
    batch = [draw.choice((2, 12, 33))] if draw.random() < 0.4 else []
    left = tensor(*batch, m, k, dtype=dtype) if draw.random() < 0.5 else f"{tensor(*batch, k, m, dtype=dtype)}.mT"
    right = tensor(*batch, k, n, dtype=dtype) if draw.random() < 0.5 else f"{tensor(*batch, n, k, dtype=dtype)}.mT"
    return f"{left} @ {right}"


def conv(draw: Random) -> str:
    dtype, last, where = draw.choice(FLOATS), draw.random() < 0.5, draw.choice((1, 2, 2, 2, 2, 3))
    groups = draw.choice((1, 1, 1, 2, 4))
    inward, outward = (groups * draw.choice((1, 2, 3, 5, 8, 12, 16, 30, 64, 96)) for _ in range(2))
    kernel = [draw.choice((1, 2, 3, 3, 4, 5, 7)) if where < 3 else draw.choice((1, 3)) for _ in range(where)]
    plane = [odd(draw, 7, {1: 2000, 2: 90, 3: 20}[where]) + 8 for _ in range(where)]
    x = tensor(draw.choice((1, 2, 5)), inward, *plane, dtype=dtype, channels_last=last and where == 2, grad=True)
    w = tensor(outward, inward // groups, *kernel, dtype=dtype, grad=True)
    how = f"stride={draw.choice((1, 1, 2, 3))}, padding={draw.choice((0, 1, 2))}, dilation={draw.choice((1, 1, 2))}"
    return maybe_backward(draw, f"F.conv{where}d({x}, {w}, {how}, groups={groups})")


def depthwise(draw: Random) -> str:
    dtype, channels, kernel = draw.choice(FLOATS), odd(draw, 8, 400), draw.choice((1, 3, 3, 5, 7))
    plane, last = [odd(draw, 9, 80) for _ in range(2)], draw.random() < 0.5
    x = tensor(2, channels, *plane, dtype=dtype, channels_last=last, grad=True)
    w = tensor(channels * draw.choice((1, 1, 2)), 1, kernel, kernel, dtype=dtype, grad=True)
    return maybe_backward(draw, f"F.conv2d({x}, {w}, padding={kernel // 2}, stride={draw.choice((1, 2))}, "
                                f"dilation={draw.choice((1, 1, 2))}, groups={channels})")


def deformable(draw: Random) -> str:
    dtype, groups, of_offsets = draw.choice(FLOATS[:2]), draw.choice((1, 1, 2)), draw.choice((1, 1, 2, 4))
    inward = groups * of_offsets * draw.choice((1, 3, 8, 16, 30))
    outward, kernel = groups * odd(draw, 4, 100), draw.choice((1, 3, 3, 5))
    height, width = odd(draw, 9, 70), odd(draw, 9, 70)
    points = of_offsets * kernel * kernel
    x = tensor(2, inward, height, width, dtype=dtype, grad=True)
    offset = tensor(2, 2 * points, height, width, dtype=dtype, grad=True)
    w = tensor(outward, inward // groups, kernel, kernel, dtype=dtype, grad=True)
    mask = f", mask={tensor(2, points, height, width, dtype=dtype, grad=True)}" if draw.random() < 0.6 else ""
    return maybe_backward(draw, f"torchvision.ops.deform_conv2d({x}, {offset}, {w}, padding={kernel // 2}{mask})")


def attention(draw: Random) -> str:
    dtype, heads = draw.choice(FLOATS), draw.choice((1, 6, 8))
    size = draw.choice((32, 40, 64, 72, 80, 96, 128, 160, 192, 256))
    queries, keys = draw.choice((1, 3, odd(draw, 16, 700), odd(draw, 16, 700))), odd(draw, 16, 1500)
    how = draw.choice(("", ", is_causal=True", "mask", ", dropout_p=0.1"))
    if how == "mask":
        how = f", attn_mask={tensor(queries, keys, dtype=dtype)}"
    q, k, v = (tensor(2, heads, n, size, dtype=dtype, grad=True) for n in (queries, keys, keys))
    return maybe_backward(draw, f"F.scaled_dot_product_attention({q}, {k}, {v}{how})")


def softmax(draw: Random) -> str:
    dtype, shape = draw.choice(FLOATS), [odd(draw, 5, 300) for _ in range(draw.choice((2, 3)))]
    shape[0] = odd(draw, 100, 3000)
    name = draw.choice(("softmax", "log_softmax"))
    return maybe_backward(draw, f"torch.{name}({tensor(*shape, dtype=dtype, grad=True)}, {draw.randrange(len(shape))})")


def norm(draw: Random) -> str:
    dtype, kind = draw.choice(FLOATS), draw.choice(("layer_norm", "rms_norm", "group_norm", "batch_norm"))
    if kind in ("layer_norm", "rms_norm"):
        width = odd(draw, 20, 5000)
        weight = tensor(width, dtype=dtype, grad=True)
        bias = f", {tensor(width, dtype=dtype, grad=True)}" if kind == "layer_norm" else ""
        x = tensor(odd(draw, 60, 3000), width, dtype=dtype, grad=True)
        return maybe_backward(draw, f"F.{kind}({x}, ({width},), "
                                    f"{weight}{bias})")
    groups = draw.choice((2, 3, 8))
    channels = groups * draw.choice((1, 2, 5, 11))
    x = tensor(odd(draw, 2, 20), channels, odd(draw, 5, 70), odd(draw, 5, 70), dtype=dtype,
               channels_last=draw.random() < 0.5, grad=True)
    w, b = (tensor(channels, dtype=dtype, grad=True) for _ in range(2))
    if kind == "group_norm":
        return maybe_backward(draw, f"F.group_norm({x}, {groups}, {w}, {b})")
    return maybe_backward(draw, f"F.batch_norm({x}, None, None, {w}, {b}, training=True)")


def pool(draw: Random) -> str:
    dtype, where = draw.choice(FLOATS), draw.choice((1, 2, 2, 3))
    kind = draw.choice(("max", "avg", "adaptive_avg", "adaptive_max"))
    kernel, stride = draw.choice((2, 3, 5)), draw.choice((1, 2, 3))
    plane = [odd(draw, 9, {1: 3000, 2: 90, 3: 24}[where]) for _ in range(where)]
    x = tensor(2, odd(draw, 3, 80), *plane, dtype=dtype, channels_last=where == 2 and draw.random() < 0.5, grad=True)
    how = str(draw.choice((1, 3, 7))) if "adaptive" in kind else f"{kernel}, {stride}, {kernel // 2}"
    return maybe_backward(draw, f"F.{kind}_pool{where}d({x}, {how})")


def interpolate(draw: Random) -> str:
    modes = {"nearest": 2, "nearest-exact": 2, "bilinear": 2, "bicubic": 2, "trilinear": 3, "linear": 1}
    mode = draw.choice(list(modes))
    plane = [odd(draw, 9, 60 if modes[mode] < 3 else 20) for _ in range(modes[mode])]
    out = tuple(max(1, int(n * draw.choice((0.4, 0.7, 1.6, 2.3, 3)))) for n in plane)
    x = tensor(2, odd(draw, 3, 70), *plane, dtype=draw.choice(FLOATS),
               channels_last=modes[mode] == 2 and draw.random() < 0.5, grad=True)
    return maybe_backward(draw, f"F.interpolate({x}, size={out}, mode='{mode}')")


def reduction(draw: Random) -> str:
    shape = [odd(draw, 3, 300) for _ in range(draw.choice((2, 3, 4)))][:4]
    shape = shape if len(shape) < 4 else [n % 40 + 2 for n in shape]
    axis = draw.randrange(len(shape))
    dtype = draw.choice((*FLOATS, "int32", "int64", "float64"))
    names = ("sum", "amax", "argmin", "prod", "any")
    if dtype in (*FLOATS, "float64"):
        names += ("mean", "var", "logsumexp", "std_mean")
    name = draw.choice(names)
    return f"torch.{name}({tensor(*shape, dtype=dtype)}, {axis})"


def scan(draw: Random) -> str:
    shape = [odd(draw, 3, 600) for _ in range(draw.choice((1, 2, 3)))]
    name = draw.choice(("cumsum", "cumprod", "logcumsumexp", "cummax"))
    return f"torch.{name}({tensor(*shape, dtype=draw.choice(FLOATS[:2]))}, {draw.randrange(len(shape))})"


def sort(draw: Random) -> str:
    rows, columns = odd(draw, 1, 500), odd(draw, 33, 5000)
    x = tensor(rows, columns, dtype=draw.choice((*FLOATS, "int32", "int64", "uint8")))
    return draw.choice((f"torch.sort({x}, 1)", f"torch.topk({x}, {draw.choice((1, 5, 33))})", f"torch.sort({x}, 0)",
                        f"torch.kthvalue({x}, {columns // 2}, 1)", f"torch.median({x}, 1)", f"torch.unique({x})"))


def index(draw: Random) -> str:
    dtype = draw.choice((*FLOATS, "int64", "uint8"))
    rows, columns, some = odd(draw, 40, 3000), odd(draw, 3, 900), odd(draw, 3, 90)
    x, few = tensor(rows, columns, dtype=dtype), tensor(some, columns, dtype=dtype)
    across, along = f"integers({sizes(some, columns)})", f"integers({some})"
    return draw.choice((f"{x}.gather(0, {across})", f"{x}.scatter_add_(0, {across}, {few})",
                        f"{x}.scatter_(0, {across}, {few})",
                        f"{x}.index_select(0, {along})", f"{x}.index_add_(0, {along}, {few})", f"{x}[{along}]",
                        f"{x}.index_put_(({along},), {few}, accumulate=True)", f"F.embedding({across}, {x})",
                        f"torch.take_along_dim({x}, {across}, 0)",
                        f"{x}.masked_fill_({tensor(rows, 1, dtype='bool')}, 1)",
                        f"{x}.scatter_reduce_(0, {across}, {few}, 'amax')"))


def copy(draw: Random) -> str:
    dtype = draw.choice((*FLOATS, "int64", "uint8", "float64", "complex64"))
    shape = [odd(draw, 2, 60) for _ in range(4)]
    x = tensor(*shape, dtype=dtype)
    order = draw.sample(range(4), 4)
    to = draw.choice((*FLOATS, "int32", "uint8"))
    choices = [f"{x}.permute({sizes(*order)}).contiguous()", f"{x}.flip({draw.randrange(4)})",
               f"{x}.roll(3, {draw.randrange(4)})", f"{x}.repeat(1, 2, 1, 3)",
               f"{x}[:, :, 1::2, ::3].contiguous()", f"torch.cat([{x}, {x}], {draw.randrange(4)})",
               f"F.pad({x}, (1, 2, 3, 0))"]
    if dtype != "complex64":
        choices.append(f"{x}.permute({sizes(*order)}).to(torch.{to})")
    return draw.choice(choices)


def pointwise(draw: Random) -> str:
    shape = [odd(draw, 2, 90) for _ in range(3)]
    dtypes = [draw.choice((*FLOATS, "int32", "uint8", "float32")) for _ in range(2)]
    other = [n if draw.random() < 0.5 else 1 for n in shape]
    a, b = tensor(*shape, dtype=dtypes[0]), tensor(*other, dtype=dtypes[1])
    f = tensor(*shape, dtype=draw.choice(FLOATS))
    return draw.choice((f"{a} * {b}", f"torch.where({a} > 0, {b}, 2.0)", f"torch.pow({f}, {b})",
                        f"torch.atan2({f}, {b})",
                        f"torch.maximum({a}, {b})", f"torch.addcmul({f}, {f}, {f}, value=0.5)",
                        f"torch.lerp({f}, {f}, 0.3)",
                        f"F.silu({f})", f"F.mish({f})", f"torch.erfinv({f})", f"torch.lgamma({f})",
                        f"torch.fmod({a}, {b})",
                        f"torch.floor_divide({a}, {b})", f"torch.clamp({f}, -1, 1)", f"torch.nan_to_num({f})"))


def optimizer(draw: Random) -> str:
    dtype = draw.choice(FLOATS)
    lists = [[tensor(odd(draw, 1, 300), odd(draw, 1, 300), dtype=dtype) for _ in range(draw.choice((1, 3, 5)))]] * 4
    a, b, c, _ = (f"[{', '.join(each)}]" for each in lists)
    return draw.choice((f"torch._foreach_add({a}, {b}, alpha=2)", f"torch._foreach_addcdiv({a}, {b}, {c}, value=0.1)",
                        f"torch._foreach_norm({a})", f"torch._foreach_sqrt({a})", f"torch._foreach_lerp({a}, {b}, 0.3)",
                        f"torch._foreach_mul_({a}, 0.9)", f"torch._foreach_max({a})"))


def recurrent(draw: Random) -> str:
    kind, dtype = draw.choice(("LSTM", "GRU", "RNN")), draw.choice(FLOATS)
    size, hidden = odd(draw, 8, 300), odd(draw, 8, 300)
    net = f"torch.nn.{kind}({size}, {hidden}, device='ocl', dtype=torch.{dtype})"
    return maybe_backward(draw, f"{net}({tensor(odd(draw, 3, 30), odd(draw, 1, 40), size, dtype=dtype, grad=True)})[0]")


def fft(draw: Random) -> str:
    n = draw.choice((96, 100, 255, 257, 360, 1000, 2310, 4096, 5000, 8192))
    real, complex_ = tensor(odd(draw, 2, 70), n), tensor(odd(draw, 2, 70), n, dtype="complex64")
    return draw.choice((f"torch.fft.rfft({real})", f"torch.fft.fft({complex_})", f"torch.fft.irfft({complex_})",
                        f"torch.fft.fft2({tensor(3, 48, 60, dtype='complex64')})"))


def linear_algebra(draw: Random) -> str:
    n = odd(draw, 3, 130)
    a = tensor(draw.choice((1, 4)), n, n)
    return f"torch.linalg.{draw.choice(('cholesky', 'lu_factor', 'qr', 'eigvalsh', 'svdvals', 'inv', 'det'))}({a})"


def loss(draw: Random) -> str:
    rows, classes, dtype = odd(draw, 3, 3000), odd(draw, 3, 1500), draw.choice(FLOATS)
    x, y = tensor(rows, classes, dtype=dtype, grad=True), tensor(rows, classes, dtype=dtype)
    return maybe_backward(draw, draw.choice((
        f"F.cross_entropy({x}, integers({rows}))", f"F.cross_entropy({x}, integers({rows}), label_smoothing=0.1)",
        f"F.mse_loss({x}, {y})", f"F.smooth_l1_loss({x}, {y})", f"F.binary_cross_entropy_with_logits({x}, {y})",
        f"F.kl_div({x}, {y}, reduction='batchmean')")))


# Those of arithmetic twice.
FAMILIES = (gemm, conv, depthwise, deformable, attention, softmax, norm, pool, interpolate, reduction, scan, sort,
            index, copy, pointwise, optimizer, recurrent, fft, gemm, conv, attention, linear_algebra, loss)


def expressions(count: int, seed: int) -> list[str]:
    """Families in turn; the first of a seed are the same whatever their number."""
    return [FAMILIES[n % len(FAMILIES)](Random(f"{seed} {n}")) for n in range(count)]
