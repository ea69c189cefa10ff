"""clprim as a backend of the Python package onnx (onnx.backend.base.Backend).

    from clprim import onnx_backend
    outputs = onnx_backend.run_model(onnx.load("model.onnx"), [array])

Device "CPU" stands for clprim's default OpenCL device; texts such as "0:1" or "gpu" choose another one.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

import clprim


class ClprimRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: clprim.Session, names: Sequence[str]) -> None:
        self.session = session
        self._names = list(names)    # of all inputs, those with an initializer included

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """inputs: a list in the order of the model's inputs, or a dictionary by name."""
        if not isinstance(inputs, dict):
            given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            required = self.session.input_names
            names = required if len(given) <= len(required) else self._names
            if len(given) > len(names):
                raise clprim.InvalidArgument(f"the model has {len(names)} inputs, got {len(given)}")
            inputs = dict(zip(names, given))
        outputs = self.session.run(inputs)
        return tuple(outputs[name] for name in self.session.output_names)


class ClprimBackend(Backend):
    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether all operators of the model are known."""
        return not clprim.OnnxModel(model).unsupported

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> ClprimRep:
        session = clprim.Session(model, device=None if device.upper() == "CPU" else device)
        return ClprimRep(session, [port.name for port in model.graph.input])

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> tuple[Any, ...]:
        """Runs one node as a model of its own, in the newest operator set or in `opset_version`."""
        names = [name for name in node.input if name]
        values = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
        ports = [_port(name, value) for name, value in zip(names, values)]
        graph = helper.make_graph([node], "node", ports,
                                  [onnx.ValueInfoProto(name=name) for name in node.output if name])
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        opsets = [helper.make_opsetid("", version)]
        if node.domain not in ("", "ai.onnx"):
            opsets.append(helper.make_opsetid(node.domain, 1))
        return cls.prepare(helper.make_model(graph, opset_imports=opsets), device).run(values)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        if device.upper() == "CPU":
            return bool(clprim.devices())
        try:
            clprim.find_device(device)
        except clprim.Error:
            return False
        return True


def _port(name: str, value: Any) -> onnx.ValueInfoProto:
    array = np.asarray(value)
    element = onnx.TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, array.shape)


prepare = ClprimBackend.prepare
run_model = ClprimBackend.run_model
run_node = ClprimBackend.run_node
supports_device = ClprimBackend.supports_device
is_compatible = ClprimBackend.is_compatible
