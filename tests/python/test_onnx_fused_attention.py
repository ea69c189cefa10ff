"""Attention that exporters write as products and a softmax: ONNX's reference computes the same in float64, and sessions
launch one kernel for it where they can."""
import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

RNG = np.random.default_rng(5)
node = helper.make_node


def model(nodes, shapes, constants, dtype, outputs=("y",), sizes=True):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, kind, shape if sizes else [None] * len(shape))
                       for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value, dtype if value.dtype.kind == "f" else None), name)
         for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def attention(scale="Mul", masked=False, turned=True, axis=-1):
    """Of q, k, v and m; k is turned here or comes turned."""
    nodes = [node("MatMul", ["q", "kt" if turned else "k"], ["s0"])]
    if turned:
        nodes.insert(0, node("Transpose", ["k"], ["kt"], perm=turned))
    if scale:
        order = ["factor", "s0"] if scale == "Mul swapped" else ["s0", "factor"]
        nodes.append(node(scale.split()[0], order, ["s1"]))
    if masked:
        nodes.append(node("Add", ["m", "s1" if scale else "s0"] if masked == "swapped" else
                          ["s1" if scale else "s0", "m"], ["s2"]))
    nodes += [node("Softmax", [nodes[-1].output[0]], ["p"], axis=axis), node("MatMul", ["p", "v"], ["y"])]
    return nodes


def check(nodes, shapes, constants=None, launches=None, dtype=np.float32, tolerance=1e-5, outputs=("y",), casts=False,
          sizes=True):
    constants = {"factor": np.float64(0.3), **(constants or {})}
    rng = np.random.default_rng(5)       # whichever tests ran before
    feed = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    given = {name: value.astype(dtype) for name, value in feed.items()}
    wide = [node(n.op_type, n.input, n.output, to=onnx.TensorProto.DOUBLE) if casts and n.op_type == "Cast" else n
            for n in nodes]
    exact = ReferenceEvaluator(model(wide, shapes, constants, np.float64, outputs)).run(
        None, {name: value.astype(np.float64) for name, value in given.items()})
    session = clprim.Session(model(nodes, shapes, constants, dtype, outputs, sizes))
    for _ in range(3):
        before = clprim.kernel_launches()
        results = session.run(given)
        count = clprim.kernel_launches() - before
        for name, right in zip(outputs, exact):
            assert results[name].dtype == dtype
            np.testing.assert_allclose(results[name], right, rtol=tolerance, atol=tolerance)
    if launches is not None:
        assert count <= launches
    return session, given, results


@pytest.mark.parametrize("shapes, turned", [
    ({"q": (3, 20, 16), "k": (3, 30, 16), "v": (3, 30, 24)}, [0, 2, 1]),
    ({"q": (2, 3, 20, 16), "k": (2, 3, 30, 16), "v": (2, 3, 30, 24)}, [0, 1, 3, 2]),
    ({"q": (2, 3, 17, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 1)}, None),
    ({"q": (2, 3, 9, 256), "k": (2, 1, 3, 256), "v": (2, 3, 1, 256)}, [0, 2, 3, 1]),
    ({"q": (2, 3, 17, 16), "k": (2, 30, 3, 16), "v": (2, 3, 30, 8)}, [0, 2, 3, 1])])
@pytest.mark.parametrize("scale", [None, "Mul", "Mul swapped", "Div"])
@pytest.mark.parametrize("masked", [False, True, "swapped"])
def test_one_kernel(shapes, turned, scale, masked):
    queries, keys = shapes["q"][-2], shapes["v"][-2]
    for mask in [(queries, keys), (1, keys), (keys,), (1,) * (len(shapes["q"]) - 1) + (keys,),
                 (*shapes["q"][:-1], keys)] if masked else [None]:
        given = {**shapes, "m": mask} if masked else shapes
        check(attention(scale, masked, turned), given, launches=1)


@pytest.mark.parametrize("changed", [
    {"q": (2, 3, 4, 16)},                                    # few queries, on CPUs
    {"q": (2, 3, 20, 264), "k": (2, 3, 264, 30)},            # long heads
    {"k": (2, 1, 16, 30)},                                   # keys of all heads
    {"v": (1, 1, 30, 8)},
    {"m": (5, 2, 3, 20, 30)},                                # a mask of more axes
    {"q": (20, 16)}, {"q": (2, 3, 20, 16), "m": (4, 2, 3, 20, 30)}])
def test_operands_of_other_shapes(changed):
    shapes = {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 8), "m": (20, 30), **changed}
    if shapes["q"][-2] == 4:
        shapes["m"] = (4, 30)
    check(attention("Mul", True, None), shapes)


def test_numbers_that_are_no_scale():
    shapes = {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 8)}
    check(attention("Mul", False, None), shapes, {"factor": np.linspace(0, 1, 30)})
    check(attention("Mul", False, None), shapes, {"factor": np.full((1, 1, 1, 1, 1), 0.5)})
    nodes = attention("Div", False, None)
    nodes[1] = node("Div", ["factor", "s0"], ["s1"])         # the number by the product
    nodes[0] = node("Exp", ["q"], ["s0"])
    check([*nodes[:2], node("MatMul", ["s1", "k"], ["s2"]), node("Softmax", ["s2"], ["p"]),
           node("MatMul", ["p", "v"], ["y"])], shapes)


@pytest.mark.parametrize("seen", ["s0", "s1", "p"])
def test_scores_that_others_read(seen):
    shapes = {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 8)}
    check([*attention("Mul", False, None), node("Neg", [seen], ["z"])], shapes, outputs=("y", "z"))
    check(attention("Mul", False, None), shapes, outputs=("y", seen))


@pytest.mark.parametrize("axis", [-2, 1, 3])
def test_softmax_along_another_axis(axis):
    check(attention("Mul", False, None, axis), {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 8)})


@pytest.mark.parametrize("dtype, tolerance", [(np.float16, 2e-3), (np.float64, 1e-12)])
def test_other_dtypes(dtype, tolerance):
    if dtype == np.float64 and not clprim.devices()[0].fp64:
        pytest.skip("the device has no float64")
    nodes = attention(None, True, None)
    check(nodes, {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 8), "m": (20, 30)}, dtype=dtype,
          tolerance=tolerance, launches=1)


def test_heads_are_put_together_without_a_copy():
    """The whole of a layer's attention, from [B, L, H E] to it, is one launch."""
    split = [node("Reshape", [name, "split"], [f"{name}4"]) for name in "abc"]
    turn = [node("Transpose", ["a4"], ["q"], perm=[0, 2, 1, 3]), node("Transpose", ["b4"], ["k"], perm=[0, 2, 3, 1]),
            node("Transpose", ["c4"], ["v"], perm=[0, 2, 1, 3])]
    join = [node("Transpose", ["y"], ["y4"], perm=[0, 2, 1, 3]), node("Reshape", ["y4", "joined"], ["z"])]
    shape = (2, 20, 48)
    check([*split, *turn, *attention("Mul", False, None), *join], {"a": shape, "b": shape, "c": shape},
          {"split": np.array([0, 0, 3, 16]), "joined": np.array([0, 0, 48])}, outputs=("z",), launches=1)


@pytest.mark.parametrize("scale", ["size", "any size", "runs", "many"])
@pytest.mark.parametrize("masked", [False, True])
def test_roots_of_a_scale(scale, masked):
    """As PyTorch's exporter writes it: q and k by the root of 1 / sqrt(E), which comes from a shape. Such of a run's
    numbers, and such for each number of a head, are left as they are."""
    source = [node("Shape", ["q"], ["shape"]), node("Slice", ["shape", "last", "end"], ["size"]),
              node("Cast", ["size"], ["real"], to=1), node("Sqrt", ["real"], ["root"]),
              node("Div", ["one", "root"], ["scale"])] if "size" in scale else [node("Abs", ["given"], ["scale"])]
    nodes = attention(None, masked, None)
    nodes[0] = node("MatMul", ["qs", "ks"], ["s0"])
    shapes = {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 8)}
    if masked:
        shapes["m"] = (20, 30)
    if "size" not in scale:
        shapes["given"] = (1,) if scale == "runs" else (16, 1)
    turn = [node("Transpose", ["f"], ["ft"])]
    model_nodes = [*source, node("Sqrt", ["scale"], ["f"]), *(turn if scale == "many" else []),
                   node("Identity", ["scale"], ["seen"]), node("Sqrt", ["seen"], ["f2"]),
                   node("Mul", ["q", "ft" if scale == "many" else "f"], ["qs"]), node("Mul", ["k", "f2"], ["ks"]),
                   *nodes]
    constants = {"last": np.array([-1]), "end": np.array([4]), "one": np.array([1.0])}
    if "size" in scale:      # the reference is computed in float64: its cast must be, too
        check(model_nodes, shapes, constants, launches=1, casts=True, sizes=scale == "size")
    else:
        check(model_nodes, shapes, constants)


def test_saved_models_have_onnxs_operators(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    shapes = {"q": (2, 3, 20, 16), "k": (2, 3, 30, 16), "v": (2, 3, 30, 8), "m": (20, 30)}
    session, feed, results = check(attention("Mul", True, [0, 1, 3, 2]), shapes, launches=1)
    session.save(tmp_path / "saved.onnx")
    again = ort.InferenceSession(tmp_path / "saved.onnx", providers=["CPUExecutionProvider"]).run(None, feed)
    np.testing.assert_allclose(again[0], results["y"], rtol=1e-5, atol=1e-5)


def test_a_scale_that_changes_from_run_to_run():
    nodes = [node("Abs", ["given"], ["scale"]), node("Sqrt", ["scale"], ["f"]), node("Mul", ["q", "f"], ["qs"]),
             node("MatMul", ["qs", "k"], ["s0"]), *attention(None, False, None)[1:]]
    shapes = {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 8), "given": (1,)}
    session = clprim.Session(model(nodes, shapes, {}, np.float32))
    exact = ReferenceEvaluator(model(nodes, shapes, {}, np.float64))
    feed = {name: RNG.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    for number in (1, 1, 1, 4, 0.25):
        feed["given"] = np.array([number], np.float32)
        right = exact.run(None, {name: value.astype(np.float64) for name, value in feed.items()})[0]
        np.testing.assert_allclose(session.run(feed)["y"], right, rtol=1e-5, atol=1e-5)
