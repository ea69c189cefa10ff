"""ai.onnx.ml's operators as scikit-learn's exporters use them, quantized operators and texts, against ONNX Runtime."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
clprim = pytest.importorskip("clprim")
from onnx import TensorProto, helper

ML = "ai.onnx.ml"


def compare(op, inputs, outputs=1, domain=ML, exact=False, **attributes):
    """Both runtimes on a model of one node; the results of clprim."""
    inputs = {f"x{i}": np.asarray(value) for i, value in enumerate(inputs)}
    types = {name: TensorProto.STRING if array.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(array.dtype)
             for name, array in inputs.items()}
    ports = [helper.make_tensor_value_info(name, types[name], array.shape) for name, array in inputs.items()]
    names = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph([helper.make_node(op, list(inputs), names, domain=domain, **attributes)], "test", ports,
                              [onnx.ValueInfoProto(name=name) for name in names])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    expected = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        names, {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in inputs.items()})
    results = clprim.Session(model).run(inputs)
    for name, wanted in zip(names, expected, strict=True):
        got = results[name]
        assert got.shape == wanted.shape
        if wanted.dtype.kind == "O" or exact:
            assert got.tolist() == wanted.tolist()
        else:
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    return results


def table(rows=7, columns=4, dtype="f", seed=0):
    return (4 * np.random.default_rng(seed).standard_normal((rows, columns))).astype(dtype)


@pytest.mark.parametrize("labels", [{"classlabels_ints": [3, -1, 8]}, {"classlabels_strings": ["a", "b", "ü"]}])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_linear_classifier(labels, transform):
    weights = np.random.default_rng(1).standard_normal((3, 4))
    compare("LinearClassifier", [table()], 2, coefficients=weights.ravel().tolist(), intercepts=[0.5, -0.25, 0.1],
            post_transform=transform, **labels)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_classifier_of_two_classes(transform):
    """One row of coefficients for two classes, as logistic regression is exported."""
    compare("LinearClassifier", [table()], 2, coefficients=[0.5, -1.0, 0.25, 2.0, -0.5, 1.0, -0.25, -2.0],
            intercepts=[0.1, -0.1], classlabels_ints=[0, 1], multi_class=1, post_transform=transform)


@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressor(targets):
    weights = np.random.default_rng(1).standard_normal((targets, 4)).ravel().tolist()
    compare("LinearRegressor", [table()], coefficients=weights, intercepts=[0.5, 1.0, 2.0][:targets], targets=targets)


@pytest.mark.parametrize("dtype", ["f", "d", "i4", "i8"])
def test_scaler(dtype):
    compare("Scaler", [table(dtype=dtype)], offset=[1.0, 2.0, -1.0, 0.0], scale=[0.5, 2.0, 1.0, 3.0])
    compare("Scaler", [table(dtype=dtype)], offset=[1.0], scale=[0.5])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    compare("Normalizer", [table()], norm=norm)


def test_features():
    x = table()
    x[::2, 1] = np.nan
    compare("Imputer", [x], imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    compare("Imputer", [np.arange(8).reshape(2, 4)], imputed_value_int64s=[9], replaced_value_int64=3)
    compare("Binarizer", [table()], threshold=0.5)
    compare("ArrayFeatureExtractor", [table(), np.array([[3, 0]])])
    compare("FeatureVectorizer", [table(columns=2), table(columns=3)], inputdimensions=[2, 3])
    compare("OneHotEncoder", [np.array([1, 3, 7, 2])], cats_int64s=[1, 2, 3], zeros=1)
    compare("OneHotEncoder", [np.array([["a", "c"], ["b", "z"]])], cats_strings=["a", "b", "c"], zeros=1)


@pytest.mark.parametrize("keys, values, x", [
    ({"keys_strings": ["a", "b"]}, {"values_int64s": [4, 5], "default_int64": -1}, np.array([["b", "a"], ["c", "a"]])),
    ({"keys_int64s": [4, 5]}, {"values_strings": ["four", "five"], "default_string": "?"}, np.array([5, 6, 4])),
    ({"keys_floats": [0.5, -1.5]}, {"values_floats": [1.0, 2.0], "default_float": 7.0}, np.array([-1.5, 0.5, 3], "f")),
    ({"keys_int64s": [1, 2]}, {"values_floats": [0.5, 0.25], "default_float": 0.0}, np.array([[2], [1], [9]])),
])
def test_label_encoder(keys, values, x):
    compare("LabelEncoder", [x], **keys, **values)


# Two trees over four features: one of three levels with ties and missing values, one that is a leaf.
NODES = {"nodes_treeids": [0, 0, 0, 0, 0, 1], "nodes_nodeids": [0, 1, 2, 3, 4, 0],
         "nodes_featureids": [2, 0, 0, 0, 0, 0],
         "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF"],
         "nodes_values": [0.5, -1.0, 0.0, 0.0, 0.0, 0.0], "nodes_truenodeids": [1, 2, 0, 0, 0, 0],
         "nodes_falsenodeids": [4, 3, 0, 0, 0, 0], "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0]}


def tree_input():
    x = table(9)
    x[0, 2], x[1, 2], x[2, 0] = 0.5, np.nan, -1
    return x


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_regressor(aggregate):
    votes = {"target_treeids": [0, 0, 0, 1], "target_nodeids": [2, 3, 4, 0], "target_ids": [0, 0, 0, 0],
             "target_weights": [1.5, -2.0, 0.25, 3.0]}
    compare("TreeEnsembleRegressor", [tree_input()], n_targets=1, aggregate_function=aggregate, base_values=[0.125],
            **NODES, **votes)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_tree_classifier(transform):
    votes = {"class_treeids": [0, 0, 0, 0, 1], "class_nodeids": [2, 3, 4, 4, 0], "class_ids": [0, 1, 2, 0, 1],
             "class_weights": [0.7, 0.6, 0.5, 0.2, 0.25]}
    compare("TreeEnsembleClassifier", [tree_input()], 2, classlabels_strings=["x", "y", "z"], post_transform=transform,
            **NODES, **votes)


def test_trees_serve_every_run_of_a_session():
    """Tables are kept after the first run: for every number of rows, type and session; errors stay errors."""
    votes = {"class_treeids": [0, 0, 0, 1], "class_nodeids": [2, 3, 4, 0], "class_ids": [0, 1, 2, 1],
             "class_weights": [0.7, 0.6, 0.5, 0.25]}
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["y", "z"], domain=ML, classlabels_int64s=[5, 6, 7],
                            **NODES, **votes)
    for dtype, types in (("f", TensorProto.FLOAT), ("d", TensorProto.DOUBLE)):
        graph = helper.make_graph([node], "test", [helper.make_tensor_value_info("x", types, ["n", "m"])],
                                  [onnx.ValueInfoProto(name=name) for name in ("y", "z")])
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        shared = clprim.OnnxModel(model)
        for session in (clprim.Session(shared), clprim.Session(shared)):
            for rows in (9, 1, 30):
                x = table(rows, seed=rows, dtype=dtype)
                results, expected = session.run({"x": x}), reference.run(["y", "z"], {"x": x})
                np.testing.assert_array_equal(results["y"], expected[0])
                np.testing.assert_allclose(results["z"], expected[1], rtol=1e-6)
            with pytest.raises(ValueError, match="feature 2 of 2"):
                session.run({"x": table(columns=2, dtype=dtype)})


# --- quantized

@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_quantize_and_back(dtype, axis):
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    x = (30 * rng.standard_normal((3, 4, 5))).astype("f")
    x.ravel()[:4] = [0.25, 0.75, np.inf, -np.inf]                       # ties to even, saturation
    size = () if axis is None else (x.shape[axis],)
    scale = np.full(size, 0.5, "f") if axis is None else rng.uniform(0.05, 0.5, size).astype("f")
    zero = rng.integers(info.min, info.max, size, dtype=dtype)
    attributes = {} if axis is None else {"axis": axis}
    quantized = compare("QuantizeLinear", [x, scale, zero], domain="", exact=True, **attributes)["y0"]
    compare("DequantizeLinear", [quantized, scale, zero], domain="", **attributes)


@pytest.mark.parametrize("block", [4, 2**31, 2**63 - 1])
def test_blocks_as_large_as_an_axis_or_larger(block):
    """One block then: the scale has one row, whatever the size that is written."""
    x = np.random.default_rng(0).standard_normal((4, 3)).astype("f")
    scale = np.array([[0.05, 0.1, 0.2]], "f")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT,
                                           value.shape) for name, value in (("x", x), ("s", scale))]
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], axis=0, block_size=block,
                            output_dtype=TensorProto.INT8)
    graph = helper.make_graph([node], "test", ports, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    got = clprim.Session(model).run({"x": x, "s": scale})["y"]
    np.testing.assert_array_equal(got, np.rint(x / scale).clip(-128, 127).astype(np.int8))


def test_dynamic_quantization():
    many = np.random.default_rng(0).standard_normal((7, 4001)).astype("f")     # which several work-groups share
    for x in (table(), np.abs(table()), np.zeros((2, 2), "f"), -np.abs(table()), many, -np.abs(many), many[:4, :4000]):
        compare("DynamicQuantizeLinear", [x], 3, domain="")


def test_dynamic_quantization_keeps_channels_innermost():
    """As convolutions leave them: bytes lie as the numbers do."""
    x = np.random.default_rng(0).standard_normal((2, 24, 31, 29)).astype("f")
    weights = helper.make_tensor("w", TensorProto.FLOAT, [24, 24, 1, 1], np.eye(24, dtype="f").ravel())
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]),
             helper.make_node("DynamicQuantizeLinear", ["c"], ["y", "scale", "zero"])]
    graph = helper.make_graph(nodes, "test", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [onnx.ValueInfoProto(name=name) for name in ("y", "scale", "zero")], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    got = clprim.Session(model).run({"x": x})
    scale = np.float32((x.max() - x.min()) / np.float32(255))
    zero = np.rint(-x.min() / scale)
    np.testing.assert_allclose(got["scale"], scale, rtol=1e-6)
    assert got["zero"] == zero
    np.testing.assert_array_equal(got["y"], np.clip(np.rint(x / got["scale"]) + zero, 0, 255).astype("u1"))


@pytest.mark.parametrize("a_type, b_type", [("u1", "u1"), ("u1", "i1"), ("i1", "i1")])
def test_integer_products(a_type, b_type):
    rng = np.random.default_rng(0)
    whole = lambda shape, dtype: rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    # ONNX Runtime adds pairs of u1 * i1 in 16 bits on processors without VNNI, and saturates: seven bits fit.
    halve = 2 if (a_type, b_type) == ("u1", "i1") else 1
    a, b = whole((3, 2, 70), a_type) // halve, whole((70, 5), b_type)
    compare("MatMulInteger", [a, b], domain="", exact=True)
    compare("MatMulInteger", [a, b, whole((), a_type), whole((5,), b_type)], domain="", exact=True)
    x, w = whole((2, 4, 6, 5), a_type) // halve, whole((6, 2, 3, 3), b_type)
    if a_type == "u1":
        compare("ConvInteger", [x, w, whole((), a_type), whole((), b_type)], domain="", exact=True, group=2,
                pads=[1, 0, 1, 2], strides=[2, 1])


@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_quantized_products(dtype):
    """Rounding of a product that lies between two steps may fall to either side: one step of difference is allowed."""
    rng = np.random.default_rng(0)
    whole = lambda shape: rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    scale = lambda *shape: rng.uniform(0.01, 0.1, shape).astype("f")
    a, b = whole((4, 30)), whole((30, 6))
    arguments = [a, scale(), whole(()), b, scale(), whole(()), np.float32(0.9), whole(())]
    x, w = whole((2, 4, 6, 5)), whole((6, 4, 3, 3))
    convolution = [x, scale(), whole(()), w, scale(6), np.zeros(6, dtype), np.float32(1.3), whole(()),
                   rng.integers(-1000, 1000, 6, "i4")]
    for op, inputs, attributes in (("QLinearMatMul", arguments, {}),
                                   ("QLinearConv", convolution, {"pads": [1, 1, 1, 1]})):
        names = [f"x{i}" for i in range(len(inputs))]
        ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype),
                                               np.asarray(value).shape) for name, value in zip(names, inputs)]
        graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "test", ports,
                                  [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(a.dtype), None)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        arrays = {name: np.asarray(value) for name, value in zip(names, inputs)}
        reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        wanted, = reference.run(None, arrays)
        got = clprim.Session(model).run(arrays)["y"]
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        difference = np.abs(got.astype(int) - wanted.astype(int))
        assert difference.max() <= 1 and (difference > 0).mean() < 0.02


# --- texts

@pytest.mark.parametrize("case", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
def test_string_normalizer(case, sensitive):
    words = np.array(["Monday", "tuesday", "MONDAY", "Noon", ""])
    compare("StringNormalizer", [words], domain="", locale="C", case_change_action=case, is_case_sensitive=sensitive,
            stopwords=["monday", "noon"])
    compare("StringNormalizer", [words[None]], domain="", locale="C", case_change_action=case, stopwords=["tuesday"],
            is_case_sensitive=1)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 1, 5])
def test_tf_idf(mode, skips):
    tokens = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
    compare("TfIdfVectorizer", [tokens], domain="", mode=mode, min_gram_length=1, max_gram_length=2,
            max_skip_count=skips, ngram_counts=[0, 4],
            ngram_indexes=[0, 1, 2, 3, 4, 5, 6], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
            weights=[1.0, 2.0, 0.5, 1.5, 2.5, 3.0, 0.25])


# --- signals

def test_stft_of_signals_without_an_axis_of_parts():
    """As exporters write real signals; the definition has a last axis of 1."""
    rng = np.random.default_rng(3)
    signal, window = rng.standard_normal((2, 100)).astype("f"), rng.random(16).astype("f")
    whole = compare("STFT", [signal[..., None], np.int64(5), window, np.int64(16)], domain="", onesided=1)
    short = compare("STFT", [signal, np.int64(5), window, np.int64(16)], domain="", onesided=1)
    np.testing.assert_array_equal(short["y0"], whole["y0"])


# --- nothing to compute

ROWS = np.zeros((0, 4), "f")
BYTES = np.zeros((0, 4), "u1")
STUMP = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
         "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0] * 3, "nodes_truenodeids": [1, 0, 0],
         "nodes_falsenodeids": [2, 0, 0]}


@pytest.mark.parametrize("op, inputs, outputs, domain, attributes", [
    ("LinearClassifier", [ROWS], 2, ML, {"coefficients": [1.0] * 12, "intercepts": [0.0] * 3,
                                         "classlabels_ints": [1, 2, 3]}),
    ("LinearRegressor", [ROWS], 1, ML, {"coefficients": [1.0] * 4, "intercepts": [0.0]}),
    ("Scaler", [ROWS], 1, ML, {"offset": [1.0], "scale": [1.0]}),
    ("Normalizer", [ROWS], 1, ML, {"norm": "L2"}),
    ("Imputer", [ROWS], 1, ML, {"imputed_value_floats": [1.0], "replaced_value_float": 0.0}),
    ("Binarizer", [ROWS], 1, ML, {}),
    ("OneHotEncoder", [np.zeros(0, "i8")], 1, ML, {"cats_int64s": [1, 2]}),
    ("LabelEncoder", [np.zeros((0, 2), "i8")], 1, ML, {"keys_int64s": [1], "values_int64s": [2]}),
    ("LabelEncoder", [np.zeros((0, 2), "U1")], 1, ML, {"keys_strings": ["a"], "values_int64s": [2]}),
    ("ArrayFeatureExtractor", [ROWS, np.array([[1, 2]])], 1, ML, {}),
    ("TreeEnsembleRegressor", [ROWS], 1, ML, {**STUMP, "n_targets": 1, "target_treeids": [0, 0],
                                              "target_nodeids": [1, 2],
                                              "target_ids": [0, 0], "target_weights": [1.0, 2.0]}),
    ("TreeEnsembleClassifier", [ROWS], 2, ML, {**STUMP, "class_treeids": [0, 0], "class_nodeids": [1, 2],
                                               "class_ids": [0, 1],
                                               "class_weights": [1.0, 2.0], "classlabels_int64s": [0, 1]}),
    ("SVMRegressor", [ROWS], 1, ML, {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 0.0], "n_supports": 1,
                                     "support_vectors": [1.0] * 4, "coefficients": [1.0], "rho": [0.0]}),
    ("QuantizeLinear", [ROWS, np.float32(1), np.uint8(0)], 1, "", {}),
    ("DequantizeLinear", [BYTES, np.float32(1), np.uint8(0)], 1, "", {}),
    ("MatMulInteger", [BYTES, BYTES.reshape(4, 0)], 1, "", {}),
    ("QLinearMatMul", [BYTES, np.float32(1), np.uint8(0), np.zeros((4, 3), "u1"), np.float32(1), np.uint8(0),
                       np.float32(1),
                       np.uint8(0)], 1, "", {}),
    ("DynamicQuantizeLinear", [np.zeros(0, "f")], 3, "", {}),
    ("StringConcat", [np.zeros((0, 2), "U1"), np.zeros((1, 2), "U1")], 1, "", {}),
    ("StringSplit", [np.zeros(0, "U1")], 2, "", {"delimiter": ","}),
    ("RegexFullMatch", [np.zeros((0, 3), "U1")], 1, "", {"pattern": "a"}),
    ("DFT", [np.zeros((0, 8, 1), "f"), np.int64(8), np.int64(1)], 1, "", {}),
    ("STFT", [np.zeros((0, 16, 1), "f"), np.int64(4), np.ones(8, "f")], 1, "", {}),
    ("HannWindow", [np.int64(0)], 1, "", {}),
    ("Cast", [ROWS], 1, "", {"to": TensorProto.STRING}), ("Cast", [np.zeros(0, "U1")], 1, "",
                                                          {"to": TensorProto.FLOAT}),
    ("TfIdfVectorizer", [np.zeros((2, 0), "i8")], 1, "",
     {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0],
      "ngram_indexes": [0, 1],
      "pool_int64s": [1, 2]}),
], ids=lambda value: value if isinstance(value, str) else "")
def test_empty_tensors(op, inputs, outputs, domain, attributes):
    compare(op, inputs, outputs, domain=domain, **attributes)
