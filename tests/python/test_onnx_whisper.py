"""com.microsoft's WhisperBeamSearch: the tokens and scores that ONNX Runtime's CPU finds."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper  # noqa: E402
from onnx_microsoft import F, I32, normal  # noqa: E402
from test_onnx_generation import HEAD, HEADS, SIZE, constant, model_of, node, one, tensor  # noqa: E402

FEATURES, FRAMES, VOCABULARY, TIMES = 5, 7, 24, 14     # of the tokens the last ten are times
FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
TOKENS = {"decoder_start_token_id": 2, "translate_token_id": 3, "transcribe_token_id": 4, "start_of_lm_token_id": 5,
          "no_timestamps_token_id": 6, "no_speech_token_id": 7, "beginning_timestamp_token_id": TIMES}
PLACES = ["input_ids", "max_length", "min_length", "num_beams", "num_return_sequences", "length_penalty",
          "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask", "decoder_input_ids",
          "logits_processor", "cross_qk_layer_head", "extra_decoding_ids", "temperature"]


def whisper(seed=0, with_states=True, sharp=2, layers=1, crossed=False):
    """An encoder of sounds, also of the first step, and a decoder; with products of cross attention if `crossed`."""
    constants = [constant("words", normal(VOCABULARY, SIZE, seed=seed)),
                 constant("ears", normal(FEATURES, SIZE, seed=seed + 9)),
                 constant("head", normal(SIZE, VOCABULARY, seed=seed + 1, scale=sharp)),
                 constant("heads", np.array([0, 0, HEADS, HEAD], np.int64))]
    for at in range(layers):
        for i, name in enumerate(["wq", "wk", "wv", "ck", "cv"]):
            constants.append(constant(f"{name}{at}", normal(SIZE, SIZE, seed=seed + 2 + i + 20 * at)))
    products = [tensor(f"output_cross_qk_{i}", FLOAT, "rows", HEADS, "length", "frames") for i in range(layers)]

    def decoding(ids, past, cross):
        nodes = [node("Gather", ["words", ids], ["x0"])]
        for i in range(layers):
            nodes += [node("MatMul", [f"x{i}", f"w{letter}{i}"], [f"{letter}{i}"]) for letter in "qkv"]
            nodes += [node("MultiHeadAttention", [f"q{i}", f"k{i}", f"v{i}", "", "", "", *[p.format(i) for p in past]],
                           [f"a{i}", f"present_key_self_{i}", f"present_value_self_{i}"], "com.microsoft",
                           num_heads=HEADS, unidirectional=1),
                      node("Add", [f"x{i}", f"a{i}"], [f"y{i}"]), node("MatMul", [f"y{i}", f"wq{i}"], [f"cq{i}"]),
                      node("MultiHeadAttention", [f"cq{i}", *[c.format(i) for c in cross]],
                           [f"c{i}", *(["", "", f"output_cross_qk_{i}"] if crossed else [])], "com.microsoft",
                           num_heads=HEADS),
                      node("Add", [f"y{i}", f"c{i}"], [f"x{i + 1}"])]
        return [*nodes, node("MatMul", [f"x{layers}", "head"], ["logits"])]

    hidden = [node("Transpose", ["encoder_input_ids"], ["frames"], perm=[0, 2, 1]),
              node("MatMul", ["frames", "ears"], ["e0"]), node("Tanh", ["e0"], ["encoder_hidden_states"])]
    for i in range(layers):
        for letter, name in (("k", "key"), ("v", "value")):
            hidden += [node("MatMul", ["encoder_hidden_states", f"c{letter}{i}"], [f"flat_{name}_{i}"]),
                       node("Reshape", [f"flat_{name}_{i}", "heads"], [f"split_{name}_{i}"]),
                       node("Transpose", [f"split_{name}_{i}"], [f"present_{name}_cross_{i}"], perm=[0, 2, 1, 3])]
    selves, cross = ([tensor(f"present_{name}_{kind}_{i}", FLOAT, "rows", HEADS, kind, HEAD) for i in range(layers)
                      for name in ("key", "value")] for kind in ("self", "cross"))
    logits = tensor("logits", FLOAT, "rows", "length", VOCABULARY)
    states = tensor("encoder_hidden_states", FLOAT, "rows", "frames", SIZE)
    encoder = helper.make_graph(
        [*hidden, *decoding("decoder_input_ids", [], ["present_key_cross_{}", "present_value_cross_{}"])], "encoder",
        [tensor("encoder_input_ids", FLOAT, "batch", FEATURES, "frames"), tensor("decoder_input_ids", INT32, "batch",
                                                                                 "begun")],
        [logits, states, *selves, *cross], constants)
    pasts = [tensor(f"past_{name}_{kind}_{i}", FLOAT, "rows", HEADS, f"past_{kind}", HEAD) for kind in ("self", "cross")
             for i in range(layers) for name in ("key", "value")]
    decoder = helper.make_graph(
        decoding("input_ids", ["past_key_self_{}", "past_value_self_{}"], ["past_key_cross_{}", "past_value_cross_{}"]),
        "decoder", [tensor("input_ids", INT32, "rows", 1), *([states] if with_states else []), *pasts],
        [logits, *selves, *(products if crossed else [])],
        [c for c in constants if c.name[:2] not in ("ea", "ck", "cv") and c.name != "heads"])
    return {"encoder": encoder, "decoder": decoder, "model_type": 2, **TOKENS,
            **({"decoder_output_cross_qk": 1} if crossed else {})}


def sounds(seed, batch=3):
    return {"input_ids": normal(batch, FEATURES, FRAMES, seed=seed), "min_length": one(0), "length_penalty": one(1, F),
            "repetition_penalty": one(1, F)}


def check(feeds, attributes, outputs=("sequences", "sequences_scores")):
    """ONNX Runtime decides by the scores of the sample before whether beams have ended: it gets samples one by one."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    kind, theirs = "WhisperBeamSearch", []
    for i in range(len(feeds["input_ids"])):
        part = {name: array[i:i + 1] if name in ("input_ids", "decoder_input_ids") else array
                for name, array in feeds.items()}
        session = ort.InferenceSession(model_of(kind, part, outputs, attributes, PLACES), options,
                                       providers=["CPUExecutionProvider"])
        theirs.append(session.run(list(outputs), part))
    results = clprim.Session(model_of(kind, feeds, outputs, attributes, PLACES)).run(feeds)
    for name, together in zip(outputs, zip(*theirs, strict=True), strict=True):
        expected = np.concatenate(together, 1 if name == "scores" else 0)
        if name == "sequences":
            np.testing.assert_array_equal(results[name], expected)
            continue
        finite = np.abs(expected) < 1e30
        np.testing.assert_array_equal(np.abs(results[name]) < 1e30, finite)
        np.testing.assert_allclose(results[name][finite], expected[finite], rtol=1e-4, atol=1e-4)
    return results


@pytest.mark.parametrize("with_states", [True, False])
@pytest.mark.parametrize("begun", [None, 1, 4])
@pytest.mark.parametrize("beams, returned", [(1, 1), (3, 2)])
def test_sequences(beams, returned, begun, with_states):
    for seed in range(4):
        feeds = sounds(seed) | {"max_length": one(12), "num_beams": one(beams), "num_return_sequences": one(returned)}
        if begun:
            feeds["decoder_input_ids"] = np.random.default_rng(seed).integers(2, TIMES, (3, begun), dtype=I32)
        check(feeds, whisper(50 * seed, with_states))


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("sharp", [0.3, 2])
def test_times(beams, sharp):
    times = 0
    for seed in range(8):
        feeds = sounds(seed) | {"max_length": one(20), "num_beams": one(beams), "num_return_sequences": one(1),
                                "min_length": one(17), "logits_processor": one(1),
                                "decoder_input_ids": np.array([[2, 3]] * 3, I32)}
        sequences = check(feeds, whisper(50 * seed, sharp=sharp))["sequences"][:, 0]
        for line in sequences:
            found = line[line >= TIMES]
            times += len(found)
            assert (np.diff(found) >= 0).all() and not np.isin(line[2:], [5, 6]).any()
    assert times > 20


def test_temperature_and_scores():
    feeds = sounds(1) | {"max_length": one(9), "min_length": one(8), "num_beams": one(3),
                         "num_return_sequences": one(2), "temperature": one(1.7, F)}
    check(feeds, whisper(), ("sequences", "sequences_scores", "scores"))


def test_probability_of_silence():
    """By its definition: ONNX Runtime's CPU leaves it zero."""
    feeds = sounds(2) | {"max_length": one(9), "num_beams": one(3), "num_return_sequences": one(1),
                         "decoder_input_ids": np.array([[2, 8], [2, 9], [2, 3]], I32)}
    outputs = ["sequences", "sequences_scores", "", "", "silence"]
    silence = clprim.Session(model_of("WhisperBeamSearch", feeds, outputs, whisper(), PLACES)).run(feeds)["silence"]
    graph = whisper()["encoder"]
    encoder = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20),
                                                      helper.make_opsetid("com.microsoft", 1)], ir_version=9)
    logits = clprim.Session(encoder.SerializeToString()).run(
        {"encoder_input_ids": feeds["input_ids"], "decoder_input_ids": feeds["decoder_input_ids"]})["logits"][:, -1]
    expected = np.exp(logits[:, 7]) / np.exp(logits).sum(1)
    np.testing.assert_allclose(silence, expected, rtol=1e-5)


@pytest.mark.parametrize("beams, returned", [(1, 1), (4, 3)])
@pytest.mark.parametrize("steps", [1, 3])
def test_tokens_that_are_forced(steps, beams, returned):
    """By their definition, as ONNX Runtime's CPU does not look at them: the end of decoder_input_ids, up to a negative
    one, so they are given to ONNX Runtime there."""
    for seed in range(4):
        feeds = sounds(seed) | {"max_length": one(12), "num_beams": one(beams), "num_return_sequences": one(returned)}
        begun, forced = (np.random.default_rng(seed).integers(2, TIMES, (3, n), dtype=I32) for n in (2, steps))
        forced[1, -1:], forced[2, 1:2] = -1, -1
        outputs, attributes = ["sequences", "sequences_scores"], whisper(50 * seed)
        given = feeds | {"decoder_input_ids": begun, "extra_decoding_ids": forced}
        results = clprim.Session(model_of("WhisperBeamSearch", given, outputs, attributes, PLACES)).run(given)
        for i, line in enumerate(forced):
            count = np.flatnonzero(line < 0)[0] if (line < 0).any() else steps
            alone = feeds | {"input_ids": feeds["input_ids"][i:i + 1],
                             "decoder_input_ids": np.concatenate([begun[i], line[:count]])[None]}
            expected = check(alone, attributes)
            for name in outputs:
                np.testing.assert_allclose(results[name][i:i + 1], expected[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kept", [None, [[1, 1]], [[1, 0], [0, 1], [1, 0]]])
@pytest.mark.parametrize("beams, returned", [(1, 1), (4, 3)])
def test_products_of_cross_attention(beams, returned, kept):
    """By their definition, as ONNX Runtime's CPU refuses them: for each sequence that is returned, the products of each
    token that the decoder was fed; ONNX Runtime computes them from the whole sequence at once."""
    lengths = set()
    for seed in range(4):
        feeds = sounds(seed) | {"max_length": one(9), "num_beams": one(beams), "num_return_sequences": one(returned),
                                "decoder_input_ids": np.array([[2, 3]] * 3, I32),
                                "vocab_mask": np.isin(np.arange(VOCABULARY), np.arange(1, 7)).astype(I32)}
        if kept:
            feeds["cross_qk_layer_head"] = np.array(kept, I32)
        attributes = whisper(50 * seed, layers=2, crossed=True, sharp=0.05)
        outputs = ["sequences", "sequences_scores", "", "cross_qk"]
        results = clprim.Session(model_of("WhisperBeamSearch", feeds, outputs, attributes, PLACES)).run(feeds)
        plain = check({k: v for k, v in feeds.items() if k != "cross_qk_layer_head"},
                      whisper(50 * seed, layers=2, sharp=0.05))
        np.testing.assert_array_equal(results["sequences"], plain["sequences"])
        pairs = kept or [[0, 0], [0, 1], [1, 0], [1, 1]]
        got = results["cross_qk"]
        assert got.shape[:3] + got.shape[4:] == (3, returned, len(pairs), FRAMES) and got.dtype == F
        encoder = attributes["encoder"]
        for i in range(2):
            encoder.output.append(tensor(f"output_cross_qk_{i}", FLOAT, "rows", HEADS, "length", "frames"))
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        whole = ort.InferenceSession(helper.make_model(encoder, opset_imports=opsets, ir_version=9).SerializeToString(),
                                     providers=["CPUExecutionProvider"])
        seen = []
        for b in range(3):
            for r in range(returned):
                tokens = results["sequences"][b, r]
                tokens = tokens[:np.flatnonzero(tokens)[-1] + 1]
                products = np.stack(whole.run([f"output_cross_qk_{i}" for i in range(2)], {
                    "encoder_input_ids": feeds["input_ids"][b:b + 1], "decoder_input_ids": tokens[None]}))[:, 0]
                fed = len(tokens) - 2 - (len(tokens) == 9)       # the last of a full sequence leads to nothing
                seen.append(fed)
                for at, (layer, head) in enumerate(pairs):
                    np.testing.assert_allclose(got[b, r, at, :fed], products[layer, head, 2:2 + fed], rtol=1e-4,
                                               atol=1e-5 * np.abs(products).max())      # they are sums of such terms
                assert not got[b, r, :, fed:].any()
        assert got.shape[3] >= max(seen)
        lengths |= set(seen)
    assert len(lengths) > (1 if beams == 1 else 2)


@pytest.mark.parametrize("change, said", [
    ({"input_ids": np.ones((2, 5), F)}, "input_ids has shape"), ({"logits_processor": one(2)}, "logits_processor is 2"),
    ({"decoder_input_ids": np.ones((2, 3), I32)}, "decoder_input_ids have shape"),
    ({"temperature": one(0, F)}, "temperature is 0"),
    ({"extra_decoding_ids": np.ones((2, 2), I32)}, r"extra_decoding_ids has shape \[2, 2\], expected \[3, length\]"),
    ({"extra_decoding_ids": np.full((3, 1), VOCABULARY, I32)}, "extra_decoding_ids has token 24 of 24"),
    ({"max_length": one(1)}, "max_length is 1"), ({"model_type": 1}, "model_type must be 2|input_ids has shape"),
    ({"decoder_start_token_id": -1}, "decoder_start_token_id is -1"),
    ({"decoder_output_cross_qk": 1}, "decoder_output_cross_qk is 1, but the decoder has 3 outputs|do not fit"),
])
def test_refusals(change, said):
    feeds = sounds(0) | {"max_length": one(8), "num_beams": one(2), "num_return_sequences": one(1)}
    feeds |= {name: value for name, value in change.items() if not isinstance(value, int)}
    attributes = whisper() | {name: value for name, value in change.items() if isinstance(value, int)}
    data = model_of("WhisperBeamSearch", feeds, ["sequences"], attributes, PLACES)
    with pytest.raises(clprim.InvalidArgument, match="WhisperBeamSearch.*(" + said + ")"):
        clprim.Session(data).run(feeds)


@pytest.mark.parametrize("kept, crossed, said", [
    ([[0, 2]], True, "layer 0 and head 2 of 1 layers with 2 heads"), ([[1, 0]], True, "layer 1 and head 0"),
    ([[-1, 0]], True, "layer -1"), ([0, 0], True, "cross_qk_layer_head has shape"),
    ([[0, 0]], False, "the output cross_qk needs decoder_output_cross_qk"),
])
def test_refused_products(kept, crossed, said):
    feeds = sounds(0) | {"max_length": one(8), "num_beams": one(2), "num_return_sequences": one(1),
                         "cross_qk_layer_head": np.array(kept, I32)}
    data = model_of("WhisperBeamSearch", feeds, ["sequences", "", "", "cross_qk"], whisper(crossed=crossed), PLACES)
    with pytest.raises(clprim.InvalidArgument, match="WhisperBeamSearch.*" + said):
        clprim.Session(data).run(feeds)
