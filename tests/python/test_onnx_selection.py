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
