"""What Dynamo and Inductor must know of the device early: told when they are imported, and not before."""

from __future__ import annotations

import contextlib
import functools

import torch

from torch_ocl import _after_import


def register() -> None:
    _after_import.adapt({"torch._dynamo.device_interface": _register_interface,
                         "torch._dynamo.utils": _keep_random_numbers,
                         "torch._dynamo.variables.optimizer": _keep_steps_here,
                         "torch._functorch.partitioners": _keep_random_states,
                         "torch._inductor.decomposition": _decompose_less,
                         "torch._inductor.runtime.benchmarking": _measure_here,
                         "torch._inductor.graph": _keep_layouts, "torch._inductor.freezing": _keep_frozen_layouts})


def _register_interface(module) -> None:
    from torch._dynamo.device_interface import register_interface_for_device

    from torch_ocl.inductor.device import OclInterface

    register_interface_for_device("ocl", OclInterface)


def _keep_random_numbers(module) -> None:
    """Of CPUs, CUDA and XPU alone compiling keeps the generator's state, under `preserve_rng_state`."""
    former = module.preserve_rng_state

    @functools.wraps(former)
    @contextlib.contextmanager
    def preserve_rng_state():
        with former():
            if not torch.ocl.is_available():
                yield
                return
            with torch.utils._python_dispatch._disable_current_modes(), torch._C._DisableFuncTorch():
                state = torch.ocl.get_rng_state()
            try:
                yield
            finally:
                with torch.utils._python_dispatch._disable_current_modes():
                    torch.ocl.set_rng_state(state)

    module.preserve_rng_state = preserve_rng_state


def _keep_steps_here(module) -> None:
    """Dynamo traces an optimizer as if it were `capturable`, with its step counters on the device, and makes it so for
    CUDA and XPU alone. Elsewhere a group's counters are moved after it has been traced with those of the CPU: the state
    has counters that nobody counts, and Inductor builds C++ for the ones that are counted."""
    former = module.OptimizerVariable._set_capturable

    @functools.wraps(former)
    def set_capturable(self, tx) -> None:
        optimizer = self.value
        for group in optimizer.param_groups:
            params = group.get("params", [])
            if "capturable" in group and all(p.device.type == "ocl" and p not in optimizer.state for p in params):
                group["capturable"] = True
        former(self, tx)

    module.OptimizerVariable._set_capturable = set_capturable


def _measure_here(module) -> None:
    """PyTorch measures operators on CUDA where nobody names a device, as for what is recomputed
    (`activation_memory_budget_runtime_estimator="profile"`)."""
    def is_ours() -> bool:
        return torch.ocl.is_available() and not torch.cuda.is_available() and not torch.xpu.is_available()

    if not hasattr(module, "_get_default_gpu_device_type"):   # before 2.13 Triton measures, or CUDA's events
        _measure_by_waiting(module, is_ours)
        return
    former = module._get_default_gpu_device_type

    @functools.wraps(former)
    def default_device_type() -> str:
        return "ocl" if is_ours() else former()

    module._get_default_gpu_device_type = default_device_type


def _measure_by_waiting(module, is_ours) -> None:
    former = module.TritonBenchmarker.benchmark_gpu

    @functools.wraps(former)
    def benchmark_gpu(self, call, is_vetted_benchmarking: bool = False, **options):
        if not is_ours():
            return former(self, call, is_vetted_benchmarking=is_vetted_benchmarking, **options)
        if not is_vetted_benchmarking:
            module.may_ban_benchmarking()

        def call_and_wait() -> None:
            call()
            torch.ocl.synchronize()

        return self.benchmark_cpu(call_and_wait, **{key: options[key] for key in ("warmup", "rep") if key in options})

    module.TritonBenchmarker.benchmark_gpu = benchmark_gpu


def _keep_random_states(module) -> None:
    from torch_ocl.inductor import random_state

    random_state.register_operators()
    random_state.register_partitioners(module)


def _decompose_less(module) -> None:
    _keep_gradients(module)
    _keep_adaptive_pools(module)


def _keep_gradients(module) -> None:
    """Inductor would make them with scatter_add or index_put, whose order the device keeps by an operator of its own
    and several launches. Left alone those of pooling become sums over windows, fused with what surrounds them, those of
    interpolation are the device's."""
    from torch_ocl.inductor import interpolation

    interpolation.register()
    for name in ("max_pool2d_with_indices_backward", "upsample_nearest2d_backward"):
        overload = getattr(torch.ops.aten, name).default
        former = module.decompositions.get(overload)
        if former is not None:
            module.decompositions[overload] = _elsewhere(former)


def _keep_adaptive_pools(module) -> None:
    from torch_ocl.inductor import pooling

    for name in ("adaptive_max_pool2d", "adaptive_max_pool3d"):
        overload = getattr(torch.ops.aten, name).default
        former = module.decompositions.get(overload)
        if former is not None:
            module.decompositions[overload] = pooling.decomposition_of(former)


def _elsewhere(former):
    @functools.wraps(former)
    def decompose(grad_output, *args, **kwargs):
        return NotImplemented if grad_output.device.type == "ocl" else former(grad_output, *args, **kwargs)

    return decompose


def _keeps_layouts(gm) -> bool:
    """Inductor turns convolutions to channels_last because GPUs' matrix units want that, at the price of a copy of
    every weight in every call. The device's convolutions take either layout: what the model has is kept. A frozen
    model's weights are turned once, and kernels for CPUs run fastest so, which need them packed and then have no cost
    of it."""
    from torch._inductor import config

    return not config.force_layout_optimization and not (_is_frozen(gm) and _is_for_cpus(gm)) and bool(
        _convolutions(gm))


def _is_frozen(gm) -> bool:
    """Whether weights are constants, or will be. Dynamo leaves them inputs where gradients are recorded, and where
    freezing is an option of one torch.compile, which it does not know of."""
    from torch._guards import TracingContext
    from torch._inductor import config

    context = TracingContext.try_get()
    return config.freezing and bool(
        (context and context.params_flat) or any(n.args[1].op == "get_attr" for n in _convolutions(gm)))


def _convolutions(gm) -> list:
    return [n for n in gm.graph.nodes
            if n.target is torch.ops.aten.convolution.default and n.args[0].meta["val"].device.type == "ocl"]


def _is_for_cpus(gm) -> bool:
    """Whether its convolutions are on a CPU, and of images in floating point."""
    def fits(value) -> bool:
        return (value.dim() == 4 and value.dtype in (torch.float32, torch.float16, torch.bfloat16)
                and torch.ocl.get_device_properties(value.device).kind == "cpu")

    return all(fits(n.args[0].meta["val"]) for n in _convolutions(gm))


def _keep_layouts(module) -> None:
    former = module.GraphLowering.decide_layout_opt

    def decide_layout_opt(gm, *, is_inference):
        if _keeps_layouts(gm):
            return False
        from torch._inductor import config

        of_ours = config.layout_optimization and _is_frozen(gm) and bool(_convolutions(gm))
        return of_ours or former(gm, is_inference=is_inference)

    module.GraphLowering.decide_layout_opt = staticmethod(decide_layout_opt)


def _keep_frozen_layouts(module) -> None:
    former = module.convert_conv_weights_to_channels_last

    def convert_conv_weights_to_channels_last(gm) -> None:
        if not _keeps_layouts(gm):
            former(gm)

    module.convert_conv_weights_to_channels_last = convert_conv_weights_to_channels_last
