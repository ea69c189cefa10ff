"""Whole models against ONNX Runtime: networks written by hand as other frameworks write them, PyTorch's exports, a
trained text detector; and operators with many attributes over random choices of them."""
import io
import itertools
import pathlib
import sys
import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import helper, numpy_helper

import clprim
import onnx_graphs

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))


def both(model, inputs):
    """Outputs of clprim and of ONNX Runtime, by name."""
    data = model if isinstance(model, bytes) else model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    reference = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    expected = dict(zip([output.name for output in reference.get_outputs()], reference.run(None, inputs)))
    results = clprim.Session(data).run(inputs)
    return {name: np.asarray(value) for name, value in results.items()}, expected


def assert_same(model, inputs, limit=1e-4):
    results, expected = both(model, inputs)
    for name, want in expected.items():
        got = results[name]
        assert got.shape == want.shape and got.dtype == want.dtype, (name, got.shape, got.dtype, want.shape, want.dtype)
        difference = np.linalg.norm(got.astype(np.float64) - want.astype(np.float64))
        assert difference <= limit * max(np.linalg.norm(want.astype(np.float64)), 1e-6), (name, difference)


def single(kind, inputs, outputs=1, opset=17, domain="", **attributes):
    """A model of one node, with its inputs as inputs of the graph; None is an absent one, empty arrays are
    constants."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    given = {name: x for name, x in zip(names, inputs) if x is not None and x.size}
    constants = [numpy_helper.from_array(x, name) for name, x in zip(names, inputs) if x is not None and not x.size]
    node = helper.make_node(kind, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype),
                                           x.shape) for n, x in given.items()]
    graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)],
                              constants)
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=8), given


def uniform(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


@pytest.mark.parametrize("name", onnx_graphs.NETWORKS)
def test_networks_of_other_frameworks(name):
    model = onnx_graphs.NETWORKS[name]()
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    assert_same(model, {"x": uniform(*shape)})


def exported(module, arguments, opset, **options):
    torch = pytest.importorskip("torch")
    target = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), arguments, target, dynamo=False, opset_version=opset, input_names=["x"],
                          **options)
    return target.getvalue()


@pytest.mark.parametrize("name,opset", [("squeezenet1_0", 9), ("resnet18", 11), ("mobilenet_v2", 13),
                                        ("mnasnet0_5", 17)])
def test_exported_networks(name, opset):
    torch, torchvision = pytest.importorskip("torch"), pytest.importorskip("torchvision")
    torch.manual_seed(1)
    model = getattr(torchvision.models, name)(weights=None)
    data = exported(model, (torch.rand(1, 3, 64, 64),), opset, dynamic_axes={"x": {0: "batch"}})
    for batch in (1, 3):
        assert_same(data, {"x": uniform(batch, 3, 64, 64, seed=batch)})


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_exported_recurrent_layers(kind):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    layer = getattr(torch.nn, kind)(5, 7, num_layers=2, bidirectional=True, batch_first=True)
    assert_same(exported(layer, (torch.rand(2, 6, 5),), 14), {"x": uniform(2, 6, 5)})


def test_exported_transformer():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)
    former = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        model = exported(layer, (torch.rand(2, 6, 16),), 17)
    finally:
        torch.backends.mha.set_fastpath_enabled(former)
    assert_same(model, {"x": uniform(2, 6, 16)})


def test_text_detector_finds_the_same_boxes():
    """The trained PP-OCRv4 detector with its own pre- and postprocessing, on the photograph of a page."""
    rapidocr = pytest.importorskip("rapidocr_onnxruntime")
    data = pytest.importorskip("skimage.data")
    page = np.ascontiguousarray(np.repeat(data.page()[:, :, None], 3, axis=2))
    detector = rapidocr.RapidOCR().text_det
    expected, _ = detector(page)
    session = clprim.Session(str(pathlib.Path(rapidocr.__file__).parent / "models/ch_PP-OCRv4_det_infer.onnx"))
    name = session.input_names[0]
    detector.infer = lambda picture: [np.asarray(value) for value in session.run({name: picture}).values()]
    boxes, _ = detector(page)
    assert len(boxes) == len(expected) > 3
    assert np.abs(boxes - expected).max() <= 1


@pytest.mark.parametrize("shape", [(1, 4, 6, 6), (1, 4, 1, 1), (6, 6), (3, 4, 6, 6)], ids=str)
@pytest.mark.parametrize("activation", [None, "Relu", "Sigmoid", "LeakyRelu", "HardSigmoid"])
def test_sums_behind_convolutions(shape, activation):
    """What is added to a convolution may have its shape or broadcast, either way."""
    x, z, w = uniform(1, 3, 6, 6), uniform(*shape, seed=1), uniform(4, 3, 3, 3, seed=2)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["z"], ["r"]),
             helper.make_node("Add", ["r", "c"], ["s"]), helper.make_node(activation or "Identity", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "sum", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape),
                                             helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert_same(model, {"x": x, "z": z})


@pytest.mark.parametrize("seed", range(12))
def test_convolutions(seed):
    r = np.random.default_rng(seed)
    axes = int(r.integers(1, 4))
    groups, per_group, outs = int(r.integers(1, 3)), int(r.integers(1, 4)), int(r.integers(1, 4))
    kernel = r.integers(1, 4, axes)
    size = r.integers(8, 14, axes)
    attributes = dict(strides=r.integers(1, 3, axes).tolist(), dilations=r.integers(1, 3, axes).tolist(), group=groups,
                      kernel_shape=kernel.tolist())
    if seed % 3 == 0:
        attributes["auto_pad"] = str(r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
        attributes["dilations"] = [1] * axes
    else:
        attributes["pads"] = r.integers(0, 3, 2 * axes).tolist()
    x = uniform(2, groups * per_group, *size, seed=seed)
    bias = uniform(groups * outs) if seed % 2 else None
    assert_same(*single("Conv", [x, uniform(groups * outs, per_group, *kernel, seed=1), bias], **attributes))
    if "auto_pad" not in attributes:
        strides = attributes["strides"]
        attributes["output_padding"] = [int(r.integers(0, s)) for s in strides]
        attributes["pads"] = [0] * (2 * axes) if min(kernel) == 1 else r.integers(0, 2, 2 * axes).tolist()
        assert_same(*single("ConvTranspose", [x, uniform(groups * per_group, outs, *kernel, seed=1), bias],
                            **attributes))


@pytest.mark.parametrize("seed", range(12))
def test_poolings(seed):
    r = np.random.default_rng(seed)
    axes = int(r.integers(1, 4))
    kernel, size = r.integers(2, 5, axes), r.integers(9, 14, axes)
    pads = np.concatenate([r.integers(0, kernel), r.integers(0, kernel)]).tolist()
    attributes = dict(kernel_shape=kernel.tolist(), strides=r.integers(1, 3, axes).tolist(),
                      ceil_mode=int(r.integers(0, 2)))
    if seed % 4 == 0:
        attributes |= dict(auto_pad=str(r.choice(["SAME_UPPER", "SAME_LOWER"])), ceil_mode=0)
    else:
        attributes["pads"] = pads
    x = uniform(2, 3, *size, seed=seed)
    assert_same(*single("AveragePool", [x], count_include_pad=int(r.integers(0, 2)) * (seed % 4 != 0) *
                        (1 - attributes["ceil_mode"]), **attributes))
    assert_same(*single("MaxPool", [x], outputs=2, **attributes))
    if seed % 4:
        assert_same(*single("MaxPool", [x], outputs=2, storage_order=1, dilations=[2] * axes, opset=12,
                            **(attributes | dict(kernel_shape=[2] * axes, pads=[1] * (2 * axes)))))


COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.parametrize("mode,coordinates", itertools.product(["nearest", "linear", "cubic"], COORDINATES))
def test_resize(mode, coordinates):
    x = uniform(1, 2, 7, 9)
    for opset, (h, w), rounding in itertools.product([11, 13, 19], [(14, 27), (3, 4), (10, 5), (1, 9)],
                                                     ["round_prefer_floor", "floor"] if mode == "nearest" else [None]):
        attributes = dict(mode=mode, coordinate_transformation_mode=coordinates)
        if rounding:
            attributes["nearest_mode"] = rounding
        empty = np.zeros(0, np.float32)
        assert_same(*single("Resize", [x, empty, empty, np.array([1, 2, h, w])], opset=opset, **attributes))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiased_resize(mode):
    x = uniform(1, 2, 16, 20)
    assert_same(*single("Resize", [x, None, None, np.array([7, 9])], opset=18, mode=mode, antialias=1, axes=[2, 3],
                        exclude_outside=1))


@pytest.mark.parametrize("equation,shapes", [
    ("ij,jk->ik", [(3, 4), (4, 5)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (1, 3, 4, 5)]),
    ("ii->i", [(4, 4)]), ("ii", [(4, 4)]), ("ij->ji", [(3, 4)]), ("ij", [(3, 4)]),
    ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("i,j->ij", [(3,), (4,)]), ("ij,j,k->ik", [(3, 4), (4,), (5,)]), ("abc,cd,def->abef",
                                                                      [(2, 3, 4), (4, 5), (5, 2, 3)]),
    ("ij,ij->", [(3, 4), (3, 4)]), ("bn,anm,bm->ba", [(2, 3), (4, 3, 5), (2, 5)]), ("...i->...", [(2, 3, 4)]),
])
def test_einsum(equation, shapes):
    assert_same(*single("Einsum", [uniform(*shape, seed=i) for i, shape in enumerate(shapes)], equation=equation))


@pytest.mark.parametrize("a,b", [((4,), (4,)), ((4,), (4, 3)), ((2, 4), (4,)), ((3, 1, 2, 4), (5, 4, 3)),
                                 ((2, 3, 4), (4, 5)), ((4,), (2, 4, 3)), ((2, 2, 3, 4), (2, 1, 4, 2))])
def test_matmul(a, b):
    for dtype in (np.float32, np.int32):
        model, inputs = single("MatMul", [(uniform(*a) * 10).astype(dtype), (uniform(*b, seed=1) * 10).astype(dtype)])
        assert_same(model, inputs)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind,gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers(kind, gates, direction):
    steps, batch, inputs, hidden, d = 5, 3, 4, 6, 2 if direction == "bidirectional" else 1
    arguments = [uniform(steps, batch, inputs), uniform(d, gates * hidden, inputs, seed=1),
                 uniform(d, gates * hidden, hidden, seed=2),
                 uniform(d, 2 * gates * hidden, seed=3), np.array([5, 2, 3], np.int32),
                 uniform(d, batch, hidden, seed=4)]
    attributes = dict(hidden_size=hidden, direction=direction)
    if kind == "LSTM":
        arguments += [uniform(d, batch, hidden, seed=5), uniform(d, 3 * hidden, seed=6)]
    outputs = 3 if kind == "LSTM" else 2
    assert_same(*single(kind, arguments, outputs, 14, **attributes))
    assert_same(*single(kind, arguments[:3], outputs, 14, **attributes))
    if kind == "GRU":
        assert_same(*single(kind, arguments, outputs, 14, linear_before_reset=1, **attributes))
    activations = {"RNN": ["LeakyRelu"], "GRU": ["HardSigmoid", "Softsign"],
                   "LSTM": ["HardSigmoid", "Elu", "Softplus"]}[kind]
    assert_same(*single(kind, arguments[:4], outputs, 14, activations=activations * d, clip=0.7, **attributes))


@pytest.mark.parametrize("steps,batch,hidden", [(3, 5, 16), (9, 1, 20), (9, 7, 37), (6, 20, 130), (9, 4, 523),
                                                (10, 8, 528), (8, 1, 600)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind,gates", [("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers_of_many_sequences(kind, gates, direction, steps, batch, hidden):
    d = 2 if direction == "bidirectional" else 1
    lengths = (np.arange(batch) * 2 % steps + 1).astype(np.int32)
    arguments = [uniform(steps, batch, 3), uniform(d, gates * hidden, 3, seed=1),
                 uniform(d, gates * hidden, hidden, seed=2) / np.float32(hidden ** 0.5),
                 uniform(d, 2 * gates * hidden, seed=3), lengths, uniform(d, batch, hidden, seed=4)]
    attributes = dict(hidden_size=hidden, direction=direction)
    if kind == "LSTM":
        arguments.append(uniform(d, batch, hidden, seed=5))
    else:
        attributes["linear_before_reset"] = 1
    outputs = 3 if kind == "LSTM" else 2
    for given in (arguments, arguments[:4], arguments[:3] + [None, lengths]):
        assert_same(*single(kind, given, outputs, 14, **attributes))


@pytest.mark.parametrize("kind,inputs,outputs,attributes", [
    ("SkipLayerNormalization", [uniform(2, 3, 8), uniform(2, 3, 8, seed=1), uniform(8), uniform(8), uniform(8)], 4, {}),
    ("SkipLayerNormalization", [uniform(2, 3, 8), uniform(2, 3, 8, seed=1), uniform(8)], 1, dict(epsilon=1e-5)),
    ("SkipSimplifiedLayerNormalization", [uniform(2, 3, 8), uniform(2, 3, 8, seed=1), uniform(8)], 4,
     dict(epsilon=1e-5)),
    ("Gelu", [uniform(3, 5)], 1, {}), ("BiasGelu", [uniform(3, 5), uniform(5)], 1, {}),
    ("FastGelu", [uniform(3, 5), uniform(5)], 1, {}), ("QuickGelu", [uniform(3, 5)], 1, {}),
    ("FusedMatMul", [uniform(2, 3, 4), uniform(2, 5, 4)], 1, dict(transB=1, alpha=0.5)),
    ("FusedMatMul", [uniform(3, 2, 4), uniform(2, 4, 5)], 1, dict(transBatchA=1)),
])
def test_contributed_operators(kind, inputs, outputs, attributes):
    model, given = single(kind, inputs, outputs, domain="com.microsoft", **attributes)
    if outputs == 4:                                   # only the norm and the sum
        node = model.graph.node[0]
        del node.output[:]
        node.output.extend(["y0", "", "", "y3"])
        del model.graph.output[1:3]
    assert_same(model, given)


@pytest.mark.parametrize("kind,inputs,attributes,message", [
    ("Conv", [uniform(1, 3, 5, 5), uniform(2, 3, 3, 3)], dict(pads=[1, 1]), "pads"),
    ("Conv", [uniform(1, 3, 5, 5), uniform(2, 3, 3)], {}, "axes"),
    ("Conv", [uniform(1, 3, 5, 5), uniform(2, 4, 3, 3)], {}, "channels"),
    ("MaxPool", [uniform(1, 3, 5, 5)], dict(kernel_shape=[7, 7]), "no window"),
    ("MaxPool", [uniform(1, 3, 5, 5)], dict(kernel_shape=[2, 2], strides=[0, 1]), "positive"),
    ("Gemm", [uniform(3, 4), uniform(3, 4)], {}, "do not fit"),
    ("MatMul", [uniform(3, 4), uniform(3, 4)], {}, "do not fit"),
    ("Einsum", [uniform(3, 4)], dict(equation="ij->k"), "output"),
    ("Resize", [uniform(1, 1, 4, 4), None, np.array([1, 1, 2], np.float32)], {}, "scales"),
    ("DepthToSpace", [uniform(1, 3, 4, 4)], dict(blocksize=2), "blocks"),
    ("BatchNormalization", [uniform(1, 3, 4, 4), *[uniform(2)] * 4], {}, "expected"),
    ("LSTM", [uniform(5, 3, 4), uniform(1, 24, 4), uniform(1, 20, 6)], dict(hidden_size=6), "shape"),
    ("GroupNormalization", [uniform(1, 3, 4), uniform(2), uniform(2)], dict(num_groups=2), "groups"),
])
def test_errors_name_the_node(kind, inputs, attributes, message):
    model, given = single(kind, inputs, opset=18, **attributes)
    model.graph.node[0].name = "culprit"
    with pytest.raises(ValueError, match=f"{kind} 'culprit'.*{message}"):
        clprim.Session(model.SerializeToString()).run(given)
