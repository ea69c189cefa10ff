"""Small graphs written node by node, and sessions compared with ONNX's reference in float64."""
import json

import numpy as np
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import clprim


class Net:
    """Collects nodes; every method returns the name of its value."""

    def __init__(self):
        self.nodes, self.constants = [], {}
        self.random = np.random.default_rng(3)

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def node(self, kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, inputs, outputs, kernel=1, **attributes):
        weight = self.random.standard_normal((outputs, inputs, kernel, kernel)) / np.sqrt(inputs * kernel * kernel)
        bias = self.random.standard_normal(outputs)
        return self.node("Conv", x, self.constant(weight), self.constant(bias), pads=[kernel // 2] * 4, **attributes)

    def batch_norm(self, x, channels):
        low = [0.5, -0.5, -0.5, 0.5]
        return self.node("BatchNormalization", x,
                         *(self.constant(self.random.uniform(b, b + 1, channels)) for b in low), epsilon=1e-3)

    def model(self, outputs, shape, dtype=np.float32):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        constants = [numpy_helper.from_array(v.astype(dtype) if v.dtype == np.float64 else v, name)
                     for name, v in self.constants.items()]
        nodes = self.nodes + [helper.make_node("Identity", [name], [f"y{i}"]) for i, name in enumerate(outputs)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, shape)],
                                  [helper.make_tensor_value_info(f"y{i}", kind, None) for i in range(len(outputs))],
                                  constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def launches(session, feed):
    session.run(feed)
    before = clprim.kernel_launches()
    session.run(feed)
    return clprim.kernel_launches() - before


def copies_of_concatenations(model, feed):
    """Kernels and copies that nodes Concat enqueue."""
    session = clprim.Session(model, profile=True)
    session.run(feed)
    events = json.loads(session.trace())["traceEvents"]
    return sum(str(e.get("args", {}).get("node", "")).startswith("Concat") for e in events)


def check(net, outputs, shape=("n", 8, 9, 7), batches=(1, 3), most=None, copies=None):
    """Three runs each, so that recordings are seen too. `most` launches of a run for one sample, `copies` of what
    concatenations enqueue."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    model, exact = net.model(outputs, shape), ReferenceEvaluator(net.model(outputs, shape, np.float64))
    session, plain = clprim.Session(model), clprim.Session(model, record=False)
    for n in batches:
        x = net.random.standard_normal((n, *shape[1:])).astype("f")
        expected = exact.run(None, {"x": x.astype(np.float64)})
        for _ in range(3):
            for got, right in zip(session.run({"x": x}).values(), expected):
                np.testing.assert_allclose(got, right, rtol=2e-5, atol=2e-5)
        if n == 1 and most is not None:
            assert launches(plain, {"x": x}) <= most
        if n == 1 and copies is not None:
            assert copies_of_concatenations(model, {"x": x}) <= copies
