"""The Python package clprim: tensors, values, functions, nets, errors."""
import subprocess
import sys

import numpy as np
import pytest

import clprim

ml_dtypes = pytest.importorskip("ml_dtypes")

DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int16, np.int32, np.int64, np.uint8,
          np.uint16,
          np.uint32, np.uint64, np.bool_, np.complex64]


def test_needs_no_pytorch():
    code = ("import sys, clprim, numpy; t = clprim.Tensor(numpy.ones(3, 'float32')); print(t.numpy().sum());"
            "assert not any(m.split('.')[0] in ('torch', 'onnx') for m in sys.modules)")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout.split() == ["3.0"], result.stderr


def test_devices():
    first = clprim.devices()[0]
    assert clprim.find_device(first.id).index == first.index == 0
    assert clprim.Context(first) == clprim.Context(0) == clprim.Context()
    assert first.kind in ("cpu", "gpu") and first.global_memory > 0 and first.name in repr(clprim.Context())
    with pytest.raises(ValueError, match="no such device"):
        clprim.Context("no such device")


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (70, 80)])
def test_arrays_come_back_as_they_went(dtype, shape):
    array = (np.arange(np.prod(shape, dtype=int)) % 50).reshape(shape).astype(dtype)
    for there_and_back in (clprim.Tensor(array), clprim.Value(array)):
        back = there_and_back.numpy()
        assert back.dtype == array.dtype and back.shape == shape and back.flags.writeable
        np.testing.assert_array_equal(back, array)
        np.testing.assert_array_equal(np.asarray(there_and_back), array)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
                                  "float8_e8m0fnu",
                                  "float4_e2m1fn", "int4", "uint4", "int2", "uint2"])
def test_narrow_types(name):
    dtype = getattr(ml_dtypes, name)
    array = np.array([[0.5, 1, 2], [1, 2, 1]] if "float" in name else [[0, 1, 0], [1, 1, 0]]).astype(dtype)
    value = clprim.Value(array)
    assert value.shape == (2, 3) and value.numpy().dtype == array.dtype
    np.testing.assert_array_equal(value.numpy().astype(np.float32), array.astype(np.float32))
    if name.startswith("int"):
        negative = np.array([-2, -1, 0, 1]).astype(dtype)
        np.testing.assert_array_equal(clprim.Value(negative).numpy().astype(np.int8), [-2, -1, 0, 1])
    with pytest.raises(NotImplementedError):
        clprim.Tensor(array)


def test_strings_sequences_and_nothing():
    words = np.array([["a", "b\u00e9"], ["", "\udcff"]], dtype=object)
    back = clprim.Value(words).numpy()
    assert back.dtype == object and back.tolist() == words.tolist()
    assert clprim.Value(np.array([b"x", b"yz"])).numpy().tolist() == ["x", "yz"]
    sequence = clprim.Value([np.ones(2, np.float32), np.zeros((1, 3), np.float32)])
    assert sequence.is_sequence and [item.shape for item in sequence.items] == [(2,), (1, 3)]
    assert [x.tolist() for x in sequence.numpy()] == [[1, 1], [[0, 0, 0]]]
    assert clprim.Value().is_none and clprim.Value(None).numpy() is None
    with pytest.raises(ValueError, match="strings"):
        clprim.Value(np.array([1, "x"], dtype=object))
    with pytest.raises(ValueError, match="datetime64"):
        clprim.Value(np.array("2026-01-01", dtype="datetime64[D]"))


def test_layouts():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for odd in (array.transpose(2, 0, 1), array[:, ::-1], array[..., ::2], array.astype(">f4")):
        np.testing.assert_array_equal(clprim.Tensor(odd).numpy(), odd)
    tensor = clprim.Tensor(array)
    view = tensor.permute(2, 0, 1).slice(1, 1, 2)
    assert view.shape == (4, 1, 3) and view.strides == (1, 12, 4)
    np.testing.assert_array_equal(view.numpy(), array.transpose(2, 0, 1)[:, 1:2])
    np.testing.assert_array_equal(view.reshape(-1).numpy(), array.transpose(2, 0, 1)[:, 1:2].reshape(-1))
    view.write(np.zeros((4, 1, 3), np.float32))      # through the view into the tensor
    assert tensor.numpy()[1].sum() == 0 and (tensor.numpy()[0] == array[0]).all()
    for bad in (np.zeros((4, 3), np.float32), np.zeros((4, 1, 3))):
        with pytest.raises(ValueError, match="cannot take"):
            view.write(bad)
    with pytest.raises(ValueError):
        tensor.permute(0, 0, 1)
    with pytest.raises(ValueError):
        tensor.reshape(5, -1)


def test_buffers_and_dlpack():
    torch = pytest.importorskip("torch")
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    tensor = clprim.Tensor(array)
    view = memoryview(tensor)
    assert view.shape == (2, 3) and view.format == "i" and view.readonly and view.tolist() == array.tolist()
    assert clprim.Tensor(memoryview(array)).numpy().tolist() == array.tolist()
    assert torch.from_dlpack(tensor).tolist() == array.tolist()
    assert clprim.from_dlpack(torch.arange(3.0)).tolist() == [0, 1, 2]


def test_conversion_and_fill():
    tensor = clprim.Tensor(np.array([1.7, -2.2, 0]))
    assert tensor.astype("int32").tolist() == [1, -2, 0] and tensor.astype(bool).tolist() == [True, True, False]
    assert tensor.astype(ml_dtypes.bfloat16).dtype == "bfloat16"
    assert clprim.Tensor.full((2, 2), 3, "half").tolist() == [[3, 3], [3, 3]]
    with pytest.raises(ValueError, match="quaternion"):
        clprim.Tensor.empty(3, "quaternion")


def test_kernels_from_expressions():
    a, b = np.random.rand(3, 1, 5).astype("f"), np.random.rand(4, 5).astype("f")
    axpy = clprim.pointwise_kernel("y0 = w0 * x0 + x1;")
    np.testing.assert_allclose(axpy(clprim.Tensor(a), clprim.Tensor(b), scalars=[2]).numpy(), 2 * a + b, rtol=1e-6)
    moments = clprim.pointwise_kernel("y0 = x0; y1 = x0 * x0;", reduce="a + b")
    total, squares = moments(clprim.Tensor(a), dim=(0, 1))
    np.testing.assert_allclose(total.numpy(), a.sum((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(squares.numpy(), (a * a).sum((0, 1)), rtol=1e-5)
    assert moments(clprim.Tensor(a), dim=1, keepdim=True)[0].shape == (3, 1, 5)
    with pytest.raises(ValueError, match="gaps"):
        clprim.pointwise_kernel("y1 = x0;")
    with pytest.raises(clprim.BuildError):
        clprim.pointwise_kernel("y0 = no_such_function(x0);")(clprim.Tensor(a))


def test_products_and_convolutions():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).astype("f") for shape in ((7, 5), (5, 6), (6,)))
    got = clprim.matmul(clprim.Tensor(a), clprim.Tensor(b), clprim.Tensor(c), activation="relu")
    np.testing.assert_allclose(got.numpy(), np.maximum(a @ b + c, 0), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError):
        clprim.matmul(clprim.Tensor(a), clprim.Tensor(a))
    x, w = rng.standard_normal((1, 2, 5, 6)).astype("f"), rng.standard_normal((3, 2, 1, 1)).astype("f")
    got = clprim.convolution(clprim.Tensor(x), clprim.Tensor(w), stride=(2, 1)).numpy()
    np.testing.assert_allclose(got, np.einsum("ochw,nchw->nohw", w * np.ones((1, 1, 3, 6)), x[:, :, ::2]), rtol=1e-4,
                               atol=1e-5)
    probabilities = clprim.softmax(clprim.Tensor(a), axis=0).numpy()
    np.testing.assert_allclose(probabilities, np.exp(a) / np.exp(a).sum(0), rtol=1e-5)


def two_layer_net():
    net = clprim.Net()
    net.add_input("x", (16, 4))
    net.add_input("t", (16,))
    net.add("InnerProduct", "fc1", ["x"], ["h"], {"outputs": 32, "activation": "relu"})
    net.add("InnerProduct", "fc2", ["h"], ["y"], {"outputs": 3})
    net.add("SoftmaxWithLoss", "loss", ["y", "t"], ["loss"])
    net.mark_output("loss")
    net.mode = "train"
    net.setup()
    net.initialize_parameters(1)
    return net


@pytest.mark.parametrize("solver", [clprim.SGD(0.5, momentum=0.9), clprim.Adam(0.05), clprim.AdamW(0.05)])
def test_training(solver):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 4)).astype("f")
    target = x[:, :3].argmax(1).astype("f")
    net = two_layer_net()
    net.tensor("x").write(x)
    net.tensor("t").write(target)
    solver.step(net)
    first = net.tensor("loss").item()
    for _ in range(40):
        solver.step(net)
    assert net.tensor("loss").item() < first / 5
    assert solver.state()
    gradient = net.parameter_gradient("fc1.0")
    assert gradient.shape == net.parameter("fc1.0").shape == (32, 4) and np.abs(gradient.numpy()).max() > 0


def test_nets_as_json_and_weight_files(tmp_path):
    net = two_layer_net()
    copy = clprim.Net()
    copy.load_json(net.to_json())
    copy.setup()
    assert copy.parameter_names == net.parameter_names and copy.operator_names == ["fc1", "fc2", "loss"]
    for extension in ("safetensors", "npz", "dlp"):
        net.save_parameters(tmp_path / f"weights.{extension}")
        copy.initialize_parameters(7)
        copy.load_parameters(tmp_path / f"weights.{extension}")
        for name, array in net.parameters().items():
            np.testing.assert_array_equal(copy.parameters()[name], array)
    clprim.save_weights(str(tmp_path / "w.safetensors"), {"a": np.ones((2, 3), ml_dtypes.bfloat16)})
    assert clprim.load_weights(str(tmp_path / "w.safetensors"))["a"].dtype == ml_dtypes.bfloat16
    with pytest.raises(ValueError, match="fc1"):
        copy.load_parameters({})
    with pytest.raises(ValueError, match="fc3.*InnerProduct.*outputs"):
        copy.add("InnerProduct", "fc3", ["y"], ["z"], {"outputz": 3})
    with pytest.raises(ValueError, match="mode"):
        net.mode = "guess"


def test_absurd_options_are_errors_instead_of_endless_kernels():
    net = clprim.Net()
    for name, shape in {"x": [2, 8, 8, 8], "rois": [3, 5], "trans": [3, 2, 2, 2]}.items():
        net.add_input(name, shape)
    options = {"no_trans": False, "trans_std": 0.1, "output_dim": 2, "group_size": 2, "pooled_size": 2, "part_size": 2}
    with pytest.raises(ValueError, match="sample_per_part must be at most 1024.*got 32768"):
        net.add("DeformPSROIPooling", "o", ["x", "rois", "trans"], ["y"], {**options, "sample_per_part": 32768})


def test_errors_are_pythons_and_clprims():
    pairs = [(clprim.InvalidArgument, ValueError), (clprim.NotSupported, NotImplementedError),
             (clprim.IndexError, IndexError), (clprim.OutOfMemory, MemoryError), (clprim.OpenCLError, RuntimeError)]
    for ours, builtin in pairs:
        assert issubclass(ours, builtin) and issubclass(ours, clprim.Error)
    # In a process of its own: once PyTorch's device is loaded, PyTorch's own error takes this one's place.
    code = """
import clprim
try:
    clprim.Tensor.empty((1 << 20, 1 << 20))
except MemoryError as error:
    assert isinstance(error, clprim.OutOfMemory) and "MiB" in str(error)
    tensor = clprim.Tensor.full(3, 2)
    print(tensor.tolist(), clprim.Context().memory()["allocated"] > 0)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[2.0, 2.0, 2.0] True", result.stderr


def test_stubs_and_package_agree():
    import ast
    from pathlib import Path

    tree = ast.parse((Path(clprim.__file__).parent / "__init__.pyi").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    public = {name for name in clprim.__all__ if not name.startswith("_")} - {"onnx_backend", "pointwise", "validate"}
    assert public - {"PointwiseKernel", "pointwise_kernel"} == (functions | set(classes)) - {"IndexError"}
    for name, node in classes.items():
        typed = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        typed |= {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
        real = {item for item in vars(getattr(clprim, name)) if not item.startswith("_")}
        if name not in ("Solver", "SGD", "Adam"):      # lr is said once, of their base
            assert {item for item in typed if not item.startswith("_")} == real, name


def test_values_stay_on_the_device_between_runs():
    onnx = pytest.importorskip("onnx")
    from onnx import helper
    graph = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", 1, ["n"])],
                              [helper.make_tensor_value_info("y", 1, None)])
    session = clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    x = np.full(5000, 2, np.float32)
    first = session.run_values({"x": x})["y"]
    assert isinstance(first, clprim.Value) and first.shape == (5000,)
    assert session.run({"x": first})["y"].tolist() == [16] * 5000
    assert session.run({"x": clprim.Value(clprim.Tensor(x))})["y"][0] == 4
    timed = clprim.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                           profile=True)
    timed.run({"x": x})
    assert [(entry.op_type, entry.calls) for entry in timed.profile()] == [("Mul", 1)]


def test_a_model_serves_sessions_on_every_device():
    """Each session holds constants of its own, and goes on when the model is gone."""
    pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(0)
    weights, bias = rng.standard_normal((200, 100)).astype("f"), rng.standard_normal(100).astype("f")
    graph = helper.make_graph(
        [helper.make_node("Transpose", ["t"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["p"]),
         helper.make_node("Add", ["p", "b"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["y"])], "g",
        [helper.make_tensor_value_info("x", 1, [3, 200])], [helper.make_tensor_value_info("y", 1, [3, 100])],
        [numpy_helper.from_array(weights.T.copy(), "t"), numpy_helper.from_array(bias, "b"),
         numpy_helper.from_array(np.float32(2), "scale")])
    model = clprim.OnnxModel(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    sessions = [clprim.Session(model, device.id) for device in clprim.devices()]
    del model
    x = rng.standard_normal((3, 200)).astype("f")
    for session in sessions * 2:
        np.testing.assert_allclose(session.run({"x": x})["y"], 2 * (x @ weights + bias), rtol=1.3e-6, atol=1e-4)
