"""ai.onnx.preview.training.Gradient against PyTorch's automatic differentiation of the same function."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
clprim = pytest.importorskip("clprim")
from onnx import TensorProto, helper, numpy_helper

TRAINING = "ai.onnx.preview.training"
TOLERANCE = {"float32": 1e-5, "float64": 1e-10, "float16": 5e-3}


def gradient_node(xs, y, inputs=None, zs=(), outputs=None, **attributes):
    names = [*xs, *zs]
    lists = {"xs": list(xs), **({"zs": list(zs)} if zs else {})}
    return helper.make_node("Gradient", inputs or names, outputs or [f"d{y}_d{x}" for x in xs], domain=TRAINING,
                            name="grad", y=y, **lists, **attributes)


def model_of(nodes, inputs, outputs, opset=17, constants=(), functions=()):
    ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype),
                                           x.shape) for name, x in inputs.items()]
    graph = helper.make_graph(nodes, "test", ports, [onnx.ValueInfoProto(name=name) for name in outputs],
                              [numpy_helper.from_array(np.asarray(value),
                                                       name) for name, value in dict(constants).items()])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(TRAINING, 1)]
    opsets += [helper.make_opsetid("local", 1)] if functions else []
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def expected(function, inputs):
    """Gradients of the sum of function(*inputs)."""
    leaves = [torch.tensor(x, requires_grad=True) for x in inputs]
    return [g.numpy() for g in torch.autograd.grad(function(*leaves).sum(), leaves)]


def compare(function, nodes, inputs, opset=17, constants=()):
    """`nodes` compute y from the inputs; their gradients with both settings of the optimiser."""
    names = list(inputs)
    model = model_of([*nodes, gradient_node(names, "y")], inputs, [f"dy_d{name}" for name in names], opset, constants)
    wanted = expected(function, inputs.values())
    for optimize in (True, False):
        got = clprim.Session(model, optimize=optimize).run(inputs)
        for name, gradient in zip(names, wanted):
            result = got[f"dy_d{name}"]
            assert result.shape == gradient.shape and result.dtype == gradient.dtype
            limit = TOLERANCE[gradient.dtype.name]
            np.testing.assert_allclose(result, gradient, rtol=limit, atol=limit)


def numbers(*shape, low=-2.0, high=2.0, dtype="float32", seed=0):
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape).astype(dtype)


node = helper.make_node
F = torch.nn.functional

UNARY = [("Neg", torch.neg, {}), ("Abs", torch.abs, {}), ("Exp", torch.exp, {}), ("Sin", torch.sin, {}),
         ("Cos", torch.cos, {}), ("Sigmoid", torch.sigmoid, {}), ("Tanh", torch.tanh, {}), ("Relu", torch.relu, {}),
         ("Erf", torch.erf, {}), ("Softplus", F.softplus, {}),
         ("LeakyRelu", lambda x: F.leaky_relu(x, 0.125), {"alpha": 0.125}), ("Identity", lambda x: x * 1, {}),
         ("Elu", lambda x: F.elu(x, 0.75), {"alpha": 0.75}), ("Reciprocal", torch.reciprocal, {}),
         ("Transpose", lambda x: x.permute(2, 0, 1), {"perm": [2, 0, 1]}), ("Flatten", lambda x: x.flatten(1), {}),
         ("Softmax", lambda x: x.softmax(1), {"axis": 1}), ("LogSoftmax", lambda x: x.log_softmax(-1), {})]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("op, function, attributes", UNARY, ids=[row[0] for row in UNARY])
def test_unary(op, function, attributes, dtype):
    """Multiplied by a tensor, so that the gradient that goes in is not 1 everywhere."""
    x = numbers(2, 3, 4, dtype=dtype)
    y = function(torch.tensor(x)).numpy()
    w = numbers(*y.shape, dtype=dtype, seed=1)
    compare(lambda t, s: function(t) * s,
            [node(op, ["x"], ["h"], **attributes), node("Mul", ["h", "w"], ["y"])], {"x": x, "w": w})


@pytest.mark.parametrize("op, function", [("Log", torch.log), ("Sqrt", torch.sqrt)])
def test_unary_of_positive_numbers(op, function):
    compare(lambda x: function(x)**2, [node(op, ["x"], ["h"]), node("Mul", ["h", "h"], ["y"])],
            {"x": numbers(3, 5, low=0.5)})


SHAPES = [((3, 4), (3, 4)), ((2, 3, 4), (4,)), ((1, 4, 1), (3, 1, 5)), ((), (2, 3)), ((2, 0, 3), (3,)), ((), ())]


@pytest.mark.parametrize("a, b", SHAPES, ids=str)
@pytest.mark.parametrize("op, function", [("Add", torch.add), ("Sub", torch.sub), ("Mul", torch.mul),
                                          ("Div", torch.div), ("Pow", torch.pow)])
def test_binary(op, function, a, b):
    inputs = {"a": numbers(*a, low=0.5), "b": numbers(*b, low=0.5, seed=1)}
    compare(lambda x, y: function(x, y) * x, [node(op, ["a", "b"], ["h"]), node("Mul", ["h", "a"], ["y"])], inputs)


def test_powers_of_zero_and_of_negative_numbers():
    x = np.array([0, 0, 0, -2, -3], "f")
    nodes = [node("Pow", ["x", "e"], ["y"])]
    compare(lambda t: t**torch.tensor([0.0, 1, 2, 3, 2]), nodes, {"x": x},
            constants={"e": np.array([0, 1, 2, 3, 2], "f")})


def test_sums_means_and_choices():
    inputs = {"a": numbers(3, 4), "b": numbers(4), "c": numbers(3, 1)}
    compare(lambda a, b, c: (a + b + c) * (a + b + c) / 3, [node("Sum", ["a", "b", "c"], ["s"]),
                                                            node("Mean", ["a", "b", "c"], ["m"]),
                                                            node("Mul", ["s", "m"], ["y"])], inputs)
    compare(lambda a, b, c: torch.where(a > 0, a * b, b) * c,
            [node("Greater", ["a", "zero"], ["p"]), node("Mul", ["a", "b"], ["ab"]),
             node("Where", ["p", "ab", "b"], ["h"]),
             node("Mul", ["h", "c"], ["y"])], inputs, constants={"zero": np.float32(0)})
    compare(lambda a, b, c: torch.cat([a, c, a * b], 1) ** 2,
            [node("Mul", ["a", "b"], ["ab"]), node("Concat", ["a", "c", "ab"], ["h"], axis=-1),
             node("Mul", ["h", "h"], ["y"])], inputs)
    compare(lambda a: a.clamp(-1, 0.5) * a, [node("Clip", ["a", "low", "high"], ["h"]), node("Mul", ["h", "a"], ["y"])],
            {"a": numbers(3, 4)}, constants={"low": np.float32(-1), "high": np.float32(0.5)})


@pytest.mark.parametrize("a, b", [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
                                  ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)),
                                  ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((3, 0), (0, 2)), ((0, 3), (3, 2))], ids=str)
def test_matmul(a, b):
    inputs = {"a": numbers(*a), "b": numbers(*b, seed=1)}
    compare(lambda x, y: (x @ y) ** 2, [node("MatMul", ["a", "b"], ["h"]), node("Mul", ["h", "h"], ["y"])], inputs)


@pytest.mark.parametrize("turn_a", [0, 1])
@pytest.mark.parametrize("turn_b", [0, 1])
@pytest.mark.parametrize("c", [None, (5,), (3, 1), ()])
def test_gemm(turn_a, turn_b, c):
    inputs = {"a": numbers(*((4, 3) if turn_a else (3, 4))), "b": numbers(*((5, 4) if turn_b else (4, 5)), seed=1)}
    if c is not None:
        inputs["c"] = numbers(*c, seed=2)

    def function(a, b, c=None):
        h = 0.5 * (a.T if turn_a else a) @ (b.T if turn_b else b)
        return (h if c is None else h + 2 * c) ** 2
    compare(function, [node("Gemm", list(inputs), ["h"], alpha=0.5, beta=2.0, transA=turn_a, transB=turn_b),
                       node("Mul", ["h", "h"], ["y"])], inputs)


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("opset", [12, 18])
@pytest.mark.parametrize("op, function", [("ReduceSum", torch.sum), ("ReduceMean", torch.mean),
                                          ("ReduceSumSquare", lambda x, *a, **k: torch.sum(x * x, *a, **k))])
def test_reductions(op, function, opset, keep):
    x = numbers(2, 3, 4)
    constants = {"axes": np.array([0, -1])} if opset == 18 else {}
    attributes = {} if opset == 18 else {"axes": [0, -1]}
    compare(lambda t: function(t, (0, -1), keepdim=bool(keep))**2,
            [node(op, ["x", *constants], ["h"], keepdims=keep, **attributes),
             node("Mul", ["h", "h"], ["y"])], {"x": x}, opset, constants)
    compare(lambda t: function(t)**2,
            [node(op, ["x"], ["h"], keepdims=0), node("Mul", ["h", "h"], ["y"])], {"x": x}, opset)


@pytest.mark.parametrize("op, function", [("Softmax", torch.softmax), ("LogSoftmax", torch.log_softmax)])
def test_softmax_of_old_operator_sets_counts_the_axes_behind_as_one(op, function):
    x = numbers(2, 3, 4)
    compare(lambda t: function(t.flatten(1), 1).reshape(t.shape) * t,
            [node(op, ["x"], ["h"]), node("Mul", ["h", "x"], ["y"])], {"x": x}, 12)


def test_shapes():
    x = numbers(2, 1, 6)
    compare(lambda t: (t.squeeze(1).reshape(3, 4).unsqueeze(0).expand(5, 3, 4)) ** 3,
            [node("Squeeze", ["x", "one"], ["a"]), node("Reshape", ["a", "shape"], ["b"]),
             node("Unsqueeze", ["b", "zero"], ["c"]),
             node("Expand", ["c", "wide"], ["d"]), node("Pow", ["d", "three"], ["y"])], {"x": x},
            constants={"one": np.array([1]), "shape": np.array([3, 4]), "zero": np.array([0]),
                       "wide": np.array([5, 3, 4]),
                       "three": np.float32(3)})


PERCEPTRON = [node("Gemm", ["x", "w", "b"], ["h"], transB=1), node("Tanh", ["h"], ["t"]),
              node("MatMul", ["t", "v"], ["s"]),
              node("Sub", ["s", "target"], ["e"]), node("Mul", ["e", "e"], ["q"]),
              node("ReduceMean", ["q"], ["y"], keepdims=0)]


def perceptron(x, w, b, v, target):
    return ((torch.tanh(x @ w.T + b) @ v - target) ** 2).mean()


def perceptron_inputs(seed=0):
    return {"x": numbers(6, 5, seed=seed), "w": numbers(4, 5, seed=seed), "b": numbers(4, seed=seed),
            "v": numbers(4, 3, seed=seed),
            "target": numbers(6, 3, seed=seed)}


def test_perceptron():
    compare(perceptron, PERCEPTRON, perceptron_inputs())


def test_training_step_of_parameters_that_are_initializers():
    """Two of Momentum's steps by models alone: gradients with respect to initializers, fed to an optimiser."""
    inputs = perceptron_inputs()
    learned = ["w", "b", "v"]
    step = [gradient_node(learned, "y", zs=["x", "target"])]
    model = model_of([*PERCEPTRON, *step], {k: inputs[k] for k in ("x", "target")}, ["y", "dy_dw", "dy_db", "dy_dv"],
                     constants={k: inputs[k] for k in learned})
    got = clprim.Session(model).run({k: inputs[k] for k in ("x", "target")})
    wanted = expected(perceptron, inputs.values())
    for name, gradient in zip(["x", "w", "b", "v", "target"], wanted):
        if name in learned:
            np.testing.assert_allclose(got[f"dy_d{name}"], gradient, rtol=1e-5, atol=1e-6)


def test_elsewhere_than_at_the_values_of_the_graph():
    """The node's inputs say where the gradient is taken; the graph's own values differ."""
    here, there = perceptron_inputs(), perceptron_inputs(seed=7)
    others = {f"{name}_2": value for name, value in there.items()}
    nodes = [*PERCEPTRON, gradient_node(["w", "v"], "y", ["w_2", "v_2", "x_2", "b_2", "target_2"],
                                        ["x", "b", "target"])]
    got = clprim.Session(model_of(nodes, {**here, **others}, ["dy_dw", "dy_dv"])).run({**here, **others})
    wanted = expected(perceptron, there.values())
    np.testing.assert_allclose(got["dy_dw"], wanted[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["dy_dv"], wanted[3], rtol=1e-5, atol=1e-6)


def test_intermediate_values_and_the_order_of_nodes():
    """The gradient by a value in the middle; the node stands before those that compute its target."""
    x = numbers(3, 4)
    nodes = [gradient_node(["h"], "y"), node("Exp", ["x"], ["h"]), node("Mul", ["h", "x"], ["y"])]
    got = clprim.Session(model_of(nodes, {"x": x}, ["dy_dh"])).run({"x": x})["dy_dh"]
    np.testing.assert_allclose(got, x, rtol=1e-6)          # x does not depend on h


def test_second_order():
    """Gradients of gradients, through products of matrices and broadcasts."""
    inputs = {"a": numbers(3, 4), "b": numbers(4, 2), "c": numbers(2)}
    nodes = [node("MatMul", ["a", "b"], ["h"]), node("Add", ["h", "c"], ["s"]), node("Sigmoid", ["s"], ["y"]),
             gradient_node(["a", "b", "c"], "y"),
             node("Mul", ["dy_da", "dy_da"], ["q"]), node("ReduceSum", ["q"], ["z"], keepdims=0),
             node("Exp", ["dy_dc"], ["e"]), node("ReduceSum", ["e"], ["ez"], keepdims=0),
             node("Add", ["z", "ez"], ["total"]),
             gradient_node(["a", "b", "c"], "total")]
    got = clprim.Session(model_of(nodes, inputs, ["dtotal_da", "dtotal_db", "dtotal_dc"])).run(inputs)
    leaves = [torch.tensor(x, requires_grad=True) for x in inputs.values()]
    a, b, c = leaves
    first = torch.autograd.grad(torch.sigmoid(a @ b + c).sum(), leaves, create_graph=True)
    total = (first[0] ** 2).sum() + first[2].exp().sum()
    for name, wanted in zip("abc", torch.autograd.grad(total, leaves)):
        np.testing.assert_allclose(got[f"dtotal_d{name}"], wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_functions_are_differentiated_inside():
    x = numbers(3, 4)
    swish = helper.make_function("local", "Swish", ["t"], ["r"], [node("Sigmoid", ["t"], ["s"]),
                                                                  node("Mul", ["t", "s"], ["r"])],
                                 [helper.make_opsetid("", 17)])
    nodes = [node("Swish", ["x"], ["h"], domain="local"), node("Swish", ["h"], ["y"], domain="local"),
             gradient_node(["x"], "y")]
    got = clprim.Session(model_of(nodes, {"x": x}, ["dy_dx"], functions=[swish])).run({"x": x})["dy_dx"]
    wanted, = expected(lambda t: F.silu(F.silu(t)), [x])
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_what_y_does_not_depend_on_has_no_gradient():
    x = numbers(3, 4)
    nodes = [node("Exp", ["x"], ["h"]), node("Mul", ["x", "x"], ["y"]),
             gradient_node(["x", "w"], "y", outputs=["dx", "dw"])]
    got = clprim.Session(model_of(nodes, {"x": x, "w": numbers(2, 5)}, ["dx", "dw"])).run({"x": x, "w": numbers(2, 5)})
    np.testing.assert_allclose(got["dx"], 2 * x, rtol=1e-6)
    assert got["dw"].shape == (2, 5) and not got["dw"].any()
    nodes[-1] = gradient_node(["x", "w"], "y", outputs=["", "dw"])
    assert list(clprim.Session(model_of(nodes, {"x": x, "w": x}, ["dw"])).run({"x": x, "w": x})) == ["dw"]


def test_operators_without_a_rule_are_named():
    x = numbers(1, 1, 5, 5)
    nodes = [node("MaxPool", ["x"], ["h"], kernel_shape=[2, 2]), node("MaxPool", ["h"], ["y"], kernel_shape=[2, 2]),
             gradient_node(["x"], "y")]
    model = model_of(nodes, {"x": x}, ["dy_dx"])
    assert clprim.OnnxModel(model).unsupported == {"gradient of MaxPool": 2}
    with pytest.raises(NotImplementedError, match=r"gradient of MaxPool \(2\)"):
        clprim.Session(model)


@pytest.mark.parametrize("gradient, message", [
    (gradient_node(["x"], "nothing"), "Gradient 'grad': 'nothing' is written by no node"),
    (gradient_node(["x", "x"], "y", ["x", "x"], outputs=["a", "b"]), "xs and zs name 'x' twice"),
    (gradient_node(["x"], "y", ["x", "x"]), "got 2 inputs, expected one for each of xs and zs"),
    (gradient_node(["x"], "y", outputs=["a", "b"]), "got 2 outputs, expected one for each of xs"),
    (helper.make_node("Gradient", ["x"], ["a"], domain=TRAINING, name="grad", xs=["x"]), "attribute y is missing"),
])
def test_errors(gradient, message):
    model = model_of([node("Exp", ["x"], ["y"]), gradient], {"x": numbers(2)}, [gradient.output[0]])
    with pytest.raises(ValueError, match=message):
        clprim.OnnxModel(model)


def test_chains_of_gradients_have_a_bound():
    """Every order multiplies the nodes: a small file could ask for any number of them."""
    nodes, y = [node("Exp", ["x"], ["t0"])], "t0"
    for order in range(64):
        nodes += [node("Tanh", [y], [f"h{order}"]), node("Mul", [f"h{order}", f"h{order}"], [f"m{order}"]),
                  gradient_node(["x"], f"m{order}", outputs=[f"t{order + 1}"])]
        y = f"t{order + 1}"
    with pytest.raises(ValueError, match="more than .* nodes"):
        clprim.OnnxModel(model_of(nodes, {"x": numbers(2)}, [y]))
