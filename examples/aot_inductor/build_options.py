"""Prints what a C++ compiler needs for run_model.cpp: folders and libraries of PyTorch and Python.

    c++ run_model.cpp -o run_model $(python build_options.py)
"""
import sysconfig
from pathlib import Path

import torch
from torch.utils import cpp_extension


def options():
    variables = sysconfig.get_config_vars()
    libraries = [Path(torch.__file__).parent / "lib", Path(variables["LIBDIR"])]
    result = ["-std=c++20", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    result += [f"-isystem{folder}" for folder in (*cpp_extension.include_paths(), sysconfig.get_path("include"))]
    for folder in libraries:
        result += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    return [*result, "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10", f"-lpython{variables['LDVERSION']}"]


if __name__ == "__main__":
    print(" ".join(options()))
