"""Nets written as ONNX models: valid for onnx.checker, and ONNX Runtime computes what the net computes."""
import subprocess
import sys

import numpy as np
import pytest

import clprim

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

IMAGE, VOLUME, ROW, SEQUENCE = (2, 4, 9, 7), (2, 4, 5, 6, 7), (2, 4, 9), (2, 5, 12)
CONVOLUTION = {"channels_out": 6, "kernel": [3, 2], "stride": [2, 1], "pad": [1, 0], "dilate": [1, 2], "groups": 2}

# Type, shapes of the inputs, options.
OPERATORS = [
    ("Convolution2D", [IMAGE], CONVOLUTION),
    ("Convolution2D", [IMAGE], {**CONVOLUTION, "pad_end": [0, 1], "bias": False, "activation": "relu6"}),
    ("Convolution2D", [IMAGE], {"channels_out": 6, "kernel": 3, "stride": 2, "auto_pad": "same_lower",
                                  "activation": "tanh"}),
    ("Convolution2D", [IMAGE], {"channels_out": 6, "kernel": 4, "stride": 2, "auto_pad": "same_upper",
                                  "activation": "sigmoid"}),
    ("Convolution1D", [ROW], {"channels_out": 3, "kernel": 3, "auto_pad": "valid", "activation": "relu"}),
    ("Convolution3D", [VOLUME], {"channels_out": 2, "kernel": [1, 2, 3], "pad": 1}),
    ("TransposedConvolution1D", [ROW], {"channels_out": 3, "kernel": 3, "stride": 2, "output_pad": 1}),
    ("TransposedConvolution2D", [IMAGE],
     {"channels_out": 6, "kernel": 3, "stride": 2, "pad": 1, "output_pad": [1, 0], "groups": 2}),
    ("TransposedConvolution3D", [VOLUME], {"channels_out": 2, "kernel": 2, "stride": 2, "bias": False}),
    ("Pooling1D", [ROW], {"mode": "max", "kernel": 3, "stride": 2, "ceil_mode": True}),
    ("Pooling2D", [IMAGE], {"mode": "max", "kernel": 3, "stride": 2, "pad": 1, "dilate": 2}),
    ("Pooling2D", [IMAGE], {"mode": "avg", "kernel": [3, 2], "stride": [2, 1], "pad": [1, 0]}),
    ("Pooling2D", [IMAGE],
     {"mode": "avg", "kernel": 3, "stride": 2, "pad": 1, "pad_end": 0, "count_include_pad": True}),
    ("Pooling2D", [IMAGE], {"mode": "avg", "kernel": 2, "stride": 2, "ceil_mode": True}),
    ("Pooling2D", [IMAGE], {"mode": "max", "kernel": 3, "stride": 2, "auto_pad": "same_upper"}),
    ("Pooling3D", [VOLUME], {"mode": "avg", "kernel": 2, "stride": 2}),
    ("GlobalPooling", [IMAGE], {"mode": "max"}),
    ("GlobalPooling", [VOLUME], {"mode": "avg"}),
    ("InnerProduct", [IMAGE], {"outputs": 5, "activation": "relu"}),
    ("InnerProduct", [(3, 6)], {"outputs": 5, "bias": False}),
    ("BatchNorm", [IMAGE], {"eps": 1e-3}),
    ("BatchNorm", [ROW], {"affine": False}),
    ("Softmax", [IMAGE], {}),
    ("Softmax", [IMAGE], {"axis": -1, "log": True}),
    ("MSELoss", [IMAGE, IMAGE], {}),
    ("MSELoss", [IMAGE, IMAGE], {"reduce": "sum"}),
    ("MSELoss", [IMAGE, IMAGE], {"reduce": "none"}),
    *[("Activation", [IMAGE], {"activation": name}) for name in ("identity", "relu", "tanh", "sigmoid", "relu6")],
    ("Elementwise", [IMAGE, (4, 1, 7)], {"operation": "sum", "coef1": 2, "coef2": -0.5, "activation": "relu"}),
    ("Elementwise", [IMAGE, IMAGE], {"operation": "prod"}),
    ("Elementwise", [(9, 1), IMAGE], {"operation": "max", "coef2": 3}),
    *[("Pointwise", [IMAGE], {"function": name}) for name in
      ("exp", "sin", "neg", "abs", "square", "silu", "gelu", "gelu_tanh", "mish", "hardswish", "erf", "sigmoid",
       "floor")],
    ("Pointwise", [IMAGE], {"function": "leaky_relu", "values": [0.2]}),
    ("Pointwise", [IMAGE], {"function": "elu", "values": [0.7, 1, 1]}),
    ("Pointwise", [IMAGE], {"function": "softplus", "values": [1, 20]}),
    ("Pointwise", [IMAGE], {"function": "clamp_scalar", "values": [-0.5, 0.25]}),
    ("Pointwise", [IMAGE, IMAGE], {"function": "maximum"}),
    ("Threshold", [IMAGE], {"threshold": 0.3}),
    ("Hardtanh", [IMAGE], {"min_val": -0.25, "max_val": 0.5}),
    ("Abs", [IMAGE], {}),
    ("Dropout", [IMAGE], {"p": 0.5}),
    ("Concat", [IMAGE, (2, 1, 9, 7), IMAGE], {}),
    ("Slice", [IMAGE], {"dim": 2, "begin": 1, "end": -3}),
    ("Slice", [IMAGE], {"dim": -1, "begin": -4}),
    ("Flatten", [IMAGE], {}),
    ("Squeeze", [(2, 1, 3, 1)], {"dims": [1]}),
    ("Squeeze", [(2, 1, 3, 1)], {}),
    ("Reshape", [IMAGE], {"dims": [0, -1, 7]}),
    ("Parameter", [], {"shape": [2, 3]}),
    ("Reduction", [IMAGE], {"method": "sum", "dims": [1, -1]}),
    ("Reduction", [IMAGE], {"method": "sumsq", "start_axis": 2, "keep_dim": False}),
    ("Reduction", [IMAGE], {"method": "abssum", "output_scale": 0.5, "keep_dim": False}),
    ("Reduction", [IMAGE], {"method": "mean", "dims": [0], "output_scale": 3}),
    ("Interpolation", [IMAGE], {"method": "nearest", "out_h": 5, "out_w": 20}),
    ("Interpolation", [IMAGE], {"method": "nearest-exact", "out_h": 18, "out_w": 14}),
    ("Interpolation", [IMAGE], {"method": "bilinear", "scale_y": 2, "scale_x": 1.5}),
    ("Interpolation", [IMAGE], {"method": "bilinear", "out_h": 5, "out_w": 20, "align_corners": True}),
    ("Linear", [(2, 5, 6)], {"outputs": 4, "activation": "relu"}),
    ("Linear", [(6,)], {"outputs": 4, "bias": False}),
    ("MatMul", [(2, 3, 4, 5), (2, 3, 5, 6)], {"scale": 0.5}),
    ("MatMul", [(2, 5, 4), (2, 6, 5)], {"transpose_a": True, "transpose_b": True}),
    ("LayerNorm", [SEQUENCE], {"eps": 1e-3}),
    ("LayerNorm", [SEQUENCE], {"bias": False}),
    ("LayerNorm", [SEQUENCE], {"rms": True}),
    ("Attention", [SEQUENCE, (2, 7, 12), (2, 7, 9)], {"heads": 3}),
    ("Attention", [SEQUENCE, (2, 7, 12), (2, 7, 9), (1, 3, 1, 7)], {"heads": 3, "causal": True, "scale": 0.2}),
    ("Permute", [IMAGE], {"dims": [0, 2, 3, 1]}),
    ("LSTM", [SEQUENCE], {"hidden": 5}),
    ("GRU", [SEQUENCE], {"hidden": 5}),
]
LABELLED = [("SoftmaxWithLoss", (5, 7), (5,), {}), ("SoftmaxWithLoss", (2, 7, 3), (2, 3), {}),
            ("NLLLoss", (5, 7), (5,), {}), ("NLLLoss", (5, 7), (5,), {"reduce": "sum"}),
            ("NLLLoss", (2, 7, 3), (2, 3), {"reduce": "none"})]


def filled(net, arrays):
    """The net set up, its parameters random, and `arrays` in its inputs."""
    rng = np.random.default_rng(1)
    net.setup()
    net.load_parameters({name: rng.uniform(0.1, 1, value.shape).astype(value.dtype)
                         for name, value in net.parameters().items()})
    for name, array in arrays.items():
        net.tensor(name).write(array)
    net.forward()
    return net


def run_model(data, outputs, arrays):
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(outputs, arrays)


def run_reference(data, outputs, arrays):
    """onnx's own reference, for what ONNX Runtime lacks."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(onnx.load_from_string(data)).run(outputs, arrays)


def compare(net, arrays, run=run_model, rtol=1.3e-6, atol=1e-5):
    """What ONNX Runtime computes with the model against what the net computed."""
    data = net.to_onnx()
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    assert [port.name for port in model.graph.input] == net.input_names
    for name, expected in zip(net.output_names, run(data, net.output_names, arrays), strict=True):
        result = net.tensor(name).numpy()
        assert result.dtype == expected.dtype and result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=atol)


def net_of(kind, ports, options):
    net = clprim.Net()
    for name, (shape, dtype) in ports.items():
        net.add_input(name, shape, dtype)
    net.add(kind, "op", list(ports), ["y"], options)
    net.mark_output("y")
    return net


@pytest.mark.parametrize("kind, shapes, options", OPERATORS)
def test_operator(kind, shapes, options):
    rng = np.random.default_rng(0)
    arrays = {f"x{i}": rng.standard_normal(shape).astype("f") for i, shape in enumerate(shapes)}
    net = net_of(kind, {name: (array.shape, "float32") for name, array in arrays.items()}, options)
    compare(filled(net, arrays), arrays)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("kind, shape, labels, options", LABELLED)
def test_loss(kind, shape, labels, options, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype("f")
    if kind == "NLLLoss":
        x = np.log(np.exp(x) / np.exp(x).sum(1, keepdims=True))
    arrays = {"x": x, "label": rng.integers(0, shape[1], labels).astype(dtype)}
    compare(filled(net_of(kind, {"x": (shape, "float32"), "label": (labels, dtype)}, options), arrays), arrays)


def test_embedding():
    arrays = {"x": np.random.default_rng(0).integers(0, 9, (3, 4))}
    compare(filled(net_of("Embedding", {"x": ((3, 4), "int64")}, {"count": 9, "size": 5}), arrays), arrays)


@pytest.mark.parametrize("mask", [False, True])
def test_deformable_convolution(mask):
    rng = np.random.default_rng(0)
    arrays = {"x": rng.standard_normal((2, 4, 6, 5)), "offset": rng.uniform(-1, 1, (2, 2 * 18, 6, 5))}
    if mask:
        arrays["mask"] = rng.uniform(0, 1, (2, 18, 6, 5))
    arrays = {name: array.astype("f") for name, array in arrays.items()}
    options = {"channels_out": 6, "kernel": 3, "pad": 1, "groups": 2, "offset_groups": 2, "bias": mask}
    net = net_of("DeformConv2D", {name: (array.shape, "float32") for name, array in arrays.items()}, options)
    compare(filled(net, arrays), arrays, run_reference)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_dtypes(dtype):
    """Constants that the model needs take the net's dtype; batch norm's statistics stay float32."""
    if dtype == "float64" and not clprim.devices()[0].fp64:
        pytest.skip("the device has no float64")
    rng = np.random.default_rng(0)
    net = clprim.Net()
    net.add_input("x", (2, 4, 6, 6), dtype)
    net.add("Convolution2D", "conv", ["x"], ["c"], {"channels_out": 4, "kernel": 3, "pad": 1, "activation": "relu6"})
    # PoCL crashes in the kernel of batch norm of float16.
    short_on_pocl = dtype == "float16" and "Portable" in clprim.devices()[0].platform_name
    if not short_on_pocl:
        net.add("BatchNorm", "bn", ["c"], ["c"], {})
    net.add("Elementwise", "sum", ["c", "x"], ["s"], {"coef2": 0.5})
    net.add("Hardtanh", "bound", ["s"], ["y"], {})
    net.mark_output("y")
    arrays = {"x": rng.standard_normal((2, 4, 6, 6)).astype(dtype)}
    if dtype == "float64":
        compare(filled(net, arrays), arrays, run_reference, rtol=1e-7, atol=1e-7)
    else:       # both sides round what lies between the operators
        compare(filled(net, arrays), arrays, rtol=1e-3, atol=5e-3)


# Every row of the table of elementwise operators that says what it is in ONNX: values by function, for one, two, three
# and
# four operands.
POINTWISE = [
    {**dict.fromkeys(["square", "cube", "neg", "reciprocal", "abs", "sign", "sgn", "signbit", "conj_physical", "floor",
                      "ceil", "trunc", "round", "frac", "copy", "logical_not", "isnan", "isposinf", "isneginf", "exp",
                      "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asinh", "atan", "sinc", "erf",
                      "erfc",
                      "relu", "sigmoid", "gelu", "gelu_tanh", "silu", "mish", "hardswish", "hardsigmoid", "softsign",
                      "log_sigmoid"]),
     "pow_scalar": [3], "clamp_scalar": [-0.5, 0.4], "clamp_min_scalar": [0.2], "clamp_max_scalar": [0.2],
     "round_decimals": [100], "round_tens": [0.5], "nan_to_num": [1, 2, 3], "logit_eps": [0.1], "threshold": [0.1, 7],
     "hardshrink": [0.4], "softshrink": [0.4], "leaky_relu": [0.2], "elu": [0.7, 1.3, 0.9], "celu": [0.6],
     "clamped_affine": [0.3, 0.4], "shrink": [0.2, 0.5], "swish": [1.5], "softplus": [1.5, 20]},
    {**dict.fromkeys(["mul", "div", "div_trunc", "div_floor", "remainder", "fmod", "maximum", "minimum", "fmax", "fmin",
                      "eq",
                      "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "heaviside",
                      "logaddexp",
                      "hypot", "copysign", "prelu", "glu", "mse_loss"]),
     "add": [1], "sub": [0.5], "lerp_scalar": [0.3], "swiglu": [1.5], "add_relu": [0.5], "smooth_l1_loss": [0.7],
     "huber_loss": [0.7]},
    {**dict.fromkeys(["clamp", "where", "lerp"]), "addcmul": [0.5], "addcdiv": [0.5]},
    {"difference_of_products": None},
]
POSITIVE = {"log": 1, "log2": 1, "log10": 1, "log1p": 1, "sqrt": 1, "rsqrt": 1, "acosh": 1, "asin": 1, "acos": 1,
            "atanh": 1,
            "logit": 1, "pow": 2, "xlogy": 2, "special_xlog1py": 2, "binary_cross_entropy": 2,
            "binary_cross_entropy_weight": 3}
INTEGERS = {"add": (2, [2]), "sub": (2, [1]), "mul": (2, None), "div_trunc": (2, None), "div_floor": (2, None),
            "remainder": (2, None), "fmod": (2, None), "maximum": (2, None), "minimum": (2, None), "fmax": (2, None),
            "clamp": (3, None), "clamp_scalar": (1, [-2, 3]), "where": (3, None), "abs_integer": (1, None),
            "signbit_integer": (1, None), "sign": (1, None), "eq": (2, None), "ne": (2, None), "lt": (2, None),
            "logical_and": (2, None), "logical_not": (1, None), "isnan": (1, None), "bitwise_and": (2, None),
            "bitwise_or": (2, None), "bitwise_xor": (2, None), "bitwise_not": (1, None), "add_relu": (2, [2])}


def pointwise_arrays(name, count, dtype="f"):
    """Numbers of both signs, with zeros and equal ones among them; the divisors are not zero."""
    rng = np.random.default_rng(3)
    if name in POSITIVE:
        arrays = [rng.uniform(1.5, 3, (3, 4, 5)) if name == "acosh" else rng.uniform(0.05, 0.95, (3, 4, 5))
                  for _ in range(count)]
    elif np.dtype(dtype).kind == "i":
        arrays = [rng.integers(-9, 10, (3, 4, 5)) for _ in range(count)]
        if name in ("div_trunc", "div_floor", "remainder", "fmod"):
            arrays[1][arrays[1] == 0] = -3
    else:
        arrays = [rng.standard_normal((3, 4, 5)) for _ in range(count)]
        if name in ("isnan", "isposinf", "isneginf", "nan_to_num"):
            arrays[0].flat[:3] = np.nan, np.inf, -np.inf
        if name not in ("reciprocal", "div", "div_trunc", "div_floor", "remainder", "fmod", "addcdiv"):
            arrays[0].flat[3:6] = 0
            arrays[-1].flat[4:8] = arrays[0].flat[4:8]
    return {f"x{i}": array.astype(dtype) for i, array in enumerate(arrays)}


@pytest.mark.parametrize("name, count, values, dtype", [
    *[(name, count, values, "float32") for count, rows in enumerate(POINTWISE, 1) for name, values in rows.items()],
    *[(name, count, None, "float32") for name, count in POSITIVE.items()],
    *[(name, count, values, "int32") for name, (count, values) in INTEGERS.items()]])
def test_pointwise_rows(name, count, values, dtype):
    arrays = pointwise_arrays(name, count, dtype)
    options = {"function": name} | ({"values": values} if values else {})
    net = net_of("Pointwise", {x: (array.shape, dtype) for x, array in arrays.items()}, options)
    compare(filled(net, arrays), arrays, rtol=1e-5, atol=1e-5)


def test_conditions_may_be_boolean():
    arrays = {"x0": np.array([True, False, True]), "x1": np.ones(3, "f"), "x2": np.zeros(3, "f")}
    net = net_of("Pointwise", {x: (array.shape, str(array.dtype)) for x, array in arrays.items()},
                 {"function": "where"})
    compare(filled(net, arrays), arrays)


def whole_net():
    net = clprim.Net()
    net.add_input("data", (2, 3, 8, 8))
    net.add_input("label", (2,), "int64")
    net.add("Convolution2D", "conv", ["data"], ["h"], {"channels_out": 4, "kernel": 3, "pad": 1}, ["kernel", "shift"])
    net.add("BatchNorm", "bn", ["h"], ["h"], {})                   # in place: from here on "h" is the result
    net.add("Activation", "relu", ["h"], ["h"], {"activation": "relu"})
    net.add("Convolution2D", "twin", ["h"], ["t"], {"channels_out": 4, "kernel": 3, "pad": 1})
    net.add("Elementwise", "sum", ["h", "t"], ["h"], {})
    net.add("GlobalPooling", "pool", ["h"], ["p"], {"mode": "avg"})
    net.add("InnerProduct", "fc", ["p"], ["fc"], {"outputs": 5})
    net.add("InnerProduct", "again", ["fc"], ["scores"], {"outputs": 5}, ["shared", "shared_bias"])
    net.add("InnerProduct", "once_more", ["scores"], ["more"], {"outputs": 5}, ["shared", "shared_bias"])
    net.add("SoftmaxWithLoss", "loss", ["more", "label"], ["loss"], {})
    for name in ("h", "scores", "loss"):
        net.mark_output(name)
    return net


def whole_arrays():
    return {"data": np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("f"), "label": np.array([1, 4])}


def test_whole_net():
    net = filled(whole_net(), whole_arrays())
    compare(net, whole_arrays())
    names = {tensor.name for tensor in onnx.load_from_string(net.to_onnx()).graph.initializer}
    assert {"kernel", "shift", "shared", "shared_bias", "fc.0"} <= names


def test_there_and_back():
    """The model of a net runs in a session, and what nets have operators for becomes the same net again."""
    net = filled(whole_net(), whole_arrays())
    outputs = clprim.Session(net.to_onnx()).run(whole_arrays())
    for name in net.output_names:
        np.testing.assert_allclose(outputs[name], net.tensor(name).numpy(), rtol=1.3e-6, atol=1e-5)


def test_what_onnx_lacks():
    net = net_of("DeformPSROIPooling", {"x": ((2, 8, 8, 8), "float32"), "rois": ((2, 5), "float32")},
                 {"no_trans": True, "output_dim": 2, "group_size": 2, "pooled_size": 2})
    net.setup()
    with pytest.raises(clprim.NotSupported, match='"op".*DeformPSROIPooling'):
        net.to_onnx()
    net = net_of("Pointwise", {"x": ((2, 3), "float32")}, {"function": "erfinv"})
    net.setup()
    with pytest.raises(clprim.NotSupported, match='"op".*erfinv'):
        net.to_onnx()


def test_command(tmp_path):
    net = filled(whole_net(), whole_arrays())
    (tmp_path / "net.json").write_text(net.to_json())
    net.save_parameters(tmp_path / "net.safetensors")

    def convert(*arguments):
        return subprocess.run([sys.executable, "-m", "clprim", "convert", *map(str, arguments)], capture_output=True,
                              text=True)

    done = convert(tmp_path / "net.json", tmp_path / "net.onnx")
    assert done.returncode == 0, done.stderr
    expected = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(["scores"], whole_arrays())[0]
    np.testing.assert_allclose(net.tensor("scores").numpy(), expected, rtol=1.3e-6, atol=1e-5)
    failed = convert(tmp_path / "net.json", tmp_path / "net.onnx", "--weights", tmp_path / "none.safetensors")
    assert failed.returncode != 0 and "none.safetensors" in failed.stderr
