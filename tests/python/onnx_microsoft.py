"""What the tests of com.microsoft's operators share: one node, computed by ONNX Runtime and by clprim."""
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import clprim

F, U8, I8, I32, I64 = np.float32, np.uint8, np.int8, np.int32, np.int64
CLOSE = dict(rtol=1e-4, atol=2e-5)


def model_of(kind, inputs, outputs, attributes, constants=()):
    """One node; an input of None is absent, `constants` are initializers."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    node = helper.make_node(kind, names, [name or "" for name in outputs], domain="com.microsoft", **attributes)
    ports, initializers = [], []
    for name, array in zip(names, inputs, strict=True):
        if array is None:
            continue
        if name in constants:
            initializers.append(numpy_helper.from_array(array, name))
        else:
            ports.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
    scores = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)     # of a type that ONNX Runtime does not infer
    results = [helper.make_tensor_value_info(name, scores, None) if name == "qk" else
               helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = helper.make_graph([node], "graph", ports, results, initializers)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    feeds = {name: array for name, array in zip(names, inputs, strict=True) if name and name not in constants}
    return model.SerializeToString(), feeds


def ours(kind, inputs, attributes, outputs=("y",), constants=()):
    data, feeds = model_of(kind, inputs, outputs, attributes, constants)
    results = clprim.Session(data).run(feeds)
    return [results[name] for name in outputs if name]


def check(kind, inputs, attributes=None, outputs=("y",), constants=(), rtol=1e-4, atol=2e-5, quanta=None,
          compared=None):
    attributes = attributes or {}
    data, feeds = model_of(kind, inputs, outputs, attributes, constants)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    wanted = [name for name in outputs if name]
    expected = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(wanted, feeds)
    results = clprim.Session(data).run(feeds)
    for name, theirs in zip(wanted, expected, strict=True):
        if compared and name not in compared:
            continue
        result = results[name]
        assert result.dtype == theirs.dtype and result.shape == theirs.shape, (name, result.shape, theirs.shape)
        if quanta is not None:
            difference = np.abs(result.astype(int) - theirs.astype(int))
            assert difference.max(initial=0) <= quanta, difference.max()
        else:
            np.testing.assert_allclose(result, theirs, rtol=rtol, atol=atol, err_msg=name)


def normal(*shape, seed=0, dtype=F, scale=1):
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(dtype)


def integers(low, high, *shape, dtype=U8, seed=0):
    return np.random.default_rng([seed, *shape]).integers(low, high, shape, dtype=dtype)


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def scalar(value, dtype=F):
    return np.array(value, dtype)


# Weights of seven bits: on processors without VNNI ONNX Runtime's sums of pairs saturate at 16 bits.
def weights(*shape, dtype=I8, seed=0):
    return integers(-64, 64, *shape, dtype=dtype, seed=seed) if dtype is I8 else integers(0, 128, *shape, seed=seed)
