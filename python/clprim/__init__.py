"""Deep-learning primitives on OpenCL devices, with NumPy arrays.

    import clprim
    session = clprim.Session("resnet50.onnx")
    outputs = session.run({"x": array})

No device is opened before it is used.
"""

from __future__ import annotations

from clprim._drivers import prepare_opencl_loader

__version__ = "0.1.0"

# Before anything links libOpenCL.
prepare_opencl_loader()

# Where the public names come from: the C++ part is loaded when one is asked for, and torch_ocl does without it.
_HOMES = {
    "clprim._C": (
        "Adam", "AdamW", "BuildError", "Cancelled", "Context", "Device", "Error", "IndexError", "InvalidArgument",
        "Net",
        "NodeTime", "NotSupported", "OnnxModel", "OpenCLError", "OperatorTime", "OutOfMemory", "Port", "SGD", "Session",
        "Solver",
        "Tensor", "Value", "blocking_calls", "convolution", "devices", "find_device", "kernel_launches", "load_weights",
        "matmul", "operator_types", "register_operator", "save_weights", "softmax",
        "set_log", "use_cl_context", "use_programs",
    ),
    "clprim.pointwise": ("PointwiseKernel", "pointwise_kernel"),
    "clprim._dlpack": ("from_dlpack",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_SUBMODULES = ("onnx_backend", "pointwise", "validate")

# Without IndexError: `from clprim import *` must not hide the built-in one.
__all__ = ["__version__", *(name for name in _HOME_OF if name != "IndexError"), *_SUBMODULES]


def __getattr__(name: str):
    import importlib

    if name in _SUBMODULES:
        return importlib.import_module(f"clprim.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'clprim' has no attribute '{name}'")
    try:
        home = importlib.import_module(_HOME_OF[name])
    except ModuleNotFoundError as error:
        if error.name != "clprim._C":
            raise
        raise ImportError(f"clprim.{name} needs the C++ part of this package, which is not built: `make setup` builds "
                          "it") from None
    value = getattr(home, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
