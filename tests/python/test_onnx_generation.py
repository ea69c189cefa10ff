"""com.microsoft's searches for text: the tokens, scores and filtered logits that ONNX Runtime's CPU finds."""
import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx_microsoft import F, I32, normal  # noqa: E402

HEADS, HEAD, VOCABULARY, LAYERS = 2, 4, 11, 2
SIZE = HEADS * HEAD
FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32


def tensor(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def node(kind, inputs, outputs, domain="", **attributes):
    return helper.make_node(kind, inputs, outputs, domain=domain, **attributes)


def constant(name, array):
    return numpy_helper.from_array(array, name)


def gpt(name="decoder", seed=0, sharp=3.0):
    """A transformer of two layers with random weights."""
    constants = [constant("words", normal(VOCABULARY, SIZE, seed=seed)),
                 constant("places", normal(64, SIZE, seed=seed + 1)),
                 constant("head", normal(SIZE, VOCABULARY, seed=seed + 2, scale=sharp))]
    nodes = [node("Gather", ["words", "input_ids"], ["w"]), node("Gather", ["places", "position_ids"], ["p"]),
             node("Add", ["w", "p"], ["x0"])]
    for i in range(LAYERS):
        constants += [constant(f"weight{i}", normal(SIZE, 3 * SIZE, seed=seed + 10 + i, scale=0.5)),
                      constant(f"bias{i}", normal(3 * SIZE, seed=seed + 20 + i))]
        nodes += [node("Attention", [f"x{i}", f"weight{i}", f"bias{i}", "attention_mask", f"past_{i}"],
                       [f"a{i}", f"present_{i}"], "com.microsoft", num_heads=HEADS, unidirectional=1),
                  node("Add", [f"x{i}", f"a{i}"], [f"x{i + 1}"])]
    nodes.append(node("MatMul", [f"x{LAYERS}", "head"], ["logits"]))
    cache = (2, "rows", HEADS, "past", HEAD)
    inputs = [tensor("input_ids", INT32, "rows", "length"), tensor("position_ids", INT32, "rows", "length"),
              tensor("attention_mask", INT32, "rows", "total"),
              *[tensor(f"past_{i}", FLOAT, *cache) for i in range(LAYERS)]]
    outputs = [tensor("logits", FLOAT, "rows", "length", VOCABULARY),
               *[tensor(f"present_{i}", FLOAT, 2, "rows", HEADS, "total", HEAD) for i in range(LAYERS)]]
    return helper.make_graph(nodes, name, inputs, outputs, constants)


def attend(tag, query, key, value, mask=None):
    inputs = [query, key, value, "", mask or ""]
    return node("MultiHeadAttention", inputs, [tag], "com.microsoft", num_heads=HEADS)


def t5(starts=True, seed=0):
    """An encoder and a decoder of one layer each, in both forms that files have."""
    constants = [constant("words", normal(VOCABULARY, SIZE, seed=seed)),
                 constant("head", normal(SIZE, VOCABULARY, seed=seed + 1, scale=2)),
                 constant("heads", np.array([0, 0, HEADS, HEAD], np.int64))]
    for i, name in enumerate(["wq", "wk", "wv", "ck", "cv"]):
        constants.append(constant(name, normal(SIZE, SIZE, seed=seed + 2 + i)))

    def own(nodes, ids, past):
        nodes += [node("Gather", ["words", ids], ["x"])]
        for letter in "qkv":
            nodes.append(node("MatMul", ["x", f"w{letter}"], [f"{letter}1"]))
        inputs = ["q1", "k1", "v1", "", "", "", *past]
        nodes.append(node("MultiHeadAttention", inputs, ["a", "present_key_self_0", "present_value_self_0"],
                          "com.microsoft", num_heads=HEADS))
        nodes.append(node("Add", ["x", "a"], ["y"]))

    def cross(nodes, key, value):
        nodes.append(node("MatMul", ["y", "wq"], ["cq"]))
        nodes.append(node("MultiHeadAttention", ["cq", key, value, "", "encoder_attention_mask"], ["c"],
                          "com.microsoft", num_heads=HEADS))
        nodes += [node("Add", ["y", "c"], ["z"]), node("MatMul", ["z", "head"], ["logits"])]

    ids = [tensor("encoder_input_ids", INT32, "batch", "source"),
           tensor("encoder_attention_mask", INT32, "batch", "source")]
    hidden = [node("Gather", ["words", "encoder_input_ids"], ["e0"]), node("Tanh", ["e0"], ["encoder_hidden_states"])]
    for letter, name in (("k", "key"), ("v", "value")):
        hidden += [node("MatMul", ["encoder_hidden_states", f"c{letter}"], [f"flat_{name}"]),
                   node("Reshape", [f"flat_{name}", "heads"], [f"split_{name}"]),
                   node("Transpose", [f"split_{name}"], [f"present_{name}_cross_0"], perm=[0, 2, 1, 3])]
    crossed = [tensor(f"present_{name}_cross_0", FLOAT, "batch", HEADS, "source", HEAD) for name in ("key", "value")]
    selves = [tensor(f"present_{name}_self_0", FLOAT, "batch", HEADS, "total", HEAD) for name in ("key", "value")]
    logits = tensor("logits", FLOAT, "batch", "length", VOCABULARY)
    used = [c for c in constants if c.name != "head"] if not starts else constants
    if starts:
        nodes = list(hidden)
        own(nodes, "decoder_input_ids", [])
        cross(nodes, "present_key_cross_0", "present_value_cross_0")
        encoder = helper.make_graph(
            nodes, "encoder", [*ids, tensor("decoder_input_ids", INT32, "batch", 1)],
            [logits, tensor("encoder_hidden_states", FLOAT, "batch", "source", SIZE), *selves, *crossed], used)
    else:
        encoder = helper.make_graph(hidden, "encoder", ids, crossed, used)
    nodes = []
    own(nodes, "input_ids", ["past_key_self_0", "past_value_self_0"])
    cross(nodes, "past_key_cross_0", "past_value_cross_0")
    states = [tensor("encoder_hidden_states", FLOAT, "rows", "source", SIZE)] if starts else []
    pasts = [tensor(f"past_{name}_{kind}_0", FLOAT, "rows", HEADS, f"{kind}_length", HEAD)
             for kind in ("self", "cross") for name in ("key", "value")]
    decoder = helper.make_graph(
        nodes, "decoder", [tensor("input_ids", INT32, "rows", 1),
                           tensor("encoder_attention_mask", INT32, "rows", "source"), *states, *pasts],
        [logits, *selves], constants)
    return {"encoder": encoder, "decoder": decoder, "model_type": 1, "decoder_start_token_id": 2}


def model_of(kind, feeds, outputs, attributes, places):
    names = [name if name in feeds else "" for name in places]
    while not names[-1] and "Beam" not in kind:           # of which ONNX Runtime wants all, and two for its types
        names.pop()
    search = node(kind, names, outputs, "com.microsoft", eos_token_id=1, pad_token_id=0, **attributes)
    ports = [tensor(name, helper.np_dtype_to_tensor_dtype(array.dtype), *array.shape) for name, array in feeds.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = helper.make_graph([search], "graph", ports, results)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


GREEDY = ["input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask",
          "attention_mask"]
SAMPLING = [*GREEDY, "presence_mask", "seed"]
BEAMS = ["input_ids", "max_length", "min_length", "num_beams", "num_return_sequences", "length_penalty",
         "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask", "decoder_input_ids",
         "logits_processor"]


def one(value, dtype=I32):
    return np.array([value], dtype)


def prompt(seed=0, batch=3, length=4):
    ids = np.random.default_rng(seed).integers(2, VOCABULARY, (batch, length), dtype=I32)
    ids[0, :2] = 0                                  # padding in front
    return ids


def both(kind, feeds, outputs, attributes, places):
    """ONNX Runtime decides by the scores of the sample before whether beams have ended: it gets samples one by one."""
    parts = [feeds]
    if kind == "BeamSearch":
        feeds = {"min_length": one(0), "length_penalty": one(1, F), "repetition_penalty": one(1, F), **feeds}
        batched = ("input_ids", "prefix_vocab_mask", "attention_mask")
        parts = [{name: array[i:i + 1] if name in batched else array for name, array in feeds.items()}
                 for i in range(len(feeds["input_ids"]))]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    theirs = [ort.InferenceSession(model_of(kind, part, outputs, attributes, places), options,
                                   providers=["CPUExecutionProvider"]).run(list(outputs), part) for part in parts]
    results = clprim.Session(model_of(kind, feeds, outputs, attributes, places)).run(feeds)
    joined = [np.concatenate(together, 1 if name == "scores" else 0)
              for name, together in zip(outputs, zip(*theirs, strict=True), strict=True)]
    return [results[name] for name in outputs], joined


def check(kind, feeds, outputs, attributes, places):
    results, theirs = both(kind, feeds, outputs, attributes, places)
    # ONNX Runtime leaves what comes after the end of all sequences as its memory was, but for beams.
    written = slice(None)
    if kind != "BeamSearch":
        written = slice(np.flatnonzero((results[0] != 0).any(0)).max() + 2)
    np.testing.assert_array_equal(results[0][..., written], theirs[0][..., written])
    for ours, other in zip(results[1:], theirs[1:], strict=True):
        finite = np.abs(other) < 1e30
        np.testing.assert_array_equal(np.abs(ours) < 1e30, finite)
        np.testing.assert_allclose(ours[finite], other[finite], rtol=1e-4, atol=1e-4)
    return results


def masks(batch=3):
    allowed = np.ones(VOCABULARY, I32)
    allowed[[3, 7]] = 0
    first = np.ones((batch, VOCABULARY), I32)
    first[:, 4:8] = 0
    return {"vocab_mask": allowed, "prefix_vocab_mask": first}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", ["plain", "rules", "masks", "mask", "first"])
def test_greedy_search(case, seed):
    feeds, attributes = {"input_ids": prompt(seed), "max_length": one(12)}, {"decoder": gpt(seed=100 * seed)}
    if case == "rules":
        feeds |= {"min_length": one(9), "repetition_penalty": one(1.6, F)}
        attributes["no_repeat_ngram_size"] = 2
    elif case == "masks":
        feeds |= masks()
    elif case == "mask":
        feeds["attention_mask"] = np.array([[0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]], I32)
    elif case == "first":
        attributes["init_decoder"] = gpt("init_decoder", seed=100 * seed)
    check("GreedySearch", feeds, ["sequences"], attributes, GREEDY)


@pytest.mark.parametrize("beams, returned", [(1, 1), (2, 1), (4, 3)])
@pytest.mark.parametrize("case", ["plain", "rules", "masks", "early", "penalty", "mask"])
def test_beam_search(case, beams, returned):
    for seed in range(3):
        feeds = {"input_ids": prompt(seed), "max_length": one(11), "num_beams": one(beams),
                 "num_return_sequences": one(returned)}
        attributes = {"decoder": gpt(seed=100 * seed)}
        if case == "rules":
            feeds |= {"min_length": one(8), "repetition_penalty": one(1.4, F)}
            attributes["no_repeat_ngram_size"] = 2
        elif case == "masks":
            feeds |= masks()
        elif case == "early":
            attributes["early_stopping"] = 1
        elif case == "penalty":
            feeds["length_penalty"] = one(0.5, F)
        elif case == "mask":
            feeds["attention_mask"] = np.array([[0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]], I32)
        check("BeamSearch", feeds, ["sequences", "sequences_scores"], attributes, BEAMS)


def test_scores_of_beams():
    feeds = {"input_ids": prompt(), "max_length": one(8), "min_length": one(7), "num_beams": one(3),
             "num_return_sequences": one(2)}
    check("BeamSearch", feeds, ["sequences", "sequences_scores", "scores"], {"decoder": gpt()}, BEAMS)


@pytest.mark.parametrize("starts", [True, False])
@pytest.mark.parametrize("beams, returned", [(1, 1), (3, 2)])
def test_beam_search_with_an_encoder(beams, returned, starts):
    for seed in range(4):
        feeds = {"input_ids": prompt(seed), "max_length": one(9), "num_beams": one(beams),
                 "num_return_sequences": one(returned)}
        check("BeamSearch", feeds, ["sequences", "sequences_scores"], t5(starts, seed=50 * seed), BEAMS)


def nucleus(scores, top_p, custom):
    """What is left of one row, as ONNX Runtime's sampling defines it, by sums of sorted probabilities."""
    order = np.argsort(-scores if custom else scores, kind="stable")
    sums = np.cumsum(np.exp(scores[order] - scores.max()) / np.exp(scores - scores.max()).sum())
    gone = order[1:][sums[:-1] > top_p] if custom else order[sums <= 1 - top_p]
    return np.setdiff1d(np.arange(len(scores)), gone)


@pytest.mark.parametrize("custom", [0, 1])
@pytest.mark.parametrize("top_p", [0.5, 0.9])
def test_sampling(top_p, custom):
    """One step: what is drawn with that seed, and from which tokens (ONNX Runtime does not give that output)."""
    for seed in range(8):
        feeds = {"input_ids": prompt(seed), "max_length": one(5), "seed": one(seed)}
        attributes = {"decoder": gpt(seed=100 * seed, sharp=0.3), "top_p": top_p, "temperature": 0.8, "custom": custom}
        check("Sampling", feeds, ["sequences"], attributes, SAMPLING)
        if custom:
            feeds["presence_mask"] = (np.arange(3 * VOCABULARY).reshape(3, -1) % 3 == 0).astype(I32)
            attributes["presence_penalty"] = 0.5
        outputs = ["sequences", "filtered_logits"]
        run = {}
        for p in (top_p, 1.0):
            model = model_of("Sampling", feeds, outputs, attributes | {"top_p": p}, SAMPLING)
            run[p] = clprim.Session(model).run(feeds)["filtered_logits"]
        for left, whole in zip(run[top_p], run[1.0], strict=True):
            kept = nucleus(whole.astype(np.float64), top_p, custom)
            np.testing.assert_array_equal(np.flatnonzero(left > -1e19), kept)
            np.testing.assert_array_equal(left[kept], whole[kept])


def test_draws_follow_their_probabilities():
    feeds = {"input_ids": np.tile(np.array([[5, 6]], I32), (600, 1)), "max_length": one(3), "seed": one(7)}
    attributes = {"decoder": gpt(sharp=0.2), "top_p": 1.0}
    data = model_of("Sampling", feeds, ["sequences", "filtered_logits"], attributes, SAMPLING)
    results = clprim.Session(data).run(feeds)
    logits = results["filtered_logits"][0].astype(np.float64)
    expected = np.exp(logits) / np.exp(logits).sum()
    found = np.bincount(results["sequences"][:, 2], minlength=VOCABULARY) / 600
    expected[0] += expected[1]                       # an end is written as padding
    expected[1] = 0
    assert np.abs(found - expected).max() < 5 * np.sqrt(0.25 / 600)


def test_sampled_sequences_change_without_a_seed():
    feeds = {"input_ids": prompt(batch=8), "max_length": one(30), "min_length": one(29)}
    session = clprim.Session(model_of("Sampling", feeds, ["sequences"], {"decoder": gpt(sharp=0.1), "top_p": 1.0},
                                      SAMPLING))
    first, second = (session.run(feeds)["sequences"] for _ in range(2))
    assert (first != second).any()


@pytest.mark.parametrize("kind, change, said", [
    ("GreedySearch", {"max_length": one(4)}, "max_length is 4"),
    ("GreedySearch", {"max_length": one(9000)}, "max_length is 9000"),
    ("GreedySearch", {"min_length": one(20)}, "min_length is 20"),
    ("GreedySearch", {"repetition_penalty": one(0, F)}, "repetition_penalty"),
    ("GreedySearch", {"vocab_mask": np.ones(5, I32)}, "vocab_mask has 5"),
    ("GreedySearch", {"attention_mask": np.ones((3, 5), I32)}, "attention_mask"),
    ("BeamSearch", {"num_beams": one(0)}, "num_beams is 0"),
    ("BeamSearch", {"num_return_sequences": one(7)}, "num_return_sequences is 7"),
])
def test_refusals(kind, change, said):
    feeds = {"input_ids": prompt(), "max_length": one(8)}
    if kind == "BeamSearch":
        feeds |= {"num_beams": one(2), "num_return_sequences": one(1)}
    feeds |= change
    data = model_of(kind, feeds, ["sequences"], {"decoder": gpt()}, BEAMS if kind == "BeamSearch" else GREEDY)
    with pytest.raises(clprim.InvalidArgument, match=kind + ".*" + said):
        clprim.Session(data).run(feeds)


@pytest.mark.parametrize("attributes, said", [
    ({"decoder": gpt(), "model_type": 2}, "model_type is 2"),
    ({"decoder": gpt(), "model_type": 1}, "encoder is missing"),
    ({}, "decoder is missing"),
])
def test_models_that_do_not_fit(attributes, said):
    feeds = {"input_ids": prompt(), "max_length": one(8)}
    data = model_of("GreedySearch", feeds, ["sequences"], attributes, GREEDY)
    with pytest.raises(clprim.InvalidArgument, match=said):
        clprim.Session(data).run(feeds)
