"""How much sessions change of a model: nothing, only what leaves ONNX's own operators, or all they can. ONNX Runtime
runs the same models, and what sessions saved of them."""
import collections

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import clprim
import onnx_graphs

LEVELS = ["none", "basic", "all"]
RNG = np.random.default_rng(2)
node = helper.make_node


def model(nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])


def normal(*shape):
    return RNG.standard_normal(shape).astype("f")


def encoder():
    """Two layers as exporters write them: masks made anew in each, sizes computed, a norm of parts, weights through
    Identity, a Dropout's rest."""
    width, heads = 32, 4
    nodes, constants = [], {"heads": np.array([0, 0, heads, width // heads]), "joined": np.array([0, 0, width]),
                            "one": np.float32(1), "hidden": np.float32(-10000), "two": np.float32(2),
                            "scale": np.float32((width // heads) ** -0.5), "tiny": np.float32(1e-5),
                            "shared": normal(width, width) / 6, "axes": np.array([1, 2])}
    x = "x"
    for i in range(2):
        def add(kind, *inputs, **attributes):
            nodes.append(node(kind, list(inputs), [f"n{len(nodes)}"], **attributes))
            return nodes[-1].output[0]

        def dense(x, name):
            constants[f"{name}{i}"], constants[f"{name}b{i}"] = normal(width, width) / 6, normal(width)
            return add("Add", add("MatMul", x, f"{name}{i}"), f"{name}b{i}")
        mask = add("Cast", add("Unsqueeze", "mask", "axes"), to=TensorProto.FLOAT)
        mask = add("Mul", add("Sub", "one", mask), "hidden")
        q, k, v = (add("Transpose", add("Reshape", dense(x, name), "heads"), perm=[0, 2, 1, 3]) for name in "qkv")
        scores = add("Add", add("Mul", add("MatMul", q, add("Transpose", k, perm=[0, 1, 3, 2])), "scale"), mask)
        y = add("Transpose", add("MatMul", add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = add("Add", x, dense(add("Identity", add("Reshape", y, "joined")), "o"))
        centred = add("Sub", y, add("ReduceMean", y, axes=[-1]))
        deviation = add("Sqrt", add("Add", add("ReduceMean", add("Pow", centred, "two"), axes=[-1]), "tiny"))
        y = add("Cast", add("Div", centred, deviation), to=TensorProto.FLOAT)
        x = add("Tanh", add("MatMul", y, add("Identity", "shared")))
        add("Exp", x)                                                            # nobody reads it
    nodes[-2].output[0] = "y"
    nodes[-1].input[0] = "y"
    made = model(nodes, {"x": (TensorProto.FLOAT, [2, 5, 32]), "mask": (TensorProto.INT64, [2, 5])},
                 {"y": TensorProto.FLOAT}, constants)
    return made, {"x": normal(2, 5, 32), "mask": np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])}


def branches():
    """Control flow whose subgraphs have something to fold."""
    def branch(name, kind):
        nodes = [node("Add", ["half", "half"], [f"{name}w"]), node(kind, ["x", f"{name}w"], [f"{name}m"]),
                 node("Identity", [f"{name}m"], [f"{name}i"]), node("Relu", [f"{name}i"], [name])]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
    body = helper.make_graph(
        [node("Sqrt", ["four"], ["root"]), node("Mul", ["state", "root"], ["scaled"]),
         node("Tanh", ["scaled"], ["new"]), node("Identity", ["going"], ["goes"])], "body",
        [helper.make_tensor_value_info(name, kind, []) for name, kind in (("i", TensorProto.INT64),
                                                                         ("going", TensorProto.BOOL))] +
        [helper.make_tensor_value_info("state", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
         helper.make_tensor_value_info("new", TensorProto.FLOAT, None)])
    nodes = [node("ReduceSum", ["x"], ["sum"], keepdims=0), node("Greater", ["sum", "zero"], ["which"]),
             node("If", ["which"], ["chosen"], then_branch=branch("a", "Add"), else_branch=branch("b", "Mul")),
             node("Loop", ["three", "", "chosen"], ["y"], body=body)]
    made = model(nodes, {"x": (TensorProto.FLOAT, [3, 4])}, {"y": TensorProto.FLOAT},
                 {"half": np.float32(0.5), "zero": np.float32(0), "three": np.int64(3), "four": np.float32(4)})
    return made, {"x": normal(3, 4)}


def quantised():
    """Weights of bytes that are made floats, and a table of floats that are rounded to bytes."""
    weights = RNG.integers(-127, 128, (8, 3, 3, 3), np.int8)
    nodes = [node("DequantizeLinear", ["w", "scales", "zeros"], ["floats"], axis=0),
             node("Conv", ["x", "floats"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["r"]),
             node("QuantizeLinear", ["table", "scale", "zero"], ["bytes"]),
             node("DequantizeLinear", ["bytes", "scale", "zero"], ["rounded"]),
             node("Identity", ["rounded"], ["same"]), node("Mul", ["r", "same"], ["y"])]
    made = model(nodes, {"x": (TensorProto.FLOAT, [2, 3, 6, 7])}, {"y": TensorProto.FLOAT},
                 {"w": weights, "scales": RNG.uniform(0.001, 0.01, 8).astype("f"), "zeros": np.zeros(8, np.int8),
                  "table": normal(8, 1, 1), "scale": np.float32(0.02), "zero": np.uint8(120)})
    return made, {"x": normal(2, 3, 6, 7)}


def network(name):
    made = onnx_graphs.NETWORKS[name]()
    return made, {"x": normal(*(size.dim_value for size in made.graph.input[0].type.tensor_type.shape.dim))}


MODELS = {"encoder": encoder, "branches": branches, "quantised": quantised,
          **{name: lambda name=name: network(name) for name in onnx_graphs.NETWORKS}}


def runtime(made, feed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = made if isinstance(made, str) else made.SerializeToString()
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    return dict(zip((port.name for port in session.get_outputs()), session.run(None, feed)))


def same(got, expected):
    assert got.keys() == expected.keys()
    for name, right in expected.items():
        assert got[name].dtype == right.dtype
        np.testing.assert_allclose(got[name], right, rtol=2e-5, atol=2e-5 * np.abs(right).max(), err_msg=name)


def operators(graph):
    counts = collections.Counter(one.op_type for one in graph.node)
    for one in graph.node:
        for attribute in one.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                counts += operators(attribute.g)
    return counts


@pytest.mark.parametrize("name", MODELS)
def test_levels(name, tmp_path):
    made, feed = MODELS[name]()
    expected = runtime(made, feed)
    nodes, counts = [], {}
    for level in LEVELS:
        session = clprim.Session(made, optimize=level, profile=True)
        same(session.run(feed), expected)
        nodes.append(len(session.profile()))
        saved = str(tmp_path / f"{level}.onnx")
        session.save(saved)
        same(runtime(saved, feed), expected)
        for again in LEVELS:
            same(clprim.Session(saved, optimize=again).run(feed), expected)
        counts[level] = operators(onnx.load(saved).graph)
    assert nodes[0] >= nodes[1] >= nodes[2], nodes
    assert nodes[0] > nodes[1] or name in onnx_graphs.NETWORKS, nodes      # which have nothing that is computed twice
    assert nodes[1] > nodes[2] or name == "branches", nodes
    assert counts["none"] == operators(made.graph)
    assert counts["basic"] <= counts["none"], "a node that the file does not have"


def test_basic_keeps_integers(tmp_path):
    made, feed = quantised()
    session = clprim.Session(made, optimize="basic")
    session.save(str(tmp_path / "saved.onnx"))
    graph = onnx.load(str(tmp_path / "saved.onnx")).graph
    assert operators(graph) == collections.Counter(DequantizeLinear=2, Conv=1, Relu=1, Mul=1)
    types = collections.Counter(tensor.data_type for tensor in graph.initializer)
    assert types[TensorProto.INT8] == 2 and types[TensorProto.UINT8] == 2      # weights, table and zero points


def test_booleans_are_levels():
    made, feed = encoder()
    for flag, level in (True, "all"), (False, "none"), (np.True_, "all"), (np.False_, "none"):
        one, other = (clprim.Session(made, optimize=given, profile=True) for given in (flag, level))
        one.run(feed), other.run(feed)
        assert [time.op_type for time in one.profile()] == [time.op_type for time in other.profile()]


@pytest.mark.parametrize("level", ["", "some", "All", "extended"])
def test_unknown_levels(level):
    with pytest.raises(ValueError, match=f"no optimization level '{level}'; expected none, basic or all"):
        clprim.Session(encoder()[0], optimize=level)
