"""Elementwise operators, reductions, casts and their kin beyond ONNX's own tests: random shapes, all types,
broadcasting, old operator sets and bad input, compared with ONNX's reference evaluator or numpy."""
import functools

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

clprim = pytest.importorskip("clprim")

FLOATS = [np.float32, np.float64, np.float16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
SHAPES = [((3, 4, 5), (3, 4, 5)), ((3, 4, 5), (5,)), ((1, 4, 1), (3, 1, 5)), ((), (2, 3)), ((2, 0, 3), (3,)),
          ((300, 70), (300, 1))]
TOLERANCE = {np.float16: 2e-3, np.float32: 2e-5, np.float64: 1e-10}


def model_of(op, inputs, opset, outputs=1, domain="", **attributes):
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, [n if v is not None else "" for n, v in zip(names, inputs)],
                            [f"y{i}" for i in range(outputs)], domain=domain, **attributes)
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
             for n, v in zip(names, inputs) if v is not None]
    graph = helper.make_graph([node], "test", ports, [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)])
    opsets = [helper.make_opsetid("", opset if not domain else 20)] + ([helper.make_opsetid(domain, opset)] if domain
                                                                       else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run(op, inputs, opset=28, outputs=1, domain="", **attributes):
    inputs = [None if v is None else np.asarray(v) for v in inputs]
    session = clprim.Session(model_of(op, inputs, opset, outputs, domain, **attributes))
    got = session.run({f"x{i}": v for i, v in enumerate(inputs) if v is not None})
    results = [got[f"y{i}"] for i in range(outputs)]
    return results if outputs > 1 else results[0]


def expected(op, inputs, opset=28, outputs=1, domain="", **attributes):
    inputs = [None if v is None else np.asarray(v) for v in inputs]
    model = model_of(op, inputs, opset, outputs, domain, **attributes)
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(model).run(None, {f"x{i}": v for i, v in enumerate(inputs) if v is not None})
    return results if outputs > 1 else results[0]


def close(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, got.dtype, want.shape, want.dtype)
    tolerance = TOLERANCE.get(want.dtype.type, 0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def values(rng, shape, dtype, low=-4, high=4):
    if np.issubdtype(dtype, np.floating):
        return rng.uniform(low, high, shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -100), min(info.max, 100), shape, endpoint=True).astype(dtype)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Equal", "Less", "GreaterOrEqual", "Max", "Min"])
def test_binary(op, dtype, rng):
    for a, b in SHAPES:
        x, y = values(rng, a, dtype), values(rng, b, dtype)
        if op == "Div":
            y = np.where(y == 0, 1, y).astype(dtype)
            want = np.trunc(x.astype(np.float64) / y).astype(dtype) if np.issubdtype(dtype, np.integer) else x / y
        else:
            f = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Equal": np.equal, "Less": np.less,
                 "GreaterOrEqual": np.greater_equal, "Max": np.maximum, "Min": np.minimum}[op]
            want = f(x, y)
        close(run(op, [x, y], 16 if op == "GreaterOrEqual" else 14), want)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("fmod", [0, 1])
def test_mod(dtype, fmod, rng):
    x, y = values(rng, (40, 30), dtype), values(rng, (30,), dtype)
    y = np.where(y == 0, 3, y).astype(dtype)
    close(run("Mod", [x, y], 28, fmod=fmod), np.fmod(x, y) if fmod else np.mod(x, y))


@pytest.mark.parametrize("base", [np.int32, np.int64, np.float32, np.float64, np.float16])
@pytest.mark.parametrize("exponent", [np.int8, np.int32, np.uint64, np.float32, np.float64])
def test_pow_of_mixed_types(base, exponent, rng):
    x = np.abs(values(rng, (6, 7), base)) + 1 if np.issubdtype(base,
                                                               np.floating) else rng.integers(0, 7, (6, 7)).astype(base)
    y = rng.integers(0, 4, (7,)).astype(exponent)
    close(run("Pow", [x, y], 15), np.power(x.astype(np.float64), y.astype(np.float64)).astype(base))


UNARY = {"Abs": np.abs, "Neg": np.negative, "Sign": np.sign, "Ceil": np.ceil, "Floor": np.floor, "Round": np.rint,
         "Exp": np.exp,
         "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Atan": np.arctan, "Sinh": np.sinh, "Cosh": np.cosh,
         "Tanh": np.tanh,
         "Asinh": np.arcsinh}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_unary(op, dtype, rng):
    for shape in [(), (0,), (7,), (3, 500)]:
        x = values(rng, shape, dtype)
        close(run(op, [x], 22), UNARY[op](x.astype(np.float64)).astype(dtype))


@pytest.mark.parametrize("op, attributes",
                         [("LeakyRelu", {}), ("LeakyRelu", {"alpha": 0.3}), ("Elu", {"alpha": 2.0}), ("Selu", {}),
                          ("Celu", {"alpha": 0.7}), ("HardSigmoid", {}), ("HardSigmoid", {"alpha": 0.4, "beta": 0.1}),
                          ("HardSwish", {}), ("Mish", {}), ("Softplus", {}), ("Softsign", {}),
                          ("ThresholdedRelu", {"alpha": 0.5}), ("Shrink", {"bias": 0.5, "lambd": 1.5}), ("Gelu", {}),
                          ("Gelu", {"approximate": "tanh"}), ("Swish", {"alpha": 1.5}), ("Sigmoid", {}), ("Erf", {}),
                          ("Reciprocal", {})])
def test_activations(op, attributes, rng):
    x = values(rng, (5, 33), np.float32)
    want = np.asarray(expected(op, [x.astype(np.float64)], 24, **attributes))
    close(run(op, [x], 24, **attributes), want.astype(np.float32))
    # The evaluator computes some of them in float32.
    np.testing.assert_allclose(run(op, [x.astype(np.float64)], 24, **attributes), want, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("op", ["Max", "Min", "Sum", "Mean"])
def test_many_inputs(op, rng):
    for count in (1, 2, 3, 9, 20):
        inputs = [values(rng, shape, np.float32) for shape, _ in zip([(4, 1, 6), (5, 1), (6,), (4, 5, 6)] * 5,
                                                                     range(count))]
        f = {"Max": np.maximum, "Min": np.minimum}.get(op, np.add)
        want = functools.reduce(f, inputs)
        close(run(op, inputs, 13), want / np.float32(count) if op == "Mean" else want)


def test_clip_of_both_forms(rng):
    x = values(rng, (4, 5), np.float32)
    close(run("Clip", [x], 6, min=-1.0, max=2.0), np.clip(x, -1, 2))
    close(run("Clip", [x], 6), x)
    close(run("Clip", [x, np.float32(-1), None], 11), np.maximum(x, -1))
    close(run("Clip", [x, None, np.float32(1)], 13), np.minimum(x, 1))
    close(run("Clip", [x, np.float32(2), np.float32(-2)], 13), np.full_like(x, -2))
    big = np.array([2**62 + 1, -5, 2**63 - 1])
    close(run("Clip", [big, np.int64(0), np.int64(2**62 + 3)], 13), np.clip(big, 0, 2**62 + 3))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.uint64])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift(dtype, direction, rng):
    x, y = values(rng, (50,), dtype), rng.integers(0, 8, (50,)).astype(dtype)
    f = np.left_shift if direction == "LEFT" else np.right_shift
    close(run("BitShift", [x, y], 28, direction=direction), f(x, y))


def test_before_operator_set_7(rng):
    x, y = values(rng, (2, 3, 4, 5), np.float32), values(rng, (3, 4), np.float32)
    close(run("Add", [x, y], 6, axis=1, broadcast=1), x + y[:, :, None])
    close(run("Mul", [x, y], 6, axis=-3, broadcast=1), x * y[:, :, None])
    slope = values(rng, (3,), np.float32)
    close(run("PRelu", [x, slope], 6), np.where(x > 0, x, x * slope[:, None, None]))


def test_where_and_logic(rng):
    condition = rng.integers(0, 2, (4, 1)).astype(bool)
    for dtype in (np.float32, np.int64, np.bool_, np.uint8):
        x, y = values(rng, (1, 5), np.int8).astype(dtype), values(rng, (4, 5), np.int8).astype(dtype)
        close(run("Where", [condition, x, y], 16), np.where(condition, x, y))
    words = np.array(["a", "b", "c"], dtype=object)
    got = run("Where", [np.array([[True], [False]]), words, words[::-1].copy()], 16)
    assert got.tolist() == [["a", "b", "c"], ["c", "b", "a"]]
    other = rng.integers(0, 2, (4, 3)).astype(bool)
    for op, f in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
        close(run(op, [condition, other], 7), f(condition, other))


def test_special_numbers(rng):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], np.float32)
    close(run("IsNaN", [x], 20), np.isnan(x))
    close(run("IsInf", [x], 20, detect_negative=0), x == np.inf)
    close(run("IsInf", [x], 20, detect_positive=0), x == -np.inf)
    close(run("Max", [x, x[::-1].copy()], 13), np.maximum(x, x[::-1]))
    close(run("Relu", [x], 14), np.maximum(x, 0))
    y = np.array([3.0, np.inf, 2.0, -3.0, 3.0, -np.inf], np.float32)
    with np.errstate(invalid="ignore"):
        want = np.mod(x, y)
    got = run("Mod", [x, y], 28)
    close(got, want)
    np.testing.assert_array_equal(np.signbit(got[3:5]), np.signbit(want[3:5]))


@pytest.mark.parametrize("op", ["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint32])
def test_reductions(op, dtype, rng):
    real = np.issubdtype(dtype, np.floating)
    x = values(rng, (3, 4, 5, 2), dtype, 0.1, 2) if real else rng.integers(1, 5, (3, 4, 5, 2)).astype(dtype)
    wide = x.astype(np.float64)
    f = {"Sum": np.sum, "Mean": np.mean, "Prod": np.prod, "Max": np.max, "Min": np.min,
         "L1": lambda v, **k: np.sum(np.abs(v), **k), "L2": lambda v, **k: np.sqrt(np.sum(v * v, **k)),
         "SumSquare": lambda v, **k: np.sum(v * v, **k), "LogSum": lambda v, **k: np.log(np.sum(v, **k)),
         "LogSumExp": lambda v, **k: np.log(np.sum(np.exp(v), **k))}[op]
    old = 13 if op != "Sum" else 11
    for axes in ([0], [1, 2], [-1, 0], None) if dtype in (np.float32, np.int64) else ([1, 2], None):
        for keep in (0, 1):
            axis = tuple(axes) if axes else None
            exact = op == "Prod" and np.issubdtype(dtype, np.integer)      # wraps around
            want = f(x, axis=axis, keepdims=bool(keep), dtype=dtype) if exact else f(wide, axis=axis,
                                                                                     keepdims=bool(keep)).astype(dtype)
            given = [x] if axes is None else [x, np.array(axes, np.int64)]
            attributes = {"axes": axes} if axes else {}
            for got in (run("Reduce" + op, given, 18,
                            keepdims=keep), run("Reduce" + op, [x], old, keepdims=keep, **attributes)):
                assert got.shape == want.shape and got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=2e-3 if dtype == np.float16 else 1e-5,
                                           atol=1 if op in ("L2", "LogSum", "LogSumExp")
                                           and np.issubdtype(dtype, np.integer) else 1e-6)
    close(run("Reduce" + op, [x], 18, noop_with_empty_axes=1), f(wide[None], axis=0).astype(dtype)
          if np.issubdtype(dtype, np.floating)
          else np.asarray(f(wide[None], axis=0)).astype(dtype))


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op", ["Sum", "Mean", "Prod", "Max", "Min", "L1", "SumSquare"])
def test_reductions_of_one_element(op, keep, rng):
    """As they lie and in another order."""
    f = {"L1": lambda v, **k: np.sum(np.abs(v), **k), "SumSquare": lambda v, **k: np.sum(v * v, **k),
         "Mean": np.mean, "Sum": np.sum, "Prod": np.prod, "Max": np.max, "Min": np.min}[op]
    for shape, axes in (((3, 1, 4), (1,)), ((1, 1), (0, 1)), ((1, 5, 1), (-1, 0)), ((1, 5, 1), (2,)),
                        ((1, 0, 1), (0, 2))):
        x = values(rng, shape, np.float32)
        x.flat[:1] = np.nan
        order = list(range(len(shape)))[::-1]
        nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=order)]
        nodes += [helper.make_node("Reduce" + op, [name, "axes"], [to], keepdims=keep) for name, to in ("xy", "tz")]
        graph = helper.make_graph(nodes, "reductions", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yz"],
                                  [numpy_helper.from_array(np.array(axes, np.int64), "axes")])
        session = clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)],
                                                   ir_version=10).SerializeToString())
        for _ in range(3):
            results = session.run({"x": x})
            for got, v in (results["y"], x), (results["z"], x.transpose(order)):
                want = f(v, axis=axes, keepdims=bool(keep))
                assert got.shape == want.shape
                np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_positions_of_extremes(op, last, rng):
    for dtype in (np.float32, np.int8, np.uint64, np.float16):
        for shape in ((7,), (3, 400), (400, 3, 2)) if dtype == np.float32 else ((3, 400),):
            x = rng.integers(0, 4, shape).astype(dtype)
            for axis in range(-1, len(shape)):
                close(run(op, [x], 13, axis=axis, select_last_index=last, keepdims=0),
                      expected(op, [x], 13, axis=axis, select_last_index=last, keepdims=0))


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_cumulative(op, dtype, rng):
    x = rng.integers(1, 3, (3, 1, 20)).astype(dtype)
    for axis in (0, 2, -2):
        for exclusive in (0, 1):
            for reverse in (0, 1):
                close(run(op, [x, np.int64(axis)], 26, exclusive=exclusive, reverse=reverse),
                      expected(op, [x, np.array(axis)], 26, exclusive=exclusive, reverse=reverse))


@pytest.mark.parametrize("opset", [1, 10, 11, 24])
def test_top_k(opset, rng):
    x = rng.integers(0, 20, (4, 30, 3)).astype(np.float32)
    for axis in (1, -1):
        given, attributes = ([x], {"k": 3}) if opset < 10 else ([x, np.array([3])], {})
        for largest in (1, 0) if opset >= 11 else (1,):
            if opset >= 11:
                attributes["largest"] = largest
            order = np.argsort(-x if largest else x, axis=axis, kind="stable").take(range(3), axis)
            got, index = run("TopK", given, opset, 2, axis=axis, **attributes)
            close(index, order)
            close(got, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [7, 11, 13])
def test_softmax(op, opset, rng):
    x = values(rng, (3, 4, 5), np.float32)
    for axis in (None, 0, 1, 2, -1):
        attributes = {} if axis is None else {"axis": axis}
        axis = (1 if opset < 13 else -1) if axis is None else axis
        flat = x.reshape(int(np.prod(x.shape[:axis])), -1) if opset < 13 else x
        along = -1 if opset < 13 else axis
        e = np.exp(flat - flat.max(along, keepdims=True))
        want = {"Softmax": e / e.sum(along, keepdims=True), "LogSoftmax": np.log(e / e.sum(along, keepdims=True)),
                "Hardmax": (flat == flat.max(along, keepdims=True)).astype(np.float32)}[op]
        close(run(op, [x], opset, **attributes), want.reshape(x.shape))


def test_bad_input_is_refused(rng):
    x = values(rng, (2, 3), np.float32)
    for op, inputs, opset, attributes, words in [
            ("Add", [x, x.astype(np.int32)], 14, {}, "Add.*int32"),
            ("Add", [x, x.T.copy()], 14, {}, "Add.*broadcast"),
            ("And", [x, x], 7, {}, "And.*float32"),
            ("BitShift", [x.astype(np.uint8)] * 2, 11, {"direction": "UP"}, "BitShift.*direction"),
            ("ReduceSum", [x, np.array([2])], 13, {}, "ReduceSum.*axis 2"),
            ("TopK", [x, np.array([4])], 11, {}, "TopK.*k is 4"),
            ("Softmax", [x], 13, {"axis": 2}, "Softmax.*axis"),
            ("Cast", [x], 13, {"to": 77}, "Cast.*77"),
            ("Clip", [x, x], 13, {}, "Clip.*min")]:
        with pytest.raises(clprim.Error, match=words):
            run(op, inputs, opset, **attributes)


@pytest.mark.parametrize("left, right", [
    ((12, 3, 5, 4), (12, 3, 4, 6)), ((3, 12, 5, 4), (3, 12, 4, 6)), ((6, 1, 5, 4), (6, 7, 4, 6)),
    ((1, 7, 5, 4), (6, 1, 4, 6)), ((5, 6, 7, 1, 4), (5, 6, 1, 4, 3)), ((2, 9, 90, 80), (2, 9, 80, 90))])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_products_of_many_matrices_whose_batch_axes_lie_apart(left, right, order):
    """Operands are transposed in memory: no one stride leads through the matrices, but few launches do."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in (left, right))
    turn = [*(order if len(left) == 4 else (order[0], 2, order[1])), *range(len(left) - 2, len(left))]
    turned = np.argsort(turn).tolist()
    nodes = [helper.make_node("Transpose", [n], [n + "t"], perm=turned) for n in "ab"]
    nodes.append(helper.make_node("MatMul", ["at", "bt"], ["y"]))
    ports = [helper.make_tensor_value_info(n, 1, np.transpose(v, turn).shape) for n, v in (("a", a), ("b", b))]
    session = clprim.Session(helper.make_model(helper.make_graph(nodes, "g", ports, [onnx.ValueInfoProto(name="y")]),
                                               opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    feed = {n: np.ascontiguousarray(np.transpose(v, turn)) for n, v in (("a", a), ("b", b))}
    before = clprim.kernel_launches()
    got = session.run(feed)["y"]
    assert clprim.kernel_launches() - before <= 6
    np.testing.assert_allclose(got, a.astype(np.float64) @ b, rtol=2e-5, atol=1e-4)
