#!/usr/bin/env python3
"""List which of PyTorch's operators the ocl device serves with its own kernels, as a page of documentation.

An entry counts when PyTorch has a CPU kernel for it and neither composes it of other operators nor derives it from a
structured `.out` form: these are the entries that a backend must supply. Prints Markdown; --missing prints names only.
"""
import argparse
import os
import textwrap

import torch
import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DispatchKey

OTHER_BACKENDS = ("sparse", "quantize", "mkldnn", "fbgemm", "nested", "_jagged", "qint", "q_", "xnnpack", "csr",
                  "coalesce", "_test_", "_foobar", "int4pack", "_dyn_quant", "_for_cpu", "_make_dep_token", "from_file")
OVERRIDABLE = ("convolution_overrideable", "convolution_backward_overrideable",
               "_scaled_dot_product_fused_attention_overrideable",
               "_scaled_dot_product_fused_attention_overrideable_backward", "_copy_from", "_copy_from_and_resize",
               "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "record_stream")


def entries():
    """Names of the entries that a backend must supply, in the order of native_functions.yaml."""
    folder = os.path.join(os.path.dirname(torchgen.__file__), "packaged/ATen/native")
    parsed = parse_native_yaml(f"{folder}/native_functions.yaml", f"{folder}/tags.yaml")
    cpu = parsed.backend_indices[DispatchKey.CPU]
    for function in parsed.native_functions:
        name = str(function.func.name)
        composite = (function.has_composite_implicit_autograd_kernel or function.has_composite_explicit_autograd_kernel
                     or function.has_composite_explicit_autograd_non_functional_kernel)
        derived = function.structured_delegate is not None or "generated" in function.tags
        if not composite and not derived and cpu.has_kernel(function) and not any(w in name for w in OTHER_BACKENDS):
            yield name
    yield from OVERRIDABLE


def is_native(name):
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "PrivateUse1")


def paragraph(text):
    print(textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="print the names without a kernel, one a line")
    missing_only = parser.parse_args().missing
    torch.ocl.is_available()   # loads the device's library
    names = list(dict.fromkeys(entries()))
    native = [name for name in names if is_native(name)]
    missing = [name for name in names if not is_native(name)]
    if missing_only:
        print("\n".join(missing))
        return

    print("# Supported operators\n")
    paragraph(f"Made by `tools/operator_coverage.py` with PyTorch {torch.__version__.split('+')[0]}. Of the {len(names)} "
              f"entries that a backend must supply, {len(native)} have kernels of their own. Everything that PyTorch composes "
              "of these runs on the device as well. " + ("The rest runs on the CPU under the fallback policy, and is "
                                                         "reported." if missing else "None is left to the CPU."))
    print("\n## With kernels of their own\n")
    paragraph(", ".join(f"`{name}`" for name in native))
    if missing:
        print("\n## Through the CPU fallback\n")
        paragraph(", ".join(f"`{name}`" for name in missing))


if __name__ == "__main__":
    main()
