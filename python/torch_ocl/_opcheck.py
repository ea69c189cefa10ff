"""torch.library.opcheck of operators on the device: PyTorch asks the CPU, CUDA and XPU alone where a gradient is
registered."""

from __future__ import annotations

import torch
from torch_ocl import _after_import


def register() -> None:
    _after_import.adapt({"torch.testing._internal.optests.autograd_registration": _adapt})


def _adapt(module) -> None:
    former = module.autograd_registration_check

    def autograd_registration_check(op, args, kwargs):
        leaves = torch.utils._pytree.arg_tree_leaves(*args, **kwargs)
        inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not any(t.requires_grad for t in inputs) or all(t.device.type != "ocl" for t in inputs):
            return former(op, args, kwargs)
        keys = ("AutogradPrivateUse1", "Autograd", "CompositeImplicitAutograd")
        if any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in keys):
            return None
        with module.set_autograd_fallback_mode("nothing"):
            results = torch.utils._pytree.tree_leaves(op(*args, **kwargs))
        if any(isinstance(r, torch.Tensor) and r.requires_grad and all(r is not t for t in inputs) for r in results):
            raise AssertionError(
                f"{op.name()}: a result requires a gradient, but the operator has no kernel at an autograd key: its "
                "torch.autograd.Function belongs at DispatchKey::Autograd, not at the device's key, or the operator is "
                "composed of others and belongs at CompositeImplicitAutograd")
        return None

    module.autograd_registration_check = autograd_registration_check
