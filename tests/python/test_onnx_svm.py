"""Support vector machines of ai.onnx.ml against ONNX Runtime."""
import statistics

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
clprim = pytest.importorskip("clprim")
from onnx import TensorProto, helper

KERNELS = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.25, 1.5, 3.0], "RBF": [0.25, 0.0, 0.0], "SIGMOID": [0.125, -0.25, 0.0]}


def model_of(op, x, outputs, attributes):
    ports = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
    node = helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "test", ports, [onnx.ValueInfoProto(name=name) for name in outputs])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def compare(op, x, outputs, **attributes):
    model = model_of(op, x, outputs, attributes)
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = dict(zip(outputs, reference.run(outputs, {"x": x})))
    session = clprim.Session(model)
    for _ in range(2):                                    # what a session keeps of the attributes serves again
        results = session.run({"x": x})
        for name, wanted in expected.items():
            assert results[name].shape == wanted.shape
            if wanted.dtype == np.float32:
                assert results[name].dtype == wanted.dtype
                np.testing.assert_allclose(results[name], wanted, rtol=1e-5, atol=2e-5)
            else:
                assert results[name].tolist() == wanted.tolist()
    return results


def table(rows=40, columns=6, dtype="f", seed=0):
    x = np.random.default_rng(seed).standard_normal((rows, columns))
    return (x if np.dtype(dtype).kind == "f" else 4 * x).astype(dtype)


def vector_machine(vectors_per_class, kernel="RBF", columns=6, probability=False):
    """Attributes of a classifier with random support vectors and coefficients."""
    random = np.random.default_rng(1)
    classes, vectors = len(vectors_per_class), sum(vectors_per_class)
    pairs = classes * (classes - 1) // 2
    result = {"vectors_per_class": vectors_per_class, "classlabels_ints": list(range(3, 3 + classes)),
              "support_vectors": random.standard_normal(vectors * columns).tolist(),
              "coefficients": random.standard_normal((classes - 1) * vectors).tolist(),
              "rho": (0.3 * random.standard_normal(pairs)).tolist(),
              "kernel_type": kernel, "kernel_params": KERNELS[kernel]}
    if probability:
        result |= {"prob_a": (-1 - random.random(pairs)).tolist(),
                   "prob_b": (0.1 * random.standard_normal(pairs)).tolist()}
    return result


@pytest.mark.parametrize("probability", [False, True])
@pytest.mark.parametrize("vectors", [[4, 3], [5, 2, 6], [3, 0, 4, 2], [20] * 11])
@pytest.mark.parametrize("kernel", KERNELS)
def test_classifier(kernel, vectors, probability):
    results = compare("SVMClassifier", table(), ["y", "z"], **vector_machine(vectors, kernel, probability=probability))
    assert len(set(results["y"].tolist())) > 1
    if probability:
        np.testing.assert_allclose(results["z"].sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("probability", [False, True])
@pytest.mark.parametrize("vectors", [[4, 3], [5, 2, 6]])
def test_classifier_transforms(transform, vectors, probability):
    machine = vector_machine(vectors, probability=probability)
    compare("SVMClassifier", table(), ["y", "z"], post_transform=transform, **machine)


def test_classifier_with_probit():
    """Against its definition: ONNX Runtime's inverse of the error function is good for three digits."""
    machine = vector_machine([5, 2, 6], probability=True)
    models = [model_of("SVMClassifier", table(), ["y", "z"],
                       machine | more) for more in ({}, {"post_transform": "PROBIT"})]
    plain, result = (clprim.Session(model).run({"x": table()})["z"] for model in models)
    expected = np.vectorize(statistics.NormalDist().inv_cdf)(plain.astype("d"))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("vectors", [[4, 3], [5, 2, 6]])
def test_classifier_with_names(vectors):
    machine = vector_machine(vectors)
    del machine["classlabels_ints"]
    compare("SVMClassifier", table(), ["y", "z"], classlabels_strings=["a", "ü", "c"][:len(vectors)], **machine)


@pytest.mark.parametrize("dtype", ["d", "i4", "i8"])
def test_classifier_of_other_types(dtype):
    compare("SVMClassifier", table(dtype=dtype), ["y", "z"], **vector_machine([5, 2, 6], "LINEAR"))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("classes, positive", [(2, False), (2, True), (4, False)])
def test_linear_classifier(classes, positive, transform):
    weights = np.random.default_rng(2).standard_normal(classes * 6)
    weights = abs(weights) if positive else weights
    compare("SVMClassifier", table(), ["y", "z"], coefficients=weights.tolist(), rho=[0.25],
            classlabels_ints=list(range(classes)), kernel_params=KERNELS["LINEAR"], post_transform=transform)


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_regressor(kernel, one_class):
    random = np.random.default_rng(3)
    compare("SVMRegressor", table(), ["y"], n_supports=9, support_vectors=random.standard_normal(54).tolist(),
            rho=[0.125], coefficients=random.standard_normal(9).tolist(), kernel_type=kernel,
            kernel_params=KERNELS[kernel], one_class=one_class)


def test_linear_regressor():
    compare("SVMRegressor", table(), ["y"], n_supports=0, coefficients=[0.5, -1.0, 2.0, 0.25, 0.0, 1.0], rho=[0.125],
            kernel_params=KERNELS["LINEAR"])


@pytest.mark.parametrize("change, message", [({"rho": [0.5]}, "rho holds 1 numbers, expected 3"),
                                             ({"coefficients": [1.0] * 5}, "5 coefficients"),
                                             ({"vectors_per_class": [5, 8]}, "3 labels and 2 vectors_per_class"),
                                             ({"vectors_per_class": [5, -1, 6]}, "holds -1"),
                                             ({"support_vectors": [1.0] * 77}, "support_vectors holds 77 numbers"),
                                             ({"kernel_type": "COSINE"}, "kernel_type is COSINE"),
                                             ({"kernel_params": [1.0]}, "kernel_params holds 1"),
                                             ({"prob_a": [1.0]}, "prob_a and prob_b hold 1 and 0")])
def test_classifier_refuses(change, message):
    with pytest.raises(ValueError, match=f"SVMClassifier.*{message}"):
        model = model_of("SVMClassifier", table(), ["y", "z"], vector_machine([5, 2, 6]) | change)
        clprim.Session(model).run({"x": table()})


def test_no_rows():
    for model in (model_of("SVMClassifier", table(0), ["y", "z"], vector_machine([5, 2, 6], probability=True)),
                  model_of("SVMClassifier", table(0), ["y", "z"], vector_machine([5, 2]))):
        results = clprim.Session(model).run({"x": table(0)})
        assert results["y"].shape == (0,) and results["z"].shape[0] == 0
