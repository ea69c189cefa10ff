"""Deep-learning primitives on OpenCL devices, with NumPy arrays.

    import clprim
    session = clprim.Session("resnet50.onnx")
    outputs = session.run({"x": array})

Nothing is loaded or opened before it is used: `import clprim` is cheap.
"""

from __future__ import annotations

__version__ = "0.1.0"

# Where the public names come from.
_HOMES = {
    "clprim._C": (
        "Device", "Error", "InvalidArgument", "NodeTime", "NotSupported", "OnnxModel", "OpenCLError", "BuildError",
        "OutOfMemory", "OutOfRange", "Port", "Session", "devices", "find_device",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_SUBMODULES = ("onnx_backend",)

__all__ = ["__version__", *_HOME_OF, *_SUBMODULES]


def __getattr__(name: str):
    import importlib

    if name in _SUBMODULES:
        return importlib.import_module(f"clprim.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'clprim' has no attribute '{name}'")
    from clprim._drivers import prepare_opencl_loader

    prepare_opencl_loader()
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
