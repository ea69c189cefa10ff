"""ai.onnx.ml's maps, which scikit-learn's exporters end classifiers with, against ONNX Runtime."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import onnxruntime
from onnx import TensorProto, helper

import clprim

ML = "ai.onnx.ml"
KINDS = {"int64": TensorProto.INT64, "float": TensorProto.FLOAT, "double": TensorProto.DOUBLE,
         "string": TensorProto.STRING}


def map_type(keys, values):
    return helper.make_map_type_proto(KINDS[keys], helper.make_tensor_type_proto(KINDS[values], None))


def model(nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "maps", [helper.make_value_info(name, kind) for name, kind in inputs.items()],
                              [helper.make_value_info(name, kind) for name, kind in outputs.items()])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, ir_version=10, opset_imports=opsets)


def of_map(kind, keys, values, result, **attributes):
    return model([helper.make_node(kind, ["x"], ["y"], domain=ML, **attributes)], {"x": map_type(keys, values)},
                 {"y": helper.make_tensor_type_proto(KINDS[result], None)})


def both(made, feed):
    reference = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return clprim.Session(made).run(feed), dict(zip((port.name for port in reference.get_outputs()),
                                                    reference.run(None, feed)))


def same_tensors(made, feed, defined=None):
    """ONNX Runtime's Python has no maps but those of floats: of others the definition is compared with."""
    got, expected = both(made, feed) if defined is None else (clprim.Session(made).run(feed), {"y": defined})
    assert got["y"].dtype == expected["y"].dtype and got["y"].shape == expected["y"].shape
    assert got["y"].tolist() == expected["y"].tolist()


def classifier(labels, classes=3, scores="probabilities", rank=2):
    """As a logistic regression with the labels' own type."""
    weights = np.random.default_rng(1).standard_normal((classes, 4)).ravel().tolist()
    strings = isinstance(labels[0], str)
    nodes = [helper.make_node("LinearClassifier", ["x"], ["label", "raw"], domain=ML, coefficients=weights,
                              intercepts=[0.5, -0.25, 0.1][:classes], post_transform="SOFTMAX",
                              **{"classlabels_strings" if strings else "classlabels_ints": labels}),
             helper.make_node("Identity", ["raw"], [scores]),
             helper.make_node("ZipMap", [scores], ["maps"], domain=ML,
                              **{"classlabels_strings" if strings else "classlabels_int64s": labels})]
    kind = map_type("string" if strings else "int64", "float")
    return model(nodes, {"x": helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 4])},
                 {"label": helper.make_tensor_type_proto(TensorProto.STRING if strings else TensorProto.INT64, None),
                  "maps": helper.make_sequence_type_proto(kind)})


@pytest.mark.parametrize("labels", [[3, -1, 8], ["b", "a", "ü"]], ids=["integers", "texts"])
@pytest.mark.parametrize("optimize", ["none", "basic", "all"])
def test_scores_by_label(labels, optimize, tmp_path):
    made = classifier(labels)
    session = clprim.Session(made, optimize=optimize)
    session.save(str(tmp_path / "saved.onnx"))
    saved = clprim.Session(str(tmp_path / "saved.onnx"))
    reference = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    again = onnxruntime.InferenceSession(str(tmp_path / "saved.onnx"), providers=["CPUExecutionProvider"])
    for rows in 5, 5, 5, 1, 0:
        feed = {"x": np.random.default_rng(rows).standard_normal((rows, 4), dtype="f")}
        label, maps = reference.run(None, feed)
        for result in session.run(feed), saved.run(feed), dict(zip(("label", "maps"), again.run(None, feed))):
            assert result["label"].tolist() == label.tolist()
            assert [sorted(row) for row in result["maps"]] == [sorted(row) for row in maps]
            for row, expected in zip(result["maps"], maps, strict=True):
                assert all(type(key) is type(labels[0]) and isinstance(score, float) for key, score in row.items())
                assert row == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (4, 3)])
def test_zip_map_alone(shape):
    made = model([helper.make_node("ZipMap", ["x"], ["y"], domain=ML, classlabels_strings=["c", "a", "b"])],
                 {"x": helper.make_tensor_type_proto(TensorProto.FLOAT, shape)},
                 {"y": helper.make_sequence_type_proto(map_type("string", "float"))})
    got, expected = both(made, {"x": np.random.default_rng(2).standard_normal(shape, dtype="f")})
    assert got["y"] == expected["y"]


@pytest.mark.parametrize("keys, values, vocabulary", [
    ("string", "float", ["b", "a", "z"]), ("string", "double", ["b", "a", "z"]), ("string", "int64", ["a"]),
    ("int64", "float", [5, -3, 77]), ("int64", "double", [77]), ("int64", "string", [-3, 5, 6, 7])])
def test_dict_vectorizer(keys, values, vocabulary):
    numbers = {"string": ["one", "zwölf", ""], "int64": [1, 1 << 40, -3]}.get(values, [0.5, -2.25, 1e30])
    given = dict(zip(["a", "b", "c"] if keys == "string" else [5, -3, 1], numbers))
    dtype = {"string": object, "float": np.float32, "double": np.float64, "int64": np.int64}[values]
    defined = np.array([[given.get(word, "" if values == "string" else 0) for word in vocabulary]], dtype)
    same_tensors(of_map("DictVectorizer", keys, values, values, **{f"{keys}_vocabulary": vocabulary}), {"x": given},
                 None if values == "float" else defined)


@pytest.mark.parametrize("to", ["TO_FLOAT", "TO_INT64", "TO_STRING"])
@pytest.mark.parametrize("values", ["float", "string"])
@pytest.mark.parametrize("form", [{}, {"map_form": "SPARSE", "max_map": 6}, {"map_form": "SPARSE", "max_map": 2}],
                         ids=["dense", "sparse", "shorter"])
def test_cast_map(to, values, form):
    numbers = ["-12", "3", "7", "250"] if values == "string" else [-12.75, 3.5, 7.0, 250.125]
    result, dtype, gap = {"TO_FLOAT": ("float", np.float32, 0), "TO_INT64": ("int64", np.int64, 0),
                          "TO_STRING": ("string", object, "0.f")}[to]
    given = dict(zip([4, 0, 1, 9], numbers))
    keys = range(form["max_map"]) if form else sorted(given)
    defined = np.array([[given.get(key, gap) for key in keys]], object).astype(dtype) if values == "string" else None
    same_tensors(of_map("CastMap", "int64", values, result, cast_to=to, **form), {"x": given}, defined)


@pytest.mark.parametrize("text", ["1.5", "-2e3", "0.1", "+4"])
def test_texts_become_numbers(text):
    same_tensors(of_map("CastMap", "int64", "string", "float", cast_to="TO_FLOAT"), {"x": {2: text, 1: "0"}},
                 np.array([["0", text]]).astype("f"))


def test_values_of_programs():
    """Maps go from run to run as Values."""
    session = clprim.Session(of_map("DictVectorizer", "string", "float", "float", string_vocabulary=["a", "b"]))
    given = clprim.Value({"b": 2.0, "q": 1.0})
    assert given.is_map and not given.is_tensor and not given.is_sequence and given.numpy() == {"b": 2.0, "q": 1.0}
    with pytest.raises(ValueError, match="map of string to float32, got one of string to float64"):
        session.run({"x": given})
    assert session.run({"x": {"b": np.float32(2)}})["y"].tolist() == [[0, 2]]
    assert session.run({"x": {}})["y"].tolist() == [[0, 0]]


def test_what_is_refused():
    session = clprim.Session(of_map("DictVectorizer", "string", "float", "float", string_vocabulary=["a", "b"]))
    for x, error, match in (({1: 2.0}, ValueError, "'x'.*a map of string to float32, got one of int64"),
                            ({"a": "b"}, ValueError, "'x'.*string to float32, got one of string to string"),
                            (np.ones(2, "f"), ValueError, "'x' must be a map of string to float32"),
                            ([{"a": 1.0}], ValueError, "'x' must be a map of string to float32"),
                            ({"a": 1.0, 2: 1.0}, TypeError, "all texts, or all integers"),
                            ({2.5: 1.0}, TypeError, "all texts, or all integers")):
        with pytest.raises(error, match=match):
            session.run({"x": x})
    for kind, attributes, match in (
            ("CastMap", {"cast_to": "TO_DOUBLE"}, "cast_to is TO_DOUBLE"),
            ("CastMap", {"map_form": "LOOSE"}, "map_form is LOOSE"),
            ("CastMap", {"map_form": "SPARSE", "max_map": 0}, "max_map is 0"),
            ("CastMap", {"map_form": "SPARSE", "max_map": 4}, "key -7"),
            ("CastMap", {"cast_to": "TO_INT64"}, "'word' is no integer"),
            ("DictVectorizer", {}, "one of string_vocabulary and int64_vocabulary"),
            ("DictVectorizer", {"string_vocabulary": ["a"]}, "keys of int64, the vocabulary has string")):
        with pytest.raises(ValueError, match=match):
            clprim.Session(of_map(kind, "int64", "string", "string", **attributes)).run({"x": {-7: "word"}})
    with pytest.raises(ValueError, match=r"X has shape \[2, 4\], expected \[N, 3\] or \[3\] for 3 labels"):
        clprim.Session(model([helper.make_node("ZipMap", ["x"], ["y"], domain=ML, classlabels_int64s=[1, 2, 3])],
                             {"x": helper.make_tensor_type_proto(TensorProto.FLOAT, None)},
                             {"y": helper.make_sequence_type_proto(map_type("int64", "float"))})
                       ).run({"x": np.ones((2, 4), "f")})


@pytest.mark.parametrize("labels", [[3, -1, 8], ["b", "a", "c"]], ids=["integers", "texts"])
def test_validate(labels, tmp_path, capsys):
    from clprim import validate
    onnx.save(classifier(labels), tmp_path / "classifier.onnx")
    assert validate.main([str(tmp_path / "classifier.onnx"), "--batch", "4"]) == 0, capsys.readouterr().out
    assert validate.distance({"a": 1.0}, {"b": 1.0}) == validate.distance({"a": 1.0}, [1.0]) == float("inf")
    assert validate.distance({"a": 1.0, "b": 0.0}, {"b": 0.0, "a": 2.0}) == 0.5
