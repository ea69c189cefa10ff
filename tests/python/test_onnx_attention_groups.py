"""Attention whose keys and values are repeated for groups of queries, as exporters write it, is one kernel that reads
each head once: ONNX's reference computes the same in float64."""
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from test_onnx_fused_attention import RNG, check, node  # noqa: E402

BATCH, QUERIES, KEYS, SIZE, VALUES = 2, 20, 30, 16, 8


def repeated(name, shape, times, target, prefix="", axis=2):
    """From [B, H, S, E] to [B, H times, S, E] by Unsqueeze, Expand and Reshape; the constants that it needs."""
    wide = [*shape[:axis], times, *shape[axis:]]
    return ([node("Unsqueeze", [name, prefix + "axis"], [prefix + "u"]),
             node("Expand", [prefix + "u", prefix + "wide"], [prefix + "e"]),
             node("Reshape", [prefix + "e", prefix + "target"], [prefix + "r"])],
            {prefix + "axis": np.array([axis]), prefix + "wide": np.array(wide), prefix + "target": np.array(target)})


def grouped(heads, times, target=None, form="eager", batch=BATCH, masked=False, factor=True, axis=2, queries=QUERIES):
    k_shape, v_shape = (batch, heads, KEYS, SIZE), (batch, heads, KEYS, VALUES)
    joined = target or [batch, heads * times, KEYS, -1]
    if form == "sdpa":
        nodes, constants = repeated("k", k_shape, times, [-1, KEYS, SIZE], "k", axis)
        nodes += [node("Transpose", ["kr"], ["kt3"], perm=[0, 2, 1]), node("Reshape", ["kt3", "split"], ["kt"])]
        constants["split"] = np.array([batch, heads * times, SIZE, KEYS])
    else:
        nodes, constants = repeated("k", k_shape, times, joined, "k", axis)
        nodes.append(node("Transpose", ["kr"], ["kt"], perm=[0, 1, 3, 2]))
    more, others = repeated("v", v_shape, times, joined, "v", axis)
    nodes += more
    constants |= others
    if factor:
        nodes += [node("Mul", ["q", "factor"], ["qs"]), node("Mul", ["kt", "factor"], ["ks"])]
    nodes.append(node("MatMul", ["qs", "ks"] if factor else ["q", "kt"], ["s"]))
    if masked:
        nodes.append(node("Add", ["s", "m"], ["t"]))
    nodes += [node("Softmax", ["t" if masked else "s"], ["p"], axis=-1), node("MatMul", ["p", "vr"], ["y"])]
    shapes = {"q": (batch, heads * times, queries, SIZE), "k": k_shape, "v": v_shape}
    if masked:
        shapes["m"] = (batch, 1, queries, KEYS)
    return nodes, shapes, constants


@pytest.mark.parametrize("heads, times", [(2, 3), (1, 4), (3, 1), (1, 1)])
@pytest.mark.parametrize("form", ["eager", "sdpa"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_one_kernel(heads, times, form, masked, batch):
    for factor in (False, True):
        nodes, shapes, constants = grouped(heads, times, None, form, batch, masked, factor)
        check(nodes, shapes, constants, launches=1)


@pytest.mark.parametrize("queries", [1, 5])
def test_few_queries(queries):
    nodes, shapes, constants = grouped(2, 4, masked=True, queries=queries)
    check(nodes, shapes, constants, launches=2)


@pytest.mark.parametrize("target", [[0, 6, KEYS, -1], [0, -1, 30, 16], [BATCH, -1, KEYS, SIZE], [-1, 6, KEYS, SIZE]])
def test_shapes_of_reshapes(target):
    nodes, shapes, constants = grouped(2, 3, target, factor=False)
    shapes["v"] = shapes["k"]
    constants["vwide"] = constants["kwide"]
    check(nodes, shapes, constants, launches=1)


def test_sizes_that_only_a_run_knows():
    nodes, shapes, constants = grouped(2, 3, factor=False)
    check(nodes, shapes, constants, launches=1, sizes=False)
    sizes = [node("Shape", ["k"], ["shape"]), node("Gather", ["shape", "places"], ["size"]),
             node("Mul", ["size", "by"], ["ktarget"])]
    constants |= {"places": np.arange(4), "by": np.array([1, 3, 1, 1])}
    del constants["ktarget"]
    check([*sizes, *nodes], shapes, constants, launches=1, sizes=False)


@pytest.mark.parametrize("zeros", [0, 1])
@pytest.mark.parametrize("batch", [1, 2])
def test_keys_whose_shape_is_read(zeros, batch):
    """As PyTorch's exporter writes scaled_dot_product_attention of sizes that only a run knows."""
    nodes, shapes, constants = grouped(2, 3, None, "sdpa", batch, factor=False)
    nodes[2] = node("Reshape", ["ke", "joined"], ["kj"], allowzero=zeros)
    nodes[3:5] = [node("Reshape", ["kj", "flat"], ["kf"]), node("Transpose", ["kf"], ["kt3"], perm=[0, 2, 1]),
                  node("Reshape", ["kt3", "split"], ["kt"])]
    model_nodes = [
        node("Shape", ["k"], ["b"], start=0, end=1), node("Shape", ["k"], ["rows0"], start=2, end=3),
        node("Concat", ["b", "six", "rows0", "last"], ["joined"], axis=0), *nodes[:3],
        node("Shape", ["kj"], ["shape"]), node("Slice", ["shape", "0", "2"], ["front"]),
        node("Slice", ["shape", "2", "3"], ["rows"]), node("Slice", ["shape", "3", "4"], ["columns"]),
        node("Concat", ["one", "rows", "columns"], ["flat"], axis=0),
        node("Concat", ["front", "columns", "rows"], ["split"], axis=0), *nodes[3:]]
    del constants["ktarget"], constants["split"]
    constants |= {"six": np.array([6]), "last": np.array([SIZE]), "one": np.array([-1]),
                  **{str(i): np.array([i]) for i in (0, 2, 3, 4)}}
    check(model_nodes, shapes, constants, launches=1 if zeros else None, sizes=False)


@pytest.mark.parametrize("shapes", [
    {"q": (2, 6, 20, 16), "k": (2, 1, 16, 30), "v": (2, 1, 30, 8)},
    {"q": (6, 20, 16), "k": (1, 16, 30), "v": (1, 30, 8)}])
@pytest.mark.parametrize("masked", [False, True])
def test_one_head_that_all_queries_see(shapes, masked):
    scores = [node("MatMul", ["q", "k"], ["s"]), *([node("Add", ["s", "m"], ["t"])] if masked else [])]
    check([*scores, node("Softmax", ["t" if masked else "s"], ["p"], axis=-1), node("MatMul", ["p", "v"], ["y"])],
          {**shapes, **({"m": (6, 20, 30)} if masked else {})}, launches=1)


def test_heads_innermost_but_one():
    """[B, S, H, E], repeated before heads come to the front."""
    constants, nodes = {}, []
    for name, size in {"k": SIZE, "v": VALUES}.items():
        more, others = repeated(name, (BATCH, KEYS, 2, size), 3, [BATCH, KEYS, 6, size], name, 3)
        nodes += more
        constants |= others
    nodes += [node("Einsum", ["q", "kr"], ["s"], equation="bqhd,bkhd->bhqk"),
              node("Softmax", ["s"], ["p"], axis=-1),
              node("Einsum", ["p", "vr"], ["y"], equation="bhqk,bkhd->bqhd")]
    shapes = {"q": (BATCH, QUERIES, 6, SIZE), "k": (BATCH, KEYS, 2, SIZE), "v": (BATCH, KEYS, 2, VALUES)}
    check(nodes, shapes, constants, launches=1)


def test_float16():
    nodes, shapes, constants = grouped(2, 3, masked=True, factor=False)
    check(nodes, shapes, constants, dtype=np.float16, tolerance=2e-3, launches=1)


def test_heads_one_after_the_other():
    """Query h sees head h modulo the heads: no groups of neighbours."""
    nodes, shapes, constants = grouped(2, 3, axis=1)
    check(nodes, shapes, constants)


def test_repetitions_that_differ():
    nodes, shapes, constants = grouped(2, 3)
    shapes["v"] = (BATCH, 3, KEYS, VALUES)
    constants["vwide"] = np.array([BATCH, 3, 2, KEYS, VALUES])
    check(nodes, shapes, constants)
    nodes, shapes, constants = grouped(2, 3)
    shapes["v"] = (BATCH, 6, KEYS, VALUES)
    check([n for n in nodes if n.output[0] not in {"vu", "ve", "vr"}][:-1] + [node("MatMul", ["p", "v"], ["y"])],
          shapes, {name: value for name, value in constants.items() if not name.startswith("v")})


def test_what_is_expanded_along_no_new_axis():
    """Expand copies its operand here: the heads of a group differ."""
    nodes, shapes, constants = grouped(2, 3)
    nodes = [n for n in nodes if n.op_type != "Unsqueeze"]
    for n in nodes:
        if n.op_type == "Expand":
            n.input[0] = n.input[0][0]
    shapes |= {"k": (BATCH, 2, 3, KEYS, SIZE), "v": (BATCH, 2, 3, KEYS, VALUES)}
    check(nodes, shapes, {name: value for name, value in constants.items() if "axis" not in name})


@pytest.mark.parametrize("seen", ["kr", "vr", "ke", "kt"])
def test_repetitions_that_others_read(seen):
    nodes, shapes, constants = grouped(2, 3)
    check(nodes, shapes, constants, outputs=("y", seen))
    check([*nodes, node("Neg", [seen], ["z"])], shapes, constants, outputs=("y", "z"))


def test_saved_models_have_onnxs_operators(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    nodes, shapes, constants = grouped(2, 3, None, "sdpa", masked=True)
    session, feed, results = check(nodes, shapes, constants, launches=1)
    session.save(tmp_path / "saved.onnx")
    again = ort.InferenceSession(tmp_path / "saved.onnx", providers=["CPUExecutionProvider"]).run(None, feed)
    np.testing.assert_allclose(again[0], results["y"], rtol=1e-5, atol=1e-5)


def test_random_repetitions():
    for _ in range(40):
        heads, times, batch = (int(RNG.integers(1, 4)) for _ in range(3))
        nodes, shapes, constants = grouped(heads, times, None, RNG.choice(["eager", "sdpa"]), batch,
                                           bool(RNG.integers(2)), bool(RNG.integers(2)), int(RNG.integers(1, 3)))
        check(nodes, shapes, constants)
