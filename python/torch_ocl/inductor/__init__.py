"""torch.compile for the ocl device: Inductor's code generator that writes OpenCL C.

Nothing here is imported before Inductor is: it asks torch.ocl for a code generator when it is first used.

    device.py      the device's interface for Dynamo and Inductor
    scheduling.py  what is fused, and how kernels come into the generated wrapper
    kernel.py      one generated kernel
    reductions.py  its loops over reduced elements
    scans.py       its scans over them
    ranges.py      which work-item computes which element
    combination.py independent kernels in one launch
    vectors.py     kernels in explicit vectors, on CPUs, with vectors.cl
    vector_reductions.py their loops over reduced elements
    vector_overrides.py  their elementwise operations
    overrides.py   elementwise operations
    printer.py     index and size expressions
    types.py       dtypes
    versions.py    what older versions of PyTorch have otherwise
    batch_norms.py what a batch norm makes of a convolution's weights
    epilogues.py   products and convolutions with their activations
    autotune.py    tuning of what a graph calls, for max_autotune
    lowerings.py   what is left to the device's operators
    inlining.py    what is computed anew wherever it is used
    interpolation.py     interpolation with a gradient
    pooling.py           pools of dynamic sizes
    random_state.py      states of random operators that backward passes compute anew
    runtime.py     what generated code calls
    cpp_wrapper.py the wrapper in C++, for config.cpp_wrapper and AOTInductor
    flex_attention.py    FlexAttention's lowering
    flex_kernel.py       its kernels, with flex_*.cl
    flex_composite.py    what is left to its definition
"""

from __future__ import annotations


def register() -> None:
    """Makes the code generator known to Inductor."""
    from torch._inductor.bounds import ValueRangeAnalysis
    from torch._inductor.choices import InductorChoices
    from torch._inductor.codegen import common
    from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import Scheduler
    from torch.utils._sympy.functions import Identity

    from torch_ocl.inductor import cpp_wrapper, device, identity, lowerings, reductions
    from torch_ocl.inductor.scheduling import (as_traced, for_gpus, number_in_identity, of_triton, of_unbounded,
                                               OpenCLScheduling, OpenCLWrapper, untimed)

    register_backend_for_device("ocl", OpenCLScheduling, OpenCLWrapper, cpp_wrapper.OpenCLCppWrapper,
                                _NoFxWrapper, identity.GraphPass())
    register_device_op_overrides("ocl", device.op_overrides())
    lowerings.register()
    cpp_wrapper.register()
    Scheduler.speedup_by_fusion = untimed(Scheduler.speedup_by_fusion, "benchmark_fusion")
    Scheduler.speedup_by_combo_kernel = untimed(Scheduler.speedup_by_combo_kernel, "benchmark_combo_kernel")
    for name, otherwise in (("_selected_tiling_memory", None), ("_try_reindex_pointwise_for_reduction", False),
                            ("shared_data_after_reordering_loop", -1), ("shared_data_after_inverting_indexing", -1)):
        if hasattr(Scheduler, name):
            setattr(Scheduler, name, for_gpus(getattr(Scheduler, name), otherwise))
    GraphLowering.run = as_traced(GraphLowering.run)
    ValueRangeAnalysis.truncdiv = of_unbounded(vars(ValueRangeAnalysis)["truncdiv"])
    if hasattr(common, "check_nan"):
        common.check_nan = of_triton(common.check_nan)
    if "_eval_evalf" not in vars(Identity):
        Identity._eval_evalf = number_in_identity
    InductorChoices.reduction_split_factor = reductions.split_factor(InductorChoices.reduction_split_factor)


class _NoFxWrapper:
    """There is none: whatever makes one is told so."""

    supports_caching = False

    @classmethod
    def create(cls, *args, **kwargs):
        raise NotImplementedError("the ocl device's code generator writes wrappers in Python and C++: "
                                  "torch._inductor.config.fx_wrapper is not available for it")
