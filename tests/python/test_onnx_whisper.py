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


def whisper(seed=0, with_states=True, sharp=2):
    """An encoder of sounds, which takes the first step too, and a decoder, one layer each."""
    constants = [constant("words", normal(VOCABULARY, SIZE, seed=seed)),
                 constant("ears", normal(FEATURES, SIZE, seed=seed + 9)),
                 constant("head", normal(SIZE, VOCABULARY, seed=seed + 1, scale=sharp)),
                 constant("heads", np.array([0, 0, HEADS, HEAD], np.int64))]
    for i, name in enumerate(["wq", "wk", "wv", "ck", "cv"]):
        constants.append(constant(name, normal(SIZE, SIZE, seed=seed + 2 + i)))

    def layer(ids, past, key, value):
        nodes = [node("Gather", ["words", ids], ["x"])]
        nodes += [node("MatMul", ["x", f"w{letter}"], [f"{letter}1"]) for letter in "qkv"]
        nodes += [node("MultiHeadAttention", ["q1", "k1", "v1", "", "", "", *past],
                       ["a", "present_key_self_0", "present_value_self_0"], "com.microsoft", num_heads=HEADS,
                       unidirectional=1),
                  node("Add", ["x", "a"], ["y"]), node("MatMul", ["y", "wq"], ["cq"]),
                  node("MultiHeadAttention", ["cq", key, value], ["c"], "com.microsoft", num_heads=HEADS),
                  node("Add", ["y", "c"], ["z"]), node("MatMul", ["z", "head"], ["logits"])]
        return nodes

    hidden = [node("Transpose", ["encoder_input_ids"], ["frames"], perm=[0, 2, 1]),
              node("MatMul", ["frames", "ears"], ["e0"]), node("Tanh", ["e0"], ["encoder_hidden_states"])]
    for letter, name in (("k", "key"), ("v", "value")):
        hidden += [node("MatMul", ["encoder_hidden_states", f"c{letter}"], [f"flat_{name}"]),
                   node("Reshape", [f"flat_{name}", "heads"], [f"split_{name}"]),
                   node("Transpose", [f"split_{name}"], [f"present_{name}_cross_0"], perm=[0, 2, 1, 3])]
    selves, crossed = ([tensor(f"present_{name}_{kind}_0", FLOAT, "rows", HEADS, kind, HEAD)
                        for name in ("key", "value")] for kind in ("self", "cross"))
    logits = tensor("logits", FLOAT, "rows", "length", VOCABULARY)
    states = tensor("encoder_hidden_states", FLOAT, "rows", "frames", SIZE)
    encoder = helper.make_graph(
        [*hidden, *layer("decoder_input_ids", [], "present_key_cross_0", "present_value_cross_0")], "encoder",
        [tensor("encoder_input_ids", FLOAT, "batch", FEATURES, "frames"), tensor("decoder_input_ids", INT32, "batch",
                                                                                 "begun")],
        [logits, states, *selves, *crossed], constants)
    pasts = [tensor(f"past_{name}_{kind}_0", FLOAT, "rows", HEADS, f"past_{kind}", HEAD) for kind in ("self", "cross")
             for name in ("key", "value")]
    decoder = helper.make_graph(
        layer("input_ids", ["past_key_self_0", "past_value_self_0"], "past_key_cross_0", "past_value_cross_0"),
        "decoder", [tensor("input_ids", INT32, "rows", 1), *([states] if with_states else []), *pasts],
        [logits, *selves], [c for c in constants if c.name not in ("ears", "heads", "ck", "cv")])
    return {"encoder": encoder, "decoder": decoder, "model_type": 2, **TOKENS}


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


@pytest.mark.parametrize("change, said", [
    ({"input_ids": np.ones((2, 5), F)}, "input_ids has shape"), ({"logits_processor": one(2)}, "logits_processor is 2"),
    ({"decoder_input_ids": np.ones((2, 3), I32)}, "decoder_input_ids have shape"),
    ({"temperature": one(0, F)}, "temperature is 0"), ({"extra_decoding_ids": np.ones((3, 2), I32)}, "extra_decoding"),
    ({"max_length": one(1)}, "max_length is 1"), ({"model_type": 1}, "model_type must be 2|input_ids has shape"),
    ({"decoder_start_token_id": -1}, "decoder_start_token_id is -1"),
    ({"decoder_output_cross_qk": 1}, "cross_qk is not supported"),
])
def test_refusals(change, said):
    feeds = sounds(0) | {"max_length": one(8), "num_beams": one(2), "num_return_sequences": one(1)}
    feeds |= {name: value for name, value in change.items() if not isinstance(value, int)}
    attributes = whisper() | {name: value for name, value in change.items() if isinstance(value, int)}
    data = model_of("WhisperBeamSearch", feeds, ["sequences"], attributes, PLACES)
    with pytest.raises(clprim.InvalidArgument, match="WhisperBeamSearch.*(" + said + ")"):
        clprim.Session(data).run(feeds)
