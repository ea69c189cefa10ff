"""com.microsoft's packed recurrences, hashes of n-grams and sparse attention, against ONNX Runtime's CPU."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx_microsoft import F, I32, I64, check, integers, model_of, normal, ours  # noqa: E402

ENDS = np.array([0, 3, 4, 9], I32)
CLOSE = dict(rtol=1e-4, atol=2e-5)
TOLERANCES = {F: {}, np.float16: dict(rtol=1e-2, atol=2e-3)}


# ---- convolutions ----

@pytest.mark.parametrize("dtype", [F, np.float16])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
def test_packed_causal_convolution(dtype, dilation, activation):
    channels, taps = 6, 4
    state = normal(3, channels, (taps - 1) * dilation, dtype=dtype)
    inputs = [normal(9, channels, dtype=dtype), normal(channels, 1, taps, dtype=dtype), ENDS,
              normal(channels, dtype=dtype), state]
    attributes = {"activation": activation, "dilation": dilation}
    check("VarlenCausalConvWithState", inputs, attributes, ("y", "state"), **TOLERANCES[dtype])
    inputs[3] = None
    check("VarlenCausalConvWithState", inputs, attributes, ("y", "state"), **TOLERANCES[dtype])


def test_packed_causal_convolution_captures_tokens():
    inputs = [normal(9, 5), normal(5, 1, 3), ENDS, None, normal(3, 5, 2), np.array([2, 4, 0], I32)]
    check("VarlenCausalConvWithState", inputs, {"state_update_capacity": 3}, ("y", "state", "updates"))
    one = [normal(9, 5), normal(5, 1, 1), ENDS, None, normal(3, 5, 0)]
    check("VarlenCausalConvWithState", one, {}, ("y", "state"))


@pytest.mark.parametrize("dtype", [F, np.float16])
@pytest.mark.parametrize("group, at, taps", [(1, 0, 2), (3, 1, 4)])
def test_taps_that_move(dtype, group, at, taps):
    """By the operator's definition, as ONNX Runtime's CPU refuses them: each step rounded to the type."""
    channels = 6
    x, w = normal(9, channels, dtype=dtype), normal(channels, 1, 2, dtype=dtype)
    state = normal(3, channels, 1, dtype=dtype)
    more, mask = normal(9, taps, channels // group, dtype=dtype, seed=5), normal(9, 1, dtype=dtype, seed=6)
    inputs = [x, w, ENDS, None, state, np.array([2, 4, 0], I32), more, mask]
    attributes = {"delta_offset": at, "group_size": group, "state_update_capacity": 3}
    y, last, updates = ours("VarlenCausalConvWithState", inputs, attributes, ("y", "state", "updates"))
    before = np.concatenate([x[:1], x[:-1]])
    before[ENDS[:-1]] = state[:, :, 0]
    now, then = (w[None, :, 0, 1 - i] + np.repeat(more[:, at + i], group, axis=1) for i in (0, 1))
    expected = now * x + then * before * mask
    assert expected.dtype == dtype == y.dtype
    if dtype == F:
        np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(y, expected)
    still = [x, w, ENDS, None, state, np.array([2, 4, 0], I32)]
    rest = ours("VarlenCausalConvWithState", still, {"state_update_capacity": 3}, ("y", "state", "updates"))[1:]
    for result, theirs in zip((last, updates), rest, strict=True):
        np.testing.assert_array_equal(result, theirs)


@pytest.mark.parametrize("change, said", [
    ({3: normal(6)}, "two taps without dilation, bias"), ({6: None}, "must both be there"),
    ({6: normal(9, 1, 6)}, "kernel_delta has shape"), ({6: normal(9, 2, 5)}, "kernel_delta has shape"),
    ({7: normal(9)}, "previous_mask has shape"), ({1: normal(6, 1, 3), 4: normal(3, 6, 2)}, "two taps"),
])
def test_refused_taps(change, said):
    inputs = [normal(9, 6), normal(6, 1, 2), ENDS, None, normal(3, 6, 1), None, normal(9, 2, 6), normal(9, 1)]
    for i, value in change.items():
        inputs[i] = value
    with pytest.raises(clprim.InvalidArgument, match="VarlenCausalConvWithState.*" + said):
        ours("VarlenCausalConvWithState", inputs, {}, ("y", "state"))


def test_ends_that_are_none():
    inputs = [normal(9, 5), normal(5, 1, 3), np.array([0, 5, 3, 9], I32), None, normal(3, 5, 2)]
    with pytest.raises(clprim.Error, match="must rise"):
        ours("VarlenCausalConvWithState", inputs, {}, ("y", "state"))


# ---- gated delta networks ----

def delta(dtype=F, keys=2, values=4, size=8, wide=False, batch=3, tokens=9):
    def unit(seed):
        x = normal(tokens, keys, size, seed=seed)
        return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(dtype)
    decay = -np.abs(normal(*(tokens, values, size)[:3 if wide else 2], seed=4)) * 0.3
    beta = 1 / (1 + np.exp(-normal(tokens, values, seed=5)))
    return [unit(1), unit(2), normal(tokens, values, 6, dtype=dtype, seed=3), ENDS, decay.astype(F), beta.astype(F),
            normal(batch, values, 6, size, seed=6)]


@pytest.mark.parametrize("dtype", [F, np.float16])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_gated_delta_net(dtype, wide, rule):
    inputs = delta(dtype, wide=wide)
    if not rule.startswith("gated"):
        inputs[4] = None
    if not rule.endswith("delta"):
        inputs[5] = None
    check("GatedDeltaNet", inputs, {"update_rule": rule}, ("y", "state"), **TOLERANCES[dtype])
    if dtype is F:
        inputs[6] = None
        check("GatedDeltaNet", inputs, {"update_rule": rule, "scale": 0.7}, ("y", "state"))


@pytest.mark.parametrize("gate", ["softplus", "qwen", "sigmoid", "kda"])
@pytest.mark.parametrize("wide", [False, True])
def test_gates_of_delta_nets(gate, wide):
    inputs = [*delta(wide=wide), normal(4, seed=7), normal(*(4, 8)[:2 if wide else 1], seed=8)]
    inputs[0], inputs[1] = normal(9, 2, 8, seed=11), normal(9, 2, 8, seed=12)
    inputs[4], inputs[5] = normal(*inputs[4].shape, seed=13, scale=9), normal(9, 4, seed=14)
    attributes = {"gate_activation": gate, "beta_activation": "sigmoid", "qk_l2_norm": 1}
    check("GatedDeltaNet", inputs, attributes, ("y", "state"))


def test_delta_nets_in_other_forms():
    inputs = delta()
    uniform = [*inputs[:3], None, *inputs[4:]]
    check("GatedDeltaNet", uniform, {}, ("y", "state"))
    split = [x if i in (3, 6) or x is None else x.reshape(3, 3, *x.shape[1:]) for i, x in enumerate(uniform)]
    check("GatedDeltaNet", split, {}, ("y", "state"))
    packed = [np.concatenate([x.reshape(9, -1) for x in inputs[:3]], axis=1), None, None, *inputs[3:]]
    check("GatedDeltaNet", packed, {}, ("y", "state"))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_transitions_of_delta_nets(rule, wide):
    """What lies behind those that are captured is not specified: theirs is not looked at, ours is 0."""
    keys, values, size, capacity, counts = 2, 4, 8, 4, np.array([2, 7, 3], I32)
    inputs = [*delta(wide=wide), None, None, counts]
    inputs[0], inputs[1] = normal(9, keys, size, seed=11), normal(9, keys, size, seed=12)
    if not rule.startswith("gated"):
        inputs[4] = None
    if not rule.endswith("delta"):
        inputs[5] = None
    attributes = {"update_rule": rule, "qk_l2_norm": 1, "state_update_capacity": capacity}
    outputs = ("y", "state", "updates")
    data, feeds = model_of("GatedDeltaNet", inputs, outputs, attributes)
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(list(outputs), feeds)
    results = ours("GatedDeltaNet", inputs, attributes, outputs)
    for result, theirs in zip(results[:2], expected[:2], strict=True):
        np.testing.assert_allclose(result, theirs, **CLOSE)
    widths = [values * size if wide and rule.startswith("gated") else values, keys * size, values * 6]
    assert results[2].shape == expected[2].shape == (3, capacity * sum(widths))
    begin = 0
    for width in widths:
        part = slice(begin, begin := begin + capacity * width)
        for b, count in enumerate([2, 1, 3]):             # sequences of 3, 1 and 5 tokens
            result, theirs = (x[2][b, part].reshape(capacity, width) for x in (results, expected))
            np.testing.assert_allclose(result[:count], theirs[:count], **CLOSE)
            assert not result[count:].any() and result[:count].any()
    check("GatedDeltaNet", [*inputs, np.array([0], I32)], attributes, outputs)


# ---- hashes of n-grams ----

@pytest.mark.parametrize("dtype", [I32, I64])
@pytest.mark.parametrize("longest", [2, 3, 5])
def test_ngram_hashes(dtype, longest):
    heads, batch, length = 3, 2, 11
    attributes = {"pad_id": 7, "n_head_per_ngram": heads, "max_ngram_size": longest}
    ids = integers(0, 6, batch, length, dtype=dtype)
    multipliers = integers(-2**30, 2**30, longest, dtype=dtype, seed=1)
    sizes = integers(3, 2000, (longest - 1) * heads, dtype=dtype, seed=2)
    past = integers(0, 6, batch, longest - 1, dtype=dtype, seed=3)
    offsets = integers(0, 10**6, (longest - 1) * heads, dtype=dtype, seed=4)
    end = np.array(2, dtype)
    segments = np.sort(integers(0, 3, batch, length, dtype=I32, seed=5), axis=1)
    for inputs in ([], [past], [past, offsets], [None, None, end], [past, offsets, end], [past, None, None, segments],
                   [None, None, end, segments], [past, offsets, end, segments]):
        for reset in (0, 1):
            check("NGramHashMapping", [ids, multipliers, sizes, *inputs], attributes | {"reset_on_eos": reset},
                  ("hashes", "present"), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [I32, I64])
@pytest.mark.parametrize("longest", [2, 4])
def test_packed_ngram_hashes(dtype, longest):
    heads, tokens, batch = 2, 9, 3
    attributes = {"pad_id": 7, "n_head_per_ngram": heads, "max_ngram_size": longest}
    ids = integers(0, 6, tokens, dtype=dtype)
    multipliers = integers(-2**30, 2**30, longest, dtype=dtype, seed=1)
    sizes = integers(3, 2000, (longest - 1) * heads, dtype=dtype, seed=2)
    past = integers(0, 6, batch, longest - 1, dtype=dtype, seed=3)
    offsets = integers(0, 10**6, (longest - 1) * heads, dtype=dtype, seed=4)
    end = np.array(2, dtype)
    segments = integers(0, 2, tokens, dtype=I32, seed=5)
    past_segments = integers(0, 2, batch, longest - 1, dtype=I32, seed=6)
    counts = np.array([2, 4, 0], I32)
    outputs = ("hashes", "present")
    for inputs in ([], [past], [past, offsets, end], [None, None, end], [past, None, None, segments],
                   [past, offsets, end, segments, past_segments], [past, None, None, segments, past_segments]):
        whole = [ids, multipliers, sizes, ENDS, *inputs]
        named = (*outputs, "segments") if len(inputs) > 3 else outputs
        for reset in (0, 1):
            check("VarlenNGramHashMapping", whole, attributes | {"reset_on_eos": reset}, named, rtol=0, atol=0)
        whole += [None] * (9 - len(whole)) + [counts]
        check("VarlenNGramHashMapping", whole, attributes | {"state_update_capacity": 3}, (*outputs, "", "updates"),
              rtol=0, atol=0)


# ---- sparse attention ----

def compressed(masks):
    """block_row_indices and block_col_indices of masks [layouts, blocks, blocks]."""
    columns = [np.nonzero(mask)[1] for mask in masks]
    widest = max(map(len, columns))
    rows = [np.concatenate([[0], np.cumsum(mask.sum(1))]) for mask in masks]
    return np.array(rows, I32), np.array([np.pad(c, (0, widest - len(c)), constant_values=-1) for c in columns], I32)


def in_place(kind, inputs, attributes, outputs, shared):
    """ONNX Runtime's results where outputs `shared` lie in the memory of inputs."""
    data, feeds = model_of(kind, inputs, outputs, attributes)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    arrays = {name: array.copy() for name, array in feeds.items()}      # whose memory the values share
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name in outputs:
        if name in shared:
            binding.bind_ortvalue_output(name, values[f"x{shared[name]}"])
        else:
            binding.bind_output(name)
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


BLOCK, HEADS, KV_HEADS, SIZE, CAPACITY = 16, 4, 2, 16, 64


@pytest.mark.parametrize("dtype", [F, np.float16])
@pytest.mark.parametrize("queries, totals", [(40, [40, 40]), (40, [40, 21]), (1, [50, 18]), (1, [33, 33])])
@pytest.mark.parametrize("packed, rotary", [(False, None), (True, None), (False, 0), (True, 1)])
def test_sparse_attention(dtype, queries, totals, packed, rotary):
    lower = np.tril(np.ones((4, 4), int))
    masks = np.stack([lower * (np.eye(4, dtype=int) + np.eye(4, k=-1, dtype=int)), lower])
    masks[1, 2:, 0] = 0
    parts = [normal(2, queries, heads * SIZE, seed=heads + i, dtype=dtype)
             for i, heads in enumerate((HEADS, KV_HEADS, KV_HEADS))]
    if packed:
        parts = [np.concatenate(parts, axis=2), None, None]
    caches = [normal(2, KV_HEADS, CAPACITY, SIZE, seed=i, dtype=dtype) for i in (3, 4)]
    attributes = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "sparse_block_size": BLOCK}
    angles = []
    if rotary is not None:
        phases = normal(CAPACITY, SIZE // 2, seed=5)
        angles = [np.cos(phases).astype(dtype), np.sin(phases).astype(dtype)]
        attributes |= {"do_rotary": 1, "rotary_interleaved": rotary}
    outputs = ("y", "keys", "values")

    def inputs(rows, lengths, new):
        tokens = [part if part is None else part[rows, :new] for part in parts]
        held = [cache[rows] for cache in caches]
        return [*tokens, *held, *compressed(masks), np.array([max(lengths)], I32), np.array(lengths, I32), *angles]

    results = ours("SparseAttention", inputs(slice(2), totals, queries), attributes, outputs)
    # Each sample by itself: ONNX Runtime 1.32.0 mixes up the scores of heads where lengths differ.
    for b, total in enumerate(totals):
        new = min(queries, total)
        expected = in_place("SparseAttention", inputs(slice(b, b + 1), [total], new), attributes, outputs,
                            {"keys": 3, "values": 4})
        for name, result, theirs in zip(outputs, results, expected, strict=True):
            rows = slice(new) if name == "y" else (slice(None), slice(total))     # what lies behind is padding
            np.testing.assert_allclose(result[b][rows], theirs[0][rows], **TOLERANCES[dtype] or CLOSE)
