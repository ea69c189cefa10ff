"""Operators as operator sets 1 to 6 wrote them, which ONNX Runtime no longer takes: against NumPy or the later form."""
import numpy as np
import pytest

import clprim

pytest.importorskip("onnx")
from onnx import helper  # noqa: E402


def run(kind, opset, inputs, outputs=1, **attributes):
    names = [f"x{i}" for i in range(len(inputs))]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, [n if x is not None else "" for n, x in zip(names, inputs)], results, **attributes)
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for n, x in zip(names, inputs) if x is not None]
    graph = helper.make_graph([node], "g", ports, [helper.make_empty_tensor_value_info(n) for n in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    feed = {n: x for n, x in zip(names, inputs) if x is not None}
    results = clprim.Session(model).run(feed)
    return [results[f"y{i}"] for i in range(outputs)]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("f")


@pytest.mark.parametrize("name, dtype", [("FLOAT", "f"), ("DOUBLE", "d"), ("INT64", "i8"), ("INT32", "i4"),
                                         ("UINT8", "u1"), ("BOOL", "?"), ("FLOAT16", "f2")])
def test_cast(name, dtype):
    x = np.abs(3 * normal(4, 5))
    got, = run("Cast", 5, [x], to=name)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, x.astype(dtype))


def test_cast_refuses():
    with pytest.raises(clprim.InvalidArgument, match="no element type"):
        run("Cast", 5, [normal(2)], to="NUMBER")


def test_concat_split_and_tile():
    a, b = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    np.testing.assert_array_equal(run("Concat", 3, [a, b])[0], np.concatenate([a, b], 1))
    np.testing.assert_array_equal(run("Concat", 3, [a, b[:, :3]], axis=0)[0], np.concatenate([a, b[:, :3]], 0))
    for attributes, extra in (({"split": [1, 4]}, []), ({}, [np.array([1, 4])])):
        for got, wanted in zip(run("Split", 1, [b, *extra], 2, axis=1, **attributes), np.split(b, [1], 1)):
            np.testing.assert_array_equal(got, wanted)
    for axis, tiles in ((1, 3), (0, 2), (2, 0)):
        got, = run("Tile", 1, [a, np.array(tiles), np.array(axis)])
        np.testing.assert_array_equal(got, np.concatenate([a] * tiles, axis) if tiles else a[:, :, :0])
    with pytest.raises(clprim.InvalidArgument):
        run("Tile", 1, [a, np.array([1, 2]), np.array(0)])


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_upsample(mode):
    x = normal(2, 3, 4, 5)
    got, = run("Upsample", 1, [x], mode=mode, height_scale=2.0, width_scale=3.0)
    later, = run("Upsample", 7, [x], mode={"bilinear": "linear"}.get(mode, mode), scales=[1.0, 1.0, 2.0, 3.0])
    assert got.shape == (2, 3, 8, 15)
    np.testing.assert_array_equal(got, later)
    with pytest.raises(clprim.InvalidArgument, match="width_scale"):
        run("Upsample", 1, [x], mode=mode, height_scale=2.0)


@pytest.mark.parametrize("opset", [1, 6])
def test_dropout_is_that_of_inference(opset):
    x = normal(3, 4)
    np.testing.assert_array_equal(run("Dropout", opset, [x], is_test=1, ratio=0.3)[0], x)


def test_instance_normalization():
    x, scale, bias = normal(2, 3, 4, 5), normal(3, seed=1), normal(3, seed=2)
    later, = run("InstanceNormalization", 6, [x, scale, bias], epsilon=1e-3)
    got, = run("InstanceNormalization", 1, [x, scale, bias], epsilon=1e-3, consumed_inputs=[0, 0, 0])
    np.testing.assert_array_equal(got, later)


@pytest.mark.parametrize("kind, gates, opset", [("RNN", 1, 1), ("GRU", 3, 1), ("GRU", 3, 3), ("LSTM", 4, 1)])
def test_recurrent_layers(kind, gates, opset):
    inputs = [normal(5, 2, 3), normal(2, gates * 4, 3, seed=1), normal(2, gates * 4, 4, seed=2),
              normal(2, 2 * gates * 4, seed=3)]
    outputs = 3 if kind == "LSTM" else 2
    later = run(kind, 7, inputs, outputs, hidden_size=4, direction="bidirectional")
    got = run(kind, opset, inputs, outputs, hidden_size=4, direction="bidirectional", output_sequence=1)
    for a, b in zip(got, later):
        np.testing.assert_array_equal(a, b)
