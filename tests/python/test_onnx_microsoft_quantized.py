"""com.microsoft's quantised operators against ONNX Runtime."""
import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx_microsoft import F, I8, I32, U8, check, integers, normal, ours, scalar, weights  # noqa: E402


def quantum(kind):
    return {U8: (integers(0, 256, 2, 3, 6, 8), scalar(0.02), scalar(120, U8)),
            I8: (integers(-128, 128, 2, 3, 6, 8, dtype=I8), scalar(0.03), scalar(-5, I8))}[kind]


@pytest.mark.parametrize("kind", [U8, I8])
@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul"])
def test_quantized_binary(name, kind):
    a, a_scale, a_zero = quantum(kind)
    b = a[:1, :, :, ::-1].copy()
    check(name, [a, a_scale, a_zero, b, scalar(0.05), a_zero, scalar(0.07), scalar(9, kind)], quanta=1)


@pytest.mark.parametrize("kind", [U8, I8])
@pytest.mark.parametrize("name, attributes", [
    ("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.2}), ("QLinearSoftmax", {"axis": -1, "opset": 13}),
    ("QLinearSoftmax", {"axis": 1, "opset": 11}), ("QLinearGlobalAveragePool", {}),
    ("QLinearGlobalAveragePool", {"channels_last": 1}),
    ("QLinearAveragePool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ("QLinearAveragePool", {"kernel_shape": [2, 2], "count_include_pad": 1, "pads": [1, 1, 0, 0], "channels_last": 1}),
])
def test_quantized_unary(name, attributes, kind):
    x, scale, zero = quantum(kind)
    y_zero = scalar(0 if kind is U8 else -128, kind) if name in ("QLinearSigmoid", "QLinearSoftmax") else zero
    check(name, [x, scale, zero, scalar(1 / 256 if name in ("QLinearSigmoid", "QLinearSoftmax") else 0.02), y_zero],
          attributes, quanta=1)


def test_quantized_reduce_mean():
    x, scale, zero = quantum(U8)
    real = (x.astype(F) - zero) * scale
    y, = ours("QLinearReduceMean", [x, scale, zero, scalar(0.01), zero], {"axes": [1, 2], "keepdims": 0})
    expected = np.clip(np.rint(real.mean((1, 2)) / F(0.01)) + zero, 0, 255)
    assert np.abs(y.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("kind", [U8, I8])
def test_quantized_concat_and_where(kind):
    x, scale, zero = quantum(kind)
    y = x[:, :2].copy()
    check("QLinearConcat", [scalar(0.04), scalar(3, kind), x, scale, zero, y, scalar(0.05), scalar(1, kind)],
          {"axis": 1},
          quanta=1)
    condition = integers(0, 2, 2, 1, 6, 8).astype(bool)
    check("QLinearWhere", [condition, x, scale, zero, x[:, :1].copy(), scalar(0.05), zero, scalar(0.04), zero],
          quanta=1)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_quantized_convolution(channels_last):
    x = integers(0, 256, 1, 4, 7, 7)
    w = weights(6, 4, 3, 3)
    scales = np.linspace(0.01, 0.03, 6).astype(F)
    bias = integers(-1000, 1000, 6, dtype=I32)
    x = x.transpose(0, 2, 3, 1).copy() if channels_last else x
    check("QLinearConv", [x, scalar(0.02), scalar(120, U8), w, scales, np.zeros(6, I8), scalar(0.6), scalar(128, U8),
                          bias],
          {"channels_last": channels_last, "pads": [1, 1, 1, 1], "strides": [2, 2]},
          constants={"x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8"}, quanta=1)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("transposed", [0, 1])
def test_quantized_gemm(transposed, real):
    a, b = integers(0, 256, 5, 8), weights(8, 6)
    inputs = [a, scalar(0.02), scalar(120, U8), b.T.copy() if transposed else b, np.linspace(0.01, 0.02, 6).astype(F),
              np.zeros(6, I8), integers(-500, 500, 6, dtype=I32)]
    attributes = {"transB": transposed, "alpha": 1.5}
    if real:
        check("QGemm", inputs, attributes)
    else:
        check("QGemm", [*inputs, scalar(0.3), scalar(128, U8)], attributes, quanta=1)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("kind", [U8, I8])
def test_integer_products(columns, kind):
    a, b = integers(0, 256, 2, 5, 8), weights(8, 6, dtype=kind)
    b_scale = np.linspace(0.01, 0.03, 6).astype(F) if columns else scalar(0.02)
    b_zero = integers(0, 5, 6, dtype=kind) if columns else scalar(3, kind)
    check("MatMulIntegerToFloat", [a, b, scalar(0.05), b_scale, scalar(100, U8), b_zero, normal(6)])
    check("MatMulIntegerToFloat", [a, b, scalar(0.05), b_scale])
    check("DynamicQuantizeMatMul", [normal(2, 5, 8), b, b_scale, b_zero, normal(6)])
    check("DynamicQuantizeMatMul", [normal(2, 5, 8), b, b_scale])


def test_other_integer_products():
    a, b = integers(-300, 300, 4, 5, dtype=np.int16), integers(-300, 300, 5, 3, dtype=np.int16)
    check("MatMulInteger16", [a, b], quanta=0)
    x, y = integers(0, 256, 4, 5), integers(0, 256, 5)
    np.testing.assert_array_equal(ours("MulInteger", [x, scalar(3, U8), y, scalar(7, U8)], {})[0],
                                  (x.astype(I32) - 3) * (y.astype(I32) - 7))


@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1}])
@pytest.mark.parametrize("mask", ["none", "counts", "raw"])
def test_quantized_attention(attributes, mask):
    batch, length, size, heads = 2, 6, 16, 2
    x, w = integers(0, 256, batch, length, size), weights(size, 3 * size)
    masks = {"none": None, "counts": np.array([4, 6], I32), "raw": integers(0, 2, batch, length, dtype=I32)}
    check("QAttention", [x, w, normal(3 * size), scalar(0.01), scalar(0.02), masks[mask], scalar(128, U8),
                         scalar(0, I8)],
          {"num_heads": heads, **attributes})
    past = normal(2, batch, heads, 3, size // heads)
    check("QAttention", [x, w, normal(3 * size), scalar(0.01), scalar(0.02), None, scalar(128, U8), scalar(0, I8),
                         past],
          {"num_heads": heads, "unidirectional": 1}, outputs=("y", "present"))


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_quantized_lstm(direction):
    directions, size, hidden = 2 if direction == "bidirectional" else 1, 5, 4
    w, r = weights(directions, size, 4 * hidden), weights(directions, hidden, 4 * hidden)
    scale, zero = np.full(directions, 0.01, F), np.zeros(directions, I8)
    inputs = [normal(7, 2, size), w, r, normal(directions, 8 * hidden), None, None, None, None, scale, zero, scale,
              zero]
    # ONNX Runtime rounds the inputs to eight bits too.
    check("DynamicQuantizeLSTM", inputs, {"hidden_size": hidden, "direction": direction}, outputs=("y", "h", "c"),
          constants={"x1", "x2", "x3", "x8", "x9", "x10", "x11"}, rtol=0.05, atol=0.02)


def exact(rows):
    return rows


def rounded(rows):
    """Rows as CPUs with instructions for bytes multiply them: long ones in eight bits, as DynamicQuantizeLinear has
    them for each row, short ones in sixteen; either with their mean put right again."""
    v = rows.astype(F)
    if v.shape[-1] > 384:
        least, largest = np.minimum(v.min(-1, keepdims=True), 0), np.maximum(v.max(-1, keepdims=True), 0)
        unit = (largest - least) / F(255)
    else:
        unit = np.abs(v).max(-1, keepdims=True) / F(32767)
    unit = np.where(unit > 0, unit, F(1))
    numbers = np.rint(v / unit)
    if v.shape[-1] > 384:
        zero = np.rint(-least / unit)
        numbers = np.clip(numbers + zero, 0, 255) - zero
    taken = numbers * unit.astype(np.float64)
    return taken + (v - taken).mean(-1, keepdims=True)


def lstm_steps(x, w, r, bias, h, c, seen=None):
    """States after each step of ONNX's LSTM of one direction from h and c, gates in its order: input, output, forget,
    cell. With `seen`, the states that a device had after each step, its products are of rounded rows: such states of
    its own, as others would be rounded otherwise here and there."""
    way = exact if seen is None else rounded
    states = []
    for t, step in enumerate(x.astype(np.float64)):
        gates = way(step) @ w + way(h) @ r + bias[:bias.size // 2] + bias[bias.size // 2:]
        i, o, f = (1 / (1 + np.exp(-g)) for g in np.split(gates, 4, 1)[:3])
        c = f * c + i * np.tanh(np.split(gates, 4, 1)[3])
        states.append(o * np.tanh(c))
        h = states[-1] if seen is None else seen[t].astype(np.float64)
    return np.stack(states), c


def check_steps(y, c, x, w, r, bias, first):
    """Devices without instructions for bytes round nothing."""
    tolerances = {"rtol": 1e-4, "atol": 1e-5}
    plain = lstm_steps(x, w, r, bias, *first)
    if not all(np.allclose(*pair, **tolerances) for pair in zip((y, c), plain, strict=True)):
        for result, right in zip((y, c), lstm_steps(x, w, r, bias, *first, y), strict=True):
            np.testing.assert_allclose(result, right, **tolerances)


@pytest.mark.parametrize("parameters", ["all", "directions", "columns"])
@pytest.mark.parametrize("kind", [U8, I8])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("hidden, batch, begin", [(4, 2, 0), (37, 1, 1), (300, 1, 100), (300, 5, 0), (260, 17, 0)])
def test_quantized_lstm_is_one_of_dequantised_weights(hidden, batch, begin, constant, kind, parameters):
    directions, size = 2, 17
    shape = {"all": (1,), "directions": (directions,), "columns": (directions, 4 * hidden)}[parameters]
    w, r = (integers(-60 if kind is I8 else 60, 60 if kind is I8 else 200, directions, n, 4 * hidden, dtype=kind)
            for n in (size, hidden))
    scale = (np.linspace(0.01, 0.03, int(np.prod(shape)), dtype=F) * F(4 / hidden)).reshape(shape)
    zero = integers(0, 90, *shape, dtype=kind)
    x, bias = normal(7, batch, size), normal(directions, 8 * hidden)
    states = [normal(directions, batch, hidden, seed=s, scale=begin) for s in (1, 2)] if begin else [None, None]
    y, h, c = ours("DynamicQuantizeLSTM", [x, w, r, bias, None, *states, None, scale, zero, scale, None],
                   {"hidden_size": hidden, "direction": "bidirectional"}, outputs=("y", "h", "c"),
                   constants={"x1", "x2", "x3", "x8", "x9", "x10"} if constant else ())
    for d in range(directions):
        part = (slice(None) if parameters == "all" else d, np.newaxis)
        numbers = [(w[d] - zero[part].astype(np.float64)) * scale[part], r[d] * scale[part].astype(np.float64)]
        first = [s[d].astype(np.float64) for s in states] if begin else [np.zeros((batch, hidden))] * 2
        backwards = slice(None, None, -1 if d else 1)
        check_steps(y[backwards, d], c[d], x[backwards], *numbers, bias[d].astype(np.float64), first)
        np.testing.assert_array_equal(y[0 if d else -1, d], h[d])


@pytest.mark.parametrize("lengths", [None, (0, 2, 9), (9, 9, 1)])
@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("steps, batch, size, hidden", [(1, 1, 70, 520), (9, 1, 33, 270), (2, 3, 400, 390),
                                                        (9, 3, 20, 520), (2, 11, 1100, 130)])
def test_quantized_lstm_in_one_direction(steps, batch, size, hidden, direction, begin, lengths):
    """Cores share a sequence of one direction; sequences may end early."""
    if lengths and batch < 3:
        pytest.skip("lengths of three sequences")
    lengths = np.array([min(n, steps) for n in (lengths * batch)[:batch]], I32) if lengths else None
    w, r = integers(60, 200, 1, size, 4 * hidden), integers(60, 200, 1, hidden, 4 * hidden)
    scale, zero = np.array([0.05 / size, 0.05 / hidden], F), np.array([128], U8)
    x, bias = normal(steps, batch, size), normal(1, 8 * hidden)
    states = [normal(1, batch, hidden, seed=s) for s in (1, 2)] if begin else [None, None]
    y, h, c = ours("DynamicQuantizeLSTM", [x, w, r, bias, lengths, *states, None, scale[:1], zero, scale[1:], zero],
                   {"hidden_size": hidden, "direction": direction}, outputs=("y", "h", "c"),
                   constants={"x1", "x2", "x3", "x8", "x9", "x10", "x11"})
    numbers = [(m[0] - 128.0) * s for m, s in zip((w, r), scale.astype(np.float64))]
    for n in range(batch):
        length = steps if lengths is None else lengths[n]
        first = [s[0, n:n + 1].astype(np.float64) for s in states] if begin else [np.zeros((1, hidden))] * 2
        if length:
            steps_of = slice(None, length) if direction == "forward" else slice(length - 1, None, -1)
            check_steps(y[steps_of, 0, n:n + 1], c[0, n:n + 1], x[steps_of, n:n + 1], *numbers,
                        bias[0].astype(np.float64), first)
        np.testing.assert_array_equal(h[0, n], y[length - 1 if direction == "forward" else 0, 0, n] if length
                                      else first[0][0])
        if not length:
            np.testing.assert_array_equal(c[0, n], first[1][0])
        assert not y[length:, 0, n].any()


@pytest.mark.parametrize("kind", [U8, I8, np.uint16, np.int16])
def test_quantize_and_dequantize(kind):
    info = np.iinfo(kind)
    x, scale, zero = normal(3, 4, 5), np.linspace(0.01, 0.04, 4).astype(F), integers(0, 100, 4, dtype=kind)
    check("QuantizeLinear", [x, scale, zero], {"axis": 1}, quanta=1)
    check("QuantizeLinear", [x, scalar(0.02), scalar(7, kind)], quanta=1)
    codes = integers(info.min, info.max, 3, 4, 5, dtype=kind)
    check("DequantizeLinear", [codes, scale, zero], {"axis": 1})
    check("DequantizeLinear", [codes, scalar(0.02), scalar(7, kind)])
