"""Operators whose results' sizes depend on the data, against ONNX Runtime."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
clprim = pytest.importorskip("clprim")
from onnx import helper


def both(op, inputs, outputs=1, **attributes):
    """Results of clprim and of ONNX Runtime on a model of one node; None among the inputs is an absent one."""
    named = {f"x{i}": np.asarray(value) for i, value in enumerate(inputs) if value is not None}
    types = {name: onnx.TensorProto.STRING if array.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(array.dtype)
             for name, array in named.items()}
    ports = [helper.make_tensor_value_info(name, types[name], array.shape) for name, array in named.items()]
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, [f"x{i}" if f"x{i}" in named else "" for i in range(len(inputs))], names, **attributes)
    graph = helper.make_graph([node], "test", ports, [onnx.ValueInfoProto(name=name) for name in names])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = reference.run(names, {name: array.astype(object) if array.dtype.kind == "U" else array
                                     for name, array in named.items()})
    results = clprim.Session(model).run(named)
    return [results[name] for name in names], expected


def same(op, inputs, outputs=1, **attributes):
    results, expected = both(op, inputs, outputs, **attributes)
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape
        assert wanted.dtype.kind == "O" or result.dtype == wanted.dtype
        assert result.tolist() == wanted.tolist()
    return results


# ---- NonMaxSuppression -----------------------------------------------------------------------------------------------

def boxes_and_scores(images=2, boxes=150, classes=3, levels=0, seed=0):
    """Random boxes, of which many overlap, with corners in any order; `levels`: how many different scores there are."""
    random = np.random.default_rng(seed)
    corners = 40 * random.random((images, boxes, 2))
    corners = np.concatenate([corners, corners + 25 * random.standard_normal(corners.shape)], 2)
    size = (images, classes, boxes)
    scores = random.integers(levels, size=size) / levels if levels else random.random(size)
    return corners.astype("f"), scores.astype("f")


def suppress(boxes, scores, most, *thresholds, **attributes):
    limits = [None if t is None else np.array([t], "f") for t in thresholds]
    return same("NonMaxSuppression", [boxes, scores, np.array([most]), *limits], **attributes)[0]


@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("thresholds", [(0.5,), (0.3, 0.4), (0.0,), (1.0, 0.2), (0.5, -1.0), (None, 0.5)])
def test_suppression(thresholds, centered):
    boxes, scores = boxes_and_scores()
    if centered:
        boxes[..., 2:] = np.abs(boxes[..., 2:])
    for most in (1, 7, 64, 1000):
        assert len(suppress(boxes, scores, most, *thresholds, center_point_box=centered))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 700])
def test_suppression_takes_the_first_of_equal_scores(count):
    boxes, scores = boxes_and_scores(boxes=count, levels=3)
    suppress(boxes, scores, 1000, 0.4)
    suppress(boxes, scores, 1000, 0.4, 0.0)        # the lowest score is not above the threshold
    boxes[:] = boxes[:, :1]                        # all boxes are one
    suppress(boxes, scores, 1000, 0.4)


def test_suppression_of_empty_boxes_and_equal_overlaps():
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 1], [5, 5, 5, 5], [5, 5, 5, 5], [1, 0, 2, 1],
                       [0, 0, 1, 2]]], "f")
    scores = np.array([[[0.5, 0.5, 0.4, 0.3, 0.6, 0.2, 0.1]]], "f")
    for threshold in (0.0, 0.5, 1.0):
        suppress(boxes, scores, 10, threshold)


@pytest.mark.parametrize("images, classes, boxes", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_suppression_among_nothing(images, classes, boxes):
    result = clprim_only(np.zeros((images, boxes, 4), "f"), np.zeros((images, classes, boxes), "f"), 5)
    assert result.shape == (0, 3) and result.dtype == np.int64


def test_suppression_keeps_nothing():
    boxes, scores = boxes_and_scores()
    assert suppress(boxes, scores, 10, 0.5, 2.0).shape == (0, 3)      # no score is that high
    assert suppress(boxes, scores, 0, 0.5).shape == (0, 3)
    assert same("NonMaxSuppression", [boxes, scores])[0].shape == (0, 3)   # none is asked for


def test_suppression_with_scores_that_are_not_finite():
    boxes, scores = boxes_and_scores(1, 70, 1)
    scores[0, 0, :5] = np.inf, -np.inf, -np.inf, np.inf, -1
    suppress(boxes, scores, 100, 0.5)
    suppress(boxes, scores, 100, 0.5, 0.1)
    expected = suppress(np.delete(boxes, 9, 1), np.delete(scores, 9, 2), 100, 0.5)
    scores[0, 0, 9] = np.nan                       # is never kept
    expected[:, 2] += expected[:, 2] >= 9
    assert clprim_only(boxes, scores, 100, 0.5).tolist() == expected.tolist()


def clprim_only(boxes, scores, most, *thresholds):
    names = ["boxes", "scores", "most", "iou", "score"][:3 + len(thresholds)]
    values = dict(zip(names, [boxes, scores, np.array([most]), *(np.array([t], "f") for t in thresholds)]))
    ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in values.items()]
    graph = helper.make_graph([helper.make_node("NonMaxSuppression", names, ["y"])], "test", ports,
                              [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return clprim.Session(model).run(values)["y"]


@pytest.mark.parametrize("boxes, scores, threshold, message", [
    ((1, 5, 3), (1, 2, 5), 0.5, "expected .batches, boxes, 4"), ((1, 5, 4), (1, 2, 6), 0.5, "expected .1, classes, 5"),
    ((2, 5, 4), (1, 2, 5), 0.5, "expected .2, classes, 5"), ((1, 5, 4), (1, 2, 5), 1.5, "iou_threshold is 1.5")])
def test_suppression_refuses(boxes, scores, threshold, message):
    with pytest.raises(ValueError, match=f"NonMaxSuppression.*{message}"):
        clprim_only(np.zeros(boxes, "f"), np.zeros(scores, "f"), 5, threshold)


# ---- Unique ----------------------------------------------------------------------------------------------------------

def distinct(x, **attributes):
    """All outputs of Unique, on the device and (of small inputs) on the host, against numpy's of the same meaning."""
    graph = helper.make_graph(
        [helper.make_node("Unique", ["x"], ["y", "first", "inverse", "counts"], **attributes)], "test",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [onnx.ValueInfoProto(name=name) for name in ("y", "first", "inverse", "counts")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = clprim.Session(model)
    axis = attributes.get("axis")
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis, equal_nan=False)
    inverse = inverse.ravel()
    if not attributes.get("sorted", 1):
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    wanted = {"y": np.take(x if axis is not None else x.ravel(), first, axis or 0), "first": first, "inverse": inverse,
              "counts": counts}
    for given in (x, clprim.Tensor(x)):
        results = session.run({"x": given})
        for name, expected in wanted.items():
            result = np.asarray(results[name])
            assert result.dtype == expected.dtype and result.shape == expected.shape, name
            np.testing.assert_array_equal(result, expected, name)


ALL_TYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


@pytest.mark.parametrize("sort", [0, 1])
@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_unique(dtype, sort):
    random = np.random.default_rng(1)
    for count in (1, 5, 3000):
        x = random.integers(0, 2 if dtype == "?" else 100, count).astype(dtype)
        if dtype in ("i8", "u8"):
            x *= np.array(0x0123456789ABCDEF, dtype)           # wraps: the highest bit counts as well
        distinct(x, sorted=sort)
        distinct(x.reshape(-1, 1), sorted=sort)


@pytest.mark.parametrize("sort", [0, 1])
@pytest.mark.parametrize("shape", [(40, 60), (7, 3, 90), (2, 1500), (1200, 2), (5, 9, 4, 11)])
def test_unique_slices(shape, sort):
    random = np.random.default_rng(2)
    for axis in range(-1, len(shape) - 1):
        x = random.integers(-1, 2, shape).astype("f")
        for a, b in random.integers(shape[axis], size=(shape[axis] // 2, 2)):   # half of the slices come again
            index = [slice(None)] * len(shape)
            target = list(index)
            index[axis], target[axis] = a, b
            x[tuple(target)] = x[tuple(index)]
        distinct(x, axis=axis, sorted=sort)


@pytest.mark.parametrize("sort", [0, 1])
def test_unique_counts_each_nan_and_one_zero(sort):
    x = np.random.default_rng(3).integers(-2, 3, 2000).astype("f")
    x[::7], x[5::13] = np.nan, -0.0
    distinct(x, sorted=sort)
    small = np.array([np.nan, -0.0, 0.0, np.inf, np.nan, -np.inf], "f")
    distinct(small, sorted=sort)


def test_unique_of_views():
    """The input of a node may be transposed: only its strides are."""
    x = np.random.default_rng(4).integers(0, 3, (300, 2, 5)).astype("i4")
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[2, 0, 1]),
             helper.make_node("Unique", ["t"], ["y", "", "inverse"], axis=1), helper.make_node("Unique", ["t"], ["z"])]
    graph = helper.make_graph(nodes, "test", [helper.make_tensor_value_info("x", onnx.TensorProto.INT32, x.shape)],
                              [onnx.ValueInfoProto(name=name) for name in ("y", "inverse", "z")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    results = {name: np.asarray(result) for name, result in clprim.Session(model).run({"x": clprim.Tensor(x)}).items()}
    t = x.transpose(2, 0, 1)
    values, inverse = np.unique(t, return_inverse=True, axis=1)
    np.testing.assert_array_equal(results["y"], values)
    np.testing.assert_array_equal(results["inverse"], inverse.ravel())
    np.testing.assert_array_equal(results["z"], np.unique(x))


@pytest.mark.parametrize("sort", [0, 1])
def test_unique_as_onnxruntime(sort):
    x = np.random.default_rng(5).integers(0, 9, (2, 3000)).astype("f")
    same("Unique", [x], 4, sorted=sort)
    same("Unique", [x], 4, sorted=sort, axis=1)
    same("Unique", [np.array(["b", "a", "b", "ü"])], 4, sorted=sort)
