"""com.microsoft's operators that stand by themselves: tables in the formats of GGUF, an LSTM with attention, a maximum
pooling with a mask, against ONNX Runtime."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx_microsoft import F, I32, I64, check, integers, model_of, normal, ours  # noqa: E402

# ---- GatherPacked

# Format of GGUF: elements and bytes of a block, where scales of 16 bits lie.
FORMATS = {0: (1, 4, []), 1: (1, 2, [0]), 30: (1, 2, []), 2: (32, 18, [0]), 6: (32, 22, [0]), 8: (32, 34, [0]),
           13: (256, 176, [0, 2]), 14: (256, 210, [208]), 20: (32, 18, [0]), 23: (256, 136, [0])}


def packed(kind, rows, blocks, seed=0):
    _, size, scales = FORMATS[kind]
    if kind in (0, 30):
        return normal(rows, blocks, seed=seed).view(np.uint8) if kind == 0 else \
            np.ascontiguousarray(normal(rows, blocks, seed=seed).view(np.uint16)[:, 1::2]).view(np.uint8)
    table = integers(0, 256, rows, blocks, size, seed=seed)
    for at in scales:
        table[..., at:at + 2] = normal(rows, blocks, 1, seed=seed + at, dtype=np.float16).view(np.uint8)
    return table.reshape(rows, blocks * size)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", [1, 10, 16])
def test_gather_packed(kind, dtype):
    elements = FORMATS[kind][0]
    indices = np.array([[3, 0, 6], [1, -1, 99]], I64 if dtype != 10 else I32)    # the last two stand for row 0
    table = packed(kind, 7, 3)
    attributes = {"packed_type": kind, "K": 3 * elements}
    if dtype != 16:          # the default
        attributes["output_dtype"] = dtype
    if dtype == 1:
        return check("GatherPacked", [table, indices], attributes, rtol=1e-5, atol=1e-5)
    # Of narrow results NumPy knows one type only: the float32 ones, rounded.
    got, = ours("GatherPacked", [table, indices], attributes)
    exact, = ours("GatherPacked", [table, indices], attributes | {"output_dtype": 1})
    assert got.shape == exact.shape == (2, 3, 3 * elements)
    np.testing.assert_allclose(got.astype(F), exact, rtol=1e-3 if dtype == 10 else 1e-2, atol=1e-6)


def test_gather_packed_refuses():
    table, indices = packed(2, 4, 2), np.zeros(1, I64)
    for attributes in ({"packed_type": 2, "K": 32}, {"packed_type": 2, "K": 48}, {"packed_type": 2, "K": 1 << 62},
                       {"packed_type": 2, "K": 0}, {"packed_type": 3, "K": 64}, {"packed_type": -1, "K": 64},
                       {"packed_type": 2, "K": 64, "output_dtype": 7}):
        with pytest.raises(clprim.Error, match="GatherPacked"):
            ours("GatherPacked", [table, indices], attributes)
    empty, = ours("GatherPacked", [table, np.zeros((0, 2), I64)], {"packed_type": 2, "K": 64, "output_dtype": 1})
    assert empty.shape == (0, 2, 64)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("activation", ["none", "relu2", "silu"])
@pytest.mark.parametrize("constant", [True, False])
def test_products_with_packed_rows(constant, activation, kind):
    """By its definition, as ONNX Runtime's CPU has no kernel: with the rows that its GatherPacked gives, rounded."""
    n, k = 7, 3 * FORMATS[kind][0]
    table, a = packed(kind, n, 3), normal(2, 5, k, seed=8, dtype=np.float16)
    data, feeds = model_of("GatherPacked", [table, np.arange(n)], ("y",), {"packed_type": kind, "K": k,
                                                                           "output_dtype": 1})
    rows = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    y = (a.astype(np.float64) @ rows.astype(np.float16).astype(np.float64).T).astype(np.float16).astype(F)
    scale = np.abs(y).max()
    expected = {"none": y, "relu2": np.maximum(y, 0) ** 2, "silu": y / (1 + np.exp(-y))}[activation]
    result, = ours("MatMulPacked", [a, table], {"packed_type": kind, "N": n, "K": k, "activation_type": activation},
                   constants={"x1"} if constant else ())
    assert result.dtype == np.float16
    limit = 2e-3 * scale * (2 * scale if activation == "relu2" else 1)
    np.testing.assert_allclose(result.astype(F), expected.astype(np.float16).astype(F), rtol=0, atol=limit)


@pytest.mark.parametrize("attributes, said", [
    ({"N": 5}, "B has 4 rows, expected 5"), ({"K": 32}, "do not hold 32 elements"),
    ({"packed_type": 3}, "packed_type 3"), ({"activation_type": "tanh"}, "activation_type is 'tanh'"),
])
def test_products_with_packed_rows_refuse(attributes, said):
    inputs = [normal(3, 64, dtype=np.float16), packed(2, 4, 2)]
    with pytest.raises(clprim.Error, match="MatMulPacked.*" + said):
        ours("MatMulPacked", inputs, {"packed_type": 2, "K": 64, "N": 4} | attributes)
    with pytest.raises(clprim.Error, match=r"A has shape \[3, 60\]"):
        ours("MatMulPacked", [inputs[0][:, :60], inputs[1]], {"packed_type": 2, "K": 64, "N": 4})


# ---- AttnLSTM

def attention_lstm(directions=1, steps=5, batch=3, size=4, hidden=6, memory=(7, 5), attention=8, layer=None,
                   lengths=None, memory_lengths=None, states=False, peepholes=False, bias=True):
    read = layer or memory[1]
    def part(*shape, seed=0):
        return normal(directions, *shape, seed=seed, scale=0.5)
    return [normal(steps, batch, size), part(4 * hidden, size + read), part(4 * hidden, hidden, seed=1),
            part(8 * hidden) if bias else None, None if lengths is None else np.array(lengths, I32),
            part(batch, hidden, seed=2) if states else None, part(batch, hidden, seed=3) if states else None,
            part(3 * hidden) if peepholes else None, part(hidden, attention), part(memory[1], attention, seed=4),
            part(attention, seed=5), normal(batch, *memory), None if memory_lengths is None else
            np.array(memory_lengths, I32), part(memory[1] + hidden, layer) if layer else None]


OUTPUTS = ("y", "h", "c")


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("case", [
    {}, {"layer": 3}, {"lengths": [5, 2, 4], "memory_lengths": [7, 1, 3]}, {"states": True, "peepholes": True},
    {"layer": 9, "lengths": [1, 5, 3], "states": True, "bias": False}, {"steps": 1, "batch": 1}])
def test_attention_lstm(direction, case):
    both = direction == "bidirectional"
    check("AttnLSTM", attention_lstm(directions=1 + both, **case), {"hidden_size": 6, "direction": direction}, OUTPUTS)


def test_attention_lstm_options():
    check("AttnLSTM", attention_lstm(), {"hidden_size": 6, "clip": 0.3, "input_forget": 1}, OUTPUTS)
    check("AttnLSTM", attention_lstm(layer=4),
          {"hidden_size": 6, "activations": ["HardSigmoid", "Relu", "Tanh"], "activation_alpha": [0.3],
           "activation_beta": [0.4]}, OUTPUTS)
    check("AttnLSTM", attention_lstm(directions=2),
          {"hidden_size": 6, "direction": "bidirectional",
           "activations": ["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Relu", "Tanh"]}, OUTPUTS)


def test_attention_lstm_refuses():
    inputs = attention_lstm()
    inputs[11] = normal(2, 7, 5)
    with pytest.raises(clprim.Error, match="AttnLSTM.*do not fit"):
        ours("AttnLSTM", inputs, {"hidden_size": 6})
    for size in (5, 0, -1, 2**31 - 1, 2**62):
        with pytest.raises(clprim.Error, match="AttnLSTM.*hidden_size"):
            ours("AttnLSTM", attention_lstm(), {"hidden_size": size})


# ---- MaxpoolWithMask

@pytest.mark.parametrize("shape, attributes", [
    ((2, 3, 11), {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
    ((2, 3, 7, 9), {"kernel_shape": [2, 3]}),
    ((1, 2, 7, 9), {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 2, 0, 1]}),
    ((1, 2, 5, 9), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 2]}),
])
def test_max_pool_with_mask(shape, attributes):
    for seed, open_share in ((0, 0.7), (1, 1), (2, 0)):
        mask = (np.random.default_rng(seed).random((1, 1, *shape[2:])) < open_share).astype(I32) * 3
        check("MaxpoolWithMask", [normal(*shape), mask], attributes)


def test_max_pool_with_a_mask_for_each_plane():
    x, mask = normal(2, 2, 6), integers(0, 2, 2, 2, 6, dtype=I32)
    got, = ours("MaxpoolWithMask", [x, mask], {"kernel_shape": [2]})
    for n in range(2):
        for c in range(2):
            own, = ours("MaxpoolWithMask", [x[n:n + 1, c:c + 1], mask[n:n + 1, c:c + 1]], {"kernel_shape": [2]})
            np.testing.assert_array_equal(got[n, c], own[0, 0])
    with pytest.raises(clprim.Error, match="do not fit"):
        ours("MaxpoolWithMask", [x, mask[..., :5]], {"kernel_shape": [2]})
    with pytest.raises(clprim.Error, match="no window"):
        ours("MaxpoolWithMask", [x, mask], {"kernel_shape": [7], "strides": [2]})
