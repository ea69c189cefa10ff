"""Attention in the forms in which exporters write it is one kernel: ONNX's reference computes the same in float64."""
import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402
from test_onnx_fused_attention import RNG, check, model, node  # noqa: E402

SHAPES = {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 8)}
LEAST = float(np.finfo(np.float32).min)


def between(steps, product=None, ending=None):
    """From the scores s to t, by `steps`; the softmax and what follows."""
    return [*(product or [node("MatMul", ["q", "k"], ["s"])]), *steps, node("Softmax", ["t"], ["p"], axis=-1),
            *(ending or [node("MatMul", ["p", "v"], ["y"])])]


def number(value):
    return np.asarray(value, np.float64)


SCALED = node("Mul", ["s", "factor"], ["s1"])


def hidden_where(keeps, of="s1", to="t", seen="seen", constant="hidden"):
    return node("Where", [seen, of, constant] if keeps else [seen, constant, of], [to])


@pytest.mark.parametrize("shape", [(2, 1, 1, 30), (20, 30), (2, 3, 20, 30)])
@pytest.mark.parametrize("hidden", [-1e4, -1e9, LEAST])
@pytest.mark.parametrize("keeps", [False, True])
def test_scores_that_where_replaces(shape, hidden, keeps):
    """Also where a row has no key at all, which makes its scores equal."""
    mask = RNG.random(shape) > 0.4
    mask[..., 3 if len(shape) == 2 else -1, :] = not keeps
    check(between([SCALED, hidden_where(keeps)]), SHAPES, {"hidden": number(hidden), "seen": mask}, launches=1)


@pytest.mark.parametrize("keeps", [False, True])
def test_where_of_what_a_run_knows(keeps):
    nodes = between([SCALED, node("Greater", ["m", "zero"], ["seen"]), hidden_where(keeps)])
    check(nodes, {**SHAPES, "m": (2, 1, 1, 30)}, {"hidden": number(-1e9), "zero": number(0)}, launches=3)


@pytest.mark.parametrize("hidden", [-5, 1e9, np.linspace(-1e9, -1e5, 30)])
def test_where_of_numbers_that_hide_nothing(hidden):
    check(between([SCALED, hidden_where(True)]), SHAPES,
          {"hidden": number(hidden), "seen": RNG.random((20, 30)) > 0.4})


def test_rows_without_keys_are_nothing():
    """As PyTorch's exporters write it: NaN of a row of -inf becomes 0."""
    mask = RNG.random((2, 1, 20, 30)) > 0.4
    mask[1, :, 4] = False
    ending = [node("IsNaN", ["p"], ["nan"]), node("Where", ["nan", "zero", "p"], ["p1"]),
              node("MatMul", ["p1", "v"], ["y"])]
    chosen = node("Where", ["seen", "zero", "hidden"], ["m"])
    with np.errstate(invalid="ignore"):
        check(between([chosen, node("Add", ["s", "m"], ["t"])], ending=ending), SHAPES,
              {"hidden": number(-np.inf), "zero": number(0), "seen": mask}, launches=1)
        check(between([hidden_where(True, "s")], ending=ending), SHAPES,
              {"hidden": number(-np.inf), "zero": number(0), "seen": mask}, launches=1)
    other = [*ending[:1], node("Where", ["nan", "one", "p"], ["p1"]), ending[2]]
    check(between([SCALED, node("Identity", ["s1"], ["t"])], ending=other), SHAPES, {"one": number(1)})


@pytest.mark.parametrize("order", ["add add", "where add", "add where", "where where"])
@pytest.mark.parametrize("hidden", [LEAST, -np.inf, -1e4])
def test_two_masks(order, hidden):
    """A row without keys that is hidden by -1e4 and by less is its keys of -1e4."""
    first, second = order.split()
    steps = [SCALED, node("Add", ["s1", "b"], ["s2"]) if first == "add" else hidden_where(True, "s1", "s2"),
             node("Add", ["m", "s2"], ["t"]) if second == "add" else
             hidden_where(False, "s2", "t", "unseen", "hidden2")]
    seen, unseen = RNG.random((20, 30)) > 0.3, RNG.random((2, 1, 1, 30)) < 0.2
    seen[:, 0], unseen[..., 0] = True, False
    if hidden == -1e4 and order == "where where":      # a sum with -1e4 is rounded to thousandths
        seen[5], unseen[1] = False, True
    shapes = {**SHAPES, **({"b": (3, 20, 30)} if first == "add" else {}),
              **({"m": (2, 1, 1, 30)} if second == "add" else {})}
    check(between(steps), shapes,
          {"hidden": number(hidden), "hidden2": number(LEAST), "seen": seen, "unseen": unseen},
          launches=2 if hidden < -1e4 or order == "add add" else None)


def test_masks_are_made_once():
    layers = between([SCALED, hidden_where(True)])
    renamed = [node(n.op_type, [{"q": "y"}.get(i, i + "_2" if i in {"s", "s1", "t", "p"} else i) for i in n.input],
                    ["z" if o == "y" else o + "_2" for o in n.output],
                    **{a.name: helper.get_attribute_value(a) for a in n.attribute}) for n in layers]
    mask = node("Greater", ["m", "factor"], ["seen"])
    check([mask, *layers, *renamed], {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 16), "m": (30,)},
          {"hidden": number(-1e9)}, launches=4, outputs=("z",))


@pytest.mark.parametrize("of", ["q", "k", "both"])
@pytest.mark.parametrize("kind", ["Mul", "Div"])
@pytest.mark.parametrize("moved", [False, True])
def test_operands_times_a_number(of, kind, moved):
    """In front of the product, or before heads are split."""
    names = {"q": ["q"], "k": ["k"], "both": ["q", "k"]}[of]
    nodes, operands = [], {"q": "q", "k": "k"}
    shapes = {"q": (2, 20, 48), "k": (2, 30, 48), "v": (2, 3, 30, 8)} if moved else SHAPES
    for name in names:
        nodes.append(node(kind, [name, "factor"], [name + "f"]))
        operands[name] = name + "f"
    if moved:
        for name in "qk":
            nodes += [node("Reshape", [operands[name], "heads"], [name + "r"]),
                      node("Transpose", [name + "r"], [name + "t"], perm=[0, 2, 1, 3] if name == "q" else [0, 2, 3, 1])]
            operands[name] = name + "t"
    check(between([node("Identity", ["s"], ["t"])], [*nodes, node("MatMul", [operands["q"], operands["k"]], ["s"])]),
          shapes, {"heads": np.array([0, 0, 3, 16])}, launches=1)


def test_scaled_operands_that_others_read():
    nodes = between([node("Identity", ["s"], ["t"])],
                    [node("Mul", ["q", "factor"], ["qf"]), node("Transpose", ["qf"], ["qt"], perm=[0, 1, 3, 2]),
                     node("Transpose", ["qt"], ["qs"], perm=[0, 1, 3, 2]), node("MatMul", ["qs", "k"], ["s"])])
    check([*nodes, node("Neg", ["qf"], ["z"])], SHAPES, outputs=("y", "z"))
    check(nodes, SHAPES, outputs=("y", "qf"))


CAP = [node("Mul", ["s", "factor"], ["s1"]), node("Div", ["s1", "cap"], ["c"]), node("Tanh", ["c"], ["h"]),
       node("Mul", ["h", "cap"], ["s2"])]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cap", [0.5, 3.0, 50.0])
@pytest.mark.parametrize("queries", [1, 20])
def test_softcaps(masked, cap, queries):
    """Gemma 2: the scores' tanh, times what they were divided by."""
    steps = [*CAP, node("Add", ["s2", "m"], ["t"]) if masked else node("Identity", ["s2"], ["t"])]
    shapes = {**SHAPES, "q": (2, 3, queries, 16), **({"m": (queries, 30)} if masked else {})}
    check(between(steps), shapes, {"cap": number(cap)}, launches=2)


@pytest.mark.parametrize("steps", [
    [node("Tanh", ["s"], ["t"])], [CAP[0], node("Tanh", ["s1"], ["h"]), node("Mul", ["h", "cap"], ["t"])],
    [CAP[0], node("Tanh", ["s1"], ["h"]), node("Mul", ["h", "factor"], ["h2"]), node("Mul", ["cap", "h2"], ["t"])]])
def test_softcaps_of_other_numbers(steps):
    check(between(steps), SHAPES, {"cap": number(7)}, launches=1)


@pytest.mark.parametrize("steps", [
    [*CAP[:3], node("Mul", ["h", "minus"], ["t"])],
    [SCALED, node("Add", ["s1", "m"], ["a"]), node("Tanh", ["a"], ["h"]), node("Mul", ["h", "cap"], ["t"])],
    [*CAP, node("Tanh", ["s2"], ["h2"]), node("Mul", ["h2", "cap"], ["t"])]])
def test_tanh_that_is_no_softcap(steps):
    shapes = {**SHAPES, **({"m": (20, 30)} if any("m" in n.input for n in steps) else {})}
    check(between(steps), shapes, {"cap": number(3), "minus": number(-2)})


@pytest.mark.parametrize("scores, values, shapes", [
    ("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd", {"q": (2, 3, 20, 16), "k": (2, 3, 30, 16), "v": (2, 3, 30, 8)}),
    ("bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", {"q": (2, 20, 3, 16), "k": (2, 30, 3, 16), "v": (2, 30, 3, 8)}),
    ("aecd,abcd->acbe", "acbe,aecd->abcd", {"q": (2, 30, 3, 16), "k": (2, 20, 3, 16), "v": (2, 30, 3, 8)}),   # Keras
    ("bid,bjd->bij", "bij,bjd->bid", {"q": (2, 20, 16), "k": (2, 30, 16), "v": (2, 30, 8)}),
    ("bhqd, bhdk -> bhqk", "bhkd, bhqk -> qbhd", {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 30, 8)}),
    ("hdbq,dbkh->bhqk", "bhqk,kbhd->dqbh", {"q": (3, 16, 2, 20), "k": (16, 2, 30, 3), "v": (30, 2, 3, 8)})])
def test_einsum(scores, values, shapes):
    order = ["v", "p"] if values.startswith("bhkd, ") else ["p", "v"]
    check(between([node("Mul", ["s", "factor"], ["t"])], [node("Einsum", ["q", "k"], ["s"], equation=scores)],
                  [node("Einsum", order, ["y"], equation=values)]), shapes, launches=1)


@pytest.mark.parametrize("scores, values", [
    ("bhqd,bhkd->bhqk", "bhqk,bhkd->bqd"), ("bhqd,bhkd->bhkq", "bhkq,bhqd->bhkd"),
    ("bhqd,hkd->bhqk", "bhqk,bhkd->bhqd"), ("...qd,...kd->...qk", "...qk,...kd->...qd"),
    ("bhqd,bhkd->bhqk", "bhqk,bhqd->bhqd"), ("bhqd,bhkd->hqkb", "hqkb,bhkd->bhqd")])
def test_einsum_of_other_forms(scores, values):
    shapes = {"q": (2, 3, 16, 16), "k": (3, 16, 16) if ",hkd" in scores else (2, 3, 16, 16), "v": (2, 3, 16, 16)}
    check(between([node("Mul", ["s", "factor"], ["t"])], [node("Einsum", ["q", "k"], ["s"], equation=scores)],
                  [node("Einsum", ["p", "v"], ["y"], equation=values)]), shapes)


@pytest.mark.parametrize("shapes", [SHAPES, {"q": (3, 20, 16), "k": (3, 16, 30), "v": (3, 30, 8)}])
def test_turned_values(shapes):
    """As detectors write it: v^T p^T."""
    shapes = {**shapes, "v": (*shapes["v"][:-2], 8, 30)}
    perm = [0, 1, 3, 2] if len(shapes["q"]) == 4 else [0, 2, 1]
    ending = [node("Transpose", ["p"], ["pt"], perm=perm), node("MatMul", ["v", "pt"], ["y"])]
    check(between([node("Mul", ["s", "factor"], ["t"])], ending=ending), shapes, launches=1)


def test_values_of_other_transpositions():
    check(between([node("Mul", ["s", "factor"], ["t"])],
                  ending=[node("Transpose", ["p"], ["pt"], perm=[1, 0, 2, 3]), node("MatMul", ["pt", "v"], ["y"])]),
          {"q": (3, 3, 20, 16), "k": (3, 3, 16, 30), "v": (3, 3, 30, 8)})
    check(between([node("Mul", ["s", "factor"], ["t"])],
                  ending=[node("Transpose", ["p"], ["pt"], perm=[0, 1, 3, 2]), node("MatMul", ["pt", "v"], ["y"])]),
          {"q": (2, 3, 20, 16), "k": (2, 3, 16, 30), "v": (2, 3, 20, 8)})


@pytest.mark.parametrize("opset, axis", [(11, 3), (12, 3), (12, 2), (17, 3), (17, 2)])
def test_axes_counted_from_the_front(opset, axis):
    nodes = [node("MatMul", ["q", "k"], ["s"]), node("Softmax", ["s"], ["p"], axis=axis),
             node("MatMul", ["p", "v"], ["y"])]
    feed = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    written = model(nodes, SHAPES, {}, np.float32)
    written.opset_import[0].version = opset
    scores = feed["q"].astype(np.float64) @ feed["k"]
    over = (2, 3) if axis == 2 and opset < 13 else axis          # all axes from it on, in old operator sets
    weights = np.exp(scores - scores.max(over, keepdims=True))
    right = weights / weights.sum(over, keepdims=True) @ feed["v"]
    np.testing.assert_allclose(clprim.Session(written).run(feed)["y"], right, rtol=1e-5, atol=1e-5)


def test_conversions_that_change_nothing():
    """Softmax in float32 of what is float32 already, as transformers ask for it."""
    to_float = [node("Cast", ["p"], ["p1"], to=1), node("Cast", ["p1"], ["p2"], to=1),
                node("MatMul", ["p2", "v"], ["y"])]
    feed = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    session = clprim.Session(model(between([node("Cast", ["s"], ["t"], to=1)], ending=to_float), SHAPES, {},
                                   np.float32))
    plain = clprim.Session(model(between([node("Identity", ["s"], ["t"])]), SHAPES, {}, np.float32))
    before = clprim.kernel_launches()
    result = session.run(feed)["y"]
    assert clprim.kernel_launches() == before + 1
    assert np.array_equal(result, plain.run(feed)["y"])


def test_half_precision_with_a_softmax_in_float32():
    nodes = between([node("Cast", ["s"], ["t"], to=1)],
                    ending=[node("Cast", ["p"], ["p1"], to=10), node("MatMul", ["p1", "v"], ["y"])])
    feed = {name: RNG.standard_normal(shape).astype(np.float16) for name, shape in SHAPES.items()}
    session = clprim.Session(model(nodes, SHAPES, {}, np.float16))
    before = clprim.kernel_launches()
    result = session.run(feed)["y"]
    assert clprim.kernel_launches() == before + 1 and result.dtype == np.float16
    wide = {name: value.astype(np.float32) for name, value in feed.items()}
    right = clprim.Session(model(between([node("Identity", ["s"], ["t"])]), SHAPES, {}, np.float32)).run(wide)["y"]
    np.testing.assert_allclose(result, right, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("form", ["", "rows first", "turned", "turned, rows first"])
def test_products_that_onnxruntime_fused(form):
    ort = pytest.importorskip("onnxruntime")
    first, turned = int("rows first" in form), "turned" in form

    def product(inputs, output, **attributes):
        return helper.make_node("FusedMatMul", inputs, [output], domain="com.microsoft", **attributes)

    ending = product(["v", "p"], "y", transA=1, transB=1, transBatchA=first) if turned else \
        product(["p", "v"], "y", transBatchB=first)
    nodes = between([node("Add", ["s", "m"], ["t"])],
                    [product(["q", "k"], "s", transB=1, alpha=0.3, transBatchA=first, transBatchB=first)], [ending])
    shapes = {"q": (20, 2, 3, 16), "k": (30, 2, 3, 16), "v": (30, 2, 3, 8)} if first else \
        {"q": (2, 3, 20, 16), "k": (2, 3, 30, 16), "v": (2, 3, 30, 8)}
    shapes["m"] = (2, 1, 1, 30)
    written = model(nodes, shapes, {}, np.float32)
    written.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    feed = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    right = ort.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)[0]
    session = clprim.Session(written)
    before = clprim.kernel_launches()
    np.testing.assert_allclose(session.run(feed)["y"], right, rtol=1e-5, atol=1e-5)
    assert clprim.kernel_launches() == before + 1


def test_saved_forms_have_onnxs_operators(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    nodes = between([SCALED, hidden_where(True, "s1", "s2"), node("Add", ["s2", "m"], ["t"])],
                    [node("Mul", ["q", "factor"], ["qf"]), node("MatMul", ["qf", "k"], ["s"])])
    session, feed, results = check(nodes, {**SHAPES, "m": (2, 1, 1, 30)},
                                   {"hidden": number(LEAST), "seen": RNG.random((20, 30)) > 0.3}, launches=2)
    session.save(tmp_path / "saved.onnx")
    again = ort.InferenceSession(tmp_path / "saved.onnx", providers=["CPUExecutionProvider"]).run(None, feed)
    np.testing.assert_allclose(again[0], results["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("innermost", [True, False])
@pytest.mark.parametrize("batch", [1, 2])
def test_images_whose_channels_lie_innermost(innermost, batch):
    """YOLO's attention: queries, keys and values are channels of a convolution, the result is an image again."""
    heads, size, values, side = 3, 8, 16, 5
    channels, pixels = heads * (2 * size + values), side * side
    nodes = [node("Transpose", ["x"], ["c"], perm=[0, 3, 1, 2])] if innermost else [node("Identity", ["x"], ["c"])]
    nodes += [node("Reshape", ["c", "heads"], ["h"]), node("Split", ["h", "parts"], ["q", "k", "v"], axis=2),
              node("Transpose", ["q"], ["qt"], perm=[0, 1, 3, 2]), node("MatMul", ["qt", "k"], ["s"]),
              node("Mul", ["s", "factor"], ["t"]), node("Softmax", ["t"], ["p"], axis=-1),
              node("Transpose", ["p"], ["pt"], perm=[0, 1, 3, 2]), node("MatMul", ["v", "pt"], ["o"]),
              node("Reshape", ["o", "image"], ["i"]), node("Reshape", ["v", "image"], ["w"]),
              node("Add", ["i", "w"], ["y"])]
    shape = (batch, side, side, channels) if innermost else (batch, channels, side, side)
    check(nodes, {"x": shape}, {"heads": np.array([batch, heads, 2 * size + values, pixels]),
                                "parts": np.array([size, size, values]),
                                "image": np.array([batch, heads * values, side, side])}, launches=3 + innermost)
