"""Attention whose scores a Reshape gives other leading axes for a mask (Swin's shifted windows, DeBERTa) is one kernel
that stores no scores: ONNX's reference computes the same in float64."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from test_onnx_fused_attention import RNG, check, node  # noqa: E402

ROWS, SIZE = 20, 16


def windows(batch, count, heads, bias=True, mask=True, last=None, rows=ROWS, where=False):
    """Swin's: scores [batch * count, heads, ...], a bias of heads, and a mask of windows in between."""
    scores = (batch * count, heads, rows, SIZE)
    nodes = [node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), node("Mul", ["q", "factor"], ["qs"]),
             node("MatMul", ["qs", "kt"], ["s"])]
    if bias:
        nodes.append(node("Add", ["s", "bias"], ["sb"]))
    nodes.append(node("Reshape", ["sb" if bias else "s", "between"], ["r"]))
    if mask:
        nodes.append(node("Where", ["hide", "least", "r"], ["rm"]) if where else node("Add", ["r", "mask"], ["rm"]))
    nodes += [node("Reshape", ["rm" if mask else "r", "again"], ["t"]), node("Softmax", ["t"], ["p"], axis=-1),
              node("MatMul", ["p", "v"], ["y"])]
    shapes = {"q": scores, "k": scores, "v": scores, **({"bias": (1, heads, rows, rows)} if bias else {})}
    if mask and not where:
        shapes["mask"] = (1, count, 1, rows, rows)
    constants = {"between": np.array([batch, count, heads, rows, rows]), "least": np.float64(-3e4),
                 "again": np.array(last or [-1, heads, rows, rows]), "factor": np.float64(0.25)}
    if where:
        constants["hide"] = RNG.random((1, count, 1, rows, rows)) < 0.3
    return nodes, shapes, constants


def disentangled(batch, heads, rows=ROWS, hidden=True, bias=True):
    """DeBERTa's: scores [batch * heads, ...] with a bias for each, then [batch, heads, ...] where padding is hidden."""
    flat = (batch * heads, rows, SIZE)
    nodes = [node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), node("Div", ["kt", "root"], ["ks"]),
             node("MatMul", ["q", "ks"], ["s"])]
    if bias:
        nodes.append(node("Add", ["s", "bias"], ["sb"]))
    nodes.append(node("Reshape", ["sb" if bias else "s", "between"], ["r"]))
    if hidden:
        nodes.append(node("Where", ["hide", "least", "r"], ["rm"]))
    nodes += [node("Softmax", ["rm" if hidden else "r"], ["p"], axis=-1), node("Reshape", ["p", "flat"], ["pf"]),
              node("MatMul", ["pf", "v"], ["y"])]
    hide = np.zeros((batch, 1, rows, rows), bool)
    hide[-1, :, :, rows // 2:] = True
    constants = {"between": np.array([-1, heads, rows, rows]), "flat": np.array([-1, rows, rows]), "hide": hide,
                 "root": np.float64(4), "least": np.float64(-3e38)}
    biases = {"bias": (batch * heads, rows, rows)} if bias else {}
    return nodes, {"q": flat, "k": flat, "v": flat, **biases}, constants


@pytest.mark.parametrize("batch, count", [(1, 4), (1, 1), (3, 4), (2, 1)])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("bias, mask", [(True, True), (False, True), (True, False)])
def test_windows(batch, count, heads, bias, mask):
    nodes, shapes, constants = windows(batch, count, heads, bias, mask)
    check(nodes, shapes, constants, launches=batch + (bias and mask))
    check(nodes, shapes, constants, launches=batch + (bias and mask), sizes=False)


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float16, 4e-3)])
def test_masks_that_never_change_are_added_once(dtype, tolerance):
    nodes, shapes, constants = windows(1, 4, 3)
    constants |= {name: np.random.default_rng(3).standard_normal(shapes.pop(name)) for name in ("bias", "mask")}
    scaled = dtype != np.float32         # q, by itself
    check(nodes, shapes, constants, dtype=dtype, tolerance=tolerance, launches=1 + scaled)


@pytest.mark.parametrize("bias", [False, True])
def test_windows_that_hide(bias):
    nodes, shapes, constants = windows(1, 4, 3, bias, where=True)
    check(nodes, shapes, constants)


@pytest.mark.parametrize("batch, heads", [(1, 3), (2, 3), (3, 1), (1, 1)])
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_disentangled(batch, heads, hidden, bias):
    nodes, shapes, constants = disentangled(batch, heads, hidden=hidden, bias=bias)
    check(nodes, shapes, constants, launches=1 + 2 * hidden + bias)


@pytest.mark.parametrize("inner", ["Where", "Add"])
def test_rows_that_are_hidden_twice(inner):
    """A row of which a Where leaves nothing is one of equal numbers, whichever of them were hidden before."""
    nodes, shapes, constants = windows(1, 4, 3, where=True)
    before = RNG.random((4, 1, ROWS, ROWS)) < 0.3
    if inner == "Where":
        nodes[3] = node("Where", ["before", "lowest", "s"], ["sb"])
        constants["before"] = before
    else:
        constants["bias"] = np.where(before, -3e38, 0.0)
    del shapes["bias"]
    constants["hide"][:, 1, :, 3:6] = True
    constants |= {"lowest": np.float64(-3e38), "least": np.float64(-3e38)}
    check(nodes, shapes, constants)
    constants["between"] = np.array([1, 4, 1, 3, ROWS, ROWS])      # node by node
    constants["hide"] = constants["hide"][:, :, :, None]
    check(nodes, {**shapes, "q": (4, 3, ROWS, 264), "k": (4, 3, ROWS, 264)}, constants)


@pytest.mark.parametrize("between, again", [
    ([2, 4, 3, ROWS, ROWS], [8, 3, ROWS, ROWS]), ([8, 1, 3, ROWS, ROWS], [8, 3, ROWS, ROWS]),
    ([4, 2, 1, 3, ROWS, ROWS], [8, -1, ROWS, ROWS]), ([1, 8, 3, ROWS, ROWS], [8, 3, ROWS, ROWS]),
    ([0, 0, 0, 0], [8, 3, ROWS, ROWS]), ([8, 3, 1, ROWS, ROWS], [8, 3, ROWS, ROWS]),
    ([24, ROWS, ROWS], [8, 3, ROWS, ROWS]),                # axes joined
    ([6, 4, ROWS, ROWS], [8, 3, ROWS, ROWS]),              # and cut across
    ([2, 4, 3, ROWS * ROWS], [8, 3, ROWS, ROWS]),
    ([2, 4, 3, 10, 2, ROWS], [8, 3, ROWS, ROWS]),
    ([2, 4, 3, ROWS, ROWS], [8, 3, 10, 40]),               # not what it was
    ([2, 4, 3, 10, 40], [8, 3, ROWS, ROWS])])
def test_shapes(between, again):
    nodes, shapes, constants = windows(2, 4, 3, mask=False)
    constants |= {"between": np.array(between), "again": np.array(again)}
    if again[-1] == 40:
        shapes["v"] = (8, 3, 40, SIZE)
    check(nodes, shapes, constants)


@pytest.mark.parametrize("mask", [(2, 4, 3, ROWS, ROWS), (ROWS, ROWS), (4, 1, 1, ROWS), (2, 1, 1, 1, 1), (1,),
                                  (2, 4, 1, ROWS, 1), (1, 1, 3, 1, ROWS)])
@pytest.mark.parametrize("bias", [(8, 3, ROWS, ROWS), (8, 1, 1, ROWS), (3, 1, 1), (ROWS,)])
def test_masks(mask, bias):
    nodes, shapes, constants = windows(2, 4, 3)
    check(nodes, {**shapes, "mask": mask, "bias": bias}, constants)


def test_masks_that_widen_scores():
    nodes, shapes, constants = windows(1, 4, 3, last=[-1, 3, ROWS, ROWS])
    wider = {"mask": (2, 4, 3, ROWS, ROWS), "v": (1, 3, ROWS, SIZE)}
    check(nodes, {**shapes, **wider}, constants)


def test_one_reshape_alone():
    nodes, shapes, constants = windows(1, 4, 3)
    nodes = [n for n in nodes if n.output[0] != "t"]
    nodes[-2].input[0] = "rm"
    check(nodes, {**shapes, "v": (1, 4, 3, ROWS, SIZE)}, constants)
    nodes, shapes, constants = disentangled(2, 3)
    nodes = [n for n in nodes if n.output[0] != "pf"]
    nodes[-1].input[0] = "p"
    check(nodes, {**shapes, "v": (2, 3, ROWS, SIZE)}, constants)


def test_masks_and_numbers_behind_the_second():
    nodes, shapes, constants = windows(1, 4, 3)
    for more in (node("Add", ["t", "late"], ["t2"]), node("Mul", ["t", "late"], ["t2"])):
        changed = [*nodes[:-2], more, node("Softmax", ["t2"], ["p"], axis=-1), nodes[-1]]
        check(changed, shapes, {**constants, "late": np.float64(0.5)})


@pytest.mark.parametrize("axis", [-2, 1, 3])
def test_softmax_along_another_axis(axis):
    for nodes, shapes, constants in (windows(2, 4, 3), disentangled(2, 3)):
        [softmax] = [n for n in nodes if n.op_type == "Softmax"]
        softmax.attribute[0].i = axis
        check(nodes, shapes, constants)


@pytest.mark.parametrize("seen", ["s", "r", "t", "p"])
def test_scores_that_others_read(seen):
    nodes, shapes, constants = windows(1, 4, 3)
    check([*nodes, node("Neg", [seen], ["z"])], shapes, constants, outputs=("y", "z"))
    check(nodes, shapes, constants, outputs=("y", seen))


def test_heads_that_lie_apart():
    """One product makes q, k and v, as Swin has it."""
    nodes, shapes, constants = windows(2, 4, 3)
    parts = [node("Transpose", ["qkv"], ["w"], perm=[2, 0, 3, 1, 4])]
    parts += [node("Gather", ["w", str(i)], [name], axis=0) for i, name in enumerate("qkv")]
    check([*parts, *nodes, node("Transpose", ["y"], ["z"], perm=[0, 2, 1, 3])],
          {"qkv": (8, ROWS, 3, 3, SIZE), "bias": shapes["bias"], "mask": shapes["mask"]},
          {**constants, **{str(i): np.array(i) for i in range(3)}}, outputs=("z",), launches=3)


def test_saved_models_have_onnxs_operators(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    for form in (windows(2, 4, 3), windows(1, 4, 3, where=True), disentangled(2, 3)):
        session, feed, results = check(*form)
        session.save(tmp_path / "saved.onnx")
        again = ort.InferenceSession(tmp_path / "saved.onnx", providers=["CPUExecutionProvider"]).run(None, feed)
        np.testing.assert_allclose(again[0], results["y"], rtol=1e-5, atol=1e-5)
