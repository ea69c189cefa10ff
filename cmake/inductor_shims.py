"""Writes the C functions by which code of Inductor's C++ wrapper calls operators on the device,
aoti_torch_ocl_<operator>: PyTorch's own generator (torchgen), for every operator that it makes such functions of.

    inductor_shims.py HEADER SOURCE
"""
import sys
from pathlib import Path

import torchgen
from torchgen.aoti.fallback_ops import inductor_fallback_ops
from torchgen.gen import parse_native_yaml
from torchgen.gen_aoti_c_shim import (gen_declaration_and_definition, gen_static_dispatch_backend_call,
                                      get_fallback_op_name)
from torchgen.model import Variant

HEADER = """// Written by cmake/inductor_shims.py.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

extern "C" {{

{declarations}

}}
"""

SOURCE = """// Written by cmake/inductor_shims.py.
#include "{header}"

#include <torch/csrc/inductor/aoti_torch/utils.h>

{includes}

using namespace torch::aot_inductor;

{definitions}
"""


def main(header, source):
    native = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    functions = parse_native_yaml(native / "native_functions.yaml", native / "tags.yaml").native_functions
    wanted = {get_fallback_op_name(f): f for f in functions}
    declarations, definitions, includes = [], [], set()
    for name, versions in sorted(inductor_fallback_ops.items()):
        function = wanted[name]
        call = gen_static_dispatch_backend_call(function)
        if Variant.function not in function.variants:        # a method of tensors
            call = f"at::_ops::{function.func.name.unambiguous_name()}::call"
        declaration, definition = gen_declaration_and_definition(function.func, "ocl", call, versions)
        declarations.append(declaration)
        definitions.append(definition)
        includes.add(f"#include <ATen/ops/{function.root_name}.h>")
    write(header, HEADER.format(declarations="\n".join(declarations)))
    write(source, SOURCE.format(header=Path(header).name, includes="\n".join(sorted(includes)),
                                definitions="\n".join(definitions)))


def write(path, text):
    """Nothing where the text is there already, so that nothing is compiled again."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
