"""com.microsoft's operators of batches without padding: against their definitions."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx_microsoft import CLOSE, F, I32, normal, ours, sigmoid  # noqa: E402

COUNTS, LENGTH, HEADS, SIZE = [2, 4, 1], 4, 2, 8
REAL = np.arange(LENGTH)[None] < np.array(COUNTS)[:, None]
PLACES = np.concatenate([np.flatnonzero(REAL.ravel()), np.flatnonzero(~REAL.ravel())]).astype(I32).reshape(3, LENGTH)
SUMS = np.concatenate([[0], np.cumsum(COUNTS)]).astype(I32)


@pytest.mark.parametrize("dtype", [F, np.float16])
def test_padding_comes_and_goes(dtype):
    x = normal(3, LENGTH, 5, dtype=dtype)
    rows, places, sums, longest = ours("RemovePadding", [x, np.array(COUNTS, I32)], {}, ("a", "b", "c", "d"))
    np.testing.assert_array_equal(rows, x[REAL])
    np.testing.assert_array_equal(places, PLACES)
    np.testing.assert_array_equal(sums, SUMS)
    np.testing.assert_array_equal(longest, [4])
    whole, = ours("RestorePadding", [rows, places], {})
    np.testing.assert_array_equal(whole, x * REAL[..., None])


def padded(rows):
    whole = np.zeros((3 * LENGTH, rows.shape[1]), rows.dtype)
    whole[PLACES.ravel()[:len(rows)]] = rows
    return whole.reshape(3, LENGTH, -1)


@pytest.mark.parametrize("bias", [False, True])
def test_packed_attention(bias):
    """The unpacked operator with a mask of counts."""
    x, w, b = normal(7, 6), normal(6, 3 * SIZE, scale=0.3), normal(3 * SIZE)
    added = normal(1, HEADS, LENGTH, LENGTH) if bias else None
    y, = ours("PackedAttention", [x, w, b, PLACES, SUMS, added], {"num_heads": HEADS})
    whole, = ours("Attention", [padded(x), w, b, np.array(COUNTS, I32), None, added], {"num_heads": HEADS})
    np.testing.assert_allclose(y, whole[REAL], **CLOSE)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_multi_head_attention(packed, bias):
    parts = [normal(7, SIZE, seed=i) for i in range(3)]
    added, b = normal(3, HEADS, LENGTH, LENGTH), normal(3 * SIZE) if bias else None
    inputs = [*parts, b, PLACES, SUMS, added]
    if packed:
        together = np.stack([p.reshape(7, HEADS, -1) for p in parts], axis=2)
        inputs = [together, None, None, b, PLACES, SUMS, added]
    y, = ours("PackedMultiHeadAttention", inputs, {"num_heads": HEADS, "scale": 0.3})
    whole, = ours("MultiHeadAttention", [*map(padded, parts), b, np.array(COUNTS, I32), added],
                  {"num_heads": HEADS, "scale": 0.3})
    np.testing.assert_allclose(y, whole[REAL], **CLOSE)


@pytest.mark.parametrize("packed", [False, True])
def test_gated_relative_position_bias(packed):
    rows, bias = normal(7, SIZE), normal(SIZE)
    weight, b, eco = normal(SIZE // HEADS, 6), normal(6), normal(1, HEADS, 1, 1)
    position = normal(1, HEADS, LENGTH, LENGTH)
    x = normal(3, LENGTH, SIZE)
    inputs = [rows if packed else x, bias, position, weight, b, eco, PLACES if packed else None]
    y, = ours("GatedRelativePositionBias", inputs, {"num_heads": HEADS})
    query = padded(rows + bias) if packed else x + bias
    heads = query.reshape(3, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)
    gates = sigmoid((heads @ weight + b).reshape(3, HEADS, LENGTH, 2, 3).sum(-1))
    u, r = gates[..., :1], gates[..., 1:]
    np.testing.assert_allclose(y, (u * (r * eco - 1) + 2) * position, **CLOSE)


@pytest.mark.parametrize("name, inputs, attributes, said", [
    ("PackedAttention", [normal(7, 6), normal(6, 25), normal(25), PLACES, SUMS], {"num_heads": 2}, "projection of 25"),
    ("PackedAttention", [normal(13, 6), normal(6, 24), normal(24), PLACES, SUMS], {"num_heads": 2}, "13 tokens"),
    ("RemovePadding", [normal(3, 4, 5), np.array([2, 9, 1], I32)], {}, "sequence_token_count has 9"),
])
def test_refusals(name, inputs, attributes, said):
    with pytest.raises(clprim.InvalidArgument, match=name + ".*" + said):
        ours(name, inputs, attributes)
