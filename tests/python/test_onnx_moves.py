"""Images that are rolled and cut into windows, as exporters write it, are one copy: NumPy-like reference by ONNX."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from test_onnx_fused_attention import RNG, check, node  # noqa: E402

END = np.iinfo(np.int64).max


def roll(x, y, shift, size, axis, end=END):
    """y = x rolled so that what stood at `shift` comes first."""
    names = {f"{y}.{i}": np.array([value]) for i, value in enumerate([0, shift, end, axis])}
    return [node("Slice", [x, f"{y}.1", f"{y}.2", f"{y}.3"], [y + "a"]),
            node("Slice", [x, f"{y}.0", f"{y}.1", f"{y}.3"], [y + "b"]),
            node("Concat", [y + "a", y + "b"], [y], axis=axis)], names


def windows(x, y, shape, target, perm, last):
    return [node("Reshape", [x, y + ".cut"], [y + "c"]), node("Transpose", [y + "c"], [y + "t"], perm=perm),
            node("Reshape", [y + "t", y + ".last"], [y])], {y + ".cut": np.array(target), y + ".last": np.array(last)}


def chain(*parts):
    nodes, constants = [], {}
    for more, names in parts:
        nodes += more
        constants |= names
    return nodes, constants


def shifted(batch=2, height=14, width=21, window=7, size=16, shift=3):
    high, wide = height // window, width // window
    return chain(roll("x", "r", shift, height, 1), roll("r", "s", shift, width, 2),
                 windows("s", "y", None, [batch, high, window, wide, window, size], [0, 1, 3, 2, 4, 5],
                         [-1, window * window, size]))


def back(batch=2, height=14, width=21, window=7, size=16, shift=3, order=(1, 2)):
    high, wide = height // window, width // window
    sizes = {1: height, 2: width}
    return chain(windows("x", "w", None, [batch, high, wide, window, window, size], [0, 1, 3, 2, 4, 5],
                         [batch, height, width, size]),
                 roll("w", "r", sizes[order[0]] - shift, sizes[order[0]], order[0], sizes[order[0]]),
                 roll("r", "y", sizes[order[1]] - shift, sizes[order[1]], order[1], sizes[order[1]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("size", [16, 17, 96])
def test_shifted_windows(dtype, size):
    for sizes in (True, False):
        nodes, constants = shifted(size=size)
        check(nodes, {"x": (2, 14, 21, size)}, constants, launches=1, dtype=dtype, tolerance=0, sizes=sizes)
        for order in ((1, 2), (2, 1)):
            nodes, constants = back(size=size, order=order)
            check(nodes, {"x": (12, 49, size)}, constants, launches=1, dtype=dtype, tolerance=0, sizes=sizes)


def test_other_sizes_in_one_session():
    import clprim
    from test_onnx_fused_attention import model
    nodes, constants = chain(roll("x", "r", 3, 0, 1), roll("r", "y", 2, 0, 2))
    session = clprim.Session(model(nodes, {"x": (1, 1, 1, 1)}, constants, np.float32, sizes=False))
    for shape in [(1, 8, 9, 16), (2, 8, 9, 16), (1, 8, 9, 16), (1, 3, 2, 16), (1, 2, 1, 16), (1, 8, 9, 3),
                  (0, 8, 9, 16)]:
        x = RNG.standard_normal(shape).astype(np.float32)
        for _ in range(3):
            y = session.run({"x": x})["y"]
            rolled = np.concatenate([x[:, 3:], x[:, :3]], 1)
            np.testing.assert_array_equal(y, np.concatenate([rolled[:, :, 2:], rolled[:, :, :2]], 2))


@pytest.mark.parametrize("first, second", [((3, END), (0, 3)), ((2, END), (0, 3)), ((0, 3), (3, END)),
                                           ((-3, END), (0, -3)),
                                           ((5, 5), (0, END)), ((1, 100), (-100, 4)), ((0, END), (0, END))])
def test_parts_of_any_kind(first, second):
    """Parts that overlap, leave something out or are empty are moves all the same."""
    for axis in (1, 2, -2, 0, 3, -1):
        parts = [node("Slice", ["x", f"b{i}", f"e{i}", "axis"], [name]) for i, name in enumerate("ab")]
        constants = {"axis": np.array([axis])} | {f"{'be'[j]}{i}": np.array([part[j]])
                                                  for i, part in enumerate((first, second)) for j in range(2)}
        check([*parts, node("Concat", ["a", "b"], ["y"], axis=axis)], {"x": (6, 6, 6, 16)}, constants, tolerance=0)


def test_steps_and_several_axes():
    for steps in ([1, 1], [2, 1], [1, 3], [-1, 1]):
        cut = {"b": np.array([0, 2]), "e": np.array([END, END]), "a": np.array([1, 2]), "z": np.array([0, 0]),
               "s": np.array(steps)}
        nodes = [node("Slice", ["x", "b", "e", "a", "s"], ["p"]), node("Slice", ["x", "b", "e", "a", "s"], ["q"]),
                 node("Concat", ["p", "q"], ["y"], axis=2)]
        check(nodes, {"x": (2, 5, 7, 16)}, cut, tolerance=0)
        nodes[1] = node("Slice", ["x", "z", "e", "a", "s"], ["q"])
        check(nodes, {"x": (2, 5, 7, 16)}, cut, tolerance=0)


@pytest.mark.parametrize("cut, last", [([2, 2, 7, 3, 7, 16], [12, 49 * 16]), ([2, 2, 7, 3, 7, 16], [12, 49, 4, 4]),
                                       ([2, 14, 21, 16, 1, 1], [-1, 16]), ([0, 0, 3, 7, 0 + 4, 4], [2, -1, 16])])
def test_reshapes_that_cut_rows(cut, last):
    nodes, constants = shifted()
    constants |= {"y.cut": np.array(cut), "y.last": np.array(last)}
    check(nodes, {"x": (2, 14, 21, 16)}, constants, tolerance=0)


@pytest.mark.parametrize("perm", [[0, 1, 3, 2, 5, 4], [5, 0, 1, 2, 3, 4], [4, 3, 2, 1, 0, 5]])
def test_transpositions(perm):
    nodes, constants = shifted()
    [turn] = [n for n in nodes if n.op_type == "Transpose"]
    turn.attribute[0].ints[:] = perm
    constants["y.last"] = np.array([-1])
    check(nodes, {"x": (2, 14, 21, 16)}, constants, tolerance=0)


@pytest.mark.parametrize("seen", ["ra", "sb", "r", "s", "yc", "yt"])
def test_values_that_others_read(seen):
    nodes, constants = shifted()
    check(nodes, {"x": (2, 14, 21, 16)}, constants, outputs=("y", seen), tolerance=0)
    check([*nodes, node("Neg", [seen], ["z"])], {"x": (2, 14, 21, 16)}, constants, outputs=("y", "z"), tolerance=0)


def test_halves_of_channels():
    """Long parts are moved as such."""
    nodes, constants = roll("x", "y", 8, 16, 1)
    check(nodes, {"x": (2, 16, 5, 3)}, constants, launches=1, tolerance=0)


def test_saved_models_have_onnxs_operators(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    nodes, constants = shifted()
    session, feed, results = check(nodes, {"x": (2, 14, 21, 16)}, constants)
    session.save(tmp_path / "saved.onnx")
    again = ort.InferenceSession(tmp_path / "saved.onnx", providers=["CPUExecutionProvider"]).run(None, feed)
    np.testing.assert_array_equal(again[0], results["y"])
