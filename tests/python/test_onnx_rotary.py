"""Rotary embeddings as exporters write them are one kernel; ONNX's reference computes the same in float64."""
import itertools

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from test_onnx_fused_attention import RNG, check, node  # noqa: E402

END = np.iinfo(np.int64).max
SHAPE = (2, 3, 7, 16)                                      # batch, heads, tokens, size


def halves(x, size, cut="Slice", neighbours=False, axis=-1):
    """first and second of x, and the constants for it."""
    if cut == "Slice":
        parts = [(0, END, 2), (1, END, 2)] if neighbours else [(0, size // 2, 1), (size // 2, END, 1)]
        constants = {name + "012"[i]: np.array([part[i]]) for name, part in zip("fs", parts) for i in range(3)}
        constants["axis"] = np.array([axis])
        return [node("Slice", [x, name + "0", name + "1", "axis", name + "2"], [result])
                for name, result in zip("fs", ["first", "second"])], constants
    inputs = [x] if cut == "Split" else [x, "sizes"]
    constants = {} if cut == "Split" else {"sizes": np.array([size // 2, size // 2])}
    return [node("Split", inputs, ["first", "second"], axis=axis)], constants


def joined(a, b, result, shape, neighbours=False, axis=-1):
    if not neighbours:
        return [node("Concat", [a, b], [result], axis=axis)], {}
    return [node("Unsqueeze", [a, "last"], [a + "u"]), node("Unsqueeze", [b, "last"], [b + "u"]),
            node("Concat", [a + "u", b + "u"], [result + "p"], axis=axis),
            node("Reshape", [result + "p", "whole"], [result])], {"last": np.array([-1]), "whole": np.array(shape)}


def of_whole(shape, cut="Slice", neighbours=False, axis=-1, target=None, order=0):
    first, constants = halves("x", shape[-1], cut, neighbours, axis)
    join, more = joined("opposite", "first", "turned", target or shape, neighbours,
                        axis if axis < 0 or not neighbours else axis + 1)
    swap = lambda a, b, bit: [b, a] if order >> bit & 1 else [a, b]           # noqa: E731
    return [*first, node("Neg", ["second"], ["opposite"]), *join,
            node("Mul", swap("x", "cos", 0), ["a"]), node("Mul", swap("turned", "sin", 1), ["b"]),
            node("Add", swap("a", "b", 2), ["y"])], constants | more


def of_pairs(shape, cut="Slice", neighbours=False, order=0, target=None):
    first, constants = halves("x", shape[-1], cut, neighbours)
    join, more = joined("low", "high", "y", target or shape, neighbours)
    swap = lambda a, b, bit: [b, a] if order >> bit & 1 else [a, b]           # noqa: E731
    return [*first, node("Mul", swap("first", "cos", 0), ["fc"]), node("Mul", swap("second", "sin", 1), ["ss"]),
            node("Mul", swap("second", "cos", 2), ["sc"]), node("Mul", swap("sin", "first", 3), ["fs"]),
            node("Sub", ["fc", "ss"], ["low"]), node("Add", swap("sc", "fs", 4), ["high"]), *join], constants | more


def given(shape, angles):
    return {"x": shape, "cos": angles, "sin": angles}


@pytest.mark.parametrize("neighbours, cut", [(False, "Slice"), (False, "Split sized"), (True, "Slice")])
@pytest.mark.parametrize("angles", [SHAPE[-2:], (2, 1, *SHAPE[-2:]), (7, 1), SHAPE])
@pytest.mark.parametrize("form", [of_whole, of_pairs])
def test_one_kernel(form, neighbours, cut, angles):
    if form is of_pairs and angles[-1] > 1:
        angles = (*angles[:-1], angles[-1] // 2)
    for order in (0, 5, 18):
        nodes, constants = form(SHAPE, cut, neighbours, order=order)
        check(nodes, given(SHAPE, angles), constants, launches=1)
        check(nodes, given(SHAPE, angles), constants, launches=1, sizes=False)


@pytest.mark.parametrize("target", [[0, 0, 0, 16], [2, -1, 7, 16], [2, 3, 7, -1], [0, 3, -1, 16]])
def test_shapes_that_join_neighbours(target):
    for form in (of_whole, of_pairs):
        nodes, constants = form(SHAPE, "Slice", True, target=target)
        check(nodes, given(SHAPE, (7, 16 if form is of_whole else 8)), constants, launches=1)


def test_axes_counted_from_the_front():
    for neighbours in (False, True):
        nodes, constants = of_whole(SHAPE, "Slice", neighbours, 3)
        check(nodes, given(SHAPE, SHAPE[-2:]), constants, launches=1)


@pytest.mark.parametrize("dtype, tolerance", [(np.float16, 4e-3), (np.float64, 1e-12)])
def test_other_dtypes(dtype, tolerance):
    nodes, constants = of_whole(SHAPE)
    check(nodes, given(SHAPE, SHAPE[-2:]), constants, dtype=dtype, tolerance=tolerance, launches=1)


@pytest.mark.parametrize("order", [["y", "rest"], ["rest", "y"]])
def test_operands_that_lie_otherwise(order):
    """Heads come by a transposition, and what is left of the last axis is appended, or stands in front."""
    nodes, constants = of_whole(SHAPE)
    constants |= {"zero": np.array([0]), "cut": np.array([16]), "end": np.array([END]), "axis": np.array([-1])}
    before = [node("Transpose", ["w"], ["t"], perm=[0, 2, 1, 3]), node("Slice", ["t", "zero", "cut", "axis"], ["x"]),
              node("Slice", ["t", "cut", "end", "axis"], ["rest"])]
    check([*before, *nodes, node("Concat", order, ["z"], axis=-1)],
          {"w": (2, 7, 3, 24), "cos": (7, 16), "sin": (7, 16)}, constants, outputs=("z",), launches=2)


def test_other_concatenations():
    shapes = {**given(SHAPE, (7, 16)), "other": SHAPE}
    nodes, constants = of_whole(SHAPE)
    for inputs, axis in ((["y", "other"], 2), (["y", "y"], -1), (["y", "other", "other"], -1), (["y", "x"], 3),
                         (["other", "y"], 0), (["y", "cos4"], -1)):
        more = [node("Expand", ["cos", "wide"], ["cos4"])] if "cos4" in inputs else []
        check([*nodes, *more, node("Concat", inputs, ["z"], axis=axis)], shapes,
              {**constants, **({"wide": np.array(SHAPE)} if more else {})}, outputs=("z",))


@pytest.mark.parametrize("shape, angles", [
    (SHAPE, (5, 2, 3, 7, 16)), ((1, 3, 7, 16), (2, 1, 7, 16)), ((2, 3, 7, 20), (7, 1)), ((2, 3, 1, 16), (7, 16)),
    ((0, 3, 7, 16), (7, 16))])
def test_operands_of_other_shapes(shape, angles):
    """x is broadcast, or not cut in the middle."""
    nodes, constants = of_whole(SHAPE)
    check(nodes, given(shape, angles), constants)


def test_another_axis():
    for axis in (-2, 2):
        nodes, constants = of_whole((2, 3, 7, 16), axis=axis)
        check(nodes, given((2, 3, 16, 16), (16, 16)), constants)


@pytest.mark.parametrize("name, value", [("f1", 6), ("s0", 9), ("s1", 12), ("f2", 2), ("f0", 1), ("s0", -8)])
def test_other_cuts(name, value):
    """Parts that are no halves, where they fit beside the others at all."""
    nodes, constants = of_whole((2, 16))
    constants[name] = np.array([value])
    sizes = [len(range(16)[int(constants[c + "0"][0]):min(int(constants[c + "1"][0]), 16):int(constants[c + "2"][0])])
             for c in "fs"]
    if sum(sizes) == 16:
        check(nodes, given((2, 16), (16,)), constants)
    else:
        shapes = {"x": (2, 16), "cos": (16,), "sin": (sum(sizes),)}
        wide = [*nodes[:-1], node("ReduceSum", ["a"], ["c"]), node("ReduceSum", ["b"], ["d"]),
                node("Add", ["c", "d"], ["y"])]
        check(wide, shapes, constants)


def test_signs_and_places():
    """Whatever is no rotation stays what it is."""
    changes = [("Neg", ["first"], None), ("Concat", ["first", "opposite"], None), ("Mul", ["turned", "cos"], None),
               ("Mul", ["opposite", "sin"], None)]
    for op, inputs, _ in changes:
        nodes, constants = of_whole((2, 3, 7, 16))
        [*same] = [n for n in nodes if n.op_type == op]
        same[-1].input[:] = inputs
        shapes = given((2, 3, 7, 16), (7, 16))
        if inputs[0] == "opposite":
            shapes["sin"] = (7, 1)
            nodes = [n for n in nodes if n.op_type != "Add"] + [node("ReduceSum", ["a"], ["c"]),
                                                                node("ReduceSum", ["b"], ["d"]),
                                                                node("Add", ["c", "d"], ["y"])]
        check(nodes, shapes, constants)
    for i, (a, b) in itertools.product(range(4), itertools.product(("first", "second"), ("cos", "sin"))):
        nodes, constants = of_pairs((2, 3, 7, 16))
        [n for n in nodes if n.op_type == "Mul"][i].input[:] = [a, b]
        check(nodes, given((2, 3, 7, 16), (7, 8)), constants)
    nodes, constants = of_pairs((2, 3, 7, 16))
    [difference] = [n for n in nodes if n.op_type == "Sub"]
    difference.input[:] = ["ss", "fc"]
    check(nodes, given((2, 3, 7, 16), (7, 8)), constants)


@pytest.mark.parametrize("mixed", [of_whole, of_pairs])
def test_halves_joined_as_neighbours_and_back(mixed):
    for cut, neighbours in (("Slice", False), ("Split", False), ("Slice", True)):
        nodes, constants = mixed(SHAPE, cut, neighbours)
        join, more = joined(*("opposite", "first", "turned") if mixed is of_whole else ("low", "high", "y"), SHAPE,
                            not neighbours)
        names = {n for part in join for n in part.output} | {"turnedp", "oppositeu", "firstu", "yp", "lowu", "highu"}
        at = next(i for i, n in enumerate(nodes) if set(n.output) & names)
        rest = [n for n in nodes if not set(n.output) & names]
        check([*rest[:at], *join, *rest[at:]], given(SHAPE, (7, 16 if mixed is of_whole else 8)),
              {k: v for k, v in (constants | more).items()})


@pytest.mark.parametrize("seen", ["first", "second", "opposite", "turned", "a", "b"])
def test_parts_that_others_read(seen):
    nodes, constants = of_whole(SHAPE)
    check(nodes, given(SHAPE, SHAPE[-2:]), constants, outputs=("y", seen))
    check([*nodes, node("Exp", [seen], ["z"])], given(SHAPE, SHAPE[-2:]), constants, outputs=("y", "z"))


def test_what_is_no_number():
    """x keeps its infinities and what is none to itself and its partner."""
    import clprim
    from onnx.reference import ReferenceEvaluator
    from test_onnx_fused_attention import model
    nodes, constants = of_whole(SHAPE)
    shapes = given(SHAPE, SHAPE[-2:])
    feed = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    feed["x"][0, 0, 0, :3] = [np.nan, np.inf, -np.inf]
    right, = ReferenceEvaluator(model(nodes, shapes, constants, np.float32)).run(None, feed)
    y = clprim.Session(model(nodes, shapes, constants, np.float32)).run(feed)["y"]
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(right))
    np.testing.assert_allclose(y[np.isfinite(y)], right[np.isfinite(y)], rtol=1e-5, atol=1e-5)


def test_saved_models_have_onnxs_operators(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    for cut, neighbours in (("Split sized", False), ("Slice", True)):
        nodes, constants = of_whole(SHAPE, cut, neighbours)
        session, feed, results = check(nodes, given(SHAPE, SHAPE[-2:]), constants, launches=1)
        session.save(tmp_path / "saved.onnx")
        again = ort.InferenceSession(tmp_path / "saved.onnx", providers=["CPUExecutionProvider"]).run(None, feed)
        np.testing.assert_allclose(again[0], results["y"], rtol=1e-5, atol=1e-5)
